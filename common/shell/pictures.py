"""Pictures of results and of tables, for `--plots`, notebooks and reports (matplotlib).

A biplot (Gabriel, 1971) draws rows as points and attributes as arrows in one plane: a point's
coordinates are the row's scores, an arrow's are the column's loadings, times one common factor.
Charts of pages are SVG, by `dppca.common.pages`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.comparison import Variation
from dppca.common.analysis.loadings import Loading, column_labels, largest_loadings
from dppca.common.kernel.schema import Schema
from dppca.common.shell.panels import Panel
from dppca.common.shell.plotting import BLUE, GREY, INK, ORANGE, WARNING_RED, new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 2000
"""Largest number of rows of each table in a biplot; more would only fill it with ink."""
_MOST_COMPONENTS = 6
_MOST_BARS = 12
_MOST_ARROWS = 10
_MOST_TICKS = 12
_MOST_WRITTEN = 12  # largest number of attributes for which the heat map shows numbers
_MOST_NAMED = 60
_PER_ROW = 3
_PANELS_PER_ROW = (4, 5, 3)  # the first that leaves least of the last row empty
_MOST_LETTERS = 36  # of all labels under a panel that do not touch each other
_NAME_LENGTH = 28
_LABEL_LENGTH = 14


def marginals_figure(panels: Sequence[Panel], names: tuple[str, str], *, notice: str) -> Figure:
    """Draw shares of each attribute in two tables: filled bars, and hollow ones in front.

    ``names`` denote the real and the synthetic rows in the legend; ``notice``, at the top,
    says where the picture may go.
    """
    columns = min(len(panels), min(_PANELS_PER_ROW, key=lambda each: -len(panels) % each))
    rows = -(-len(panels) // columns)
    figure = new_figure(max(6.0, 3.0 * columns), 2.5 * rows + 0.5)
    figure.suptitle(notice, color=WARNING_RED, fontsize=10, fontweight="bold")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, panel in zip(grid, panels, strict=False):
        _draw_panel(axes, panel, names)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    drawn = grid[0].get_legend_handles_labels()
    figure.legend(*drawn, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.supylabel("share of rows", fontsize=9)
    return figure


def _draw_panel(axes: Any, panel: Panel, names: tuple[str, str]) -> None:
    places = np.arange(len(panel.cells))
    first, second = np.array([(cell.ours, cell.theirs) for cell in panel.cells]).T
    axes.bar(places, first, 0.9, color=BLUE, alpha=0.55, label=names[0])
    axes.bar(places, second, 0.7, color="none", edgecolor=ORANGE, linewidth=1.5, label=names[1])
    # Some of a numeric's intervals have a tick; so have all other cells, such as "(above)".
    step = -(-len(places) // _MOST_TICKS) if panel.numeric else 1
    beside = [i for i, cell in enumerate(panel.cells) if panel.numeric and cell.name[0] in "(="]
    named = {
        float(i): panel.cells[i].name
        for i in places.tolist()
        if i in beside or (not i % step and not panel.edges)
    }
    if panel.edges:  # round numbers, wherever the edges of cells are
        from matplotlib.ticker import MaxNLocator

        low, high = panel.edges[0], panel.edges[-1]
        for value in MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high):
            place = float(np.interp(value, panel.edges, np.arange(len(panel.edges)) - 0.5))
            if low <= value <= high and all(abs(place - i) > len(places) / 12 for i in beside):
                named[place] = f"{value:g}"
    top = 1.4 * float(np.delete(np.maximum(first, second), beside).max(initial=0.0))
    cut = [i for i in beside if max(first[i], second[i]) > 2 * top > 0]
    if cut:
        axes.set_ylim(0, top)  # rare values stay visible; the shares of cut bars are written
        for i in cut:
            label = f"{first[i]:.0%}, {second[i]:.0%}"
            axes.text(i, 0.97 * top, label, rotation=90, fontsize=6, ha="right", va="top")
    labels = [shortened(name, _LABEL_LENGTH) for name in named.values()]
    upright = sum(map(len, labels)) > _MOST_LETTERS
    axes.set_xticks([*named], labels, rotation=90 if upright else 0)
    axes.tick_params(labelsize=6)
    axes.set_title(shortened(panel.name, _NAME_LENGTH), fontsize=9)
    if panel.left_out:
        axes.set_xlabel(f"and {panel.left_out} rarer labels", fontsize=7)


def variation_figure(
    marginals: Sequence[Variation], pairs: Sequence[Variation], *, notice: str
) -> Figure:
    """Draw total variations of all pairs of attributes as a heat map; single ones on its diagonal.

    ``marginals`` are for n attributes, ``pairs`` for their n (n - 1) / 2 pairs in the order of
    `list_pairs`; ``notice``, at the top, says where the picture may go.
    """
    names = [shortened(each.attributes[0], _NAME_LENGTH) for each in marginals]
    n = len(names)
    matrix = np.diag([each.found for each in marginals])
    upper = np.triu_indices(n, 1)
    matrix[upper] = matrix.T[upper] = [each.found for each in pairs]
    side = min(14.0, max(6.0, 2.0 + 0.3 * n))
    figure = new_figure(side + 1.5, side)
    figure.suptitle(notice, color=WARNING_RED, fontsize=10, fontweight="bold")
    axes = figure.subplots()
    most = max(0.1, float(matrix.max()))
    image = axes.imshow(matrix, cmap="cividis", vmin=0, vmax=most)
    axes.set_title("total variation of each pair of attributes; diagonal: one alone", fontsize=9)
    if n <= _MOST_NAMED:
        axes.set_xticks(range(n), names, rotation=90, fontsize=7)
        axes.set_yticks(range(n), names, fontsize=7)
    if n <= _MOST_WRITTEN:
        for (i, j), value in np.ndenumerate(matrix):
            colour = "#000000" if value > most / 2 else "#fefefe"
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    figure.colorbar(image, ax=axes, label="total variation", fraction=0.05)
    return figure


def loadings_figure(
    schema: Schema,
    vectors: NDArray[np.float64],
    eigenvalues: NDArray[np.float64],
    noise_edge: float,
) -> Figure:
    """Draw the twelve largest loadings of each of the first six components.

    ``vectors`` has the components as rows, shape (k, p); ``eigenvalues`` is descending, of length k
    or more, and ``noise_edge`` is in the same units.
    """
    drawn = largest_loadings(schema, vectors[:_MOST_COMPONENTS], most=_MOST_BARS)
    columns = min(_PER_ROW, len(drawn))
    rows = -(-len(drawn) // columns)
    bars = max(len(loadings) for loadings in drawn)
    figure = new_figure(4.2 * columns, (1.15 + 0.22 * bars) * rows + 0.5)
    grid = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    for number, (axes, loadings) in enumerate(zip(grid, drawn, strict=False), start=1):
        value = eigenvalues[number - 1]
        side = "above" if value > noise_edge else "NOT above"
        axes.set_title(f"component {number}: {value:.3g}\n{side} the noise edge", fontsize=9)
        _draw_bars(axes, loadings)
    for axes in grid[len(drawn) :]:
        axes.set_visible(False)
    figure.supxlabel("loading (coded units); hatched: negative", fontsize=9)
    return figure


def biplot_figure(
    schema: Schema,
    vectors: NDArray[np.float64],
    mean: NDArray[np.float64] | None,
    tables: Sequence[tuple[str, NDArray[np.float64]]],
) -> Figure:
    """Draw rows on the first two components, with the largest loadings as arrows.

    ``vectors``, shape (k, p) with k >= 2, has the components as rows; ``mean``, shape (p,), coded
    units, is the plane's origin, None for 0. ``tables`` has one or two pairs of a name for the
    legend and rows in coded units, shape (n, p); the first `MOST_POINTS` rows are drawn.
    """
    plane = vectors[:2]
    figure = new_figure(7, 6)
    axes = figure.subplots()
    most = 0.0
    marks = [(BLUE, "o"), (ORANGE, "x")]
    for (name, rows), (colour, marker) in zip(tables, marks[-len(tables) :], strict=True):
        shown = rows[:MOST_POINTS]
        scores = (shown if mean is None else shown - mean) @ plane.T
        most = max(most, float(np.abs(scores).max(initial=0.0)))
        axes.scatter(
            scores[:, 0],
            scores[:, 1],
            s=8,
            c=colour,
            marker=marker,
            linewidths=0.7,
            alpha=0.35,
            label=name,
            rasterized=True,
        )
    axes.axhline(0, color=GREY, linewidth=0.5)
    axes.axvline(0, color=GREY, linewidth=0.5)
    axes.set_xlabel("component 1")
    axes.set_ylabel("component 2")
    axes.set_aspect("equal", adjustable="datalim")
    axes.legend(frameon=False, fontsize=8)
    _draw_arrows(axes, schema, plane, most or 1.0)
    return figure


def _draw_bars(axes: Any, loadings: Sequence[Loading]) -> None:
    places = np.arange(len(loadings))[::-1]
    for place, each in zip(places, loadings, strict=True):
        negative = each.loading < 0
        axes.barh(
            place,
            each.loading,
            color=ORANGE if negative else BLUE,
            hatch="///" if negative else None,
            edgecolor="white",
        )
    axes.set_yticks(places, [shortened(each.name, _NAME_LENGTH) for each in loadings], fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_xlim(-1, 1)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])


def _draw_arrows(axes: Any, schema: Schema, plane: NDArray[np.float64], most: float) -> None:
    """Draw arrows of the longest columns; the longest one reaches as far as the farthest score.

    An arrow is left out if its name would overlap the name of a longer one.
    """
    lengths = np.hypot(*plane)
    ends = plane.T * (most / lengths.max() if lengths.max() > 0 else 0.0)
    names = column_labels(schema)
    axes.update_datalim(1.25 * ends)  # arrows and texts do not widen an axis by themselves
    taken: list[Any] = []
    for index in np.argsort(-lengths, kind="stable")[:_MOST_ARROWS]:
        if lengths[index] == 0:
            continue
        text = axes.text(
            *(1.06 * ends[index]),
            shortened(Loading(names[index][0], names[index][1], 0.0).name, _NAME_LENGTH),
            fontsize=8,
            ha="left" if ends[index, 0] >= 0 else "right",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
        )
        axes.autoscale_view()
        box = text.get_window_extent().expanded(1.02, 1.1)
        axes.update_datalim(axes.transData.inverted().transform(box))
        if any(box.overlaps(each) for each in taken):
            text.remove()
            continue
        taken.append(box)
        axes.annotate(
            "", xy=ends[index], xytext=(0, 0), arrowprops={"arrowstyle": "->", "color": INK}
        )
