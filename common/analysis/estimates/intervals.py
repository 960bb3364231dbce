"""Intervals at any level, from estimates and their variances.

A sum of m Laplace noises is not normal. With its excess kurtosis K, times the squared share that
noise has of the variance, the quantile is ``z + K (z^3 - 3 z) / 24``, at least z (Cornish and
Fisher).

A ratio A / B has Fieller's set: all r with ``(A - r B)^2 <= z^2 Var(A - r B)``. Logarithms of noisy
cells cover too rarely, because a release would be chosen by having positive cells. Where noise
hides B, the set has no end, and all that is possible is given: a rule that refused such answers
would choose those whose intervals miss (.41 to .87 for .95 at 2.8 to 4 deviations of B).

The noise may take an estimate beyond what is possible, such as a share below 0. It is given as it
is, since clipped estimates would be biased; its interval is that of the nearest possible value, cut
at what is possible. So it is never empty nor a point, and holds the truth at least as often.

Source: M. Mandelkern and J. Schultz, The statistical analysis of Gaussian and Poisson signals near
physical boundaries, J. Math. Phys. 41 (2000) 5701-5709; E. C. Fieller, Some problems in interval
estimation, JRSS B 16 (1954) 175-185.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import atanh, erfc, inf, isfinite, nan, sqrt
from statistics import NormalDist
from typing import Protocol

import numpy as np

from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.roots import find_root

_EDGE = 1e-12  # of correlations: at 1 Fisher's z is infinite
_MANY = 1000
"""Degrees of freedom from which on the expansion of t's quantile is exact to 1e-9."""


class Interval(Protocol):
    """Law of an estimate."""

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends of the interval that misses the truth with probability ``alpha``."""

    @property
    def pvalue(self) -> float | None:
        """Two-sided p-value of no effect; None where there is no such question."""


def quantile(alpha: float, *, df: float = inf, excess: float = 0.0) -> float:
    """Two-sided quantile: of t, or of the normal law, moved by the excess kurtosis."""
    z = _t(alpha, df)
    return z + max(0.0, excess * (z**3 - 3 * z) / 24)


def _t(alpha: float, df: float) -> float:
    """Two-sided quantile of t: from many degrees of freedom on, by Fisher and Cornish (1960)."""
    if df < _MANY:
        from scipy.special import stdtrit

        return float(stdtrit(df, 1 - alpha / 2))
    z = -NormalDist().inv_cdf(alpha / 2)
    return (
        z
        + (z**3 + z) / (4 * df)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * df**3)
    )


def tail(distance: float, *, df: float = inf, excess: float = 0.0) -> float:
    """Return the probability beyond both ends: the inverse of `quantile`; distance >= 0."""
    z = distance
    if excess and distance**2 > 3:
        z = find_root(lambda z: z + excess * (z**3 - 3 * z) / 24 - distance, sqrt(3), distance)
    if not isfinite(df):
        return erfc(z / sqrt(2))
    from scipy.special import stdtr

    return float(2 * stdtr(df, -z))


@dataclass(frozen=True, slots=True)
class Normal:
    """``estimate ± z se``, cut at what is possible; the p-value is of ``null``, if it is given."""

    estimate: float
    se: float
    excess: float = 0.0
    df: float = inf
    lowest: float = -inf
    highest: float = inf
    null: float | None = None

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends."""
        half = quantile(alpha, df=self.df, excess=self.excess) * self.se
        low, high = min(self.estimate, self.highest), max(self.estimate, self.lowest)
        return max(low - half, self.lowest), min(high + half, self.highest)

    @property
    def pvalue(self) -> float | None:
        """P-value of ``null``."""
        if self.null is None or not self.se:
            return None
        return tail(abs(self.estimate - self.null) / self.se, df=self.df, excess=self.excess)


