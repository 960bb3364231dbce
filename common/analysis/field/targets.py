"""Targets of a pairwise field: marginals and products, with the noise of each.

A release holds column means (weight w), products of columns (weights W_ij) and, for some numerics,
the share of the rows in each cell (weight h); an entry of weight W has noise of variance ``s^2 /
W^2``. Every column's mean is also the sum of its products with all K indicators of a categorical,
so each categorical repeats it with the sum of their variances; all are pooled by their variances.
With mu the resulting means, the rest of a product is ::

    T_ij = M_ij - mu_i mu_j,    var T_ij = s^2 / W_ij^2 + mu_i^2 var mu_j + mu_j^2 var mu_i    (1)

between columns of different attributes. Products with all indicators of one categorical sum to
zero, so their mean is subtracted. Each is clipped to within a standard deviation of its noise of
the range for columns with these marginals (Hoeffding), and to the bound of Cauchy and Schwarz: no
couplings would give more, and the search for them would not end.

Marginals. Shares of labels are likely ones given their noise, neither on one label alone nor below
0 (`dppca.common.analysis.field.label_shares`). A numeric's law over its cells is smooth and
meets its shares, if they are released, its mean and its mean square as far as their noise allows
(`dppca.common.analysis.field.smoothing`). With ``products: bins`` its columns are indicators
like a categorical's, their means are the shares, and nothing else of it alone is released.
Otherwise the field places each value in the middle of its cell; the rows' values may lie elsewhere
in it, at worst all in one place (half of them at the value 40). With c_k and v_k the mean and the
variance of the coordinates in cell k, mean and mean square of a numeric with released shares are
therefore known only to ``sum q_k^2 v_k`` and ``sum q_k^2 4 c_k^2 v_k``, beside their noise; and
mu_i of equation (1) is the mean under the marginal plus the part of the released mean's residual
that is unlikely to be noise.

What tables and trees count of an attribute alone (`dppca.common.analysis.field.margins`) takes part
in all of this: it is pooled with the means of labels, and is the shares of a numeric. A numeric
without a histogram has a law that is partly a guess, or all of it if no table has it; so its mean
and mean square are given on (`Guess`), with the deviations of its shares, to what meets the counts.

Reference: W. Hoeffding, Massstabinvariante Korrelationstheorie, 1940.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.field.cell_values import CellValues
from dppca.common.analysis.field.label_shares import label_shares
from dppca.common.analysis.field.margins import Margin, margins_of, spread_evenly
from dppca.common.analysis.field.smoothing import smooth_marginal
from dppca.common.analysis.field.tilt import Counted
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.privacy.matrix_noise import sum_precisions
from dppca.common.kernel.schema import ColumnKind, Layout, Partition, Schema

_LEAST_NOISE = 2.5e-4  # of the order of the fit's own error
_LEAST_CORRELATION, _LEAST_PRODUCT = 1e-3, 5e-5  # the same, of columns that vary little
_LEAST_SHARE = 1e-6  # of a label: none is impossible because of noise
_LEAST_BINARY_SHARE = 1e-4  # of a binary's rarer label: its logit stays below 9.3
_LEAST_VARIANCE = 1e-6  # of a column, so that divisions have a result
_QUANTILES = 1024  # by which bounds of covariances are computed
_NEARLY = 0.98  # of Hoeffding's bounds, which no finite coupling reaches

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Guess:
    """What is known of a numeric without a histogram.

    Attributes
    ----------
    deviation
        Standard deviations of the shares of its cells, shape (K,).
    moments, noise
        Its mean and mean square in coded units, and the standard deviations of their noise, shapes
        (2,).
    """

    deviation: Vector
    moments: Vector
    noise: Vector


@dataclass(frozen=True, slots=True)
class FieldTargets:
    """Marginals and products of a field's variables.

    Attributes
    ----------
    values
        For each attribute, shape (K, width): the coded columns of each of its K values. A numeric's
        are those of its cells: `CellValues.coordinates`, after 1/2 or 0 for ``missing: indicator``,
        or indicators with ``products: bins``.
    numerics
        For each attribute, the values of its cells; None for labels.
    marginals
        For each attribute, shape (K,): shares, which sum to 1.
    mean, variance
        Moments of the columns under the marginals, shape (p,); variances are at least 1e-6.
    reach
        Distance from the mean at which a column's variance arises, shape (p,): the square root of
        its fourth moment over its second. 1 for rare labels, 1.7 deviations for a bell.
    products
        T of equation (1), shape (p, p), symmetric; 0 inside an attribute.
    noise_variance
        Variance of the noise on each of them, shape (p, p).
    between
        True for two columns of different attributes that can differ from 0, shape (p, p): a numeric
        may have but one cell.
    entry_variance
        Variance of the noise on each released product, shape (p, p).
    mean_variance
        Variance of the noise on each pooled mean, shape (p,).
    numeric
        True for a column that is a number, and not whether a row has a label, shape (p,).
    released_mean
        Means, pooled from all that is released of them, shape (p,).
    released, released_variance
        Released covariances, neither clipped nor smoothed, and the variances of their noise, shapes
        (p, p); 0 inside an attribute, but for the variances of numbers.
    guesses
        For each attribute that is coded as a number without a histogram, what is known of it; None
        for others, whose marginals are known.
    """

    values: tuple[Vector, ...]
    numerics: tuple[CellValues | None, ...]
    marginals: tuple[Vector, ...]
    mean: Vector
    variance: Vector
    reach: Vector
    products: Vector
    noise_variance: Vector
    between: NDArray[np.bool_]
    entry_variance: Vector
    mean_variance: Vector
    numeric: NDArray[np.bool_]
    released_mean: Vector
    released: Vector
    released_variance: Vector
    guesses: tuple[Guess | None, ...]


def field_targets(
    schema: Schema,
    *,
    mean: Vector,
    second: Vector,
    histograms: Sequence[Vector | None],
    entry_noise: float,
    tables: Sequence[tuple[Partition, Counted]] = (),
    count_noise: float | None = None,
    joint: bool = False,
) -> FieldTargets:
    """Compute a field's targets from a release. The schema has bounds: no unit-ball rows.

    ``mean`` and ``second`` are released, in coded units, shapes (p,) and (p, p). ``histograms`` has
    for each attribute the released share of the rows in each of its cells, or None. ``entry_noise``
    is the standard deviation of the noise of an entry of ``second`` of weight 1, and
    ``count_noise`` that of a histogram's share if it is another one. ``tables`` are released ones
    with their counts. ``joint`` says that the noise is that of a whole release.
    """
    layout, noise = schema.layout, max(entry_noise, _LEAST_NOISE)
    entry_variance = noise**2 / layout.product_weights.astype(np.float64) ** 2
    if joint:
        entry_variance[np.diag_indices(layout.n_columns)] *= 2
    numerics = tuple(None if each is None else CellValues.of(each) for each in schema.cells)
    counted = margins_of(numerics, tables)
    pooled, variance_of_mean = _pooled_means(
        layout, mean, second, noise, None if joint else entry_variance, counted
    )
    values, marginals, means = [], [], []
    guesses: list[Guess | None] = []
    for (start, stop), numeric, histogram, margins in zip(
        layout.groups, numerics, histograms, counted, strict=True
    ):
        guess = None
        if numeric is None:
            q = _marginal_of_labels(pooled[start:stop], np.sqrt(variance_of_mean[start:stop]))
            each = _labels(stop - start)
            means.append(q @ each)
        elif layout.kinds[start] is ColumnKind.INDICATOR:
            each = np.eye(stop - start)
            coarse = [one for one in margins if one.functionals is not None]
            q = smooth_marginal(
                np.concatenate([pooled[start:stop], *(one.shares for one in coarse)]),
                np.concatenate(
                    [np.sqrt(variance_of_mean[start:stop]), *(one.noise for one in coarse)]
                ),
                np.concatenate([each, *(one.counts(stop - start) for one in coarse)]),
                widths=numeric.widths,
            ).shares
            means.append(q @ each)
        else:
            own = stop - 1  # after the column for missing values, if there is one
            columns = [*range(start, stop)]
            if histogram is not None:
                of_histogram = np.full(
                    len(histogram), (count_noise or noise) / float(layout.histogram_weight)
                )
                margins = (*margins, Margin(histogram, of_histogram))
            q, real_mean, guess = _numeric_marginal(
                numeric,
                np.array([*pooled[columns], second[own, own]]),
                np.array([*variance_of_mean[columns], entry_variance[own, own]]),
                margins,
            )
            each = _numeric_values(numeric, width=stop - start)
            if histogram is not None:
                guess = None
            means.append(np.array([*(q @ each[:, :-1]), real_mean]))
        values.append(each)
        marginals.append(q)
        guesses.append(guess)
    mu = np.concatenate([q @ each for q, each in zip(marginals, values, strict=True)])
    centred = [each - q @ each for q, each in zip(marginals, values, strict=True)]
    squares, fourths = (
        np.concatenate([q @ each**power for q, each in zip(marginals, centred, strict=True)])
        for power in (2, 4)
    )
    variance = np.maximum(squares, _LEAST_VARIANCE)
    reach = np.sqrt(np.maximum(fourths / variance, _LEAST_VARIANCE))
    attribute = np.asarray(layout.attribute_of)
    occupied = np.concatenate([each.any(axis=0) for each in values])  # else a numeric of one cell
    between = np.not_equal.outer(attribute, attribute) & np.outer(occupied, occupied)
    real = np.concatenate(means)
    crossed = np.outer(real**2, variance_of_mean)
    is_number = np.array([kind is ColumnKind.NUMERIC for kind in layout.kinds])
    # The fit's noise is never below its own error; what is released is known better.
    shrunk = (entry_noise / noise) ** 2
    noise_variance = entry_variance + crossed + crossed.T
    noise_variance = _with_own_error(shrunk * noise_variance, variance, reach, is_number)
    products = _without_means(layout, (second - np.outer(real, real)) * between)
    released, released_variance = _released(
        layout, pooled, second, shrunk * entry_variance, shrunk * variance_of_mean, is_number
    )
    least, most = _attainable(values, marginals, mu)
    margin, bound = np.sqrt(noise_variance), np.sqrt(np.outer(variance, variance))
    products = np.clip(
        products, np.maximum(least - margin, -bound), np.minimum(most + margin, bound)
    )
    return FieldTargets(
        values=tuple(values),
        numerics=numerics,
        marginals=tuple(marginals),
        mean=mu,
        variance=variance,
        reach=reach,
        products=products * between,
        noise_variance=noise_variance,
        between=between,
        entry_variance=entry_variance,
        mean_variance=variance_of_mean,
        numeric=is_number,
        released_mean=pooled,
        released=released,
        released_variance=released_variance,
        guesses=tuple(guesses),
    )


def _with_own_error(
    known: Vector, variance: Vector, reach: Vector, is_number: NDArray[np.bool_]
) -> Vector:
    """Return the noise's variance of each product, never below that of the fit, shape (p, p).

    The fit's error is small for columns that vary little, such as a rare label or a number in a
    small part of its bounds: there the release may know more than a fixed error would leave. Chains
    do not reach what it knows of two numbers; these are moved later
    (`dppca.common.analysis.field.moved_numbers`).
    """
    least = np.maximum(
        _LEAST_CORRELATION * np.sqrt(np.outer(variance, variance)),
        _LEAST_PRODUCT * np.outer(reach, reach),
    )
    least[np.ix_(is_number, is_number)] = _LEAST_NOISE
    noise: Vector = np.maximum(known, np.minimum(least, _LEAST_NOISE) ** 2)
    return noise


def _numeric_marginal(
    numeric: CellValues, moments: Vector, variance: Vector, margins: Sequence[Margin]
) -> tuple[Vector, float, Guess]:
    """Shares of the cells, the mean of the rows' own values, and what is known without `margins`.

    ``moments`` are the released means of its columns and its mean square and ``variance`` their
    noise's variances, shape (2,) or (3,); ``margins`` are released shares.
    """
    centres = numeric.coordinates
    columns = _numeric_values(numeric, width=len(moments) - 1)
    functionals = np.vstack([columns.T, numeric.squares])
    if not margins:
        law = smooth_marginal(moments, np.sqrt(variance), functionals, widths=numeric.widths)
        own = Guess(law.deviation, moments[-2:], np.sqrt(variance[-2:]))
        return law.shares, float(law.shares @ centres), own
    precision = [1 / np.mean(each.noise**2) for each in margins]
    rough = np.average(
        [spread_evenly(each.functionals, each.shares, numeric) for each in margins],
        axis=0,
        weights=precision,
    )
    within = rough**2 * (numeric.squares - centres**2)
    inside = np.array([*[0.0] * (len(moments) - 2), within.sum(), 4 * centres**2 @ within])
    law = smooth_marginal(
        np.concatenate([moments, *(each.shares for each in margins)]),
        np.concatenate([np.sqrt(variance + inside), *(each.noise for each in margins)]),
        np.concatenate([functionals, *(each.counts(len(centres)) for each in margins)]),
        widths=numeric.widths,
    )
    mean = float(law.shares @ centres)
    trust = inside[-2] / (inside[-2] + variance[-2])
    own = Guess(law.deviation, moments[-2:], np.sqrt(variance[-2:]))
    return law.shares, mean + trust * (float(moments[-2]) - mean), own


def _marginal_of_labels(means: Vector, noise: Vector) -> NDArray[np.float64]:
    """Shares of labels from the mean of a binary or the means of a categorical's indicators."""
    if len(means) == 1:  # one share, as precise as two whose noise has twice the variance
        found = label_shares(
            np.array([0.5 - means[0], 0.5 + means[0]]), np.full(2, noise[0] * np.sqrt(2))
        )
        return np.clip(found, _LEAST_BINARY_SHARE, 1 - _LEAST_BINARY_SHARE)
    shares = np.maximum(label_shares(means, noise), _LEAST_SHARE)
    normalised: NDArray[np.float64] = shares / shares.sum()
    return normalised


