"""Rounds of the benchmarks, and masked sums beside Flower's."""

from pathlib import Path

import pytest

from benchmarks.performance import secagg
from benchmarks.performance.registry import BenchmarkPlan


def test_rounds_alternate_and_medians_count_only_them() -> None:
    order: list[str] = []
    seconds = iter([9.0, 1.0, 3.0, 2.0])

    def timed() -> float:
        order.append("a")
        return next(seconds)

    def other() -> None:
        order.append("b")

    plan = BenchmarkPlan(quick=True, rounds=3, scratch=Path(), say=print)
    timings = plan.race({"a": timed, "b": other}, work={"a": 10, "b": 1})
    assert order == ["a", "b", "a", "b", "b", "a", "a", "b"]
    assert timings["a"].seconds == [1.0, 3.0, 2.0], "the warm-up is not counted"
    assert timings["a"].median_s == 2.0
    assert timings["a"].rate == 5.0
    assert len(timings["b"].seconds) == 3


def test_the_most_that_may_be_gone_ends_at_the_first_failure() -> None:
    assert secagg.most_gone(lambda n: n != 3) == 2
    assert secagg.most_gone(lambda _: True) == 9
    with pytest.raises(ValueError, match="empty"):
        secagg.most_gone(lambda _: False)
