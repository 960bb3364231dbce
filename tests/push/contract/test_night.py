"""A landing has at most eight minutes for the night, spends them in order, and forgets nothing."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.checkout import ROOT
from tests.support.examples import examples
from tools import night
from tools.night import LANDING_S, RECORD, SUITES, find_parts, touched_suites
from tools.night_record import (
    MOST_LANDINGS,
    Digests,
    LastRun,
    Record,
    age,
    choose,
    count_landing,
    find_overdue,
    leave_due,
    order_due,
    row_of,
)

EMPTY = Record(prepared={}, rows={})


def test_the_committed_record_is_as_it_is_written() -> None:
    text = (ROOT / RECORD).read_text()
    assert Record.read(text).text() == text


def test_every_suite_has_parts_and_every_part_a_file() -> None:
    parts = find_parts()
    assert set(parts.values()) == SUITES.keys()
    assert all((ROOT / part.partition("::")[0]).is_file() for part in parts)
    assert "tests/push/property/test_sensitivity_laws.py" in parts
    assert "tests/push/property/test_hostile_bytes.py" not in parts, (
        "its laws are made inside tests"
    )


ROWS = st.builds(
    LastRun,
    digest=st.sampled_from(["", "a", "b"]),
    result=st.sampled_from(["passed", "failed", "skipped"]),
    tests=st.integers(0, 10),
    seconds=st.floats(0, 1e4),
    due_since=st.none() | st.integers(0, 30),
)


@settings(max_examples=examples(60))
@given(st.dictionaries(st.text("abc/:", min_size=1), ROWS), st.integers(0, 99))
def test_a_record_is_read_as_it_was_written(rows: dict[str, LastRun], landings: int) -> None:
    record = Record(landings=landings, state="s", prepared={"guides": 1.5}, rows=rows)
    assert Record.read(record.text()) == record


def test_what_failed_comes_first_then_what_changed_itself_then_the_oldest() -> None:
    rows = {
        "passed": LastRun(digest="now", own="own", result="passed"),
        "old": LastRun(digest="before", own="own", due_since=2),
        "older": LastRun(digest="before", own="own", due_since=1),
        "new": LastRun(digest="before", own="own"),
        "changed": LastRun(digest="before", own="another", due_since=9),
        "failed": LastRun(digest="before", own="own", result="failed"),
    }
    record = replace(EMPTY, landings=9, rows=rows)
    digests, owns = dict.fromkeys(rows, "now"), dict.fromkeys(rows, "own")
    assert order_due(record, digests, owns) == ["failed", "changed", "older", "old", "new"]


def test_the_same_files_are_one_landing() -> None:
    once = count_landing(EMPTY, {"part": "now"})
    assert (EMPTY.landings, once.landings) == (0, 1)
    assert count_landing(once, {"part": "now"}) == once
    assert count_landing(once, {"part": "then"}).landings == 2


COSTS = st.lists(st.floats(1, 700), min_size=1, max_size=40)


@settings(max_examples=examples(200))
@given(COSTS, st.floats(0, 600), st.floats(0, 100))
def test_what_is_chosen_fits_and_leads_with_the_first_that_fits(
    costs: list[float], left_s: float, prepare_s: float
) -> None:
    due = [f"{'xyz'[number % 3]}{number}" for number in range(len(costs))]
    cost = dict(zip(due, costs, strict=True)).__getitem__

    def needs(part: str) -> float:
        return cost(part) + prepare_s * (part[0] == "x")

    chosen = choose(
        due, cost, lambda part: part[0], left_s=left_s, prepare_s={"x": prepare_s}, most_s=120
    )
    assert chosen == [] or {part[0] for part in chosen} == {chosen[0][0]}
    assert (
        sum(map(cost, chosen))
        + prepare_s * (chosen[:1] > ["x"]) * ("x" in {part[0] for part in chosen})
        <= left_s + 1e-9
    )
    fitting = [part for part in due if needs(part) <= left_s]
    assert chosen[:1] == fitting[:1]


def land(record: Record, costs: Mapping[str, float], *, number: int) -> Record:
    """A landing that changes what every part rests on and no part itself."""
    digests = dict.fromkeys(costs, f"files {number}")
    record = count_landing(record, digests)
    due, left_s = order_due(record, digests, dict.fromkeys(costs, "")), LANDING_S
    while chosen := choose(due, costs.__getitem__, lambda _: "suite", left_s=left_s, prepare_s={}):
        left_s -= sum(map(costs.__getitem__, chosen))
        due = [part for part in due if part not in chosen]
        passed = (
            LastRun(digest=digests[part], result="passed", date=f"{number:03}") for part in chosen
        )
        record = record.with_rows(dict(zip(chosen, passed, strict=True)))
    assert left_s >= 0
    return leave_due(record, due)


def test_a_night_of_72_minutes_is_run_by_its_landings_before_any_part_is_too_old() -> None:
    costs = {f"part-{number:03}": 30.0 + number % 7 for number in range(130)}
    assert 70 * 60 < sum(costs.values()) < 74 * 60
    record, oldest = EMPTY, 0
    for number in range(40):
        record = land(record, costs, number=number)
        oldest = max(oldest, *(age(record, part) for part in costs))
        assert find_overdue(record, costs) == []
    assert 5 < oldest < MOST_LANDINGS


def test_a_night_that_landings_cannot_clear_fails() -> None:
    costs = {f"part-{number:03}": 60.0 for number in range(130)}
    record = EMPTY
    for number in range(40):
        record = land(record, costs, number=number)
    assert find_overdue(record, costs)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one part of the night, and no passes kept elsewhere."""
    root = tmp_path / "checkout"
    monkeypatch.setattr(night, "ROOT", root)
    monkeypatch.setenv("DPPCA_NIGHT_PASSES", str(tmp_path / "passes"))
    texts = {
        "tests/night/audits/test_noise.py": "from dppca.common.noise import draw\n",
        "tests/night/audits/test_other.py": "",
        "common/noise.py": "import numpy\n",
        "owner/ledger/chain.py": "",
        "docs/reference/errors.md": "",
        "docs/how-to/first.md": "",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


PART = "tests/night/audits/test_noise.py"


def digests_of(root: Path) -> Digests:
    return Digests(root, night._read_contents(), lambda path: touched_suites([path]))


@pytest.mark.parametrize(
    ("name", "digest", "own"),
    [
        (PART, True, True),
        ("common/noise.py", True, False),
        ("owner/selftest/new.py", True, False),
        ("a/new/room.py", True, False),
        ("tests/night/audits/test_other.py", False, False),
        ("tests/night/audits/conftest.py", True, False),
        ("tests/support/new.py", False, False),
        ("docs/how-to/first.md", False, False),
        ("owner/ledger/chain.py", False, False),
    ],
)
def test_a_part_is_due_when_what_it_rests_on_changes(
    checkout: Path, name: str, digest: bool, own: bool
) -> None:
    before = digests_of(checkout)
    changed = checkout / name
    changed.parent.mkdir(parents=True, exist_ok=True)
    changed.write_text("# changed\n")
    after = digests_of(checkout)
    assert (before.digest(PART, "audits") != after.digest(PART, "audits")) == digest
    assert (before.own(PART, ()) != after.own(PART, ())) == own


class Runs:
    """In place of pytest: what ran, and how it ended."""

    def __init__(self, **failed: bool) -> None:
        self.ran: list[str] = []
        self.failed = failed

    def __call__(self, suite: night.Suite, parts: list[str]) -> dict[str, night._Outcome]:
        self.ran += parts
        return {
            part: night._Outcome(failed=bool(self.failed), tests=3, seconds=9) for part in parts
        }


def new_night(monkeypatch: pytest.MonkeyPatch, runs: Runs) -> night.Night:
    monkeypatch.setattr(night, "_run_parts", runs)
    return night.Night({PART: "audits"})


def test_a_pass_is_written_down_and_kept_for_another_checkout(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs()
    assert new_night(monkeypatch, runs).land(480) == []
    record = Record.read((checkout / RECORD).read_text())
    assert (record.landings, row_of(record, PART).result, runs.ran) == (1, "passed", [PART])
    (checkout / RECORD).unlink()
    assert new_night(monkeypatch, runs).land(480) == []
    assert runs.ran == [PART]
    assert row_of(Record.read((checkout / RECORD).read_text()), PART).tests == 3


def test_a_failure_is_due_and_fails_each_landing_until_it_passes(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert new_night(monkeypatch, Runs(failed=True)).land(480) == [PART]
    assert new_night(monkeypatch, Runs()).land(480) == []
    assert new_night(monkeypatch, runs := Runs()).land(480) == []
    assert runs.ran == []


def test_what_does_not_fit_waits_and_fails_after_twelve_landings(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(MOST_LANDINGS):
        (checkout / "common/noise.py").write_text(f"# {number}\n")
        assert new_night(monkeypatch, Runs()).land(1) == []
        assert "DUE NEXT: 1 parts" in capsys.readouterr().out
    (checkout / "common/noise.py").write_text("# once more\n")
    assert new_night(monkeypatch, Runs()).land(1) == [PART]
    assert f"OVERDUE {PART}" in capsys.readouterr().out


def test_files_that_change_while_they_are_tried_have_not_passed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(suite: night.Suite, parts: list[str]) -> dict[str, night._Outcome]:
        (checkout / "common/noise.py").write_text("# meanwhile\n")
        return {part: night._Outcome(tests=1) for part in parts}

    monkeypatch.setattr(night, "_run_parts", change)
    tonight = night.Night({PART: "audits"})
    tonight.land(480)
    assert tonight.is_due(PART)


@pytest.mark.parametrize(("asked", "given"), [("-300", 120), ("300", 300), ("1700", 480)])
def test_a_landing_gives_the_night_what_is_left_of_its_half_hour(
    asked: str, given: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = list[float]()
    monkeypatch.setattr(night.Night, "land", lambda _, seconds: spent.append(seconds) or [])
    monkeypatch.setattr(night.Night, "__init__", lambda *_: None)
    assert night.main(["--landing", asked]) == 0
    assert spent == [given]


@pytest.mark.parametrize("asked", [["--help"], ["--touched"], ["law"]])
def test_what_is_no_suite_runs_none(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(night, "Night", None)
    with pytest.raises(SystemExit) as ended:
        night.main(asked)
    assert ended.value.code == (0 if asked == ["--help"] else 2)
