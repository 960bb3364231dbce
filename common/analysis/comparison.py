"""Comparison of two tables of rows by counts: of one attribute, of pairs, and of triples.

Every attribute is cut into public cells: a binary's two values, a categorical's categories, and
equal parts of a numeric's bounds ([-1, 1] for unit-ball rows). Pair tables use the schema's cells
instead (`dppca.common.kernel.schema.cells`), with neighbouring cells merged. The distance of two
tables is the total variation of their shares, ``1/2 sum |p - q|``: 0 for equal shares, 1 if no cell
is shared.

`compare_rows` judges rows by the mean of that distance over pairs and over triples, numerics in
at most `JUDGED_CELLS` cells, and by FLAIM's *workload error* (Maddock, Cormode and Maple 2024): the
mean of ``sum |p - q|``, which is twice the total variation, over 64 random triples and all pairs
and single attributes in them.

Even tables drawn from one distribution differ by chance: two tables of n and m rows that fall into
K cells of shares p are about ``sqrt(1/(2 pi)) (1/n + 1/m)^(1/2) sum sqrt(p (1 - p))`` apart (each
share's difference is nearly normal, and E|N(0, s^2)| = s sqrt(2/pi)).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, pi, sqrt
from random import Random
from statistics import fmean
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.schema import (
    Cells,
    Column,
    ColumnKind,
    Numeric,
    Schema,
    encode,
    encode_values,
)

MARGINAL_CELLS = 20
"""Cells of a numeric in its own marginal."""
PAIR_CELLS = 20
"""Largest number of cells of a numeric in a pair table."""
JUDGED_CELLS = 32
"""Largest number of cells of a numeric in the tables that rows are judged by."""
MOST_PAIRS = 2_000
"""All pairs of up to 63 attributes; of more attributes a random sample, always the same."""
MOST_TRIPLES = 600
"""All triples of up to 16 attributes; of more attributes a random sample, always the same."""
WORKLOAD_TRIPLES = 64  # triples of attributes at most: each costs a table
JUDGED_ROWS = 200_000
"""Rows of each side that are judged; of more rows a random sample, always the same."""
_MOST_CELLS = 1 << 20  # of a table that is counted as an array
_WORST = 10  # pairs that a report names


def assign_cells(
    schema: Schema, columns: Sequence[Column], rows: NDArray[np.int32], *, numeric_cells: int
) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """Return the cell of each value, shape (n, A), and the number of cells of each attribute.

    ``columns`` are uncoded and ``rows`` are the same rows as `encode` codes them, shape (n, p), in
    units of ``2**-g``. A numeric's range is cut into ``numeric_cells >= 1`` equal parts; with
    ``missing: indicator`` the missing values are one part more.
    """
    n_rows, layout = len(rows), schema.layout
    cells = np.empty((n_rows, len(layout.groups)), np.int64)
    half = 1 << (layout.resolution_bits - (0 if layout.unit_ball else 1))
    sizes = []
    for index, (start, stop) in enumerate(layout.groups):
        kind, attribute = layout.kinds[start], schema.attributes[index]
        if isinstance(attribute, Numeric):
            coded = rows[:, stop - 1]
            if kind is ColumnKind.INDICATOR:  # by bins, of which there may be any number
                values = np.asarray(columns[index], np.float64)
                coded = encode_values(attribute, values, 2 * half)
            scaled = (coded.astype(np.int64) + half) * numeric_cells // (2 * half)
            cells[:, index] = np.clip(scaled, 0, numeric_cells - 1)
            if kind is ColumnKind.MISSING:
                cells[rows[:, start] > 0, index] = numeric_cells
            sizes.append(numeric_cells + (kind is ColumnKind.MISSING))
        elif kind is ColumnKind.INDICATOR:
            cells[:, index] = rows[:, start:stop].argmax(axis=1)
            sizes.append(stop - start)
        else:
            cells[:, index] = rows[:, start] > 0
            sizes.append(2)
    return cells, tuple(sizes)


@dataclass(frozen=True, slots=True)
class TableCounts:
    """Rows per cell of every attribute, and of every pair of attributes ``i < j``.

    ``marginals`` has one int64 array of shape (cells,) per attribute; ``pairs`` has int64 arrays of
    shape (cells of i, cells of j), in the order (0, 1), (0, 2), … (1, 2), …
    """

    n_rows: int
    marginals: tuple[NDArray[np.int64], ...]
    pairs: tuple[NDArray[np.int64], ...]

    def merge(self, other: TableCounts) -> TableCounts:
        """Return the counts of both sets of rows together."""
        return TableCounts(
            self.n_rows + other.n_rows,
            tuple(a + b for a, b in zip(self.marginals, other.marginals, strict=True)),
            tuple(a + b for a, b in zip(self.pairs, other.pairs, strict=True)),
        )


def count_cells(schema: Schema, columns: Sequence[Column], rows: NDArray[np.int32]) -> TableCounts:
    """Count a batch of rows: ``columns`` uncoded, ``rows`` as `encode` codes them, shape (n, p)."""
    cells, found = assign_cells(schema, columns, rows, numeric_cells=MARGINAL_CELLS)
    marginals = tuple(np.bincount(cells[:, i], minlength=size) for i, size in enumerate(found))
    cells, sizes = _schema_cells(schema, columns, rows, most=PAIR_CELLS)
    pairs = tuple(
        np.bincount(cells[:, i] * sizes[j] + cells[:, j], minlength=sizes[i] * sizes[j]).reshape(
            sizes[i], sizes[j]
        )
        for i, j in list_pairs(len(sizes))
    )
    return TableCounts(len(rows), marginals, pairs)


def _schema_cells(
    schema: Schema, columns: Sequence[Column], rows: NDArray[np.int32], *, most: int
) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """Cells as `assign_cells` does, those of the schema where it has some, merged to ``most``."""
    cells, sizes = assign_cells(schema, columns, rows, numeric_cells=most)
    merged = list(sizes)
    for i, own in enumerate(schema.cells):
        if own is not None:
            parts = merge_cells(own, most)
            cells[:, i] = parts[own.index(np.asarray(columns[i], np.float64))]
            merged[i] = int(parts.max()) + 1
    return cells, tuple(merged)


def merge_cells(cells: Cells, most: int) -> NDArray[np.int64]:
    """Return one of at most ``most`` cells for each cell of the schema, shape (cells,).

    Neighbouring intervals are merged if there are more; spikes and the missing value keep cells of
    their own.
    """
    own = np.arange(cells.n_cells - cells.n_intervals)
    n = min(cells.n_intervals, most - len(own))
    together = np.arange(cells.n_intervals) * n // cells.n_intervals
    return np.concatenate([together, n + own])


@dataclass(frozen=True, slots=True)
class TableErrors:
    """Distances of one table of rows from another; null where there are too few attributes."""

    one_way: Annotated[float, "total variation of one attribute, mean over all attributes"]
    two_way: Annotated[float | None, "of two attributes, mean over all pairs, or 2,000 of them"]
    three_way: Annotated[float | None, "of three attributes, mean over all triples, or 600 of them"]
    workload: Annotated[
        float | None,
        "sum of differences of shares, mean over 64 random triples and what is in them",
    ]


def compare_rows(schema: Schema, ours: Sequence[Column], theirs: Sequence[Column]) -> TableErrors:
    """Judge rows by other rows, both as uncoded columns of one schema; see the module."""
    return compare_each(schema, [ours], theirs)[0]


def compare_each(
    schema: Schema, tables: Sequence[Sequence[Column]], theirs: Sequence[Column]
) -> list[TableErrors]:
    """Judge each table's rows as `compare_rows` does; the other rows are counted once for all."""
    found = []
    for columns in (*tables, theirs):
        kept = limit_rows(len(columns[0]), JUDGED_ROWS)
        sample = [column[kept] for column in columns]
        found.append(_schema_cells(schema, sample, encode(schema, sample), most=JUDGED_CELLS))
    *ours, last = [cells for cells, _ in found]
    return _compare_all(ours, last, found[-1][1])


