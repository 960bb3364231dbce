"""A comparison of synthetic rows with a site's own, as one HTML page that needs nothing else.

Its templates are those of the pages on this machine (`dppca.common.pages`), which show the same
comparison without the pictures.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.attestation.results import Result
from dppca.common.numerics.comparison import PAIR_CELLS, Variation, worst
from dppca.common.numerics.loadings import KeptComponent
from dppca.common.pages.rendering import render_file
from dppca.common.privacy.labels import Label
from dppca.common.schema import Schema
from dppca.common.shell.clock import utc_now
from dppca.common.shell.panels import Panel, make_panel
from dppca.common.shell.pictures import biplot_figure, variation_figure
from dppca.common.shell.plotting import DPI, WARNING_RED
from dppca.owner.records import CheckReport
from dppca.owner.synthesis.report.comparison import QUANTILES, CodedTable, Quality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATES = Path(__file__).parent / "templates"
PANELS = 24
_WORST = 20
NOTICE = f"{Label.SITE_ONLY.value}: made of this site's raw rows, must not leave"
_NAMES = ("this site's rows", "synthetic rows")


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison, as pages show it. Computed from raw rows: site-only, but no row is in it.

    Attributes
    ----------
    data_set, source
        Names of the data set, and of the file of synthetic rows.
    components
        What was kept of the study, by attribute and label; empty where the site keeps none.
    relations
        What the release shows of relations, in words; empty where that is not known.
    """

    quality: Quality
    faults: CheckReport
    panels: tuple[Panel, ...]
    data_set: str
    source: str
    components: Sequence[KeptComponent] = ()
    relations: str = ""

    def values(self) -> dict[str, Any]:
        """What the template needs."""
        quality = self.quality
        return {
            "compared": self,
            "quality": quality,
            "marginals": _worst(quality.marginals),
            "pairs": _worst(quality.pairs),
            "pair_cells": PAIR_CELLS,
            "quantiles": QUANTILES,
        }


def marginal_panels(
    schema: Schema, real: CodedTable, synthetic: CodedTable, quality: Quality
) -> tuple[Panel, ...]:
    """Every attribute, or the 24 that differ most, by the values that the files hold."""
    order = sorted(range(len(schema.attributes)), key=lambda i: -quality.marginals[i].found)
    return tuple(
        make_panel(schema, index, real.values[index], synthetic.values[index])
        for index in sorted(order[:PANELS])
    )


def quality_page(
    compared: Compared, *, face: Sequence[tuple[str, str]], pictures: Mapping[str, bytes]
) -> str:
    """The page.

    Parameters
    ----------
    face
        What it says of the study (`dppca.common.pages.faces.study_face`).
    pictures
        PNG, by what they show.
    """
    return render_file(
        [TEMPLATES],
        "report.html",
        who="",
        now=utc_now(),
        face=face,
        pictures=[(text, base64.b64encode(png).decode()) for text, png in pictures.items()],
        **compared.values(),
    )


def _worst(found: Sequence[Variation]) -> list[Variation]:
    return [found[index] for index in worst(found, _WORST)]


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
