"""Independence of two attributes, by the study's own noise, and Cramer's V.

The classical test takes noise for relations: it rejects in nearly every release. Here the statistic
of the reconciled table T with margins r and c, ``sum (T_kl - r_k c_l)^2 / (r_k c_l / n + s^2)``,
stands beside its own law: tables of n rows drawn at the product of the margins (each at least a
row) with the study's noise, reconciled. Cramer's V is ``sqrt(phi^2 / (min(K, L) - 1))`` of
``phi^2 = sum (T_kl - r_k c_l)^2 / (r_k c_l)`` less what noise and sampling alone give it.
"""

from math import inf

import numpy as np

from dppca.common.analysis.estimates.answers import LEAST, Estimate, NotEstimable
from dppca.common.analysis.estimates.intervals import Drawn
from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.release import Counts, ReconciledMoments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.kernel.errors import SettingError

DRAWS = 999
MOST_NOISE = 0.1
"""Standard deviation of Cramer's V from which on it is not given."""
_VALUES = 1 << 22
_NEGLIGIBLE = 1e-18


def estimate_independence(
    moments: ReconciledMoments, scope: EstimateScope, row: int, column: int
) -> list[Estimate]:
    """Test the independence of two attributes, and estimate Cramer's V."""
    if row == column:
        raise SettingError("a table needs two different attributes")
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
    """Return the table (K, L) of all sources, and draws of its noise (draws, K, L)."""
    sizes = [len(moments.names.labels[each] or ()) for each in (row, column)]
    masks = [np.eye(size, dtype=bool) for size in sizes]
    sources = list[tuple[Array, Array]]()
    if moments.matrix is not None and moments.study.table.layout.with_sums:
        block = moments.block([row, column])
        sides = [
            [moments.names.vector(block, each, mask) for mask in own]
            for each, own in zip((row, column), masks, strict=True)
        ]
        if all(vector is not None for side in sides for vector in side):
            left, right = (np.array(side) for side in sides)
            step = max(1, _VALUES // len(block.columns) ** 2)
            parts = [
                left @ block.draw(min(step, DRAWS - start), rng) @ right.T
                for start in range(0, DRAWS, step)
            ]
            sources.append((left @ block.matrix @ right.T, np.concatenate(parts)))
    for counts in moments.counts:
        if {row, column} <= set(counts.attributes):
            sources.append(_margin(counts, row, column, rng))
    if not sources:
        moments.shares([{row: masks[0][0], column: masks[1][0]}])  # says why there is none
    scales = np.array([noise.var(axis=0).mean() for _, noise in sources])
    if not scales.all():
        return sources[int(np.argmin(scales))]
    share = 1 / scales / (1 / scales).sum()
    value, noise = (
        np.sum([w * each[part] for w, each in zip(share, sources, strict=True)], axis=0)
        for part in (0, 1)
    )
    return value, noise


def _margin(counts: Counts, row: int, column: int, rng: np.random.Generator) -> tuple[Array, Array]:
    ndim, cells = counts.shares.ndim, counts.shares.size
    axes = [counts.attributes.index(each) - ndim for each in (row, column)]
    others = tuple(axis for axis in range(-ndim, 0) if axis not in axes)

    def project(shares: Array) -> Array:
        table = shares.sum(axis=others)
        return np.asarray(table if axes[0] < axes[1] else np.swapaxes(table, -1, -2))

    value = project(counts.shares + (1 - counts.shares.sum()) / cells)
    drawn = []
    for _ in range(DRAWS):
        z = counts.entry.draw(cells, rng)
        drawn.append(project((z - z.mean()).reshape(counts.shares.shape)))
    return value, np.array(drawn)


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
