"""Plots of a simulation: readable in print, in grey and with any colour vision.

Real rows are blue, synthetic ones orange (`dppca.common.plotting`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dppca.common.loading_panels import biplot_figure, loadings_figure
from dppca.common.numerics.comparison import TableCounts
from dppca.common.numerics.values import ValueCounts
from dppca.common.pair_panels import pair_figure
from dppca.common.panels import draw_panel
from dppca.common.plotting import BLUE, DPI, GREY, ORANGE, WARNING_RED, new_figure
from dppca.common.results import Result
from dppca.common.schema import Schema

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANELS_PER_ROW = 4
NOTICE = "known to a simulation only: made of the real rows of all owners"
_NAMES = ("real training rows", "synthetic rows (decoded)")


def scree_figure(
    *,
    eigenvalues: NDArray[np.float64],
    noise_free: NDArray[np.float64],
    count: int,
    noise_edge: float,
) -> Figure:
    """Eigenvalues of the private covariance, which are kept, and what noise alone would reach.

    Parameters
    ----------
    eigenvalues, noise_free
        Shape (p,), descending; the second only a simulation knows.
    count
        k, how many are kept.
    """
    figure = new_figure(7, 4.2)
    axes = figure.subplots()
    ranks = np.arange(1, len(eigenvalues) + 1)
    size = 6 if len(ranks) <= 40 else 3
    axes.plot(
        ranks,
        noise_free,
        color=GREY,
        marker="x",
        markersize=size,
        linewidth=1,
        linestyle=":",
        label="without noise (known to a simulation only)",
    )
    axes.plot(ranks, eigenvalues, color=BLUE, linewidth=1)
    axes.plot(
        ranks[:count],
        eigenvalues[:count],
        "o",
        color=BLUE,
        markersize=size,
        label=f"private, kept ({count})",
    )
    axes.plot(
        ranks[count:],
        eigenvalues[count:],
        "o",
        color=BLUE,
        markersize=size,
        markerfacecolor="white",
        label="private, dropped",
    )
    axes.axhline(
        noise_edge,
        color=ORANGE,
        linestyle="--",
        linewidth=2,
        label="noise edge: largest eigenvalue of noise alone, 95 % of draws",
    )
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xlabel("component")
    axes.set_ylabel("eigenvalue (coded units)")
    axes.set_title("Eigenvalues of the joint covariance")
    axes.legend(frameon=False, fontsize=8)
    return figure


def component_figures(
    schema: Schema, result: Result, *, rows: NDArray[np.float64]
) -> dict[str, Figure]:
    """Loadings, and a biplot of synthetic rows where two components were kept; by name.

    Parameters
    ----------
    rows
        Synthetic, shape (n, p), coded units.
    """
    figures = {
        "loadings": loadings_figure(
            schema, result.vectors, result.eigenvalues, result.header.noise_edge
        )
    }
    if len(result.vectors) > 1:
        named = [("synthetic rows", rows)]
        figures["biplot"] = biplot_figure(schema, result.vectors, result.mean, named)
    return figures


def marginal_figure(
    schema: Schema, real: Sequence[ValueCounts], synthetic: Sequence[ValueCounts]
) -> Figure:
    """Every attribute's distribution among real training rows and decoded synthetic ones.

    Parameters
    ----------
    real, synthetic
        Counts of values as the files hold them, not yet coded: one for each attribute.
    """
    panels = len(schema.attributes)
    columns = min(_PANELS_PER_ROW, panels)
    rows = -(-panels // columns)
    figure = new_figure(3.0 * columns, 2.5 * rows + 0.5)
    grid = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    for index, (axes, ours, theirs) in enumerate(zip(grid, real, synthetic, strict=False)):
        draw_panel(axes, schema, index, ours, theirs, _NAMES)
    for axes in grid[panels:]:
        axes.set_visible(False)
    handles, names = grid[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.supylabel("share of rows", fontsize=9)
    figure.suptitle(NOTICE, color=WARNING_RED, fontsize=10, fontweight="bold")
    return figure


def variation_figure(schema: Schema, *, real: TableCounts, synthetic: TableCounts) -> Figure:
    """Two-way tables among real training rows and decoded synthetic ones."""
    return pair_figure(schema, real, synthetic, _NAMES, notice=NOTICE)


def write_figures(folder: Path, figures: Mapping[str, Figure]) -> dict[str, str]:
    """Write each figure as PNG, and as SVG beside it; the paths of the PNG files by name."""
    paths = {name: folder / f"{name}.png" for name in figures}
    for name, figure in figures.items():
        for path in (paths[name], paths[name].with_suffix(".svg")):
            figure.savefig(path, dpi=DPI)
    return {name: str(path) for name, path in paths.items()}
