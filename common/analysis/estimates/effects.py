"""Average marginal effects of a logistic regression: adjusted differences of a share.

With beta the coefficients of `likelihood`, the effect of a label is the difference of two mean
predicted shares, of all rows with the label and of all rows with the one that is left out, all else
as it is; that of a number is the mean slope, for one unit::

    theta = E[h],   h(x) = mu(x_1' beta) - mu(x_0' beta),   or   mu'(x' beta) d(x' beta) / dv   (1)

The release knows it as it knows beta: with ``w = J^-1 E[dh / dbeta]``, to first order::

    estimate - theta = w' U(beta) + E[h] - theta                                                (2)

is one function of the cells and of the released products, whose noise is known, or lies between two
ends without a table. Its sampling variance has the part of beta, that of the law of x, and, where
the outcome is in the table, what both have in common.

The interval is a score set: all r at which (2) is within its noise and sampling, with beta of most
likelihood among those with ``E[h] = r``. It exists where no estimate does.

Source: B. I. Graubard and E. L. Korn, Predictive margins with survey data, Biometrics 55 (1999)
652-659; the noise is derived for this project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan

import numpy as np

from dppca.common.analysis.estimates.answers import Estimate
from dppca.common.analysis.estimates.joint_law import JointLaw
from dppca.common.analysis.estimates.likelihood import (
    FIRST,
    LEVEL,
    LikelihoodFit,
    predicted,
    unsolved,
)
from dppca.common.analysis.estimates.logit import NO_VALUE, Regression, Regressor
from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.score_sets import REACH, ScoreAt, ScoreSet
from dppca.common.analysis.estimates.variables import Variable

_STEPS = 100  # of a search for coefficients of one effect
_LONGEST = 1.0  # step, in coded units
_CONVERGED = 1e-7  # length of a step of coefficients
_STEEPEST = 4.0  # change of the linear predictor by a change of a share by 1, at the least


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of one variable on the cells of a fit: h of equation (1).

    ``high`` and ``low`` are designs (K, k) with a label and without; of a number, ``high`` is the
    derivative of the design and ``low`` is None. ``solved`` are coefficients by their effect.
    """

    fit: LikelihoodFit
    variable: Variable
    high: Array
    low: Array | None
    solved: dict[float, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, fit: LikelihoodFit, terms: Sequence[Regressor], variable: Variable) -> Effect:
        """Return the effect of a variable that is in some of the terms."""
        own = {each for term in terms for each in term.parts}
        own = {each for each in own if each.attribute == variable.attribute}
        if variable.label is not None:
            with_it = {each: float(each == variable) for each in own}
            without = dict.fromkeys(own, 0.0)
            return cls(fit, variable, _design(fit, terms, with_it), _design(fit, terms, without))
        slopes = [
            np.zeros(len(fit.x))
            if variable not in term.parts
            else term.values(fit.law, {variable: 1 / variable.factor})
            for term in terms
        ]
        return cls(fit, variable, np.column_stack([np.zeros(len(fit.x)), *slopes]), None)

    def at(self, beta: Array) -> tuple[Array, Array]:
        """Return h, shape (K,), and its derivative by beta, shape (K, k)."""
        if self.low is not None:
            (one, up), (other, down) = (
                predicted(self.fit.link, x @ beta) for x in (self.high, self.low)
            )
            return one - other, self.high * up[:, None] - self.low * down[:, None]
        mu, slope = predicted(self.fit.link, self.fit.x @ beta)
        along = self.high @ beta
        bent = slope * (1 - 2 * mu) * along
        return slope * along, self.high * slope[:, None] + self.fit.x * bent[:, None]

    def weights(self, beta: Array) -> Array | None:
        """Return w of equation (2), shape (k,); None where J has no inverse."""
        _, slope = predicted(self.fit.link, self.fit.x @ beta)
        try:
            found = np.linalg.solve(
                self.fit.information(slope), self.at(beta)[1].T @ self.fit.law.shares
            )
        except np.linalg.LinAlgError:
            return None
        return np.asarray(found, dtype=np.float64)

    def solve(self, value: float, start: Array) -> Array | None:
        """Return the coefficients of most likelihood with an effect; None if none are found."""
        fit, beta, p = self.fit, start.copy(), self.fit.law.shares
        target = fit.target()
        for _ in range(_STEPS):
            mu, slope = predicted(fit.link, fit.x @ beta)
            h, gradient = self.at(beta)
            own, information = gradient.T @ p, fit.information(slope)
            try:
                both = np.linalg.solve(
                    information, np.column_stack([target - fit.x.T @ (p * mu), own])
                )
            except np.linalg.LinAlgError:
                return None
            curvature = float(own @ both[:, 1])
            if not curvature > 0:
                return None
            pull = (value - p @ h - own @ both[:, 0]) / curvature
            step = both[:, 0] + pull * both[:, 1]
            length = float(np.linalg.norm(step))
            beta += step * min(1.0, _LONGEST / max(length, _CONVERGED))
            if length < _CONVERGED:
                return beta if fit.is_inside(beta, information) else None
        return None

    def judge(self, value: float) -> ScoreAt | None:
        """Return (2) at an effect; None where no coefficients have it."""
        near = sorted(self.solved, key=lambda at: abs(value - at))[:1]
        starts = [*(self.solved[each] for each in near), self.fit.begin()]
        beta = next((b for s in starts if (b := self.solve(value, s)) is not None), None)
        weights = None if beta is None else self.weights(beta)
        if beta is None or weights is None:
            return None
        self.solved[value] = beta
        return self.fit.score(weights, beta, self.at(beta)[0], value)

    def score_set(self, start: float, step: float) -> ScoreSet:
        """Return the set, whose search begins at ``start``."""
        if self.low is not None:
            return ScoreSet(self.judge, start, step, REACH / 2, _possible)
        return ScoreSet(self.judge, start, step, _STEEPEST * self.variable.factor)


