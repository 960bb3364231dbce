"""Conversion of a file's cells to the values that coding takes.

Conversion is total and works on one cell at a time: the result for a cell depends neither on the
other cells, nor on the batches of the file, nor on its format, CSV, Parquet or Arrow.

Numerics become float64. Null, empty text, NaN and words for them such as ``NA`` (`MISSING_WORDS`)
are missing: ``NaN``. Other values that are no number become `NOT_A_NUMBER` and non-finite numbers
`INFINITE`; both are infinities, which coding treats as the middle, like NaN, and which
`dppca.owner.records.check` distinguishes. Text is a number if it is one in ASCII decimals, with or
without exponent, sign and outer blanks. A float32 or float16 is the shortest decimal that is read
as it, which writers of CSV write: 5.7, not 5.699999809. A truth value or a date in a numeric column
is no number, because it would be none in a CSV file.

Dates become days since 1970, from columns of dates and of times and from text that begins with a
date such as ``2020-01-31``; a time of day is ignored. A time with a zone is the day of its own
zone, as the text ``2020-02-01 00:00:00+01:00`` is; if this machine does not know the zone, it is
`NOT_A_NUMBER`. Days are of the years 1 to 9999, the range of such text. The labels of an ordinal
become their places. Anything else is `NOT_A_NUMBER`.

Binaries and categoricals become codes by the canonical text of the cell (`label_text`): ``1``,
``1.0`` and ``"1"`` are one label, outer blanks are ignored, null, empty text and NaN are `MISSING`.
Text that is no label is read again as the number or truth value that it spells: a label that is a
number (`is_number_label`) is that number in every spelling, such as ``.5000`` and ``1E+05``, and
``True`` and ``t`` are true. A word for a missing value that is no label is `MISSING`. The rest is
`UNKNOWN`.

A cell that is one of the attribute's codes for missing is missing. A number or day is a code that
it equals; any other cell is the code that it would be, were the codes labels.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dppca.common.kernel.schema import MISSING, UNKNOWN, Attribute, Column, Numeric
from dppca.common.kernel.schema import label_text as canonical_text
from dppca.common.kernel.schema.attributes import Date, Ordinal, count_days, list_labels
from dppca.common.kernel.schema.decimals import (
    find_nulls,
    is_short,
    numbers_of_decimals,
    shortest_decimals,
    texts_of_decimals,
)
from dppca.common.kernel.schema.missing_codes import codes_of, number_codes
from dppca.common.kernel.schema.texts import (
    INFINITE,
    NOT_A_NUMBER,
    day_of_text,
    is_missing,
    label_finder,
    number_of_text,
)
from dppca.common.kernel.schema.zones import on_clock

_DAY_S: Final = 86_400  # seconds of a day
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_FIRST_DAY, _LAST_DAY = count_days(date.min), count_days(date.max)
_SHORT_LIST: Final = 1 << 12  # texts of a dictionary whose values are kept
_PLAIN = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"


class KnownLists:
    """Values of the latest dictionary of texts of each of a schema's attributes.

    Batches of a file often share one. Only short ones are kept. Several threads may ask at once.
    """

    def __init__(self) -> None:
        self._latest: dict[str, tuple[pa.Array, Column]] = {}

    def values(self, attribute: Attribute, listed: pa.Array) -> Column:
        """Return the value of each text, shape (n_texts + 1,); the last is that of null."""
        latest = self._latest.get(attribute.name)
        if latest is not None and listed.equals(latest[0]):
            return latest[1]
        values = _list_values(attribute, listed)
        if len(listed) <= _SHORT_LIST and is_text(listed.type):
            self._latest[attribute.name] = listed, values
        return values


def parse_column(
    attribute: Attribute,
    cells: pa.Array,
    *,
    distinguish_missing: bool = True,
    known: KnownLists | None = None,
) -> Column:
    """Convert the cells of one attribute.

    Parameters
    ----------
    cells
        Arrow array of any type, shape (n_rows,).
    distinguish_missing
        Distinguish non-finite numbers from non-numbers; coding does not need it, and it reads every
        number once more.
    known
        Dictionaries of earlier batches, of this attribute among others; the values are the same.

    Returns
    -------
    ndarray, shape (n_rows,)
        float64 for a numeric, date or ordinal, int32 codes for a binary or categorical; it may
        share the memory of ``cells`` and is then read-only.
    """
    kind = cells.type
    if isinstance(kind, pa.BaseExtensionType):
        plain = of_extension(kind.extension_name, cells.storage)
        return parse_column(attribute, plain, distinguish_missing=distinguish_missing, known=known)
    if pa.types.is_run_end_encoded(kind):
        return _run_ends(attribute, cells)
    if (listed := parse_listed(attribute, cells, known=known)) is not None:
        values, places = listed
        return values.take(places)
    if is_text(kind):
        # Without a check for UTF-8: a cell must not be able to raise.
        cells = cells.cast(pa.large_binary()).view(pa.large_string())
    labels, coded = list_labels(attribute), bool(codes_of(attribute))
    if labels is None:
        assert isinstance(attribute, Numeric)  # noqa: S101 - all others have labels
        values = (
            _days(cells)
            if isinstance(attribute, Date)
            else _numbers(cells, distinguish_missing=distinguish_missing)
        )
        return _without_codes(attribute, cells, values) if coded else values
    codes = _codes((*labels, *codes_of(attribute)), cells)
    if coded:
        codes[codes >= len(labels)] = MISSING
    if not isinstance(attribute, Ordinal):
        return codes
    return np.where(codes >= 0, codes, np.where(codes == MISSING, np.nan, NOT_A_NUMBER))


def parse_listed(
    attribute: Attribute, cells: pa.Array, *, known: KnownLists | None = None
) -> tuple[Column, NDArray[Any]] | None:
    """Return the values of a dictionary's texts, and the place of each cell's; None for others.

    ``values.take(places)`` is what `parse_column` gives.
    """
    if not pa.types.is_dictionary(cells.type):
        return None
    return (known or KnownLists()).values(attribute, cells.dictionary), _places(cells)


def cell_texts(cells: pa.Array) -> list[str]:
    """Return cells of any type as text for people; empty for null."""
    if isinstance(cells.type, pa.BaseExtensionType):
        return cell_texts(cells.storage)
    if is_text(cells.type):
        cells = cells.cast(pa.large_binary())
    return [
        value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        for value in ("" if value is None else value for value in cells.to_pylist())
    ]


def plain_cells(cells: pa.Array) -> pa.Array:
    """Return texts as large binary, and times, without dictionary, runs or extension.

    Cells of other types become null: nothing is asked about them but `parse_column`.
    """
    kind = cells.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain_cells(of_extension(kind.extension_name, cells.storage))
    if pa.types.is_run_end_encoded(kind):
        values, runs = _runs(cells)
        return plain_cells(values).take(pa.array(runs))
    if pa.types.is_dictionary(kind):
        return plain_cells(cells.dictionary).take(cells.indices)
    if is_text(kind):
        return cells.cast(pa.large_binary())
    return cells if pa.types.is_timestamp(kind) else pa.nulls(len(cells))


def of_extension(name: str, storage: pa.Array) -> pa.Array:
    """Return the cells of an extension type that are read; its texts are, and truth values.

    The storage of another one need not be its value: a period of pandas is stored as the number of
    periods since 1970. Its cells become lists, which are no number, date or label.
    """
    if name == "arrow.bool8":
        return storage.cast(pa.bool_())
    if is_text(storage.type):
        return storage
    offsets = pa.array(np.zeros(len(storage) + 1, np.int32))
    return pa.ListArray.from_arrays(offsets, pa.nulls(0), mask=storage.is_null())


def of_field(field: pa.Field, cells: pa.Array) -> pa.Array:
    """Return the cells of a file's field, whose extension type this process may not know."""
    name = (field.metadata or {}).get(b"ARROW:extension:name")
    if name is None or isinstance(cells.type, pa.BaseExtensionType):
        return cells
    return of_extension(name.decode("utf-8", "replace"), cells)


