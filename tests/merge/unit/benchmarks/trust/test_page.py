"""Means of trials, and whether they reach what was asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.trust import page


def run(owners: int, seed: int, accuracy: float, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "subject": "demo",
        "mechanism": "gaussian",
        "epsilon": "0.5",
        "owners": owners,
        "trust": "aggregate",
        "seed": seed,
        "accuracy": {"idp": accuracy},
        "pairs": 0.1,
        "noise": 1.0,
        "forecast": 1.0,
    }
    return found | changes


@pytest.mark.parametrize(("lost", "verdict"), [(0.009, "reached"), (0.02, "**missed** in 1 of 1")])
def test_accuracy_that_is_lost_with_many_owners_is_said(lost: float, verdict: str) -> None:
    line, _ = page.asked(page.summarize([run(3, 0, 0.8), run(30, 0, 0.8 - lost)]))
    assert verdict in line
    own = [run(3, 0, 0.8, trust="owner"), run(30, 0, 0.5, trust="owner")]
    assert "not measured" in page.asked(page.summarize(own))[0]
    little = [run(3, 0, 0.8, epsilon="0.1"), run(30, 0, 0.5, epsilon="0.1")]
    assert "not measured" in page.asked(page.summarize(little))[0]


@pytest.mark.parametrize(("noise", "verdict"), [(1.015, "reached"), (0.97, "**missed**")])
def test_noise_off_its_forecast_is_said(noise: float, verdict: str) -> None:
    assert verdict in page.asked(page.summarize([run(10, 0, 0.8, noise=noise)]))[1]


def test_the_page_is_the_file_in_words() -> None:
    assert page.PAGE.read_text() == page.page(json.loads(page.JSON_FILE.read_text()))


def test_the_readme_has_the_short_table() -> None:
    readme = page.FOLDER.parents[1] / "README.md"
    assert page.short_table(json.loads(page.JSON_FILE.read_text())) in readme.read_text()
