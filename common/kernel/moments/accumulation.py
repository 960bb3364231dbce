"""Exact moments of rows given by columns, coded and multiplied block by block.

The result equals `compute_moments` on a coded matrix, but memory is bounded: each block is
coded into a buffer that stays in the cache and is multiplied from there. Two methods give the same
integers:

* ``DENSE``: numerics, a column of -1 and 1 per binary and an indicator per category and of missing
  numbers form one block of small integers; `GramSum` adds its sums and products;
* ``COUNTS``: only numerics are multiplied; `ContingencyCounts` counts labels, cells of numerics
  with ``products: bins`` and missing numbers as codes.

`choose_method` takes the faster one from the schema alone: the dense product costs p^2 per row,
counting costs a few nanoseconds per pair of groups of attributes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.moments.contingency import ContingencyCounts, n_groups
from dppca.common.kernel.moments.encoder import (
    Batch,
    BatchEncoder,
    choose_order,
    count_rows,
    slice_rows,
    split_columns,
)
from dppca.common.kernel.moments.gram import GramSum
from dppca.common.kernel.moments.moments import Moments, pack
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.schema import ColumnKind, Schema, find_cells

# Rows counted at a time: many, since each call has a fixed cost, but few enough for the cache.
_COUNTED_ROWS = 1 << 15
_COUNTED_VALUES = 1 << 18  # numerics of such a block

# Nanoseconds per row, measured on one core (decision 96). Only their ratio matters, and
# only for speed.
_DENSE_PER_PRODUCT_NS = 0.0087
_DENSE_PER_COLUMN_NS = 2.5  # coding of a column of the block
_COUNT_PER_PAIR_NS = 2.2  # entry of a histogram of two groups
_COUNT_PER_GROUP_NS = 1.5  # a group's own key
_COUNT_PER_GROUP_AND_NUMBER_NS = 0.45  # sum of a numeric by a group's key
_COUNT_PER_ATTRIBUTE_NS = 0.4  # its part of a group's key
_COUNT_PER_NUMBER_NS = 4.0  # coding of a numeric


class ProductMethod(StrEnum):
    """Method of forming products with labelled attributes."""

    DENSE = "dense"
    COUNTS = "counts"


class MomentSums:
    """Moments of the batches added so far; for one thread at a time.

    If ``method`` is None, `choose_method` decides; the integers are the same.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        method: ProductMethod | None = None,
        coder: BatchEncoder | None = None,
    ) -> None:
        self._with_moments = schema.layout.n_moments > 0
        chosen = method or choose_method(schema)
        dense = chosen is ProductMethod.DENSE or not self._with_moments
        self._schema, self._dense = schema, dense
        self._coder = coder or BatchEncoder(schema, dense=dense)
        self._counted_rows = min(_COUNTED_ROWS, _COUNTED_VALUES // max(self._coder.n_numerics, 1))
        self._begin()

    def beside(self) -> MomentSums:
        """Return sums of no rows that code into the same buffers: for the same thread."""
        method = ProductMethod.DENSE if self._dense else ProductMethod.COUNTS
        return MomentSums(self._schema, method=method, coder=self._coder)

    def _begin(self) -> None:
        schema = self._schema
        self._n_rows = 0
        self._gram = GramSum(self._coder.width, largest=1 << (2 * schema.resolution_bits))
        self._contingency: ContingencyCounts | None = None
        self._counts = [np.zeros(n_cells, np.int64) for n_cells, _ in schema.layout.counts]
        if not self._dense:
            self._contingency = ContingencyCounts(
                _label_counts(schema),
                n_numerics=self._coder.n_numerics,
                largest=1 << (schema.resolution_bits - 1),
            )

    def add(self, batch: Batch) -> None:
        """Add rows. The batch is not changed."""
        n_rows = count_rows(batch)
        if self._with_moments:
            self._add_products(batch, n_rows)
        for start in range(0, n_rows if self._counts else 0, _COUNTED_ROWS):
            part = slice_rows(batch, start, min(n_rows, start + _COUNTED_ROWS))
            cells = find_cells(self._schema, split_columns(part))
            for counts, cell in zip(self._counts, cells, strict=True):
                counts += np.bincount(cell, minlength=len(counts))
        self._n_rows += n_rows

    def _add_products(self, batch: Batch, n_rows: int) -> None:
        order, start = choose_order(batch), 0
        while start < n_rows:
            most = self._gram.block_rows if self._contingency is None else self._counted_rows
            part = slice_rows(batch, start, min(n_rows, start + most))
            rows, codes = self._coder.code(part, order)
            if self._contingency is not None:
                self._contingency.add(codes, rows)
            self._gram.add(rows)
            start += len(rows)

    def total(self) -> Moments:
        """Return the moments of all rows so far."""
        sums, products = (
            self._sum_blocks() if self._contingency is None else self._sum_counts(self._contingency)
        )
        n_rows = self._n_rows
        return Moments(n_rows, pack(self._schema.layout, sums, products, self._counts, n_rows))

    def take(self) -> Moments:
        """Return the moments of all rows so far, and begin anew."""
        taken = self.total()
        self._begin()
        return taken

    def _sum_blocks(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        layout, coder, gram = self._schema.layout, self._coder, self._gram.total()
        i, j = layout.product_index
        products = gram[coder.place[i], coder.place[j]]
        products *= coder.unit[i] * coder.unit[j]
        return self._gram.sums()[coder.place] * coder.unit, products

    def _sum_counts(self, counts: ContingencyCounts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        layout = self._schema.layout
        sums = np.zeros(layout.n_columns, dtype=np.int64)
        products = np.zeros(layout.n_products, dtype=np.int64)
        numeric = np.flatnonzero([kind is ColumnKind.NUMERIC for kind in layout.kinds])
        labelled = [
            np.arange(start, stop - (layout.kinds[start] is ColumnKind.MISSING))
            for start, stop in layout.groups
            if layout.kinds[start] is not ColumnKind.NUMERIC
        ]
        products[layout.product_places(numeric[:, None], numeric)] = self._gram.total()
        sums[numeric] = self._gram.sums()
        half = 1 << (layout.resolution_bits - 1)
        for k, columns in enumerate(labelled):
            kind = layout.kinds[columns[0]]
            sums[columns] = _expand_labels(counts.counts(k), kind, half)
            others = np.asarray(layout.attribute_of)[numeric] != layout.attribute_of[columns[0]]
            by_number = _expand_labels(counts.sums(k), kind, half)[:, others]
            products[layout.product_places(columns[:, None], numeric[others])] = by_number
            for other, before in enumerate(labelled[:k]):
                by_both = _expand_labels(counts.pair(k, other), kind, half)
                by_both = _expand_labels(by_both.T, layout.kinds[before[0]], half).T
                products[layout.product_places(columns[:, None], before)] = by_both
        return sums, products


def accumulate_moments(
    schema: Schema, batch: Batch, *, workers: int = 1, method: ProductMethod | None = None
) -> Moments:
    """Return the moments of rows in memory.

    ``workers`` threads run at once, each on its own rows and with one BLAS thread, because BLAS'
    own threads wait for each other at every block on a busy machine; ``COUNTS`` uses one.
    ``method`` None takes the one of `choose_method`.
    """
    n_rows = count_rows(batch)
    if (method or choose_method(schema)) is ProductMethod.COUNTS:
        workers = 1
    bounds = [n_rows * k // workers for k in range(workers + 1)]

    def part(worker: int) -> Moments:
        sums = MomentSums(schema, method=method)
        sums.add(slice_rows(batch, bounds[worker], bounds[worker + 1]))
        return sums.total()

    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        return reduce(Moments.merge, pool.map(part, range(workers)))


def choose_method(schema: Schema) -> ProductMethod:
    """Return the faster method for a schema on two cores.

    Threads share all of the counting except the histograms, which need the interpreter's lock.
    """
    sizes = _label_counts(schema)
    if not sizes:
        return ProductMethod.DENSE
    p, q = schema.layout.n_columns, schema.layout.attribute_kinds.count(ColumnKind.NUMERIC)
    groups = n_groups(sizes)
    dense = _DENSE_PER_PRODUCT_NS * p**2 + _DENSE_PER_COLUMN_NS * p
    histograms = _COUNT_PER_PAIR_NS * max(1, groups * (groups - 1) / 2)
    counts = (
        histograms
        + _COUNT_PER_GROUP_NS * groups
        + _COUNT_PER_GROUP_AND_NUMBER_NS * groups * q
        + _COUNT_PER_ATTRIBUTE_NS * len(sizes)
        + _COUNT_PER_NUMBER_NS * q
        + _DENSE_PER_PRODUCT_NS * q**2
    )
    return ProductMethod.DENSE if dense < max(counts, 2 * histograms) else ProductMethod.COUNTS


def _label_counts(schema: Schema) -> list[int]:
    """Number of codes of each attribute that has any: labels, cells, or known and missing."""
    layout = schema.layout
    return [
        2 if layout.kinds[start] is ColumnKind.BINARY else stop - start
        for start, stop in layout.groups
        if layout.kinds[start] is not ColumnKind.NUMERIC
    ]


def _expand_labels(by_label: NDArray[np.int64], kind: ColumnKind, half: int) -> NDArray[np.int64]:
    """Sums over an attribute's columns, computed from sums by its labels along the first axis."""
    if kind is ColumnKind.INDICATOR:
        return by_label * (2 * half)
    if kind is ColumnKind.MISSING:
        return by_label[1:2] * half
    return (by_label[1:2] - by_label[0:1]) * half
