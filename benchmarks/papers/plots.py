"""An experiment's runs as PNG and SVG: readable in print, in grey and with any colour vision.

Methods differ in colour (Okabe and Ito's palette) *and* marker; forms in line: published ones are
dashed with hollow markers, sound ones solid and filled, random subspaces dotted. What has no noise
is a line across, in one of three greys. Bars are one standard deviation over runs. There is a row
of panels per measure and a column per table and target.
"""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.papers.tables import Line
from benchmarks.papers.trials import CONTROLS, PUBLISHED, SOUND, Experiment
from dppca.common.shell.plotting import DPI, new_figure, plain_numbers

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = {PUBLISHED: "--", SOUND: "-"}
LEVELS = (("#333333", "-."), ("#777777", (0, (1, 1))), ("#aaaaaa", (0, (6, 2))))
_NAMES = {
    "accuracy": "accuracy",
    "support_vectors": "support vectors",
    "seconds": "seconds to train",
    "predict_seconds": "seconds to predict",
    "rate": "contribution rate",
    "entry": "mean size of an entry",
    "norm": "largest singular value",
    "epsilon": "epsilon",
    "k": "components k",
    "m": "owners m",
    "n": "training rows n",
    "d": "columns d",
}


def plot_lines(experiment: Experiment, lines: Sequence[Line], stem: Path) -> tuple[Path, Path]:
    """Draw ``stem.png`` and ``stem.svg``; their paths."""
    panels: dict[str, list[Line]] = {}
    for line in lines:
        panels.setdefault(f"{line.cell.source.name} {line.cell.target}".strip(), []).append(line)
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
        look: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "fontsize": 8}
        figure.legend(list(handles.values()), list(handles), ncols=min(3, len(handles)), **look)
    figure.suptitle(experiment.title, fontsize=11)
    png, svg = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    figure.savefig(png, dpi=DPI)
    figure.savefig(svg, metadata={"Date": None})
    return png, svg


def _drawn(line: Line, x: str) -> bool:
    """Whether a line is a point of a curve, and not a level across."""
    cell = line.cell
    return x in ("n", "d") or bool(cell.epsilon) or (x == "k" and bool(cell.components))


def _position(line: Line, x: str) -> float:
    given = {
        "epsilon": float(line.cell.epsilon or 0),
        "m": line.cell.owners,
        "k": line.cell.components,
    }
    return given.get(x) or line.mean(x) or 0.0


def _curves(
    axes: Any, members: Sequence[Line], x: str, measure: str, methods: Sequence[str]
) -> None:
    curves: dict[tuple[str, str, str], list[Line]] = {}
    several = len({line.cell.scored for line in members}) > 1
    greys = cycle(LEVELS)
    for line in members:
        mean, method = line.mean(measure), line.cell.method
        if mean is None:
            continue
        if _drawn(line, x):
            key = (method, line.cell.variant, line.cell.scored)
            curves.setdefault(key, []).append(line)
            continue
        colour, style = next(greys)
        label = method + (f", {line.cell.scored}" if several else "")
        axes.axhline(mean, color=colour, linestyle=style, linewidth=1.5, label=label)
    for (method, variant, scored), points in curves.items():
        points.sort(key=lambda line: _position(line, x))
        index, control = methods.index(method), variant in CONTROLS.values()
        colour = COLOURS[index % len(COLOURS)]
        axes.errorbar(
            [_position(line, x) for line in points],
            [line.mean(measure) or 0.0 for line in points],
            yerr=[line.spread(measure) for line in points],
            color=colour,
            marker=MARKERS[index % len(MARKERS)],
            markerfacecolor="white" if variant == PUBLISHED else colour,
            linestyle=LINES.get(variant, ":"),
            linewidth=1.0 if control else 1.4,
            markersize=2 if control else 5,
            capsize=2,
            label=f"{method} {variant}".strip() + (f", {scored}" if several else ""),
        )
    if x == "epsilon":
        axes.set_xscale("log")
        plain_numbers(axes.xaxis)
    if measure not in ("accuracy", "support_vectors", "rate"):
        axes.set_yscale("log")
        plain_numbers(axes.yaxis)
    axes.set_xlabel(_NAMES[x])
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)


def _bars(axes: Any, members: Sequence[Line], measure: str) -> None:
    names = [f"{line.cell.method}\n{line.cell.variant}".strip() for line in members]
    for place, line in enumerate(members):
        colour, hatch = ("#E69F00", "///") if line.cell.epsilon else ("#0072B2", "")
        look = {"color": colour, "hatch": hatch, "edgecolor": "white", "capsize": 3}
        axes.bar(place, line.mean(measure) or 0.0, yerr=line.spread(measure), **look)
    axes.set_xticks(range(len(names)), names, fontsize=7, rotation=60)
    axes.set_ylim(bottom=0)
