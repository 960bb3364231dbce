"""A plan as one picture: captured variance over epsilon, and what stands above the noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from common.plotting import BLUE, DPI, GREY, ORANGE, check_plotting, new_figure
from common.privacy.mechanisms import Mechanism
from curator.planning.plan import GOOD, Plan

_STYLES = {
    Mechanism.LAPLACE: (BLUE, "o", "-"),
    Mechanism.GAUSSIAN: (ORANGE, "s", "--"),
}


def plot_plan(path: Path, plan: Plan) -> None:
    """Draw a plan; the file's ending says the format (.png, .svg, .pdf).

    `SettingError` where matplotlib is missing.
    """
    check_plotting()
    figure = new_figure(10, 4.2)
    left, right = figure.subplots(1, 2)
    _captured(left, plan)
    _spectrum(right, plan)
    figure.suptitle(f"Forecast of study {plan.study.name}: {plan.assumption.source}", fontsize=9)
    figure.savefig(path, dpi=DPI)


def _captured(axes: Any, plan: Plan) -> None:
    for mechanism, (colour, marker, line) in _STYLES.items():
        found = [
            (float(each.epsilon), each.outlook)
            for each in plan.lines
            if each.mechanism is mechanism and each.outlook is not None
        ]
        if not found:
            continue
        epsilons = [epsilon for epsilon, _ in found]
        axes.plot(
            epsilons,
            [outlook.captured for _, outlook in found],
            color=colour,
            marker=marker,
            linestyle=line,
            label=mechanism.value,
        )
        axes.fill_between(
            epsilons,
            [outlook.captured_low for _, outlook in found],
            [outlook.captured_high for _, outlook in found],
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
    axes.axhline(GOOD, color=GREY, linestyle=":", linewidth=1)
    axes.axvline(float(plan.asked.epsilon), color="black", linewidth=0.8)
    axes.text(float(plan.asked.epsilon), 0.02, " asked", fontsize=8)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("epsilon")
    axes.set_ylabel("captured, of the best possible")
    axes.set_title("Variance captured (band: nine runs of ten)", fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def _spectrum(axes: Any, plan: Plan) -> None:
    values = plan.assumption.eigenvalues[plan.assumption.eigenvalues > 0]
    axes.plot(
        np.arange(1, len(values) + 1),
        values,
        color="black",
        marker="." if len(values) > 40 else "o",
        linewidth=1,
        label="assumed eigenvalues",
    )
    for line in (plan.asked, plan.other):
        if line is None or line.outlook is None:
            continue
        colour, _, style = _STYLES[line.mechanism]
        axes.axhline(
            line.outlook.noise_edge,
            color=colour,
            linestyle=style,
            label=f"noise edge, {line.mechanism.value}, epsilon {line.epsilon}",
        )
    axes.set_yscale("log")
    axes.set_xlabel("component")
    axes.set_ylabel("variance (coded units)")
    axes.set_title("What stands above the noise", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