def _pooled_means(
    layout: Layout,
    mean: Vector,
    second: Vector,
    noise: float,
    entry_variance: Vector | None,
    counted: Sequence[Sequence[Margin]],
) -> tuple[Vector, Vector]:
    """Means and their variances, from sums, products with categoricals, and tables of labels.

    ``entry_variance`` None is noise of a whole release, in which these products say no more.
    """
    weight = layout.scaled_weight / 2**layout.resolution_bits
    precision = np.full(len(mean), (weight / noise) ** 2)
    total = mean * precision
    if entry_variance is None:
        precision = sum_precisions(layout) / noise**2
        total = mean * precision
    for start, stop in layout.groups:
        if layout.kinds[start] is not ColumnKind.INDICATOR or entry_variance is None:
            continue
        others = np.r_[0:start, stop : len(mean)]
        variance = entry_variance[others, start:stop].sum(axis=1)
        total[others] += second[others, start:stop].sum(axis=1) / variance
        precision[others] += 1 / variance
    for (start, stop), margins in zip(layout.groups, counted, strict=True):
        if layout.kinds[stop - 1] is ColumnKind.NUMERIC:
            continue
        for margin in margins:
            if margin.functionals is not None:
                continue
            if stop - start == 1:  # half the difference of two shares
                found, variance = margin.shares[1:] - 0.5, margin.noise[:1] ** 2 / 2
            else:
                found, variance = margin.shares, margin.noise**2
            total[start:stop] += found / variance
            precision[start:stop] += 1 / variance
    return total / precision, 1 / precision