def limit_rows(n_rows: int, most: int) -> NDArray[np.int64] | slice:
    """Return an index of all rows, or of ``most`` of them at random, the same for a number."""
    if n_rows <= most:
        return slice(None)
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def compare_cells(
    ours: NDArray[np.int64], theirs: NDArray[np.int64], sizes: Sequence[int]
) -> TableErrors:
    """Judge rows by other rows whose cells, shapes (n, A) and (m, A), are among ``sizes`` each."""
    return _compare_all([ours], theirs, sizes)[0]


def _compare_all(
    tables: Sequence[NDArray[np.int64]], theirs: NDArray[np.int64], sizes: Sequence[int]
) -> list[TableErrors]:
    cells = [np.ascontiguousarray(each.T) for each in (*tables, theirs)]
    n = len(sizes)
    triples, workload = choose_triples(n)
    pairs = choose_pairs(n)
    closure = {part for each in workload for k in (1, 2, 3) for part in combinations(each, k)}
    found = {
        attributes: _joint_variations(cells, sizes, attributes)
        for attributes in {*((i,) for i in range(n)), *pairs, *triples, *closure}
    }

    def errors(table: int) -> TableErrors:
        def mean(attributes: Iterable[tuple[int, ...]]) -> float | None:
            values = [found[each][table] for each in attributes]
            return fmean(values) if values else None

        one_way, error = fmean(found[(i,)][table] for i in range(n)), mean(closure)
        workload_error = None if error is None else 2 * error
        return TableErrors(one_way, mean(pairs), mean(triples), workload_error)

    return [errors(table) for table in range(len(tables))]


def choose_pairs(n_attributes: int) -> list[tuple[int, int]]:
    """Return the pairs of attributes that are judged; they depend on their number alone."""
    pairs = list_pairs(n_attributes)
    if len(pairs) <= MOST_PAIRS:
        return pairs
    return sorted(Random(0).sample(pairs, MOST_PAIRS))  # noqa: S311 - it protects nothing


