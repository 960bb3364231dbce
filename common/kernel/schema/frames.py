"""Coding of tables in memory, and decoding: for Python, by the same rules as for files."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dppca.common.kernel.documents.names import nearest_name, one_line
from dppca.common.kernel.errors import DataError, SchemaMismatchError, SettingError
from dppca.common.kernel.schema import (
    Column,
    Layout,
    Numeric,
    Schema,
    find_attribute_faults,
    label_text,
)
from dppca.common.kernel.schema import encode as encode_columns
from dppca.common.kernel.schema.arrow import decoded_array
from dppca.common.kernel.schema.coding import row_norms
from dppca.common.kernel.schema.columns import of_field, parse_column
from dppca.common.kernel.schema.decoding import decode_columns
from dppca.common.kernel.schema.layout import ColumnKind


class FrameMapping(Protocol):
    """How a table's own columns become a study's attributes; `dppca.read_mapping` gives one."""

    def columns(self, schema: Schema) -> Sequence[str]:
        """Return the columns that are read; `SettingError` for rules that do not fit the study."""

    def convert(self, schema: Schema, arrays: Mapping[str, pa.Array]) -> list[Column]:
        """Return columns as of `read_frame`, of a table's own ones, all of the same length."""


class CodingWarning(UserWarning):
    """Values of a table that cannot be read are coded by the schema's rules."""


_NO_ONE_KIND = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    OverflowError,
    TypeError,
    UnicodeError,
)
"""Errors for a column without an Arrow type: for instance, values of several kinds."""


def encode(
    frame: Any, schema: Schema, *, mapping: FrameMapping | None = None
) -> NDArray[np.float64]:
    """Code the rows of a table, as a site codes the rows of its file.

    Nothing is learnt from rows, so the result is exactly as private as they are.
    `dppca.Components.transform` gives the rows' scores in released components.

    Parameters
    ----------
    frame
        A table of pandas, polars or Arrow, or a mapping of names to sequences; columns that the
        schema does not name are ignored.
    schema
        The public schema.
    mapping
        How the table's own columns become attributes, from `dppca.read_mapping`.

    Returns
    -------
    ndarray of float64, shape (n_rows, p)
        Coded units: a numeric or binary in [-1/2, 1/2], an indicator 0 or 1.

    Raises
    ------
    DataError
        The frame is no table, a column is missing, or columns differ in length. No value is ever
        refused: `dppca.Schema`'s attributes have rules for missing and unknown ones.
    SettingError
        The mapping does not fit the schema.

    Warns
    -----
    CodingWarning
        Values cannot be read, or none of an attribute is sound: counts, by attribute.

    Examples
    --------
    >>> from dppca import Schema, encode
    >>> age = {"name": "age", "type": "numeric", "lower": 0, "upper": 100}
    >>> smokes = {"name": "smokes", "type": "binary", "values": ["no", "yes"]}
    >>> schema = Schema.from_document({"attributes": [age, smokes]})
    >>> encode({"age": [0, 75, 50], "smokes": ["no", "yes", "no"]}, schema).tolist()
    [[-0.5, -0.5], [0.25, 0.5], [0.0, -0.5]]
    """
    if not isinstance(schema, Schema):
        raise SettingError("schema is a dppca.Schema, such as the table of a dppca.Study")
    columns = read_frame(frame, schema, mapping)
    warn_of_rules(schema, columns, "the table", stacklevel=3)
    return encode_columns(schema, columns) / float(1 << schema.resolution_bits)


def read_frame(frame: Any, schema: Schema, mapping: FrameMapping | None = None) -> list[Column]:
    """Return a table's columns as `dppca.common.kernel.schema.encode` takes them, by attribute.

    The rules are those for a site's file: no value is refused, and missing or unknown ones stay
    marked (`warn_of_rules` counts them). Parameters and errors are as for `encode`.
    """
    own = [attribute.name for attribute in schema.attributes]
    names = own if mapping is None else [*mapping.columns(schema)]
    table = _choose_columns(frame, names)
    fields = frame.schema if isinstance(frame, pa.Table | pa.RecordBatch) else None
    arrays = {name: _cells(name, table[name]) for name in names}
    if fields is not None:
        arrays = {name: of_field(fields.field(name), cells) for name, cells in arrays.items()}
    lengths = {len(cells) for cells in arrays.values()}
    if len(lengths) != 1:
        raise DataError(f"the table's columns have {sorted(lengths)} rows: all need the same")
    if mapping is not None:
        return mapping.convert(schema, arrays)
    return [parse_column(each, arrays[each.name]) for each in schema.attributes]


def read_cells(frame: Any, name: str) -> pa.Array:
    """Return one column of a table in Arrow; errors are as for `encode`."""
    return _cells(name, _choose_columns(frame, [name])[name])