def _released(
    layout: Layout,
    mean: Vector,
    second: Vector,
    variance: Vector,
    variance_of_mean: Vector,
    numeric: NDArray[np.bool_],
) -> tuple[Vector, Vector]:
    """Released covariances and the variances of their noise, by equation (1), shapes (p, p)."""
    attribute = np.asarray(layout.attribute_of)
    between = np.not_equal.outer(attribute, attribute)
    every = second - np.outer(mean, mean)
    crossed = np.outer(mean**2, variance_of_mean)
    covariance = _without_means(layout, every * between) * between
    noise = (variance + crossed + crossed.T) * between
    own = np.flatnonzero(numeric)
    covariance[own, own] = every[own, own]
    noise[own, own] = variance[own, own] + 4 * mean[own] ** 2 * variance_of_mean[own]
    return covariance, noise


def _attainable(
    values: Sequence[Vector], marginals: Sequence[Vector], mean: Vector
) -> tuple[Vector, Vector]:
    """Least and largest covariance of columns with these marginals (Hoeffding), shapes (p, p)."""
    steps = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    rows = []
    for each, q in zip(values, marginals, strict=True):
        for column in each.T:
            order = np.argsort(column, kind="stable")
            last = np.searchsorted(np.cumsum(q[order]), steps).clip(max=len(q) - 1)
            rows.append(column[order][last])
    quantiles = np.array(rows) - mean[:, None]
    with one_blas_thread():
        most = quantiles @ quantiles.T / _QUANTILES
        least = quantiles @ quantiles[:, ::-1].T / _QUANTILES
    least, most = (_NEARLY * (each + each.T) / 2 for each in (least, most))
    return np.minimum(least, 0), np.maximum(most, 0)


