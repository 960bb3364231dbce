"""Tables of labels: their cells, independence and Cramer's V, odds ratios and relative risks.

The classical test of independence takes noise for relations: it rejects in nearly every release.
Here the statistic of the reconciled table T with margins r and c,
``sum (T_kl - r_k c_l)^2 / (r_k c_l / n + s^2)``, stands beside its own law: tables of n rows drawn
at the product of the margins (each at least a row) with the study's noise, reconciled. Cramer's V
is ``sqrt(phi^2 / (min(K, L) - 1))`` of ``phi^2 = sum (T_kl - r_k c_l)^2 / (r_k c_l)`` less what
noise and sampling alone give it.

Ratios have score sets. With p11, p10, p01, p00 the shares of rows with and without x, with and
without y, ::

    odds ratio A / B,       A = p11 p00,            B = p10 p01
    relative risk A / B,    A = p11 (p01 + p00),    B = p01 (p11 + p10)

A - r B and its variance, of noise and of multinomial sampling, are taken to first order at the
table that has the ratio r and the margins of p: an empty cell bounds a ratio as its exact interval
does.

Source: J. Cornfield, A statistical problem arising from retrospective studies, Proc. 3rd Berkeley
Symposium 4 (1956) 135-148; P. A. R. Koopman, Biometrics 40 (1984) 513-517.
"""

from collections.abc import Iterator
from itertools import product
from math import exp, inf, log, sqrt

import numpy as np

from dppca.common.analysis.estimates.answers import LEAST, Estimate, NotEstimable
from dppca.common.analysis.estimates.intervals import Drawn
from dppca.common.analysis.estimates.means import group_name
from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.release import Linear, ReconciledMoments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.estimates.score_sets import ScoreAt, ScoreSet
from dppca.common.analysis.estimates.shares import share_of
from dppca.common.kernel.errors import SettingError

DRAWS = 999  # simulated tables, so that a p-value has three digits
MOST_NOISE = 0.1
"""Standard deviation of Cramer's V from which on it is not given."""
_FIRST, _STEP, _LEAST_STEP = 1.9, 1.0, 1e-6
"""First step of a search: standard errors of the logarithm, and at most and at least so much."""
_LARGEST = 700.0  # of which exp is a number
_AT_ONCE = 64  # cells, for memory
_NEGLIGIBLE = 1e-18  # variance: keeps a division where there is no noise


def shares_of_cells(moments: ReconciledMoments, row: int, column: int) -> Iterator[Linear]:
    """Yield the shares of the rows in the cells of a table, row by row, some at once.

    All depend on the same independent noises.
    """
    if row == column:
        raise SettingError("a table needs two different attributes")
    sizes = [len(moments.names.labels[each] or ()) for each in (row, column)]
    rows, columns = (np.eye(size, dtype=bool) for size in sizes)
    events = [{row: one, column: other} for one in rows for other in columns]
    for start in range(0, len(events), _AT_ONCE):
        yield moments.shares(events[start : start + _AT_ONCE])


def estimate_cells(
    moments: ReconciledMoments, scope: EstimateScope, row: int, column: int
) -> list[Estimate]:
    """Estimate the share of the rows in each cell of the table of two attributes."""
    n = scope.rows(moments)
    codes = [range(len(moments.names.labels[each] or ())) for each in (row, column)]
    parts = shares_of_cells(moments, row, column)
    shares = [part.part(place) for part in parts for place in range(len(part.values))]
    return [
        share_of(f"{group_name(moments, row, i)}, {group_name(moments, column, j)}", share, n)
        for (i, j), share in zip(product(*codes), shares, strict=True)
    ]


def estimate_independence(
    moments: ReconciledMoments, scope: EstimateScope, row: int, column: int
) -> list[Estimate]:
    """Test the independence of two attributes, and estimate Cramer's V."""
    rng = np.random.default_rng(moments.seed)
    table, noise = _table(moments, row, column, rng)
    n = scope.rows(moments)
    margins = [np.maximum(table.sum(axis), 1 / moments.n_rows) for axis in (1, 0)]
    r, c = (each / each.sum() for each in margins)
    expected = np.outer(r, c)
    drawn = noise + expected
    if n < inf:
        counts = rng.multinomial(round(n), expected.ravel(), DRAWS).reshape(drawn.shape)
        drawn += counts / round(n) - expected
    weights = 1 / ((expected / n if n < inf else 0) + max(noise.var(axis=0).mean(), _NEGLIGIBLE))
    found = (_centred(table) ** 2 * weights).sum()
    null = (_centred(drawn) ** 2 * weights).sum((1, 2))
    pvalue = float((1 + (null >= found).sum()) / (DRAWS + 1))
    test = Estimate("independence", float(found), Drawn(np.empty(0), pvalue))
    return [test, _cramer(moments, table, drawn, expected)]


