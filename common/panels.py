"""One attribute of two tables beside each other, as plots of reports and simulations draw it.

Values are drawn as the files hold them. What no cell or label stands for has a bar of its own:
values that are not known, and numbers outside the bounds. Nothing is drawn as what coding makes of
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.names import one_line
from dppca.common.numerics.values import ValueCounts, value_range
from dppca.common.plotting import BLUE, ORANGE
from dppca.common.schema import Attribute, Numeric

UNKNOWN = "(not known)"
_MOST_LABELS = 12
_LABEL_LENGTH = 14


def draw_panel(
    axes: Any, attribute: Attribute, ours: ValueCounts, theirs: ValueCounts, names: tuple[str, str]
) -> None:
    """Draw shares of one attribute among two tables, each of a row at least.

    Parameters
    ----------
    axes
        Of matplotlib.
    names
        For the legend: of the real rows, and of the synthetic ones.
    """
    axes.set_title(one_line(attribute.name), fontsize=9)
    axes.tick_params(labelsize=7)
    if isinstance(attribute, Numeric):
        _draw_numeric(axes, attribute, ours, theirs, names)
    else:
        _draw_labels(axes, attribute.labels, ours, theirs, names)


def extra_bars(counts: ValueCounts, other: ValueCounts) -> dict[str, tuple[float, float]]:
    """Shares of both tables that no cell stands for, by what they are; none where both are 0."""
    histogram = {
        "(below)": (counts.below / counts.n_rows, other.below / other.n_rows),
        "(above)": (counts.above / counts.n_rows, other.above / other.n_rows),
        UNKNOWN: (counts.unknown / counts.n_rows, other.unknown / other.n_rows),
    }
    return {name: shares for name, shares in histogram.items() if any(shares)}


def _draw_numeric(
    axes: Any,
    attribute: Numeric,
    ours: ValueCounts,
    synthetic: ValueCounts,
    names: tuple[str, str],
) -> None:
    lower, upper = value_range(attribute)
    edges = np.linspace(lower, upper, len(ours.cells) + 1)
    axes.stairs(ours.cells / ours.n_rows, edges, fill=True, color=BLUE, alpha=0.55, label=names[0])
    axes.stairs(
        synthetic.cells / synthetic.n_rows, edges, color=ORANGE, linewidth=2, label=names[1]
    )
    step = (upper - lower) / 10
    for place, (name, shares) in enumerate(extra_bars(ours, synthetic).items(), start=1):
        at = np.array([upper + place * step])
        _pair(axes, at, *(np.array([share]) for share in shares), width=step / 4)
        axes.text(at[0], max(shares), f" {name}", rotation=90, fontsize=6, ha="center")
        axes.margins(y=0.35)  # room for the text


def _draw_labels(
    axes: Any,
    labels: tuple[str, ...],
    ours: ValueCounts,
    theirs: ValueCounts,
    names: tuple[str, str],
) -> None:
    real, synthetic = ours.cells / ours.n_rows, theirs.cells / theirs.n_rows
    labels_drawn = np.sort(np.argsort(-real, kind="stable")[:_MOST_LABELS])
    extra = extra_bars(ours, theirs)
    ticks = [*(one_line(labels[index][:_LABEL_LENGTH]) for index in labels_drawn), *extra]
    places = np.arange(len(ticks), dtype=np.float64)
    _pair(
        axes,
        places,
        np.r_[real[labels_drawn], [first for first, _ in extra.values()]],
        np.r_[synthetic[labels_drawn], [second for _, second in extra.values()]],
        width=0.4,
        names=names,
    )
    axes.set_xticks(places, ticks)
    if len(ticks) > 4 or max(len(tick) for tick in ticks) > 8:
        axes.tick_params(axis="x", rotation=60)
    if len(labels_drawn) < len(labels):
        axes.set_xlabel(f"the {len(labels_drawn)} commonest of {len(labels)}", fontsize=7)


def _pair(
    axes: Any,
    places: NDArray[np.float64],
    ours: NDArray[np.float64],
    synthetic: NDArray[np.float64],
    *,
    width: float,
    names: tuple[str, str] | None = None,
) -> None:
    first, second = names or (None, None)
    axes.bar(places - width / 2, ours, width, color=BLUE, label=first)
    axes.bar(
        places + width / 2,
        synthetic,
        width,
        color=ORANGE,
        hatch="///",
        edgecolor="white",
        label=second,
    )
