"""Principal components with intervals: eigenvalues, shares, loadings, the angle of their subspace.

The covariance C = second - mean mean' has noise F = E - nu mu' - mu nu' to first order. With
q_jk = u_j' F u_k for the released eigenvectors u, of exact variances V_jk, ::

    eigenvalue   lambda_k - sum_j V_jk / (lambda_k - lambda_j),   deviation sd(q_kk)
    loading      deviation of sum_j u_j q_jk / (lambda_k - lambda_j)
    angle        of the first k, for these rows: quantile of arctan |q_ij / (lambda_i - lambda_j)|

Sampling is normal theory: 2 lambda^2 / n of an eigenvalue, lambda_j lambda_k / n of q_jk.
Components nearer to each other than three deviations of q_jk are a plane: their sum is given, no
loadings. Entries q_jk of an angle are drawn as independent normals.

Source: perturbation theory; T. W. Anderson, Asymptotic theory for principal component analysis,
Ann. Math. Statist. 34 (1963), for sampling.
"""

from math import sqrt

import numpy as np

from dppca.common.analysis.estimates.answers import Estimate, NotEstimable, normal_estimate
from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.intervals import Drawn, Normal
from dppca.common.analysis.estimates.release import Linear, ReconciledMoments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.loadings import MOST_LOADINGS
from dppca.common.analysis.spectrum.pca import decompose
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.study import Covariance

LEAST_SEPARATION = 3.0
_DRAWS = 200


class Spectrum:
    """Eigenvectors of the released covariance, with the variances of their noise."""

    def __init__(self, moments: ReconciledMoments, scope: EstimateScope, count: int) -> None:
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
        self.variances = block.variances_between(borders, borders[: count + 1])  # V, (p, count + 1)
        self.borders, self.block = borders, block
        gaps = self.values[: count + 1] - self.values[:, None]
        self.inverse = np.divide(1, gaps, out=np.zeros_like(gaps), where=gaps != 0)
        self.sampling = np.outer(
            np.maximum(self.values, 0), np.maximum(self.values[: count + 1], 0)
        )
        self.sampling /= self.n

    def separation(self, k: int) -> float:
        """Return how far component k is above the next one, in deviations of their noise."""
        noise = sqrt(self.variances[k + 1, k])
        return float(self.values[k] - self.values[k + 1]) / noise if noise else np.inf

    def groups(self) -> list[range]:
        """Return the components in groups that the noise does not separate; the last may go on."""
        ends = [k + 1 for k in range(self.count) if self.separation(k) >= LEAST_SEPARATION]
        starts = [0, *ends]
        stops = ends if ends and ends[-1] == self.count else [*ends, self.count]
        return [range(a, b) for a, b in zip(starts, stops, strict=False)]

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
            return Estimate(name, refused=NotEstimable(reason, name, strength, 1.0, *enough))
        rng = np.random.default_rng(self.moments.seed)
        deviations = np.sqrt(self.variances[k:, :k]) * np.abs(self.inverse[k:, :k])
        tangents = [
            np.linalg.norm(rng.standard_normal(deviations.shape) * deviations, 2)
            for _ in range(_DRAWS)
        ]
        return Estimate(name, law=Drawn(np.degrees(np.arctan(tangents)), lowest=0.0))


def estimate_components(
    moments: ReconciledMoments, scope: EstimateScope, count: int, edge: float
) -> list[Estimate]:
    """Estimate the first components; ``edge`` is the noise edge of the result."""
    spectrum, found = Spectrum(moments, scope, count), list[Estimate]()
    for group in spectrum.groups():
        if spectrum.separation(group[-1]) < LEAST_SEPARATION:
            refused = _hidden(moments, group, spectrum.separation(group[-1]))
            found.append(Estimate(_named("eigenvalue", group), refused=refused))
            continue
        found += [spectrum.value(group, total) for total in (False, True)]
        if len(group) == 1:
            found += spectrum.loadings(group[0])
        found.append(spectrum.angle(group[-1] + 1, edge))
    return found


def _named(what: str, group: range) -> str:
    first, last = group[0] + 1, group[-1] + 1
    return f"{what} {first}" if first == last else f"{what} {first} to {last}, together"


def _hidden(moments: ReconciledMoments, group: range, separation: float) -> NotEstimable:
    last = group[-1] + 1
    reason = f"the noise does not separate components {last} and {last + 1}"
    enough = moments.needed(max(separation, 1.0) / LEAST_SEPARATION, 1.0)
    return NotEstimable(reason, f"component {last}", separation, LEAST_SEPARATION, *enough)
