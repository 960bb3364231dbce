"""Pictures of a simulation: readable in print, in grey and with any colour vision.

Real rows are blue, synthetic ones orange (`dppca.common.shell.plotting`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dppca.common.analysis.comparison import TableCounts, variations
from dppca.common.analysis.values import ValueCounts
from dppca.common.kernel.schema import Schema
from dppca.common.shell.charts import Chart, marginals_chart
from dppca.common.shell.panels import make_panel
from dppca.common.shell.pictures import variation_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTICE = "known to a simulation only: made of the real rows of all owners"
_NAMES = ("real training rows", "synthetic rows (decoded)")


def marginal_chart(
    schema: Schema, real: Sequence[ValueCounts], synthetic: Sequence[ValueCounts]
) -> Chart:
    """Plot each attribute's uncoded values among real training rows and decoded synthetic ones."""
    panels = [
        make_panel(schema, index, *counts)
        for index, counts in enumerate(zip(real, synthetic, strict=True))
    ]
    return marginals_chart(panels, _NAMES, notice=NOTICE)


def pair_figure(schema: Schema, *, real: TableCounts, synthetic: TableCounts) -> Figure:
    """Plot pairs of attributes among real training rows and decoded synthetic ones."""
    return variation_figure(*variations(schema, real, synthetic), notice=NOTICE)
