"""Matrix Laplace noise, the law of a whole release: pure differential privacy.

What it is, its cost and its proof: `dppca.common.kernel.privacy.matrix_noise`. Every entry of the
matrix has discrete Laplace noise besides, the blanket, and counts of cells have Laplace noise of
their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from math import ceil, sqrt
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from dppca.common.kernel.documents.amounts import round_up
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.accounting import PrivacyCost, require_epsilon
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.matrix_noise import (
    MatrixScales,
    draw_matrix,
    in_place,
    largest_form,
    largest_forms,
    matrix_scales,
    matrix_space,
    simulated_matrix,
)
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.noise.sampler import discrete_laplace
from dppca.common.kernel.privacy.noise.shares import laplace_share
from dppca.common.kernel.privacy.noise_law import Noised, ReleaseLaw, entry_weight
from dppca.common.kernel.privacy.sensitivity import Relation, Sensitivity
from dppca.common.kernel.schema.layout import Layout

if TYPE_CHECKING:
    from numpy.random import Generator

_TAIL = 42  # nats: an entry beyond has a chance of e^-42


@dataclass(frozen=True, slots=True)
class MatrixLaplaceLaw(ReleaseLaw):
    """Matrix Laplace noise with its integers.

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
    def of_continuation(cls) -> type[LaplaceLaw]:
        return LaplaceLaw

    @classmethod
    @override
    def pooled(cls, layout: Layout, n_owners: int, honest: int | None) -> float:
        m = matrix_space(layout).columns
        return n_owners * ceil(m / (honest or 1)) / m

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
    def deviation_of(self, kind: Noised, layout: Layout) -> float:
        weight = entry_weight(kind, layout)
        if kind in (Noised.BIN, Noised.CELL):
            return self.of_counts.deviation / weight
        forms = largest_forms(layout)
        product = forms.get(Noised.PRODUCT, 0.5)  # that of two columns, where all are targets
        form = float(forms.get(kind, product))
        return sqrt(4 * self.columns * self.scale**2 * form + 2 * (self.blanket / weight) ** 2)

    @override
    def deviations(self) -> dict[str, float]:
        square = sqrt(4 * self.columns * self.scale**2 + 2 * self.blanket**2)
        counts = {"counts of cells": self.of_counts.deviation} if self.counts_scale else {}
        return {"products": self.deviation, "numbers' squares": square, **counts}

    @property
    @override
    def degrees(self) -> int:
        return self.columns

    @property
    @override
    def of_counts(self) -> LaplaceLaw:
        # Without any counts, what one of weight 1 would have.
        return LaplaceLaw(self.counts_scale or ceil(self.scale * sqrt(self.columns)))

    @override
    def largest(self, n_draws: int) -> int:
        with localcontext(Context(prec=50, rounding=ROUND_CEILING)):
            t = Decimal(4 * n_draws).ln() + _TAIL
            variance = Decimal(self.largest_variance)
            entry = self.scale * ((2 * variance * t).sqrt() + t * (variance / self.columns).sqrt())
            return ceil(max(entry + self.blanket * t + 1, self.counts_scale * t))

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
    def cost_of_fewer(self, charge: PrivacyCost, honest: int, left: int) -> None:
        """Return None: fewer columns than m protect nothing."""

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
    def fourth_cumulants(forms: NDArray[np.float64], degrees: int) -> NDArray[np.float64]:
        # <Z, Y> is a sum of eigenvalues of Y times differences of two chi-squares of m degrees.
        squared = np.square(np.linalg.eigvalsh(forms))
        return np.asarray(24 * np.square(squared).sum(axis=1) / degrees)

    @staticmethod
    @override
    def standard_matrices(
        side: int, degrees: int, size: int, rng: Generator
    ) -> NDArray[np.float64]:
        drawn = np.empty((size, side, side))
        for number in range(size):
            g, h = rng.standard_normal((2, side, degrees))
            drawn[number] = g @ g.T - h @ h.T
        return drawn / sqrt(2 * degrees)
