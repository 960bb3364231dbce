"""One attribute of two tables beside each other, as pages and pictures draw it.

Values are those that the files hold, a numeric in its cells, all of them drawn equally wide. What
no cell or label stands for has a bar of its own: values that are not known, and numbers outside
the bounds; so has a value with a cell of its own. Nothing is drawn as what coding makes of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from dppca.common.numerics.values import ValueCounts, cell_edges
from dppca.common.schema import Cells, Numeric, Schema

UNKNOWN = "(not known)"
_MOST_LABELS = 12


@dataclass(frozen=True, slots=True)
class Cell:
    """Shares of the rows of two tables that have one value, or a value of one cell."""

    name: str
    ours: float
    theirs: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One attribute in two tables; ``left_out`` labels are rarer than those shown."""

    name: str
    numeric: bool
    cells: tuple[Cell, ...]
    left_out: int = 0


def make_panel(schema: Schema, index: int, ours: ValueCounts, theirs: ValueCounts) -> Panel:
    """The attribute with this index in two tables, each of a row at least; 12 labels at most."""
    attribute = schema.attributes[index]
    first, second = ours.cells / ours.n_rows, theirs.cells / theirs.n_rows
    if isinstance(attribute, Numeric):
        cells = schema.cells[index]
        edges = cell_edges(attribute, cells)
        names = _cell_names(attribute, cells, edges.tolist())
        if cells is not None and cells.spike is not None:
            names.append(f"= {cells.spike:g}")
        shown = list(range(len(names)))
    else:
        names = list(attribute.labels)
        shown = sorted(sorted(range(len(names)), key=lambda i: -first[i])[:_MOST_LABELS])
    found = [Cell(names[i], float(first[i]), float(second[i])) for i in shown]
    found += _extra_cells(ours, theirs)
    numeric = isinstance(attribute, Numeric)
    return Panel(attribute.name, numeric, tuple(found), len(names) - len(shown))


def _extra_cells(ours: ValueCounts, theirs: ValueCounts) -> list[Cell]:
    """Shares of both tables that no cell stands for; none where both are 0."""
    found = [
        Cell(name, getattr(ours, field) / ours.n_rows, getattr(theirs, field) / theirs.n_rows)
        for name, field in (("(below)", "below"), ("(above)", "above"), (UNKNOWN, "unknown"))
    ]
    return [cell for cell in found if cell.ours or cell.theirs]


def _cell_names(attribute: Numeric, cells: Cells | None, edges: list[float]) -> list[str]:
    """What lies in each cell: ends of intervals, or whole numbers, dates and labels."""
    if cells is None or not cells.integer:
        return [f"{a:.4g} to {b:.4g}" for a, b in pairwise(edges)]
    ends = [*(math.ceil(edge) - 1 for edge in edges[1:-1]), math.floor(edges[-1])]
    return [
        attribute.format_value(first)
        if first == last
        else f"{attribute.format_value(first)} to {attribute.format_value(last)}"
        for first, last in zip(map(math.ceil, edges[:-1]), ends, strict=True)
    ]
