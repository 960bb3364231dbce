"""Components of one table: ours beside those of diffprivlib, OpenDP, none and chance.

diffprivlib and OpenDP release eigenvectors one after the other by an exponential mechanism (Amin
and others 2019) and divide epsilon over those that are asked for; both take the number of rows for
public, as we do, and have no delta: beside them stands our Laplace noise, and our Gaussian noise on
a line of its own. Both spend half or a third of epsilon on the mean first; diffprivlib can be told
that rows are centred, at the public middle then. Our release is one, whatever is made of it: the
same for any number of components.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.environments import find_environment, open_guest
from benchmarks.experiment import Found
from benchmarks.performance.registry import GUEST
from benchmarks.rivals.cells import RivalRun, cross
from benchmarks.rivals.component_tables import (
    BALL,
    BOX,
    SMALL,
    TABLES,
    ComponentTable,
    read_table,
    release,
    table_study,
)
from benchmarks.rivals.synthetic import DELTA, EPSILONS

BY = ("subject", "components", "epsilon", "contestant")
COMPONENTS = (3, 10)
EXACT, RANDOM = "exact, no privacy", "a random subspace"
PATIENCE_S = 60.0
OURS = {
    f"DPPCA, {form}, δ = {delta or '0'}": (form, delta)
    for form in (BOX, BALL)
    for delta in (None, DELTA)
}
GUESTS = ("diffprivlib, δ = 0", "diffprivlib, centred rows, δ = 0", "OpenDP, δ = 0")
CONTESTANTS = (EXACT, RANDOM, *OURS, *GUESTS)
ENVIRONMENTS = {
    "diffprivlib": ("diffprivlib-0.6.6", ("diffprivlib==0.6.6", "scikit-learn<1.6")),
    "OpenDP": ("opendp-0.16.0", ("opendp[scikit-learn]==0.16.0",)),
}


def list_cells(*, splits: int, only: str) -> Iterator[RivalRun]:
    """All cells of the table; ``splits`` is the number of draws.

    The least epsilon comes first: with it the others' samplers are fastest.
    """
    for subject in (*SMALL, *TABLES):
        for contestants, epsilons in (((EXACT, RANDOM), ("",)), ((*OURS, *GUESTS), EPSILONS)):
            varied = {
                "subject": [subject],
                "contestant": contestants,
                "epsilon": epsilons,
                "split": range(splits),
                "components": COMPONENTS,
            }
            yield from cross(captured, varied, only=only)


def captured(subject: str, contestant: str, epsilon: str, split: int, components: int) -> Found:
    """Captured share of the variance by the first components.

    Raises
    ------
    GuestError
        There are none, and why.
    """
    table = read_table(subject)
    if contestant == EXACT:
        found = np.linalg.eigh(table.covariance)[1][:, ::-1].T
    elif contestant == RANDOM:
        rng = np.random.default_rng(split)
        found = rng.standard_normal((components, table.rows.shape[1]))
    elif contestant in OURS:
        form, delta = OURS[contestant]
        study = table_study(table, form, owners=1, epsilon=epsilon, delta=delta)
        found = release(table, study, form, seed=split).pooled().vectors
    else:
        found = _guest_components(table, contestant, components, epsilon, split)
    return {"captured": table.captured(found[:components])}


def _guest_components(
    table: ComponentTable, who: str, components: int, epsilon: str, split: int
) -> NDArray[np.float64]:
    python = find_environment(*ENVIRONMENTS[who.split(",")[0]])
    lower, upper = table.bounds
    with tempfile.TemporaryDirectory(prefix="dppca-rivals-") as scratch:
        given, saved = Path(scratch) / "table.npz", Path(scratch) / "components.npy"
        np.savez(given, rows=table.rows, norm=table.norm, lower=lower, upper=upper)
        arguments = (who, str(given), str(components), epsilon, "0", str(split))
        with open_guest(python, GUEST, *arguments, threads=1) as ask:
            ask("fit", PATIENCE_S)
            ask(f"save {saved}")
        found: NDArray[np.float64] = np.load(saved)
    return found
