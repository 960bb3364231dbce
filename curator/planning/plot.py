"""Plot of a plan: captured variance over epsilon, and the spectrum beside the noise edges."""

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from dppca.common.kernel.privacy.laws import every_law
from dppca.common.shell.plotting import (
    BLUE,
    DPI,
    GREY,
    ORANGE,
    check_plotting,
    new_figure,
    plain_numbers,
    whole_numbers,
)
from dppca.curator.planning.forecaster import GOOD
from dppca.curator.planning.plan import StudyPlan

_STYLES = dict(
    zip(every_law(), cycle([(BLUE, "o", "-"), (ORANGE, "s", "--"), (GREY, "^", ":")]), strict=False)
)
"""Colour, marker and line of each law, by its name."""


def plot_plan(path: Path, plan: StudyPlan) -> None:
    """Draw a plan as .png, .svg or .pdf; raise `SettingError` if matplotlib is missing."""
    check_plotting()
    figure = new_figure(10, 4.2)
    left, right = figure.subplots(1, 2)
    _captured(left, plan)
    _spectrum(right, plan)
    figure.suptitle(f"Forecast of study {plan.study}: {plan.assumption.source}", fontsize=9)
    figure.savefig(path, dpi=DPI)


def _captured(axes: Any, plan: StudyPlan) -> None:
    for mechanism, (colour, marker, line) in _STYLES.items():
        captured = [
            (float(each.epsilon), each.forecast)
            for each in plan.forecasts
            if each.mechanism == mechanism and each.forecast is not None
        ]
        if not captured:
            continue
        epsilons = [epsilon for epsilon, _ in captured]
        axes.plot(
            epsilons,
            [forecast.captured for _, forecast in captured],
            color=colour,
            marker=marker,
            linestyle=line,
            label=mechanism,
        )
        axes.fill_between(
            epsilons,
            [forecast.captured_low for _, forecast in captured],
            [forecast.captured_high for _, forecast in captured],
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
    axes.axhline(GOOD, color=GREY, linestyle=":", linewidth=1)
    axes.axvline(float(plan.requested.epsilon), color="black", linewidth=0.8)
    axes.text(float(plan.requested.epsilon), 0.02, " asked", fontsize=8)
    axes.set_xscale("log")
    plain_numbers(axes.xaxis)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("epsilon")
    axes.set_ylabel("captured, of the best possible")
    axes.set_title("Variance captured (band: nine runs of ten)", fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def _spectrum(axes: Any, plan: StudyPlan) -> None:
    values = [value for value in plan.assumption.eigenvalues if value > 0]
    axes.plot(
        np.arange(1, len(values) + 1),
        values,
        color="black",
        marker="." if len(values) > 40 else "o",
        linewidth=1,
        label="assumed eigenvalues",
    )
    for line in (plan.requested, plan.alternative):
        if line is None or line.forecast is None:
            continue
        colour, _, style = _STYLES[line.mechanism]
        axes.axhline(
            line.forecast.noise_edge,
            color=colour,
            linestyle=style,
            label=f"noise edge, {line.mechanism}, epsilon {line.epsilon}",
        )
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    axes.set_xlabel("component")
    whole_numbers(axes.xaxis)
    axes.set_ylabel("variance (coded units)")
    axes.set_title("What stands above the noise", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