def absent_column(attribute: Attribute, n_rows: int) -> Column:
    """Return the values of an attribute that the file does not have."""
    if isinstance(attribute, Numeric):
        return np.full(n_rows, np.nan)
    return np.full(n_rows, MISSING, dtype=np.int32)


def _list_values(attribute: Attribute, listed: pa.Array) -> Column:
    """Convert a dictionary's values; the last is that of null."""
    return np.concatenate([parse_column(attribute, listed), absent_column(attribute, 1)])


def _places(cells: pa.DictionaryArray) -> NDArray[np.intp]:
    """Return places in the dictionary; its length stands for null."""
    places = cells.indices
    if places.null_count:
        places = places.cast(pa.int64()).fill_null(len(cells.dictionary))
    codes: NDArray[np.intp] = places.to_numpy().astype(np.intp, copy=False)
    return codes


def _run_ends(attribute: Attribute, cells: pa.RunEndEncodedArray) -> Column:
    """Convert each run's value once and repeat it."""
    values, runs = _runs(cells)
    taken: Column = parse_column(attribute, values)[runs]
    return taken


def _runs(cells: pa.RunEndEncodedArray) -> tuple[pa.Array, NDArray[np.intp]]:
    """Return the values of the runs, and for each row the place of its run in them."""
    first, n_runs = cells.find_physical_offset(), cells.find_physical_length()
    rows = np.arange(cells.offset, cells.offset + len(cells))
    runs = np.searchsorted(cells.run_ends.to_numpy()[first : first + n_runs], rows, side="right")
    return cells.values.slice(first, n_runs), runs


