"""Plots of a quality report, as PNG bytes for a page."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from common.plotting import BLUE, DPI, GREY, ORANGE, new_figure
from common.schema import Numeric, Schema
from owner.quality import CodedTable, Quality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = 24
_PER_ROW = 4
_MOST_LABELS = 12


def marginal_plot(
    schema: Schema, real: CodedTable, synthetic: CodedTable, quality: Quality
) -> bytes:
    """Shares of every attribute, or of the 24 that differ most, real beside synthetic."""
    order = sorted(range(len(schema.attributes)), key=lambda i: -quality.marginals[i].found)
    shown = sorted(order[:PANELS])
    columns = min(_PER_ROW, len(shown))
    rows = -(-len(shown) // columns)
    figure = new_figure(3.0 * columns, 2.4 * rows + 0.5)
    grid = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    for axes, index in zip(grid, shown, strict=False):
        attribute = schema.attributes[index]
        ours = real.counts.marginals[index] / real.n_rows
        theirs = synthetic.counts.marginals[index] / synthetic.n_rows
        axes.set_title(attribute.name, fontsize=9)
        axes.tick_params(labelsize=7)
        if isinstance(attribute, Numeric):
            _steps(axes, attribute, ours, theirs)
        else:
            _bars(axes, attribute.labels, ours, theirs)
    for axes in grid[len(shown) :]:
        axes.set_visible(False)
    handles, names = grid[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    figure.supylabel("share of rows", fontsize=9)
    return _png(figure)


def pair_plot(schema: Schema, quality: Quality) -> bytes:
    """Total variation of every pair of attributes; on the diagonal that of one alone."""
    names = [attribute.name for attribute in schema.attributes]
    size = len(names)
    matrix = np.zeros((size, size))
    matrix[np.diag_indices(size)] = [each.found for each in quality.marginals]
    upper = np.triu_indices(size, 1)
    matrix[upper] = [each.found for each in quality.pairs]
    matrix[upper[::-1]] = matrix[upper]
    width = min(12.0, 2.5 + 0.3 * size)
    figure = new_figure(width + 1, width)
    axes = figure.subplots()
    image = axes.imshow(matrix, cmap="cividis", vmin=0, vmax=max(0.1, float(matrix.max())))
    if size <= 40:
        axes.set_xticks(range(size), names, rotation=90, fontsize=7)
        axes.set_yticks(range(size), names, fontsize=7)
    figure.colorbar(image, label="total variation")
    return _png(figure)


def accuracy_plot(quality: Quality) -> bytes:
    """Accuracy of predicting each target, by what was trained on."""
    found = quality.accuracies
    figure = new_figure(7, 0.8 + 0.5 * len(found))
    axes = figure.subplots()
    places = np.arange(len(found))[::-1]
    axes.plot(
        [each.trained_on_real for each in found], places, "o", color=BLUE, label="on real rows"
    )
    axes.plot(
        [each.trained_on_synthetic for each in found],
        places,
        "s",
        color=ORANGE,
        markerfacecolor="white",
        label="on synthetic rows",
    )
    axes.plot(
        [each.majority for each in found], places, "|", color=GREY, markersize=14, label="majority"
    )
    axes.set_yticks(places, [each.target for each in found], fontsize=8)
    axes.set_xlim(0, 1.02)
    axes.set_ylim(-0.6, len(found) - 0.4)
    axes.set_xlabel("accuracy on this site's rows")
    axes.legend(frameon=False, fontsize=8)
    return _png(figure)


def _steps(axes: Any, attribute: Numeric, ours: Any, theirs: Any) -> None:
    lower = -1.0 if attribute.lower is None else attribute.lower
    upper = 1.0 if attribute.upper is None else attribute.upper
    edges = np.linspace(lower, upper, len(ours) + 1)
    axes.stairs(ours, edges, fill=True, color=BLUE, alpha=0.55, label="this site's rows")
    axes.stairs(theirs, edges, color=ORANGE, linewidth=2, label="synthetic rows")


def _bars(
    axes: Any, labels: tuple[str, ...], ours: NDArray[np.float64], theirs: NDArray[np.float64]
) -> None:
    shown = np.sort(np.argsort(-ours, kind="stable")[:_MOST_LABELS])
    places = np.arange(len(shown))
    axes.bar(places - 0.2, ours[shown], 0.4, color=BLUE, label="this site's rows")
    axes.bar(
        places + 0.2,
        theirs[shown],
        0.4,
        color=ORANGE,
        hatch="///",
        edgecolor="white",
        label="synthetic rows",
    )
    axes.set_xticks(places, [labels[index][:14] for index in shown])
    if len(shown) > 4 or max(len(labels[index]) for index in shown) > 8:
        axes.tick_params(axis="x", rotation=60)
    if len(shown) < len(labels):
        axes.set_xlabel(f"the {len(shown)} commonest of {len(labels)}", fontsize=7)


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
