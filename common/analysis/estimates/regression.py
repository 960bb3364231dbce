"""Linear regression by ordinary least squares, from second moments.

With A the moments of (1, x), b those with y, and theta = (-beta, 1): ``beta = A^-1 b``, whose noise
is ``A^-1 E theta`` to first order, with an exact covariance. The rows' part is
``sigma^2 (X'X)^-1`` with constant variance, for a binary outcome at most ``(X'X)^-1 / 4``, as
p (1 - p) <= 1/4; for a number, whatever its variance depends on, at most

    E[u^2 e^2] <= min(max u^2 E[e^2], max e^2 E[u^2]),      u = a x,                            (1)

for a row a of (X'X)^-1 and the residual e, where the bounds of the schema say how large u and e
can be; or, for a binary outcome, the sandwich ``(X'X)^-1 X' diag(e^2) X (X'X)^-1``, of the cells
of a table that has all, or of rows that are drawn from the fitted field. Where an outcome is rare
the bound is far too wide, so the sandwich is the default. By person, cells and field are of a
random row of a random person, and what a person's rows add together varies at most as c times one
of them: so the sandwich is at least the variance, whatever rows of a person have in common.

The interval of a coefficient is Fieller's set. With v what the other regressors leave of its own,
``R = v' A v`` and e the residual, the coefficient is ``beta_j R / R``, and at any value r ::

    U(r) = v' G (e + (beta_j - r) v) = (beta_j - r) R

has the noise of forms that are linear in r. Where the noise may hide R the set has no end, and it
is given as it is: a rule of least strength would choose the intervals that miss (.41 of .95 at 2.8
deviations). A fit whose A is not positive definite has no set, and is refused.

The strength of a coefficient is R over the standard deviation of its noise; below 2 its set has no
end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from dppca.common.analysis.estimates.answers import Estimate, NotEstimable, ratio_estimate
from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.joint_law import joint_law
from dppca.common.analysis.estimates.noise import Array, form
from dppca.common.analysis.estimates.release import Linear, ReconciledMoments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.estimates.variables import Variable
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema.layout import Layout
from dppca.common.kernel.schema.units import Person

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
    variance: str | None,
    progress: Callable[[float], None] | None,
) -> tuple[list[Estimate], Array | None, str]:
    """Estimate the coefficients of ``const`` and the regressors, in their own units.

    The second value is their covariance, shape (k + 1, k + 1); None if the fit is refused. The
    third says which variance was taken: ``constant``, ``bound``, ``table`` or ``sandwich``.
    """
    people = isinstance(moments.study.unit, Person)
    used = variance or ("bound" if people or y.label is not None else "constant")
    _check(y, regressors)
    block = moments.block([y.attribute, *(each.attribute for each in regressors)])
    made, names = design(block, regressors), ["const", *(each.name for each in regressors)]
    if made.inverse is None:
        refused = _refused(moments, block, regressors, made)
        return [Estimate(name, refused=refused) for name in names], None, used
    n, b = moments.n_rows, made.inverse @ made.vectors @ block.matrix @ y.coded(block)
    rest, freedom = y.coded(block) - b @ made.vectors, max(n - len(names), 1)
    rows = made.inverse / 4
    robust = variance is None and y.label is not None and not scope.these_rows
    if robust or variance == "sandwich":
        taken = _of_table(moments, y, regressors, block, made.inverse, b)
        taken = taken or _of_field(moments, y, regressors, progress)
        if taken is not None:
            used, rows = taken
        elif variance is not None:
            raise SettingError("no field could be fitted to this release: take the bound")
    elif used != "bound" or y.label is None:
        rows = made.inverse * max(block.value(rest, rest), 0.0) * n / freedom
    zeros = np.eye(len(names))  # from coded regressors to those that are 0 in their own units
    zeros[0, 1:] = [-each.offset / each.factor for each in regressors]
    vectors = np.linalg.inv(zeros).T @ made.vectors
    influence, errors = zeros @ made.inverse, np.array([[*-b, 1.0]])
    b, inverse, rows = zeros @ b, zeros @ made.inverse @ zeros.T, zeros @ rows @ zeros.T
    if used == "bound" and y.label is None:
        layout = moments.study.table.layout
        widest = reach(layout, influence, regressors) ** 2 * max(block.value(rest, rest), 0.0)
        furthest = reach(layout, errors, [*regressors, y]) ** 2 * np.diag(inverse)
        scale = np.sqrt(np.minimum(widest, furthest) / np.diag(inverse))
        rows = np.outer(scale, scale) * inverse  # correlations as with constant variance
    df = freedom if used == "constant" and not scope.these_rows else inf
    factors = y.factor / np.array([1.0, *(each.factor for each in regressors)])
    covariance = block.noise(form(inverse @ vectors, rest)).covariance + rows / scope.rows(moments)
    found = []
    for j, name in enumerate(names):
        left = 1 / inverse[j, j]
        own = left * inverse[j] @ vectors
        noise = block.noise(np.array([form(own, rest + b[j] * own), form(own, own)]))
        sampling = float(rows[j, j]) * left**2 / scope.rows(moments)
        found.append(
            ratio_estimate(
                *(name, Linear(np.array([b[j] * left, left]), noise), np.diag([sampling, 0.0])),
                offset=0.0 if j else y.offset,
                factor=float(factors[j]),
                lowest=-inf,
                df=df,
                null=0.0,
            )
        )
    return found, covariance * np.outer(factors, factors), used


def reach(layout: Layout, weights: Array, variables: Sequence[Variable]) -> Array:
    """Return the largest size of weighted sums of (1, coded variables) over all possible rows.

    ``weights`` has shape (m, k + 1); of the labels of one attribute a row has one at most.
    """
    low, high = weights[:, 0].copy(), weights[:, 0].copy()
    for attribute in dict.fromkeys(each.attribute for each in variables):
        own = [(j, v) for j, v in enumerate(variables, 1) if v.attribute == attribute]
        ends = [np.sort(np.outer(weights[:, j], v.ends(layout))) for j, v in own]
        if all(v.label is not None for _, v in own):
            none = sum(weights[:, j] * v.ends(layout)[0] for j, v in own)
            steps = [weights[:, j] * (v.ends(layout)[1] - v.ends(layout)[0]) for j, v in own]
            low += none + np.minimum(0, np.min(steps, axis=0))
            high += none + np.maximum(0, np.max(steps, axis=0))
        else:
            low += sum(each[:, 0] for each in ends)
            high += sum(each[:, 1] for each in ends)
    return np.maximum(np.abs(low), np.abs(high))


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


def _refused(
    moments: ReconciledMoments, block: Block, regressors: Sequence[Variable], made: Design
) -> NotEstimable:
    """Return why there is no fit; `SettingError` if it is not the noise."""
    weakest, noise = _weakest_direction(made)
    if noise <= _ROUNDING**2:
        raise SettingError("the regressors determine each other: leave one out")
    name = regressors[weakest].name
    reason = f"with the noise, {name} is no longer independent of the other regressors"
    remedies = _remedies(moments, block, regressors, weakest)
    return NotEstimable(reason, name, None, 0.0, None, None, remedies)


def _weakest_direction(made: Design) -> tuple[int, float]:
    """Return the regressor with most of the lowest direction, and the variance of its noise."""
    scale = np.sqrt(np.abs(np.diag(made.normal)))
    _, directions = np.linalg.eigh(made.normal / np.outer(scale, scale))
    lowest = (directions[:, 0] / scale) @ made.vectors
    noise = float(made.block.noise(form(lowest, lowest)[None]).variance[0])
    return int(np.argmax(np.abs(directions[1:, 0]))), noise


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


def _of_table(
    moments: ReconciledMoments,
    y: Variable,
    regressors: Sequence[Variable],
    block: Block,
    inverse: Array,
    b: Array,
) -> tuple[str, Array] | None:
    """Return n times the sandwich covariance from a table of all labels; None without one."""
    attributes = list(dict.fromkeys(each.attribute for each in (*regressors, y)))
    if any(each.label is None for each in regressors):
        return None
    nothing = (np.empty((0, len(block.matrix))), np.empty((0, len(block.matrix))))
    law = joint_law(moments, attributes, block, nothing)
    if law is None:
        return None
    likely = np.maximum(law.shares, 0)
    x = np.column_stack([np.ones(len(law.codes)), *(law.values(each) for each in regressors)])
    around = likely / likely.sum() * (law.values(y) - x @ b) ** 2
    return "table", np.asarray(inverse @ ((x * around[:, None]).T @ x) @ inverse)


def _of_field(
    moments: ReconciledMoments,
    y: Variable,
    regressors: Sequence[Variable],
    progress: Callable[[float], None] | None,
) -> tuple[str, Array] | None:
    """Return n times the sandwich covariance of coded coefficients, from rows of the field.

    None where there is no field, as in a forecast.
    """
    if moments.published is None:
        return None
    from dppca.common.analysis.rows.synthesis import synthesize
    from dppca.common.kernel.schema.frames import encode

    result, study = moments.published.result, moments.published.study
    try:
        drawn = synthesize(
            result,
            study,
            Form.DECODED,
            n_rows=_FIELD_ROWS,
            rng=np.random.default_rng(moments.seed),
            progress=progress,
        )
    except SettingError:  # without a field, of so many rows
        return None
    if drawn.method is None or not drawn.method.of_field:
        return None
    coded = np.concatenate([encode(batch, study.table) for batch in drawn.batches()])
    x = np.column_stack([np.ones(len(coded)), *(_of_rows(each, coded) for each in regressors)])
    outcome = _of_rows(y, coded)
    bread = np.linalg.pinv(x.T @ x / len(x))
    residual = outcome - x @ (bread @ (x.T @ outcome) / len(x))
    middle = (x * residual[:, None] ** 2).T @ x / len(x)
    return "sandwich", np.asarray(bread @ middle @ bread)


def _of_rows(variable: Variable, coded: Array) -> Array:
    values: Array = variable.sign * coded[:, variable.column] + variable.shift
    return values
