"""Shares of a numeric's cells from noisy linear functionals of them.

With m_k the width of interval k on the score's scale, the law is ``q_k ~ m_k exp(f_k)``, so f is
the logarithm of a density and the prior does not depend on the cells' cuts. In the prior, the slope
of f walks: over a distance d, in fortieths of the range between the bounds, it moves by ``N(0, t^2
d)``. Smooth laws, such as normal ones and their mixtures, suit a small t, laws with jumps a large
one. For heaped values, such as hours of which half are 40, a second kind of prior adds ``N(0,
u^2)`` to each cell alone. Spikes and missing values are outside the walk: each holds as much as
all intervals together, give or take two in the logarithm.

For each prior, f is the most probable one given the release, by damped Gauss-Newton steps; the laws
are averaged with their evidence (Laplace's approximation) as weights. If the noise is small, every
one of them follows the release.

Measured on 40 cells, total variation of the cells at noise of 0.003 a share; in brackets if f
itself walks instead of its slope: normal .017 (.033), two humps .025 (.031), log-normal .009
(.012), Adult's age .023 (.030), hours .034 (.033).

References: C. Rasmussen, C. Williams, Gaussian processes for machine learning, 2006, section 3.4
(Laplace's approximation); D. MacKay, Bayesian interpolation, Neural Computation 4 (1992) 415-447.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RANGE = 40.0  # distance between the bounds: the unit is a fortieth of it
_BENDS = (0.03, 0.1, 0.3, 1.0)  # t of the priors, from smooth to jumping laws
_ROUGH = ((0.1, 1.0), (0.3, 2.0))  # t and u of the priors for heaped values
_RISE = 20.0  # deviation of a rise over distance 1: a loose bound
_SPIKE_PRECISION = 2.0**-2  # of a spike's logarithm: give or take two
_STEPS = 60  # of the damped Gauss-Newton method, at most

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SmoothMarginal:
    """Shares of K cells, all above 0 and of sum 1, and their standard deviations: shapes (K,)."""

    shares: Vector
    deviation: Vector


def smooth_marginal(
    observed: Vector, noise: Vector, functionals: Matrix, *, widths: Vector
) -> SmoothMarginal:
    """Estimate shares of K cells.

    Parameters
    ----------
    observed, noise
        Shape (L,): released values, and the standard deviation of their noise.
    functionals
        Shape (L, K): row l gives ``functionals[l] @ q``, which is observed.
    widths
        Widths of the intervals on the score's scale, in any unit, shape (J,) with J at most K; all
        above 0. The other cells are spikes, or missing values.
    """
    scale = np.maximum(noise, 1e-6)
    n_cells = functionals.shape[1]
    base = np.zeros(n_cells)
    base[: len(widths)] = np.log(widths / widths.sum())
    f, laws, spreads, evidence = np.zeros(n_cells), [], [], []
    for prior in _priors(widths * (_RANGE / widths.sum()), n_cells):
        f, q, cost, curvature = _most_probable(
            observed / scale, functionals / scale[:, None], prior, base=base, start=f
        )
        laws.append(q)
        moved = np.diag(q) - np.outer(q, q)  # of the shares, by f
        spreads.append((moved @ np.linalg.inv(curvature) * moved).sum(axis=1))
        evidence.append(_log_det(prior) / 2 - _log_det(curvature) / 2 - cost / 2)
    weights = np.exp(np.array(evidence) - max(evidence))
    weights /= weights.sum()
    mean: Vector = weights @ np.array(laws)
    variance = weights @ (np.array(spreads) + np.square(laws - mean))
    return SmoothMarginal(np.maximum(mean, np.finfo(float).tiny), np.sqrt(variance))


def _priors(widths: Vector, n_cells: int) -> Iterator[Matrix]:
    """Precisions of f, shape (n_cells, n_cells)."""
    gaps = (widths[1:] + widths[:-1]) / 2
    level: Matrix = np.full((len(widths), len(widths)), 1 / max(len(widths), 1) ** 2)
    for bend in _BENDS:
        yield _with_spike(level + _walk(gaps, bend), n_cells)
    for bend, roughness in _ROUGH:
        smooth = np.linalg.inv(level + _walk(gaps, bend))
        rough = np.linalg.inv(smooth + np.diag(np.full(len(widths), roughness**2)))
        yield _with_spike(rough, n_cells)


def _walk(gaps: Vector, size: float) -> Matrix:
    """Precision of f with a walking slope; its rise from cell to cell has a loose bound."""
    rises = np.diff(np.eye(len(gaps) + 1), axis=0)
    bends = np.diff(rises / gaps[:, None], axis=0)
    reach = size**2 * (gaps[1:] + gaps[:-1]) / 2
    precision: Matrix = (bends.T / reach) @ bends + (rises.T / (_RISE**2 * gaps)) @ rises
    return precision


def _with_spike(precision: Matrix, n_cells: int) -> Matrix:
    whole = np.diag(np.full(n_cells, _SPIKE_PRECISION))
    whole[: len(precision), : len(precision)] = precision
    return whole


def _log_det(matrix: Matrix) -> float:
    return float(np.linalg.slogdet(matrix)[1])


def _most_probable(
    observed: Vector, functionals: Matrix, prior: Matrix, *, base: Vector, start: Vector
) -> tuple[Vector, Vector, float, Matrix]:
    """f that minimises |observed - L q|^2 + f'Pf, q = softmax(base + f), minimum, curvature."""

    def cost_at(f: Vector) -> tuple[float, Vector, Vector]:
        weights = np.exp(base + f - (base + f).max())
        q = weights / weights.sum()
        residual = observed - functionals @ q
        return float(residual @ residual + f @ prior @ f), q, residual

    def jacobian_at(q: Vector) -> Matrix:
        return functionals * q - np.outer(functionals @ q, q)

    f, damping = start, 1e-2
    cost, q, residual = cost_at(f)
    for _ in range(_STEPS):
        jacobian = jacobian_at(q)
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
    jacobian = jacobian_at(q)
    return f, q, cost, jacobian.T @ jacobian + prior
