"""The noise edge: the largest eigenvalue that the noise alone would give the covariance.

The edge is simulated, because no formula keeps the noise's structure (a semicircle law ignores the
mean's noise: 20 against 30 on Adult): see `dppca.common.analysis.spectrum.noise`. Its last term is
left out for a pooled covariance, where it is m times smaller than within owners. The edge is the 95
% quantile of the largest eigenvalue over 200 draws. From p = 126 on there are fewer draws, so that
their number times ``p**3`` stays below 400 million, but at least 8. Below a hundred draws, the edge
is the quantile of the normal law with the draws' mean and standard deviation: the largest
eigenvalue spreads by 5 to 8 % there (measured, p = 200 to 400), so 8 draws give its quantile to
about 3 %. A curator simulates the edge while the owners wait, and more draws would cost more than
the decomposition. With many columns, all cores work at once, each draw from its own generator and
in single precision: the last digits of an edge are negligible beside its spread.

This is post-processing of public values, not a release: the noise comes from seeded NumPy
generators, so the same study gives the same edge. Nothing drawn here protects anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.spectrum.noise import NoiseSource, WideLaw
from dppca.common.kernel.moments.moments import spread_products
from dppca.common.kernel.moments.threads import count_cores, one_blas_thread
from dppca.common.kernel.schema.layout import ColumnKind, Layout
from dppca.common.kernel.study import Covariance

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

QUANTILE = 0.95  # noise alone lies above the edge in one study of twenty
_MAX_WORK = 400_000_000  # multiplications of all draws together
_FEW_DRAWS = 100  # below it a normal law's quantile stands in for an observed one
_MIN_DRAWS = 8  # though they take longer
_TOLERANCE = 1e-2  # of the vector; the eigenvalue's error is 0.0015 (measured, p = 300 to 1000)
_LANCZOS_FROM = 200  # columns from which Lanczos iteration is the faster method (measured)


@dataclass(frozen=True, slots=True)
class NoiseEdge:
    """Quantile ``quantile`` of the largest eigenvalue of ``draws`` draws, in coded units."""

    value: float
    draws: int
    quantile: float = QUANTILE


def noise_edge(
    layout: Layout,
    *,
    law: WideLaw,
    owner_rows: Sequence[int],
    mean: NDArray[np.float64] | None,
    covariance: Covariance,
    seed: int,
    draws: int = 200,
    mechanisms: float | None = None,
    released: NDArray[np.int64] | None = None,
) -> NoiseEdge:
    """Simulate the noise of a study.

    Parameters
    ----------
    layout
        Layout of the study's schema.
    law
        Law of each owner's noise on each entry of its packed vector.
    owner_rows
        Rows of each owner that took part; all at least 1.
    mean
        Released mean, shape (p,), or None where the release has no sums.
    covariance
        The covariance to decompose: pooled or within owners.
    seed
        Any integer >= 0 that all parties can derive, such as the study's digest as a number.
    draws
        Number wanted; the number used is in the result.
    mechanisms
        Number of such noises in the pool; None for one per owner.
    released
        The pooled packed vector, shape (D,), of which a noised number of rows is a part.
    """
    p = layout.n_columns
    within = covariance is Covariance.WITHIN and mean is not None
    # The work of a draw: its eigenvalues and, within owners, each owner's mean.
    per_draw = p**3 + (len(owner_rows) * p if within else 0)
    used = max(1, min(draws, max(_MIN_DRAWS, _MAX_WORK // per_draw)))
    find = _Simulation(
        layout,
        law=law,
        owner_rows=owner_rows,
        mean=mean,
        own_means=within,
        mechanisms=mechanisms,
        released=released,
    )
    if p < _LANCZOS_FROM:
        source = find.source(seed)
        largest = [find.dense(source) for _ in range(used)]
    else:
        seeds = [(seed, number) for number in range(used)]
        workers = min(count_cores(), used)
        with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
            largest = list(pool.map(find.by_lanczos, seeds))
    return NoiseEdge(_quantile(np.array(largest)), used)


class _Simulation:
    """Largest eigenvalues of draws of a study's noise."""

    def __init__(
        self,
        layout: Layout,
        *,
        law: WideLaw,
        owner_rows: Sequence[int],
        mean: NDArray[np.float64] | None,
        own_means: bool,
        mechanisms: float | None,
        released: NDArray[np.int64] | None,
    ) -> None:
        self._released = released
        self._layout = layout
        self._law = law
        self._rows = owner_rows
        self._mean = mean if layout.with_sums else None
        self._own_means = own_means
        self._mechanisms = mechanisms

    def source(self, seed: int | tuple[int, int]) -> NoiseSource:
        """Return a sequence of draws."""
        return NoiseSource(
            np.random.default_rng(seed),
            self._layout,
            law=self._law,
            width=self._law.width,
            owner_rows=self._rows,
            own_means=self._own_means,
            mechanisms=self._mechanisms,
            released=self._released,
        )

    def dense(self, source: NoiseSource) -> float:
        """Largest eigenvalue of the next draw, from all its eigenvalues."""
        drawn = source.draw()
        # "within" in the head of `noise`; pooled, the last term is left out.
        noise = drawn.linear(self._mean)
        if drawn.squares is not None:
            noise -= drawn.squares
        return largest_eigenvalue(noise)

    def by_lanczos(self, seed: tuple[int, int]) -> float:
        """Largest eigenvalue of a seed's first draw, by products with vectors; thread-safe.

        The outer products with the mean are never formed.
        """
        from scipy.sparse.linalg import LinearOperator

        layout = self._layout
        packed, squares = self.source(seed).packed()
        # From sums in steps to nu, here `noise`, and E, `second`, as `unpack` has them.
        one = float(4**layout.resolution_bits) * sum(self._rows)
        packed /= one
        noise = packed[: layout.n_sums].astype(np.float32)
        noise *= 2**layout.resolution_bits / layout.scaled_weight
        second = spread_products(layout, packed, np.zeros((layout.n_columns,) * 2, np.float32))
        if layout.with_sums:  # the squares that follow from the sums
            for column, kind in enumerate(layout.kinds):
                if kind is ColumnKind.INDICATOR:
                    second[column, column] = noise[column]
                elif kind is ColumnKind.MISSING:
                    second[column, column] = noise[column] / 2
        if squares is not None:
            second -= squares.astype(np.float32)
        mean = self._mean

        def times(vector: NDArray[np.float32]) -> NDArray[np.float32]:
            # (E - nu mu^T - mu nu^T) v
            product: NDArray[np.float32] = second @ vector
            if mean is not None:
                product -= noise * (mean @ vector) + mean * (noise @ vector)
            return product

        eigenvalue = _by_lanczos(LinearOperator(second.shape, matvec=times, dtype=np.float32))
        return self.dense(self.source(seed)) if eigenvalue is None else eigenvalue


