"""Plots of a simulation as PNG: readable in print, in grey and with any colour vision.

Real rows are blue, synthetic ones orange (`common.plotting`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.plotting import BLUE, DPI, GREY, ORANGE, new_figure
from common.schema import Numeric, Schema

_PANELS_PER_ROW = 4
_BINS = 20
_MOST_LABELS = 10


def plot_scree(
    path: Path,
    *,
    eigenvalues: NDArray[np.float64],
    noise_free: NDArray[np.float64],
    count: int,
    noise_edge: float,
) -> None:
    """Eigenvalues of the private covariance, which are kept, and what noise alone would reach.

    Parameters
    ----------
    eigenvalues, noise_free
        Shape (p,), descending; the second only a simulation knows.
    count
        k, how many are kept.
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
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xlabel("component")
    axes.set_ylabel("eigenvalue (coded units)")
    axes.set_title("Eigenvalues of the joint covariance")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=DPI)


def plot_marginals(
    path: Path, schema: Schema, *, real: NDArray[np.int32], synthetic: NDArray[np.int32]
) -> None:
    """Every attribute's distribution among real training rows and decoded synthetic ones.

    Parameters
    ----------
    real, synthetic
        Coded rows, units of ``2**-g``, shapes (n, p) and (m, p).
    """
    panels = len(schema.attributes)
    columns = min(_PANELS_PER_ROW, panels)
    rows = -(-panels // columns)
    figure = new_figure(3.0 * columns, 2.5 * rows + 0.5)
    grid = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    unit = float(1 << schema.resolution_bits)
    for axes, attribute, (start, stop) in zip(
        grid, schema.attributes, schema.layout.groups, strict=False
    ):
        ours, theirs = real[:, start:stop] / unit, synthetic[:, start:stop] / unit
        axes.set_title(attribute.name, fontsize=9)
        axes.tick_params(labelsize=7)
        if isinstance(attribute, Numeric):
            _histogram(axes, _values(attribute, ours[:, 0]), _values(attribute, theirs[:, 0]))
        elif stop - start == 1:
            _bars(axes, attribute.labels, _shares(ours), _shares(theirs))
        else:
            _bars(axes, attribute.labels, ours.mean(axis=0), theirs.mean(axis=0))
    for axes in grid[panels:]:
        axes.set_visible(False)
    handles, names = grid[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    figure.supylabel("share of rows", fontsize=9)
    figure.savefig(path, dpi=DPI)


def _values(attribute: Numeric, coded: NDArray[np.float64]) -> NDArray[np.float64]:
    if attribute.lower is None or attribute.upper is None:
        return coded  # unit-ball rows keep their own coordinates
    return attribute.middle + coded * (attribute.upper - attribute.lower)


def _shares(coded: NDArray[np.float64]) -> NDArray[np.float64]:
    second = float((coded > 0).mean())
    return np.array([1 - second, second])


def _histogram(axes: Any, real: NDArray[np.float64], synthetic: NDArray[np.float64]) -> None:
    both = np.concatenate([real, synthetic])
    edges = np.histogram_bin_edges(both, bins=_BINS)
    axes.hist(
        real,
        bins=edges,
        weights=np.full(len(real), 1 / len(real)),
        color=BLUE,
        alpha=0.55,
        label="real training rows",
    )
    axes.hist(
        synthetic,
        bins=edges,
        weights=np.full(len(synthetic), 1 / len(synthetic)),
        histtype="step",
        color=ORANGE,
        linewidth=2,
        label="synthetic rows (decoded)",
    )


def _bars(
    axes: Any,
    labels: tuple[str, ...],
    real: NDArray[np.float64],
    synthetic: NDArray[np.float64],
) -> None:
    shown = np.sort(np.argsort(-real, kind="stable")[:_MOST_LABELS])
    places = np.arange(len(shown))
    axes.bar(places - 0.2, real[shown], 0.4, color=BLUE, label="real training rows")
    axes.bar(
        places + 0.2,
        synthetic[shown],
        0.4,
        color=ORANGE,
        hatch="///",
        edgecolor="white",
        label="synthetic rows (decoded)",
    )
    rotated = len(shown) > 4 or max(len(labels[index]) for index in shown) > 8
    axes.set_xticks(places, [labels[index][:14] for index in shown])
    if rotated:
        axes.tick_params(axis="x", rotation=60)
    if len(shown) < len(labels):
        axes.set_xlabel(f"the {len(shown)} commonest of {len(labels)}", fontsize=7)
