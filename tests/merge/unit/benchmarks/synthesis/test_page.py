"""Means of trials, and whether they reach what was asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.synthesis import page
from benchmarks.synthesis.asked import ASKED, GAIN, HISTOGRAMS, PAIRS, Asked
from benchmarks.synthesis.forms import PLAIN, SHAPED, TARGETED
from benchmarks.synthesis.trials import BEFORE, FIELD, OWN_NOISE


def run(split: int, accuracy: float, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "subject": "fair",
        "form": PLAIN,
        "decoder": FIELD,
        "mechanism": "gaussian",
        "epsilon": "1",
        "noise": OWN_NOISE,
        "split": split,
        "draw": 0,
        "accuracy": {"affair": accuracy},
        "pairs": 0.1,
        "marginals": {"age": 0.2, "educ": 0.3},
        "seconds": 2.0,
        "method": "field",
        "misfit": 0.1,
    }
    return found | changes


def test_the_gain_compares_runs_of_one_split_and_draw() -> None:
    before = [run(0, 0.5, decoder=BEFORE), run(1, 0.7, decoder=BEFORE)]
    shaped = [run(0, 0.7, form=SHAPED), run(1, 0.8, form=SHAPED)]
    cells = page.summarize([*before, *shaped])
    assert cells[1]["gain"] == pytest.approx([0.15, 0.05])
    assert cells[0]["gain"] == [0.0, 0.0]


def test_what_was_asked_is_looked_up_in_the_form_with_most_declared() -> None:
    runs = [run(s, x, form=f) for f, x in ((TARGETED, 0.9), (PLAIN, 0.5)) for s in (0, 1)]
    cells = page.summarize([*runs, run(0, 0.1, form="8 bins"), run(0, 0.2, decoder=BEFORE)])
    assert page.judged(asked("affair", 0.8), cells) == [0.9, 0.0]
    assert page.judged(asked(PAIRS, 0.8), cells) == [0.1, 0.0]
    assert page.judged(asked(HISTOGRAMS, 0.8), cells) == [0.3, 0.0]
    assert page.judged(asked("affair", 0.8, epsilon="0.2"), cells) is None
    assert page.judged(asked(GAIN, 0.0), cells) == pytest.approx([0.7, 0.0])


@pytest.mark.parametrize(
    ("measure", "mean", "reached"),
    [
        ("affair", 0.7996, True),
        ("affair", 0.7994, False),
        (GAIN, 0.801, True),
        (PAIRS, 0.8004, True),
        (PAIRS, 0.8006, False),
        (HISTOGRAMS, 0.9, False),
    ],
)
def test_a_figure_is_reached_to_three_decimals(measure: str, mean: float, reached: bool) -> None:
    assert page.is_reached(asked(measure, 0.8), mean) == reached


def test_the_page_is_made_from_the_committed_figures() -> None:
    cells = json.loads(page.JSON_FILE.read_text())
    assert page.PAGE.read_text() == page.page(cells)
    missing = [each for each in ASKED if page.judged(each, cells) is None]
    assert missing == []


def asked(measure: str, bound: float, *, epsilon: str = "1") -> Asked:
    return Asked("fair", "gaussian", epsilon, OWN_NOISE, measure, bound)
