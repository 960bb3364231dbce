"""Exact sums of products of integer rows, by BLAS in single precision where that is exact.

``G = sum over rows of z z^T`` for integer rows ``z``. A floating-point sum of integers is exact
while no partial sum exceeds ``2^f`` (f = 24 in float32, 53 in float64). Every partial sum of ``z_i
z_j`` over a block, in any order, is at most

    sum |z_i z_j|  <=  sum (z_i^2 + z_j^2) / 2  <=  max over k of  sum z_k^2                   (1)

so a block is exact if the largest number on the diagonal of its own Gram matrix is below ``2^f``.
The *computed* matrix suffices for this test: rounding is monotone, so a sum of non-negative
integers that reaches ``2^f`` is also computed as at least ``2^f``. A block is therefore multiplied
in float32, twice as fast as float64, and its diagonal is tested. If the test fails, the block is
halved; below `_LEAST_ROWS` it is multiplied in float64, whose bound ``rows * largest <= 2^53`` is
kept by moving the sums to int64 in time. The integers are thus the same for any data, order, blocks
and number of threads; the data affect only the running time, at their owner's site.

For rows within the bounds of box coding without indicators, ``|z| <= 2^(g-1)``, blocks of 64 rows
at g = 10 and 16,384 at g = 6 always pass.

Column sums are computed with the products: ``|z| <= z^2`` for integers, so (1) bounds their partial
sums too.

Each product is `numpy.matmul` of a matrix with its own transpose. BLAS forms it as a symmetric
product (syrk) while other threads run; SciPy's wrappers of the same routines block them (decision
97). Few columns are multiplied in low blocks, many at a time, and each block is tested
(`dppca.common.kernel.moments.batched_gram`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.moments.batched_gram import BatchedGram

_SINGLE = float(1 << 24)
_DOUBLE = 1 << 53  # below it double precision has every whole number
_LEAST_ROWS = 64  # fewer rows are slower in float32 than more rows in float64
_LEAST_VALUES = 1 << 13  # fewer values, too, because of each call's fixed time
_FEW_COLUMNS = 64  # up to which blocks of 4,096 rows fit the cache
_STACKED_COLUMNS = range(2, 33)
_STACKED_ROWS = 512  # of one product in a stack
_STACKED_VALUES = 1 << 18  # fewer calls mean fewer waits of one thread for another


class GramSum:
    """``sum z z^T`` and ``sum z`` over blocks of integer rows; for one thread at a time.

    ``n_columns`` is p. ``largest`` is a bound on ``z^2`` that all rows must keep: ``4^g`` for coded
    rows. ``block_rows`` are added at a time the fastest.
    """

    def __init__(self, n_columns: int, *, largest: int) -> None:
        shape = (n_columns, n_columns)
        self._largest = largest
        self._exact: NDArray[np.int64] | None = None  # sums moved out of _products
        self._products = np.zeros(shape)
        self._sums = np.zeros(n_columns)
        self._n_rows = 0  # in _products
        # Fits the cache, unless the products themselves do not.
        self.block_rows = 4096 if n_columns <= _FEW_COLUMNS else 1024
        self._single = _BlockGram(shape, self.block_rows, np.float32)
        self._double: _BlockGram | None = None
        self._most_rows = self.block_rows
        self._least_rows = max(_LEAST_ROWS, _LEAST_VALUES // max(n_columns, 1))
        self._batched: BatchedGram | None = None
        self._double_stack: BatchedGram | None = None
        if n_columns in _STACKED_COLUMNS:
            self.block_rows = 1 << (_STACKED_VALUES // n_columns).bit_length()
            self._most_rows, self._least_rows = _STACKED_ROWS, _LEAST_ROWS
            self._batched = BatchedGram(n_columns, self._most_rows)
        self._height = self._most_rows  # rows of a product in float32; 0: there is none

    def add(self, rows: NDArray[np.float32]) -> None:
        """Add integer rows, shape (n_rows, p), not changed; the fastest if C-contiguous."""
        start = 0
        while start < len(rows):
            one_product = self._height and self._batched is None
            part = rows[start : start + (self._height if one_product else self.block_rows)]
            start += len(part) if self._added(part) else 0

    def total(self) -> NDArray[np.int64]:
        """Return the products so far: int64, symmetric, shape (p, p); a new array."""
        result: NDArray[np.int64] = self._products.astype(np.int64)
        if self._exact is not None:
            result += self._exact
        return result

    def sums(self) -> NDArray[np.int64]:
        """Return the column sums so far: int64, shape (p,); a new array."""
        return self._sums.astype(np.int64)

    def _added(self, rows: NDArray[np.float32]) -> bool:
        """Add the rows. Return False if they are too many for an exact product in float32."""
        # Float64 sums of integers are exact up to 2^53: rows * largest bounds each of them.
        if (self._n_rows + len(rows)) * self._largest > _DOUBLE:
            self._spill()
        if self._height:
            products: NDArray[Any]
            if self._batched is not None:
                products, sums, most = self._batched.multiply(rows, self._height)
            else:
                products, sums = self._single.multiply(rows)
                most = float(products.diagonal().max(initial=0.0))
            # (1): no partial sum exceeds the diagonal's largest number. NaN fails the test, too.
            if not most < _SINGLE:
                fewer = min(self._height, len(rows)) // 2
                self._height = fewer if fewer >= self._least_rows else 0
                return False
            if most < _SINGLE / 4:  # twice as many rows like these would pass with room
                self._height = min(2 * self._height, self._most_rows)
        else:
            products, sums = self._multiply_double(rows.astype(np.float64))
        self._products += products
        self._sums += sums
        self._n_rows += len(rows)
        return True

    def _multiply_double(
        self, rows: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        shape = self._products.shape
        if self._batched is not None:
            stack = self._double_stack or BatchedGram(shape[0], _STACKED_ROWS, np.float64)
            self._double_stack = stack
            return stack.multiply(rows, _STACKED_ROWS)[:2]
        self._double = self._double or _BlockGram(shape, self.block_rows, np.float64)
        return self._double.multiply(rows)

    def _spill(self) -> None:
        moved = self._products.astype(np.int64)
        self._exact = moved if self._exact is None else self._exact + moved
        self._products[:] = 0.0
        self._n_rows = 0


class _BlockGram:
    """``z^T z`` and column sums of one block in one precision, into buffers of its own."""

    def __init__(
        self, shape: tuple[int, ...], block_rows: int, kind: type[np.float32 | np.float64]
    ) -> None:
        self._products = np.zeros(shape, kind)
        self._sums = np.zeros(shape[0], kind)
        self._ones = np.ones(block_rows, kind)

    def multiply(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return both; valid until the next call."""
        np.matmul(rows.T, rows, out=self._products)
        np.matmul(self._ones[: len(rows)], rows, out=self._sums)
        return self._products, self._sums
