"""Coding of rows as integers.

Coding is total: every row, even a malformed one, has one code by public rules, because a release
that failed or succeeded depending on a row would break the guarantee. `find_attribute_faults`
reports the values that the rules replaced, to the owner only.

* numeric: clipped to its bounds, scaled and centred to ``[-1/2, 1/2]`` (with ``score: log`` on a
  logarithmic scale), rounded to the grid of ``2**-g``: an integer in ``[-2**(g-1), 2**(g-1)]``;
  missing and non-finite: the middle. With ``integer: true`` it is first the nearest whole number.
  ``missing: indicator`` has a column more, before it: ``2**(g-1)`` for a value that is missing or
  not finite, 0 for any other. One of the two is always 0.
* binary: ``-2**(g-1)`` or ``2**(g-1)``.
* categorical: one indicator is ``2**g``, the others 0; so is a numeric with ``products: bins``, by
  the cell that its value is in (`Cells.index`).
* a missing or unknown label: ``unknown``, a categorical's label of its own; else ``missing``;
  else the first.
* unit-ball rows: ``(x - centre)/scale``, the row multiplied by ``min(1, 1/norm)`` and rounded
  *toward zero*; then one is taken from the largest ``|z|`` until ``sum(z**2) <= 4**g`` holds in
  integers.

Floating point decides only the integer of a value. The range is enforced on the integers
themselves, for any floating-point error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.schema.attributes import Attribute, Binary, Categorical, Numeric
from dppca.common.kernel.schema.cells import encode_values, nearest_whole
from dppca.common.kernel.schema.document import Schema
from dppca.common.kernel.schema.layout import ColumnKind
from dppca.common.kernel.schema.partitions import RowCodes

UNKNOWN = -1
"""Code of a label that the attribute does not list."""
MISSING = -2
"""Code of an absent label."""

Column = NDArray[np.float64] | NDArray[np.int32]
"""One attribute of a batch: float64 values (NaN: missing) or int32 codes of labels."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Faulty values in one attribute of a batch; masks of shape (n_rows,). Site-only.

    ``invalid`` marks values not of the attribute's type (infinite, unknown label), ``out`` values
    outside its bounds, ``not_whole`` other values with a fraction where ``integer: true`` has none.
    """

    missing: NDArray[np.bool_]
    invalid: NDArray[np.bool_]
    out: NDArray[np.bool_]
    not_whole: NDArray[np.bool_]


def encode(schema: Schema, columns: Sequence[Column]) -> NDArray[np.int32]:
    """Code a batch of rows.

    ``columns`` has one array of shape (n_rows,) per attribute, in the schema's order: float64 for
    numerics, int32 codes for binaries and categoricals (`UNKNOWN`, `MISSING`, or an index of a
    label). Return a new int32 array, shape (n_rows, p), C-contiguous, in units of ``2**-g``.
    """
    if schema.row_norm is not None:
        return _encode_ball(schema, columns)
    layout = schema.layout
    n_rows = len(columns[0])
    unit = 1 << schema.resolution_bits
    coded = np.zeros((n_rows, layout.n_columns), dtype=np.int32)
    for index, ((start, stop), column) in enumerate(zip(layout.groups, columns, strict=True)):
        kind, attribute = layout.attribute_kinds[index], schema.attributes[index]
        if kind is ColumnKind.INDICATOR:
            coded[np.arange(n_rows), start + label_codes(schema, index, column)] = unit
        elif isinstance(attribute, Numeric):
            values = np.asarray(column, np.float64)
            coded[:, stop - 1] = encode_values(attribute, values, unit)
            if stop - start > 1:
                coded[:, start] = ~np.isfinite(values) * (unit // 2)
        else:
            coded[:, start] = label_codes(schema, index, column) * unit - unit // 2
    return coded


def label_codes(schema: Schema, index: int, column: Column) -> NDArray[np.int32]:
    """Return the codes of attribute ``index``, shape (n_rows,), for any column values.

    They are codes of labels, or cells of a numeric with ``products: bins``.
    """
    attribute, cells = schema.attributes[index], schema.cells[index]
    if isinstance(attribute, Numeric):
        assert cells is not None  # noqa: S101 - the schema's validator requires it
        return cells.index(np.asarray(column, np.float64))
    labels, n_labels = np.asarray(column), len(attribute.labels)
    # Negative codes are the largest unsigned numbers, so one comparison finds both kinds.
    if labels.dtype == np.int32 and labels.view(np.uint32).max(initial=0) < n_labels:
        return labels.view(np.int32)
    codes = labels.astype(np.int64)
    valid = (codes >= 0) & (codes < n_labels)
    return np.where(valid, codes, attribute.missing_code).astype(np.int32)


def find_cells(schema: Schema, columns: Sequence[Column]) -> list[NDArray[np.int32]]:
    """Return the cell of each row, shape (n_rows,), in each released histogram, then each table."""
    codes = row_codes(schema, columns)
    histograms = [codes.own(index) for index, _ in schema.histograms]
    return [*histograms, *(partition.find(codes) for partition in schema.partitions)]


def row_codes(schema: Schema, columns: Sequence[Column]) -> RowCodes:
    """Return the codes by which tables and histograms know the rows, each made when asked for."""

    @cache
    def own(index: int) -> NDArray[np.int32]:
        cells = schema.cells[index]
        if cells is None:
            return label_codes(schema, index, columns[index])
        return cells.index(np.asarray(columns[index], np.float64))

    @cache
    def coded(index: int) -> NDArray[np.int32]:
        attribute, cells = schema.attributes[index], schema.cells[index]
        if not isinstance(attribute, Numeric):
            return own(index)
        values, unit = np.asarray(columns[index], np.float64), 1 << schema.resolution_bits
        codes = encode_values(attribute, values, unit)
        if cells is not None and cells.missing:
            codes[~np.isfinite(values)] = unit // 2 + 1
        return codes

    return RowCodes(own, coded)


def _encode_ball(schema: Schema, columns: Sequence[Column]) -> NDArray[np.int32]:
    centre = np.array([a.centre for a in schema.attributes if isinstance(a, Numeric)], np.float64)
    scale = np.array([a.scale for a in schema.attributes if isinstance(a, Numeric)], np.float64)
    values = np.column_stack([np.asarray(column, np.float64) for column in columns])
    limit = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        rows = (np.where(np.isfinite(values), values, centre) - centre) / scale
    return encode_unit_ball(np.clip(rows, -limit, limit), resolution_bits=schema.resolution_bits)


def encode_unit_ball(rows: NDArray[np.float64], *, resolution_bits: int) -> NDArray[np.int32]:
    """Scale rows into the unit ball and round them to the grid, exactly inside the ball.

    ``rows``, shape (n_rows, p), are finite, centred and scaled by public numbers, and are not
    changed. Return int32 in units of ``2**-g``, shape (n_rows, p); the squares of a row sum to at
    most ``4**g``.
    """
    unit = 1 << resolution_bits
    # Dividing by the largest entry first keeps the squares, and the norm, from overflowing.
    largest = np.abs(rows).max(axis=1, initial=1.0)[:, None]
    rows = rows / largest
    norm = row_norms(rows)[:, None]
    scaled = rows / np.maximum(norm, 1 / largest) * unit
    grid = np.clip(np.trunc(np.nan_to_num(scaled)), -unit, unit)
    coded: NDArray[np.int32] = grid.astype(np.int32)
    excess = np.square(coded.astype(np.int64)).sum(axis=1) > unit * unit
    for row in np.flatnonzero(excess):
        while int(np.square(coded[row].astype(np.int64)).sum()) > unit * unit:
            worst = int(np.abs(coded[row]).argmax())
            coded[row, worst] -= np.sign(coded[row, worst])
    return coded


def known_labels(attribute: Binary | Categorical, column: Column) -> NDArray[np.int64]:
    """Return codes of a column's labels, shape (n_rows,); -1 for a value without a label.

    A missing or unknown value has a label only if the attribute has an own one for it.
    """
    codes = np.asarray(column, np.int64)
    own = isinstance(attribute, Categorical) and attribute.unknown is not None
    known = (codes >= 0) & (codes < len(attribute.labels))
    return np.where(known, codes, attribute.missing_code if own else -1)


def row_norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return L2 norms of rows (n, d), shape (n,), each a function of its row alone.

    Squares are added from left to right, one operation at a time: the order of a sum along an axis
    would depend on the rows' layout in memory.
    """
    squares = np.zeros(len(rows))
    for column in range(rows.shape[1]):
        squares += np.square(rows[:, column])
    return np.sqrt(squares)


def find_attribute_faults(attribute: Attribute, column: Column) -> Faults:
    """Return the values of one attribute that the rules of coding replace.

    Counts and positions are `site-only`: choosing other bounds because of them is a choice made
    from data, outside the guarantee.
    """
    none = np.zeros(len(column), dtype=bool)
    if not isinstance(attribute, Numeric):
        missing = column == MISSING
        invalid = ((column < 0) | (column >= len(attribute.labels))) & ~missing
        return Faults(missing=missing, invalid=invalid, out=none, not_whole=none)
    invalid = np.isinf(column)
    out = not_whole = none
    if attribute.lower is not None and attribute.upper is not None:
        whole = nearest_whole(np.asarray(column)) if attribute.integer else column
        low, high = (np.minimum(column, whole), np.maximum(column, whole))
        out = ((high < attribute.lower) | (low > attribute.upper)) & ~invalid
        if attribute.integer:
            not_whole = np.isfinite(column) & (whole != column) & ~out
    return Faults(missing=np.isnan(column), invalid=invalid, out=out, not_whole=not_whole)
