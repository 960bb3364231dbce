"""Discrete Laplace noise: pure differential privacy.

    P(x) ~ exp(-|x|/b)      epsilon = k Delta_1 / b                                             (1)

Source: Ghosh, Roughgarden and Sundararajan (2012), "Universally utility-maximizing privacy
mechanisms".
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from math import ceil, comb, exp, floor, log, sqrt
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from dppca.common.kernel.documents.amounts import round_up
from dppca.common.kernel.privacy.accounting import PrivacyCost, require_epsilon
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.noise.sampler import discrete_laplace
from dppca.common.kernel.privacy.noise.shares import laplace_share
from dppca.common.kernel.privacy.noise_law import IndependentLaw
from dppca.common.kernel.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    from numpy.random import Generator, RandomState

_TAIL = 42  # scales: a larger draw among n has a chance of e^-42


@dataclass(frozen=True, slots=True)
class LaplaceLaw(IndependentLaw):
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
            return ceil(self.scale * (Decimal(n_draws).ln() + _TAIL))

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
