"""Decoding of synthetic rows: from PPCA's continuous coordinates to values that a schema allows.

Both steps are post-processing of a release.

1. *Thresholds.* Numerics are shifted so that they have the released mean after clipping to their
   bounds, and are clipped. Binaries are cut at the threshold that keeps the released mean;
   categoricals are ``argmax_k (x_k - tau_k)`` with tau such that the released marginal is met
   (`dppca.common.analysis.field.marginals`). The column that says that a number is missing is cut
   in the same way; where it is, the number is 0, and elsewhere its mean and mean square are the
   released ones over the share of the rows that have one.
2. *Pair tables.* If the released covariance shows a relation with a categorical that the rows of
   step 1 have lost, beyond the noise (`dppca.common.analysis.field.dependences`), all labels
   are redrawn from the field of largest entropy with that relation and the relations that step 1
   kept (`dppca.common.analysis.field.markov_field`). The redrawn rows are used only if their
   covariance is nearer to the target than the covariance of step 1.

Step 2 is skipped without categoricals, where nothing is lost, and for more than 2048 columns, where
it would take minutes. Released means outside the range of values are clipped; for any noise, every
row is valid and each marginal is the released one, made valid, to within a row.

In the unit ball there are only numerics and no bounds: rows of norm above 1 are scaled to norm 1.
"""

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.field.dependences import find_lost_dependences
from dppca.common.analysis.field.marginals import (
    apportion,
    assign,
    binary_share,
    categorical_shares,
    split_by_score,
)
from dppca.common.analysis.field.markov_field import redraw
from dppca.common.kernel.schema.layout import ColumnKind, Layout

MOST_COLUMNS = 2048  # p by p matrices of more take too much time and memory
_HALVINGS = 80  # of the interval in which the shift is sought
_LEAST_VARIANCE = _LEAST_SHARE = 1e-9  # so that nothing is divided by 0

DecodedColumn = NDArray[np.float64] | NDArray[np.int32]
"""One attribute: a numeric in coded units, or codes of labels."""


def discretize(
    coded: NDArray[np.float64],
    layout: Layout,
    *,
    mean: NDArray[np.float64] | None,
    second: NDArray[np.float64],
    entry_noise: float,
    rng: np.random.Generator,
) -> list[DecodedColumn]:
    """Turn coded synthetic rows into columns of attributes.

    Parameters
    ----------
    coded
        Shape (n, p), n >= 1, coded units, drawn by `dppca.common.analysis.spectrum.ppca.sample`:
        rows are exchangeable. Not changed.
    mean, second
        Released moments, shapes (p,) and (p, p); mean is None if the release has no sums.
    entry_noise
        Standard deviation of the noise of an entry of ``second``
        (`dppca.common.analysis.spectrum.noise_edge.entry_noise`), at least 0.
    rng
        Decides ties and redrawn labels; the same state gives the same rows.

    Returns
    -------
    list
        One array of shape (n,) per attribute, in the layout's order: float64 in [-1/2, 1/2] for a
        numeric (in the unit ball: rows of norm at most 1), NaN where an indicator says that it is
        missing, int32 codes otherwise.
    """
    if layout.unit_ball or mean is None:
        norm = np.sqrt(np.square(coded).sum(axis=1))
        return list((coded / np.maximum(norm, 1.0)[:, None]).T.copy())
    means = _clip_means(layout, mean)
    rows = _threshold(coded, layout, means, second.diagonal())
    if ColumnKind.INDICATOR in layout.kinds and layout.n_columns <= MOST_COLUMNS:
        rows = _restore_dependences(rows, layout, mean, second, means, entry_noise, rng)
    return _columns(rows, layout)


def threshold_labels(scores: NDArray[np.float64], released_mean: float) -> NDArray[np.int32]:
    """Labels of a binary's coded coordinate, cut so that the released mean is kept.

    Use it to train on coded rows. Cutting at 0 keeps the mean only if both labels are equally
    common or the model's variance is right; under noise, which inflates it, this cut is the better
    one (NLTCS *money* at epsilon 0.2: accuracy 0.82 against 0.81). ``scores`` has shape (n,);
    ``released_mean`` is the mean of the same column, in coded units.
    """
    return split_by_score(scores, round(binary_share(released_mean) * len(scores)))


