"""Laws of the noise: this module holds everything that depends on the law of a release.

A law is the distribution of the integer that is added to each entry of a vector of sums. The k rows
of one person move the vector by at most k times as much as one row, in the law's norm:

    `LaplaceLaw`    P(x) ~ exp(-|x|/b)             L1    epsilon = k Delta_1 / b              (1)
    `GaussianLaw`   P(x) ~ exp(-x^2/(2 sigma^2))   L2    rho = k^2 Delta_2^2 / (2 sigma^2)    (2)

    `MatrixLaplaceLaw`  noise of all sums and products at once    nuclear norm      (3)

b, or sigma, is the law's *width*, in steps of the sums, 4^-g; b and sigma^2 are integers. A width
that follows from a privacy parameter is rounded up, one that is set by hand is rounded down.

No other module asks which law it has. A new one is a class here, a sampler, the form in which a
study asks for it (`dppca.common.kernel.study`), and its page: docs/how-to/add-a-mechanism.md.

(3) is a *joint* law: its entries are not independent, an entry's variance depends on its kind, and
only a release as a whole can be drawn (`draw_release`). What it is, and its proof:
`dppca.common.kernel.privacy.matrix_noise`.

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
from dppca.common.kernel.privacy.matrix_noise import (
    MatrixScales,
    draw_matrix,
    in_place,
    largest_form,
    matrix_scales,
    matrix_space,
    number_form,
    simulated_matrix,
)
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.noise.sampler import discrete_gaussian, discrete_laplace
from dppca.common.kernel.privacy.noise.shares import (
    gaussian_share,
    gaussian_share_variance,
    laplace_share,
)
from dppca.common.kernel.privacy.sensitivity import Relation, Sensitivity
from dppca.common.kernel.schema.layout import Layout

_LAPLACE_TAIL = 42  # scales: a larger draw among n has a chance of e^-42
_GAUSSIAN_TAIL = 13  # standard deviations: a draw beyond has a chance of 10^-38
_TABLE_REACH = 14  # standard deviations that the table of a discrete Gaussian covers
_LARGEST_TABLE = 2**26  # variance from which on the normal law takes its place
_ROUNDED_UP = Context(prec=60, rounding=ROUND_CEILING)  # 10^15 times 2^15, and 25 decimals
_DECIMALS = Decimal("1e-25")  # step to which rho is rounded up


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
    is_joint
        True if it is the law of a whole release: its entries are not drawn independently.
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
    is_joint: ClassVar[bool] = False
    unit_deviation: ClassVar[float]
    unit_excess: ClassVar[float]

    @classmethod
    @abstractmethod
    def calibrate(
        cls, sens: Sensitivity, k: int, *, epsilon: Decimal, delta: Decimal | None
    ) -> tuple[Self, PrivacyCost]:
        """Return the narrowest law that promises epsilon to a person with k rows, and its cost."""

    @classmethod
    def calibrate_release(
        cls,
        sens: Sensitivity,
        k: int,
        layout: Layout,
        *,
        honest: int | None,
        rows_counted: int | None,
        epsilon: Decimal,
        delta: Decimal | None,
    ) -> tuple[Self, PrivacyCost]:
        """Return the law of a release's noise and its cost; ``honest`` owners make it, or one.

        ``rows_counted`` is c where people are protected, None for rows. Raise `SettingError` if it
        cannot be the law of such a release.
        """
        del layout, honest, rows_counted
        return cls.calibrate(sens, k, epsilon=epsilon, delta=delta)

    @classmethod
    @abstractmethod
    def of_width(cls, width: Fraction) -> Self | None:
        """Return the law of a width in steps, rounded down; None below the narrowest."""

    @classmethod
    def of_continuation(cls) -> type[NoiseLaw]:
        """Return the law of a study that continues one with this law and counts cells alone."""
        return cls

    @classmethod
    def pooled(cls, layout: Layout, n_owners: int, honest: int | None) -> float:
        """Return how many of these noises are in a pool, of which ``honest`` shares make one."""
        del layout
        return n_owners / (honest or 1)

    @classmethod
    @abstractmethod
    def estimate_epsilon(cls, width: float, sens: Sensitivity, k: int, delta: Decimal) -> Decimal:
        """Estimate the epsilon of a width above 0, in steps; for forecasts."""

    def epsilon_at(self, width: float, sens: Sensitivity, k: int, delta: Decimal) -> Decimal:
        """Estimate the epsilon of this law at another width above 0, in steps; for forecasts."""
        return self.estimate_epsilon(width, sens, k, delta)

    @abstractmethod
    def cost(self, sens: Sensitivity, k: int) -> PrivacyCost:
        """Return the cost to a person with k rows, rounded up to 12 decimals."""

    def replaced_cost(
        self, layout: Layout, sens: Sensitivity, k: int, rows_counted: int | None
    ) -> PrivacyCost:
        """Return the cost of a release with a secret number of rows, if a person is replaced.

        ``sens`` is the sensitivity to that; a joint law finds its own in the layout, for k rows or
        people of weight up to ``rows_counted``.
        """
        del layout, rows_counted
        return self.cost(sens, k)

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

    def deviation_of_rows(self, layout: Layout) -> float:
        """Standard deviation of the entry of a secret number of rows, in steps."""
        del layout
        return self.deviation

    @property
    def of_products(self) -> NoiseLaw:
        """Law of the products of two columns: this one, unless it halves them."""
        return self

    @property
    def of_counts(self) -> NoiseLaw:
        """Law of the counts of cells: this one, unless it is joint."""
        return self

    @property
    def degrees(self) -> int | None:
        """Columns m of each matrix of a joint law, whose products have excess kurtosis 3 / m."""
        return None

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

    def draw_release(
        self, layout: Layout, honest: int | None, *, entropy: EntropySource
    ) -> NDArray[np.int64]:
        """Draw the noise of a whole release of a joint law, or one owner's share, modulo 2^64."""
        del layout, honest, entropy
        raise SettingError(f"{self.name} noise is drawn for each entry alone")

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

    @classmethod
    def standard_release(cls, layout: Layout, n: float, rng: Generator) -> NDArray[np.float64]:
        """Draw sums of n noises of width 1 for all entries of a release, shape (D,)."""
        return cls.standard_sum(n, layout.n_entries, rng)

    @classmethod
    def standard_owners(
        cls, layout: Layout, n_owners: int, n: float, rng: Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Draw sums of n noises of width 1, (D,), and what each owner's sums are of it, (m, p)."""
        packed = cls.standard_release(layout, n, rng)
        each = cls.standard((n_owners, layout.n_sums), rng)
        packed[: layout.n_sums] = each.sum(axis=0)
        return packed, each

    def tail(self, deviations: NDArray[np.float64], n: float) -> NDArray[np.float64]:
        """Return ``P(|sum of n noises of a product| >= x)``, x in standard deviations of it."""
        return self.tail_probability(deviations, max(1, int(n)))

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


@dataclass(frozen=True, slots=True)
class MatrixLaplaceLaw(NoiseLaw):
    """Matrix Laplace noise, equation (3): pure differential privacy for a whole release.

    Attributes
    ----------
    scale
        c of the matrix, in steps.
    columns
        m, columns of each of its two matrices of normals.
    blanket
        b, scale of the discrete Laplace noise beside it on each sum and product, in steps.
    counts_scale
        b_c, scale of the discrete Laplace noise of counts of cells; 0 without any.
    entries, honest
        Sums, products and a secret number of rows; owners whose shares make the noise, 1 where each
        adds all of it.
    divided
        1 where sums over people are divided, and rounded once more, else 0.
    nuclear, counts_l1
        What one row or person changes: the matrix in the nuclear norm, counts in L1, in steps.
    largest_variance
        Bound on the variance of an entry's noise without the blanket, in units of the squared
        scale.
    """

    name: ClassVar[str] = "matrix-laplace"
    source: ClassVar[str] = "difference of two Wishart matrices and discrete Laplace (DPPCA)"
    norm: ClassVar[str] = "nuclear"
    needs_delta: ClassVar[bool] = False
    makes_shares: ClassVar[bool] = True
    is_joint: ClassVar[bool] = True
    unit_deviation: ClassVar[float] = sqrt(2)
    unit_excess: ClassVar[float] = 3.0

    scale: int
    columns: int
    blanket: int
    counts_scale: int
    entries: int
    honest: int
    divided: int
    nuclear: int
    counts_l1: int
    largest_variance: int

    @classmethod
    @override
    def calibrate_release(
        cls,
        sens: Sensitivity,
        k: int,
        layout: Layout,
        *,
        honest: int | None,
        rows_counted: int | None,
        epsilon: Decimal,
        delta: Decimal | None,
    ) -> tuple[Self, PrivacyCost]:
        require_epsilon(epsilon)
        replaced = sens.relation in (Relation.REPLACE_ONE, Relation.REPLACE_PERSON)
        space = matrix_space(layout, rows_counted=rows_counted, replaced=replaced)
        bits, owners = sens.resolution_bits, honest or 1
        found = matrix_scales(
            space, epsilon=Fraction(epsilon), rows=k, honest=owners, resolution_bits=bits
        )
        nuclear, counts = space.changes(bits)
        law = cls(
            scale=found.scale,
            columns=space.columns,
            blanket=found.blanket,
            counts_scale=found.counts_scale,
            entries=space.entries,
            honest=owners,
            divided=space.divided,
            nuclear=nuclear,
            counts_l1=counts,
            largest_variance=ceil(4 * space.columns * largest_form(layout)),
        )
        return law, PrivacyCost(epsilon, Decimal(0))

    @classmethod
    @override
    def calibrate(
        cls, sens: Sensitivity, k: int, *, epsilon: Decimal, delta: Decimal | None
    ) -> tuple[Self, PrivacyCost]:
        raise cls._whole()

    @classmethod
    @override
    def of_width(cls, width: Fraction) -> Self | None:
        raise SettingError(f"{cls.name} noise has no one scale to set by hand: give epsilon")

    @classmethod
    @override
    def of_continuation(cls) -> type[NoiseLaw]:
        return LaplaceLaw

    @classmethod
    @override
    def pooled(cls, layout: Layout, n_owners: int, honest: int | None) -> float:
        m = matrix_space(layout).columns
        return n_owners * ceil(m / (honest or 1)) / m

    @classmethod
    @override
    def estimate_epsilon(cls, width: float, sens: Sensitivity, k: int, delta: Decimal) -> Decimal:
        raise cls._whole()

    @override
    def epsilon_at(self, width: float, sens: Sensitivity, k: int, delta: Decimal) -> Decimal:
        return Decimal(self.width) / Decimal(width) * self.cost(sens, k).epsilon

    @override
    def cost(self, sens: Sensitivity, k: int) -> PrivacyCost:
        return self._cost(k * self.nuclear, k * self.counts_l1)

    @override
    def replaced_cost(
        self, layout: Layout, sens: Sensitivity, k: int, rows_counted: int | None
    ) -> PrivacyCost:
        space = matrix_space(layout, rows_counted=rows_counted, replaced=True)
        nuclear, counts = space.changes(layout.resolution_bits)
        return self._cost(k * nuclear, k * counts)

    def _cost(self, change: int, cells: int) -> PrivacyCost:
        scales = MatrixScales(self.scale, self.blanket, self.counts_scale)
        rounded = self.entries * (self.honest + self.divided)
        return PrivacyCost(round_up(scales.cost(change, cells, rounded=rounded)), Decimal(0))

    @staticmethod
    @override
    def change(sens: Sensitivity) -> float:
        raise MatrixLaplaceLaw._whole()

    @staticmethod
    @override
    def distance(difference: NDArray[np.int64]) -> int:
        raise MatrixLaplaceLaw._whole()

    @property
    @override
    def width(self) -> float:
        """Width of the matrix in steps, with the part that the blanket adds to a product."""
        return sqrt(self.scale**2 + self.blanket**2 / self.columns)

    @property
    @override
    def deviation(self) -> float:
        """Standard deviation of a product's noise, in steps."""
        return self.width * sqrt(2 * self.columns)

    @override
    def deviation_of_rows(self, layout: Layout) -> float:
        form = float(layout.count_weight**2 * number_form(layout))
        return sqrt(4 * self.columns * self.scale**2 * form + 2 * self.blanket**2)

    @property
    @override
    def degrees(self) -> int:
        return self.columns

    @property
    @override
    def of_counts(self) -> NoiseLaw:
        return LaplaceLaw(self.counts_scale) if self.counts_scale else self

    @override
    def largest(self, n_draws: int) -> int:
        with localcontext(Context(prec=50, rounding=ROUND_CEILING)):
            t = Decimal(4 * n_draws).ln() + _LAPLACE_TAIL
            variance = Decimal(self.largest_variance)
            entry = self.scale * ((2 * variance * t).sqrt() + t * (variance / self.columns).sqrt())
            return ceil(max(entry + self.blanket * t + 1, self.counts_scale * t))

    @override
    def draw(self, size: int, *, entropy: EntropySource) -> NDArray[np.int64]:
        raise self._whole()

    @override
    def draw_release(
        self, layout: Layout, honest: int | None, *, entropy: EntropySource
    ) -> NDArray[np.int64]:
        if (self.entries, self.honest) != (layout.n_moments + layout.with_count, honest or 1):
            raise SettingError("this noise was calibrated for another release")
        columns = ceil(self.columns / self.honest)
        matrix = draw_matrix(layout, self.scale, columns, honest=self.honest, entropy=entropy)
        sizes = ((self.blanket, self.entries), (self.counts_scale, layout.n_cells))
        laplace = np.concatenate(
            [
                np.empty(0, np.int64)
                if not size
                else laplace_share(scale, honest, size, entropy=entropy)
                if honest is not None
                else discrete_laplace(scale, size, entropy=entropy)
                for scale, size in sizes
            ]
        ).view(np.uint64)
        laplace[: self.entries] += matrix.view(np.uint64)
        return in_place(layout, laplace.view(np.int64))

    @override
    def share_variance(self, honest: int) -> None:
        """Return None: a share is a matrix of fewer columns."""

    @override
    def share_weight(self, honest: int) -> Fraction:
        return Fraction(ceil(self.columns / honest), self.columns)

    @override
    def sum_of_shares(self, honest: int) -> MatrixLaplaceLaw:
        return self

    @override
    def cost_of_fewer(self, charge: PrivacyCost, honest: int, left: int) -> None:
        """Return None: fewer columns than m protect nothing."""

    @override
    def cdf(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        raise self._whole()

    @override
    def neg_log_pmf(self, x: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        raise self._whole()

    @staticmethod
    @override
    def standard(shape: int | tuple[int, ...], rng: Generator | RandomState) -> NDArray[np.float64]:
        raise MatrixLaplaceLaw._whole()

    @staticmethod
    @override
    def standard_sum(n: float, size: int, rng: Generator) -> NDArray[np.float64]:
        raise MatrixLaplaceLaw._whole()

    @classmethod
    @override
    def standard_release(cls, layout: Layout, n: float, rng: Generator) -> NDArray[np.float64]:
        """Draw it with counts of the deviation of products, as owners that share nothing add."""
        m = matrix_space(layout).columns
        counts = LaplaceLaw.standard_sum(n, layout.n_cells, rng)
        moments = simulated_matrix(layout, round(n * m), rng)
        return in_place(layout, np.concatenate([moments, counts * sqrt(m)]))

    @classmethod
    @override
    def standard_owners(
        cls, layout: Layout, n_owners: int, n: float, rng: Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        each = np.stack([cls.standard_release(layout, n / n_owners, rng) for _ in range(n_owners)])
        return each.sum(axis=0), each[:, : layout.n_sums]

    @override
    def tail(self, deviations: NDArray[np.float64], n: float) -> NDArray[np.float64]:
        # A product of two columns is a sum of n m Laplace noises of scale c, exactly.
        return LaplaceLaw.tail_probability(deviations, max(1, int(n * self.columns)))

    @staticmethod
    @override
    def tail_probability(deviations: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        raise MatrixLaplaceLaw._whole()

    @classmethod
    def _whole(cls) -> SettingError:
        return SettingError(
            f"{cls.name} is the noise of all sums and products of a release at once, not of one "
            "number: take laplace here"
        )


LAWS: dict[str, type[NoiseLaw]] = {law.name: law for law in (LaplaceLaw, GaussianLaw)}
"""Every law of one entry that a study may ask for, by its name; one without a delta first."""

JOINT_LAWS: dict[str, type[NoiseLaw]] = {law.name: law for law in (MatrixLaplaceLaw,)}
"""Every law of a whole release, by its name."""


def every_law() -> dict[str, type[NoiseLaw]]:
    """Return every law that a study may ask for, by its name."""
    return LAWS | JOINT_LAWS


USUAL = {law.needs_delta: law.name for law in (LaplaceLaw, GaussianLaw)}
"""The law that is taken where none is named, by whether there is a delta."""


def choose_law(name: str | None, delta: object | None, *, joint: bool = True) -> type[NoiseLaw]:
    """Return the law of a name; where there is none, the usual one with or without a delta.

    ``joint`` is False where single numbers are noised. Raise `SettingError` for a name that no law
    has, or whose law does not go with the delta, or is joint where it may not be.
    """
    law = every_law().get(USUAL[delta is not None] if name is None else name)
    if law is None:
        raise SettingError(f"no mechanism is called {name!r}: there are {', '.join(every_law())}")
    if law.needs_delta != (delta is not None):
        needs = "needs a delta" if law.needs_delta else "takes no delta"
        raise SettingError(f"mechanism {law.name} {needs}")
    if law.is_joint and not joint:
        raise SettingError(
            f"mechanism {law.name} is for the sums and products of a study, not for single "
            f"numbers such as a model's weights: take {USUAL[law.needs_delta]}"
        )
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
