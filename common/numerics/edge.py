"""The noise edge: the largest eigenvalue that the noise alone would give the covariance.

Simulated, because the noise has structure that no formula for its edge keeps (a semicircle law
forgets the mean's noise: 20 against 30 on Adult): see `common.numerics.noise`, whose last term is
left out for a pooled covariance, where it is m times smaller than within owners. The edge is the
95 % quantile of the largest eigenvalue over 200 draws; over fewer from p = 126 on, so that their
number times ``p**3`` stays below 400 million, but over no fewer than 8. Below a hundred draws the
quantile is taken of the normal law with their mean and standard deviation: the largest eigenvalue
spreads by 5 to 8 % there (measured, p = 200 to 400), so 8 draws give its quantile to about 3 %.
A curator simulates it while the owners wait; more draws would cost more than the decomposition.

This is post-processing of what is public, not a release: the noise comes from a seeded NumPy
generator in float64, so the same study gives the same edge. Nothing drawn here protects anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from scipy.special import ndtri

from common.numerics.noise import Law, NoiseSource
from common.schema.layout import Layout
from common.study import Covariance

QUANTILE = 0.95
_MAX_WORK = 400_000_000
_FEW_DRAWS = 100
_MIN_DRAWS = 8
_LANCZOS_FROM = 200  # columns: where it is the faster of the two (measured)


@dataclass(frozen=True, slots=True)
class NoiseEdge:
    """Quantile ``quantile`` of the largest eigenvalue of ``draws`` draws, in coded units."""

    value: float
    draws: int
    quantile: float = QUANTILE


def noise_edge(
    layout: Layout,
    *,
    mechanism: Law,
    scale: float,
    owner_rows: Sequence[int],
    mean: NDArray[np.float64] | None,
    covariance: Covariance,
    seed: int,
    draws: int = 200,
) -> NoiseEdge:
    """Simulate the noise of a study.

    Parameters
    ----------
    layout
        Of the study's schema.
    mechanism, scale
        Each owner's noise on each entry of its packed vector: Laplace of scale b, or Gaussian of
        standard deviation sigma, in units of ``4**-g``.
    owner_rows
        Rows of each owner that took part; all at least 1.
    mean
        Released mean, shape (p,), or None where the release has no sums.
    covariance
        What is decomposed.
    seed
        Any integer >= 0 that all parties can derive, such as the study's digest as a number.
    draws
        Wanted; the number used is in the result.
    """
    p = layout.n_columns
    within = covariance is Covariance.WITHIN and mean is not None
    per_draw = p**3 + (len(owner_rows) * p if within else 0)
    used = max(1, min(draws, max(_MIN_DRAWS, _MAX_WORK // per_draw)))
    source = NoiseSource(
        np.random.default_rng(seed),
        layout,
        law=mechanism,
        scale=scale,
        owner_rows=owner_rows,
        own_means=within,
    )
    largest = np.empty(used)
    for number in range(used):
        drawn = source.draw()
        noise = drawn.linear(mean)
        if drawn.squares is not None:
            noise -= drawn.squares
        largest[number] = largest_eigenvalue(noise)
    return NoiseEdge(_quantile(largest), used)


def entry_noise(
    layout: Layout,
    *,
    mechanism: Law,
    scale: float,
    owner_rows: Sequence[int],
) -> float:
    """Standard deviation of the noise of one product in the pooled second moment, coded units.

    Parameters as for `noise_edge`. A mean's noise is this over the weight of sums.
    """
    one = np.sqrt(2.0) * scale if mechanism == "laplace" else scale
    return float(one * np.sqrt(len(owner_rows)) / (4**layout.resolution_bits * sum(owner_rows)))


def _quantile(largest: NDArray[np.float64]) -> float:
    if 1 < len(largest) < _FEW_DRAWS:
        spread = float(largest.std(ddof=1))
        return float(largest.mean()) + float(ndtri(QUANTILE)) * spread
    return float(np.quantile(largest, QUANTILE))


def largest_eigenvalue(matrix: NDArray[np.float64]) -> float:
    """Largest eigenvalue of a symmetric matrix, shape (p, p)."""
    p = len(matrix)
    if p >= _LANCZOS_FROM:
        start = np.ones(p)  # fixed, or the last digits would differ from run to run
        with suppress(ArpackNoConvergence):  # rare: the dense solver below always answers
            found = eigsh(matrix, k=1, which="LA", return_eigenvectors=False, tol=1e-4, v0=start)
            return float(found[0])
    return float(linalg.eigvalsh(matrix, subset_by_index=(p - 1, p - 1))[0])
