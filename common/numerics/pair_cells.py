"""Cells of attributes in two-way tables: coarse enough to be counted and drawn, and public.

A label is a cell. A numeric's cells are the schema's (`dppca.common.schema.cells`), neighbours put
together where there are more than `PAIR_CELLS`; a value with a cell of its own keeps it, at its
place among the others, and what is missing comes last. Unit-ball attributes have equal parts of
their range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.numerics.values import value_range
from dppca.common.schema import Attribute, Cells, Numeric, Schema
from dppca.common.schema.attributes import Date, Ordinal

PAIR_CELLS = 20


@dataclass(frozen=True, slots=True)
class PairAxis:
    """The cells of one attribute in two-way tables.

    Attributes
    ----------
    names
        A label, or the least value of the cell.
    numeric
        Whether the cells are in ascending order.
    parts
        Shape (cells of the schema,): which cell of the table each is in; None where the schema has
        none.
    """

    names: tuple[str, ...]
    numeric: bool
    parts: NDArray[np.int64] | None

    @property
    def n_cells(self) -> int:
        """Cells of the table."""
        return len(self.names)


def pair_axes(schema: Schema) -> tuple[PairAxis, ...]:
    """The cells of every attribute."""
    return tuple(map(_axis, schema.attributes, schema.cells))


def _axis(attribute: Attribute, cells: Cells | None) -> PairAxis:
    if not isinstance(attribute, Numeric):
        return PairAxis(attribute.labels, numeric=False, parts=None)
    if cells is None:
        edges = np.linspace(*value_range(attribute), PAIR_CELLS + 1)
        names = [f"{edge:.3g}" for edge in edges[:-1]]
        return PairAxis(tuple(names), numeric=True, parts=None)
    has_spike = cells.spike is not None
    n = min(cells.n_intervals, PAIR_CELLS - has_spike - cells.missing)
    parts = np.arange(cells.n_intervals) * n // cells.n_intervals
    first = np.searchsorted(parts, np.arange(n))
    least = [float(cells.edges[interval]) for interval in first]
    names = [f"{math.ceil(edge) if cells.integer else edge:.4g}" for edge in least]
    if isinstance(attribute, Date | Ordinal):
        names = [attribute.format_value(math.ceil(edge)) for edge in least]
    if cells.spike is not None:
        below = int((cells.edges[1:] <= cells.spike).sum())
        at = int(parts[below]) if below < len(parts) else n
        if below < len(parts) and least[at] < cells.spike:
            at += 1
        parts = np.append(parts + (parts >= at), at)
        names.insert(at, f"= {cells.spike:g}")
    if cells.missing:
        parts = np.append(parts, len(names))
        names.append("missing")
    return PairAxis(tuple(names), numeric=True, parts=parts)
