"""Numbers of Arrow that text would write in decimals: exact decimals, and floats of few bits.

Each becomes the float64 that its decimal text is read as, whatever stands beside it.
"""

import sys
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dppca.common.kernel.schema.attributes import MAX_LABEL_LENGTH

_DECIMAL_DIGITS: Final = 78  # of the widest decimal of Arrow
_NARROWEST: Final = 4  # bytes of the narrowest
_EXACT, _POWERS = 1 << 53, 22  # whole numbers, and powers of ten, that are exact in float64
_FEW: Final = 80_000  # below 2^23 / 10^2, a float32 of two decimals is nearest to these at 10^-2
_SHORT, _PLACES = 1 << 24, 8  # whole numbers exact in float32, and decimals that are tried at once


def is_short(kind: pa.DataType) -> bool:
    """Return True for float32 and float16."""
    return bool(pa.types.is_float32(kind) or pa.types.is_float16(kind))


def shortest_decimals(cells: pa.Array) -> NDArray[np.float64]:
    """Return the float64 nearest to the shortest decimal that is read as each float32 or float16.

    Of the decimals with s places the nearest is found at once: a float32 has 24 bits and 10^s, up
    to 10^8, another 19 besides a power of two, so the product is exact, and the quotient of whole
    numbers up to 2^53 is rounded once. The smallest s whose decimal is read as the same float32 is
    the shortest; for the few left, Arrow writes it.
    """
    narrow = cells.to_numpy(zero_copy_only=False)
    if narrow.dtype != np.float32:
        written = {value: float(str(value)) for value in np.unique(narrow)}
        return np.array([written.get(value, np.nan) for value in narrow], np.float64)
    with np.errstate(invalid="ignore"):  # a NaN that signals
        values: NDArray[np.float64] = narrow.astype(np.float64)
    known = np.where(np.isfinite(values), values, 0.0)
    if np.abs(known).max(initial=0.0) < _FEW:  # then two places hold all that have no more
        short = np.rint(known * 100.0) / 100.0
        if (short.astype(np.float32) == known).all():
            return np.where(np.isfinite(values), short, values)
    open_ = np.flatnonzero((np.abs(values) > _SHORT) | (np.rint(values) != values))
    open_ = open_[np.isfinite(values[open_])]
    for places in range(1, _PLACES + 1):
        wanted = values[open_]
        found = np.rint(wanted * 10.0**places) / 10.0**places
        same = (found.astype(np.float32) == wanted) & (np.abs(wanted) <= _SHORT)
        values[open_[same]] = found[same]
        open_ = open_[~same]
        if not len(open_):
            break
    written = pa.array(narrow[open_]).cast(pa.large_string()).cast(pa.float64())
    values[open_] = written.to_numpy(zero_copy_only=False)
    return values


def numbers_of_decimals(cells: pa.Array) -> NDArray[np.float64]:
    """Return the float64 nearest to each decimal, as for the same digits in text.

    Arrow's own cast multiplies by a rounded power of ten and is often one unit off. A quotient of
    two numbers that are exact in float64 is rounded once (IEEE 754): digits up to 2^53, and powers
    of ten up to 10^22.
    """
    width, scale, n_rows = cells.type.byte_width, cells.type.scale, len(cells)
    nulls, stored = find_nulls(cells), cells.buffers()[1]
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


def texts_of_decimals(cells: pa.Array) -> pa.Array:
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


def find_nulls(cells: pa.Array) -> NDArray[np.bool_]:
    """Return True for null, shape (n_rows,)."""
    if pa.types.is_union(cells.type):  # a union has no nulls of its own
        return np.zeros(len(cells), np.bool_)
    nulls: NDArray[np.bool_] = cells.is_null().to_numpy(zero_copy_only=False)
    return nulls
