"""An experiment's runs as PNG and SVG: readable in print, in grey and with any colour vision.

Methods differ in colour (Okabe and Ito's palette) *and* marker; forms in line: published ones are
dashed with hollow markers, sound ones solid and filled, random subspaces dotted. What has no noise
is a line across, in one of three greys. Bars are one standard deviation over runs. There is a row
of panels per measure and a column per table and target.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.papers.tables import Line, group_lines
from benchmarks.papers.trials import CONTROLS, PUBLISHED, SOUND, Experiment, Run
from dppca.common.plotting import DPI, check_plotting, new_figure, plain_numbers

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = {PUBLISHED: "--", SOUND: "-"}
LEVELS = (("#333333", "-."), ("#777777", (0, (1, 1))), ("#aaaaaa", (0, (6, 2))))
_NAMES = {
    "accuracy": "accuracy",
    "support_vectors": "support vectors",
    "seconds": "seconds to train",
    "predict_seconds": "seconds to predict",
    "epsilon": "epsilon",
    "k": "components k",
    "m": "owners m",
    "n": "training rows n",
    "d": "columns d",
}


def plot_runs(experiment: Experiment, runs: Sequence[Run], stem: Path) -> tuple[Path, Path]:
    """Draw ``stem.png`` and ``stem.svg``; their paths."""
    check_plotting()
    lines = group_lines(runs)
    panels = _panels(lines)
    methods = list(dict.fromkeys(line.cell.method for line in lines if _drawn(line, experiment.x)))
    rows, columns = len(experiment.measures), len(panels)
    figure = new_figure(3.4 * columns + 1.2, 3.0 * rows + 1.2)
    grid = figure.subplots(rows, columns, squeeze=False)
    for row, measure in zip(grid, experiment.measures, strict=True):
        for axes, (title, members) in zip(row, panels.items(), strict=True):
            if experiment.x == "method":
                _bars(axes, members, measure)
            else:
                _curves(axes, members, experiment.x, measure, methods)
            axes.set_title(title, fontsize=10)
            axes.set_ylabel(_NAMES[measure])
    handles: dict[str, Any] = {}
    for axes in grid.ravel():
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    if handles:
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=min(3, len(handles)),
            frameon=False,
            fontsize=8,
        )
    figure.suptitle(experiment.title, fontsize=11)
    png, svg = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    figure.savefig(png, dpi=DPI)
    figure.savefig(svg, metadata={"Date": None})
    return png, svg


def _panels(lines: Sequence[Line]) -> dict[str, list[Line]]:
    by_label: dict[str, list[Line]] = {}
    for line in lines:
        title = f"{line.cell.source.name} {line.cell.target}".strip()
        by_label.setdefault(title, []).append(line)
    return by_label


def _drawn(line: Line, x: str) -> bool:
    """Whether a line is a point of a curve, and not a level across."""
    if x == "epsilon":
        return bool(line.cell.epsilon)
    return x in ("n", "d") or bool(line.cell.epsilon)


def _position(line: Line, x: str) -> float:
    if x == "epsilon":
        return float(line.cell.epsilon)
    if x == "m":
        return line.cell.owners
    if x == "k" and line.cell.components:
        return line.cell.components
    return line.mean(x) or 0.0


def _curves(
    axes: Any, members: Sequence[Line], x: str, measure: str, methods: Sequence[str]
) -> None:
    curves: dict[tuple[str, str, str], list[Line]] = {}
    several = len({line.cell.scored for line in members}) > 1
    levels = 0
    for line in members:
        mean = line.mean(measure)
        if mean is None:
            continue
        if _drawn(line, x):
            key = (line.cell.method, line.cell.variant, line.cell.scored)
            curves.setdefault(key, []).append(line)
        else:
            colour, style = LEVELS[levels % len(LEVELS)]
            axes.axhline(
                mean,
                color=colour,
                linestyle=style,
                linewidth=1.5,
                label=line.cell.method + (f", {line.cell.scored}" if several else ""),
            )
            levels += 1
    for (method, variant, scored), points in curves.items():
        points.sort(key=lambda line: _position(line, x))
        index = methods.index(method)
        colour = COLOURS[index % len(COLOURS)]
        axes.errorbar(
            [_position(line, x) for line in points],
            [line.mean(measure) or 0.0 for line in points],
            yerr=[line.spread(measure) for line in points],
            color=colour,
            marker=MARKERS[index % len(MARKERS)],
            markerfacecolor="white" if variant == PUBLISHED else colour,
            linestyle=LINES.get(variant, ":"),
            linewidth=1.0 if variant in CONTROLS.values() else 1.4,
            markersize=2 if variant in CONTROLS.values() else 5,
            capsize=2,
            label=f"{method} {variant}".strip() + (f", {scored}" if several else ""),
        )
    if x == "epsilon":
        axes.set_xscale("log")
        plain_numbers(axes.xaxis)
    if measure != "accuracy" and measure != "support_vectors":
        axes.set_yscale("log")
        plain_numbers(axes.yaxis)
    axes.set_xlabel(_NAMES[x])
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)


def _bars(axes: Any, members: Sequence[Line], measure: str) -> None:
    names = [f"{line.cell.method}\n{line.cell.variant}".strip() for line in members]
    for place, line in enumerate(members):
        axes.bar(
            place,
            line.mean(measure) or 0.0,
            yerr=line.spread(measure),
            capsize=3,
            color="#0072B2" if not line.cell.epsilon else "#E69F00",
            hatch="" if not line.cell.epsilon else "///",
            edgecolor="white",
        )
    axes.set_xticks(range(len(names)), names, fontsize=7, rotation=60)
    axes.set_ylim(bottom=0)
