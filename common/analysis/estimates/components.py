"""Principal components with intervals: eigenvalues, shares, loadings, the angle of their subspace.

The covariance C = second - mean mean' has noise F = E - nu mu' - mu nu' to first order. With
q_jk = u_j' F u_k for the released eigenvectors u, of exact variances V_jk, ::

    eigenvalue   lambda_k - sum_j V_jk / (lambda_k - lambda_j),   deviation sd(q_kk)
    loading      deviation of sum_j u_j q_jk / (lambda_k - lambda_j)
    angle        of the first k, for these rows: quantile of arctan |q_ij / (lambda_i - lambda_j)|

Sampling is normal theory: 2 lambda^2 / n of an eigenvalue, lambda_j lambda_k / n of q_jk.
Components nearer to each other than six deviations of q_jk, by noise and sampling, are a plane: any
mixture of them is as good. Their sum is given, no loadings. Of two that are equal the gap is twice
a deviation times a Rayleigh variable, and passes six in one release of ninety. Entries q_jk of an
angle are drawn as independent normals.

Source: perturbation theory; T. W. Anderson, Asymptotic theory for principal component analysis,
Ann. Math. Statist. 34 (1963), for sampling.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from dppca.common.analysis.estimates.answers import Estimate, NotEstimable, normal_estimate
from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.intervals import Drawn, Normal
from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.release import Linear, ReconciledMoments, released_moments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.loadings import MOST_LOADINGS, Mixtures
from dppca.common.analysis.spectrum.pca import decompose
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.study import Covariance

LEAST_SEPARATION = 6.0  # deviations of the noise, for a direction of its own
_DRAWS = 200  # normal draws of an angle


class Gaps:
    """Eigenvalues of the released covariance, and how far the noise lets them be told apart."""

    def __init__(
        self, moments: ReconciledMoments, scope: EstimateScope, count: int, *, whole: bool = False
    ) -> None:
        table = moments.study.table
        if moments.matrix is None or moments.study.covariance is Covariance.WITHIN:
            raise SettingError(
                f"study {moments.study.name} has no components of the pooled covariance"
            )
        p = table.layout.n_columns
        if not 1 <= count < p:
            raise SettingError(f"{count} components; 1 to {p - 1} are possible")
        self.moments, self.count, self.n = moments, count, scope.rows(moments)
        mean = moments.matrix[0, 1:] if table.layout.with_sums else np.zeros(p)
        covariance = moments.matrix[1:, 1:] - np.outer(mean, mean)
        found = decompose(covariance)
        self.values, self.vectors = found.eigenvalues, found.vectors
        block = Block.of(moments.noise, range(len(table.attributes)), moments.matrix)
        borders = np.column_stack([-self.vectors @ mean, self.vectors])
        # V, of shape (p, count + 1) if it is whole, else of its first count + 1 rows.
        first = borders[: count + 1]
        self.variances = block.variances_between(borders if whole else first, first)
        self.borders, self.block = borders, block

    def separation(self, k: int) -> float:
        """Return how far component k is above the next one, in deviations of q between them."""
        return _separation(self.values, k, float(self.variances[k + 1, k]), self.n)

    def groups(self) -> list[range]:
        """Return the components in groups that the noise does not separate; the last may go on."""
        return _groups([self.separation(k) for k in range(self.count)])


class Spectrum(Gaps):
    """Eigenvectors of the released covariance, with the variances of their noise."""

    def __init__(self, moments: ReconciledMoments, scope: EstimateScope, count: int) -> None:
        super().__init__(moments, scope, count, whole=True)
        gaps = self.values[: count + 1] - self.values[:, None]
        self.inverse = np.divide(1, gaps, out=np.zeros_like(gaps), where=gaps != 0)
        self.sampling = np.outer(
            np.maximum(self.values, 0), np.maximum(self.values[: count + 1], 0)
        )
        self.sampling /= self.n

    def value(self, group: range, total: bool) -> Estimate:
        """Estimate the sum of a group's eigenvalues, or its share of the whole variance."""
        own, inside = list(group), np.isin(np.arange(len(self.values)), list(group))
        bias = (self.variances[:, own] * self.inverse[:, own])[~inside].sum()
        value, whole = float(self.values[own].sum() - bias), float(self.values.sum())
        name = _named("eigenvalue", group)
        left, positive = np.zeros(len(self.values)), np.maximum(self.values, 0)
        left[own] = 1
        scale = 1.0
        if total:
            if whole <= 0:
                raise SettingError("the noise is larger than all of the variance")
            name, value, scale = _named("share", group), value / whole, 1 / whole
            left -= value
        gradient = scale * (self.borders.T * left) @ self.borders
        gradient *= 2 - np.eye(len(gradient))
        found = Linear(np.array([value]), self.block.noise(gradient[None]))
        sampling = 2 * scale**2 * float((left**2 * positive**2).sum()) / self.n
        return normal_estimate(name, found, sampling, lowest=0.0, highest=1 if total else np.inf)

    def loadings(self, k: int) -> list[Estimate]:
        """Estimate the largest loadings of a component."""
        weights = self.vectors**2
        inverse = self.inverse[:, k] ** 2
        noise = (self.variances[:, k] * inverse) @ weights
        sampling = (self.sampling[:, k] * inverse) @ weights
        names, found = self.moments.study.table.column_names, []
        for column in np.argsort(-np.abs(self.vectors[k]), kind="stable")[:MOST_LOADINGS]:
            total, value = float(noise[column] + sampling[column]), float(self.vectors[k, column])
            law = Normal(value, sqrt(total), lowest=-1.0, highest=1.0)
            share = float(noise[column]) / total if total else 0.0
            found.append(
                Estimate(f"loading {k + 1}: {names[column]}", value, law, sqrt(total), share)
            )
        return found

    def angle(self, k: int, edge: float) -> Estimate:
        """Bound the angle between the first k released components and those of these rows."""
        name = f"angle of the first {k}, degrees" if k > 1 else "angle of the first, degrees"
        gap = float(self.values[k - 1] - self.values[k])
        if gap < edge:
            strength = gap / edge
            enough = self.moments.needed(max(strength, 0.25), 1.0)
            reason = f"components {k} and {k + 1} are nearer than the edge of the noise"
            counts = self.moments.study.unit.counts
            refused = NotEstimable(reason, name, strength, 1.0, *enough, counts=counts)
            return Estimate(name, refused=refused)
        rng = np.random.default_rng(self.moments.seed)
        deviations = np.sqrt(self.variances[k:, :k]) * np.abs(self.inverse[k:, :k])
        tangents = [
            np.linalg.norm(rng.standard_normal(deviations.shape) * deviations, 2)
            for _ in range(_DRAWS)
        ]
        return Estimate(name, law=Drawn(np.degrees(np.arctan(tangents)), lowest=0.0))


