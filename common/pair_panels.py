"""Pairs of attributes of two tables, as plots of reports and simulations draw them.

The total variation of every pair as a heat map, and beside each other the two-way tables of the
pairs that differ most, in the cells of `dppca.common.numerics.pair_cells`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.numerics.comparison import (
    TableCounts,
    Variation,
    list_pairs,
    variations,
    worst,
)
from dppca.common.numerics.pair_cells import PairAxis, pair_axes
from dppca.common.plotting import WARNING_RED, new_figure, shortened
from dppca.common.schema import Schema

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TABLES = 4
_MOST_LABELS = 12
_NAME_LENGTH = 24
_LABEL_LENGTH = 12
_MOST_WRITTEN = 12  # attributes up to which numbers stand in the heat map
_MOST_NAMED = 60


def pair_figure(
    schema: Schema, ours: TableCounts, theirs: TableCounts, names: tuple[str, str], *, notice: str
) -> Figure:
    """Total variation of every pair of attributes, and two-way tables of those that differ most.

    Parameters
    ----------
    names
        Names of the real rows, and of the synthetic ones.
    notice
        Where the picture may go, for its top.
    """
    n = len(schema.attributes)
    marginals, pairs = variations(schema, ours, theirs)
    shown = worst(pairs, _TABLES)
    table_rows = -(-len(shown) // 2)
    side = min(14.0, max(4.0, 2.0 + 0.3 * n))
    width = max(11.0, side + 1.5)
    figure = new_figure(width, side + 3.1 * table_rows + 0.4)
    figure.suptitle(notice, color=WARNING_RED, fontsize=10, fontweight="bold")
    heights = [side] + [3.1] * table_rows
    grid = figure.subfigures(1 + table_rows, 1, height_ratios=heights, squeeze=False)
    rest = (width - side - 1.5) / 2
    middle = grid[0, 0].subfigures(1, 3, width_ratios=[0.01 + rest, side + 1.5, 0.01 + rest])[1]
    _draw_variations(middle, schema, marginals, pairs)
    axes, places = pair_axes(schema), list_pairs(n)
    for row, part in enumerate(grid[1:, 0]):
        halves = part.subfigures(1, 2, squeeze=False)
        for half, pair in zip(halves[0], shown[2 * row : 2 * row + 2], strict=False):
            tables = (ours.pairs[pair], theirs.pairs[pair])
            between = (axes[places[pair][0]], axes[places[pair][1]])
            _draw_tables(half, pairs[pair], between, tables, names)
    return figure


def _draw_variations(
    figure: Any,
    schema: Schema,
    marginals: tuple[Variation, ...],
    pairs: tuple[Variation, ...],
) -> None:
    """The heat map; on its diagonal is the total variation of one attribute alone."""
    names = [shortened(attribute.name, _NAME_LENGTH) for attribute in schema.attributes]
    n = len(names)
    matrix = np.diag([each.found for each in marginals])
    upper = np.triu_indices(n, 1)
    matrix[upper] = matrix.T[upper] = [each.found for each in pairs]
    axes = figure.subplots()
    most = max(0.1, float(matrix.max()))
    image = axes.imshow(matrix, cmap="cividis", vmin=0, vmax=most)
    axes.set_title("total variation of each pair of attributes; diagonal: one alone", fontsize=9)
    if n <= _MOST_NAMED:
        axes.set_xticks(range(n), names, rotation=90, fontsize=7)
        axes.set_yticks(range(n), names, fontsize=7)
    if n <= _MOST_WRITTEN:
        for (i, j), value in np.ndenumerate(matrix):
            colour = "black" if value > most / 2 else "white"
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    figure.colorbar(image, ax=axes, label="total variation", fraction=0.05)


def _draw_tables(
    figure: Any,
    variation: Variation,
    between: tuple[PairAxis, PairAxis],
    tables: tuple[NDArray[np.int64], NDArray[np.int64]],
    names: tuple[str, str],
) -> None:
    """Two tables of shares on one scale of colours, which is finer where shares are small."""
    from matplotlib.colors import PowerNorm

    first, second = (shortened(name, _NAME_LENGTH) for name in variation.attributes)
    shares = [table / table.sum() for table in tables]
    kept = [_commonest(shares[0].sum(axis=1 - axis), between[axis]) for axis in (0, 1)]
    shares = [share[np.ix_(*kept)] for share in shares]
    norm = PowerNorm(1 / 3, vmin=0, vmax=max(float(share.max()) for share in shares))
    figure.suptitle(
        f"{first}, {second}: {variation.found:.3f} ({variation.by_chance:.3f} by chance)",
        fontsize=9,
    )
    panels = figure.subplots(1, 2, sharey=True)
    for panel, share, name in zip(panels, shares, names, strict=True):
        image = panel.imshow(share.T, cmap="cividis", norm=norm, origin="lower", aspect="auto")
        panel.set_title(name, fontsize=8)
        panel.set_xlabel(first, fontsize=8)
        panel.tick_params(labelsize=6)
        panel.set_xticks(*_ticks(between[0], kept[0]), rotation=90)
    panels[0].set_ylabel(second, fontsize=8)
    panels[0].set_yticks(*_ticks(between[1], kept[1]))
    bar = figure.colorbar(image, ax=list(panels), label="share of rows")
    bar.ax.tick_params(labelsize=6)
    bar.ax.yaxis.label.set_size(8)


def _commonest(shares: NDArray[np.float64], axis: PairAxis) -> NDArray[np.int64]:
    """Cells that are drawn: all of a numeric, the commonest labels of anything else."""
    if axis.numeric:
        return np.arange(axis.n_cells)
    return np.sort(np.argsort(-shares, kind="stable")[:_MOST_LABELS])


def _ticks(axis: PairAxis, kept: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[str]]:
    places = np.arange(len(kept))
    if axis.numeric:
        places = places[:: max(1, len(kept) // 6)]
    return places, [shortened(axis.names[kept[place]], _LABEL_LENGTH) for place in places]
