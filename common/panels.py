"""One attribute of two tables beside each other, as plots of reports and simulations draw it.

Values are drawn as the files hold them, a numeric in its cells, all of them equally wide. What no
cell or label stands for has a bar of its own: values that are not known, and numbers outside the
bounds; so has a value with a cell of its own. Nothing is drawn as what coding makes of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.names import one_line
from dppca.common.numerics.values import ValueCounts, cell_edges
from dppca.common.plotting import BLUE, ORANGE
from dppca.common.schema import Cells, Numeric, Schema
from dppca.common.schema.attributes import Date

UNKNOWN = "(not known)"
_MOST_LABELS = 12
_LABEL_LENGTH = 14


def draw_panel(
    axes: Any,
    schema: Schema,
    index: int,
    ours: ValueCounts,
    theirs: ValueCounts,
    names: tuple[str, str],
) -> None:
    """Draw shares of one attribute among two tables, each of a row at least.

    Parameters
    ----------
    axes
        Of matplotlib.
    index
        Of the attribute.
    names
        For the legend: of the real rows, and of the synthetic ones.
    """
    attribute = schema.attributes[index]
    axes.set_title(one_line(attribute.name), fontsize=9)
    axes.tick_params(labelsize=7)
    if isinstance(attribute, Numeric):
        _draw_numeric(axes, attribute, schema.cells[index], ours, theirs, names)
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
    cells: Cells | None,
    ours: ValueCounts,
    synthetic: ValueCounts,
    names: tuple[str, str],
) -> None:
    edges = cell_edges(attribute, cells)
    n = len(edges) - 1
    both = [counts.cells / counts.n_rows for counts in (ours, synthetic)]
    first, second = (shares[:n] for shares in both)
    ends = np.arange(n + 1)
    axes.stairs(first, ends, fill=True, color=BLUE, alpha=0.55, label=names[0])
    axes.stairs(second, ends, color=ORANGE, linewidth=2, label=names[1])
    bars = [
        (n + place * n / 7, name, *shares)
        for place, (name, shares) in enumerate(extra_bars(ours, synthetic).items(), start=1)
    ]
    if cells is not None and cells.spike is not None:
        bars.append((-n / 7, f"= {cells.spike:g}", float(both[0][n]), float(both[1][n])))
    top = 1.4 * float(max(first.max(), second.max()))
    for at, name, *shares in bars:
        _pair(axes, np.array([at]), *(np.array([share]) for share in shares), width=n / 40)
        cut = max(shares) > 2 * top > 0
        axes.text(
            at + (n / 30 if cut else 0),
            0.97 * top if cut else max(shares),
            f"{name}: {shares[0]:.0%}, {shares[1]:.0%}" if cut else f" {name}",
            rotation=90,
            fontsize=6,
            ha="left" if cut else "center",
            va="top" if cut else "bottom",
        )
        axes.margins(y=0.35)  # room for the text
    if any(max(shares) > 2 * top > 0 for _, _, *shares in bars):
        axes.set_ylim(0, top)  # a bar that is cut has its height written beside it
    axes.set_xticks(*_edge_ticks(attribute, edges, cells))


def _edge_ticks(
    attribute: Numeric, edges: NDArray[np.float64], cells: Cells | None
) -> tuple[list[float], list[str]]:
    """Some ends of cells, or whole numbers, dates and labels where a cell holds one."""
    n = len(edges) - 1
    step = max(1, n // (2 if isinstance(attribute, Date) else 4))  # dates are long
    if cells is None or not cells.integer:
        return list(range(0, n + 1, step)), [f"{edge:.4g}" for edge in edges[::step]]
    whole = [math.ceil(edge) for edge in edges[:-1]]
    single = whole[-1] - whole[0] == n - 1
    return [at + single / 2 for at in range(0, n, step)], [*map(attribute.text_of, whole[::step])]


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
