"""Who is a person: the key of one cell, and how many rows the key has that has most.

There is one rule for every source: the key of a cell depends on that cell and on the type that its
column has, on no other row. A whole number is one key in any type, and as text with zeros behind
its point: ``7``, ``7.0``. ``1e3``, ``01`` and ``1.50`` are texts that say more than a number.
Blanks around a text do not count, Unicode's neither; capital letters do, also in a database that
compares without them. Words for a missing value are no key. No type is guessed from the values of a
column: one row could regroup everybody. Nor do files of one data set give it types that would make
two keys of one person, such as moments in seconds and in microseconds: they are refused.

Keys that are one but for zeros in front, capital letters or how letters and numbers are written
stay different people, and are counted beside: only who knows the rows can say whose they are.

Counts are exact. They are added up whenever as many keys wait as were found, so that a key is
looked at a few times only, and memory holds each key that occurs twice or three times.
"""

import unicodedata
from collections.abc import Callable, Iterable
from decimal import Decimal
from threading import Lock
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import label_text
from dppca.common.kernel.schema.columns import is_text
from dppca.common.kernel.schema.decimals import is_short, shortest_decimals, texts_of_decimals
from dppca.common.kernel.schema.texts import MISSING_WORDS, is_missing

_UUID: Final = "arrow.uuid"
_LEAST: Final = 1 << 20  # keys that wait before they are counted
_MOST: Final = 2.0**63  # from which on a float64 fits no int64
_WHOLE_FLOATS: Final = {16: 11, 32: 24, 64: 53}  # binary digits of a number, by bits of its type
_WIDE_TICKS: Final = 64  # bits of the wider times
_WORDS: Final = [word.encode() for word in ("", *MISSING_WORDS)]
_LIKE_NAN: Final = r"(?i)^[-+]?nan(\([a-z0-9_]*\))?$"
_BLANKS: Final = " \t\n\v\f\r\x1c\x1d\x1e\x1f\0"  # of ASCII, and the mark of `text_cells`
_WHOLE: Final = ((r"^\+?(-?[0-9]+)(?:\.0*)?$", r"\1"), ("^-0$", "0"))
_FRACTION: Final = (r"^(-?[0-9]+\.[0-9]*[1-9])0+$", r"\1")
_POWER: Final = r"^[-+]?[0-9]+(\.[0-9]*)?e[-+]?[0-9]{1,2}$"
_NUMBER: Final = r"^[-+]?[0-9]*\.?[0-9]*$"
_MORE_THAN_DIGITS: Final = "^0[0-9]|[^0-9]"
_ZEROS: Final = (r"(^|[^0-9.,])0+([0-9])", r"\1\2")


class KeyRows(NamedTuple):
    """Number of rows of the key that most rows have, and of those without a key.

    ``alike`` keys are another one but for how they are written; ``together`` are the most rows of
    such keys that are one then.
    """

    most: int
    missing: int
    alike: int = 0
    together: int = 0


class KeyCounts:
    """Counts the rows of each key, batch by batch; several threads may add."""

    def __init__(self) -> None:
        self._form, self._type = "", pa.null()
        self._keys, self._counts = pa.array([], pa.large_binary()), np.empty(0, np.int64)
        self._waiting: list[Any] = []
        self._n_waiting = self._n_rows = 0
        self._lock = Lock()

    @property
    def n_rows(self) -> int:
        """Number of rows that were added."""
        return self._n_rows

    def add(self, cells: Any) -> None:
        """Count the keys in an Arrow array of any type.

        Raise `DataError` if arrays before it have a type whose keys have another form.
        """
        texts, form = key_texts(cells), _key_form(cells.type)
        with self._lock:
            if form != self._form and is_without_keys(cells):
                form = ""
            if form and self._form and form != self._form:
                raise DataError(
                    f"the key's column has the type {self._type} in some files and {cells.type} in "
                    "others, so that one person could have two keys: write it as one type in all"
                )
            if form:
                self._form, self._type = form, cells.type
            self._waiting.append(texts)
            self._n_waiting += len(texts)
            self._n_rows += len(texts)
            if self._n_waiting > max(_LEAST, len(self._keys)):
                self._settle()

    def total(self) -> KeyRows:
        """Most rows of one key, the rows without one, and the keys that are alike."""
        with self._lock:
            self._settle()
            is_none = _find_none(self._keys)
            counts = self._counts[~is_none]
            forms = _plain_forms(self._keys.filter(pa.array(~is_none))).dictionary_encode()
            places, n_forms = forms.indices.to_numpy(), len(forms.dictionary)
            rows = np.zeros(n_forms, np.int64)
            np.add.at(rows, places, counts)
            n_keys = np.bincount(places, minlength=n_forms)
            return KeyRows(
                most=int(counts.max(initial=0)),
                missing=int(self._counts[is_none].sum()),
                alike=int(n_keys[n_keys > 1].sum()),
                together=int(rows[n_keys > 1].max(initial=0)),
            )

    def each(self) -> tuple[Any, NDArray[np.int64]]:
        """Return the keys, as large binary, and the rows of each."""
        with self._lock:
            self._settle()
            return self._keys, self._counts

    def _settle(self) -> None:
        """Add one row for each key that waits."""
        encoded = pa.concat_arrays([self._keys, *self._waiting]).dictionary_encode()
        rows = np.ones(len(encoded), np.int64)
        rows[: len(self._keys)] = self._counts
        added = np.zeros(len(encoded.dictionary), np.int64)
        np.add.at(added, encoded.indices.to_numpy(), rows)
        self._keys, self._counts = encoded.dictionary, added
        self._waiting, self._n_waiting = [], 0


