"""Rows drawn from a pairwise Markov random field with a given covariance.

Of all laws on valid rows with given means and second moments between attributes, the one of largest
entropy is ::

    p(x) ~ exp( sum_i h_i x_i + sum_{i<j} theta_ij x_i x_j )

over columns i, j of different attributes. Its conditional law of one attribute given the others is
a logistic regression on their columns, so rows are drawn by Gibbs sampling, one attribute of all
rows at a time. Stochastic maximum likelihood finds the parameters: rows are kept from one sweep to
the next, and after each sweep ::

    theta_ij += rate (target_ij - covariance_ij of the rows) / ((v_i + d)(v_j + d))
    h_i      -= rate (mean_i of the rows - mu_i) / (v_i + d)

with v_i the variance of column i (so that rare and common categories learn at one pace) and d a
damping. Columns are centred at mu. Numerics are not redrawn, nor whether they are missing: the
labels depend on them.

Rows are float32: with another number of threads a product, and with it a label, can round
differently. To have the same rows again, limit BLAS to one thread, which is also faster. The last
sweep draws by argmax of log-odds plus Gumbel noise (equal to drawing if there are no offsets) under
the quotas of `dppca.common.analysis.field.marginals`: the released marginals are met exactly.

Reference: T. Tieleman, Training restricted Boltzmann machines using approximations to the
likelihood gradient, ICML 2008.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.field.marginals import apportion, assign, split_by_score
from dppca.common.kernel.schema.layout import ColumnKind, Layout

_RATE = 0.3  # share of Newton's step that a sweep takes
_DAMPING = 0.02  # variance added to a column's, so that rare labels do not leap
_FITTING_SWEEPS = 50  # in which the couplings move
_DRAWING_SWEEPS = 15  # of the rows that the fit did not use
_FITTED_PRODUCTS = 1 << 28  # products of columns: limits the work of a sweep
_FEWEST_FITTED_ROWS = 2048  # of the rows, where columns are many
_MOST_FITTED_ROWS = 1 << 14  # of the rows, where columns are few
_TINY = np.float32(1e-30)  # a waiting time may be 0, which has no logarithm

Rows = NDArray[np.float32]


def redraw(
    rows: NDArray[np.float64],
    layout: Layout,
    *,
    mu: NDArray[np.float64],
    target: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Redraw the labels of rows so that the rows' covariance comes near a target.

    The parameters are fitted on the first rows, as many as keep a sweep cheap (16,384 for 104
    columns); the others are drawn from the fitted field.

    Parameters
    ----------
    rows
        Valid rows in coded units, shape (n, p), exchangeable. Not changed.
    mu
        Shape (p,): means to be met. A numeric's is the mean of ``rows``.
    target
        Shape (p, p), symmetric; entries inside an attribute are not used, others are clipped to the
        bounds of Cauchy and Schwarz.

    Returns
    -------
    ndarray, shape (n, p)
        Valid rows: labels redrawn, marginals exactly as in ``mu``, numerics unchanged.
    """
    n, p = rows.shape
    centred = (rows - mu).astype(np.float32)
    theta, h = np.zeros((p, p)), _log_odds(layout, mu)
    fitted = min(n, max(_FEWEST_FITTED_ROWS, min(_MOST_FITTED_ROWS, _FITTED_PRODUCTS // p**2)))
    first, rest = centred[:fitted], centred[fitted:]
    variance = _variances(rows, layout, mu)
    bound = np.sqrt(np.outer(variance, variance))
    aim = np.clip(target, -bound, bound)
    pace = _RATE / (variance + _DAMPING)
    paces = np.outer(pace, pace) / _RATE
    for start, stop in layout.groups:
        paces[start:stop, start:stop] = 0
    labelled = [
        group
        for group, kind in zip(layout.groups, layout.attribute_kinds, strict=True)
        if kind is not ColumnKind.NUMERIC
    ]
    for _ in range(_FITTING_SWEEPS):
        covariance = (first.T @ first).astype(np.float64) / fitted
        theta += paces * (aim - covariance)
        h -= pace * first.mean(axis=0, dtype=np.float64)
        _sweep(first, labelled, mu, theta, h, rng)
    if len(rest):
        for _ in range(_DRAWING_SWEEPS):
            _sweep(rest, labelled, mu, theta, h, rng)
    _sweep(centred, labelled, mu, theta, h, rng, exact=True)
    redrawn = rows.copy()
    for start, stop in labelled:
        redrawn[:, start:stop] = np.rint((centred[:, start:stop] + mu[start:stop]) * 2) / 2
    return redrawn


def _sweep(
    centred: Rows,
    labelled: Sequence[tuple[int, int]],
    mu: NDArray[np.float64],
    theta: NDArray[np.float64],
    h: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    exact: bool = False,
) -> None:
    """Redraw every labelled attribute of centred rows once, in a random order, in place."""
    n = len(centred)
    weights, offsets = theta.astype(np.float32), h.astype(np.float32)
    for index in rng.permutation(len(labelled)):
        start, stop = labelled[index]
        # theta is zero inside an attribute, so its own columns have no effect
        odds = centred @ weights[:, start:stop] + offsets[start:stop]
        if stop - start == 1:
            score = odds[:, 0] + rng.logistic(size=n).astype(np.float32)
            share = mu[start] + 0.5
            codes = (
                split_by_score(score, round(share * n)) if exact else (score > 0).astype(np.int32)
            )
            centred[:, start] = codes - np.float32(share)
        else:
            waits = rng.standard_exponential(odds.shape, dtype=np.float32)
            score = odds - np.log(waits + _TINY)  # minus the log of a waiting time is Gumbel
            if exact:
                codes = assign(score, apportion(mu[start:stop], n))
            else:
                codes = score.argmax(axis=1).astype(np.int32)
            patterns = (np.eye(stop - start) - mu[start:stop]).astype(np.float32)
            centred[:, start:stop] = patterns[codes]


def _variances(
    rows: NDArray[np.float64], layout: Layout, mu: NDArray[np.float64]
) -> NDArray[np.float64]:
    variances = np.empty(len(mu))
    for column, kind in enumerate(layout.kinds):
        if kind is ColumnKind.INDICATOR:
            variances[column] = mu[column] * (1 - mu[column])
        elif kind is ColumnKind.BINARY:
            variances[column] = 0.25 - mu[column] ** 2
        else:
            variances[column] = rows[:, column].var()
    return np.maximum(variances, 0.0)


def _log_odds(layout: Layout, mu: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return h of independent attributes; a share of 0 gets odds of one in a million."""
    least = 1e-6
    log_odds = np.zeros(len(mu))
    for column, kind in enumerate(layout.kinds):
        if kind is ColumnKind.BINARY:
            log_odds[column] = np.log((mu[column] + 0.5 + least) / (0.5 - mu[column] + least))
        elif kind is ColumnKind.INDICATOR:
            log_odds[column] = np.log(mu[column] + least)
    return log_odds
