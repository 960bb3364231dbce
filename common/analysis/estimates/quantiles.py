"""Medians and other quantiles, read to the edges of counted cells.

The quantile Q of level q is the least value at which the share of the rows that have at most it is
q or more. A value x is in the set unless a test rejects it::

    rejected: Q < x    if  P(cells below x) - q P(known)            >  z se + 1 / (2 n)
    rejected: Q > x    if  P(cells with any value <= x) - q P(known) < -(z se + 1 / (2 n))

with ``se^2`` the exact variance of the noise of that number, linear in the released shares, plus
``q (1 - q) P(known) / n``, the sampling variance at the level itself; half a row is the correction
for counting. In a group, P is that of the group's rows: a ratio is not needed, so no rule about how
strong a group must be is. The interval reaches from the first to the last value in the set. Each of
the two tests at Q itself errs with probability alpha / 2, so it covers whatever the values are:
also where they pile up, and at bounds.

Inside a cell nothing is known. Taking straight lines there covers .76 to .96, and hardly ever at
heaps, so an end is always an edge, and a number is given where its cell holds one value alone.

Limits: where noise is as large as the steps of the counts the set may reach far; it is honest then.
The distance of the quartiles takes both sets at half of alpha.

Source: inversion of the sign test, C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404-413;
with noise, derived for this project.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimates.answers import Estimate
from dppca.common.analysis.estimates.cell_shares import CellEnds, points, shares_in_cells
from dppca.common.analysis.estimates.intervals import quantile
from dppca.common.analysis.estimates.means import group_name
from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.release import Event, Linear, ReconciledMoments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.schema.attributes import Date, Ordinal

QUARTILES = (0.25, 0.5, 0.75)  # levels between 0 and 1


@dataclass(frozen=True, slots=True)
class Excess:
    """Share of the rows beyond a level, at each of k places: of estimates, (k,).

    ``error`` is their standard error, ``kurtosis`` their excess kurtosis, ``noise`` the noise's
    share of the variance; at places that are not ``tested`` (k,) the answer is public.
    """

    value: Array
    error: Array
    kurtosis: Array
    noise: Array
    tested: NDArray[np.bool_]

    def beyond(self, alpha: float, half: float, sign: int) -> NDArray[np.bool_]:
        """Return where it is above 0 (sign 1), or below (-1), by more than errors allow."""
        z = np.array([_quantile(alpha, float(each)) for each in self.kurtosis])
        return self.tested & (sign * self.value > z * self.error + half)


@lru_cache(maxsize=4096)
def _quantile(alpha: float, excess: float) -> float:
    return quantile(alpha, excess=excess)


@dataclass(frozen=True, slots=True)
class QuantileSet:
    """All values that the two tests allow; ``low`` and ``high`` (k,) are ends of the k places.

    ``half`` is half a row's share.
    """

    low: Array
    high: Array
    below: Excess
    upto: Excess
    half: float
    pvalue: None = None

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the first and the last value of the set."""
        kept = self._kept(alpha, self.half)
        return float(self.low[kept].min()), float(self.high[kept].max())

    @property
    def middle(self) -> int:
        """Return the place of the quantile itself, in the middle where noise leaves several."""
        kept = np.flatnonzero(self._kept(1.0, 0.0))
        return int(kept[len(kept) // 2])

    def _kept(self, alpha: float, half: float) -> NDArray[np.bool_]:
        kept = ~(self.below.beyond(alpha, half, 1) | self.upto.beyond(alpha, half, -1))
        return kept if kept.any() else np.ones_like(kept)


@dataclass(frozen=True, slots=True)
class QuantileRange:
    """Distance of two quantiles, of ``lower`` and of ``upper``; never below 0."""

    lower: QuantileSet
    upper: QuantileSet
    pvalue: None = None

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends: each quantile misses with half of ``alpha``."""
        first, second = (each.interval(alpha / 2) for each in (self.lower, self.upper))
        return max(second[0] - first[1], 0.0), second[1] - first[0]


def check_level(level: float) -> float:
    """Return the level of a quantile; `SettingError` unless it is between 0 and 1."""
    if not 0 < level < 1:
        raise SettingError(f"{level:g} is no level of a quantile: take one between 0 and 1")
    return level


def estimate_quantiles(
    moments: ReconciledMoments,
    scope: EstimateScope,
    attribute: int,
    levels: Sequence[float],
    by: int | None = None,
) -> list[Estimate]:
    """Estimate quantiles of a number, of all rows or of those with each label of ``by``."""
    return [
        _estimate(f"{quantile_name(moments, attribute, level)}{where}", found)
        for where, sets in _sets(moments, scope, attribute, levels, by)
        for level, found in zip(levels, sets, strict=True)
    ]


def estimate_iqr(
    moments: ReconciledMoments, scope: EstimateScope, attribute: int, by: int | None = None
) -> list[Estimate]:
    """Estimate the distance of the quartiles of a number, as `estimate_quantiles`."""
    name, found = moments.study.table.attributes[attribute].name, []
    ends = (QUARTILES[0], QUARTILES[-1])
    for where, (first, last) in _sets(moments, scope, attribute, ends, by):
        low, high = (_value(each) for each in (first, last))
        known = None if low is None or high is None else max(high - low, 0.0)
        share = (_noise_share(first) + _noise_share(last)) / 2
        law = QuantileRange(first, last)
        found.append(Estimate(f"interquartile range of {name}{where}", known, law, None, share))
    return found


def quantile_name(moments: ReconciledMoments, attribute: int, level: float) -> str:
    """Return such as ``median of age``."""
    what = "median" if level == 0.5 else f"quantile {level:g}"
    return f"{what} of {moments.study.table.attributes[attribute].name}"


def quantile_sentences(moments: ReconciledMoments, attribute: int) -> Iterator[str]:
    """Yield what quantiles of a number are about."""
    own = moments.study.table.attributes[attribute]
    assert isinstance(own, Numeric)  # noqa: S101 - others have no quantiles
    lower, upper = map(own.format_value, own.bounds)
    yield "Ends are edges of counted cells: where in its cell a quantile lies is not known."
    yield f"{own.name}: an end at {lower} or {upper} stands for all values beyond it, too."
    if own.missing is not None:
        yield f"{own.name}: of the rows that have it."
    elif isinstance(own, Ordinal):
        yield f"{own.name}: in places of its labels, from 0; unknown and missing as {own.middle:g}."
    else:
        yield (
            f"{own.name}: a missing value counts as {own.format_value(own.middle)}; how many rows "
            "this concerns is not released, and not in the intervals."
        )
    if isinstance(own, Date):
        yield f"{own.name}: in days since 1970-01-01."


def _sets(
    moments: ReconciledMoments,
    scope: EstimateScope,
    attribute: int,
    levels: Sequence[float],
    by: int | None,
) -> list[tuple[str, list[QuantileSet]]]:
    """Return the sets of all levels for each group, which is told in words."""
    if by == attribute:
        name = moments.study.table.attributes[attribute].name
        raise SettingError(f"{name} cannot be compared by its own cells")
    events: list[Event] = [{}]
    if by is None:
        groups = [""]
    else:
        labels = moments.names.labels[by]
        if labels is None:
            name = moments.study.table.attributes[by].name
            raise SettingError(f"{name} has no labels and no cells to make groups of")
        masks = np.eye(len(labels), dtype=bool)
        groups = [f" where {group_name(moments, by, code)}" for code in range(len(labels))]
        events = [{by: mask} for mask in masks]
    ends, shares = shares_in_cells(moments, attribute, events)
    size, rows = ends.n_cells, scope.rows(moments)
    return [
        (where, [quantile_set(ends, shares.part(place * size, size), q, rows) for q in levels])
        for place, where in enumerate(groups)
    ]


def quantile_set(ends: CellEnds, shares: Linear, level: float, rows: float) -> QuantileSet:
    """Return the set of a quantile, from the shares in all cells of ``rows`` independent rows."""
    low, high, below, upto = (np.array(each) for each in zip(*points(ends), strict=True))
    known = np.arange(ends.n_cells) < len(ends.first)
    total = max(float(known @ shares.values), 0.0)
    sampling = level * (1 - level) * total / rows

    def excess(masks: NDArray[np.bool_]) -> Excess:
        weights = np.zeros((len(masks), ends.n_cells))
        weights[:, : masks.shape[1]] = masks
        found = shares.combine(weights - level * known)
        variance = found.noise.variance + sampling
        noise = np.divide(
            found.noise.variance, variance, out=np.zeros(len(variance)), where=variance > 0
        )
        some = ends.first <= ends.last
        tested = np.asarray(masks.any(axis=1) & ~masks[:, some].all(axis=1))
        kurtosis = found.noise.kurtosis * noise**2
        return Excess(found.values, np.sqrt(variance), kurtosis, noise, tested)

    return QuantileSet(low, high, excess(below), excess(upto), 0.5 / rows)


def _estimate(name: str, found: QuantileSet) -> Estimate:
    return Estimate(name, _value(found), found, None, _noise_share(found))


def _value(found: QuantileSet) -> float | None:
    """Return the quantile where its cell holds one value alone."""
    place = found.middle
    low, high = float(found.low[place]), float(found.high[place])
    return low if low == high else None


def _noise_share(found: QuantileSet) -> float:
    return float(found.upto.noise[found.middle])
