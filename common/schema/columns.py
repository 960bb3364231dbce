"""Conversion of a file's cells to the values that coding takes.

Conversion is total and works on one cell at a time: the result for a cell depends neither on the
other cells, nor on the batches of the file, nor on its format, CSV, Parquet or Arrow.

Numerics become float64. Null, empty text and NaN are missing: ``NaN``. Other values that are no
number become `NOT_A_NUMBER` and non-finite numbers `INFINITE`; both are infinities, which coding
treats as the middle, like NaN, and which `dppca.owner.records.check` distinguishes. Text is a
number if it is one in ASCII decimals, with or without exponent, sign and outer blanks. A truth
value or a date in a numeric column is no number, because it would be none in a CSV file.

Dates become days since 1970, from columns of dates and of times (in UTC if they have a zone) and
from text that begins with a date such as ``2020-01-31``; a time of day behind it is ignored. They
are of the years 1 to 9999, the range of such text. The labels of an ordinal become their places.
Anything else is `NOT_A_NUMBER`.

Binaries and categoricals become codes by the canonical text of the cell (`label_text`): ``1``,
``1.0`` and ``"1"`` are one label, outer blanks are ignored, null, empty text and NaN are `MISSING`.
Text that is no label is read again as the number or truth value that it spells, since CSV writers
turn ``1`` into ``1.0``, ``100000`` into ``1e+05``, ``true`` into ``True`` and a missing value into
``nan``. The rest is `UNKNOWN`.
"""

import math
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dppca.common.schema import MISSING, UNKNOWN, Attribute, Column, Numeric
from dppca.common.schema import label_text as canonical_text
from dppca.common.schema.attributes import MAX_LABEL_LENGTH, Date, Ordinal, count_days, list_labels

INFINITE: Final = math.inf
"""Value in a numeric column for a number that is not finite, of either sign."""
NOT_A_NUMBER: Final = -math.inf
"""Value in a numeric column for text, a truth value, a date, or any other non-number."""

_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_FIRST_DAY, _LAST_DAY = count_days(date.min), count_days(date.max)
_PLAIN = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_DECIMAL_DIGITS = 78  # of the widest decimal of Arrow
_NARROWEST = 4  # bytes of the narrowest
_EXACT, _POWERS = 1 << 53, 22  # whole numbers, and powers of ten, that are exact in float64


def parse_column(
    attribute: Attribute, cells: pa.Array, *, distinguish_missing: bool = True
) -> Column:
    """Convert the cells of one attribute.

    Parameters
    ----------
    cells
        Arrow array of any type, shape (n_rows,).
    distinguish_missing
        Distinguish non-finite numbers from non-numbers; coding does not need it, and it reads every
        number once more.

    Returns
    -------
    ndarray, shape (n_rows,)
        float64 for a numeric, date or ordinal, int32 codes for a binary or categorical; it may
        share the memory of ``cells`` and is then read-only.
    """
    kind = cells.type
    if isinstance(kind, pa.BaseExtensionType):
        return parse_column(attribute, cells.storage, distinguish_missing=distinguish_missing)
    if pa.types.is_run_end_encoded(kind):
        return _run_ends(attribute, cells)
    if pa.types.is_dictionary(kind):
        values = parse_column(attribute, cells.dictionary)
        taken: Column = np.concatenate([values, absent_column(attribute, 1)])[_places(cells)]
        return taken
    if _is_text(kind):
        # Without a check for UTF-8: a cell must not be able to raise.
        cells = cells.cast(pa.large_binary()).view(pa.large_string())
    if isinstance(attribute, Date):
        return _days(cells)
    labels = list_labels(attribute)
    if labels is None:
        return _numbers(cells, distinguish_missing=distinguish_missing)
    if pa.types.is_date(kind):
        cells = cells.cast(pa.large_string())
    elif pa.types.is_decimal(kind):
        cells = _texts_of_decimals(cells)
    codes = _codes(labels, cells)
    if not isinstance(attribute, Ordinal):
        return codes
    return np.where(codes >= 0, codes, np.where(codes == MISSING, np.nan, NOT_A_NUMBER))


def cell_texts(cells: pa.Array) -> list[str]:
    """Return cells of any type as text for people; empty for null."""
    if isinstance(cells.type, pa.BaseExtensionType):
        return cell_texts(cells.storage)
    if _is_text(cells.type):
        cells = cells.cast(pa.large_binary())
    return [
        value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        for value in ("" if value is None else value for value in cells.to_pylist())
    ]


def absent_column(attribute: Attribute, n_rows: int) -> Column:
    """Return the values of an attribute that the file does not have."""
    if isinstance(attribute, Numeric):
        return np.full(n_rows, np.nan)
    return np.full(n_rows, MISSING, dtype=np.int32)


def _places(cells: pa.DictionaryArray) -> NDArray[np.integer[Any]]:
    """Return places in the dictionary; its length stands for null."""
    places = cells.indices
    if places.null_count:
        places = places.cast(pa.int64()).fill_null(len(cells.dictionary))
    codes: NDArray[np.integer[Any]] = places.to_numpy()
    return codes


