"""What a pairwise field has to meet: marginals and products, with the noise that each carries.

A release holds column means (weight w) and products of columns. Every column's mean is also the
sum of its products with all K indicators of a categorical, so each categorical repeats it with the
variance ``K s^2``; both are pooled by their variances. With mu the means of the marginals that
result, what is left of a product is ::

    T_ij = M_ij - mu_i mu_j,    var T_ij = s^2 + mu_i^2 var mu_j + mu_j^2 var mu_i     (1)

between columns of different attributes. Products with all indicators of one categorical sum to
nothing, so their mean is taken out; and Cauchy and Schwarz bound each.

Marginals. A categorical's shares are projected on the simplex, a binary's share is clipped. A
numeric has equal bins between its bounds; its law is ``q = softmax(f)`` with smooth f, which meets
the released mean and mean square as far as their noise allows (`smooth_marginal`).

Reference: W. Wang, M. Carreira-Perpinan, Projection onto the probability simplex, 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.schema.layout import ColumnKind, Layout

N_BINS = 32
_LEAST_NOISE = 2.5e-4  # of the order of the fit's own error
_LEAST_SHARE = 1e-6
_LEAST_BINARY_SHARE = 1e-4
_LEAST_VARIANCE = 1e-6
_SMOOTHNESSES = (0.1, 0.3, 1.0, 3.0)
_RIDGE = 1e-3
_STEPS = 60

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FieldTargets:
    """Marginals and products of a field's variables.

    Attributes
    ----------
    values
        For each attribute, shape (K, width): the coded columns of each of its K values. A numeric's
        are the centres of its bins.
    marginals
        For each attribute, shape (K,): shares, which sum to 1.
    mean, variance
        Shape (p,): of the columns under the marginals; variances are at least 1e-6.
    products
        T of equation (1), shape (p, p), symmetric; 0 inside an attribute.
    noise_variance
        Shape (p, p): of the noise on each of them.
    between
        Shape (p, p): whether two columns are of different attributes.
    entry_variance
        Of the noise on a released product.
    mean_variance
        Shape (p,): of the noise on each pooled mean.
    """

    values: tuple[Vector, ...]
    marginals: tuple[Vector, ...]
    mean: Vector
    variance: Vector
    products: Vector
    noise_variance: Vector
    between: NDArray[np.bool_]
    entry_variance: float
    mean_variance: Vector


def field_targets(
    layout: Layout, *, mean: Vector, second: Vector, entry_noise: float
) -> FieldTargets:
    """Find what a field has to meet in a release.

    Parameters
    ----------
    layout
        Of a schema with bounds: no unit-ball rows.
    mean, second
        As released, in coded units, shapes (p,) and (p, p).
    entry_noise
        Standard deviation of the noise of an entry of ``second``.
    """
    groups, kinds = layout.groups, layout.kinds
    weight = layout.scaled_weight / 2**layout.resolution_bits
    noise = max(entry_noise, _LEAST_NOISE)
    pooled, variance_of_mean = _pooled_means(layout, mean, second, noise, weight)
    values = tuple(_values(kinds[start], stop - start) for start, stop in groups)
    deviation = np.sqrt(np.stack([variance_of_mean, np.full(len(mean), noise**2)]))
    marginals = [
        _numeric_marginal(each[:, 0], pooled[start], second[start, start], deviation[:, start])
        if kinds[start] is ColumnKind.NUMERIC
        else _marginal_of_labels(pooled[start:stop])
        for (start, stop), each in zip(groups, values, strict=True)
    ]
    mu = np.concatenate([q @ each for q, each in zip(marginals, values, strict=True)])
    squares = np.concatenate([q @ each**2 for q, each in zip(marginals, values, strict=True)])
    variance = np.maximum(squares - mu**2, _LEAST_VARIANCE)
    attribute = np.asarray(layout.attribute_of)
    between = np.not_equal.outer(attribute, attribute)
    crossed = np.outer(mu**2, variance_of_mean)
    bound = np.sqrt(np.outer(variance, variance))
    products = np.clip(_without_means(layout, (second - np.outer(mu, mu)) * between), -bound, bound)
    return FieldTargets(
        values=values,
        marginals=tuple(marginals),
        mean=mu,
        variance=variance,
        products=products,
        noise_variance=noise**2 + crossed + crossed.T,
        between=between,
        entry_variance=noise**2,
        mean_variance=variance_of_mean,
    )


def _numeric_marginal(
    bins: Vector, mean: float, square: float, deviation: Vector
) -> NDArray[np.float64]:
    spread = 1 / (12 * len(bins) ** 2)  # the variance of values within a bin
    return smooth_marginal(np.array([mean, square - spread]), deviation, np.stack([bins, bins**2]))


def _marginal_of_labels(means: Vector) -> NDArray[np.float64]:
    """Shares of labels from the mean of a binary, or those of a categorical's indicators."""
    if len(means) == 1:
        share = float(np.clip(means[0] + 0.5, _LEAST_BINARY_SHARE, 1 - _LEAST_BINARY_SHARE))
        return np.array([1 - share, share])
    shares = np.maximum(_on_the_simplex(means), _LEAST_SHARE)
    normalised: NDArray[np.float64] = shares / shares.sum()
    return normalised