def warn_of_rules(schema: Schema, columns: list[Column], what: str, *, stacklevel: int) -> None:
    """Warn (`CodingWarning`) if values cannot be read, or none of an attribute is sound.

    The warning counts all values that the schema does not provide for. ``what`` names the table.
    """
    found, warned = [], False
    for attribute, column in zip(schema.attributes, columns, strict=True):
        faults = find_attribute_faults(attribute, column)
        provided = attribute.missing is not None or getattr(attribute, "unknown", None) is not None
        kinds = {
            "not read" if isinstance(attribute, Numeric) else "unknown": int(faults.invalid.sum()),
            "out of bounds": int(faults.out.sum()),
            "not whole": int(faults.not_whole.sum()),
            "missing": 0 if provided else int(faults.missing.sum()),
        }
        warned |= bool(faults.invalid.any()) or 0 < len(column) == sum(kinds.values())
        if told := ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count):
            found.append(f"{attribute.name}: {told}")
    if warned:
        warnings.warn(
            f"of {len(columns[0])} rows of {what}, values are coded by the schema's rules, not by "
            f"what they are ({'; '.join(found)}). The counts are of raw rows: do not publish them",
            CodingWarning,
            stacklevel=stacklevel,
        )


def decode(rows: ArrayLike, schema: Schema) -> pa.Table:
    """Convert coded rows to values: the inverse of `encode`, up to the grid.

    Any rows of numbers are accepted: each becomes the nearest row of valid values, on its own. The
    grid has ``2**g`` steps between bounds, so a day of three years may come back as the next one;
    and a missing value comes back as the value that coded it. Synthetic rows keep their marginals
    better by ``synthesize --form decoded`` or `dppca.PPCADPMH.decode`, which use all rows together.

    Parameters
    ----------
    rows
        Finite, shape (n_rows, p), coded units.

    Returns
    -------
    pyarrow.Table
        A column for each attribute: numbers in its own unit, int64 with ``integer: true`` (with
        ``products: bins`` the middle of a bin, null for missing), dates, labels as text, or an
        ordinal's as an ordered dictionary; ``.to_pandas()`` makes it a frame.

    Raises
    ------
    SchemaMismatchError
        Another number of columns, or a number that is not finite.

    Examples
    --------
    >>> from dppca import Schema, decode
    >>> age = {"name": "age", "type": "numeric", "lower": 0, "upper": 100}
    >>> smokes = {"name": "smokes", "type": "binary", "values": ["no", "yes"]}
    >>> schema = Schema.from_document({"attributes": [age, smokes]})
    >>> decode([[0.25, 0.5], [-0.5, -0.1]], schema).to_pydict()
    {'age': [75.0, 0.0], 'smokes': ['yes', 'no']}
    """
    held: Any = () if hasattr(rows, "__array__") or np.isscalar(rows) else rows
    if np.ma.is_masked(rows) or any(map(np.ma.is_masked, held)):
        raise SchemaMismatchError("decode takes no masked values")
    try:
        coded = np.asarray(rows, np.float64)
    except (TypeError, ValueError):  # a null of pandas, text, rows of other lengths
        raise SchemaMismatchError("decode takes finite numbers only") from None
    layout = schema.layout
    if coded.ndim != 2 or coded.shape[1] != layout.n_columns:
        raise SchemaMismatchError(
            f"decode takes rows of shape (n_rows, {layout.n_columns}), not {coded.shape}"
        )
    if not np.isfinite(coded).all():
        raise SchemaMismatchError("decode takes finite numbers only")
    columns = decode_columns(schema, nearest_columns(coded, layout))
    for index, (cells, kind) in enumerate(zip(schema.cells, layout.attribute_kinds, strict=True)):
        if cells is not None and kind is ColumnKind.INDICATOR:
            columns[index] = cells.values(np.asarray(columns[index], np.int32))
    return to_table(columns, schema)


def nearest_columns(coded: NDArray[np.float64], layout: Layout) -> list[Column]:
    """Return the coordinates and codes for `decode_columns` that are nearest to each row.

    ``coded`` has shape (n_rows, p), finite, in coded units.
    """
    if layout.unit_ball:
        with np.errstate(over="ignore"):
            norms = row_norms(coded)
        if (huge := np.isinf(norms)).any():  # squares above the largest number
            coded = coded.copy()
            coded[huge] /= np.abs(coded[huge]).max(axis=1, keepdims=True)
            norms[huge] = row_norms(coded[huge])
        coded = coded / np.maximum(norms[:, None], 1.0)
    columns: list[Column] = []
    for start, stop in layout.groups:
        kind = layout.kinds[start]
        if kind is ColumnKind.NUMERIC:
            columns.append(coded[:, start])
        elif kind is ColumnKind.MISSING:
            columns.append(np.where(coded[:, start] > 0.25, np.nan, coded[:, start + 1]))
        elif kind is ColumnKind.BINARY:
            columns.append((coded[:, start] > 0).astype(np.int32))
        else:
            columns.append(coded[:, start:stop].argmax(axis=1).astype(np.int32))
    return columns


