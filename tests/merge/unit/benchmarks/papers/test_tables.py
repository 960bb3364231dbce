"""Tables and plots of experiments: what is printed, what stands beside it."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.papers.rows import PaperSource
from benchmarks.papers.sun import printed as sun_printed
from benchmarks.papers.tables import Line, make_markdown
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


EXPERIMENT = Experiment(
    name="toy",
    title="Toy",
    source="nobody",
    x="epsilon",
    grid=lambda _: tuple(LINES),
    compute=lambda _: RUNS[0].outcomes[0],
    measures=("accuracy",),
    printed=lambda cell: {"accuracy": "84.10"} if cell.variant == PUBLISHED else {},
)


def rows_of(text: str) -> list[dict[str, str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[field.strip() for field in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def test_a_published_line_has_control_and_sound_form_beside_it() -> None:
    first, *others = rows_of(make_markdown(EXPERIMENT, RUNS, command="c"))
    assert first["accuracy %"] == "85.00 ± 7.07"
    assert first["control: random subspace"] == "85.00 ± 0.00"
    assert first["sound form, held out"] == "55.00 ± 7.07"
    assert first["true epsilon"] == "0.475"
    assert (first["k"], first["printed"]) == ("1 to 2", "84.10")
    assert [other["variant"] for other in others] == [SOUND, ""]
    assert all(other["sound form, held out"] == "" for other in others)


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
