"""Tables and plots of experiments: what is printed, what stands beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers.plots import plot_lines
from benchmarks.papers.rows import PaperSource
from benchmarks.papers.sun import printed as sun_printed
from benchmarks.papers.tables import Line, group_lines, make_markdown
from benchmarks.papers.trials import (
    CONTROLS,
    PUBLISHED,
    SOUND,
    Experiment,
    Scored,
    Trial,
    TrialOutcome,
)

PRINTED = Trial(PaperSource("toy"), "m", PUBLISHED, "0.1", scored=Scored.TRAINING)
LINES = {
    PRINTED: (0.9, 0.8),
    replace(PRINTED, variant=CONTROLS[PUBLISHED]): (0.85, 0.85),
    replace(PRINTED, variant=SOUND, scored=Scored.HELD_OUT): (0.5, 0.6),
    replace(PRINTED, method="SVM", variant="", epsilon=""): (0.95, 0.95),
}
RUNS = [
    Line(
        cell,
        tuple(
            TrialOutcome(n=100, d=4, k=seed, accuracy=value, seconds=0.25, true_epsilon="0.4750")
            for seed, value in enumerate(values, start=1)
        ),
    )
    for cell, values in LINES.items()
]


def changed(line: Line, **changes: Any) -> Line:
    return Line(line.cell, tuple(replace(each, **changes) for each in line.outcomes))


def experiment(
    printed: Mapping[str, str] | None = None, *, x: str = "epsilon", measure: str = "accuracy"
) -> Experiment:
    def asked(cell: Trial) -> Mapping[str, str]:
        return printed or {} if cell.variant == PUBLISHED else {}

    return Experiment(
        name="toy",
        title="Toy",
        source="nobody",
        x=x,
        grid=lambda _: tuple(LINES),
        compute=lambda _: RUNS[0].outcomes[0],
        measures=(measure,),
        printed=asked,
        notes=("A note.",),
    )


def rows_of(text: str) -> list[dict[str, str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[field.strip() for field in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def test_means_and_spreads_are_over_seeds() -> None:
    cells = [replace(PRINTED, seed=seed) for seed in (1, 2)]
    (line,) = group_lines(cells, RUNS[0].outcomes)
    assert line.cell == replace(PRINTED, seed=0)
    assert line.mean("accuracy") == pytest.approx(0.85)
    assert line.spread("accuracy") == pytest.approx(0.1 / 2**0.5)


def test_a_published_line_has_control_and_sound_form_beside_it() -> None:
    first, *others = rows_of(make_markdown(experiment(), RUNS, command="c"))
    assert first["accuracy %"] == "85.00 ± 7.07"
    assert first["control: random subspace"] == "85.00 ± 0.00"
    assert first["sound form, held out"] == "55.00 ± 7.07"
    assert first["true epsilon"] == "0.475"
    assert first["k"] == "1 to 2"
    assert [other["variant"] for other in others] == [SOUND, ""]
    assert all(other["sound form, held out"] == "" for other in others)


def test_a_printed_column_is_there_only_where_something_is_printed() -> None:
    without = make_markdown(experiment(), RUNS, command="c")
    assert "printed" not in without.splitlines()[4]
    row = rows_of(make_markdown(experiment({"accuracy": "84.10"}), RUNS, command="c"))[0]
    assert row["printed"] == "84.10"


def test_decoded_rows_have_a_column_only_where_there_are_some() -> None:
    assert "decoded rows %" not in make_markdown(experiment(), RUNS, command="c")
    decoded = [
        changed(line, decoded_accuracy=0.7) if line.cell.variant == SOUND else line for line in RUNS
    ]
    rows = rows_of(make_markdown(experiment(), decoded, command="c"))
    assert [row["decoded rows %"] for row in rows] == ["", "70.00 ± 0.00", ""]


def test_an_epsilon_that_nothing_makes_true_is_said_to_be_none() -> None:
    untrue = [changed(line, true_epsilon="") for line in RUNS]
    rows = rows_of(make_markdown(experiment(), untrue, command="c"))
    assert [row["true epsilon"] for row in rows] == ["none", "none", ""]


def test_a_table_says_how_it_was_made_and_what_to_know() -> None:
    text = make_markdown(experiment(), RUNS, command="python -m benchmarks.papers toy")
    assert text.startswith("# Toy\n")
    assert "Made by `python -m benchmarks.papers toy`" in text
    assert text.endswith("- A note.\n")


@pytest.mark.parametrize(
    ("x", "measure"), [("epsilon", "accuracy"), ("k", "seconds"), ("method", "seconds")]
)
def test_plots_are_drawn_as_png_and_svg(tmp_path: Path, x: str, measure: str) -> None:
    png, svg = plot_lines(experiment(x=x, measure=measure), RUNS, tmp_path / "toy")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text()[:500]


def test_table_4_is_compared_only_with_what_it_measured() -> None:
    whole = Trial(PaperSource("a1a"), "DPSVD", PUBLISHED, "0.5", scored=Scored.TRAINING)
    assert sun_printed(whole) == {"accuracy": "83.50", "support_vectors": "755"}
    for other in (
        replace(whole, scored=Scored.HELD_OUT),
        replace(whole, rows=500),
        replace(whole, variant=SOUND),
        replace(whole, source=PaperSource("file-1234")),
    ):
        assert sun_printed(other) == {}
