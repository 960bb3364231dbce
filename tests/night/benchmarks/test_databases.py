"""The race against the driver runs, on both kinds of numbers; without a server it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.performance import databases
from benchmarks.performance.registry import BenchmarkPlan
from tests.support.postgres import postgres_server


@pytest.fixture
def plan(tmp_path: Path) -> BenchmarkPlan:
    return BenchmarkPlan(quick=True, rounds=1, scratch=tmp_path, say=lambda _: None)


def test_both_kinds_of_numbers_are_raced(plan: BenchmarkPlan) -> None:
    with postgres_server():  # skips, or fails in CI, where there is none to start
        (table,) = databases.measure(plan)
    assert [row[:2] for row in table.rows] == [("float8", 2000), ("numeric", 2000)]
    for *_, alone, mine, ratio, _by_cpu in table.rows:
        assert isinstance(alone, float)
        assert isinstance(mine, float)
        assert ratio == pytest.approx(mine / alone)


def test_without_a_server_the_table_says_so(
    plan: BenchmarkPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "find_programs", lambda: None)
    (table,) = databases.measure(plan)
    assert table.rows[0][0] == "no PostgreSQL server is installed"
    assert set(table.rows[0][1:]) == {None}
