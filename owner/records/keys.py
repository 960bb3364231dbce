"""Rows that have one key, such as the number of a person: how many the key has that has most.

Keys are compared as labels are: outer blanks are dropped, and ``7``, ``7.0`` and ``"7"`` are one
key. Counts are exact. They are added up whenever as many keys wait as were found, so that a key is
looked at a few times only, and memory holds each key that occurs once or twice.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dppca.common.kernel.schema.columns import cell_texts
from dppca.common.kernel.schema.texts import MISSING_WORDS

_WORDS: Final = [word.encode() for word in ("", "nan", "NaN", "NAN", *MISSING_WORDS)]
"""Keys that are none: words for a missing value."""
_LEAST: Final = 1 << 20


class KeyRows(NamedTuple):
    """Number of rows of the key that most rows have, and of those without a key."""

    most: int
    missing: int


def count_rows_of_keys(batches: Iterable[Any]) -> KeyRows:
    """Count keys in Arrow arrays of any type."""
    keys, counts = pa.array([], pa.large_binary()), np.empty(0, np.int64)
    waiting: list[Any] = []
    n_waiting = 0
    for cells in batches:
        waiting.append(_key_texts(cells))
        n_waiting += len(cells)
        if n_waiting > max(_LEAST, len(keys)):
            keys, counts = _added(keys, counts, waiting)
            waiting, n_waiting = [], 0
    keys, counts = _added(keys, counts, waiting)
    is_none = pc.is_in(keys, pa.array(_WORDS, keys.type)).to_numpy(zero_copy_only=False)
    return KeyRows(int(counts[~is_none].max(initial=0)), int(counts[is_none].sum()))


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


def _added(
    keys: Any, counts: NDArray[np.int64], waiting: Sequence[Any]
) -> tuple[Any, NDArray[np.int64]]:
    """Distinct keys, and the rows of each, with one row more for each key that waits."""
    encoded = pa.concat_arrays([keys, *waiting]).dictionary_encode()
    rows = np.ones(len(encoded), np.int64)
    rows[: len(keys)] = counts
    added = np.zeros(len(encoded.dictionary), np.int64)
    np.add.at(added, encoded.indices.to_numpy(), rows)
    return encoded.dictionary, added