@dataclass(frozen=True, slots=True)
class FiellerRatio:
    """Fieller's set of A / B, of numbers (A, B) with their covariance (2, 2)."""

    numbers: Array
    covariance: Array
    excess: float = 0.0
    df: float = inf
    lowest: float = 0.0
    highest: float = inf
    null: float | None = None

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends; all that is possible if the set has none."""
        ratio = self.numbers[0] / self.numbers[1]
        low, high = self._ends(alpha, min(ratio, self.highest), max(ratio, self.lowest))
        return max(low, self.lowest), min(high, self.highest)

    def _ends(self, alpha: float, *ratios: float) -> Iterator[float]:
        """Yield the lower end of the set about the first ratio, the upper about the second."""
        below, v = self.numbers[1], self.covariance
        square = quantile(alpha, df=self.df, excess=self.excess) ** 2
        a = below**2 - square * v[1, 1]
        for sign, ratio in zip((-1, 1), ratios, strict=True):
            b = ratio * below**2 - square * v[0, 1]
            c = (ratio * below) ** 2 - square * v[0, 0]
            known = a > 0 and below > 0
            yield (b + sign * sqrt(max(b * b - a * c, 0.0))) / a if known else sign * inf

    @property
    def se(self) -> float:
        """Standard error to first order."""
        form = np.array([1.0, -self.numbers[0] / self.numbers[1]])
        return float(np.sqrt(max(form @ self.covariance @ form, 0.0)) / abs(self.numbers[1]))

    @property
    def pvalue(self) -> float | None:
        """P-value of ``null``."""
        if self.null is None:
            return None
        form = np.array([1.0, -self.null])
        se = float(np.sqrt(form @ self.covariance @ form))
        return tail(abs(float(form @ self.numbers)) / se, df=self.df, excess=self.excess)


@dataclass(frozen=True, slots=True)
class Correlation:
    """A correlation r = c / s: all rho that the noise of ``c - rho s`` and Fisher's z allow.

    ``noise`` is the covariance of c / s and s / s, shape (2, 2); ``sampling`` is ``1 / (n - 3)``, 0
    for these rows. Without noise it is Fisher's interval; without sampling it is Fieller's, which
    covers where the variance of a strong relation is hardly above its noise and the delta method's
    does not (.82 for .95 at r = .7 and a strength of 4). Each rho is judged by the noise's share at
    this rho: near -1 and 1 nothing but noise varies, so that there it alone decides.
    """

    estimate: float
    noise: Array
    sampling: float
    excess: float = 0.0

    def _variance(self, rho: float) -> tuple[float, float]:
        weights = np.array([1.0, -rho])
        return float(weights @ self.noise @ weights), (1 - rho * rho) ** 2 * self.sampling

    @property
    def noise_share(self) -> float:
        """Share of the variance that is noise."""
        return self._share(self.estimate)

    def _share(self, rho: float) -> float:
        noise, sampling = self._variance(rho)
        return noise / (noise + sampling) if noise + sampling else 0.0

    @property
    def se(self) -> float:
        """Standard error to first order."""
        return sqrt(sum(self._variance(self.estimate)))

    def _distance(self, rho: float) -> float:
        straight, share = self.estimate - rho, self._share(rho)
        if abs(rho) >= 1:
            return share * straight
        bent = (1 - rho * rho) * (atanh(self.estimate) - atanh(rho))
        return share * straight + (1 - share) * bent

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends."""
        z = quantile(alpha, excess=self.excess * self.noise_share**2)

        def beyond(rho: float) -> float:
            return abs(self._distance(rho)) - z * sqrt(sum(self._variance(rho)))

        ends = [
            end if beyond(end) <= 0 else find_root(beyond, self.estimate, end, within=1e-14)
            for end in (-1 + _EDGE, 1 - _EDGE)
            if self.se
        ] or [self.estimate, self.estimate]
        return ends[0], ends[1]

    @property
    def pvalue(self) -> float | None:
        """P-value of no correlation."""
        error = sqrt(sum(self._variance(0.0)))
        excess = self.excess * self.noise_share**2
        return tail(abs(self._distance(0.0)) / error, excess=excess) if error else None


@dataclass(frozen=True, slots=True)
class Drawn:
    """Quantiles of simulated numbers, shape (draws,), none for a test alone; and its p-value.

    With a ``lowest`` value of its own the interval has only an upper end.
    """

    draws: Array
    pvalue: float | None = None
    lowest: float | None = None

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends; NaN without draws."""
        if not len(self.draws):
            return nan, nan
        if self.lowest is not None:
            return self.lowest, float(np.quantile(self.draws, 1 - alpha))
        low, high = np.quantile(self.draws, [alpha / 2, 1 - alpha / 2])
        return float(low), float(high)


@dataclass(frozen=True, slots=True)
class Between:
    """A number that is only known to lie between two estimates, each with its standard error."""

    ends: tuple[float, float]
    errors: tuple[float, float]
    pvalue: None = None

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends, outwards."""
        z = quantile(alpha)
        return self.ends[0] - z * self.errors[0], self.ends[1] + z * self.errors[1]
