"""Exact moments: sums of coded rows and of their products, in integers.

Rows are integers (`dppca.common.kernel.schema.coding`), so their sums and sums of products are
integers, the same in any order, batching and thread count. `compute_moments` takes coded rows;
`dppca.common.kernel.moments.accumulation` codes and adds rows block by block. No released number is
affected by floating-point error: see `dppca.common.kernel.moments.gram`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.moments.gram import GramSum
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.schema.layout import ColumnKind, Layout

_Float = TypeVar("_Float", np.float32, np.float64)
_MIRRORED = 128  # columns at a time, so that they stay in the cache


@dataclass(frozen=True, slots=True)
class Moments:
    """Exact sums over ``n_rows`` coded rows.

    ``packed`` is int64, shape (D,), in units of ``4**-g``, in the order of `Layout`. It is private:
    computed from rows and without noise. So is ``n_rows`` where the layout has it as an entry.
    """

    n_rows: int
    packed: NDArray[np.int64]

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both sets of rows together; associative and commutative."""
        return Moments(self.n_rows + other.n_rows, self.packed + other.packed)


def empty_moments(layout: Layout) -> Moments:
    """Return the moments of no rows: the neutral element of `Moments.merge`."""
    return Moments(0, np.zeros(layout.n_entries, dtype=np.int64))


def compute_moments(
    rows: NDArray[np.int32], layout: Layout, cells: Sequence[NDArray[np.int32]] = ()
) -> Moments:
    """Return the moments of coded rows.

    ``rows`` has shape (n_rows, p) and holds integers with ``|z| <= 2**g``, as `encode` makes them;
    they are not changed. ``cells`` has, for each released histogram and each table, the cell of
    each row, shape (n_rows,), as `find_cells` finds them.
    """
    n_rows, p = rows.shape
    gram_sum = GramSum(p, largest=1 << (2 * layout.resolution_bits))
    with one_blas_thread():
        for start in range(0, n_rows, gram_sum.block_rows):
            gram_sum.add(rows[start : start + gram_sum.block_rows].astype(np.float32))
    gram = gram_sum.total()
    sums = gram_sum.sums()
    counts = [
        np.bincount(codes, minlength=size)
        for codes, (size, _) in zip(cells, layout.counts, strict=True)
    ]
    return Moments(n_rows, pack(layout, sums, gram[layout.product_index], counts, n_rows))


def pack(
    layout: Layout,
    sums: NDArray[np.int64],
    products: NDArray[np.int64],
    counts: Sequence[NDArray[np.int64]],
    n_rows: int,
) -> NDArray[np.int64]:
    """Return the packed vector, shape (D,), of sums without weights.

    ``sums`` has shape (p,) and units of ``2**-g`` and is left out if the layout has none;
    ``products`` has shape (n_products,), units of ``4**-g`` and the layout's order; ``counts`` has,
    for each released histogram and each table, the rows in each cell. ``n_rows`` is the last entry,
    if the layout has it.
    """
    parts = [sums * layout.scaled_weight] if layout.with_sums else []
    parts.append(products * layout.packed_product_weights if layout.weighs_products else products)
    weighted = (each * unit for each, (_, unit) in zip(counts, layout.counts, strict=True))
    last = [np.array([n_rows * layout.count_unit], np.int64)] if layout.with_count else []
    return np.concatenate([*parts, *weighted, *last])


def unpack(
    packed: NDArray[np.int64], n_rows: int, layout: Layout
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Return the mean and second-moment matrix of a packed vector (noised or not).

    Weights are divided out. Entries that were not sent, because they are public or follow from
    others, are restored: a binary's mean square is 1/4, an indicator's is its own mean, that of a
    column for missing values half its mean, and the product of two columns of one attribute is 0.

    ``packed`` is int64, shape (D,), units of ``4**-g``. The sums are divided by ``n_rows >= 1``.

    Returns
    -------
    mean
        float64, shape (p,), in coded units (a box column lies in [-1/2, 1/2] or [0, 1]); None if
        the release has no sums.
    second
        float64, symmetric, shape (p, p): mean of products of two columns.
    """
    p = layout.n_columns
    one = float(4**layout.resolution_bits) * n_rows
    mean = unpack_mean(packed, n_rows, layout)
    second = spread_products(layout, packed, np.zeros((p, p)))
    second /= one
    for column, kind in enumerate(layout.kinds):
        if kind is ColumnKind.BINARY:
            second[column, column] = 0.25
        elif kind is ColumnKind.INDICATOR and mean is not None:
            second[column, column] = mean[column]
        elif kind is ColumnKind.MISSING and mean is not None:
            second[column, column] = mean[column] / 2
    return mean, second


def unpack_mean(
    packed: NDArray[np.int64], n_rows: int, layout: Layout
) -> NDArray[np.float64] | None:
    """Return the mean of `unpack`, shape (p,), without the products; None without sums."""
    if not layout.with_sums:
        return None
    # w * sum of the values, in the same units as the products
    weight = layout.scaled_weight / 2**layout.resolution_bits
    one = float(4**layout.resolution_bits) * n_rows
    mean: NDArray[np.float64] = packed[: layout.n_columns].astype(np.float64) / (one * weight)
    return mean


def unpack_histograms(
    packed: NDArray[np.int64], n_rows: int, layout: Layout
) -> tuple[NDArray[np.float64] | None, ...]:
    """Return each attribute's share of the rows per cell; None if its histogram is not released.

    Parameters as for `unpack`. With noise, a share may be below 0, and they need not sum to 1.
    """
    shares: list[NDArray[np.float64] | None] = [None] * len(layout.groups)
    counted = _unpack_counts(packed, n_rows, layout)
    for (attribute, _), own in zip(layout.histograms, counted, strict=False):
        shares[attribute] = own
    return tuple(shares)


def unpack_tables(
    packed: NDArray[np.int64], n_rows: int, layout: Layout
) -> tuple[NDArray[np.float64], ...]:
    """Return the share of the rows in each cell of each table. Parameters as for `unpack`."""
    return tuple(_unpack_counts(packed, n_rows, layout)[len(layout.histograms) :])


def _unpack_counts(
    packed: NDArray[np.int64], n_rows: int, layout: Layout
) -> list[NDArray[np.float64]]:
    ends = np.cumsum([size for size, _ in layout.counts])
    parts = np.split(packed[layout.n_moments :], ends)[:-1] if layout.counts else []
    units = (float(unit) * n_rows for _, unit in layout.counts)
    return [part / unit for part, unit in zip(parts, units, strict=True)]


def spread_products(layout: Layout, packed: NDArray[Any], out: NDArray[_Float]) -> NDArray[_Float]:
    """Write products, without weights, to their two places in a matrix; return ``out``.

    ``packed`` has shape (D,); ``out`` has shape (p, p) and holds zeros, which remain for squares
    that are not sent. The loop goes row by row without an index of places: at a thousand columns
    the index would take more memory than the matrix, and allocating memory takes longer than the
    work.
    """
    starts, firsts = (each.tolist() for each in layout.product_rows)
    products, p = packed[layout.n_sums :], layout.n_columns
    for row, (start, first) in enumerate(zip(starts, firsts, strict=True)):
        out[row, first:] = products[start : start + p - first]
    for start in range(0, p, _MIRRORED):
        stop = min(p, start + _MIRRORED)
        square = out[start:stop, start:stop]
        square += np.triu(square, 1).T
        out[stop:, start:stop] = out[start:stop, stop:].T
    if layout.weighs_products:
        out /= layout.product_weights
    return out
