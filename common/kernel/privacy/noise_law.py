"""What a law of the noise is, of one entry or of a whole release.

Every module knows a law by `NoiseLaw`: what it costs, how a release gets its noise, how far each
kind of entry is off. Of the two classes below it,

`IndependentLaw`
    is the law of *one* entry: entries are drawn one by one, and the probability of each value is
    known. Single numbers can have it, too, such as the weights of a model.
`ReleaseLaw`
    is the law of a *whole release*: entries depend on each other, and how far one is off depends on
    what it is. It is known by its linear and quadratic forms alone, and is no law of one number:
    whoever asks for that (`of_entries`, `entry_law`) is refused.

A law's *width* is in steps of the sums, 4^-g. A width that follows from a privacy parameter is
rounded up, one that is set by hand is rounded down. The k rows of one person move the sums by at
most k times as much as one row, in the law's norm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.sensitivity import Sensitivity
from dppca.common.kernel.schema.layout import Layout

if TYPE_CHECKING:
    from numpy.random import Generator, RandomState


class Noised(StrEnum):
    """Kinds of released entries; each has its weight."""

    SUM = "sum of a column"
    SQUARE = "square of a number"
    PRODUCT = "product"
    TARGET_PRODUCT = "product with a target"
    BIN = "count of a histogram's cell"
    CELL = "count of a table's cell"
    ROWS = "number of rows"


def entry_weight(kind: Noised, layout: Layout) -> float:
    """Return what multiplies an entry of a kind before its noise is added."""
    weights = {
        Noised.SUM: layout.scaled_weight / 2**layout.resolution_bits,
        Noised.SQUARE: layout.square_weight,
        Noised.PRODUCT: 1,
        Noised.TARGET_PRODUCT: layout.target_weight,
        Noised.BIN: layout.histogram_weight,
        Noised.CELL: layout.table_weight,
        Noised.ROWS: layout.count_weight,
    }
    return float(weights[kind])


@dataclass(frozen=True, slots=True)
class NoiseLaw(ABC):
    """Law of the noise of a release, with its integers.

    Attributes
    ----------
    name
        Name in a study, a receipt and a ledger.
    source
        Publication that defines it.
    norm
        Norm in which it bounds a change: ``L1``, ``L2`` or ``nuclear``.
    needs_delta
        True if its epsilon holds at a delta.
    halves_products
        True if products of two columns may have half of its variance.
    makes_shares
        True if several owners can make it together.
    is_joint
        True for a `ReleaseLaw`.
    unit_excess
        Excess kurtosis of continuous noise, of a joint law that of each of its columns' part in a
        product; 0 for the normal law.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    norm: ClassVar[str]
    needs_delta: ClassVar[bool]
    halves_products: ClassVar[bool] = False
    makes_shares: ClassVar[bool] = False
    is_joint: ClassVar[bool] = False
    unit_excess: ClassVar[float]

    @classmethod
    @abstractmethod
    def entry_law(cls) -> type[IndependentLaw]:
        """Return this law as one of single numbers; raise `SettingError` if it is none."""

    @property
    @abstractmethod
    def of_entries(self) -> IndependentLaw:
        """The law as one of single numbers; raises `SettingError` if it is none."""

    @property
    @abstractmethod
    def of_counts(self) -> IndependentLaw:
        """Law of the counts of cells: this one, unless it is joint."""

    @classmethod
    def of_continuation(cls) -> type[IndependentLaw]:
        """Return the law of a study that continues one with this law and counts cells alone."""
        return cls.entry_law()

    # What it costs.

    @classmethod
    @abstractmethod
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

    @abstractmethod
    def epsilon_at(self, width: float, sens: Sensitivity, k: int, delta: Decimal) -> Decimal:
        """Estimate the epsilon of this law at another width above 0, in steps; for forecasts."""

    # How far it puts entries off.

    @property
    @abstractmethod
    def width(self) -> float:
        """Width of one entry's noise of weight 1, in steps, by which all of it grows."""

    @property
    @abstractmethod
    def deviation(self) -> float:
        """Standard deviation in steps of an entry of weight 1; of a joint law, of a product."""

    @abstractmethod
    def deviation_of(self, kind: Noised, layout: Layout) -> float:
        """Standard deviation in steps of an entry over its weight, the largest of its kind."""

    @abstractmethod
    def deviations(self) -> dict[str, float]:
        """Return standard deviations in steps of entries of weight 1, by what differs of them.

        The name of all that does not differ is empty.
        """

    @property
    def degrees(self) -> int | None:
        """Columns m of each matrix of a joint law; None of any other."""
        return None

    def parameters(self) -> dict[str, int]:
        """Return the law's integers, by their names in receipts."""
        return {name: each for name, each in asdict(self).items() if each is not None}

    @abstractmethod
    def largest(self, n_draws: int) -> int:
        """Return a bound that some of ``n_draws`` draws exceeds with probability below 1e-18."""

    @abstractmethod
    def tail(self, deviations: NDArray[np.float64], n: float) -> NDArray[np.float64]:
        """Return ``P(|sum of n noises of a product| >= x)``, x in standard deviations of it."""

    # Drawing, and what several owners make of it: each of ``honest`` owners draws a share.

    @abstractmethod
    def draw_release(
        self, layout: Layout, honest: int | None, *, entropy: EntropySource
    ) -> NDArray[np.int64]:
        """Draw the noise of a whole release, (D,), or one owner's share of it, modulo 2^64."""

    @classmethod
    def pooled(cls, layout: Layout, n_owners: int, honest: int | None) -> float:
        """Return how many of these noises are in a pool, of which ``honest`` shares make one."""
        del layout
        return n_owners / (honest or 1)

    def share_variance(self, honest: int) -> int | None:
        """Return the variance of a share if it is a whole number of squared steps, else None.

        Raise `SettingError` if the noise cannot be made of ``honest`` shares.
        """
        raise self._no_shares(honest)

    def share_weight(self, honest: int) -> Fraction:
        """Return the variance of a share as a fraction of the law's variance."""
        raise self._no_shares(honest)

    def cost_of_fewer(self, charge: PrivacyCost, honest: int, left: int) -> PrivacyCost | None:
        """Return the cost if only ``left`` of the shares are unknown; None without a promise."""
        del charge, left
        raise self._no_shares(honest)

    def _no_shares(self, honest: int) -> SettingError:
        return SettingError(f"{self.name} noise cannot be made of {honest} owners' shares")

    # Its limit at large widths, for simulations: draws of these methods protect nothing.

    @classmethod
    @abstractmethod
    def standard_release(cls, layout: Layout, n: float, rng: Generator) -> NDArray[np.float64]:
        """Draw sums of n noises of width 1 for all entries of a release, shape (D,)."""

    @classmethod
    @abstractmethod
    def standard_owners(
        cls, layout: Layout, n_owners: int, n: float, rng: Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Draw sums of n noises of width 1, (D,), and what each owner's sums are of it, (m, p)."""


@dataclass(frozen=True, slots=True)
class IndependentLaw(NoiseLaw):
    """Law of one entry, drawn for each alone; ``unit_deviation`` is that of width 1."""

    unit_deviation: ClassVar[float]

    @classmethod
    @override
    def entry_law(cls) -> type[Self]:
        return cls

    @property
    @override
    def of_entries(self) -> Self:
        return self

    @property
    @override
    def of_counts(self) -> Self:
        return self

    @property
    def of_products(self) -> IndependentLaw:
        """Law of the products of two columns: this one, unless it halves them."""
        return self

    @classmethod
    @abstractmethod
    def calibrate(
        cls, sens: Sensitivity, k: int, *, epsilon: Decimal, delta: Decimal | None
    ) -> tuple[Self, PrivacyCost]:
        """Return the narrowest law that promises epsilon to a person with k rows, and its cost."""

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
        del layout, honest, rows_counted
        return cls.calibrate(sens, k, epsilon=epsilon, delta=delta)

    @classmethod
    @abstractmethod
    def of_width(cls, width: Fraction) -> Self | None:
        """Return the law of a width in steps, rounded down; None below the narrowest."""

    def halve_products(self, *, up: bool) -> Self:
        """Return the law, an even variance, with half of it in products; rounded up or down.

        Raise `SettingError` if the law has one width for all entries.
        """
        del up
        raise SettingError(f"{self.name} noise has one width: halved_products is for gaussian")

    @classmethod
    @abstractmethod
    def estimate_epsilon(cls, width: float, sens: Sensitivity, k: int, delta: Decimal) -> Decimal:
        """Estimate the epsilon of a width above 0, in steps; for forecasts."""

    @override
    def epsilon_at(self, width: float, sens: Sensitivity, k: int, delta: Decimal) -> Decimal:
        return self.estimate_epsilon(width, sens, k, delta)

    @staticmethod
    @abstractmethod
    def change(sens: Sensitivity) -> float:
        """Return the largest change of the sums by one row, in the law's norm, in steps."""

    @staticmethod
    @abstractmethod
    def distance(difference: NDArray[np.int64]) -> int:
        """Return a number that grows with the norm of a difference of sums, shape (D,)."""

    @property
    @override
    def deviation(self) -> float:
        return self.width * self.unit_deviation

    @override
    def deviation_of(self, kind: Noised, layout: Layout) -> float:
        own = self.of_products if kind is Noised.PRODUCT else self
        return own.deviation / entry_weight(kind, layout)

    @override
    def deviations(self) -> dict[str, float]:
        other = {} if self.of_products is self else {"products": self.of_products.deviation}
        return {"": self.deviation, **other}

    @abstractmethod
    def draw(self, size: int, *, entropy: EntropySource) -> NDArray[np.int64]:
        """Draw noise for ``size`` entries, modulo 2^64."""

    def draw_share(self, honest: int, size: int, *, entropy: EntropySource) -> NDArray[np.int64]:
        """Draw one owner's share of the noise, modulo 2^64; ``honest`` shares add up to it."""
        del size, entropy
        raise self._no_shares(honest)

    def sum_of_shares(self, honest: int) -> IndependentLaw:
        """Return the law of ``honest`` shares together, up to a difference too small for a test."""
        raise self._no_shares(honest)

    def draw_entries(
        self, size: int, halved: NDArray[np.intp], honest: int | None, *, entropy: EntropySource
    ) -> NDArray[np.int64]:
        """Draw the noise of a vector, or a share of it; ``halved`` are places of halved products.

        Raise `SettingError` unless a law that halves products has such places, and no other.
        """
        if (halved.size > 0) != (self.of_products is not self):
            raise SettingError("places of halved products belong to a law that halves them")
        whole = np.ones(size, np.bool_)
        whole[halved] = False
        noise = np.empty(size, np.int64)
        for law, where in ((self, whole), (self.of_products, ~whole)):
            count = int(np.count_nonzero(where))
            noise[where] = (
                law.draw(count, entropy=entropy)
                if honest is None
                else law.draw_share(honest, count, entropy=entropy)
            )
        return noise

    @override
    def draw_release(
        self, layout: Layout, honest: int | None, *, entropy: EntropySource
    ) -> NDArray[np.int64]:
        return self.draw_entries(layout.n_entries, layout.halved_places, honest, entropy=entropy)

    # Exact probabilities.

    @abstractmethod
    def cdf(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``P(noise <= x)``, elementwise."""

    @abstractmethod
    def neg_log_pmf(self, x: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``-ln P(noise = x)``, elementwise."""

    # Its limit at large widths.

    @staticmethod
    @abstractmethod
    def standard(shape: int | tuple[int, ...], rng: Generator | RandomState) -> NDArray[np.float64]:
        """Draw continuous noise of width 1."""

    @staticmethod
    @abstractmethod
    def standard_sum(n: float, size: int, rng: Generator) -> NDArray[np.float64]:
        """Draw sums of n noises of width 1; n is any number above 0."""

    @classmethod
    @override
    def standard_release(cls, layout: Layout, n: float, rng: Generator) -> NDArray[np.float64]:
        return cls.standard_sum(n, layout.n_entries, rng)

    @classmethod
    @override
    def standard_owners(
        cls, layout: Layout, n_owners: int, n: float, rng: Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        packed = cls.standard_release(layout, n, rng)
        each = cls.standard((n_owners, layout.n_sums), rng)
        packed[: layout.n_sums] = each.sum(axis=0)
        return packed, each

    @override
    def tail(self, deviations: NDArray[np.float64], n: float) -> NDArray[np.float64]:
        return self.tail_probability(deviations, max(1, int(n)))

    @staticmethod
    @abstractmethod
    def tail_probability(deviations: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        """Return ``P(|sum of n noises| >= x)``, x in standard deviations of the sum."""


@dataclass(frozen=True, slots=True)
class ReleaseLaw(NoiseLaw):
    """Law of a whole release, whose sums and products are entries of one symmetric matrix Z.

    Estimates are linear in Z, and tests are quadratic in it: a law says the fourth cumulants of
    the former exactly (`fourth_cumulants`), and draws Z for the latter (`standard_matrices`).
    """

    is_joint: ClassVar[bool] = True

    @classmethod
    @override
    def entry_law(cls) -> type[IndependentLaw]:
        raise cls._whole()

    @property
    @override
    def of_entries(self) -> IndependentLaw:
        raise self._whole()

    @property
    @override
    @abstractmethod
    def degrees(self) -> int:
        """Columns m of each matrix."""

    @staticmethod
    @abstractmethod
    def fourth_cumulants(forms: NDArray[np.float64], degrees: int) -> NDArray[np.float64]:
        """Return those of ``<Z, Y>``, (k,), of symmetric Y, (k, side, side).

        Z is scaled so that ``<Z, Y>`` has the variance ``2 |Y|_F^2``; ``degrees`` are all owners'.
        """

    @staticmethod
    @abstractmethod
    def standard_matrices(
        side: int, degrees: int, size: int, rng: Generator
    ) -> NDArray[np.float64]:
        """Draw Z of that scale, (size, side, side)."""

    @classmethod
    def _whole(cls) -> SettingError:
        return SettingError(
            f"{cls.name} is the noise of all sums and products of a release at once, not of one "
            "number: take laplace here"
        )