def find_mixtures(published: Published) -> Mixtures:
    """Return the kept components that noise and sampling do not separate from others.

    By the rule of `estimate_components` for the population that the rows are a sample of. Noise of
    a covariance within owners has no law here: an entry q_jk then has the deviation that the edge
    stands for, edge / (2 sqrt(p)).
    """
    result, p = published.result, len(published.result.eigenvalues)
    count = min(result.header.count, p - 1)
    if count < 1:
        return ((),) * result.header.count
    if published.study.covariance is Covariance.WITHIN:
        variance = result.header.noise_edge**2 / (4 * p)
        n = result.header.n_rows / published.study.unit.weight
        apart = [_separation(result.eigenvalues, k, variance, n) for k in range(count)]
    else:
        found = Gaps(released_moments(published), EstimateScope(), count)
        apart = [found.separation(k) for k in range(count)]
    groups = _groups([*apart, np.inf])  # the next one may be in the last group
    numbers = [tuple(k + 1 for k in group) for group in groups for _ in group]
    return tuple(each if len(each) > 1 else () for each in numbers)[: result.header.count]


def estimate_components(
    moments: ReconciledMoments, scope: EstimateScope, count: int, edge: float
) -> list[Estimate]:
    """Estimate the first components; ``edge`` is the noise edge of the result."""
    spectrum, found = Spectrum(moments, scope, count), list[Estimate]()
    for group in spectrum.groups():
        if spectrum.separation(group[-1]) < LEAST_SEPARATION:
            refused = _hidden(spectrum, group)
            found.append(Estimate(_named("eigenvalue", group), refused=refused))
            continue
        found += [spectrum.value(group, total) for total in (False, True)]
        if len(group) == 1:
            found += spectrum.loadings(group[0])
        found.append(spectrum.angle(group[-1] + 1, edge))
    return found


def _separation(values: Array, k: int, noise: float, n: float) -> float:
    """Return the distance of two eigenvalues in deviations; ``noise`` is a variance."""
    variance = noise + max(float(values[k] * values[k + 1]), 0.0) / n
    return float(values[k] - values[k + 1]) / sqrt(variance) if variance else np.inf


def _groups(separations: Sequence[float]) -> list[range]:
    """Return groups of components whose separations, each from the next one, are too small."""
    count = len(separations)
    ends = [k + 1 for k, each in enumerate(separations) if each >= LEAST_SEPARATION]
    starts = [0, *ends]
    stops = ends if ends and ends[-1] == count else [*ends, count]
    return [range(a, b) for a, b in zip(starts, stops, strict=False)]


def _named(what: str, group: range) -> str:
    first, last = group[0] + 1, group[-1] + 1
    return f"{what} {first}" if first == last else f"{what} {first} to {last}, together"


def _hidden(spectrum: Spectrum, group: range) -> NotEstimable:
    last, separation = group[-1] + 1, spectrum.separation(group[-1])
    noise, sampling = (each[last, last - 1] for each in (spectrum.variances, spectrum.sampling))
    share = float(noise / (noise + max(sampling, 0.0)))
    what = "the noise does" if share > 0.5 else "noise and sampling do"
    reason = f"{what} not separate components {last} and {last + 1}"
    aim = max(separation, 1.0) / LEAST_SEPARATION
    enough = spectrum.moments.needed(aim, share, 1 - share)
    counts, subject = spectrum.moments.study.unit.counts, f"component {last}"
    return NotEstimable(reason, subject, separation, LEAST_SEPARATION, *enough, counts=counts)
