"""Numbers of Arrow that text would write in decimals: exact decimals, and floats of few bits.

Each becomes the float64 that its decimal text is read as, whatever stands beside it.
"""

import sys
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dppca.common.kernel.schema.attributes import MAX_LABEL_LENGTH

_DECIMAL_DIGITS: Final = 78  # of the widest decimal of Arrow
_NARROWEST: Final = 4  # bytes of the narrowest
_EXACT, _POWERS = 1 << 53, 22  # whole numbers, and powers of ten, that are exact in float64
_FEW: Final = 80_000  # below 2^23 / 10^2, a float32 of two decimals is nearest to these at 10^-2
_TRIED, _TRIES = 11, 3  # places tried first are fewer; tries, with one place more each
_LEAST_EXPONENT, _WHOLE_EXPONENT = -11, 24  # of float32 with few enough places, and with no others


def is_short(kind: pa.DataType) -> bool:
    """Return True for float32 and float16."""
    return bool(pa.types.is_float32(kind) or pa.types.is_float16(kind))


def shortest_decimals(cells: pa.Array) -> NDArray[np.float64]:
    """Return the float64 nearest to the shortest decimal that is read as each float32 or float16.

    The nearest decimal with s places is found at once (`_nearest`). While decimals with s places
    are further apart than float32 numbers, at most one is read as a value, and it is the same as
    one with fewer places: the most such places are tried first, then one more, then another (where
    the exponent changes). For the few left, Arrow writes the shortest.
    """
    narrow = cells.to_numpy(zero_copy_only=False)
    if narrow.dtype != np.float32:
        written = {value: float(str(value)) for value in np.unique(narrow)}
        return np.array([written.get(value, np.nan) for value in narrow], np.float64)
    values, known = _nearest(narrow, 100.0)
    open_ = np.flatnonzero(~(known & (np.abs(narrow) < _FEW)))
    open_ = open_[np.isfinite(narrow[open_])]  # others stay as they are
    powers = _first_powers()[narrow[open_].view(np.uint32) >> 23 & 0xFF]
    for _ in range(_TRIES):
        values[open_], known = _nearest(narrow[open_], powers)
        open_, powers = open_[~known], 10.0 * powers[~known]
    written = pa.array(narrow[open_]).cast(pa.large_string()).cast(pa.float64())
    values[open_] = written.to_numpy(zero_copy_only=False)
    return values


def _nearest(
    narrow: NDArray[np.float32], power: float | NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the nearest multiple of ``1 / power`` in float64, and if it is read as the float32.

    A float32 has 24 bits and 10^s, up to 10^12, another 28 besides a power of two, so the product
    is exact, and the quotient of whole numbers up to 2^53 is rounded once.
    """
    with np.errstate(invalid="ignore"):  # a NaN that signals
        values = np.multiply(narrow, power, dtype=np.float64)
        np.rint(values, out=values)
        np.divide(values, power, out=values)
        return values, values.astype(np.float32) == narrow


@cache
def _first_powers() -> NDArray[np.float64]:
    """Return for each exponent of a float32 the power of ten that is tried first, shape (256,).

    The smallest numbers have 1, which fits zero alone; numbers that are written have NaN.
    """
    powers = np.ones(256)
    for exponent in range(_LEAST_EXPONENT, _WHOLE_EXPONENT):
        fits = (s for s in range(_TRIED) if 2**exponent * 10**s < 2**23)
        powers[exponent + 127] = 10.0 ** max(fits, default=0)
    powers[_WHOLE_EXPONENT + 127 :] = np.nan
    return powers


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
