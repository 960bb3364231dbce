"""Blocks of rows as small integers, ready to be multiplied.

A row of a dense block has the numerics in units of ``2^-g``, a -1 or 1 per binary and an indicator
of a missing number in units of a half, and an indicator per category or bin in units of one. Small
integers keep products exact in float32 (`dppca.common.kernel.moments.gram`).
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.schema import (
    Column,
    ColumnKind,
    Numeric,
    Scale,
    Schema,
    Score,
    count_whole,
    encode,
    label_codes,
)
from dppca.common.kernel.schema.cells import encode_log, nearest_whole
from dppca.common.kernel.schema.grid import Grid, allocate_aligned, make_grid

Batch = Sequence[Column] | NDArray[np.float64]
"""One uncoded array of shape (n_rows,) per attribute or, if all attributes are numeric, a matrix of
shape (n_rows, n_attributes)."""

Order = Literal["C", "F"]

_WORK_VALUES = 1 << 17
"""Values coded at a time. Fewer would fit a smaller cache, but each step would be shorter than the
time that one thread waits for another (decision 97)."""
_LEAST_WORK_ROWS = 256  # for columns in separate arrays


class BatchEncoder:
    """Encoder of blocks into one buffer, which the next block overwrites; for one thread.

    ``dense`` gives all columns but the numerics' own a place in the block.
    ``n_numerics`` is q, the first of the ``width`` columns of a block. ``place`` and ``unit``, of
    dense blocks only, give for each column of a coded row, shape (p,), its column in a block and
    the factor of that column's values.
    """

    def __init__(self, schema: Schema, *, dense: bool) -> None:
        self._schema = schema
        self._dense = dense
        kinds = schema.layout.attribute_kinds
        self._numeric = [i for i, kind in enumerate(kinds) if kind is ColumnKind.NUMERIC]
        self._labelled = [  # what has codes: labels, cells, and whether a number is missing
            (i, kind)
            for i, (start, _) in enumerate(schema.layout.groups)
            if (kind := schema.layout.kinds[start]) is not ColumnKind.NUMERIC
        ]
        self.n_numerics = len(self._numeric)
        self._grid: Grid | None = None
        if self._numeric and schema.row_norm is None:
            chosen = [schema.attributes[index] for index in self._numeric]
            numerics = [each for each in chosen if isinstance(each, Numeric)]
            self._grid = make_grid(numerics, resolution_bits=schema.resolution_bits)
        unit = 1 << schema.resolution_bits
        self._logarithmic = [
            (number, index, attribute, Scale.of(attribute).code_changes(unit))
            for number, index in enumerate(self._numeric)
            if isinstance(attribute := schema.attributes[index], Numeric)
            and attribute.score is Score.LOG
        ]
        self._whole = [  # by number: of a logarithmic one it is done before its comparison
            isinstance(attribute := schema.attributes[index], Numeric)
            and attribute.integer
            and attribute.score is Score.LINEAR
            for index in self._numeric
        ]
        self._whole_numbers = np.flatnonzero(self._whole).tolist()  # asked for each tile
        p = schema.layout.n_columns
        self.width = p if dense else self.n_numerics
        self.place = np.zeros(p, dtype=np.intp)
        self.unit = np.ones(p, dtype=np.int64)
        self._places: list[slice] = []
        if dense:
            self._arrange(unit)
        self._rows = np.empty(0, dtype=np.float32)
        self._work = self._gathered = np.empty(0)
        self._wide: Grid | None = None

    def code(
        self, batch: Batch, order: Order
    ) -> tuple[NDArray[np.float32], list[NDArray[np.int32]]]:
        """Code a block.

        Return the rows, shape (n_rows, width), contiguous in ``order`` and valid until the next
        call; and for each attribute that is no number its codes, shape (n_rows,): indices of labels
        or cells, or 1 for a missing number of an attribute with an indicator.
        """
        n_rows, q = count_rows(batch), self.n_numerics
        if self._rows.size < n_rows * self.width:
            self._rows = allocate_aligned(n_rows * self.width, np.float32)
        rows = self._rows[: n_rows * self.width].reshape((n_rows, self.width), order=order)
        if self._schema.row_norm is not None:
            rows[:, :q] = encode(self._schema, split_columns(batch))
            return rows, []
        if self._grid is not None:
            self._code_numerics(self._grid, batch, rows[:, :q], order)
        for number, index, attribute, changes in self._logarithmic:
            values = np.asarray(take_column(batch, index), np.float64)
            if attribute.integer:
                values = count_whole(values, *attribute.bounds)
            rows[:, number] = encode_log(values, changes)
        codes = [
            (~np.isfinite(np.asarray(take_column(batch, i), np.float64))).astype(np.int32)
            if kind is ColumnKind.MISSING
            else label_codes(self._schema, i, take_column(batch, i))
            for i, kind in self._labelled
        ]
        if self._dense:
            for (_, kind), place, code in zip(self._labelled, self._places, codes, strict=True):
                _write(kind, code, rows[:, place])
        return rows, codes

    def _arrange(self, one: int) -> None:
        first = self.n_numerics
        groups = self._schema.layout.groups
        for number, index in enumerate(self._numeric):
            self.place[groups[index][1] - 1] = number
        for index, kind in self._labelled:
            start, stop = groups[index]
            stop -= kind is ColumnKind.MISSING  # the number's own column has a place
            self.place[start:stop] = np.arange(first, first + stop - start)
            self.unit[start:stop] = one if kind is ColumnKind.INDICATOR else one // 2
            self._places.append(slice(first, first + stop - start))
            first += stop - start

    def _code_numerics(
        self, grid: Grid, batch: Batch, out: NDArray[np.float32], order: Order
    ) -> None:
        n_rows, q = out.shape
        together = order == "C"
        height = _rows_per_tile(q) if together else max(_LEAST_WORK_ROWS, _WORK_VALUES // q)
        if len(self._work) < height * q:
            self._work, self._gathered = (
                allocate_aligned(height * q, np.float64) for _ in range(2)
            )
        if together and self._wide is None:
            self._wide = grid.tile(height)
        for start in range(0, n_rows, height):
            stop = min(n_rows, start + height)
            size = (stop - start) * q
            work = self._work[:size].reshape((stop - start, q), order=order)
            if isinstance(batch, np.ndarray):
                values = batch[start:stop]
                if q < batch.shape[1] or self._whole_numbers:
                    values = values[:, self._numeric]  # a copy
                for place in self._whole_numbers:
                    nearest_whole(values[:, place], out=values[:, place])
            else:
                values = self._gathered[:size].reshape((stop - start, q), order=order)
                for number, index in enumerate(self._numeric):
                    column = batch[index][start:stop]
                    if self._whole[number]:
                        nearest_whole(np.asarray(column, np.float64), out=values[:, number])
                    else:
                        values[:, number] = column
            part = out[start:stop]
            if together and self._wide is not None and stop - start == height:
                self._wide.code(values.reshape(-1), work=self._work[:size], out=part.reshape(-1))
            else:
                grid.code(values, work=work, out=part)


def _rows_per_tile(n_columns: int) -> int:
    """Rows coded in one step: the largest power of two that stays in the cache."""
    return 1 << max(_WORK_VALUES // n_columns, 1).bit_length() - 1


def count_rows(batch: Batch) -> int:
    """Number of rows."""
    return len(batch) if isinstance(batch, np.ndarray) else len(batch[0])


def take_column(batch: Batch, attribute: int) -> Column:
    """Return the values of an attribute, without a copy."""
    return batch[:, attribute] if isinstance(batch, np.ndarray) else batch[attribute]


def slice_rows(batch: Batch, start: int, stop: int) -> Batch:
    """Return rows ``start`` to ``stop``, without a copy."""
    if isinstance(batch, np.ndarray):
        return batch[start:stop]
    return [column[start:stop] for column in batch]


def split_columns(batch: Batch) -> Sequence[Column]:
    """Return one array per attribute, without a copy."""
    return list(batch.T) if isinstance(batch, np.ndarray) else batch


def choose_order(batch: Batch) -> Order:
    """Return the memory order in which a block of these rows is coded the fastest."""
    return "C" if isinstance(batch, np.ndarray) and batch.flags.c_contiguous else "F"


def _write(kind: ColumnKind, codes: NDArray[np.int32], out: NDArray[np.float32]) -> None:
    if kind is ColumnKind.INDICATOR:
        out[:] = 0
        out[np.arange(len(codes)), codes] = 1
    elif kind is ColumnKind.MISSING:
        out[:, 0] = codes
    else:
        out[:, 0] = codes
        out *= 2
        out -= 1