def _run_ends(attribute: Attribute, cells: pa.RunEndEncodedArray) -> Column:
    """Convert each run's value once and repeat it."""
    first, n_runs = cells.find_physical_offset(), cells.find_physical_length()
    rows = np.arange(cells.offset, cells.offset + len(cells))
    runs = np.searchsorted(cells.run_ends.to_numpy()[first : first + n_runs], rows, side="right")
    taken: Column = parse_column(attribute, cells.values.slice(first, n_runs))[runs]
    return taken


def _numbers(cells: pa.Array, *, distinguish_missing: bool) -> NDArray[np.float64]:
    kind = cells.type
    if _is_text(kind):
        return _numbers_of_text(cells)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values: NDArray[np.float64] = (
            _numbers_of_decimals(cells)
            if pa.types.is_decimal(kind)
            else cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        )
        if not distinguish_missing:
            return values
        # Only the lower infinity is still wrong, and a minimum is the cheapest test.
        with np.errstate(invalid="ignore"):
            lowest = values.min(initial=INFINITE)
        if lowest > NOT_A_NUMBER:
            return values
        return np.where(np.isneginf(values), INFINITE, values)
    return np.where(_nulls(cells), np.nan, NOT_A_NUMBER)


def _numbers_of_decimals(cells: pa.Array) -> NDArray[np.float64]:
    """Return the float64 nearest to each decimal, as for the same digits in text.

    Arrow's own cast multiplies by a rounded power of ten and is often one unit off. A quotient of
    two numbers that are exact in float64 is rounded once (IEEE 754): digits up to 2^53, and powers
    of ten up to 10^22.
    """
    width, scale, n_rows = cells.type.byte_width, cells.type.scale, len(cells)
    nulls, stored = _nulls(cells), cells.buffers()[1]
    if nulls.all():
        return np.full(n_rows, np.nan)
    raw = np.frombuffer(stored, np.uint8, n_rows * width, cells.offset * width)
    words = raw.view(np.int32 if width == _NARROWEST else np.int64).reshape(n_rows, -1)
    low = words[:, 0].astype(np.int64)
    exact = (low >= -_EXACT) & (low <= _EXACT) & (words[:, 1:] == (low >> 63)[:, None]).all(axis=1)
    if not 0 <= scale <= _POWERS or sys.byteorder != "little":
        exact[:] = False
    values: NDArray[np.float64] = low / 10.0 ** min(max(scale, 0), _POWERS)
    for row in np.flatnonzero(~exact & ~nulls):
        digits = raw[row * width : (row + 1) * width].tobytes()
        values[row] = float(f"{int.from_bytes(digits, sys.byteorder, signed=True)}e{-scale}")
    values[nulls] = np.nan
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
    open_ = np.flatnonzero(~np.isfinite(values) & ~_nulls(text))
    if len(open_):
        values[open_] = _by_value(text.take(pa.array(open_)), _number_of_text, np.float64)
    return values


def _number_of_text(text: object) -> float:
    word = str(text).strip()
    if not word or _is_nan(word):
        return math.nan
    if not word.isascii() or "_" in word:
        return NOT_A_NUMBER
    try:
        number = float(word)
    except ValueError:
        return NOT_A_NUMBER
    return number if math.isfinite(number) else INFINITE


def _is_nan(word: str) -> bool:
    """Return True for a NaN as written in C: ``nan``, ``-NaN``, ``nan(some_1)``."""
    word = word.removeprefix("-") if word.startswith("-") else word.removeprefix("+")
    if not word.isascii() or word[:3].lower() != "nan":
        return False
    rest = word[3:]
    inner = rest[1:-1].replace("_", "")
    return not rest or (rest[0] == "(" and rest[-1] == ")" and (not inner or inner.isalnum()))


