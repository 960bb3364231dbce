"""Plots of a simulation: readable in print, in grey and with any colour vision.

Real rows are blue, synthetic ones orange (`dppca.common.shell.plotting`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.comparison import TableCounts, variations
from dppca.common.analysis.values import ValueCounts
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.schema import Schema
from dppca.common.shell.panels import make_panel
from dppca.common.shell.pictures import (
    biplot_figure,
    loadings_figure,
    marginals_figure,
    variation_figure,
)
from dppca.common.shell.plotting import BLUE, GREY, ORANGE, new_figure, whole_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTICE = "known to a simulation only: made of the real rows of all owners"
_NAMES = ("real training rows", "synthetic rows (decoded)")


def scree_figure(
    *,
    eigenvalues: NDArray[np.float64],
    noise_free: NDArray[np.float64],
    count: int,
    noise_edge: float,
) -> Figure:
    """Plot the eigenvalues of the private covariance, the kept ones and the noise edge.

    ``eigenvalues`` and ``noise_free`` have shape (p,), descending; only a simulation knows the
    second. ``count`` is k, the number of kept ones.
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
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xlabel("component")
    whole_numbers(axes.xaxis)
    axes.set_ylabel("eigenvalue (coded units)")
    axes.set_title("Eigenvalues of the joint covariance")
    axes.legend(frameon=False, fontsize=8)
    return figure


def component_figures(
    schema: Schema, result: Result, *, rows: NDArray[np.float64]
) -> dict[str, Figure]:
    """Plot loadings, and with two components a biplot of coded synthetic rows, shape (n, p)."""
    figures = {
        "loadings": loadings_figure(
            schema, result.vectors, result.eigenvalues, result.header.noise_edge
        )
    }
    if len(result.vectors) > 1:
        tables = [("synthetic rows", rows)]
        figures["biplot"] = biplot_figure(schema, result.vectors, result.mean, tables)
    return figures


def marginal_figure(
    schema: Schema, real: Sequence[ValueCounts], synthetic: Sequence[ValueCounts]
) -> Figure:
    """Plot each attribute's uncoded values among real training rows and decoded synthetic ones."""
    panels = [
        make_panel(schema, index, *counts)
        for index, counts in enumerate(zip(real, synthetic, strict=True))
    ]
    return marginals_figure(panels, _NAMES, notice=NOTICE)


def pair_figure(schema: Schema, *, real: TableCounts, synthetic: TableCounts) -> Figure:
    """Plot pairs of attributes among real training rows and decoded synthetic ones."""
    return variation_figure(*variations(schema, real, synthetic), notice=NOTICE)
