"""People of a data set: the number of rows of each, counted in one pass and found again in another.

A study of people (`dppca.common.kernel.schema.units.Person`) needs the number of a person's rows
before it adds the first of them. So the column that tells people apart is read twice: the first
pass counts the rows of each key, the second one adds them, and looks up the count of each row's
key. What was added is what was counted: each key must have, in the second pass, as many rows as in
the first. Equal totals are not enough, for one row could have taken another's place.

Which cells are one key is decided in `dppca.owner.records.keys`, by one cell alone. Refused is a
column that has no key for some row, or by whose types one person could have two: several types over
parts, and floating-point numbers from 2^53 (2^24, 2^11) in 64 (32, 16) bits, which are not all
there.

Counts are held by 16 bytes of each key: keys of up to 15 bytes as they are, longer ones by a digest
that has a key of this process, so that nobody can choose a user name that is one person with
another's. A search goes by 64 mixed bits of these, sorted; equal mixes are drawn again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema.columns import is_text
from dppca.owner.records.keys import (
    KeyCounts,
    KeyRows,
    is_without_keys,
    key_texts,
    require_exact_floats,
    unfolded,
)

_SHORT: Final = 15  # bytes of a key that are kept as they are
_LONG: Final = 255  # first byte of a digest; that of a short key is its length


class PeopleCounts:
    """Rows of each person, found by the cells of their key; several threads may search.

    ``counted`` is what `KeyCounts.total` said; site-only.
    """

    def __init__(self, keys: Any, rows: NDArray[np.int64], *, counted: KeyRows, title: str) -> None:
        self._title, self.counted, self._digest_key = title, counted, secrets.token_bytes(32)
        words, mixed = _words(keys, self._digest_key), None
        while mixed is None:
            self._factors = np.frombuffer(secrets.token_bytes(16), np.uint64) | np.uint64(1)
            mixed = _distinct(_mix(words, self._factors))
        order = np.argsort(mixed)
        self._mixed, self._words = mixed[order], words[order]
        self._rows = rows[order]
        self._seen = np.zeros(len(rows), np.int64)
        self._lock = Lock()

    @property
    def n_people(self) -> int:
        """Number of people; public once released."""
        return len(self._rows)

    def by_rows(self) -> dict[int, int]:
        """Number of people with k rows, by k; site-only."""
        ks, counts = np.unique(self._rows, return_counts=True)
        return dict(zip(ks.tolist(), counts.tolist(), strict=True))

    def find(self, cells: Any) -> NDArray[np.int64]:
        """Return k of each row's person, shape (n_rows,), and count these rows.

        Raise `DataError` for a key that was not counted.
        """
        cells = unfolded(cells)
        if not (is_text(cells.type) or pa.types.is_integer(cells.type)):
            cells = key_texts(cells)
        # Cells that are the same have one key, which is made once; so may others.
        encoded = cells.dictionary_encode(null_encoding="encode")
        words = _words(key_texts(encoded.dictionary), self._digest_key)
        mixed = _mix(words, self._factors)
        order = np.argsort(mixed)
        places = np.empty(len(mixed), np.intp)
        places[order] = np.searchsorted(self._mixed, mixed[order])
        places[places == len(self._mixed)] = 0
        if len(self._rows) == 0 or not np.array_equal(self._words[places], words):
            raise DataError(self._changed())
        indices = encoded.indices.to_numpy()
        added = np.bincount(indices, minlength=len(places))
        with self._lock:
            np.add.at(self._seen, places, added)
        found: NDArray[np.int64] = self._rows[places][indices]
        return found

    def require_all(self) -> None:
        """Raise `DataError` unless each key was found as often as it was counted."""
        if not np.array_equal(self._seen, self._rows):
            raise DataError(self._changed())

    def read_anew(self) -> None:
        """Begin another reading of the same rows."""
        self._seen[:] = 0

    def _changed(self) -> str:
        return (
            f"{self._title} gave other rows when it was read again: a person's rows are counted "
            "before they are added. Run the command again once nobody writes to it; a query needs "
            "the same rows each time, so no LIMIT"
        )


@dataclass(slots=True)
class _Types:
    """What the arrays of a key's column have in common."""

    title: str
    key: str
    form: str = ""

    def add(self, cells: Any) -> None:
        """Raise `DataError` for a type or a number by which one person could have two keys.

        A part without a key, such as a partition of null, has no type that says anything.
        """
        cells = unfolded(cells)
        if is_without_keys(cells):
            return
        kind = cells.type
        form = str(kind)
        if is_text(kind):
            form = "text"
        elif pa.types.is_integer(kind):
            form = "whole number"
        if self.form and form != self.form:
            raise DataError(
                f"{self.key} has the type {self.form} in some parts of {self.title} and {form} in "
                "others: one person could have two keys. Write it as one type in all of them"
            )
        self.form = form
        require_exact_floats(cells, self.title, self.key)


def count_people(
    arrays: Iterable[Any],
    *,
    title: str,
    key: str,
    progress: Callable[[int], None] | None = None,
) -> PeopleCounts:
    """Count the rows of each person, from Arrow arrays of the column ``key``.

    ``progress`` is called after each array, with the number of rows in it. Raise `DataError` where
    some row has no key, or one person could have two.
    """
    counts, types = KeyCounts(), _Types(title, key)
    for cells in arrays:
        types.add(cells)
        counts.add(cells)
        if progress is not None:
            progress(len(cells))
    counted = counts.total()
    if counted.missing:
        raise DataError(
            f"{title} has no {key} in {many(counted.missing, 'rows')}: nobody knows whose they "
            "are, so fill it in, or leave these rows out"
        )
    return PeopleCounts(*counts.each(), counted=counted, title=title)


def _words(keys: Any, digest_key: bytes) -> NDArray[np.uint64]:
    """Return 16 bytes of each key of a large binary array, shape (n, 2)."""
    offsets = np.frombuffer(keys.buffers()[1], np.int64)[keys.offset :][: len(keys) + 1]
    data = keys.buffers()[2]
    content = np.frombuffer(b"" if data is None else data, np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    words = np.zeros((len(keys), _SHORT + 1), np.uint8)
    words[:, 0] = np.minimum(lengths, _LONG)
    for place in range(min(_SHORT, int(lengths.max(initial=0)))):
        there = np.flatnonzero(lengths > place)
        words[there, place + 1] = content[starts[there] + place]
    for row in np.flatnonzero(lengths > _SHORT).tolist():
        cell = content[starts[row] : starts[row] + lengths[row]].tobytes()
        digest = hashlib.blake2b(cell, digest_size=_SHORT, key=digest_key).digest()
        words[row] = np.frombuffer(bytes([_LONG]) + digest, np.uint8)
    return words.view(np.uint64)


def _mix(words: NDArray[np.uint64], factors: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 bits of each row of words, by two odd factors."""
    mixed: NDArray[np.uint64] = words[:, 0] * factors[0]
    mixed ^= mixed >> np.uint64(29)
    mixed = (mixed + words[:, 1]) * factors[1]
    mixed ^= mixed >> np.uint64(32)
    return mixed


def _distinct(mixed: NDArray[np.uint64]) -> NDArray[np.uint64] | None:
    ordered = np.sort(mixed)
    return None if (ordered[1:] == ordered[:-1]).any() else mixed
