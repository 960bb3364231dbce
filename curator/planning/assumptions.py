"""What a plan assumes of data that nobody looks at: the eigenvalues of the joint covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.errors import SettingError
from common.numerics.rehearsal import largest_total_variance
from common.schema.layout import Layout

_ROUNDING = 1e-6  # relative, of eigenvalues that were written down in decimals


@dataclass(frozen=True, slots=True)
class Assumption:
    """Eigenvalues of the joint covariance, and where they come from.

    Attributes
    ----------
    eigenvalues
        Shape (p,), descending, none negative, the first above 0; squared coded units.
    source
        A few words for people.
    """

    eigenvalues: NDArray[np.float64]
    source: str


def power_law(layout: Layout, exponent: float, share: float) -> Assumption:
    """Eigenvalues in proportion to ``i**-exponent`` whose sum is a share of the largest possible.

    The largest is `largest_total_variance`: no table has more. `SettingError` unless the exponent
    is at least 0 and the share above 0 and at most 1.
    """
    if not (np.isfinite(exponent) and exponent >= 0 and 0 < share <= 1):
        message = (
            "a power law needs an exponent of 0 or more and a share above 0 and up to 1, not "
            f"{exponent} and {share}"
        )
        raise SettingError(message)
    raw = np.arange(1, layout.n_columns + 1, dtype=np.float64) ** -exponent
    total = share * largest_total_variance(layout)
    words = f"eigenvalues in proportion to i^-{exponent:g}, together {share:.0%} of the largest"
    return Assumption(raw * (total / raw.sum()), f"{words} total variance the schema allows")


def given_eigenvalues(layout: Layout, values: Sequence[float], source: str) -> Assumption:
    """Eigenvalues from elsewhere: in any order, missing ones are 0, and so are negative ones.

    Raises
    ------
    SettingError
        Not finite, none above 0, more than columns, or more variance than the schema allows.
    """
    found = np.sort(np.asarray(values, dtype=np.float64).ravel())[::-1]
    p = layout.n_columns
    if not len(found) or not np.isfinite(found).all() or found[0] <= 0:
        message = f"the eigenvalues in {source} must be finite, and one of them above 0"
        raise SettingError(message)
    if len(found) > p:
        message = f"{source} holds {len(found)} eigenvalues, but the schema codes {p} columns"
        raise SettingError(message)
    kept = np.zeros(p)
    kept[: len(found)] = np.maximum(found, 0)
    largest = largest_total_variance(layout)
    if kept.sum() > largest * (1 + _ROUNDING):
        message = (
            f"the eigenvalues in {source} add up to {kept.sum():.6g}, but no table under this "
            f"schema has a total variance above {largest:.6g}: give them in squared coded units "
            "(a numeric or binary column has a range of 1)"
        )
        raise SettingError(message)
    return Assumption(kept, f"eigenvalues of {source}")