def _clip_means(layout: Layout, mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Released means, clipped to means that rows can have."""
    means = np.clip(mean, -0.5, 0.5)
    for start, stop in layout.groups:
        if layout.kinds[start] is ColumnKind.INDICATOR:
            means[start:stop] = categorical_shares(mean[start:stop])
    return means


def _threshold(
    coded: NDArray[np.float64],
    layout: Layout,
    means: NDArray[np.float64],
    squares: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Valid rows in coded units, shape (n, p), by thresholds alone."""
    n = len(coded)
    rows = np.zeros_like(coded)
    for start, stop in layout.groups:
        kind = layout.kinds[start]
        if kind is ColumnKind.NUMERIC:
            rows[:, start] = _clip_about(coded[:, start], means[start])
        elif kind is ColumnKind.MISSING:
            absent = round(min(max(2 * means[start], 0.0), 1.0) * n)
            missing = split_by_score(coded[:, start], absent) > 0
            rows[missing, start] = 0.5
            rows[~missing, start + 1] = _of_present(
                coded[~missing, start + 1],
                means[start + 1] / max(1 - missing.mean(), _LEAST_SHARE),
                squares[start + 1] / max(1 - missing.mean(), _LEAST_SHARE),
            )
        elif kind is ColumnKind.BINARY:
            second = round(binary_share(means[start]) * n)
            rows[:, start] = split_by_score(coded[:, start], second) - 0.5
        else:
            codes = assign(coded[:, start:stop], apportion(means[start:stop], n))
            rows[np.arange(n), start + codes] = 1.0
    return rows


def _of_present(values: NDArray[np.float64], mean: float, square: float) -> NDArray[np.float64]:
    """Stretch and shift values to a mean and a mean square, as far as [-1/2, 1/2] allows."""
    if not len(values):
        return values
    mean = min(max(mean, -0.5), 0.5)
    wider = np.sqrt(max(square - mean**2, 0.0) / max(values.var(), _LEAST_VARIANCE))
    return _clip_about(wider * (values - values.mean()), mean)


def _clip_about(values: NDArray[np.float64], mean: float) -> NDArray[np.float64]:
    """Shift values by bisection so that they have mean ``mean`` once clipped to [-1/2, 1/2]."""
    low, high = -0.5 - values.max(), 0.5 - values.min()
    for _ in range(_HALVINGS):
        shift = (low + high) / 2
        if np.clip(values + shift, -0.5, 0.5).mean() < mean:
            low = shift
        else:
            high = shift
    clipped: NDArray[np.float64] = np.clip(values + high, -0.5, 0.5)
    return clipped


def _restore_dependences(
    rows: NDArray[np.float64],
    layout: Layout,
    mean: NDArray[np.float64],
    second: NDArray[np.float64],
    means: NDArray[np.float64],
    entry_noise: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    covariance = _covariance(rows)
    lost = find_lost_dependences(
        covariance, layout, mean=mean, second=second, entry_noise=entry_noise
    )
    if lost.n_pairs == 0:
        return rows
    kept = [k in (ColumnKind.NUMERIC, ColumnKind.MISSING) for k in layout.kinds]
    mu = np.where(kept, rows.mean(axis=0), means)
    target = covariance + lost.residual
    redrawn = redraw(rows, layout, mu=mu, target=target, rng=rng)
    before = np.linalg.norm(lost.residual)
    between = np.not_equal.outer(np.asarray(layout.attribute_of), np.asarray(layout.attribute_of))
    after = np.linalg.norm((target - _covariance(redrawn)) * between)
    return redrawn if after < before else rows


def _covariance(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = rows - rows.mean(axis=0)
    covariance: NDArray[np.float64] = centred.T @ centred / len(rows)
    return covariance


def _columns(rows: NDArray[np.float64], layout: Layout) -> list[DecodedColumn]:
    columns: list[DecodedColumn] = []
    for start, stop in layout.groups:
        kind = layout.kinds[start]
        if kind is ColumnKind.NUMERIC:
            columns.append(rows[:, start].copy())
        elif kind is ColumnKind.MISSING:
            columns.append(np.where(rows[:, start] > 0, np.nan, rows[:, start + 1]))
        elif kind is ColumnKind.BINARY:
            columns.append((rows[:, start] > 0).astype(np.int32))
        else:
            columns.append(rows[:, start:stop].argmax(axis=1).astype(np.int32))
    return columns