def to_table(columns: Sequence[Column], schema: Schema) -> pa.Table:
    """Convert values, float64 or codes of labels, to a table as of `decode`."""
    return pa.table(
        {
            attribute.name: _plain(decoded_array(attribute, column))
            for attribute, column in zip(schema.attributes, columns, strict=True)
        }
    )


def find_library(frame: Any) -> str:
    """Return the library of a table, for `table_for`: ``pandas``, ``polars`` and so on."""
    return "" if isinstance(frame, Mapping) else type(frame).__module__.partition(".")[0]


def table_for(library: str, table: pa.Table) -> Any:
    """Convert an Arrow table to a frame of the library; a mapping for no library."""
    if library == "pandas":
        return table.to_pandas()
    if library == "polars":
        return import_module("polars").from_arrow(table)
    return table if library else table.to_pydict()


def _plain(values: Any) -> Any:
    """Return labels as text, except for those that have an order."""
    kind = values.type
    is_text = pa.types.is_dictionary(kind) and not kind.ordered
    return values.dictionary_decode() if is_text else values


def column_names(frame: Any) -> list[Any] | None:
    """Return the names of a table's columns; None if the object has none."""
    if isinstance(frame, Mapping):
        return [*frame]
    names = getattr(frame, "column_names", None)  # Arrow's; its ``columns`` are arrays
    if names is None and hasattr(frame, "__len__"):  # lazy frames have no length
        names = getattr(frame, "columns", None)
    return None if names is None else [*names]


def _choose_columns(frame: Any, wanted: list[str]) -> Any:
    """Return the wanted columns of a table, in Arrow if its library supports that."""
    names = column_names(frame)
    if names is None and hasattr(frame, "__arrow_c_stream__"):
        with suppress(*_NO_ONE_KIND):  # a single column may raise these
            frame = pa.table(frame)
            names = frame.column_names
    if names is None:
        raise DataError(
            f"a {type(frame).__name__} is not a table: give one of pandas, polars or Arrow, with "
            "its rows in memory, or a mapping of names to sequences"
        )
    for name in wanted:
        if names.count(name) > 1:
            raise DataError(f"the table has {names.count(name)} columns called {name}")
    if missing := [name for name in wanted if name not in names]:
        texts = [each for each in names if isinstance(each, str)]
        near = [(name, nearest_name(name, texts)) for name in missing]
        said = ", ".join(
            name if like is None else f"{name}, but one called {one_line(like)!r}"
            for name, like in near
        )
        agree = ": names must agree" if any(like is not None for _, like in near) else ""
        raise DataError(f"the table has no column {said}{agree}")
    if isinstance(frame, Mapping):
        return frame
    chosen = frame.select(wanted) if hasattr(frame, "select") else frame[wanted]
    try:
        table = pa.table(chosen)
    except _NO_ONE_KIND:
        return chosen
    return {
        name: chosen[name] if _is_guessed(chosen[name], table[name].type) else table[name]
        for name in wanted
    }


def _is_guessed(values: Any, kind: pa.DataType) -> bool:
    """Return True if Arrow gives values one type by which some become others.

    Of values that have no type together it takes the zone of one time for all, and one precision
    for all numbers.
    """
    dtype = getattr(values, "dtype", None)
    if isinstance(values, pa.ChunkedArray) or not (dtype is None or dtype == np.dtype(object)):
        return False
    if pa.types.is_floating(kind):
        return any(isinstance(value, np.float32 | np.float16) for value in values)
    return bool(pa.types.is_temporal(kind))


def _cells(name: str, values: Any) -> pa.Array:
    """Return one column of any library as an Arrow array."""
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    is_one = isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__")
    if is_one or getattr(values, "ndim", 1) != 1:
        raise DataError(f"column {name} of the table is not a sequence of single values")
    try:
        cells = pa.array(values, from_pandas=True)
        if not _is_guessed(values, cells.type):
            return cells
    except _NO_ONE_KIND:
        pass
    # Each value as its text, which is read like a file's, with any bytes in it.
    texts = pa.array([_text(value) for value in values], pa.large_binary())
    return texts.view(pa.large_string())


def _text(value: object) -> bytes | None:
    try:
        absent = not pa.scalar(value, from_pandas=True).is_valid
    except _NO_ONE_KIND:
        absent = False
    return None if absent else label_text(value).encode("utf-8", "surrogatepass")
