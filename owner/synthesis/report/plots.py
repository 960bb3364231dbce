"""Plots of a quality report, as PNG bytes for a page."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dppca.common.pictures import biplot_figure, variation_figure
from dppca.common.plotting import DPI, WARNING_RED
from dppca.common.privacy.labels import Label
from dppca.common.results import Result
from dppca.common.schema import Schema
from dppca.owner.synthesis.report.comparison import CodedTable, Quality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTICE = f"{Label.SITE_ONLY.value}: made of this site's raw rows, must not leave"
_NAMES = ("this site's rows", "synthetic rows")


def pair_plot(quality: Quality) -> bytes:
    """Total variation of every pair."""
    return _png(variation_figure(quality.marginals, quality.pairs, notice=NOTICE))


def biplot(
    schema: Schema, result: Result, real: CodedTable, coded: NDArray[np.float64] | None
) -> bytes:
    """Rows of the site, and synthetic ones, on the first two components.

    Parameters
    ----------
    coded
        Synthetic rows, shape (n, p), coded units; None where the site has none.
    """
    tables = [(_NAMES[0], real.sample / float(1 << schema.resolution_bits))]
    tables += [] if coded is None else [(f"{_NAMES[1]} (coded)", coded)]
    return _png(biplot_figure(schema, result.vectors, result.mean, tables))


def _png(figure: Figure) -> bytes:
    """The picture, which says where it may go to who sees it and in the file."""
    figure.suptitle(NOTICE, color=WARNING_RED, fontsize=10, fontweight="bold")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Comment": NOTICE})
    return buffer.getvalue()
