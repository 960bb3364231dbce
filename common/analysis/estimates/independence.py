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
from dppca.common.analysis.estimates.release import ReconciledMoments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.estimates.tables import shares_of_cells

DRAWS = 999
MOST_NOISE = 0.1
"""Standard deviation of Cramer's V from which on it is not given."""
_NEGLIGIBLE = 1e-18


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
