"""Exact moments over people, each of whom weighs as one row, or c, whatever their number of rows.

A person with k rows r_1 … r_k adds, with v(r) the packed vector of one row,

    a (v(r_1) + … + v(r_k)) + (W - a k) v_0,
    W = M min(k, c),  a = floor(M min(1, c/k)),  M = 720720.                                    (1)

M is divisible by 1 to 16 and by many other numbers. What is left of W goes to v_0, the vector of a
public default row, in which every value is missing. The weight of v_0 is at most k/W of a person's.
Of a person with more than M c rows, v_0 alone is added.

All people are added in one accumulator, whatever their k; its integers need more than 64 bits, so
it has two words. At the end it is divided by M once, rounding down, in the units of the packed
vector. So the result is the same for any order, batches and threads; what the division costs is in
`dppca.common.kernel.privacy.people`.

Rows are grouped by k, many at a time; all that have one a are summed before it multiplies them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.moments.accumulation import MomentSums
from dppca.common.kernel.moments.encoder import Batch, slice_rows
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.schema import MISSING, Column, Numeric, Schema

WHOLE: Final = 720720
"""M, the weight of a person in the accumulator."""
_WORD: Final = 32  # bits of a part that a product cannot overflow
_LOW: Final = (1 << _WORD) - 1
_TOGETHER: Final = 1 << 20  # values that wait, for a few rows of each k would take long, 8 MiB
_HELD: Final = 1 << 20  # entries of the sums of several a that are held at once, 8 MiB


@dataclass(frozen=True, slots=True)
class PeopleMoments(Moments):
    """Exact sums over people; ``n_rows`` is their total weight, with c = 1 the number of people.

    The number of their rows is not kept. Merged with others they are `Moments`, which no release
    of people takes: what is divided is the sum over all people of an owner.
    """


class PeopleSums:
    """Sums of equation (1) over the rows added so far; for one thread at a time."""

    def __init__(self, schema: Schema) -> None:
        self._schema, self._by_factor = schema, dict[int, MomentSums]()
        self._free = [MomentSums(schema)]
        self._beside = self._free[0].beside
        self._waiting, self._n_waiting = list[list[NDArray[Any]]](), 0
        self._most = max(1, _HELD // schema.layout.n_entries)
        self._counted = schema.rows_counted
        self._high = np.zeros(schema.layout.n_entries, np.int64)
        self._low = np.zeros(schema.layout.n_entries, np.int64)  # within 0 to 2^32 - 1

    def add(self, batch: Batch, rows_of_person: NDArray[np.int64]) -> None:
        """Add rows; ``rows_of_person`` is k of each row's person, shape (n_rows,), at least 1.

        The arrays are kept until more rows have come, and must not change.
        """
        columns: list[NDArray[Any]] = [batch] if isinstance(batch, np.ndarray) else [*batch]
        self._waiting.append([*columns, rows_of_person])
        self._n_waiting += len(rows_of_person)
        if self._n_waiting * len(self._schema.attributes) >= _TOGETHER:
            self._group()

    def _group(self) -> None:
        """Sort the rows that wait by k, and add them to the sums of their a."""
        if not self._waiting:
            return
        *columns, ks = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        self._waiting, self._n_waiting = [], 0
        if ks.max(initial=0) <= np.iinfo(np.uint16).max:
            ks = ks.astype(np.uint16)  # which NumPy sorts several times as fast
        order = np.argsort(ks, kind="stable")
        ks, columns = ks[order], [each[order] for each in columns]
        batch = columns[0] if columns[0].ndim > 1 else columns
        starts = [0, *(np.flatnonzero(np.diff(ks)) + 1).tolist(), len(ks)]
        for start, end in pairwise(starts if len(ks) else []):
            if factor := self._factor(int(ks[start])):
                self._sums_of(factor).add(slice_rows(batch, start, end))

    def merge(self, other: PeopleSums) -> PeopleSums:
        """Add what another has added, and return this one."""
        return self.merge_words(other.words)

    @property
    def words(self) -> NDArray[np.int64]:
        """High and low word of each entry, shape (2, D); the low ones are within 0 to 2^32 - 1."""
        self._group()
        self._settle()
        return np.stack([self._high, self._low])

    def merge_words(self, words: NDArray[np.int64]) -> PeopleSums:
        """Add the words of another; `ValueError` for what can be none."""
        if words.shape != (2, len(self._low)) or ((words[1] < 0) | (words[1] > _LOW)).any():
            raise ValueError("no words of sums over people")
        self._high += words[0]
        self._low += words[1]
        self._carry()
        return self

    def total(self, people: Mapping[int, int]) -> PeopleMoments:
        """Return the moments, if all rows were added; ``people`` is how many have k rows, by k."""
        self._group()
        self._settle()
        weights = {k: min(k, self._counted) for k in people}
        left = sum(n * (WHOLE * weights[k] - k * self._factor(k)) for k, n in people.items())
        whole, rest = divmod(left, WHOLE)
        default = _default_row(self._schema)
        low = self._low + (default & _LOW) * rest
        high = self._high + (default >> _WORD) * rest + (low >> _WORD)
        quotient, remainder = np.divmod(high, WHOLE)
        below = ((remainder << _WORD) + (low & _LOW)) // WHOLE
        packed = (quotient << _WORD) + below + default * whole
        return PeopleMoments(sum(n * weights[k] for k, n in people.items()), packed)

    def _sums_of(self, factor: int) -> MomentSums:
        """Return the sums of rows that are multiplied by one a."""
        if (known := self._by_factor.get(factor)) is not None:
            return known
        if len(self._by_factor) == self._most:
            self._settle()
        new = self._free.pop() if self._free else self._beside()
        self._by_factor[factor] = new
        return new

    def _settle(self) -> None:
        """Multiply what was summed by a, and add it to the accumulator."""
        for factor, sums in self._by_factor.items():
            self._add(sums.take().packed, factor)
            self._free.append(sums)
        self._by_factor.clear()

    def _factor(self, k: int) -> int:
        return WHOLE * min(k, self._counted) // k

    def _add(self, packed: NDArray[np.int64], factor: int) -> None:
        """Add a vector of up to 62 bits, times a factor of up to 20 bits."""
        self._high += (packed >> _WORD) * factor
        self._low += (packed & _LOW) * factor
        self._carry()

    def _carry(self) -> None:
        self._high += self._low >> _WORD
        self._low &= _LOW


def _default_row(schema: Schema) -> NDArray[np.int64]:
    """Return v_0, shape (D,): the packed vector of a row in which every value is missing."""
    row: list[Column] = [
        np.array([np.nan]) if isinstance(each, Numeric) else np.array([MISSING], np.int32)
        for each in schema.attributes
    ]
    sums = MomentSums(schema)
    sums.add(row)
    return sums.total().packed
