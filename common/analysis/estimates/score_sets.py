"""Confidence sets of a coefficient by its score: Fieller's set of a regression with a link.

With U(r) the score of a coefficient at the value r, the others solved at r, the set is ::

    {r : |U(r)| <= z sd(U(r))}                                                                  (1)

with the deviation of noise and sampling at r. It exists where an estimate does not, and its ends
are infinite where the data have none: then it is a half-line, or all numbers. So its coverage is
not conditional on anything. Where the others cannot be solved at r, nothing is known against r.

Source: D. D. Boos, On generalized score tests, The American Statistician 46 (1992) 327-333.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, nan, sqrt

from dppca.common.analysis.estimates.intervals import quantile, tail

REACH = 25.0
"""Distance from the start, in units of the linear predictor, beyond which an end is infinite."""
_GROWTH = 1.4  # of steps outwards
_TRIES = 30  # narrowings of the place where a set ends
_CLOSE = 1e-3  # of a deviation: what an end is off at most, outwards


@dataclass(frozen=True, slots=True)
class ScoreAt:
    """U(r): at least ``low`` and at most ``high``, with the variances of noise and sampling.

    Both are the same number where the release knows U. The variances are of each end.
    """

    low: float
    high: float
    noise: tuple[float, float]
    sampling: tuple[float, float]
    excess: float

    def statistic(self) -> tuple[float, float]:
        """Return the distance of U from 0 in deviations, and the excess kurtosis there."""
        if self.low <= 0 <= self.high:
            return 0.0, 0.0
        place = 0 if self.low > 0 else 1
        noise, sampling = self.noise[place], self.sampling[place]
        total = noise + sampling
        if total <= 0:
            return inf, 0.0
        size = min(abs(self.low), abs(self.high))
        return size / sqrt(total), self.excess * (noise / total) ** 2


@dataclass(frozen=True, eq=False)
class ScoreSet:
    """The set (1) of a coefficient, mapped to what is shown by an increasing function.

    Attributes
    ----------
    judge
        Returns U(r), or None where the other coefficients cannot be solved.
    start
        The estimate, or where the search begins if there is none: then the set may not hold it.
    step
        First step of the search.
    unit
        Change of the linear predictor by a change of the coefficient by 1: what counts as far.
    shown
        From the coefficient to what is shown.
    null
        Value of the coefficient without an effect; None if that is no question.
    """

    judge: Callable[[float], ScoreAt | None]
    start: float
    step: float
    unit: float = 1.0
    shown: Callable[[float], float] = float
    null: float | None = 0.0
    _found: dict[float, tuple[float, float]] = field(default_factory=dict)

    @property
    def pvalue(self) -> float | None:
        """Two-sided p-value of ``null``, by the score; None where it is no question, or unknown."""
        if self.null is None:
            return None
        score = self.judge(self.null)
        if score is None:
            return None
        distance, excess = score.statistic()
        return tail(distance, excess=excess)

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends; NaN if no value is in the set."""
        if alpha not in self._found:
            self._found[alpha] = self._search(alpha)
        return self._found[alpha]

    def holds(self, value: float, alpha: float) -> bool:
        """Return whether a value of the coefficient is in the set."""
        return self._beyond(value, alpha) <= 0

    def _beyond(self, value: float, alpha: float) -> float:
        """How far beyond the set a value is, in deviations of U; -1 if nothing is known there."""
        score = self.judge(value)
        if score is None:
            return -1.0
        distance, excess = score.statistic()
        return distance - quantile(alpha, excess=excess)

    def _search(self, alpha: float) -> tuple[float, float]:
        inside = self._inside(alpha)
        if inside is None:
            return nan, nan
        low, high = (self._end(alpha, inside, sign) for sign in (-1, 1))
        return self.shown(low), self.shown(high)

    def _inside(self, alpha: float) -> float | None:
        """Return a value of the set: the start, or one that is found on both sides of it."""
        if self.holds(self.start, alpha):
            return self.start
        step, far = self.step, REACH / self.unit
        while step < far:
            for value in (self.start - step, self.start + step):
                if self.holds(value, alpha):
                    return value
            step *= _GROWTH
        return None

    def _end(self, alpha: float, inside: float, sign: int) -> float:
        """Return an end: by steps outwards, then by regula falsi (Illinois), from the inside."""
        step, far = self.step, abs(inside) + REACH / self.unit
        below = self._beyond(inside, alpha)
        while (above := self._beyond(inside + sign * step, alpha)) <= 0:
            inside, below = inside + sign * step, above
            step *= _GROWTH
            if abs(inside) > far:
                return sign * inf
        outside, last = inside + sign * step, 0
        for _ in range(_TRIES):
            if abs(outside - inside) <= _CLOSE * self.step or above <= _CLOSE:
                break
            at = (inside * above - outside * below) / (above - below)
            found = self._beyond(at, alpha)
            if found <= 0:
                inside, below = at, found
                above = above / 2 if last == -1 else above
                last = -1
            else:
                outside, above = at, found
                below = below / 2 if last == 1 else below
                last = 1
        return outside
