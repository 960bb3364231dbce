"""Layout of the numbers in a release.

A coded row has ``p`` columns: one per numeric or binary attribute, one more, before it, for a
numeric with ``missing: indicator``, one per category of a categorical and per cell of a numeric
with ``products: bins``. A release is one packed vector of int64:

1. the ``p`` column sums (left out for unit-ball rows without sums), then
2. sums of products of columns ``i <= j``, row by row of the upper triangle, without those that are
   public or follow from the rest: squares of binaries and indicators, and products of two
   columns of one attribute, then
3. for each numeric with a released histogram, in order, the number of rows in each of its cells,
   then
4. for each table, in order, the number of rows in each of its cells
   (`dppca.common.kernel.schema.partitions`), then
5. the number of rows, where it is secret.

A release of tables alone has the fourth part and no other: its cells add up to the number of rows.

All entries are in units of ``4**-g``; a sum enters times ``w * 2**g``, a number of rows times ``h *
4**g`` or, in a table, times ``t * 4**g``, the number of all rows times ``a * 4**g``, a product of
two attributes of which one is a target times its weight, a numeric's square times that of squares.
The order is part of the wire format: change it only together with the protocol's version.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


class ColumnKind(StrEnum):
    """Kind of a column of a coded row."""

    NUMERIC = "numeric"
    BINARY = "binary"
    INDICATOR = "indicator"
    MISSING = "missing"


@dataclass(frozen=True)
class Layout:
    """Columns of a coded row and entries of a packed vector.

    Parameters
    ----------
    kinds
        Kind of each of the p columns.
    attribute_of
        Index of the attribute each column belongs to, ascending.
    resolution_bits
        ``g``: one unit of a coded value is ``2**-g``.
    scaled_weight
        ``w * 2**g`` as an integer: factor of a column's sum.
    unit_ball
        Rows lie in the unit ball instead of a box.
    with_sums, with_products
        Column sums, and products, are part of the vector.
    histograms
        Attribute and number of cells of each released histogram.
    histogram_unit
        ``h * 4**g`` as an integer: factor of a number of rows.
    targets
        Attributes whose products with others are multiplied by ``target_weight``.
    tables
        Number of cells of each table.
    table_unit
        ``t * 4**g`` as an integer: factor of a number of rows in a table's cell.
    square_weight
        Factor of a numeric's square.
    halved_products
        The noise of a product of two columns has half of the variance of every other entry's.
    count_unit
        ``a * 4**g`` as an integer: factor of the number of all rows; 0 if it is no entry.
    """

    kinds: tuple[ColumnKind, ...]
    attribute_of: tuple[int, ...]
    resolution_bits: int
    scaled_weight: int
    unit_ball: bool = False
    with_sums: bool = True
    with_products: bool = True
    histograms: tuple[tuple[int, int], ...] = ()
    histogram_unit: int = 0
    targets: tuple[int, ...] = ()
    target_weight: int = 1
    tables: tuple[int, ...] = ()
    table_unit: int = 0
    square_weight: int = 1
    halved_products: bool = False
    count_unit: int = 0

    @property
    def n_columns(self) -> int:
        """Length p of a coded row."""
        return len(self.kinds)

    @property
    def n_sums(self) -> int:
        """Number of column sums in the packed vector: p or 0."""
        return self.n_columns if self.with_sums else 0

    @cached_property
    def product_index(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns ``i <= j`` of the products, in the order of the packed vector."""
        starts, firsts = self.product_rows
        per_row = self.n_columns - firsts
        i = np.repeat(np.arange(self.n_columns), per_row)
        j = np.arange(len(i)) - np.repeat(starts - firsts, per_row)
        return i, j

    def product_places(self, i: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the places of products among all products, by broadcasting; in any order.

        The columns must belong to different attributes, or the products be squares of a numeric.
        """
        starts, firsts = self.product_rows
        low, high = np.minimum(i, j), np.maximum(i, j)
        places: NDArray[np.intp] = starts[low] + high - firsts[low]
        return places

    @cached_property
    def product_rows(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Place of column i's first product among all, and its first j: shape (p,) each.

        The others follow without a gap, to the last column: a binary's or an indicator's square,
        and the other columns of its attribute, are left out and would all come first.
        """
        group = np.asarray(self.attribute_of)
        numeric = np.asarray([kind is ColumnKind.NUMERIC for kind in self.kinds])
        firsts = np.where(
            numeric, np.arange(self.n_columns), np.searchsorted(group, group, side="right")
        )
        if not self.with_products:
            firsts = np.full(self.n_columns, self.n_columns)
        per_row = self.n_columns - firsts
        return np.cumsum(per_row) - per_row, firsts

    @cached_property
    def n_products(self) -> int:
        """Number of products in the packed vector."""
        if not self.with_products:
            return 0
        p = self.n_columns
        _, sizes = np.unique(np.asarray(self.attribute_of), return_counts=True)
        inside = int(sum(int(size) * (int(size) - 1) // 2 for size in sizes))
        numeric = sum(kind is ColumnKind.NUMERIC for kind in self.kinds)
        return p * (p - 1) // 2 - inside + numeric

    @cached_property
    def n_entries(self) -> int:
        """Length D of the packed vector."""
        return self.n_moments + self.n_cells + self.with_count

    @property
    def n_cells(self) -> int:
        """Number of cells of histograms and tables, which come after sums and products."""
        return sum(cells for _, cells in self.histograms) + sum(self.tables)

    @property
    def with_count(self) -> bool:
        """Whether the number of all rows is the last entry."""
        return self.count_unit > 0

    @property
    def count_weight(self) -> Fraction:
        """Weight a: the number of all rows has a product's noise divided by it; 0 if not there."""
        return Fraction(self.count_unit, 4**self.resolution_bits)

    @property
    def n_moments(self) -> int:
        """Number of sums and products, which come before all counts of rows."""
        return self.n_sums + self.n_products

    @cached_property
    def counts(self) -> tuple[tuple[int, int], ...]:
        """Cells, and the factor of a number of rows, of each histogram and then each table."""
        histograms = ((cells, self.histogram_unit) for _, cells in self.histograms)
        return (*histograms, *((cells, self.table_unit) for cells in self.tables))

    @cached_property
    def histogram_weight(self) -> Fraction:
        """Weight h: a cell's share of the rows has a product's noise divided by it."""
        return Fraction(self.histogram_unit, 4**self.resolution_bits)

    @property
    def largest_weight(self) -> Fraction:
        """Upper bound on all entries' weights, at least 1."""
        sums = Fraction(self.scaled_weight, 2**self.resolution_bits)
        counts = (self.histogram_weight, self.table_weight if self.tables else Fraction(1))
        products = (Fraction(self.target_weight), Fraction(self.square_weight))
        return max(*products, sums, *counts, self.count_weight, Fraction(1))

    @cached_property
    def table_weight(self) -> Fraction:
        """Weight t: a table's cell has a product's noise divided by it."""
        return Fraction(self.table_unit, 4**self.resolution_bits)

    @cached_property
    def product_weights(self) -> NDArray[np.int64]:
        """Factor of the product of two columns, shape (p, p), symmetric."""
        attribute = np.asarray(self.attribute_of)
        target = np.isin(attribute, self.targets)
        weighted = (target[:, None] | target) & (attribute[:, None] != attribute)
        weights = np.where(weighted, self.target_weight, 1)
        squares = np.asarray([kind is ColumnKind.NUMERIC for kind in self.kinds])
        weights[squares, squares] = self.square_weight
        return weights

    @property
    def weighs_products(self) -> bool:
        """Whether some product or square has another factor than 1."""
        return bool(self.targets) or self.square_weight > 1

    @cached_property
    def packed_product_weights(self) -> NDArray[np.int64]:
        """Factors of products in the order of the packed vector, shape (n_products,)."""
        i, j = self.product_index
        return self.product_weights[i, j]

    @cached_property
    def halved_places(self) -> NDArray[np.intp]:
        """Places in the packed vector of entries whose noise has half of the variance."""
        if not self.halved_products:
            return np.empty(0, np.intp)
        i, j = self.product_index
        return self.n_sums + np.flatnonzero(i != j)

    @cached_property
    def attribute_kinds(self) -> tuple[ColumnKind, ...]:
        """Kind of each attribute's columns; of a numeric with an indicator, of the number's."""
        return tuple(self.kinds[stop - 1] for _, stop in self.groups)

    @cached_property
    def missing_columns(self) -> tuple[int, ...]:
        """Columns that say that a number is missing; the number's own is the next one."""
        return tuple(i for i, kind in enumerate(self.kinds) if kind is ColumnKind.MISSING)

    @cached_property
    def groups(self) -> tuple[tuple[int, int], ...]:
        """First and one-past-last column of each attribute."""
        group = np.asarray(self.attribute_of)
        starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
        return tuple(
            (int(a), int(b)) for a, b in zip(starts, [*starts[1:], len(group)], strict=True)
        )