def _without_means(layout: Layout, products: Vector) -> Vector:
    """Shift products with the indicators of one categorical so that their sum is 0."""
    for start, stop in layout.groups:
        if layout.kinds[start] is ColumnKind.INDICATOR:
            block = products[:, start:stop]
            block = block - block.mean(axis=1, keepdims=True)
            block[start:stop] = 0
            products[:, start:stop] = block
            products[start:stop] = block.T
    return products


def _numeric_values(numeric: CellValues, *, width: int) -> Vector:
    """Coded columns of a numeric's cells, shape (K, width); with an indicator, width is 2."""
    own = numeric.coordinates[:, None]
    if width == 1:
        return own
    missing = np.zeros_like(own)
    missing[-1] = 0.5
    return np.hstack([missing, own])


def _labels(width: int) -> Vector:
    """Coded columns of each label, shape (labels, width)."""
    return np.array([[-0.5], [0.5]]) if width == 1 else np.eye(width)


def coupling_scales(
    targets: FieldTargets, groups: Sequence[tuple[int, int]]
) -> NDArray[np.float64]:
    """Prior width of the couplings of each pair of columns, by empirical Bayes, shape (p, p).

    For a pair, ``T_ij ~ N(0, S_ij + (v_i v_j k_i k_j tau)^2)`` with S the noise's variance and v
    the variances of the columns; ``log tau ~ N(log tau_0, 1)``, and tau_0 maximises the likelihood
    of all pairs with the same number of numerics together. A coupling is measured per label, and
    per two standard deviations of a numeric, for any bounds: k is 1, or 1 over twice its deviation.
    The width is ``k_i k_j`` times the square root of the posterior mean of ``tau^2``.
    """
    scales = np.geomspace(0.002, 4.0, 48)
    member = np.zeros((len(targets.mean), len(groups)))
    for index, (start, stop) in enumerate(groups):
        member[start:stop, index] = 1
    pairs = np.triu_indices(len(groups), 1)
    label = np.concatenate([np.ptp(each, axis=0) for each in targets.values])
    label[targets.numeric] = 2 * np.sqrt(targets.variance[targets.numeric])
    per_unit = 1 / label
    unit = np.outer(per_unit, per_unit)
    reach = np.outer(targets.variance, targets.variance) * unit
    squares = targets.products**2
    likelihood = np.empty((len(scales), len(pairs[0])))
    for index, scale in enumerate(scales):
        total = targets.noise_variance + (reach * scale) ** 2
        each = -0.5 * (np.log(total) + squares / total)
        likelihood[index] = (member.T @ each @ member)[pairs]
    logs = np.log(scales)

    def weighted(centre: float, of: NDArray[np.float64]) -> NDArray[np.float64]:
        prior = -0.5 * (logs - centre) ** 2
        prior -= np.log(np.exp(prior).sum())
        joint: NDArray[np.float64] = of + prior[:, None]
        return joint

    def evidence(centre: float, of: NDArray[np.float64]) -> float:
        joint = weighted(centre, of)
        top = joint.max(axis=0)
        return float((top + np.log(np.exp(joint - top).sum(axis=0))).sum())

    joint = np.empty_like(likelihood)
    numeric = targets.numeric[[stop - 1 for _, stop in groups]]
    n_numerics = numeric[pairs[0]].astype(int) + numeric[pairs[1]]
    for kind in np.unique(n_numerics):
        alike = likelihood[:, n_numerics == kind]
        centre = max(logs, key=partial(evidence, of=alike))
        joint[:, n_numerics == kind] = weighted(centre, alike)
    posterior = np.exp(joint - joint.max(axis=0))
    posterior /= posterior.sum(axis=0)
    blocks = np.full((len(groups), len(groups)), scales[0])
    blocks[pairs] = np.sqrt(scales**2 @ posterior)
    blocks.T[pairs] = blocks[pairs]
    spread: NDArray[np.float64] = member @ blocks @ member.T
    spread *= unit
    return spread
