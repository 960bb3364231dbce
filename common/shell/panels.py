"""One attribute of two tables side by side, as pages and pictures draw it.

Values are those in the files, a numeric in its cells, all drawn equally wide. Values without a cell
or label have bars of their own: unknown values, and numbers outside the bounds; so has a value with
a cell of its own. No coded values are drawn.
"""

from dataclasses import dataclass
from itertools import pairwise

from dppca.common.analysis.values import ValueCounts, cell_edges
from dppca.common.kernel.schema import Cells, Numeric, Schema

UNKNOWN = "(not known)"
_MOST_LABELS = 12  # of an attribute on an axis


@dataclass(frozen=True, slots=True)
class Cell:
    """Shares of the rows of two tables that have one value, or a value of one cell."""

    name: str
    ours: float
    theirs: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One attribute in two tables; ``left_out`` labels are rarer than those shown.

    ``edges`` are those of a number's cells, one more than there are intervals; empty for others.
    """

    name: str
    numeric: bool
    cells: tuple[Cell, ...]
    left_out: int = 0
    edges: tuple[float, ...] = ()


def make_panel(schema: Schema, index: int, ours: ValueCounts, theirs: ValueCounts) -> Panel:
    """Compare one attribute of two tables, each with at least one row; at most 12 labels."""
    attribute = schema.attributes[index]
    first, second = ours.cells / ours.n_rows, theirs.cells / theirs.n_rows
    edges: list[float] = []
    if isinstance(attribute, Numeric):
        cells = schema.cells[index]
        edges = cell_edges(attribute, cells).tolist()
        names = _cell_names(attribute, cells, edges)
        if cells is not None:
            spikes = cells.names[cells.n_intervals :][: len(cells.spikes)]
            names += [f"= {spike}" for spike in spikes]
        shown = list(range(len(names)))
    else:
        names = list(attribute.labels)
        shown = sorted(sorted(range(len(names)), key=lambda i: -first[i])[:_MOST_LABELS])
    found = [Cell(names[i], float(first[i]), float(second[i])) for i in shown]
    found += _extra_cells(ours, theirs)
    numeric = isinstance(attribute, Numeric)
    edges = edges if type(attribute) is Numeric else []  # not days, not ordered labels
    return Panel(attribute.name, numeric, tuple(found), len(names) - len(shown), tuple(edges))


def _extra_cells(ours: ValueCounts, theirs: ValueCounts) -> list[Cell]:
    """Return both tables' shares of rows outside all cells, without those that are 0 in both."""
    found = [
        Cell(name, getattr(ours, field) / ours.n_rows, getattr(theirs, field) / theirs.n_rows)
        for name, field in (("(below)", "below"), ("(above)", "above"), (UNKNOWN, "unknown"))
    ]
    return [cell for cell in found if cell.ours or cell.theirs]


def _cell_names(attribute: Numeric, cells: Cells | None, edges: list[float]) -> list[str]:
    """Return the name of each cell: ends of an interval, or whole numbers, dates or labels."""
    if cells is None or not cells.integer:
        return [f"{a:.4g} to {b:.4g}" for a, b in pairwise(edges)]
    return [
        attribute.format_value(first)
        if first == last
        else f"{attribute.format_value(first)} to {attribute.format_value(last)}"
        for first, last in zip(*(each.tolist() for each in cells.ends), strict=True)
    ]