def _numbers(cells: pa.Array, *, distinguish_missing: bool) -> NDArray[np.float64]:
    kind = cells.type
    if is_text(kind):
        return _numbers_of_text(cells)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values: NDArray[np.float64] = (
            numbers_of_decimals(cells)
            if pa.types.is_decimal(kind)
            else shortest_decimals(cells)
            if is_short(kind)
            else _to_float64(cells)
        )
        if not distinguish_missing:
            return values
        # Only the lower infinity is still wrong, and a minimum is the cheapest test.
        with np.errstate(invalid="ignore"):
            lowest = values.min(initial=INFINITE)
        if lowest > NOT_A_NUMBER:
            return values
        return np.where(np.isneginf(values), INFINITE, values)
    return np.where(find_nulls(cells), np.nan, NOT_A_NUMBER)


def _to_float64(cells: pa.Array) -> NDArray[np.float64]:
    """Return whole numbers, each the nearest float64, or float64 itself; NaN for null."""
    wide = cells if pa.types.is_float64(cells.type) else cells.cast(pa.float64(), safe=False)
    values: NDArray[np.float64] = wide.to_numpy(zero_copy_only=False)
    return values


def _numbers_of_text(text: pa.Array) -> NDArray[np.float64]:
    """Convert text to float64 at once if possible, then each distinct remaining text once."""
    values = None
    with suppress(pa.ArrowInvalid):  # its message quotes a cell, so it is dropped at once
        values = _to_numpy(text.cast(pa.float64()))
    if values is None:
        trimmed = pc.ascii_trim_whitespace(text)
        plain = pc.fill_null(pc.match_substring_regex(trimmed, _PLAIN), False)
        numbers = pc.if_else(plain, trimmed, pa.scalar(None, trimmed.type))
        values = _to_numpy(numbers.cast(pa.float64()))
    open_ = np.flatnonzero(~np.isfinite(values) & ~find_nulls(text))
    if len(open_):
        values[open_] = _by_value(text.take(pa.array(open_)), number_of_text, np.float64)
    return values


