"""Standard deviations of a number, of all rows or of those with each label of an attribute.

Of all rows it is of the released squares. The rows' part of its variance is bounded without any
assumption: for values that are at most D from their mean, the variance of squared distances is at
most ``s^2 (D^2 - s^2)`` (Bhatia and Davis).

Squares by label are not released. But where a table counts the cells of the number beside the
labels, with p_k the share of the rows that are in cell k and in the group, the variance V of the
group is known to be within ::

    min_c sum_k p_k near_k(c)^2  <=  V sum_k p_k  <=  min_c sum_k p_k far_k(c)^2          (1)

near and far are the distances of c from the nearest and the furthest value of a cell. Where each
cell holds one value they are the same, and so is V; else where in its cell a value lies is not
known, and the interval reaches from the lower end of the one to the upper end of the other. At the
c where a side is least its slope is 0, so that the noise of the shares alone counts: each side is a
ratio (Fieller's set). The least c lies between the means of the first and of the last values of the
cells. Both are linear in the shares, which are not cut at 0: cut ones would draw c to the middle.

Source: R. Bhatia and C. Davis, A better bound on the variance, Amer. Math. Monthly 107 (2000); (1)
is derived for this project.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from dppca.common.analysis.estimates.answers import Estimate, ratio_estimate
from dppca.common.analysis.estimates.cell_shares import CellEnds, shares_in_cells
from dppca.common.analysis.estimates.intervals import Interval, Normal
from dppca.common.analysis.estimates.means import group_name
from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.release import Event, Linear, ReconciledMoments, bilinear
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.estimates.variables import Variable
from dppca.common.kernel.errors import SettingError

_TRIED, _ROUNDS = 65, 5  # values of c of a round, and rounds: within 1e-8 of the range


@dataclass(frozen=True, slots=True)
class RootOf:
    """The root of a number of at least 0, or of one that is known to be between two."""

    lower: Interval
    upper: Interval

    pvalue: None = None

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends."""
        low, high = self.lower.interval(alpha)[0], self.upper.interval(alpha)[1]
        return sqrt(max(low, 0.0)), sqrt(max(high, 0.0))


def estimate_spread(moments: ReconciledMoments, scope: EstimateScope, y: Variable) -> Estimate:
    """Estimate the standard deviation of a number that no row lacks."""
    name = f"standard deviation of {y.name}"
    block = moments.block([y.attribute])
    one, coded = block.unit(0), y.coded(block)
    found = bilinear(block, np.array([coded, coded]), np.array([coded, one]))
    square, mean = found.values
    moved = found.combine(np.array([[1.0, -2 * mean]]))
    variance = max(float(square - mean**2), 0.0)
    most = (0.5 + abs(min(max(mean, -0.5), 0.5))) ** 2
    sampling = variance * max(most - variance, 0.0) / scope.rows(moments)
    noise = float(moved.noise.variance[0])
    total = noise + sampling
    share = noise / total if total else 0.0
    scale = y.factor**2
    law = Normal(
        *(float(square - mean**2) * scale, sqrt(total) * scale),
        float(moved.noise.kurtosis[0]) * share**2,
        lowest=0.0,
        highest=most * scale,
    )
    if not variance:  # the noise hides it: an interval from 0 is all that is known
        return Estimate(name, None, RootOf(law, law), None, share)
    deviation = sqrt(variance) * abs(y.factor)
    se = sqrt(total) * scale / (2 * deviation)
    return Estimate(name, deviation, RootOf(law, law), se, share)


def estimate_spreads(
    moments: ReconciledMoments, scope: EstimateScope, attribute: int, by: int | None = None
) -> list[Estimate]:
    """Estimate the standard deviation of a number where an attribute has each label.

    Without ``by``, of all rows that have the number. `SettingError` if the cells that this needs
    were not counted.
    """
    name = moments.study.table.attributes[attribute].name
    if by == attribute:
        raise SettingError(f"{name} cannot be compared by its own cells")
    events, groups = list[Event]([{}]), [""]
    if by is not None:
        labels = moments.names.labels[by]
        if labels is None:
            own = moments.study.table.attributes[by].name
            raise SettingError(f"{own} has no labels and no cells to make groups of")
        events = [{by: mask} for mask in np.eye(len(labels), dtype=bool)]
        groups = [f" where {group_name(moments, by, code)}" for code in range(len(labels))]
    ends, shares = shares_in_cells(moments, attribute, events)
    size, rows = ends.n_cells, scope.rows(moments)
    return [
        _of_cells(
            f"standard deviation of {name}{where}", ends, shares.part(place * size, size), rows
        )
        for place, where in enumerate(groups)
    ]


def _of_cells(name: str, ends: CellEnds, shares: Linear, rows: float) -> Estimate:
    """Estimate the deviation of a group from its shares in all cells, of independent rows."""
    some = np.flatnonzero(ends.first <= ends.last)  # parts of whole numbers may be empty
    first, last = ends.first[some], ends.last[some]
    found = shares.combine(np.eye(ends.n_cells)[some])
    exact = bool((first == last).all())
    sides = [
        _side(found, first, last, rows, far=far) for far in ((True,) if exact else (False, True))
    ]
    laws = [each.law for each in sides]
    assert None not in laws  # noqa: S101 - a ratio always has one
    law, share = RootOf(laws[0], laws[-1]), sides[-1].noise_share  # type: ignore[arg-type]
    known, error = sides[0].estimate, sides[0].bse
    if not exact or known is None or error is None or known <= 0:
        return Estimate(name, None, law, None, share)
    return Estimate(name, sqrt(known), law, error / (2 * sqrt(known)), share)


def _side(found: Linear, first: Array, last: Array, rows: float, *, far: bool) -> Estimate:
    """Estimate one side of equation (1) over the share of the rows."""
    p = np.maximum(found.values, 0.0)
    away = _away(_least(found.values, first, last, far=far), first, last, far=far)
    weights = np.stack([away**2, np.ones(len(p))])
    sampling = (weights * p) @ weights.T - np.outer(weights @ p, weights @ p)
    most = ((last.max() - first.min()) / 2) ** 2
    both = found.combine(weights)
    return ratio_estimate("", both, sampling / rows, lowest=0.0, highest=float(most))


def _away(centre: float | Array, first: Array, last: Array, *, far: bool) -> Array:
    """Distance of a value from the nearest or furthest value of each cell, with its sign."""
    below, above = first - centre, last - centre
    if far:
        return np.where(np.abs(below) > np.abs(above), below, above)
    return np.maximum(below, 0) + np.minimum(above, 0)


def _least(p: Array, first: Array, last: Array, *, far: bool) -> float:
    """Return where a side of equation (1) is least, between the means of the cells' ends."""
    weights = next(each for each in (p, np.maximum(p, 0), np.ones(len(p))) if each.sum() > 0)
    means = np.array([weights @ first, weights @ last]) / weights.sum()
    low, high = np.sort(np.clip(means, first.min(), last.max()))
    for _ in range(_ROUNDS if low < high else 0):
        tried = np.linspace(low, high, _TRIED)
        sums = _away(tried[:, None], first, last, far=far) ** 2 @ p
        best = int(sums.argmin())
        low, high = tried[max(best - 1, 0)], tried[min(best + 1, _TRIED - 1)]
    return float(low + high) / 2
