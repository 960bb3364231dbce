"""Discrete Gaussian noise: zero-concentrated differential privacy.

    P(x) ~ exp(-x^2/(2 sigma^2))      rho = k^2 Delta_2^2 / (2 sigma^2)                         (1)

Source: Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy",
section 2, for (1) in several dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, isqrt, log, pi, sqrt
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from dppca.common.kernel.documents.amounts import round_up
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.accounting import (
    PrivacyCost,
    epsilon_from_rho,
    require_delta,
    rho_from_epsilon_delta,
)
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.noise.sampler import discrete_gaussian
from dppca.common.kernel.privacy.noise.shares import gaussian_share, gaussian_share_variance
from dppca.common.kernel.privacy.noise_law import IndependentLaw
from dppca.common.kernel.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    from numpy.random import Generator, RandomState

_TAIL = 13  # standard deviations: a draw beyond has a chance of 10^-38
_TABLE_REACH = 14  # standard deviations that the table of a discrete Gaussian covers
_LARGEST_TABLE = 2**26  # variance from which on the normal law takes its place
_ROUNDED_UP = Context(prec=60, rounding=ROUND_CEILING)  # 10^15 times 2^15, and 25 decimals
_DECIMALS = Decimal("1e-25")  # step to which rho is rounded up


@dataclass(frozen=True, slots=True)
class GaussianLaw(IndependentLaw):
    """Discrete Gaussian noise, equation (1): zero-concentrated differential privacy.

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
        return isqrt(_TAIL**2 * self.variance) + 1

    @override
    def draw(self, size: int, *, entropy: EntropySource) -> NDArray[np.int64]:
        return discrete_gaussian(self.variance, size, entropy=entropy)

    @override
    def draw_share(self, honest: int, size: int, *, entropy: EntropySource) -> NDArray[np.int64]:
        return gaussian_share(self.variance, honest, size, entropy=entropy)

    @override
    def share_variance(self, honest: int) -> int:
        if self.product_variance is not None:  # which is too small for shares sooner
            gaussian_share_variance(self.product_variance, honest)
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
