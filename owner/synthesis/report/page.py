"""A comparison of synthetic rows with a site's own, as one HTML page that needs nothing else.

Its templates are those of the pages on this machine (`dppca.common.pages`), which show the same
comparison without the pictures.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dppca.common.clock import utc_now
from dppca.common.documents import ComponentFigures
from dppca.common.numerics.comparison import Variation, worst
from dppca.common.numerics.pair_cells import PAIR_CELLS
from dppca.common.numerics.values import ValueCounts, cell_edges
from dppca.common.pages.rendering import render_file
from dppca.common.panels import extra_bars
from dppca.common.schema import Cells, Numeric, Schema
from dppca.owner.records import CheckReport
from dppca.owner.records.faults import MALFORMED, WARNING, describe_coding
from dppca.owner.synthesis.report.comparison import QUANTILES, CodedTable, Quality

TEMPLATES = Path(__file__).parent / "templates"
PANELS = 24
_WORST = 20
_MOST_LABELS = 12


@dataclass(frozen=True, slots=True)
class Cell:
    """Shares of the rows of two tables that have one value, or a value of one cell."""

    name: str
    ours: float
    theirs: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One attribute in two tables; ``left_out`` labels are rarer than those shown."""

    name: str
    numeric: bool
    cells: tuple[Cell, ...]
    left_out: int = 0


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
    components: Sequence[ComponentFigures] = ()
    relations: str = ""

    def values(self) -> dict[str, Any]:
        """What the template needs."""
        quality = self.quality
        return {
            "compared": self,
            "quality": quality,
            "faults": fault_rows(self.faults),
            "warning": WARNING,
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
        _panel(schema, index, real.values[index], synthetic.values[index])
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


def _panel(schema: Schema, index: int, ours: ValueCounts, theirs: ValueCounts) -> Panel:
    attribute = schema.attributes[index]
    first, second = ours.cells / ours.n_rows, theirs.cells / theirs.n_rows
    if isinstance(attribute, Numeric):
        cells = schema.cells[index]
        edges = cell_edges(attribute, cells)
        names = _cell_names(attribute, cells, edges.tolist())
        if cells is not None and cells.spike is not None:
            names.append(f"= {cells.spike:g}")
        shown = list(range(len(names)))
    else:
        names = list(attribute.labels)
        shown = sorted(sorted(range(len(names)), key=lambda i: -first[i])[:_MOST_LABELS])
    found = [Cell(names[i], float(first[i]), float(second[i])) for i in shown]
    found += [Cell(name, *shares) for name, shares in extra_bars(ours, theirs).items()]
    numeric = isinstance(attribute, Numeric)
    return Panel(attribute.name, numeric, tuple(found), len(names) - len(shown))


def _cell_names(attribute: Numeric, cells: Cells | None, edges: list[float]) -> list[str]:
    """What lies in each cell: ends of intervals, or whole numbers, dates and labels."""
    if cells is None or not cells.integer:
        return [f"{a:.4g} to {b:.4g}" for a, b in pairwise(edges)]
    ends = [*(math.ceil(edge) - 1 for edge in edges[1:-1]), math.floor(edges[-1])]
    return [
        attribute.format_value(first)
        if first == last
        else f"{attribute.format_value(first)} to {attribute.format_value(last)}"
        for first, last in zip(map(math.ceil, edges[:-1]), ends, strict=True)
    ]


def fault_rows(faults: CheckReport) -> list[tuple[str, str, int, float, str]]:
    """Attribute, kind, values, share of the rows, and what they are coded as."""
    rows = [
        (
            attribute.name,
            kind.value,
            found.count,
            found.count / faults.n_rows,
            describe_coding(attribute, kind),
        )
        for attribute in faults.attributes
        for kind, found in attribute.found.items()
    ]
    if faults.malformed:
        rows.append((MALFORMED, "", faults.n_malformed, faults.n_malformed / faults.n_rows, ""))
    return rows


def _worst(found: Sequence[Variation]) -> list[Variation]:
    return [found[index] for index in worst(found, _WORST)]