def _table(
    moments: ReconciledMoments, row: int, column: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return the table (K, L), and draws of its noise (draws, K, L)."""
    sizes = [len(moments.names.labels[each] or ()) for each in (row, column)]
    parts = list(shares_of_cells(moments, row, column))
    units = parts[0].noise.draw_units(DRAWS, rng)
    drawn = np.concatenate([each.noise.contributions @ units for each in parts])
    table = np.concatenate([each.values for each in parts])
    return table.reshape(sizes), drawn.T.reshape(DRAWS, *sizes)


def _centred(table: Array) -> Array:
    return np.asarray(table - table.sum(-1)[..., :, None] * table.sum(-2)[..., None, :])


def _cramer(moments: ReconciledMoments, table: Array, drawn: Array, expected: Array) -> Estimate:
    """Estimate Cramer's V; its law is that of the table with the draws' deviations once more."""
    most = min(table.shape) - 1
    deviations = _centred(drawn)
    bias = float((deviations**2 / expected).sum((1, 2)).mean())

    def value(phi: Array) -> Array:
        return np.asarray(np.sqrt(np.maximum(phi, 0) / most))

    centred = _centred(table)
    found = float(value(np.array((centred**2 / expected).sum() - bias)))
    again = value(((centred + deviations) ** 2 / expected).sum((1, 2)) - 2 * bias)
    noise = float(again.std())
    if noise >= MOST_NOISE:
        reason = f"the noise of Cramer's V is {noise:.2f}, and at most {MOST_NOISE:g} is shown"
        enough = moments.needed(MOST_NOISE / noise, 1.0)
        counts = moments.study.unit.counts
        refused = NotEstimable(reason, "the table", None, LEAST, *enough, counts=counts)
        return Estimate("Cramer's V", refused=refused)
    return Estimate("Cramer's V", found, Drawn(again), noise)


def two_by_two(
    moments: ReconciledMoments, x: tuple[int, int], y: tuple[int, int], against: int | None
) -> Linear:
    """Return p11, p10, p01 and p00 of a label of x beside all others, or ``against`` one, and y."""
    if x[0] == y[0]:
        raise SettingError("a table needs two different attributes")
    sizes = [len(moments.names.labels[each] or ()) for each, _ in (x, y)]
    has_x, has_y = (np.arange(size) == code for size, (_, code) in zip(sizes, (x, y), strict=True))
    without = ~has_x if against is None else np.arange(sizes[0]) == against
    return moments.shares(
        [{x[0]: one, y[0]: other} for one in (has_x, without) for other in (has_y, ~has_y)]
    )


def estimate_ratio(
    moments: ReconciledMoments,
    scope: EstimateScope,
    x: tuple[int, int],
    y: tuple[int, int],
    *,
    against: int | None,
    odds: bool,
) -> Estimate:
    """Estimate the odds ratio, or the relative risk, of y where x, beside other rows."""
    names = [group_name(moments, *each) for each in (x, y)]
    rest = "other rows" if against is None else group_name(moments, x[0], against)
    name = f"{'odds ratio' if odds else 'relative risk'} of {names[1]}, {names[0]} to {rest}"
    cells = two_by_two(moments, x, y, against)
    p = cells.values
    numbers, gradients = _odds(p) if odds else _risks(p)
    noise, rows = cells.noise, scope.rows(moments)

    def judge(logarithm: float) -> ScoreAt | None:
        """Return A - r B, with its variance at the nearest table of this ratio."""
        ratio = exp(logarithm)
        near = _table_of_odds(p, ratio) if odds else _table_of_risks(p, ratio)
        if near is None:
            return None
        gradient = np.array([1.0, -ratio]) @ (_odds(near) if odds else _risks(near))[1]
        own = noise.combine(gradient[None])
        variance = max(float(near @ gradient**2 - (near @ gradient) ** 2), 0.0) / rows
        value, noised = float(gradient @ (p - near)), float(own.variance[0])
        return ScoreAt(value, value, (noised,) * 2, (variance,) * 2, float(own.kurtosis[0]))

    if min(numbers) <= 0:
        return Estimate(name, law=ScoreSet(judge, 0.0, _STEP, shown=_exp))
    ratio = float(numbers[0] / numbers[1])
    line = np.array([1.0, -ratio]) @ gradients / numbers[1]
    sampling = max(float(np.clip(p, 0, 1) @ line**2 - (p @ line) ** 2), 0.0) / rows
    variance = float(noise.combine(line[None]).variance[0])
    total = variance + sampling
    step = max(_FIRST * sqrt(total) / ratio, _LEAST_STEP)
    law = ScoreSet(judge, log(ratio), min(step, _STEP), shown=_exp)
    share = variance / total if total else 0.0
    return Estimate(name, ratio, law, sqrt(total), share)


def _table_of_odds(p: Array, ratio: float) -> Array | None:
    """Return the table with the margins of p and an odds ratio; None if there are none."""
    total, x, y = p.sum(), p[0] + p[1], p[0] + p[2]
    if not (0 < x < total and 0 < y < total):
        return None
    a, b = ratio - 1, -(total + (ratio - 1) * (x + y))
    root = sqrt(max(b * b - 4 * a * ratio * x * y, 0.0))
    both = 2 * ratio * x * y / (root - b)
    both = min(max(both, 0.0, x + y - total), x, y)
    return np.array([both, x - both, y - both, total - x - y + both])


def _table_of_risks(p: Array, ratio: float) -> Array | None:
    """Return the table with the margins of p and a relative risk, its shares at most 1."""
    total, x, y = p.sum(), p[0] + p[1], p[0] + p[2]
    if not (0 < x < total and 0 < y < total):
        return None
    risk = min(y / (ratio * x + total - x), 1.0, 1 / ratio)
    with_x, without = ratio * risk * x, risk * (total - x)
    return np.array([with_x, x - with_x, without, total - x - without])


def _exp(logarithm: float) -> float:
    return exp(logarithm) if logarithm < _LARGEST else inf


def _odds(p: Array) -> tuple[Array, Array]:
    numbers = np.array([p[0] * p[3], p[1] * p[2]])
    return numbers, np.array([[p[3], 0, 0, p[0]], [0, p[2], p[1], 0]])


def _risks(p: Array) -> tuple[Array, Array]:
    a, b = p[0] + p[1], p[2] + p[3]
    numbers = np.array([p[0] * b, p[2] * a])
    return numbers, np.array([[b, 0, p[0], p[0]], [p[2], p[2], a, 0]])
