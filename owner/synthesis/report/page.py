"""Comparison of synthetic rows with a site's own, as one self-contained HTML page.

It shares its templates with the pages on this machine (`dppca.common.pages`), which show the same
comparison without the pictures.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.comparison import PAIR_CELLS, Variation, worst
from dppca.common.analysis.estimates.answers import AnswerDocument, EstimateAnswer
from dppca.common.analysis.field.missed import Missed, missed_text
from dppca.common.analysis.loadings import KeptComponent, Mixtures
from dppca.common.kernel.attestation.claims import use_text
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.schema import Schema
from dppca.common.pages.rendering import render_file
from dppca.common.shell.panels import Panel, make_panel
from dppca.common.shell.pictures import biplot_figure, variation_figure
from dppca.common.shell.plotting import WARNING_RED, make_svg
from dppca.owner.records.faults import CheckReport
from dppca.owner.synthesis.report.comparison import QUANTILES, CodedTable, Quality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPLATES = Path(__file__).parent / "templates"
PANELS = 24  # of attributes, those that differ most
_WORST = 20  # of a list on the page
NOTICE = f"{Label.SITE_ONLY.value}: made of this site's raw rows, must not leave"
_NAMES = ("this site's rows", "synthetic rows")


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison for pages. Computed from raw rows: site-only, but it contains no row.

    ``data_set`` and ``source`` name the data set and the file of synthetic rows. ``components`` are
    the study's, by attribute and label; empty if the site keeps none. ``relations`` describes the
    relations that the release shows; empty if that is not known. ``nothing`` is said first where
    all components may be noise. ``missed`` is what the release knows and the synthetic rows miss.
    ``answers`` are those to the study's own questions, of what was released alone.
    """

    quality: Quality
    faults: CheckReport
    panels: tuple[Panel, ...]
    data_set: str
    source: str
    components: Sequence[KeptComponent] = ()
    relations: str = ""
    nothing: str = ""
    missed: tuple[Missed, ...] = ()
    answers: tuple[EstimateAnswer, ...] = ()

    @property
    def documents(self) -> tuple[AnswerDocument, ...]:
        """The answers, for JSON."""
        return tuple(each.document() for each in self.answers)

    def values(self) -> dict[str, Any]:
        """Values for the template."""
        quality = self.quality
        return {
            "compared": self,
            "quality": quality,
            "use": use_text(None),
            "missed": missed_text(self.missed),
            "marginals": _worst(quality.marginals),
            "pairs": _worst(quality.pairs),
            "pair_cells": PAIR_CELLS,
            "quantiles": QUANTILES,
            "questions": [asdict(each) for each in self.documents],
        }


def marginal_panels(
    schema: Schema, real: CodedTable, synthetic: CodedTable, quality: Quality
) -> tuple[Panel, ...]:
    """Panels of every attribute, or of the 24 that differ most, by the values in the files."""
    order = sorted(range(len(schema.attributes)), key=lambda i: -quality.marginals[i].found)
    return tuple(
        make_panel(schema, index, real.values[index], synthetic.values[index])
        for index in sorted(order[:PANELS])
    )


def quality_page(
    compared: Compared,
    *,
    stated: Stated,
    face: Sequence[tuple[str, str]],
    pictures: Mapping[str, bytes],
) -> str:
    """HTML page of a comparison.

    ``face`` describes the study (`StudyHeader.rows`); ``pictures`` are SVG, by their
    captions.
    """
    return render_file(
        [TEMPLATES],
        "report.html",
        who="",
        now=utc_now(),
        stated=stated,
        face=face,
        pictures=[(text, base64.b64encode(svg).decode()) for text, svg in pictures.items()],
        **compared.values(),
    )


def _worst(found: Sequence[Variation]) -> list[Variation]:
    return [found[index] for index in worst(found, _WORST)]


def pair_plot(quality: Quality) -> bytes:
    """Plot of the total variation of every pair."""
    return _svg(variation_figure(quality.marginals, quality.pairs, notice=NOTICE))


def biplot(
    schema: Schema,
    result: Result,
    real: CodedTable,
    coded: NDArray[np.float64] | None,
    mixtures: Mixtures,
) -> bytes:
    """Plot of the site's rows and synthetic rows on the first two components.

    ``coded`` are synthetic rows, shape (n, p), coded units; None if the site has none.
    ``mixtures`` are those of the components.
    """
    tables = [(_NAMES[0], real.sample / float(1 << schema.resolution_bits))]
    tables += [] if coded is None else [(f"{_NAMES[1]} (coded)", coded)]
    return _svg(biplot_figure(schema, result.vectors, result.mean, tables, mixtures))


def _svg(figure: Figure) -> bytes:
    """SVG of a figure; both picture and file carry the notice that they must not leave."""
    figure.suptitle(NOTICE, color=WARNING_RED, fontsize=10, fontweight="bold")
    return make_svg(figure, Description=NOTICE)