def entry_noise(
    layout: Layout,
    *,
    deviation: float,
    owner_rows: Sequence[int],
    mechanisms: float | None = None,
) -> float:
    """Standard deviation of the noise of one product in the pooled second moment, coded units.

    ``deviation`` is the standard deviation of one owner's noise of an entry, in units of ``4**-g``;
    the other parameters are as for `noise_edge`. A mean's noise is this value over the weight of
    sums.
    """
    # Variances of independent noises add up.
    many = len(owner_rows) if mechanisms is None else mechanisms
    return float(deviation * np.sqrt(many) / (4**layout.resolution_bits * sum(owner_rows)))


def _quantile(largest: NDArray[np.float64]) -> float:
    if 1 < len(largest) < _FEW_DRAWS:
        from scipy.special import ndtri

        # Too few draws for an order statistic: the quantile of the normal law fitted to them.
        spread = float(largest.std(ddof=1))
        return float(largest.mean()) + float(ndtri(QUANTILE)) * spread
    return float(np.quantile(largest, QUANTILE))


def largest_eigenvalue(matrix: NDArray[np.float64]) -> float:
    """Return the largest eigenvalue of a symmetric matrix, shape (p, p)."""
    if len(matrix) >= _LANCZOS_FROM:
        eigenvalue = _by_lanczos(matrix)
        if eigenvalue is not None:
            return eigenvalue
    return float(np.linalg.eigvalsh(matrix)[-1])


def _by_lanczos(matrix: NDArray[np.float64] | LinearOperator) -> float | None:
    """Largest eigenvalue by Lanczos iteration; None without convergence, as for a zero matrix."""
    from scipy.sparse.linalg import ArpackError, eigsh

    start = np.ones(matrix.shape[0], matrix.dtype)  # fixed, so that the last digits repeat
    try:
        eigenvalues = eigsh(
            matrix, k=1, which="LA", return_eigenvectors=False, tol=_TOLERANCE, v0=start
        )
    except ArpackError:
        return None
    return float(eigenvalues[0])
