"""Rows that have one key, such as the number of a person: how many the key has that has most.

Keys are compared as labels are: outer blanks are dropped, and ``7``, ``7.0`` and ``"7"`` are one
key. Counts are exact. They are added up whenever as many keys wait as were found, so that a key is
looked at a few times only, and memory holds each key that occurs once or twice.
"""

from collections.abc import Iterable
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dppca.common.kernel.schema.columns import cell_texts
from dppca.common.kernel.schema.texts import MISSING_WORDS

_WORDS: Final = [word.encode() for word in ("", "nan", "NaN", "NAN", *MISSING_WORDS)]
"""Keys that are none: words for a missing value."""
_LEAST: Final = 1 << 20


class KeyRows(NamedTuple):
    """Number of rows of the key that most rows have, and of those without a key."""

    most: int
    missing: int


class KeyCounts:
    """Counts the rows of each key, batch by batch; several threads may add."""

    def __init__(self) -> None:
        self._keys, self._counts = pa.array([], pa.large_binary()), np.empty(0, np.int64)
        self._waiting: list[Any] = []
        self._n_waiting = self._n_rows = 0
        self._lock = Lock()

    @property
    def n_rows(self) -> int:
        """Number of rows that were added."""
        return self._n_rows

    def add(self, cells: Any) -> None:
        """Count the keys in an Arrow array of any type."""
        texts = _key_texts(cells)
        with self._lock:
            self._waiting.append(texts)
            self._n_waiting += len(texts)
            self._n_rows += len(texts)
            if self._n_waiting > max(_LEAST, len(self._keys)):
                self._settle()

    def total(self) -> KeyRows:
        """Most rows of one key, and the rows without one."""
        with self._lock:
            self._settle()
            words = pa.array(_WORDS, self._keys.type)
            is_none = pc.is_in(self._keys, words).to_numpy(zero_copy_only=False)
            most = int(self._counts[~is_none].max(initial=0))
            return KeyRows(most, int(self._counts[is_none].sum()))

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


def _key_texts(cells: Any) -> Any:
    """Keys as one text each, as bytes."""
    if isinstance(cells.type, pa.BaseExtensionType):
        return _key_texts(cells.storage)
    if pa.types.is_dictionary(cells.type):
        return _key_texts(cells.dictionary_decode())
    if pa.types.is_string_view(cells.type) or pa.types.is_binary_view(cells.type):
        cells = cells.cast(pa.large_binary())
    elif pa.types.is_integer(cells.type):
        return pc.fill_null(cells.cast(pa.large_string()), "").view(pa.large_binary())
    elif not (
        pa.types.is_string(cells.type)
        or pa.types.is_large_string(cells.type)
        or pa.types.is_binary(cells.type)
        or pa.types.is_large_binary(cells.type)
    ):
        cells = pa.array(cell_texts(cells), pa.large_string())
    # Without a check for UTF-8: a cell must not be able to raise.
    texts = pc.fill_null(cells.cast(pa.large_binary()).view(pa.large_string()), "")
    texts = pc.ascii_trim_whitespace(texts)
    texts = pc.replace_substring_regex(texts, r"^([+-]?[0-9]+)\.0*$", r"\1")
    return texts.view(pa.large_binary())
