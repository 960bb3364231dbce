"""Field of strongly dependent binaries, fitted with the whole Fisher matrix.

If all attributes are binary, the field is an Ising model. Attributes as closely related as the
disabilities of one person move together, so the Fisher matrix is far from the diagonal that
`dppca.common.analysis.field.field` assumes. In columns of -1 and 1, with x the singles and the
products of pairs, t their released means, S the variances of the noise and P the precisions of the
prior, the most probable parameters minimise ::

    (t - m)' S^-1 (t - m)  +  theta' P theta                                              (1)

with m the means and F the covariance of x under the law. With ``A = F S^-1 F + P`` a Gauss-Newton
step is ::

    A^-1 (F S^-1 (t - m) - P theta)                                                       (2)

The fit begins with a few such steps; m and F come from chains of Gibbs sampling that are kept from
one step to the next, and the width of the pairs' prior is MacKay's fixed point, ``tau^2 =
mean(theta^2 + diag A^-1)``. Then F is fixed, and many small steps follow, one a sweep, at a falling
rate; the mean of the last half is taken (stochastic approximation). The means of x over these
sweeps are those of the most probable law: the released means with some of their noise removed.
Averaging leaves a common shift of all singles, so at the end the pairs are fixed and the singles
are fitted to those means.

A mean over n chains is off by up to ``n^-1/2`` by their own chance, and rows begin at the chains.
So their number, between 4,096 and 32,768, makes their chance as small as the release's noise; F,
whose chance matters less, is measured on the first 4,096.

References: D. MacKay, Bayesian interpolation, Neural Computation 4 (1992) 415-447; B. Polyak, A.
Juditsky, Acceleration of stochastic approximation by averaging, 1992.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.field.field import Chains, Field, FittedField
from dppca.common.analysis.field.targets import FieldTargets
from dppca.common.kernel.moments.threads import one_blas_thread

MOST_BINARIES = 63
"""Largest number: its 1953 pairs' Fisher matrix and the features of 4,096 chains fit in 100 MB."""
_LEAST_CHAINS = 4096  # chains, whose Fisher matrix is measured
_MOST_CHAINS = 32_768  # a mean is off by 0.006 then
_COARSE = 30  # Gauss-Newton steps of the beginning
_SWEEPS = 5  # of Gibbs sampling in each of them
_MEASURED = 3  # last sweeps of these: the first still follow the step before
_KEPT = 8  # last steps, whose mean F stays
_FINE = 400  # small steps, a sweep each; the last half is averaged
_SINGLES = 60  # sweeps in which singles alone are fitted; the last half is averaged
_SINGLE_PRECISION = 3.0**-2  # deviation 3: one deviation is a share of 99.8 %
_FIRST_WIDTH = 0.3  # of the pairs' prior, in theta, before its first fixed point
_LONGEST = 0.15  # step of an entry of theta: beyond it, F is another one

Vector = NDArray[np.float64]