def count_rows_of_keys(batches: Iterable[Any]) -> KeyRows:
    """Count keys in Arrow arrays of any type."""
    counts = KeyCounts()
    for cells in batches:
        counts.add(cells)
    return counts.total()


def key_texts(cells: Any) -> Any:
    """Return the key of each cell of an Arrow array of any type, as large binary.

    Each cell's key is a function of that cell alone. Whole numbers and texts of them are their
    digits (``7``, ``7.0``, ``" 7 "``), other numbers their shortest decimals, texts lose outer
    blanks; null is empty.
    """
    cells = unfolded(cells)
    kind = cells.type
    if isinstance(kind, pa.BaseExtensionType):
        return _by_value(cells.storage, lambda cell: str(UUID(bytes=cell)))
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        # As their ticks: a zone or a nanosecond could make Python's own form fail.
        cells = cells.view(pa.int64() if kind.bit_width == _WIDE_TICKS else pa.int32())
        kind = cells.type
    if pa.types.is_integer(kind) or pa.types.is_date(kind):
        return pc.fill_null(cells.cast(pa.large_string()), "").view(pa.large_binary())
    if pa.types.is_floating(kind):
        return _texts_of_floats(cells)
    if pa.types.is_decimal(kind):
        return _of_texts(pc.replace_substring_regex(texts_of_decimals(cells), *_FRACTION))
    if not is_text(kind):
        texts = [None if cell is None else label_text(cell) for cell in cells.to_pylist()]
        cells = pa.array(texts, pa.large_string())
    return _of_texts(cells.cast(pa.large_binary()))


def require_exact_floats(cells: Any, title: str, key: str) -> None:
    """Raise `DataError` for floats of which some stand for several people, whatever array."""
    cells = unfolded(cells)
    if not pa.types.is_floating(cells.type):
        return
    digits = _WHOLE_FLOATS[cells.type.bit_width]
    largest = pc.max(pc.abs(cells.cast(pa.float64()))).as_py()
    if largest is not None and largest >= 2**digits:
        raise DataError(
            f"{key} of {title} has floating-point numbers of 2^{digits} or more, of which some "
            "stand for several people: write it as text or as whole numbers"
        )


def is_without_keys(cells: Any) -> bool:
    """Return True if all cells are null, such as those of a partition without a key."""
    cells = unfolded(cells)
    return bool(cells.null_count == len(cells))


def unfolded(cells: Any) -> Any:
    """Return an Arrow array without runs, dictionary or extension; UUIDs stay as they are."""
    kind = cells.type
    if isinstance(kind, pa.BaseExtensionType):
        return cells if kind.extension_name == _UUID else unfolded(cells.storage)
    if pa.types.is_run_end_encoded(kind):
        return unfolded(pc.run_end_decode(cells))
    return unfolded(cells.dictionary_decode()) if pa.types.is_dictionary(kind) else cells


def _key_form(kind: Any) -> str:
    """Which form the keys of a type have; empty if it has none. Equal persons need equal forms."""
    if isinstance(kind, pa.BaseExtensionType):
        return _UUID if kind.extension_name == _UUID else _key_form(kind.storage_type)
    if pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind):
        return _key_form(kind.value_type)
    if pa.types.is_timestamp(kind):
        return f"timestamp[{kind.unit}]"  # ticks, of any zone
    if pa.types.is_fixed_size_binary(kind):
        return "bytes"  # perhaps of a UUID, which text is not
    as_text = is_text(kind) or pa.types.is_decimal(kind) or pa.types.is_date(kind)
    if as_text or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "text"
    return "" if pa.types.is_null(kind) else str(kind)


