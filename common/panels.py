"""Every attribute of two tables beside each other, as plots of reports and simulations draw them.

Values are drawn as the files hold them, a numeric in its cells, all of them equally wide. What no
cell or label stands for has a bar of its own: values that are not known, and numbers outside the
bounds; so has a value with a cell of its own. Nothing is drawn as what coding makes of it.
Binaries, of which one number says everything, stand together: a row for each, with a dot for each
table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.numerics.values import ValueCounts, cell_edges, even_whole_numbers
from dppca.common.plotting import BLUE, GREY, ORANGE, new_figure, short_number, shortened
from dppca.common.schema import Binary, Cells, Numeric, Schema
from dppca.common.schema.attributes import Date

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNKNOWN = "(not known)"
_MOST_LABELS = 12
_LABEL_LENGTH = 14
_NAME_LENGTH = 28
_PER_ROW = 4


def marginals_figure(
    schema: Schema,
    ours: Sequence[ValueCounts],
    theirs: Sequence[ValueCounts],
    names: tuple[str, str],
    *,
    drawn: Sequence[int],
) -> Figure:
    """A panel for each attribute, and one for all binaries where there are several.

    Parameters
    ----------
    ours, theirs
        Counts of each attribute among two tables, each of a row at least.
    names
        Names of the tables, for the legend: the real rows, and the synthetic ones.
    drawn
        Indices of the attributes that are drawn.
    """
    binaries = [index for index in drawn if isinstance(schema.attributes[index], Binary)]
    binaries = binaries if len(binaries) > 1 else []
    alone = [index for index in drawn if index not in binaries]
    columns = max(1, min(_PER_ROW, len(alone)))
    rows = -(-len(alone) // columns)
    dots = dot_rows(schema, ours, theirs, binaries)
    heights = [2.5] * rows + [0.9 + 0.2 * len(dots)] * bool(dots)
    figure = new_figure(max(3.0 * columns, 6.0 if dots else 0.0), sum(heights) + 0.5)
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    for place, index in enumerate(alone):
        axes = figure.add_subplot(grid[place // columns, place % columns])
        draw_panel(axes, schema, index, ours[index], theirs[index], names)
        if place % columns == 0:
            axes.set_ylabel("share of rows", fontsize=7)
    if dots:
        _draw_dots(figure.add_subplot(grid[-1, :]), dots, names)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=9,
    )
    return figure


def dot_rows(
    schema: Schema,
    ours: Sequence[ValueCounts],
    theirs: Sequence[ValueCounts],
    binaries: Sequence[int],
) -> dict[str, tuple[float, float]]:
    """Shares of the second label of each binary among two tables, and of what is not known."""
    ranges: dict[str, tuple[float, float]] = {}
    for index in binaries:
        attribute, tables = schema.attributes[index], (ours[index], theirs[index])
        assert isinstance(attribute, Binary)  # noqa: S101 - the caller chose them
        name = shortened(attribute.name, _NAME_LENGTH)
        first, second = (float(each.cells[1]) / each.n_rows for each in tables)
        ranges[f"{name} = {shortened(attribute.labels[1], _LABEL_LENGTH)}"] = first, second
        ranges |= {f"{name} {kind}": shares for kind, shares in extra_bars(*tables).items()}
    return ranges


def _draw_dots(axes: Any, dots: Mapping[str, tuple[float, float]], names: tuple[str, str]) -> None:
    places = np.arange(len(dots))[::-1]
    first, second = np.array(list(dots.values())).T
    axes.hlines(places, np.minimum(first, second), np.maximum(first, second), color=GREY, lw=0.8)
    axes.plot(first, places, "o", color=BLUE, markersize=5, label=names[0])
    axes.plot(
        second,
        places,
        "o",
        color=ORANGE,
        markersize=7,
        markerfacecolor="none",
        markeredgewidth=1.6,
        label=names[1],
    )
    axes.set_yticks(places, list(dots), fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.7, len(dots) - 0.3)
    axes.set_title("binaries", fontsize=9)
    axes.set_xlabel("share of rows", fontsize=7)


def draw_panel(
    axes: Any,
    schema: Schema,
    index: int,
    ours: ValueCounts,
    theirs: ValueCounts,
    names: tuple[str, str],
) -> None:
    """Draw shares of one attribute among two tables, each of a row at least.

    Parameters
    ----------
    axes
        Axes of matplotlib.
    index
        Index of the attribute.
    names
        For the legend: of the real rows, and of the synthetic ones.
    """
    attribute = schema.attributes[index]
    axes.set_title(shortened(attribute.name, _NAME_LENGTH), fontsize=9)
    axes.tick_params(labelsize=7)
    if isinstance(attribute, Numeric):
        _draw_numeric(axes, attribute, schema.cells[index], ours, theirs, names)
    else:
        _draw_labels(axes, attribute.labels, ours, theirs, names)


def extra_bars(counts: ValueCounts, other: ValueCounts) -> dict[str, tuple[float, float]]:
    """Shares of both tables that no cell stands for, by what they are; none where both are 0."""
    histogram = {
        "(below)": (counts.below / counts.n_rows, other.below / other.n_rows),
        "(above)": (counts.above / counts.n_rows, other.above / other.n_rows),
        UNKNOWN: (counts.unknown / counts.n_rows, other.unknown / other.n_rows),
    }
    return {name: shares for name, shares in histogram.items() if any(shares)}


def _draw_numeric(
    axes: Any,
    attribute: Numeric,
    cells: Cells | None,
    ours: ValueCounts,
    synthetic: ValueCounts,
    names: tuple[str, str],
) -> None:
    edges = cell_edges(attribute, cells)
    n = len(edges) - 1
    both = [counts.cells / counts.n_rows for counts in (ours, synthetic)]
    evened = even_whole_numbers(cells, n)
    first, second = (shares[:n] * evened for shares in both)
    if evened.min() < evened.max():
        axes.set_xlabel("bars by as many whole numbers each", fontsize=6)
    ends = np.arange(n + 1)
    axes.stairs(first, ends, fill=True, color=BLUE, alpha=0.55, label=names[0])
    axes.stairs(second, ends, color=ORANGE, linewidth=2, label=names[1])
    bars = [
        (n + place * n / 7, name, *shares)
        for place, (name, shares) in enumerate(extra_bars(ours, synthetic).items(), start=1)
    ]
    if cells is not None and cells.spike is not None:
        bars.append((-n / 7, f"= {cells.spike:g}", float(both[0][n]), float(both[1][n])))
    top = 1.4 * float(max(first.max(), second.max()))
    for at, name, *shares in bars:
        _pair(axes, np.array([at]), *(np.array([share]) for share in shares), width=n / 40)
        cut = max(shares) > 2 * top > 0
        axes.text(
            at + (n / 30 if cut else 0),
            0.97 * top if cut else max(shares),
            f"{name}: {shares[0]:.0%}, {shares[1]:.0%}" if cut else f" {name}",
            rotation=90,
            fontsize=6,
            ha="left" if cut else "center",
            va="top" if cut else "bottom",
        )
        axes.margins(y=0.35)  # room for the text
    if any(max(shares) > 2 * top > 0 for _, _, *shares in bars):
        axes.set_ylim(0, top)  # a bar that is cut has its height written beside it
    axes.set_xticks(*_edge_ticks(attribute, edges, cells))


def _edge_ticks(
    attribute: Numeric, edges: NDArray[np.float64], cells: Cells | None
) -> tuple[list[float], list[str]]:
    """Some ends of cells, or whole numbers, dates and labels where a cell holds one."""
    n = len(edges) - 1
    step = max(1, n // (2 if isinstance(attribute, Date) else 4))  # dates are long
    if cells is None or not cells.integer:
        return list(range(0, n + 1, step)), [short_number(edge) for edge in edges[::step]]
    whole = [math.ceil(edge) for edge in edges[:-1]]
    single = whole[-1] - whole[0] == n - 1
    return [at + single / 2 for at in range(0, n, step)], [
        *map(attribute.format_value, whole[::step])
    ]


def _draw_labels(
    axes: Any,
    labels: tuple[str, ...],
    ours: ValueCounts,
    theirs: ValueCounts,
    names: tuple[str, str],
) -> None:
    real, synthetic = ours.cells / ours.n_rows, theirs.cells / theirs.n_rows
    labels_drawn = np.sort(np.argsort(-real, kind="stable")[:_MOST_LABELS])
    extra = extra_bars(ours, theirs)
    ticks = [*(shortened(labels[index], _LABEL_LENGTH) for index in labels_drawn), *extra]
    places = np.arange(len(ticks), dtype=np.float64)
    _pair(
        axes,
        places,
        np.r_[real[labels_drawn], [first for first, _ in extra.values()]],
        np.r_[synthetic[labels_drawn], [second for _, second in extra.values()]],
        width=0.4,
        names=names,
    )
    axes.set_xticks(places, ticks)
    if len(ticks) > 4 or max(len(tick) for tick in ticks) > 8:
        axes.tick_params(axis="x", rotation=60)
    if len(labels_drawn) < len(labels):
        axes.set_xlabel(f"the {len(labels_drawn)} commonest of {len(labels)}", fontsize=7)


def _pair(
    axes: Any,
    places: NDArray[np.float64],
    ours: NDArray[np.float64],
    synthetic: NDArray[np.float64],
    *,
    width: float,
    names: tuple[str, str] | None = None,
) -> None:
    first, second = names or (None, None)
    axes.bar(places - width / 2, ours, width, color=BLUE, label=first)
    axes.bar(
        places + width / 2,
        synthetic,
        width,
        color=ORANGE,
        hatch="///",
        edgecolor="white",
        label=second,
    )
