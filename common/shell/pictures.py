"""Biplots and heat maps, for `--plots`, notebooks and reports (matplotlib).

A biplot (Gabriel, 1971) draws rows as points and attributes as arrows in one plane: a point's
coordinates are the row's scores, an arrow's are the column's loadings, times one common factor.
All other charts are drawn by `dppca.common.shell.charts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.comparison import Variation
from dppca.common.analysis.loadings import Loading, Mixtures, column_labels, mixture_text
from dppca.common.kernel.schema import Schema
from dppca.common.shell.plotting import BLUE, GREY, INK, ORANGE, WARNING_RED, new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 2000
"""Largest number of rows of each table in a biplot; more would only fill it with ink."""
_MOST_ARROWS = 10  # of a biplot; the longest
_MOST_WRITTEN = 12  # largest number of attributes for which the heat map shows numbers
_MOST_NAMED = 60  # attributes of a heat map; beyond it names would overlap
_NAME_LENGTH = 28  # characters


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


def biplot_figure(
    schema: Schema,
    vectors: NDArray[np.float64],
    mean: NDArray[np.float64] | None,
    tables: Sequence[tuple[str, NDArray[np.float64]]],
    mixtures: Mixtures,
) -> Figure:
    """Draw rows on the first two components, with the largest loadings as arrows.

    ``vectors``, shape (k, p) with k >= 2, has the components as rows; ``mean``, shape (p,), coded
    units, is the plane's origin, None for 0. ``tables`` has one or two pairs of a name for the
    legend and rows in coded units, shape (n, p); the first `MOST_POINTS` rows are drawn. Where a
    component is one of ``mixtures``, the plane or its axes mean nothing: that is said, and there
    are no arrows.
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
    mixed = next((each for each in mixtures[:2] if each), ())
    if mixed:
        axes.set_title(mixture_text(mixed).replace(": ", ":\n"), fontsize=9, color=WARNING_RED)
    else:
        _draw_arrows(axes, schema, plane, most or 1.0)
    return figure


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