def _days(cells: pa.Array) -> NDArray[np.float64]:
    kind = cells.type
    if _is_text(kind):
        days: NDArray[np.float64] = _by_value(cells, _day_of_text, np.float64)
        return days
    if pa.types.is_date32(kind):
        days = cells.fill_null(0).view(pa.int32()).to_numpy().astype(np.float64)
    elif pa.types.is_date64(kind) or pa.types.is_timestamp(kind):
        unit = "ms" if pa.types.is_date64(kind) else kind.unit
        days = (cells.view(pa.int64()).fill_null(0).to_numpy() // _PER_DAY[unit]).astype(np.float64)
    else:
        days = np.full(len(cells), NOT_A_NUMBER)
    days = np.where((days >= _FIRST_DAY) & (days <= _LAST_DAY), days, NOT_A_NUMBER)
    return np.where(_nulls(cells), np.nan, days)


def _day_of_text(text: object) -> float:
    word = "" if text is None else str(text).strip()
    if not word or _is_nan(word):
        return math.nan
    day, then = word[:10], word[10:11]  # a time of the day may follow
    digits = day[:4] + day[5:7] + day[8:]
    written = len(digits) == 8 and digits.isascii() and digits.isdigit()
    if not written or day[4] != "-" or day[7] != "-" or then not in ("", "T", " "):
        return NOT_A_NUMBER
    if word.endswith(" BC"):  # PostgreSQL's form of the years before 1
        return NOT_A_NUMBER
    try:
        return float(count_days(date.fromisoformat(day)))
    except ValueError:
        return NOT_A_NUMBER


def _codes(labels: tuple[str, ...], cells: pa.Array) -> NDArray[np.int32]:
    code_of = {label: code for code, label in enumerate(labels)}

    def code(value: object) -> int:
        text = _canonical_text(value)
        if not text:
            return MISSING
        code = code_of.get(text)
        if code is None:
            code = code_of.get(_spelled(text), MISSING if _is_nan(text) else UNKNOWN)
        return code

    if not _is_text(cells.type):
        if _has_canonical_text(cells.type):
            return _by_value(cells, code, np.int32)
        return np.where(_nulls(cells), MISSING, UNKNOWN).astype(np.int32)
    indices = pc.index_in(cells, value_set=pa.array(labels, cells.type))
    codes = np.array(indices.fill_null(UNKNOWN).to_numpy(zero_copy_only=False), np.int32)
    # Only cells whose text is no label need the slower conversion.
    open_ = np.flatnonzero(codes == UNKNOWN)
    if len(open_):
        codes[open_] = _by_value(cells.take(pa.array(open_)), code, np.int32)
    return codes


def _canonical_text(value: object) -> str:
    """Return the canonical text of a cell; empty if it is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return canonical_text(value)


def _texts_of_decimals(cells: pa.Array) -> pa.Array:
    """Write decimals in full, except those longer than any label: a scale may ask for gigabytes."""
    raw = cells.view(pa.binary(cells.type.byte_width)).dictionary_encode()
    numbers = (int.from_bytes(v, sys.byteorder, signed=True) for v in raw.dictionary.to_pylist())
    texts = [_text_of_decimal(number, cells.type.scale) for number in numbers]
    return pa.array(texts, pa.large_string()).take(raw.indices)


def _text_of_decimal(number: int, scale: int) -> str:
    if abs(scale) > MAX_LABEL_LENGTH + _DECIMAL_DIGITS:
        return "0" if number == 0 else "9" * (MAX_LABEL_LENGTH + 1)
    places = max(scale, 0)
    digits = str(abs(number) * 10 ** max(-scale, 0)).zfill(places + 1)
    point = len(digits) - places
    return "-" * (number < 0) + digits[:point] + (f".{digits[point:]}" if places else "")


def _spelled(text: str) -> str:
    """Return the text that a CSV writer may have rewritten.

    ``1.0`` was 1, ``2.50`` was 2.5, ``-0.0`` was 0, ``1e+05`` was 100000, ``True`` true.
    """
    if text.lower() in {"true", "false"}:
        return text.lower()
    if _has_exponent(text) and math.isfinite(number := float(text)):
        return canonical_text(number)
    whole, point, fraction = text.partition(".")
    digits = whole[1:] if whole.startswith(("+", "-")) else whole
    if not point or not digits or not text.isascii() or not (digits + fraction).isdigit():
        return text
    fraction = fraction.rstrip("0")
    if not fraction:
        return "0" if whole == "-0" else whole
    return f"{whole}.{fraction}"


def _has_exponent(text: str) -> bool:
    """Return True for a float with an exponent as CSV writers write it: ``-1.5e-07``."""
    mantissa, letter, exponent = text.partition("e")
    whole, point, fraction = mantissa.removeprefix("-").partition(".")
    sign, digits = exponent[:1], exponent[1:]
    return (
        text.isascii()
        and bool(letter)
        and len(whole) == 1
        and whole.isdigit()
        and (fraction.isdigit() if point else True)
        and sign in ("+", "-")
        and len(digits) <= 3
        and digits.isdigit()
    )


def _by_value(
    cells: pa.Array, convert: Callable[[object], float], dtype: type[Any]
) -> NDArray[Any]:
    """Convert each distinct value once."""
    kind = cells.type
    if _is_text(kind):
        cells = cells.view(pa.large_binary())
    elif pa.types.is_float16(kind) or pa.types.is_float32(kind):
        # The shortest text that reads back as this float32, not as its double.
        cells = pa.array([None if v is None else float(str(v)) for v in _short(cells)])
    encoded = cells.dictionary_encode(null_encoding="encode")
    values = [
        v.decode("utf-8", "replace") if isinstance(v, bytes) else v
        for v in encoded.dictionary.to_pylist()
    ]
    table = np.array([convert(value) for value in values], dtype=dtype)
    taken: NDArray[Any] = table[encoded.indices.to_numpy(zero_copy_only=False)]
    return taken


def _short(cells: pa.Array) -> list[Any]:
    present = cells.fill_null(0).to_numpy(zero_copy_only=False)
    return [None if null else value for value, null in zip(present, _nulls(cells), strict=True)]


def _is_text(kind: pa.DataType) -> bool:
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


def _nulls(cells: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_union(cells.type):  # a union has no nulls of its own
        return np.zeros(len(cells), np.bool_)
    nulls: NDArray[np.bool_] = cells.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _to_numpy(numbers: pa.Array) -> NDArray[np.float64]:
    """Return float64 with NaN for null."""
    return np.array(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