def smooth_marginal(
    observed: Vector, noise: Vector, functionals: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Shares of K ordered bins from noisy linear functionals of them.

    The law is ``q = softmax(f)`` with ``f[k + 1] - f[k] ~ N(0, t^2)``. f maximises the posterior,
    by damped Gauss-Newton steps; t is the one of a few with the largest evidence (Laplace's
    approximation).

    Parameters
    ----------
    observed, noise
        Shape (L,): what was released, and the standard deviation of its noise.
    functionals
        Shape (L, K): row l gives ``functionals[l] @ q``, which is observed.

    Returns
    -------
    ndarray, shape (K,)
        All above 0; they sum to 1.
    """
    n_bins = functionals.shape[1]
    differences = np.diff(np.eye(n_bins), axis=0)
    best_evidence, best = -np.inf, np.full(n_bins, 1 / n_bins)
    scale = np.maximum(noise, 1e-6)
    for smoothness in _SMOOTHNESSES:
        prior = differences.T @ differences / smoothness**2 + _RIDGE * np.eye(n_bins)
        q, cost, curvature = _most_probable(observed / scale, functionals / scale[:, None], prior)
        evidence = -cost / 2 - np.linalg.slogdet(curvature)[1] / 2 + np.linalg.slogdet(prior)[1] / 2
        if evidence > best_evidence:
            best_evidence, best = evidence, q
    return best


def _most_probable(
    observed: Vector, functionals: Vector, prior: Vector
) -> tuple[Vector, float, Vector]:
    """softmax(f) of the f that minimises |observed - L q|^2 + f'Pf, the minimum, its curvature."""

    def cost_at(f: Vector) -> tuple[float, Vector, Vector]:
        weights = np.exp(f - f.max())
        q = weights / weights.sum()
        residual = observed - functionals @ q
        return float(residual @ residual + f @ prior @ f), q, residual

    f, damping = np.zeros(functionals.shape[1]), 1e-2
    cost, q, residual = cost_at(f)
    for _ in range(_STEPS):
        jacobian = functionals * q - np.outer(functionals @ q, q)
        curvature = jacobian.T @ jacobian + prior
        damped = curvature + damping * np.diag(np.diag(curvature))
        step = np.linalg.solve(damped, jacobian.T @ residual - prior @ f)
        there = cost_at(f + step)
        if there[0] < cost:
            settled = cost - there[0] < 1e-6 * cost
            f, (cost, q, residual), damping = f + step, there, max(damping / 5, 1e-9)
            if settled:
                break
        else:
            damping *= 5
            if damping > 1e8:
                break
    jacobian = functionals * q - np.outer(functionals @ q, q)
    return q, cost, jacobian.T @ jacobian + prior


def _pooled_means(
    layout: Layout, mean: Vector, second: Vector, noise: float, weight: float
) -> tuple[Vector, Vector]:
    """Means and their variances, from the sums and from the products with each categorical."""
    precision = np.full(len(mean), (weight / noise) ** 2)
    total = mean * precision
    for start, stop in layout.groups:
        if layout.kinds[start] is not ColumnKind.INDICATOR:
            continue
        others = np.r_[0:start, stop : len(mean)]
        variance = (stop - start) * noise**2
        total[others] += second[others, start:stop].sum(axis=1) / variance
        precision[others] += 1 / variance
    return total / precision, 1 / precision


def _without_means(layout: Layout, products: Vector) -> Vector:
    """Products with the indicators of one categorical made to sum to 0."""
    for start, stop in layout.groups:
        if layout.kinds[start] is ColumnKind.INDICATOR:
            block = products[:, start:stop]
            block = block - block.mean(axis=1, keepdims=True)
            block[start:stop] = 0
            products[:, start:stop] = block
            products[start:stop] = block.T
    return products


def _values(kind: ColumnKind, width: int) -> Vector:
    if kind is ColumnKind.NUMERIC:
        return ((np.arange(N_BINS) + 0.5) / N_BINS - 0.5)[:, None]
    if kind is ColumnKind.BINARY:
        return np.array([[-0.5], [0.5]])
    return np.eye(width)


def _on_the_simplex(shares: Vector) -> Vector:
    """The nearest shares that are at least 0 and sum to 1."""
    ordered = np.sort(shares)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(shares) + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]]
    projected: Vector = np.maximum(shares - threshold, 0.0)
    return projected