def fit_binary_field(
    targets: FieldTargets,
    *,
    rng: np.random.Generator,
    progress: Callable[[float], None] | None = None,
) -> FittedField:
    """Fit the field of binaries by equation (1).

    ``targets`` belong to a schema of 2 to `MOST_BINARIES` binaries and nothing else.
    ``progress`` receives the share that is done, from 0 to 1.
    """
    q = len(targets.mean)
    released = _released(targets)
    # Independent singles have the means tanh(theta).
    theta = np.zeros(len(released.means))
    theta[:q] = np.arctanh(np.clip(released.means[:q], -0.98, 0.98))
    chains = Chains.start(targets, _count_chains(float(released.variance[q:].min())), rng)
    fisher, width = np.zeros((len(theta), len(theta))), _FIRST_WIDTH
    # Gauss-Newton: (2) at the chains' m and F, damped at first, while the chains are far off.
    for step in range(_COARSE):
        m, covariance = _measured(chains, _field(targets, theta), rng)
        early = step < _COARSE // 2
        newton = _Newton.at(covariance, released, width=width, q=q, damping=0.3 if early else 0.0)
        theta = theta + (0.5 if early else 0.25) * newton.step(released, m, theta)
        if step >= 5:  # MacKay's fixed point, once the couplings mean something
            width = float(np.clip(np.sqrt(np.mean(theta[q:] ** 2 + newton.spread[q:])), 0.02, 1.0))
        if step >= _COARSE - _KEPT:
            fisher += covariance / _KEPT
        if progress is not None:
            progress((step + 1) / (2 * _COARSE))
    # Stochastic approximation: F and the prior stay; m is one sweep's, and the rate falls.
    newton = _Newton.at(fisher, released, width=width, q=q, damping=0.0)
    mean, m = np.zeros_like(theta), np.zeros_like(theta)
    for sweep in range(_FINE):
        chains.sweep(_field(targets, theta), rng)
        x = _means(chains)
        theta = theta + 0.25 / (1 + 30 * sweep / _FINE) * newton.step(released, x, theta)
        if sweep >= _FINE // 2:
            mean += theta / (_FINE - _FINE // 2)
            m += x / (_FINE - _FINE // 2)
        if progress is not None:
            progress(0.5 + 0.45 * (sweep + 1) / _FINE)
    # The step that would still follow, in standard deviations of the parameters given the release.
    theta, off = mean, newton.step(released, m, mean) / np.sqrt(newton.spread)
    # The singles alone, to the means found: a single's Fisher information is 1 - m^2.
    shares = np.zeros(q)
    for sweep in range(_SINGLES):
        chains.sweep(_field(targets, theta), rng)
        x = 2 * chains.codes.mean(axis=0) - 1
        rate = 0.2 if sweep < _SINGLES // 2 else 0.07
        theta[:q] += rate * (m[:q] - x) / (1.05 - m[:q] ** 2)
        if sweep >= _SINGLES // 2:
            shares += x / (_SINGLES - _SINGLES // 2)
    if progress is not None:
        progress(1.0)
    return FittedField(
        _field(targets, theta),
        chains.codes,
        misfit=float(np.sqrt(np.mean(off**2))),
        pair_misfit=float(np.abs(off[q:]).max()),
        marginal_misfit=float(np.abs(m[:q] - shares).max() / 2),
        marginals=tuple(np.array([1 - each, 1 + each]) / 2 for each in np.clip(m[:q], -1, 1)),
    )


def _count_chains(variance: float) -> int:
    """Return the number of chains with no more chance than noise of this variance, in bounds."""
    return math.ceil(min(max(1 / variance, _LEAST_CHAINS), _MOST_CHAINS))


@dataclass(frozen=True, slots=True)
class _Released:
    """Means of singles and pairs in columns of -1 and 1, and the variances of their noise."""

    means: Vector
    variance: Vector


@dataclass(frozen=True, slots=True)
class _Newton:
    """Equation (2) for one F: ``gain (t - m) - pull theta``; spread is the diagonal of A^-1."""

    gain: NDArray[np.float64]
    pull: NDArray[np.float64]
    spread: Vector

    @classmethod
    def at(
        cls,
        fisher: NDArray[np.float64],
        released: _Released,
        *,
        width: float,
        q: int,
        damping: float,
    ) -> _Newton:
        precision = np.full(len(fisher), width**-2.0)
        precision[:q] = _SINGLE_PRECISION
        with one_blas_thread():
            weighted = fisher / released.variance  # F S^-1: S is diagonal
            curvature = weighted @ fisher + np.diag(precision)
            curvature[np.diag_indices_from(curvature)] *= 1 + damping  # Levenberg and Marquardt's
            inverse = np.linalg.inv(curvature)
            return cls(inverse @ weighted, inverse * precision, np.diag(inverse))

    def step(self, released: _Released, m: Vector, theta: Vector) -> Vector:
        """Step of theta, at most 0.15 in each entry."""
        with one_blas_thread():
            move = self.gain @ (released.means - m) - self.pull @ theta
        return np.clip(move, -_LONGEST, _LONGEST)


def _released(targets: FieldTargets) -> _Released:
    """Released means and noise, converted to columns of -1 and 1 (twice the coded values)."""
    # Products of centred columns, plus the means' product; noise grows by the square of the factor.
    mean = 2 * targets.mean
    pairs = np.triu_indices(len(mean), 1)
    products = np.clip(4 * targets.products + np.outer(mean, mean), -0.999, 0.999)[pairs]
    noise = 16 * targets.entry_variance[pairs]
    return _Released(np.r_[mean, products], np.r_[4 * targets.mean_variance, noise])


def _means(chains: Chains) -> Vector:
    """Means of singles and pairs over all states in columns of -1 and 1."""
    signs = (2 * chains.codes - 1).astype(np.float32)
    with one_blas_thread():
        sums = (signs.T @ signs).astype(np.float64)  # exact: whole numbers below 2^24
    pairs = sums[np.triu_indices(signs.shape[1], 1)]
    means: Vector = np.concatenate([signs.sum(axis=0, dtype=np.float64), pairs]) / len(signs)
    return means


def _features(chains: Chains) -> NDArray[np.float32]:
    """Singles and pairs of the first states in columns of -1 and 1, shape (4096, q + pairs)."""
    signs = (2 * chains.codes[:_LEAST_CHAINS] - 1).astype(np.float32)
    i, j = np.triu_indices(signs.shape[1], 1)
    return np.concatenate([signs, signs[:, i] * signs[:, j]], axis=1)


def _measured(
    chains: Chains, field: Field, rng: np.random.Generator
) -> tuple[Vector, NDArray[np.float64]]:
    """Means of singles and pairs over the last sweeps, and their covariance."""
    means, covariances = [], []
    for sweep in range(_SWEEPS):
        chains.sweep(field, rng)
        if sweep >= _SWEEPS - _MEASURED:
            means.append(_means(chains))
            x = _features(chains)
            own = x.mean(axis=0, dtype=np.float64)
            with one_blas_thread():
                products = (x.T @ x).astype(np.float64) / len(x)
            covariances.append(products - np.outer(own, own))
    return np.mean(means, axis=0), np.mean(covariances, axis=0)


def _field(targets: FieldTargets, theta: Vector) -> Field:
    """Field whose parameters in columns of -1 and 1 are theta: singles, then pairs."""
    q = len(targets.mean)
    pairs = np.zeros((q, q))
    pairs[np.triu_indices(q, 1)] = theta[q:]
    pairs += pairs.T
    # (2 x_i)(2 x_j) is 4 z_i z_j and a part that is linear in each, which goes into the biases.
    linear = 2 * theta[:q] + 4 * pairs @ targets.mean
    return Field(4 * pairs, tuple(np.array([-each, each]) / 2 for each in linear))
