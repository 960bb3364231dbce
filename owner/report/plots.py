"""Plots of a quality report, as PNG bytes for a page."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dppca.common.loading_panels import biplot_figure, loadings_figure
from dppca.common.names import one_line
from dppca.common.pair_panels import pair_figure
from dppca.common.panels import marginals_figure
from dppca.common.plotting import BLUE, DPI, GREY, ORANGE, WARNING_RED, new_figure
from dppca.common.privacy.labels import Label
from dppca.common.results import Result
from dppca.common.schema import Schema
from dppca.owner.report.comparison import CodedTable, Quality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = 24
NOTICE = f"{Label.SITE_ONLY.value}: made of this site's raw rows, must not leave"
_NAMES = ("this site's rows", "synthetic rows")


def marginal_plot(
    schema: Schema, real: CodedTable, synthetic: CodedTable, quality: Quality
) -> bytes:
    """Shares of every attribute, or of the 24 that differ most, real beside synthetic.

    Values as the files hold them, before coding (`dppca.common.panels`).
    """
    order = sorted(range(len(schema.attributes)), key=lambda i: -quality.marginals[i].found)
    drawn = sorted(order[:PANELS])
    figure = marginals_figure(schema, real.values, synthetic.values, _NAMES, drawn=drawn)
    return _png(figure)


def pair_plot(schema: Schema, real: CodedTable, synthetic: CodedTable) -> bytes:
    """Total variation of every pair, and the tables of those that differ most."""
    return _png(pair_figure(schema, real.counts, synthetic.counts, _NAMES, notice=NOTICE))


def component_plots(
    schema: Schema, result: Result, real: CodedTable, coded: NDArray[np.float64] | None
) -> list[bytes]:
    """Largest loadings and, where two were kept, rows of the site and synthetic ones on them.

    Parameters
    ----------
    coded
        Synthetic rows, shape (n, p), coded units; None where the site has none.
    """
    edge = result.header.noise_edge
    plots = [_png(loadings_figure(schema, result.vectors, result.eigenvalues, edge))]
    if len(result.vectors) > 1:
        tables = [(_NAMES[0], real.sample / float(1 << schema.resolution_bits))]
        tables += [] if coded is None else [(f"{_NAMES[1]} (coded)", coded)]
        plots.append(_png(biplot_figure(schema, result.vectors, result.mean, tables)))
    return plots


def accuracy_plot(quality: Quality) -> bytes:
    """Accuracy of predicting each target, by what was trained on."""
    accuracies = quality.accuracies
    figure = new_figure(7, 0.8 + 0.5 * len(accuracies))
    axes = figure.subplots()
    places = np.arange(len(accuracies))[::-1]
    axes.plot(
        [each.trained_on_real for each in accuracies], places, "o", color=BLUE, label="on real rows"
    )
    axes.plot(
        [each.trained_on_synthetic for each in accuracies],
        places,
        "s",
        color=ORANGE,
        markerfacecolor="white",
        label="on synthetic rows",
    )
    axes.plot(
        [each.majority for each in accuracies],
        places,
        "|",
        color=GREY,
        markersize=14,
        label="majority",
    )
    axes.set_yticks(places, [one_line(each.target) for each in accuracies], fontsize=8)
    axes.set_xlim(0, 1.02)
    axes.set_ylim(-0.6, len(accuracies) - 0.4)
    axes.set_xlabel("accuracy on this site's rows")
    axes.legend(frameon=False, fontsize=8)
    return _png(figure)


def _png(figure: Figure) -> bytes:
    """The picture, which says where it may go to who sees it and in the file."""
    figure.suptitle(NOTICE, color=WARNING_RED, fontsize=10, fontweight="bold")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Comment": NOTICE})
    return buffer.getvalue()