def coupling_scales(
    targets: FieldTargets, groups: Sequence[tuple[int, int]]
) -> NDArray[np.float64]:
    """Prior width of the couplings of each pair of attributes, by empirical Bayes.

    For a pair, ``T_ij ~ N(0, S_ij + (v_i v_j tau)^2)`` with S the noise's variance and v the
    variances of the columns; ``log tau ~ N(log tau_0, 1)``, and tau_0 maximises the likelihood of
    all pairs together.

    Returns
    -------
    ndarray, shape (p, p)
        Posterior mean of ``tau^2``, square root of it, for each pair of columns; at least 0.002.
    """
    scales = np.geomspace(0.002, 4.0, 48)
    member = np.zeros((len(targets.mean), len(groups)))
    for index, (start, stop) in enumerate(groups):
        member[start:stop, index] = 1
    pairs = np.triu_indices(len(groups), 1)
    reach = np.outer(targets.variance, targets.variance)
    squares = targets.products**2
    likelihood = np.empty((len(scales), len(pairs[0])))
    for index, scale in enumerate(scales):
        total = targets.noise_variance + (reach * scale) ** 2
        each = -0.5 * (np.log(total) + squares / total)
        likelihood[index] = (member.T @ each @ member)[pairs]
    logs = np.log(scales)

    def weighted(centre: float) -> NDArray[np.float64]:
        prior = -0.5 * (logs - centre) ** 2
        prior -= np.log(np.exp(prior).sum())
        return likelihood + prior[:, None]

    def evidence(centre: float) -> float:
        joint = weighted(centre)
        top = joint.max(axis=0)
        return float((top + np.log(np.exp(joint - top).sum(axis=0))).sum())

    joint = weighted(max(logs, key=evidence))
    posterior = np.exp(joint - joint.max(axis=0))
    posterior /= posterior.sum(axis=0)
    blocks = np.full((len(groups), len(groups)), scales[0])
    blocks[pairs] = np.sqrt(scales**2 @ posterior)
    blocks.T[pairs] = blocks[pairs]
    spread: NDArray[np.float64] = member @ blocks @ member.T
    return spread
