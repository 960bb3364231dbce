"""Counts of rows by the values in a file, attribute by attribute, before any rule of coding.

They serve pictures of "real" rows: `dppca.common.analysis.comparison` counts *coded* rows, in which
a missing number lies in the middle of the bounds and an unknown label is the first one. Here such a
value counts as unknown. (It is a value of its own if the schema has one: a categorical's
``unknown``.)

Counts of raw rows are site-only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.schema import Attribute, Cells, Column, Numeric, Schema, known_labels
from dppca.common.kernel.schema.cells import N_BINS


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """Rows by the value of one attribute; all counts together are the number of rows.

    ``cells`` is int64: one count for each label, or for each of a numeric's cells: the schema's, or
    `N_BINS` equal parts of the range of a unit-ball attribute. ``below`` and ``above`` count values
    of a numeric outside its bounds; ``unknown`` counts values that are missing, not finite, or a
    label that the attribute does not list.
    """

    cells: NDArray[np.int64]
    below: int
    above: int
    unknown: int

    @property
    def n_rows(self) -> int:
        """Number of rows counted."""
        return int(self.cells.sum()) + self.below + self.above + self.unknown

    def merge(self, other: ValueCounts) -> ValueCounts:
        """Return the counts of both sets of rows together."""
        return ValueCounts(
            self.cells + other.cells,
            self.below + other.below,
            self.above + other.above,
            self.unknown + other.unknown,
        )


def count_values(schema: Schema, columns: Sequence[Column]) -> tuple[ValueCounts, ...]:
    """Count a batch of uncoded columns, in the schema's order."""
    return tuple(
        _count_numeric(attribute, cells, np.asarray(column, np.float64))
        if isinstance(attribute, Numeric)
        else _count_labels(known_labels(attribute, column), len(attribute.labels))
        for attribute, cells, column in zip(schema.attributes, schema.cells, columns, strict=True)
    )


def value_range(attribute: Numeric) -> tuple[float, float]:
    """Return the ends of the cells: the bounds, or centre minus and plus scale."""
    if attribute.centre is not None and attribute.scale is not None:
        return attribute.centre - attribute.scale, attribute.centre + attribute.scale
    assert attribute.lower is not None  # noqa: S101 - the schema's validator requires it
    assert attribute.upper is not None  # noqa: S101
    return attribute.lower, attribute.upper


def cell_edges(attribute: Numeric, cells: Cells | None) -> NDArray[np.float64]:
    """Return the ends of the intervals in which values of a numeric are counted."""
    return np.linspace(*value_range(attribute), N_BINS + 1) if cells is None else cells.edges


def known_cells(attribute: Attribute, column: Column) -> NDArray[np.bool_]:
    """Return True for values that are known and not filled in by a rule, shape (n_rows,)."""
    if not isinstance(attribute, Numeric):
        return known_labels(attribute, column) >= 0
    lower, upper = value_range(attribute)
    inside: NDArray[np.bool_] = (column >= lower) & (column <= upper)
    return inside


def _count_numeric(
    attribute: Numeric, cells: Cells | None, values: NDArray[np.float64]
) -> ValueCounts:
    lower, upper = value_range(attribute)
    finite = values[np.isfinite(values)]
    inside = finite[(finite >= lower) & (finite <= upper)]
    if cells is None:
        counts, _ = np.histogram(inside, bins=N_BINS, range=(lower, upper))
    else:
        counts = np.bincount(cells.index(inside), minlength=cells.n_cells)
    return ValueCounts(
        cells=counts.astype(np.int64),
        below=int((finite < lower).sum()),
        above=int((finite > upper).sum()),
        unknown=len(values) - len(finite),
    )


def _count_labels(codes: NDArray[np.int64], n_labels: int) -> ValueCounts:
    counts = np.bincount(codes + 1, minlength=n_labels + 1)
    return ValueCounts(counts[1:], 0, 0, int(counts[0]))
