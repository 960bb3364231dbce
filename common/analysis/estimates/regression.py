"""Linear regression by ordinary least squares, from second moments.

With A the moments of (1, x), b those with y, and theta = (-beta, 1): ``beta = A^-1 b``, whose noise
is ``A^-1 E theta`` to first order, with an exact covariance. The rows' part is
``sigma^2 (X'X)^-1`` with constant variance, for a binary outcome at most ``(X'X)^-1 / 4``, as
p (1 - p) <= 1/4; or, for a binary outcome, the sandwich ``(X'X)^-1 X' diag(e^2) X (X'X)^-1`` of
rows that are drawn from the fitted field.

The strength of a coefficient is the variance of its regressor that the others leave,
R_j = 1 / (A^-1)_jj, over the standard deviation of the noise of that. A fit whose A is not positive
definite, or that has a strength below 2 (where Fieller's set has no end), is refused, and a
coefficient below 4. The intercept is refused with any of them: it is what they leave at zero.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from dppca.common.analysis.estimates.answers import LEAST, Estimate, NotEstimable, normal_estimate
from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.noise import Array, form
from dppca.common.analysis.estimates.release import Linear, ReconciledMoments
from dppca.common.analysis.estimates.scope import EstimateScope, too_weak
from dppca.common.analysis.estimates.variables import Variable
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import SettingError

LEAST_FIT = 2.0
"""Strength below which a regressor takes the whole fit with it."""
_FIELD_ROWS = 60_000  # of the fitted field, from which a sandwich is computed
_ROUNDING = 1e-10  # below it an eigenvalue of a correlation matrix counts as 0


@dataclass(frozen=True, slots=True)
class Design:
    """Moments of (1, regressors): A, shape (k + 1, k + 1), of vectors in a block (k + 1, b).

    ``inverse`` is None where A is not positive definite.
    """

    block: Block
    vectors: Array
    normal: Array
    inverse: Array | None

    @property
    def strengths(self) -> Array:
        """Strength of each regressor, shape (k,); 0 if A is not positive definite."""
        if self.inverse is None:
            return np.zeros(len(self.vectors) - 1)
        own = np.diag(self.inverse)[1:]
        left = (self.inverse[1:] / own[:, None]) @ self.vectors
        noise = np.sqrt(self.block.noise(form(left, left)).variance)
        return np.asarray(np.divide(1 / own, noise, out=np.full(len(own), inf), where=noise > 0))


def design(block: Block, regressors: Sequence[Variable]) -> Design:
    """Return the moments of regressors."""
    vectors = np.array([block.unit(0), *(each.coded(block) for each in regressors)])
    normal = vectors @ block.matrix @ vectors.T
    scale = np.sqrt(np.abs(np.diag(normal)))
    definite = np.linalg.eigvalsh(normal / np.outer(scale, scale))[0] > _ROUNDING
    return Design(block, vectors, normal, np.linalg.inv(normal) if definite else None)


def estimate_ols(
    moments: ReconciledMoments,
    scope: EstimateScope,
    y: Variable,
    regressors: Sequence[Variable],
    variance: str,
    progress: Callable[[float], None] | None,
) -> tuple[list[Estimate], Array | None]:
    """Estimate the coefficients of ``const`` and the regressors, in their own units.

    The other value is their covariance, shape (k + 1, k + 1), NaN where one is refused; None if
    all are.
    """
    _check(y, regressors)
    block = moments.block([y.attribute, *(each.attribute for each in regressors)])
    made, names = design(block, regressors), ["const", *(each.name for each in regressors)]
    refusals = _refusals(moments, block, regressors, made)
    if made.inverse is None or all(refusals):
        return [Estimate(name, refused=refusals[0]) for name in names], None
    n, inverse = moments.n_rows, made.inverse
    b = inverse @ made.vectors @ block.matrix @ y.coded(block)
    rest = y.coded(block) - b @ made.vectors
    noise = block.noise(form(inverse @ made.vectors, rest))
    freedom = max(n - len(names), 1)
    if variance == "sandwich":
        rows = _sandwich(moments, y, regressors, progress)
    elif variance == "bound":
        rows = inverse / 4
    else:
        rows = inverse * max(block.value(rest, rest), 0.0) * n / freedom
    factors = np.array([y.factor, *(y.factor / each.factor for each in regressors)])
    units = np.diag(factors)
    units[0, 1:] = -factors[1:] * [each.offset for each in regressors]
    found = Linear(b, noise).combine(units)
    found.values[0] += y.offset
    sampling = units @ rows @ units.T / scope.rows(moments)
    df = freedom if variance == "constant" and not scope.these_rows else inf
    intercept = next((each for each in refusals if each is not None), None)
    reasons, covariance = [intercept, *refusals], found.noise.covariance + sampling
    hidden = [each is not None for each in reasons]
    covariance[hidden], covariance[:, hidden] = np.nan, np.nan
    return [
        normal_estimate(name, found.part(j), float(sampling[j, j]), df=df, null=0.0)
        if refused is None
        else Estimate(name, refused=refused)
        for j, (name, refused) in enumerate(zip(names, reasons, strict=True))
    ], covariance


def _check(y: Variable, regressors: Sequence[Variable]) -> None:
    names = [each.name for each in regressors]
    twice = {name for name in names if names.count(name) > 1}
    if not names or twice:
        raise SettingError(
            f"regressors must differ: {', '.join(sorted(twice))}" if twice else "name a regressor"
        )
    y.require_complete()
    if y.attribute in [each.attribute for each in regressors]:
        raise SettingError(f"{y.name} is of an attribute that is among its own regressors")


def _refusals(
    moments: ReconciledMoments, block: Block, regressors: Sequence[Variable], made: Design
) -> list[NotEstimable | None]:
    """Return a refusal for each regressor, the same for all where the fit is refused."""

    def told(j: int, reason: str, size: float, noise: float) -> NotEstimable | None:
        name, remedies = regressors[j].name, _remedies(moments, block, regressors, j)
        reason = reason.format(name)
        return too_weak(moments, name, reason, size=size, noise=noise, remedies=remedies)

    if made.inverse is None:
        weakest, size, noise = _weakest_direction(made)
        if noise <= _ROUNDING**2:
            raise SettingError("the regressors determine each other: leave one out")
        reason = "with the noise, {} is no longer independent of the other regressors"
        return [told(weakest, reason, size, noise)] * len(regressors)
    strengths = [float(each) for each in made.strengths]
    reason = "the noise hides what the other regressors leave of {}"
    if min(strengths) < LEAST_FIT:
        weakest = int(np.argmin(strengths))
        return [told(weakest, reason, strengths[weakest], 1.0)] * len(regressors)
    return [
        None if strength >= LEAST else told(j, reason, strength, 1.0)
        for j, strength in enumerate(strengths)
    ]


def _weakest_direction(made: Design) -> tuple[int, float, float]:
    """Return the regressor with most of the lowest direction, and variance and noise of that."""
    scale = np.sqrt(np.abs(np.diag(made.normal)))
    values, directions = np.linalg.eigh(made.normal / np.outer(scale, scale))
    lowest = (directions[:, 0] / scale) @ made.vectors
    noise = float(made.block.noise(form(lowest, lowest)[None]).variance[0])
    return int(np.argmax(np.abs(directions[1:, 0]))), float(values[0]), noise


def _remedies(
    moments: ReconciledMoments, block: Block, regressors: Sequence[Variable], weakest: int
) -> tuple[str, ...]:
    """Say what merging the smallest label of a regressor, or leaving it out, would give."""
    attribute, ways = regressors[weakest].attribute, list[tuple[str, list[Variable]]]()
    labels = [each for each in regressors if each.attribute == attribute]
    name = regressors[weakest].name
    if len(labels) > 1:
        smallest = min(labels, key=lambda each: block.value(block.unit(0), each.coded(block)))
        rest = [each for each in regressors if each is not smallest]
        if labels[0].label is not None:
            ways.append((f"{smallest.name} merged with the reference", rest))
        name = moments.names.schema.attributes[attribute].name
    ways.append((f"Without {name}", [each for each in regressors if each.attribute != attribute]))
    found = []
    for way, left in ways:
        if left:
            strengths = design(block, left).strengths
            j = int(np.argmin(strengths))
            weak = f"weakest {left[j].name}, strength {strengths[j]:.1f}"
            found.append(f"{way}: {weak if strengths[j] else 'still not estimable'}")
    return tuple(found)


def _sandwich(
    moments: ReconciledMoments,
    y: Variable,
    regressors: Sequence[Variable],
    progress: Callable[[float], None] | None,
) -> Array:
    """Return n times the sandwich covariance of coded coefficients, from rows of the field."""
    if moments.published is None:
        raise SettingError("a forecast has no rows: take the bound, or constant variance")
    from dppca.common.analysis.rows.synthesis import synthesize
    from dppca.common.kernel.schema.frames import encode

    result, study = moments.published.result, moments.published.study
    drawn = synthesize(
        result,
        study,
        Form.DECODED,
        n_rows=_FIELD_ROWS,
        rng=np.random.default_rng(moments.seed),
        progress=progress,
    )
    if drawn.method is None or not drawn.method.of_field:
        raise SettingError("no field could be fitted to this release: take the bound")
    coded = np.concatenate([encode(batch, study.table) for batch in drawn.batches()])
    x = np.column_stack([np.ones(len(coded)), *(_of_rows(each, coded) for each in regressors)])
    outcome = _of_rows(y, coded)
    bread = np.linalg.pinv(x.T @ x / len(x))
    residual = outcome - x @ (bread @ (x.T @ outcome) / len(x))
    middle = (x * residual[:, None] ** 2).T @ x / len(x)
    return np.asarray(bread @ middle @ bread)


def _of_rows(variable: Variable, coded: Array) -> Array:
    values: Array = variable.sign * coded[:, variable.column] + variable.shift
    return values
