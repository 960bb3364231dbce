"""Rounds of the benchmarks, and masked sums beside Flower's."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.performance import secagg
from benchmarks.performance.registry import BenchmarkPlan
from dppca.common.errors import ConflictError, OpeningRefusedError


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


def test_a_sum_without_three_owners_and_a_spare_opener_is_exact() -> None:
    parties, vectors = secagg.mask_sums(4, openers=4, spares=1)
    gone = parties.study.owners[1:2]
    whole, part = (
        secagg.add_masked(parties, vectors, missing=missing, gone=gone) for missing in (0, 3)
    )
    assert whole.error == part.error == 0
    assert whole.up - part.up > 3 * 8 * vectors.shape[1]
    with pytest.raises(OpeningRefusedError):
        secagg.add_masked(parties, vectors, missing=4)
    with pytest.raises(OpeningRefusedError):
        secagg.add_masked(parties, vectors, gone=parties.study.owners[:2])
    parties, vectors = secagg.mask_sums(4, openers=2, spares=0)
    with pytest.raises(ConflictError):
        secagg.add_masked(parties, vectors, gone=gone)


def test_the_most_that_may_be_gone_ends_at_the_first_failure() -> None:
    assert secagg.most_gone(lambda n: n != 3) == 2
    assert secagg.most_gone(lambda _: True) == 9
    with pytest.raises(ValueError, match="empty"):
        secagg.most_gone(lambda _: False)
