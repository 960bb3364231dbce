"""Assumption of a plan that reads no data: the eigenvalues of the joint covariance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from dppca.common.analysis.forecast import largest_total_variance, power_spectrum
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema.layout import Layout

_ROUNDING = 1e-6  # relative, for eigenvalues written in decimals


@dataclass(frozen=True, slots=True)
class Assumption:
    """Eigenvalues of the joint covariance, p of them; the first is above 0, none is negative."""

    eigenvalues: Annotated[tuple[float, ...], "descending, squared coded units"]
    source: Annotated[str, "where they are from, in words"]
    is_best_case: Annotated[bool, "whether no table under the schema has more variance"] = False


def power_law(layout: Layout, exponent: float, share: float) -> Assumption:
    """Eigenvalues in proportion to ``i**-exponent`` whose sum is a share of the largest possible.

    The largest sum is `largest_total_variance`: no table has more. Raise `SettingError` unless the
    exponent is at least 0 and the share above 0 and at most 1.
    """
    if not (np.isfinite(exponent) and exponent >= 0 and 0 < share <= 1):
        raise SettingError(
            "a power law needs an exponent of 0 or more and a share above 0 and up to 1, not "
            f"{exponent} and {share}"
        )
    words = f"eigenvalues in proportion to i^-{exponent:g}, together {share:.0%} of the largest"
    words = f"{words} total variance the schema allows"
    values = power_spectrum(layout, exponent=exponent, share=share)
    return Assumption(tuple(values.tolist()), words, is_best_case=share == 1)


def given_eigenvalues(layout: Layout, values: Sequence[float], source: str) -> Assumption:
    """Sort given eigenvalues; missing and negative ones count as 0.

    Raise `SettingError` if they are not finite, none is above 0, there are more than columns, or
    they have more variance than the schema allows.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64).ravel())[::-1]
    p = layout.n_columns
    if not len(ordered) or not np.isfinite(ordered).all() or ordered[0] <= 0:
        raise SettingError(f"the eigenvalues in {source} must be finite, and one of them above 0")
    if len(ordered) > p:
        raise SettingError(
            f"{source} holds {len(ordered)} eigenvalues, but the schema codes {p} columns"
        )
    padded = np.zeros(p)
    padded[: len(ordered)] = np.maximum(ordered, 0)
    largest = largest_total_variance(layout)
    if padded.sum() > largest * (1 + _ROUNDING):
        raise SettingError(
            f"the eigenvalues in {source} add up to {padded.sum():.6g}, but no table under this "
            f"schema has a total variance above {largest:.6g}: give them in squared coded units "
            "(a numeric or binary column has a range of 1)"
        )
    return Assumption(tuple(padded.tolist()), f"eigenvalues of {source}")
