"""Counts of labels and of pairs of labels, without indicator columns.

The product of two indicator columns summed over rows is the number of rows with both labels; the
product of a numeric column and an indicator is the sum of the number over the rows with the label.
Both are computed on codes: attributes are packed into groups of a few hundred joint labels, a row
has one key per group, and

* one histogram per pair of groups holds the joint counts of every attribute of one group with every
  attribute of the other, and thus each group's own counts (a single group has its own histogram);
* one sparse product sums the numerics by the keys of all groups, in float32 if that is exact.

Counts of two attributes are marginals of a histogram. All sums are integers. Larger groups mean
fewer histograms, but a histogram beyond the cache takes several times as long, so groups are the
largest whose histograms together have at most `_CACHED_CELLS` cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GROUP_CELLS = (512, 256, 128)  # of a group at most: the first whose histograms fit the cache
_CACHED_CELLS = 1 << 19  # of all histograms together
_SINGLE = 1 << 24  # below it single precision has every whole number


@dataclass(frozen=True, slots=True)
class _Group:
    """Attributes with one joint key; each code is multiplied by its stride."""

    members: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def n_cells(self) -> int:
        return prod(self.sizes)


class ContingencyCounts:
    """Joint counts of labelled attributes, and sums of numbers by label; for one thread.

    ``sizes`` has the number of labels of each of c attributes; ``n_numerics`` is q; ``largest`` is
    a bound on the numerics' ``|z|``.
    """

    def __init__(self, sizes: Sequence[int], *, n_numerics: int, largest: int) -> None:
        self._groups = _pack_groups(sizes)
        # Each attribute's group, and the slice of its labels among the labels of the group.
        self._place = {
            member: (number, slice(first, first + size))
            for number, group in enumerate(self._groups)
            for member, size, first in zip(
                group.members, group.sizes, accumulate(group.sizes, initial=0), strict=False
            )
        }
        self._largest = largest
        cells = [group.n_cells for group in self._groups]
        self._alone = np.zeros(cells[0] if len(cells) == 1 else 0, dtype=np.int64)
        self._starts = [0, *accumulate(cells)]  # of the groups' keys, one after the other
        self._sums = np.zeros((self._starts[-1], n_numerics), dtype=np.int64)
        self._pairs = {
            (s, t): np.zeros(cells[s] * cells[t], dtype=np.int64)
            for s, t in combinations(range(len(cells)), 2)
        }
        self._one = np.ones(0, np.float32)
        self._at = np.zeros(1, np.int32)
        self._joint: dict[tuple[int, int], NDArray[np.int64]] = {}

    def add(self, codes: Sequence[NDArray[np.int32]], numerics: NDArray[np.float32]) -> None:
        """Count rows.

        ``codes`` has one array of shape (n_rows,) per attribute: indices of its labels, all in
        range. ``numerics`` has shape (n_rows, q) and holds integers within the bound.
        """
        self._joint.clear()
        keys = [_key(group, codes) for group in self._groups]
        if keys and numerics.shape[1]:
            self._add_numerics(keys, numerics)
        # In place, because a new histogram per batch would have to be cleared and added.
        if len(keys) == 1:
            np.add.at(self._alone, keys[0], 1)
        for (s, t), table in self._pairs.items():
            key = keys[s] * np.int32(self._groups[t].n_cells)
            key += keys[t]
            np.add.at(table, key, 1)

    def _add_numerics(
        self, keys: Sequence[NDArray[np.int32]], numerics: NDArray[np.float32]
    ) -> None:
        from scipy.sparse import csc_array

        n_rows = len(numerics)
        single = n_rows * self._largest <= _SINGLE
        rows = np.empty(numerics.shape, np.float32 if single else np.float64)
        for column in range(numerics.shape[1]):  # faster than all of them at once
            rows[:, column] = numerics[:, column]
        n_groups = len(keys)
        if len(self._at) <= n_rows:
            self._one = np.ones(n_rows * n_groups, np.float32)
            self._at = np.arange(0, n_rows * n_groups + 1, n_groups, dtype=np.int32)
        places = np.empty((n_rows, n_groups), np.int32)
        for group, (key, start) in enumerate(zip(keys, self._starts, strict=False)):
            np.add(key, np.int32(start), out=places[:, group])
        chosen = csc_array(
            (self._one[: places.size], places.ravel(), self._at[: n_rows + 1]),
            shape=(len(self._sums), n_rows),
            copy=False,
        )
        self._sums += (chosen @ rows).astype(np.int64)

    def counts(self, attribute: int) -> NDArray[np.int64]:
        """Return the rows with each label of an attribute: shape (size,)."""
        number, labels = self._place[attribute]
        return _marginal(self._count_group(number), self._groups[number])[labels]

    def sums(self, attribute: int) -> NDArray[np.int64]:
        """Return the sums of the numerics over the rows with each label: shape (size, q)."""
        number, labels = self._place[attribute]
        sums = self._sums[self._starts[number] : self._starts[number + 1]]
        return _marginal(sums, self._groups[number])[labels]

    def pair(self, first: int, second: int) -> NDArray[np.int64]:
        """Return the rows with each pair of labels of two attributes: shape (size, size)."""
        (s, of_first), (t, of_second) = self._place[first], self._place[second]
        if s > t:
            return self.pair(second, first).T
        if (s, t) not in self._joint:
            if s == t:
                has = _membership(self._groups[s])
                self._joint[s, t] = (has * self._count_group(s) @ has.T).toarray()
            else:
                table = self._pairs[s, t].reshape(self._groups[s].n_cells, -1)
                by_first = _marginal(table, self._groups[s])
                self._joint[s, t] = _marginal(by_first.T, self._groups[t]).T
        return self._joint[s, t][of_first, of_second]

    def _count_group(self, number: int) -> NDArray[np.int64]:
        """Rows with each key of a group."""
        if len(self._groups) == 1:
            return self._alone
        other = 1 if number == 0 else 0
        first, second = sorted((number, other))
        shape = self._groups[first].n_cells, self._groups[second].n_cells
        sums: NDArray[np.int64] = (
            self._pairs[first, second].reshape(shape).sum(axis=int(number == first))
        )
        return sums


def n_groups(sizes: Sequence[int]) -> int:
    """Number of groups into which attributes with these numbers of labels are packed."""
    return len(_pack_groups(sizes))


def _pack_groups(sizes: Sequence[int]) -> list[_Group]:
    for most in _GROUP_CELLS:
        groups = _pack_within(sizes, most)
        cells = [group.n_cells for group in groups]
        if sum(s * t for s, t in combinations(cells, 2)) <= _CACHED_CELLS:
            break
    return groups


def _pack_within(sizes: Sequence[int], most: int) -> list[_Group]:
    """First fit, the largest first."""
    bins: list[list[int]] = []
    for member in sorted(range(len(sizes)), key=lambda each: -sizes[each]):
        for group in bins:
            if prod(sizes[each] for each in group) * sizes[member] <= most:
                group.append(member)
                break
        else:
            bins.append([member])
    groups = []
    for group in bins:
        widths = tuple(sizes[each] for each in group)
        strides = tuple(prod(widths[axis + 1 :]) for axis in range(len(widths)))
        groups.append(_Group(tuple(group), widths, strides))
    return groups


def _key(group: _Group, codes: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    key = codes[group.members[0]] * np.int32(group.strides[0])
    for member, stride in zip(group.members[1:], group.strides[1:], strict=True):
        key += codes[member] * np.int32(stride) if stride > 1 else codes[member]
    return key


def _marginal(table: NDArray[np.int64], group: _Group) -> NDArray[np.int64]:
    """Sums by label from sums by key, along the first axis: the labels of each member in turn."""
    sums: NDArray[np.int64] = table if len(group.members) == 1 else _membership(group) @ table
    return sums


@lru_cache(maxsize=64)
def _membership(group: _Group) -> Any:
    """Return a sparse array, shape (n_labels, n_cells): 1 where a key has a member's label."""
    from scipy.sparse import csc_array

    keys, sizes = np.arange(group.n_cells)[:, None], np.array(group.sizes)
    labels = keys // np.array(group.strides) % sizes + np.cumsum([0, *sizes[:-1]])
    ends = np.arange(0, labels.size + 1, len(sizes))
    ones = np.ones(labels.size, np.int64)
    return csc_array((ones, labels.ravel(), ends), shape=(sizes.sum(), group.n_cells))
