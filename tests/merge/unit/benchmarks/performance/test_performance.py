"""Rounds, pages and names of the benchmarks; each runs at tiny size in the night."""

from __future__ import annotations

import json

from benchmarks.performance import page
from benchmarks.performance.racing import time_subjects
from benchmarks.performance.registry import BENCHMARKS


def test_the_page_is_made_from_the_committed_figures() -> None:
    sections = json.loads(page.JSON_FILE.read_text())
    assert page.PAGE.read_text() == page.page(sections)
    assert set(sections) <= set(BENCHMARKS)


def test_rounds_alternate_and_medians_count_only_them() -> None:
    order: list[str] = []
    seconds = iter([9.0, 1.0, 3.0, 2.0])

    def timed() -> float:
        order.append("a")
        return next(seconds)

    def other() -> None:
        order.append("b")

    timings = time_subjects({"a": timed, "b": other}, rounds=3, work={"a": 10, "b": 1})
    assert order == ["a", "b", "a", "b", "b", "a", "a", "b"]
    assert timings["a"].seconds == [1.0, 3.0, 2.0], "the warm-up is not counted"
    assert timings["a"].median_s == 2.0
    assert timings["a"].rate == 5.0
    assert len(timings["b"].seconds) == 3