def choose_triples(
    n_attributes: int,
) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """Return the triples of attributes that are judged, and those of the workload.

    They depend on the number of attributes alone.
    """
    rng = Random(0)  # noqa: S311 - it protects nothing
    if comb(n_attributes, 3) <= MOST_TRIPLES:
        triples = list(combinations(range(n_attributes), 3))
    else:
        drawn: set[tuple[int, int, int]] = set()
        while len(drawn) < MOST_TRIPLES:
            i, j, k = sorted(rng.sample(range(n_attributes), 3))
            drawn.add((i, j, k))
        triples = sorted(drawn)
    return triples, rng.sample(triples, min(WORKLOAD_TRIPLES, len(triples)))


def _joint_variations(
    cells: Sequence[NDArray[np.int64]], sizes: Sequence[int], attributes: tuple[int, ...]
) -> list[float]:
    """Total variation between each table and the last one of the joint shares of some attributes.

    The tables' cells have shape (A, rows).
    """
    keys, size = [each[attributes[0]] for each in cells], sizes[attributes[0]]
    for i in attributes[1:]:
        keys = [key * sizes[i] + each[i] for key, each in zip(keys, cells, strict=True)]
        size *= sizes[i]
    *ours, last = keys
    if size > _MOST_CELLS:
        return [total_variation(*_count_seen(key, last)) for key in ours]
    counted = np.bincount(last, minlength=size)
    return [total_variation(np.bincount(key, minlength=size), counted) for key in ours]


def _count_seen(
    first: NDArray[np.int64], second: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the keys that either of two arrays has, in ascending order of the keys."""
    seen, inverse = np.unique(np.concatenate([first, second]), return_inverse=True)
    parts = np.split(inverse, [len(first)])
    return np.bincount(parts[0], minlength=len(seen)), np.bincount(parts[1], minlength=len(seen))


@dataclass(frozen=True, slots=True)
class Variation:
    """Distance of two tables in one or two attributes."""

    attributes: Annotated[tuple[str, ...], "their names"]
    found: Annotated[float, "total variation, in [0, 1]"]
    by_chance: Annotated[float, "what two samples of one distribution would give on average"]


@dataclass(frozen=True, slots=True)
class PairSummary:
    """Distance of two tables over all pairs of attributes."""

    mean: Annotated[float | None, "total variation, mean of all pairs; null without any"]
    by_chance: Annotated[float | None, "what chance would give, mean of all pairs"]
    worst: Annotated[tuple[Variation, ...], "the ten pairs that differ most"]


def variations(
    schema: Schema, ours: TableCounts, theirs: TableCounts
) -> tuple[tuple[Variation, ...], tuple[Variation, ...]]:
    """Return the variation of every attribute, and of every pair in `TableCounts.pairs`' order."""
    names = [attribute.name for attribute in schema.attributes]
    pairs = [(names[i], names[j]) for i, j in list_pairs(len(names))]

    def between(
        attributes: Sequence[tuple[str, ...]],
        first: Sequence[NDArray[np.int64]],
        second: Sequence[NDArray[np.int64]],
    ) -> tuple[Variation, ...]:
        return tuple(
            Variation(each, total_variation(a, b), expected_variation(a, b))
            for each, a, b in zip(attributes, first, second, strict=True)
        )

    return (
        between([(name,) for name in names], ours.marginals, theirs.marginals),
        between(pairs, ours.pairs, theirs.pairs),
    )


def worst(found: Sequence[Variation], most: int) -> list[int]:
    """Return the indices of the variations that differ most, the largest first."""
    return sorted(range(len(found)), key=lambda index: -found[index].found)[:most]


def list_pairs(n_attributes: int) -> list[tuple[int, int]]:
    """Return the pairs ``i < j`` in the order of `TableCounts.pairs`."""
    return [*combinations(range(n_attributes), 2)]


def total_variation(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Total variation of the shares of two count arrays of one shape; each has at least one row."""
    difference = first / first.sum() - second / second.sum()
    return float(np.abs(difference).sum() / 2)


def expected_variation(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Approximate mean of `total_variation` if both tables are samples of one distribution."""
    n, m = int(first.sum()), int(second.sum())
    shares = (first + second) / (n + m)
    return float(sqrt((1 / n + 1 / m) / (2 * pi)) * np.sqrt(shares * (1 - shares)).sum())


def summarise_pairs(pairs: Sequence[Variation]) -> PairSummary:
    """Summarise the variations of all pairs: their means and the ten largest."""
    return PairSummary(
        mean=fmean(each.found for each in pairs) if pairs else None,
        by_chance=fmean(each.by_chance for each in pairs) if pairs else None,
        worst=tuple(pairs[index] for index in worst(pairs, _WORST)),
    )


def merge_counts(parts: Sequence[TableCounts]) -> TableCounts:
    """Return the counts of all parts together; there must be at least one part."""
    total = parts[0]
    for part in parts[1:]:
        total = total.merge(part)
    return total