def _find_none(keys: Any) -> NDArray[np.bool_]:
    """Return where keys say that there is none: they are empty, or a word for missing."""
    like = pc.match_substring_regex(keys.view(pa.large_string()), _LIKE_NAN)
    said = [key for key in keys.filter(like).to_pylist() if is_missing(key.decode())]
    words = pa.array([*_WORDS, *said], keys.type)
    found: NDArray[np.bool_] = pc.is_in(keys, words).to_numpy(zero_copy_only=False)
    return found


def _plain_forms(keys: Any) -> Any:
    """Return keys in small letters of one normal form, numbers in full, without zeros in front."""
    texts = keys.view(pa.large_string())
    texts = _changed(texts, pc.match_substring_regex(texts, _MORE_THAN_DIGITS), _plain_form)
    return texts.view(pa.large_binary())


def _plain_form(texts: Any) -> Any:
    texts = pc.ascii_lower(texts)
    texts = _replaced(texts, pc.invert(pc.string_is_ascii(texts)), _composed)
    texts = _replaced(texts, pc.match_substring_regex(texts, _POWER), _in_full)
    texts = pc.replace_substring_regex(texts, *_ZEROS)
    return _changed(texts, pc.match_substring_regex(texts, _NUMBER), _shortened)


def _shortened(texts: Any) -> Any:
    for pattern, instead in (*_WHOLE, _FRACTION):
        texts = pc.replace_substring_regex(texts, pattern, instead)
    return texts


def _composed(cell: bytes) -> str:
    text = unicodedata.normalize("NFKC", cell.decode("utf-8", "surrogateescape"))
    return unicodedata.normalize("NFKC", text.casefold())


def _in_full(cell: bytes) -> str:
    return format(Decimal(cell.decode()).normalize(), "f")


def _of_texts(cells: Any) -> Any:
    # Without a check for UTF-8: a cell must not be able to raise.
    texts = pc.fill_null(cells.view(pa.large_binary()).view(pa.large_string()), "")
    if pc.all(pc.ascii_is_alnum(texts)).as_py():  # as most keys are: nothing to trim or to shorten
        return texts.view(pa.large_binary())
    texts = pc.ascii_trim(texts, _BLANKS)
    # Blanks that are not ASCII, such as that which does not break.
    texts = _replaced(texts, pc.invert(pc.string_is_ascii(texts)), _trimmed)
    for pattern, instead in _WHOLE:
        texts = pc.replace_substring_regex(texts, pattern, instead)
    return texts.view(pa.large_binary())


def _changed(texts: Any, where: Any, change: Callable[[Any], Any]) -> Any:
    """Texts of which those where a mask is true are changed."""
    if not pc.any(where).as_py():
        return texts
    return pc.replace_with_mask(texts, where, change(texts.filter(where)))


def _replaced(texts: Any, where: Any, text: Callable[[bytes], str]) -> Any:
    """Texts of which those where a mask is true are made of their bytes by ``text``."""

    def made(chosen: Any) -> Any:
        return _by_value(chosen.view(pa.large_binary()), text).view(pa.large_string())

    return _changed(texts, where, made)


def _trimmed(cell: bytes) -> str:
    return cell.decode("utf-8", "surrogateescape").strip()


def _texts_of_floats(cells: Any) -> Any:
    values = shortest_decimals(cells) if is_short(cells.type) else _to_numpy(cells)
    if (np.isnan(values) | ((np.abs(values) < _MOST) & (values == np.rint(values)))).all():
        whole = np.nan_to_num(values).astype(np.int64)
        return key_texts(pa.array(whole, mask=np.isnan(values)))
    return _by_value(pa.array(values, from_pandas=True), label_text)


def _to_numpy(cells: Any) -> NDArray[np.float64]:
    values: NDArray[np.float64] = cells.to_numpy(zero_copy_only=False)
    return values


def _by_value(cells: Any, text: Callable[[Any], str]) -> Any:
    """Texts of cells, of each distinct one once; empty for null."""
    encoded = cells.dictionary_encode()
    listed = encoded.dictionary.to_pylist()
    made = [text(cell).encode("utf-8", "surrogateescape") for cell in listed]
    return pc.fill_null(pa.array(made, pa.large_binary()).take(encoded.indices), b"")
