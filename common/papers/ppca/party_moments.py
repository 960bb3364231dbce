"""Moments of several parties, noised by each and pooled: in the released and the printed form.

``mu`` and ``M`` are the mean and the mean of products. A party's own covariance is ``M - mu mu^T``;
the paper averages those (``within``), which drops the variance between the parties' means; pooling
the raw moments first keeps it.

The released form is the federation's path (`dppca.common.kernel.privacy.release`) without its
documents: integer rows, exact packed sums, integer noise for their joint sensitivity, sums of
noised vectors. The noise can also be drawn *once*, on the parties' sum: one replaced row moves the
sum no more than it moves its party's part, so it costs the same and its variance is m times
smaller. But the party that adds the parts sees them without noise. The federation's curator must
not; this requires summation that hides the parts, or a curator who may see rows.

The printed form draws Laplace noise of scale ``2 p / (n_i epsilon)`` in floating point, on every
entry of mean and second moment. Step 2 of the algorithm noises all p^2 entries of the latter, so
(i, j) and (j, i) differ; the symmetric part of that matrix is used, because other matrices have no
orthonormal eigenvectors. Alternatively, one triangle is noised and mirrored.

Source: Gu et al. (2022), algorithm 1, steps 1 to 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.spectrum.noise_edge import NoiseEdge, entry_noise, noise_edge
from dppca.common.analysis.spectrum.pca import empty_covariance, pooled_covariance
from dppca.common.kernel.moments.moments import compute_moments, unpack
from dppca.common.kernel.privacy.mechanisms import Calibration, add_noise, check_range
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.release import sensitivity_shape
from dppca.common.kernel.privacy.sensitivity import Sensitivity, sensitivity
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import Covariance
from dppca.common.papers.base.party_tables import PartyRows

Caution = Callable[[Calibration, Sequence[int]], None]


@dataclass(frozen=True, slots=True)
class PooledMoments:
    """Moments for the curator's decomposition and for decoding.

    ``mean`` has shape (p,); ``second`` is the mean of products of all rows and ``covariance`` the
    decomposed one, both symmetric, shape (p, p); ``entry_noise`` is the standard deviation of the
    noise of one product of two columns in ``second``.
    """

    mean: NDArray[np.float64]
    second: NDArray[np.float64]
    covariance: NDArray[np.float64]
    entry_noise: float

    def moved(self, offset: NDArray[np.float64]) -> PooledMoments:
        """Return the moments of ``x - offset``, offset of shape (p,)."""
        across = np.outer(offset, self.mean)
        second = self.second - across - across.T + np.outer(offset, offset)
        return PooledMoments(self.mean - offset, second, self.covariance, self.entry_noise)


@dataclass(frozen=True, slots=True)
class ReleasedMoments:
    """Pooled moments in coded units, and the public law of their noise.

    ``calibration`` is for one vector of packed sums; ``noised_rows`` are the rows behind each
    noised vector: each party's, or all rows once.
    """

    pooled: PooledMoments
    calibration: Calibration
    noised_rows: tuple[int, ...]

    def edge(self, schema: Schema, covariance: Covariance) -> NoiseEdge:
        """Largest eigenvalue of the noise alone, simulated; the same for the same inputs."""
        return noise_edge(
            schema.layout,
            law=self.calibration.law,
            owner_rows=self.noised_rows,
            mean=self.pooled.mean,
            covariance=covariance,
            seed=int(schema.digest[:16], 16),
        )


def release_moments(
    codes: NDArray[np.int32],
    parties: PartyRows,
    schema: Schema,
    *,
    calibrate: Callable[[Sensitivity], Calibration],
    covariance: Covariance,
    once: bool,
    entropy: EntropySource,
    caution: Caution | None = None,
) -> ReleasedMoments:
    """Release each party's moments and pool them; in coded units.

    ``codes`` are integer rows, shape (n_rows, p); ``calibrate`` maps the sensitivity of the packed
    sums to each party's noise; ``once`` draws noise once, on the parties' sum, and ``covariance``
    is then the pooled one; ``caution`` is called before noise is drawn, with its calibration and
    the rows behind each vector. Raise `RangeError` if the integers could leave their range.
    """
    layout = schema.layout
    calibration = calibrate(
        sensitivity(sensitivity_shape(schema), resolution_bits=schema.resolution_bits)
    )
    noised = [np.arange(len(codes))] if once else parties.rows
    check_range(
        calibration,
        resolution_bits=schema.resolution_bits,
        max_rows=len(codes),
        n_entries=layout.n_entries,
        n_owners=len(noised),
        largest_weight=Fraction(schema.sum_weight),
    )
    if caution is not None:
        caution(calibration, [len(index) for index in noised])
    total = np.zeros(layout.n_entries, dtype=np.int64)
    within = empty_covariance(layout.n_columns)
    for index in noised:
        packed = add_noise(
            compute_moments(codes[index], layout).packed, calibration, entropy=entropy
        )
        total += packed
        within = within.add(len(index), *unpack(packed, len(index), layout))
    mean, second = unpack(total, len(codes), layout)
    pooled = pooled_covariance(mean, second)
    noised_rows = tuple(len(index) for index in noised)
    return ReleasedMoments(
        PooledMoments(
            mean=np.zeros(layout.n_columns) if mean is None else mean,
            second=second,
            covariance=within.covariance if covariance is Covariance.WITHIN else pooled,
            entry_noise=entry_noise(
                layout,
                deviation=calibration.law.deviation,
                owner_rows=noised_rows,
            ),
        ),
        calibration,
        noised_rows,
    )


def publish_moments(
    rows: NDArray[np.float64],
    parties: PartyRows,
    *,
    epsilon: float,
    covariance: Covariance,
    both_triangles: bool,
    rng: np.random.RandomState,
) -> PooledMoments:
    """Moments of rows in [0, 1], shape (n_rows, p), with the paper's noise, in the same units.

    With ``both_triangles`` all p^2 entries of the second moment have noise of their own, as step 2
    of the algorithm prints; otherwise one triangle has, mirrored.
    """
    n_rows, p = rows.shape
    mean, second = np.zeros(p), np.zeros((p, p))
    within = empty_covariance(p)
    for index in parties.rows:
        own, n = rows[index], len(index)
        scale = 2.0 * p / (n * epsilon)
        own_mean = own.mean(axis=0) + rng.laplace(scale=scale, size=p)
        noise = _symmetric_noise(p, scale, both_triangles=both_triangles, rng=rng)
        own_second = own.T @ own / n + noise
        within = within.add(n, own_mean, own_second)
        mean += own_mean * (n / n_rows)
        second += own_second * (n / n_rows)
    pooled = pooled_covariance(mean, second)
    one = math.sqrt(2.0 * len(parties.rows)) * 2.0 * p / (n_rows * epsilon)
    return PooledMoments(
        mean=mean,
        second=second,
        covariance=within.covariance if covariance is Covariance.WITHIN else pooled,
        entry_noise=one / math.sqrt(2.0) if both_triangles else one,
    )


def _symmetric_noise(
    p: int, scale: float, *, both_triangles: bool, rng: np.random.RandomState
) -> NDArray[np.float64]:
    noise = np.zeros((p, p))
    if both_triangles:
        noise += rng.laplace(scale=scale, size=p * p).reshape(p, p)
        return (noise + noise.T) / 2.0
    i, j = np.triu_indices(p)
    noise[i, j] = rng.laplace(scale=scale, size=len(i))
    noise[j, i] = noise[i, j]
    return noise
