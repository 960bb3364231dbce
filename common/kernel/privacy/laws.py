"""Laws of the noise: this module holds everything that depends on the law of a release.

A law is the distribution of the integer that is added to each entry of a vector of sums. The k rows
of one person move the vector by at most k times as much as one row, in the law's norm:

    `LaplaceLaw`    P(x) ~ exp(-|x|/b)             L1    epsilon = k Delta_1 / b              (1)
    `GaussianLaw`   P(x) ~ exp(-x^2/(2 sigma^2))   L2    rho = k^2 Delta_2^2 / (2 sigma^2)    (2)

b, or sigma, is the law's *width*, in steps of the sums, 4^-g; b and sigma^2 are integers. A width
that follows from a privacy parameter is rounded up, one that is set by hand is rounded down.

No other module asks which law it has. A new one is a class here, a sampler, the form in which a
study asks for it (`dppca.common.kernel.study`), and its page: docs/how-to/add-a-mechanism.md.

Source: Ghosh, Roughgarden and Sundararajan (2012), "Universally utility-maximizing privacy
mechanisms", for (1); Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential
Privacy", section 2, for (2) in several dimensions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import ceil, comb, exp, floor, isqrt, log, pi, sqrt
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator, RandomState
from numpy.typing import NDArray
from typing_extensions import override

from dppca.common.kernel.documents.amounts import round_up
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.accounting import (
    PrivacyCost,
    epsilon_from_rho,
    require_delta,
    require_epsilon,
    rho_from_epsilon_delta,
)
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.noise.sampler import discrete_gaussian, discrete_laplace
from dppca.common.kernel.privacy.noise.shares import (
    gaussian_share,
    gaussian_share_variance,
    laplace_share,
)
from dppca.common.kernel.privacy.sensitivity import Sensitivity

_LAPLACE_TAIL = 42
_GAUSSIAN_TAIL = 13
_TABLE_REACH = 14  # standard deviations that the table of a discrete Gaussian covers
_LARGEST_TABLE = 2**26  # variance from which on the normal law takes its place
_ROUNDED_UP = Context(prec=60, rounding=ROUND_CEILING)  # 10^15 times 2^15, and 25 decimals
_DECIMALS = Decimal("1e-25")


@dataclass(frozen=True, slots=True)
class NoiseLaw(ABC):
    """Law of noise with its integers: its cost, its sampler and its exact probabilities.

    Attributes
    ----------
    name
        Name in a study, a receipt and a ledger.
    source
        Publication that defines it.
    norm
        Norm in which it bounds a change, ``L1`` or ``L2``.
    needs_delta
        True if its epsilon holds at a delta.
    halves_products
        True if products of two columns may have half of its variance.
    makes_shares
        True if several owners can make it together.
    unit_deviation
        Standard deviation of continuous noise of width 1.
    unit_excess
        Excess kurtosis of continuous noise; 0 for the normal law.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    norm: ClassVar[str]
    needs_delta: ClassVar[bool]
    halves_products: ClassVar[bool] = False
    makes_shares: ClassVar[bool] = False
    unit_deviation: ClassVar[float]
    unit_excess: ClassVar[float]

    @classmethod
    @abstractmethod
    def calibrate(
        cls, sens: Sensitivity, k: int, *, epsilon: Decimal, delta: Decimal | None
    ) -> tuple[Self, PrivacyCost]:
        """Return the narrowest law that promises epsilon to a person with k rows, and its cost."""

    @classmethod
    @abstractmethod
    def of_width(cls, width: Fraction) -> Self | None:
        """Return the law of a width in steps, rounded down; None below the narrowest."""

    @classmethod
    @abstractmethod
    def estimate_epsilon(cls, width: float, sens: Sensitivity, k: int, delta: Decimal) -> Decimal:
        """Estimate the epsilon of a width above 0, in steps; for forecasts."""

    @abstractmethod
    def cost(self, sens: Sensitivity, k: int) -> PrivacyCost:
        """Return the cost to a person with k rows, rounded up to 12 decimals."""

    @staticmethod
    @abstractmethod
    def change(sens: Sensitivity) -> float:
        """Return the largest change of the sums by one row, in the law's norm, in steps."""

    @staticmethod
    @abstractmethod
    def distance(difference: NDArray[np.int64]) -> int:
        """Return a number that grows with the norm of a difference of sums, shape (D,)."""

    @property
    @abstractmethod
    def width(self) -> float:
        """Width b or sigma, in steps."""

    @property
    def deviation(self) -> float:
        """Standard deviation in steps, of the continuous noise of this width."""
        return self.width * self.unit_deviation

    def parameters(self) -> dict[str, int]:
        """Return the law's integers, by their names in receipts."""
        return {name: each for name, each in asdict(self).items() if each is not None}

    @property
    def of_products(self) -> NoiseLaw:
        """Law of the products of two columns: this one, unless it halves them."""
        return self

    def halve_products(self, *, up: bool) -> Self:
        """Return the law, an even variance, with half of it in products; rounded up or down.

        Raise `SettingError` if the law has one width for all entries.
        """
        del up
        raise SettingError(f"{self.name} noise has one width: halved_products is for gaussian")

    @abstractmethod
    def largest(self, n_draws: int) -> int:
        """Return a bound that some of ``n_draws`` draws exceeds with probability below 1e-18."""

    # Drawing.

    @abstractmethod
    def draw(self, size: int, *, entropy: EntropySource) -> NDArray[np.int64]:
        """Draw noise for ``size`` entries, modulo 2^64."""

    # Sharing: each of ``honest`` owners draws a share of the noise. A law need not allow it.

    def draw_share(self, honest: int, size: int, *, entropy: EntropySource) -> NDArray[np.int64]:
        """Draw one owner's share of the noise, modulo 2^64; ``honest`` shares add up to it."""
        del size, entropy
        raise self._no_shares(honest)

    def share_variance(self, honest: int) -> int | None:
        """Return the variance of a share if it is a whole number of squared steps, else None.

        Raise `SettingError` if the noise cannot be made of ``honest`` shares.
        """
        raise self._no_shares(honest)

    def share_weight(self, honest: int) -> Fraction:
        """Return the variance of a share as a fraction of the law's variance."""
        raise self._no_shares(honest)

    def sum_of_shares(self, honest: int) -> NoiseLaw:
        """Return the law of ``honest`` shares together, up to a difference too small for a test."""
        raise self._no_shares(honest)

    def cost_of_fewer(self, charge: PrivacyCost, honest: int, left: int) -> PrivacyCost | None:
        """Return the cost if only ``left`` of the shares are unknown; None without a promise."""
        del charge, left
        raise self._no_shares(honest)

    def _no_shares(self, honest: int) -> SettingError:
        return SettingError(f"{self.name} noise cannot be made of {honest} owners' shares")

    # Exact probabilities.

    @abstractmethod
    def cdf(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``P(noise <= x)``, elementwise."""

    @abstractmethod
    def neg_log_pmf(self, x: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``-ln P(noise = x)``, elementwise."""

    # Its limit at large widths, for simulations: draws of these methods protect nothing.

    @staticmethod
    @abstractmethod
    def standard(shape: int | tuple[int, ...], rng: Generator | RandomState) -> NDArray[np.float64]:
        """Draw continuous noise of width 1."""

    @staticmethod
    @abstractmethod
    def standard_sum(n: float, size: int, rng: Generator) -> NDArray[np.float64]:
        """Draw sums of n noises of width 1; n is any number above 0."""

    @staticmethod
    @abstractmethod
    def tail_probability(deviations: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        """Return ``P(|sum of n noises| >= x)``, x in standard deviations of the sum."""


@dataclass(frozen=True, slots=True)
class LaplaceLaw(NoiseLaw):
    """Discrete Laplace noise, equation (1): pure differential privacy.

    ``scale`` is b, in steps; at least 1.
    """

    name: ClassVar[str] = "laplace"
    source: ClassVar[str] = "discrete Laplace (Ghosh, Roughgarden, Sundararajan 2012)"
    norm: ClassVar[str] = "L1"
    needs_delta: ClassVar[bool] = False
    makes_shares: ClassVar[bool] = True
    unit_deviation: ClassVar[float] = sqrt(2)
    unit_excess: ClassVar[float] = 3.0

    scale: int

    @classmethod
    @override
    def calibrate(
        cls,
        sens: Sensitivity,
        k: int,
        *,
        epsilon: Decimal,
        delta: Decimal | None,
    ) -> tuple[Self, PrivacyCost]:
        require_epsilon(epsilon)
        return cls(ceil(k * sens.l1 / Fraction(epsilon))), PrivacyCost(epsilon, Decimal(0))

    @classmethod
    @override
    def of_width(cls, width: Fraction) -> Self | None:
        return cls(floor(width)) if width >= 1 else None

    @classmethod
    @override
    def estimate_epsilon(
        cls,
        width: float,
        sens: Sensitivity,
        k: int,
        delta: Decimal,
    ) -> Decimal:
        return Decimal(k * sens.l1) / Decimal(width)

    @override
    def cost(self, sens: Sensitivity, k: int) -> PrivacyCost:
        return PrivacyCost(round_up(Fraction(k * sens.l1, self.scale)), Decimal(0))

    @staticmethod
    @override
    def change(sens: Sensitivity) -> float:
        return float(sens.l1)

    @staticmethod
    @override
    def distance(difference: NDArray[np.int64]) -> int:
        return int(np.abs(difference).sum())

    @property
    @override
    def width(self) -> float:
        return float(self.scale)

    @override
    def largest(self, n_draws: int) -> int:
        with localcontext(Context(prec=50, rounding=ROUND_CEILING)):
            return ceil(self.scale * (Decimal(n_draws).ln() + _LAPLACE_TAIL))

    @override
    def draw(self, size: int, *, entropy: EntropySource) -> NDArray[np.int64]:
        return discrete_laplace(self.scale, size, entropy=entropy)

    @override
    def draw_share(self, honest: int, size: int, *, entropy: EntropySource) -> NDArray[np.int64]:
        return laplace_share(self.scale, honest, size, entropy=entropy)

    @override
    def share_variance(self, honest: int) -> None:
        """Return None: a share is a difference of Polya variables of shape 1/h."""

    @override
    def share_weight(self, honest: int) -> Fraction:
        return Fraction(1, honest)

    @override
    def sum_of_shares(self, honest: int) -> LaplaceLaw:
        return self

    @override
    def cost_of_fewer(self, charge: PrivacyCost, honest: int, left: int) -> None:
        """Return None: a share alone is often 0 and protects nothing."""

    @override
    def cdf(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        q = exp(-1.0 / self.scale)
        left = np.exp(-np.maximum(-x, 0) / self.scale) / (1 + q)
        right = 1.0 - np.exp(-(np.maximum(x, -1) + 1.0) / self.scale) / (1 + q)
        return np.where(x < 0, left, right)

    @override
    def neg_log_pmf(self, x: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        q = exp(-1.0 / self.scale)
        nats: NDArray[np.float64] = np.abs(x) / self.scale - log((1 - q) / (1 + q))
        return nats

    @staticmethod
    @override
    def standard(shape: int | tuple[int, ...], rng: Generator | RandomState) -> NDArray[np.float64]:
        return rng.laplace(size=shape)

    @staticmethod
    @override
    def standard_sum(n: float, size: int, rng: Generator) -> NDArray[np.float64]:
        # n Laplace variables are a difference of two Gamma(n) ones, for any n.
        positive = rng.standard_gamma(n, size)
        return positive - rng.standard_gamma(n, size)

    @staticmethod
    @override
    def tail_probability(deviations: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        from scipy.special import gammaincc

        x, tail = deviations * np.sqrt(2 * n), np.zeros_like(deviations)
        for j in range(1, n + 1):
            tail += comb(2 * n - j - 1, n - j) * 2.0 ** (1 + j - 2 * n) * gammaincc(j, x)
        return tail


@dataclass(frozen=True, slots=True)
class GaussianLaw(NoiseLaw):
    """Discrete Gaussian noise, equation (2): zero-concentrated differential privacy.

    ``variance`` is sigma^2, in squared steps; at least 1. ``product_variance`` is that of products
    of two columns, if it is half of the others' (`mechanisms`).
    """

    name: ClassVar[str] = "gaussian"
    source: ClassVar[str] = "discrete Gaussian (Canonne, Kamath, Steinke 2020)"
    norm: ClassVar[str] = "L2"
    needs_delta: ClassVar[bool] = True
    halves_products: ClassVar[bool] = True
    makes_shares: ClassVar[bool] = True
    unit_deviation: ClassVar[float] = 1.0
    unit_excess: ClassVar[float] = 0.0

    variance: int
    product_variance: int | None = None

    @classmethod
    @override
    def calibrate(
        cls, sens: Sensitivity, k: int, *, epsilon: Decimal, delta: Decimal | None
    ) -> tuple[Self, PrivacyCost]:
        rho = rho_from_epsilon_delta(epsilon, require_delta(delta))
        variance = ceil(k**2 * sens.l2_squared / (2 * Fraction(rho)))
        return cls(variance), PrivacyCost(Decimal(0), rho)

    @classmethod
    @override
    def of_width(cls, width: Fraction) -> Self | None:
        return cls(floor(width**2)) if width >= 1 else None

    @classmethod
    @override
    def estimate_epsilon(cls, width: float, sens: Sensitivity, k: int, delta: Decimal) -> Decimal:
        rho = Decimal(k**2 * sens.l2_squared) / (2 * Decimal(width) ** 2)
        return epsilon_from_rho(Decimal(f"{rho:.12f}"), delta)

    @override
    def cost(self, sens: Sensitivity, k: int) -> PrivacyCost:
        least = min(self.variance, 2 * (self.product_variance or self.variance))
        rho = round_up(Fraction(k**2 * sens.l2_squared, 2 * least))
        return PrivacyCost(Decimal(0), rho)

    @property
    @override
    def of_products(self) -> GaussianLaw:
        return self if self.product_variance is None else GaussianLaw(self.product_variance)

    @override
    def halve_products(self, *, up: bool) -> GaussianLaw:
        half = (self.variance + up) // 2
        if half < 1:
            raise SettingError("a variance of 1 cannot be halved: set a larger scale")
        return GaussianLaw(2 * half, half)

    @staticmethod
    @override
    def change(sens: Sensitivity) -> float:
        return sqrt(sens.l2_squared)

    @staticmethod
    @override
    def distance(difference: NDArray[np.int64]) -> int:
        return int((difference**2).sum())

    @property
    @override
    def width(self) -> float:
        return sqrt(self.variance)

    @override
    def largest(self, n_draws: int) -> int:
        return isqrt(_GAUSSIAN_TAIL**2 * self.variance) + 1

    @override
    def draw(self, size: int, *, entropy: EntropySource) -> NDArray[np.int64]:
        return discrete_gaussian(self.variance, size, entropy=entropy)

    @override
    def draw_share(self, honest: int, size: int, *, entropy: EntropySource) -> NDArray[np.int64]:
        return gaussian_share(self.variance, honest, size, entropy=entropy)

    @override
    def share_variance(self, honest: int) -> int:
        return gaussian_share_variance(self.variance, honest)

    @override
    def share_weight(self, honest: int) -> Fraction:
        return Fraction(self.share_variance(honest), self.variance)

    @override
    def sum_of_shares(self, honest: int) -> GaussianLaw:
        whole = honest * self.share_variance(honest)
        if self.product_variance is None:
            return GaussianLaw(whole)
        return GaussianLaw(whole, honest * self.of_products.share_variance(honest))

    @override
    def cost_of_fewer(self, charge: PrivacyCost, honest: int, left: int) -> PrivacyCost:
        # left / h of the variance remain, a little more: shares are rounded up.
        rho = _ROUNDED_UP.divide(_ROUNDED_UP.multiply(charge.rho, Decimal(honest)), left)
        return PrivacyCost(Decimal(0), rho.quantize(_DECIMALS, context=_ROUNDED_UP))

    @override
    def cdf(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.variance > _LARGEST_TABLE:
            # The midpoint rule on exp(-x^2/(2 sigma^2)) errs by less than 1/(24 sigma^2).
            from scipy.special import ndtr

            near: NDArray[np.float64] = ndtr((x.astype(np.float64) + 0.5) / self.width)
            return near
        table, reach = _cumulated(self.variance)
        cdf: NDArray[np.float64] = table[np.clip(x + reach + 1, 0, len(table) - 1)]
        return cdf

    @override
    def neg_log_pmf(self, x: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        # By Poisson summation the weights add up to this times 1 + 2 exp(-2 pi^2 v).
        wide = self.variance > _LARGEST_TABLE
        total = self.width * sqrt(2 * pi) if wide else float(_weights(self.variance).sum())
        nats: NDArray[np.float64] = x.astype(np.float64) ** 2 / (2 * self.variance) + log(total)
        return nats

    @staticmethod
    @override
    def standard(shape: int | tuple[int, ...], rng: Generator | RandomState) -> NDArray[np.float64]:
        return rng.normal(size=shape)

    @staticmethod
    @override
    def standard_sum(n: float, size: int, rng: Generator) -> NDArray[np.float64]:
        return rng.normal(scale=np.sqrt(n), size=size)

    @staticmethod
    @override
    def tail_probability(deviations: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        from scipy.special import ndtr

        tail: NDArray[np.float64] = 2 * ndtr(-deviations)
        return tail


LAWS: dict[str, type[NoiseLaw]] = {law.name: law for law in (LaplaceLaw, GaussianLaw)}
"""Every law that a study may ask for, by its name; a law without a delta comes first."""


USUAL = {law.needs_delta: law.name for law in (LaplaceLaw, GaussianLaw)}
"""The law that is taken where none is named, by whether there is a delta."""


def choose_law(name: str | None, delta: object | None) -> type[NoiseLaw]:
    """Return the law of a name; where there is none, the usual one with or without a delta.

    Raise `SettingError` for a name that no law has, or whose law does not go with the delta.
    """
    law = LAWS.get(USUAL[delta is not None] if name is None else name)
    if law is None:
        raise SettingError(f"no mechanism is called {name!r}: there are {', '.join(LAWS)}")
    if law.needs_delta != (delta is not None):
        needs = "needs a delta" if law.needs_delta else "takes no delta"
        raise SettingError(f"mechanism {law.name} {needs}")
    return law


def _weights(variance: int) -> NDArray[np.float64]:
    """Return ``exp(-x^2/(2 sigma^2))`` for x from -reach to reach."""
    reach = _reach(variance)
    weights: NDArray[np.float64] = np.exp(
        -(np.arange(-reach, reach + 1, dtype=np.float64) ** 2) / (2 * variance)
    )
    return weights


def _reach(variance: int) -> int:
    return int(_TABLE_REACH * sqrt(variance)) + 1


@lru_cache(maxsize=8)
def _cumulated(variance: int) -> tuple[NDArray[np.float64], int]:
    """Return cumulated probabilities from -reach - 1 (where it is 0) to reach, and the reach."""
    table = np.concatenate([[0.0], np.cumsum(_weights(variance))])
    return table / table[-1], _reach(variance)
