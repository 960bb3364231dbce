"""What is said first of a result in which nothing stands above the noise.

The noise edge is a bound on the eigenvalues that noise alone reaches. Noise of a covariance is the
released noise over the number of rows, so the edge falls as one over the rows, and over ε (as far
as δ's logarithm lets it). The sum of all eigenvalues is the variance of the coded rows, with
little noise. So a component with a share s of it would stand above the edge with
``edge / (s * sum)`` times as many rows.
"""

import math
from collections.abc import Sequence

_SHARES = (2, 5, 10, 20, 50, 100)
"""Parts of the variance that a component is imagined to hold: a half, a fifth, and so on."""


def nothing_found(eigenvalues: Sequence[float], edge: float, epsilon: str | None) -> str | None:
    """Return two sentences where no component stands above the noise, and None where one does.

    Parameters
    ----------
    eigenvalues
        All of them, shape (p,), noise included, squared coded units; empty for a study of counts.
    edge
        The largest eigenvalue that noise alone reaches, in the same units.
    epsilon
        What the study cost one person, as a decimal; None where nothing was spent.
    """
    if not eigenvalues or any(value > edge for value in eigenvalues):
        return None
    number = len(eigenvalues)
    which = "its one component" if number == 1 else f"all {number} components"
    spent = "" if epsilon is None else f" ε {epsilon} is spent."
    return f"Nothing was found: {which} may be noise.{spent} {_needed(eigenvalues, edge)}."


def _needed(eigenvalues: Sequence[float], edge: float) -> str:
    """What a component of some share would have needed."""
    variance = math.fsum(eigenvalues)
    for part in _SHARES:
        times = edge * part / variance if variance > 0 else math.inf
        if 1 < times < math.inf:
            factor = f"{times:.1f}" if times < 10 else f"{times:.0f}"
            return (
                f"A component with 1/{part} of the variance would have needed some {factor} times "
                "as many rows, or as much ε, or fewer attributes, or `trust: aggregate`: "
                "`dppca-curator plan` says how many"
            )
    return (
        "More rows, a larger ε, fewer attributes or `trust: aggregate` would be needed: "
        "`dppca-curator plan` says how many"
    )
