"""Tables of labels: their cells, independence and Cramer's V, odds ratios and relative risks.

The classical test of independence takes noise for relations: it rejects in nearly every release.
Here the statistic of the reconciled table T with margins r and c,
``sum (T_kl - r_k c_l)^2 / (r_k c_l / n + s^2)``, stands beside its own law: tables of n rows drawn
at the product of the margins (each at least a row) with the study's noise, reconciled. Cramer's V
is ``sqrt(phi^2 / (min(K, L) - 1))`` of ``phi^2 = sum (T_kl - r_k c_l)^2 / (r_k c_l)`` less what
noise and sampling alone give it.

Ratios have Fieller's set. With p11, p10, p01, p00 the shares of rows with and without x, with and
without y, ::

    odds ratio A / B,       A = p11 p00,            B = p10 p01
    relative risk A / B,    A = p11 (p01 + p00),    B = p01 (p11 + p10)

both to first order in the cells; the rows' part is multinomial.
"""

from collections.abc import Iterator
from itertools import product
from math import inf

import numpy as np

from dppca.common.analysis.estimates.answers import LEAST, Estimate, NotEstimable, ratio_estimate
from dppca.common.analysis.estimates.intervals import Drawn
from dppca.common.analysis.estimates.means import group_name, share_of
from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.release import Linear, ReconciledMoments
from dppca.common.analysis.estimates.scope import EstimateScope, too_weak
from dppca.common.kernel.errors import SettingError

DRAWS = 999  # simulated tables, so that a p-value has three digits
MOST_NOISE = 0.1
"""Standard deviation of Cramer's V from which on it is not given."""
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
        refused = NotEstimable(reason, "the table", None, LEAST, *enough)
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
    found = Linear(numbers, cells.noise.combine(gradients))
    sampling = (np.diag(np.clip(p, 0, 1)) - np.outer(p, p)) / scope.rows(moments)
    sampling = gradients @ sampling @ gradients.T
    refused = too_weak(
        *(moments, f"{names[1]}, {rest}", "the denominator is hidden by its noise"),
        size=float(numbers[1]),
        noise=float(found.noise.variance[1]),
        sampling=max(float(sampling[1, 1]), 0.0),
    )
    if refused is not None:
        return Estimate(name, refused=refused)
    return ratio_estimate(name, found, sampling, null=1.0)


def _odds(p: Array) -> tuple[Array, Array]:
    numbers = np.array([p[0] * p[3], p[1] * p[2]])
    return numbers, np.array([[p[3], 0, 0, p[0]], [0, p[2], p[1], 0]])


def _risks(p: Array) -> tuple[Array, Array]:
    a, b = p[0] + p[1], p[2] + p[3]
    numbers = np.array([p[0] * b, p[2] * a])
    return numbers, np.array([[b, 0, p[0], p[0]], [p[2], p[2], a, 0]])