def _days(cells: pa.Array) -> NDArray[np.float64]:
    kind = cells.type
    if is_text(kind):
        days: NDArray[np.float64] = _by_value(cells, day_of_text, np.float64)
        return days
    if pa.types.is_date32(kind):
        days = cells.fill_null(0).view(pa.int32()).to_numpy().astype(np.float64)
    elif pa.types.is_date64(kind) or pa.types.is_timestamp(kind):
        seconds = local_seconds(cells)
        unknown = np.full(len(cells), NOT_A_NUMBER)
        days = unknown if seconds is None else (seconds // _DAY_S).astype(np.float64)
    else:
        days = np.full(len(cells), NOT_A_NUMBER)
    days = np.where((days >= _FIRST_DAY) & (days <= _LAST_DAY), days, NOT_A_NUMBER)
    return np.where(find_nulls(cells), np.nan, days)


def local_seconds(cells: pa.Array) -> NDArray[np.int64] | None:
    """Return the seconds since 1970 of times, on the clock of their own zone; any for null.

    None if this machine does not know the zone. Years outside of 1 to 9999 are no days of a text,
    and not looked up; the arithmetic of zones would overflow.
    """
    kind = cells.type
    unit, zone = ("ms", None) if pa.types.is_date64(kind) else (kind.unit, kind.tz)
    ticks = cells.view(pa.int64()).fill_null(0).to_numpy()
    seconds: NDArray[np.int64] = ticks // _PER_SECOND[unit]
    if zone and zone != "UTC":
        known = (seconds >= (_FIRST_DAY - 1) * _DAY_S) & (seconds < (_LAST_DAY + 2) * _DAY_S)
        local = on_clock(zone, np.where(known, seconds, 0))
        return None if local is None else np.where(known, local, seconds)
    return seconds


def _codes(labels: tuple[str, ...], cells: pa.Array) -> NDArray[np.int32]:
    find = label_finder(labels)

    def code(value: object) -> int:
        text = _canonical_text(value)
        found = find(text)
        if found is None:
            return MISSING if is_missing(text) else UNKNOWN
        return found

    if pa.types.is_date(cells.type):
        cells = cells.cast(pa.large_string())
    elif pa.types.is_decimal(cells.type):
        cells = texts_of_decimals(cells)
    if not is_text(cells.type):
        if _has_canonical_text(cells.type):
            return _by_value(cells, code, np.int32)
        return np.where(find_nulls(cells), MISSING, UNKNOWN).astype(np.int32)
    indices = pc.index_in(cells, value_set=_listed(labels).cast(cells.type))
    codes = np.array(indices.fill_null(UNKNOWN).to_numpy(zero_copy_only=False), np.int32)
    # Only cells whose text is no label need the slower conversion.
    open_ = np.flatnonzero(codes == UNKNOWN)
    if len(open_):
        codes[open_] = _by_value(cells.take(pa.array(open_)), code, np.int32)
    return codes


@lru_cache(maxsize=256)
def _listed(labels: tuple[str, ...]) -> pa.Array:
    return pa.array(labels, pa.large_string())


def _without_codes(
    attribute: Numeric, cells: pa.Array, values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the values with NaN for each cell that is a code of the attribute for missing."""
    missing = np.isin(values, number_codes(attribute))
    open_ = np.flatnonzero(np.isinf(values))
    if len(open_):  # a code need not be a number, nor a date
        missing[open_] = _codes(codes_of(attribute), cells.take(pa.array(open_))) >= 0
    return np.where(missing, np.nan, values) if missing.any() else values


def _canonical_text(value: object) -> str:
    """Return the canonical text of a cell; empty if it is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return canonical_text(value)


def _by_value(
    cells: pa.Array, convert: Callable[[object], float], dtype: type[Any]
) -> NDArray[Any]:
    """Convert each distinct value once."""
    kind = cells.type
    if is_text(kind):
        cells = cells.view(pa.large_binary())
    elif is_short(kind):
        cells = pa.array(shortest_decimals(cells), from_pandas=True)
    encoded = cells.dictionary_encode(null_encoding="encode")
    values = [
        v.decode("utf-8", "replace") if isinstance(v, bytes) else v
        for v in encoded.dictionary.to_pylist()
    ]
    table = np.array([convert(value) for value in values], dtype=dtype)
    taken: NDArray[Any] = table[encoded.indices.to_numpy(zero_copy_only=False)]
    return taken


def is_text(kind: pa.DataType) -> bool:
    """Return True for the types of text, and of bytes, which are taken for text."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _has_canonical_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _to_numpy(numbers: pa.Array) -> NDArray[np.float64]:
    """Return float64 with NaN for null."""
    return np.array(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