def estimate_effects(made: Regression) -> tuple[list[Estimate], Array | None, tuple[str, ...]]:
    """Estimate the effect of each variable, and say what the intervals rest on.

    The second value is the covariance, as `coefficients` has it.
    """
    fit = made.fit
    variables = dict.fromkeys(each for term in made.terms for each in term.parts)
    effects = [Effect.of(fit, made.terms, each) for each in variables]
    solution = fit.solve(fit.begin())
    if solution is None:
        found = [_without(each, made.merge) for each in effects]
        names = [each.name for each in found if each.refused is None]
        none = (NO_VALUE.format(", ".join(names)), made.merge) if names else ()
        return found, None, (*made.told, *none)
    h = np.array([each.at(solution)[0] for each in effects])
    gradients = np.array([each.at(solution)[1].T @ fit.law.shares for each in effects])
    _, slope = predicted(fit.link, fit.x @ solution)
    weights = np.linalg.solve(fit.information(slope), gradients.T).T
    *ends, slack = fit.ends(weights, solution, h)
    noise = np.max([each.noise.variance for each in ends], axis=0)
    sampling = np.maximum(fit.spread(weights, solution, h) + slack.max(axis=0), 0) / fit.rows
    found = []
    for each, value, of_noise, rest in zip(
        effects, h @ fit.law.shares, noise, sampling, strict=True
    ):
        each.solved[float(value)] = solution
        total = float(of_noise + rest)
        law = each.score_set(float(value), max(FIRST * total**0.5, 1e-6))
        share = float(of_noise) / total if total else 0.0
        found.append(Estimate(each.variable.name, float(value), law, total**0.5, share))
    covariance = None
    if isinstance(fit.law, JointLaw):
        covariance = ends[0].noise.covariance + fit.spreads(weights, solution, h) / fit.rows
    return found, covariance, made.told


def _without(effect: Effect, merge: str) -> Estimate:
    law = effect.score_set(0.0, 0.05 if effect.low is not None else 0.05 / effect.variable.factor)
    name = effect.variable.name
    bounded = effect.low is not None  # then -1 to 1 says that nothing is excluded
    known = (bounded or law.judge(law.start) is not None) and not isnan(law.interval(LEVEL)[0])
    return Estimate(name, law=law) if known else Estimate(name, refused=unsolved(name, merge))


def _design(fit: LikelihoodFit, terms: Sequence[Regressor], at: dict[Variable, float]) -> Array:
    return np.column_stack([np.ones(len(fit.x)), *(term.values(fit.law, at) for term in terms)])


def _possible(difference: float) -> float:
    return min(max(difference, -1.0), 1.0)
