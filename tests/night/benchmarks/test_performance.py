"""Every benchmark at tiny size: that it works and says what it ran on, never how fast it was."""

import sys
from pathlib import Path

import pytest

from benchmarks import environments
from benchmarks.environments import GuestError, PatienceError, find_environment, open_guest
from benchmarks.performance import databases
from benchmarks.performance.registry import BENCHMARKS, BenchmarkPlan
from tests.support.benchmarks import run_quickly
from tests.support.patience import WAIT_S
from tests.support.postgres import postgres_server


@pytest.mark.parametrize("name", sorted({*BENCHMARKS} - {"spark"}))  # it is in tests/night/spark
def test_a_benchmark_gives_figures_and_the_machine(
    name: str, tmp_path: Path, data_folder: Path
) -> None:
    run_quickly(name, tmp_path)


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


GUEST = """
import os, sys, time
for line in sys.stdin:
    if line.strip() == "sleep":
        time.sleep(36000)
    print(float(os.environ["OMP_NUM_THREADS"]) + len(sys.argv), flush=True)
"""


def test_a_guest_answers_every_line_until_it_takes_too_long(tmp_path: Path) -> None:
    script = tmp_path / "guest.py"
    script.write_text(GUEST)
    with open_guest(Path(sys.executable), script, "one", "two", threads=7) as ask:
        assert ask("fit", WAIT_S) == 10.0
        assert ask("rows") == 10.0
        with pytest.raises(PatienceError):
            ask("sleep", 0.05)


def test_what_cannot_be_installed_is_said_and_what_can_is_installed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    with pytest.raises(GuestError, match=r"cannot be installed here[^$]*dppca-is-not-there"):
        find_environment("here", ("--no-index", "dppca-is-not-there"))
    folder = tmp_path / "build/tools/here"
    assert find_environment("here", ("--no-index", "pip")) == folder / "bin/python"
    (folder / "mark").touch()
    find_environment("here", ("--no-index", "pip"))
    assert (folder / "mark").exists(), "it was not made again"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys\nsys.stdin.readline()\nsys.exit('no such model')\n", "no such model"),
        ("raise SystemExit(3)\n", "ended with 3"),
        ("print('hello', flush=True)\n", "hello"),
    ],
)
def test_a_guest_that_ends_instead_of_an_answer_leaves_its_last_words(
    tmp_path: Path, program: str, said: str
) -> None:
    script = tmp_path / "guest.py"
    script.write_text(program)
    with (
        pytest.raises(GuestError, match=said),
        open_guest(Path(sys.executable), script, threads=1) as ask,
    ):
        ask("fit", WAIT_S)
