"""Comparison of two tables by counts: marginals and pair tables.

Every attribute is cut into public cells: a binary's two values, a categorical's categories, and
equal parts of a numeric's bounds ([-1, 1] for unit-ball rows). Pair tables use the schema's cells
instead (`dppca.common.schema.cells`), with neighbouring cells merged. The distance of two tables is
the total variation of their shares, ``1/2 sum |p - q|``: 0 for equal shares, 1 if no cell is
shared.

Even tables drawn from one distribution differ by chance: two tables of n and m rows that fall into
K cells of shares p are about ``sqrt(1/(2 pi)) (1/n + 1/m)^(1/2) sum sqrt(p (1 - p))`` apart (each
share's difference is nearly normal, and E|N(0, s^2)| = s sqrt(2/pi)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt
from statistics import fmean
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dppca.common.schema import Cells, Column, ColumnKind, Numeric, Schema, encode_numeric

MARGINAL_CELLS = 20
"""Cells of a numeric in its own marginal."""
PAIR_CELLS = 20
"""Largest number of cells of a numeric in a pair table."""
_WORST = 10


def assign_cells(
    schema: Schema, columns: Sequence[Column], rows: NDArray[np.int32], *, numeric_cells: int
) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """Return the cell of each value, shape (n, A), and the number of cells of each attribute.

    ``columns`` are uncoded and ``rows`` are the same rows as `encode` codes them, shape (n, p), in
    units of ``2**-g``. A numeric's range is cut into ``numeric_cells >= 1`` equal parts.
    """
    n_rows, layout = len(rows), schema.layout
    cells = np.empty((n_rows, len(layout.groups)), np.int64)
    half = 1 << (layout.resolution_bits - (0 if layout.unit_ball else 1))
    sizes = []
    for index, (start, stop) in enumerate(layout.groups):
        kind, attribute = layout.kinds[start], schema.attributes[index]
        if isinstance(attribute, Numeric):
            coded = rows[:, start]
            if kind is ColumnKind.INDICATOR:  # by bins, of which there may be any number
                values = np.asarray(columns[index], np.float64)
                coded = encode_numeric(attribute, values, 2 * half)
            scaled = (coded.astype(np.int64) + half) * numeric_cells // (2 * half)
            cells[:, index] = np.clip(scaled, 0, numeric_cells - 1)
            sizes.append(numeric_cells)
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
    cells, found = assign_cells(schema, columns, rows, numeric_cells=PAIR_CELLS)
    sizes = list(found)
    for i, own in enumerate(schema.cells):
        if own is not None:
            parts = pair_cells(own)
            cells[:, i] = parts[own.index(np.asarray(columns[i], np.float64))]
            sizes[i] = int(parts.max()) + 1
    pairs = tuple(
        np.bincount(cells[:, i] * sizes[j] + cells[:, j], minlength=sizes[i] * sizes[j]).reshape(
            sizes[i], sizes[j]
        )
        for i, j in list_pairs(len(sizes))
    )
    return TableCounts(len(rows), marginals, pairs)


def pair_cells(cells: Cells) -> NDArray[np.int64]:
    """Return the pair table's cell for each cell of the schema, shape (cells,).

    Neighbouring intervals are merged if there are more than `PAIR_CELLS`; spikes and the missing
    value keep cells of their own.
    """
    own = np.arange(cells.n_cells - cells.n_intervals)
    n = min(cells.n_intervals, PAIR_CELLS - len(own))
    together = np.arange(cells.n_intervals) * n // cells.n_intervals
    return np.concatenate([together, n + own])


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
    return [(i, j) for i in range(n_attributes) for j in range(i + 1, n_attributes)]


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
