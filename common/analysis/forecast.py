"""Forecast of utility: the effect of a study's noise on assumed components.

Only public figures are used. Known before a study: the schema, the rows of each owner, the noise.
Assumed: the eigenvalues of the joint covariance. Unknown: its eigenvectors and mean. They are drawn
at random for each draw: the eigenvectors uniformly over all rotations (QR of a Gaussian matrix),
the mean in a uniform direction. The mean's length follows from the schema and the assumed total
variance T. The squares of one row add up to 1/4 for a binary, 1 for a categorical, at most 1/4 for
a numeric (half of it is assumed) and at most 1 for a unit-ball row (half of the rest beside T is
assumed); the part that is not variance is the mean ::

    |mu|^2 = max(0, binaries / 4 + numerics / 8 + categoricals - T)       box rows
    |mu|^2 = max(0, 1 - T) / 2                                            unit-ball rows with sums

The noise is added in its real structure (`dppca.common.analysis.spectrum.noise`), drawn once at
scale 1 and then scaled. With B the assumed covariance and s the scale, the decomposed matrix is ::

    B + s (E - nu mu^T - mu nu^T) - s^2 nu nu^T            (within owners: the last term's own form)

in the basis of B's eigenvectors, so the same draws serve every scale and curves over epsilon are
smooth. A noised number of rows with relative noise t adds ``s t (mu mu^T - B)``.

Limits: real eigenvectors are not uniform (for categoricals they are sparse), so a forecast is off
by some hundredths; the figures for large p come from few draws. ``docs/reference/forecast.md``
compares forecasts with real tables. Like the noise edge, a forecast is computed from public numbers
with a seeded generator and protects nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.spectrum.noise import NoiseShape, NoiseSource
from dppca.common.analysis.spectrum.noise_edge import QUANTILE, largest_eigenvalue
from dppca.common.analysis.spectrum.pca import count_components
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.schema.layout import ColumnKind, Layout
from dppca.common.kernel.study import ComponentRule, Covariance

_UNIT = float(1 << 30)  # scale of the draws: makes the error of rounding to integers negligible
_MOST_DRAWS, _LEAST_DRAWS = 100, 3  # of the noise; the fewest where columns are many
_ENTRIES = 1 << 22  # of all draws' matrices


@dataclass(frozen=True, slots=True)
class UtilityForecast:
    """Forecast at one scale of noise; variances are in squared coded units.

    Shares are means over the draws; ``count`` and ``above`` are medians. An angle is the arcsine of
    the root mean square sine of the k principal angles; ``largest_angle`` is the largest of them.
    """

    captured: Annotated[float, "share of the best possible variance, in [0, 1]"]
    captured_low: Annotated[float, "nine of ten studies capture at least this"]
    captured_high: Annotated[float, "nine of ten studies capture at most this"]
    chance: Annotated[float, "share that random directions would capture"]
    angle: Annotated[float, "mean angle to the assumed components, degrees"]
    largest_angle: Annotated[float, "largest of these angles, degrees"]
    count: Annotated[int, "components that are kept"]
    above: Annotated[int, "eigenvalues above the noise edge"]
    noise_edge: Annotated[float, "largest eigenvalue that noise alone reaches, 95 % quantile"]


def assumed_mean_square(layout: Layout, total: float) -> float:
    """``|mu|^2`` assumed beside a total variance (module docstring); 0 without sums."""
    if not layout.with_sums:
        return 0.0
    if layout.unit_ball:
        return max(0.0, 1.0 - total) / 2
    return max(0.0, _mean_of_squares(layout, numeric=0.125) - total)


def largest_total_variance(layout: Layout) -> float:
    """Largest sum of variances of any table whose mean is in the middle of every bound.

    It is 1/4 for a numeric or binary, ``1 - 1/K`` for a categorical of K labels, 1 for unit-ball
    rows; squared coded units.
    """
    if layout.unit_ball:
        return 1.0
    return sum(
        1 - 1 / (stop - start) if kind is ColumnKind.INDICATOR else 0.25
        for kind, (start, stop) in zip(layout.attribute_kinds, layout.groups, strict=True)
    )


def power_spectrum(layout: Layout, *, exponent: float, share: float) -> NDArray[np.float64]:
    """Return eigenvalues in proportion to ``i**-exponent``, shape (p,).

    Their sum is a share of `largest_total_variance`: no table has more.
    """
    raw = np.arange(1, layout.n_columns + 1, dtype=np.float64) ** -exponent
    return np.asarray(raw * (share * largest_total_variance(layout) / raw.sum()))


def choose_draws(n_columns: int) -> int:
    """Number of draws for p columns: 100, fewer from p = 205 on, at least 3."""
    return max(_LEAST_DRAWS, min(_MOST_DRAWS, _ENTRIES // n_columns**2))


class ForecastSimulation:
    """Draws of assumed tables and of noise at scale 1.

    Memory: two matrices of p x p float64 for each of `choose_draws` draws. Assumed ``eigenvalues``
    have shape (p,), descending, none negative, at least one above 0; the other parameters are as in
    `dppca.common.analysis.spectrum.noise_edge.noise_edge`.
    """

    def __init__(
        self,
        layout: Layout,
        eigenvalues: NDArray[np.float64],
        *,
        law: NoiseShape,
        owner_rows: Sequence[int],
        covariance: Covariance,
        seed: int,
        mechanisms: float | None = None,
    ) -> None:
        self._eigenvalues = eigenvalues
        self._linear: list[NDArray[np.float64]] = []
        self._numbers: list[tuple[float, NDArray[np.float64]]] = []  # t and mu, if n is noised
        self._quadratic: list[NDArray[np.float64] | None] = []
        self._own_means = covariance is Covariance.WITHIN and layout.with_sums
        p = layout.n_columns
        rng = np.random.default_rng(seed)
        length = np.sqrt(assumed_mean_square(layout, float(eigenvalues.sum())))
        source = NoiseSource(
            rng,
            layout,
            law=law,
            width=_UNIT,
            owner_rows=owner_rows,
            own_means=self._own_means,
            mechanisms=mechanisms,
        )
        for _ in range(choose_draws(p)):
            basis, _ = np.linalg.qr(rng.standard_normal((p, p)))
            direction = rng.standard_normal(p)
            mean = direction * (length / np.linalg.norm(direction)) if layout.with_sums else None
            drawn = source.draw()
            self._linear.append(_rotate(drawn.linear(mean) / _UNIT, basis))
            if layout.with_count:
                within = np.zeros(p) if mean is None else basis.T @ mean
                self._numbers.append((drawn.number / _UNIT, within))
                self._linear[-1] += self._moved(-1, 1)
            squares = drawn.squares
            if squares is None and drawn.mean is not None:
                squares = np.outer(drawn.mean, drawn.mean)
            self._quadratic.append(None if squares is None else _rotate(squares / _UNIT**2, basis))
        self._edges = np.array([largest_eigenvalue(noise) for noise in self._linear])

    @property
    def draws(self) -> int:
        """Number of draws."""
        return len(self._linear)

    def noise_edge(self, scale: float) -> float:
        """95 % quantile of the largest eigenvalue of the noise alone at a scale."""
        edges = scale * self._edges
        if self._own_means:
            edges = np.array([largest_eigenvalue(self._noise(i, scale)) for i in range(self.draws)])
        return float(np.quantile(edges, QUANTILE))

    def unit_edge(self, weight: float) -> float:
        """Noise edge at scale 1 if the noised number of rows had ``weight`` times its weight."""
        with one_blas_thread():  # two threads only wait for each other in matrices this small
            edges = [
                largest_eigenvalue(noise + self._moved(place, 1 / weight - 1))
                for place, noise in enumerate(self._linear)
            ]
        return float(np.quantile(edges, QUANTILE))

    def forecast(self, scale: float, rule: ComponentRule) -> UtilityForecast:
        """Forecast for noise of ``scale`` (units of ``4**-g``) under a component rule."""
        from scipy import linalg

        edge = self.noise_edge(scale)
        captured, chances, angles, largest, counts, above = [], [], [], [], [], []
        for number in range(self.draws):
            noisy = self._noise(number, scale)
            noisy[np.diag_indices_from(noisy)] += self._eigenvalues
            values, columns = linalg.eigh(noisy, overwrite_a=True, check_finite=False)
            values, columns = values[::-1], columns[:, ::-1]
            k = count_components(values, rule, noise_edge=edge)
            leading = columns[:, :k]
            captured.append(_share(self._eigenvalues, leading))
            best = self._eigenvalues[:k].sum()
            chances.append(float(k / len(self._eigenvalues) * self._eigenvalues.sum() / best))
            # The assumed best k are the first k axes of this basis.
            cosines = np.minimum(np.linalg.svd(leading[:k], compute_uv=False), 1.0)
            angles.append(np.degrees(np.arcsin(np.sqrt(np.mean(1 - cosines**2)))))
            largest.append(np.degrees(np.arccos(cosines[-1])))
            counts.append(k)
            above.append(int(np.count_nonzero(values > edge)))
        low, high = np.quantile(captured, [1 - QUANTILE, QUANTILE])
        return UtilityForecast(
            captured=float(np.mean(captured)),
            captured_low=float(low),
            captured_high=float(high),
            chance=float(np.mean(chances)),
            angle=float(np.mean(angles)),
            largest_angle=float(np.mean(largest)),
            count=int(np.median(counts)),
            above=int(np.median(above)),
            noise_edge=edge,
        )

    def _moved(self, place: int, factor: float) -> NDArray[np.float64]:
        """What a draw's noise of the number of rows, times ``factor``, does to the covariance."""
        relative, mean = self._numbers[place]
        return factor * relative * (np.outer(mean, mean) - np.diag(self._eigenvalues))

    def _noise(self, number: int, scale: float) -> NDArray[np.float64]:
        noise = scale * self._linear[number]
        squares = self._quadratic[number]
        if squares is not None:
            noise -= scale**2 * squares
        return noise


def _mean_of_squares(layout: Layout, *, numeric: float) -> float:
    """Mean square of a box row, summed over attributes, given the mean square of a numeric."""
    squares = {ColumnKind.INDICATOR: 1.0, ColumnKind.NUMERIC: numeric}
    return sum(squares.get(kind, 0.25) for kind in layout.attribute_kinds)


def _rotate(matrix: NDArray[np.float64], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    turned: NDArray[np.float64] = basis.T @ matrix @ basis
    return (turned + turned.T) / 2


def _share(eigenvalues: NDArray[np.float64], kept: NDArray[np.float64]) -> float:
    """Variance that orthonormal columns capture, relative to the best as many; diagonal B."""
    best = float(eigenvalues[: kept.shape[1]].sum())
    return float((eigenvalues @ kept**2).sum()) / best
