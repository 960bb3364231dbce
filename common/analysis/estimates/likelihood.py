"""Logistic and Poisson regression from a release: maximum likelihood without a row.

With x = (1, regressors), the log-likelihood of n rows is ::

    n (beta' E[x y] - E[A(x' beta)]),   mu = A':   A = log(1 + exp), or exp for counts          (1)

It depends on the outcome only by E[x y], which is released, and on the law of x (`joint_law`). So
the release has the estimate that the rows have, also of a model that does not hold::

    U(beta) = E[x y] - sum_c p_c x_c mu(x_c' beta) = 0                                          (2)

The noise of U is linear in that of the release, and known. Its sampling variance is that of the
model, ``J / n`` with ``J = sum_c p_c mu' x_c x_c'``, times one dispersion for counts; where the
outcome is in the table it is that of the rows, ``E[(y - mu)^2 x x'] / n`` (the sandwich). With an
interaction of log odds 1.5 left out the first is within 2 % of the second.

The interval of a coefficient is its score set (`score_sets`): no rule of strength chooses what is
given. An estimate may not exist, as for separated rows; its set does.

Limits. Rates with exposure, weights, tests of likelihood ratios, goodness of fit, AUC, and a robust
variance of counts cannot be known from pairs and a table of x. An interaction needs the outcome in
the table. One dispersion covers .67 for a group whose counts vary much more than others' do.

Source: P. McCullagh and J. A. Nelder, Generalized Linear Models, 2nd ed., 1989, sections 2.5 and
6.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp, inf, isnan
from typing import Literal

import numpy as np

from dppca.common.analysis.estimates.answers import Estimate, NotEstimable
from dppca.common.analysis.estimates.joint_law import JointLaw
from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.open_law import OpenLaw
from dppca.common.analysis.estimates.release import Linear
from dppca.common.analysis.estimates.score_sets import ScoreAt, ScoreSet

Link = Literal["logit", "log"]
_FARTHEST = 35.0  # of a linear predictor, so that exp is finite
_LARGEST = 700.0  # of which exp is a number
_STEPS = 60  # of Newton's method
_LONGEST = 2.0  # step, in coded units
_CONVERGED = 1e-9  # length of a step of coefficients
LEVEL = 0.05  # of an interval that has to hold some value
FIRST = 1.9  # standard errors: the first step of a search, just inside most sets


def predicted(link: Link, eta: Array) -> tuple[Array, Array]:
    """Return mu and its derivative at linear predictors of any shape."""
    eta = np.clip(eta, -_FARTHEST, _FARTHEST)
    if link == "log":
        mu = np.exp(eta)
        return mu, mu
    mu = 1 / (1 + np.exp(-eta))
    return mu, mu * (1 - mu)


@dataclass(frozen=True, eq=False)
class LikelihoodFit:
    """A regression on the cells of a law.

    Attributes
    ----------
    law
        Law of the regressors, and of the outcome if the table has it. The products that were asked
        for are E[x_j y], with y coded.
    x
        Regressors with a column of ones at each cell, shape (K, k).
    y
        The outcome at each cell, shape (K,); None if the law does not have it.
    y_factor, y_offset
        The outcome is ``offset + factor * coded``.
    rows
        Independent rows that vary as much as all do; infinite for these rows.
    dispersion
        Variance over that of the model.
    solved
        What was solved with a coefficient at a value: where the next search starts.
    """

    law: JointLaw | OpenLaw
    link: Link
    x: Array
    y: Array | None
    y_factor: float
    y_offset: float
    rows: float
    dispersion: float = 1.0
    solved: dict[tuple[int, float], Array] = field(default_factory=dict)

    def target(self) -> Array:
        """E[x y], shape (k,)."""
        if self.y is not None:
            return np.asarray(self.x.T @ (self.law.shares * self.y))
        asked = self.law.products.values[-self.x.shape[1] :]
        return np.asarray(self.y_factor * asked + self.y_offset * (self.x.T @ self.law.shares))

    def information(self, slope: Array) -> Array:
        """J of derivatives mu' at the cells, shape (k, k)."""
        return np.asarray((self.x * (self.law.shares * slope)[:, None]).T @ self.x)

    def solve(self, start: Array, fixed: int | None = None) -> Array | None:
        """Solve equation (2), with one coefficient fixed at its start; None without a solution."""
        free = np.arange(self.x.shape[1]) != (-1 if fixed is None else fixed)
        beta, target, p = start.copy(), self.target(), self.law.shares
        for _ in range(_STEPS):
            mu, slope = predicted(self.link, self.x @ beta)
            information = self.information(slope)[np.ix_(free, free)]
            try:
                step = np.linalg.solve(information, (target - self.x.T @ (p * mu))[free])
            except np.linalg.LinAlgError:
                return None
            length = float(np.linalg.norm(step))
            beta[free] += step * min(1.0, _LONGEST / max(length, _CONVERGED))
            if length < _CONVERGED:
                return beta if self.is_inside(beta, information) else None
        return None

    def is_inside(self, beta: Array, information: Array) -> bool:
        """Whether coefficients are finite ones of most likelihood."""
        definite = not information.size or np.linalg.eigvalsh(information)[0] > 0
        return bool(definite and np.abs(self.x @ beta).max() < _FARTHEST)

    def ends(
        self, weights: Array, beta: Array, h: Array | None = None
    ) -> tuple[Linear, Linear, Array]:
        """Return both ends of ``w' U(beta) + E[h]``, of (r, k) and (r, K), as `OpenLaw.ends`."""
        mu, _ = predicted(self.link, self.x @ beta)
        along = weights @ self.x.T
        more = np.zeros_like(along) if h is None else h
        if self.y is not None:
            return self.law.ends(along * (self.y - mu) + more, None, h)
        return self.law.ends(along * (self.y_offset - mu) + more, self.y_factor * weights, h)

    def spread(self, weights: Array, beta: Array, h: Array | None = None) -> Array:
        """Return n times the sampling variance of ``w' U(beta) + E[h]``, shape (r,)."""
        return np.maximum(np.diag(self.spreads(weights, beta, h)), 0.0)

    def spreads(self, weights: Array, beta: Array, h: Array | None = None) -> Array:
        """Return n times the sampling covariance of ``w' U(beta) + E[h]``, shape (r, r)."""
        mu, slope = predicted(self.link, self.x @ beta)
        along, p = weights @ self.x.T, self.law.shares
        own = np.zeros_like(along) if h is None else h - (h @ p)[:, None]
        if self.y is not None:
            influence = along * (self.y - mu) + own
            return np.asarray((influence * p) @ influence.T)
        model = (along * (p * self.dispersion * slope)) @ along.T
        return np.asarray(model + (own * p) @ own.T)

    def begin(self) -> Array:
        """Coefficients without any effect: the mean of the outcome."""
        mean = float(self.target()[0])
        start = np.zeros(self.x.shape[1])
        if self.link == "log":
            start[0] = np.log(max(mean, 1e-6))
        else:
            share = min(max(mean, 1e-6), 1 - 1e-6)
            start[0] = np.log(share / (1 - share))
        return start

    def judge(self, place: int, value: float) -> ScoreAt | None:
        """Return U of one coefficient at a value, the others solved there; None if they are not."""
        known = [(abs(value - at), each) for (j, at), each in self.solved.items() if j == place]
        start = min(known, key=lambda pair: pair[0])[1].copy() if known else self.begin()
        start[place] = value
        beta = self.solve(start, place)
        if beta is None and known:
            start = self.begin()
            start[place] = value
            beta = self.solve(start, place)
        if beta is None:
            return None
        self.solved[place, value] = beta
        _, slope = predicted(self.link, self.x @ beta)
        information = self.information(slope)
        others = np.arange(len(beta)) != place
        e = np.zeros(len(beta))
        e[place] = 1
        try:
            e[others] = -np.linalg.solve(
                information[np.ix_(others, others)], information[others, place]
            )
        except np.linalg.LinAlgError:
            return None
        return self.score(e, beta)

    def score(
        self, weights: Array, beta: Array, h: Array | None = None, value: float = 0.0
    ) -> ScoreAt:
        """Return ``w' U(beta) + E[h] - value``, of weights (k,) and h (K,)."""
        w, more = weights[None], None if h is None else h[None]
        *found, slack = self.ends(w, beta, more)
        own = float(self.spread(w, beta, more)[0])
        values = [float(each.values[0]) - value for each in found]
        order = np.argsort(values, kind="stable")  # noise may exchange the ends of a narrow gap
        low, high = (values[place] for place in order)
        noise = tuple(float(found[place].noise.variance[0]) for place in order)
        sampling = tuple(max(own + float(slack[place, 0]), 0) / self.rows for place in order)
        excess = max(float(each.noise.kurtosis[0]) for each in found)
        return ScoreAt(low, high, (noise[0], noise[1]), (sampling[0], sampling[1]), excess)


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a coefficient: itself over a unit, or the exponential of that."""

    factor: float
    as_ratio: bool

    def __call__(self, coefficient: float) -> float:
        """Return what is shown."""
        value = coefficient / self.factor
        if not self.as_ratio:
            return value
        return exp(value) if value < _LARGEST else inf

    def slope(self, coefficient: float) -> float:
        """Return the derivative of what is shown."""
        return (self(coefficient) if self.as_ratio else 1.0) / self.factor


def coefficients(
    fit: LikelihoodFit,
    names: Sequence[str],
    factors: Sequence[float],
    *,
    as_ratio: bool,
    merge: str,
) -> tuple[list[Estimate], Array | None]:
    """Estimate each coefficient of a fit, with its score set; and their covariance, shape (k, k).

    ``factors`` are the units of regressors in coded ones; ``merge`` says what may help where
    nothing can be said. The covariance is None without a solution, and where pairs leave its place
    open: then there is no one law of all coefficients.
    """
    solution = fit.solve(fit.begin())
    found = []
    covariance = None
    if solution is not None:
        for place, value in enumerate(solution):
            fit.solved[place, float(value)] = solution
        slope = predicted(fit.link, fit.x @ solution)[1]
        inverse = np.asarray(np.linalg.inv(fit.information(slope)), dtype=np.float64)
        *found_ends, slack = fit.ends(inverse, solution)
        noise = np.max([each.noise.variance for each in found_ends], axis=0)
        scale = np.array(
            [
                Shown(factor, as_ratio).slope(value)
                for factor, value in zip(factors, solution, strict=True)
            ]
        )
        if isinstance(fit.law, JointLaw) and np.isfinite(scale).all():
            both = found_ends[0].noise.covariance + fit.spreads(inverse, solution) / fit.rows
            covariance = both * np.outer(scale, scale)
        sampling = (fit.spread(inverse, solution) + slack.max(axis=0)) / fit.rows
    for place, (name, factor) in enumerate(zip(names, factors, strict=True)):
        shown = Shown(factor, as_ratio)
        null = None if place == 0 else 0.0
        unit = max(float(np.abs(fit.x[:, place]).max()), 1e-6)
        judge = _judge(fit, place)
        if solution is None:
            law = ScoreSet(judge, float(fit.begin()[place]), 0.25 / unit, unit, shown, null)
            known = law.judge(law.start) is not None and not isnan(law.interval(LEVEL)[0])
            found.append(
                Estimate(name, law=law) if known else Estimate(name, refused=unsolved(name, merge))
            )
            continue
        total = float(noise[place] + sampling[place])
        se = total**0.5
        law = ScoreSet(judge, float(solution[place]), max(FIRST * se, 1e-6), unit, shown, null)
        value = shown(float(solution[place]))
        bse = se / factor * (value if as_ratio else 1.0)
        share = float(noise[place]) / total if total else 0.0
        found.append(Estimate(name, value, law, bse, share))
    return found, covariance


def _judge(fit: LikelihoodFit, place: int) -> Callable[[float], ScoreAt | None]:
    return lambda value: fit.judge(place, value)


def unsolved(name: str, merge: str) -> NotEstimable:
    """Refuse an estimate beside which no other coefficients fit."""
    reason = "with the noise, no values of the other coefficients fit"
    return NotEstimable(reason, name, None, 0.0, None, None, (merge,))
