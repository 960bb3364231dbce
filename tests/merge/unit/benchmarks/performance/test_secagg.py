"""A masked sum beside Flower's: ours is exact, and a table says so where Flower is not there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.environments import GuestError
from benchmarks.performance import registry, secagg
from benchmarks.performance.registry import BenchmarkPlan, Cell
from dppca.common.errors import ConflictError, OpeningRefusedError

GUEST = """
import sys
for line in sys.stdin:
    word, *rest = line.split()
    if word == "round":
        most = {"share_keys": 0, "collect_masked_vectors": 3, "unmask": 2}[rest[0]]
        print(float(int(rest[1]) <= most), flush=True)
    else:
        told = {"seconds": 0.5, "client": 0.25, "up": 3e6, "down": 2e6, "error": 0.125}
        print({**told, "bits": 28}[word], flush=True)
"""


def test_a_sum_without_three_owners_and_a_spare_opener_is_exact() -> None:
    parties, vectors = secagg.make_parties(4, openers=4, spares=1)
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
    parties, vectors = secagg.make_parties(4, openers=2, spares=0)
    with pytest.raises(ConflictError):
        secagg.add_masked(parties, vectors, gone=gone)


def test_the_most_that_may_be_gone_ends_at_the_first_failure() -> None:
    assert secagg.most_gone(lambda n: n != 3) == 2
    assert secagg.most_gone(lambda _: True) == 9
    with pytest.raises(ValueError, match="empty"):
        secagg.most_gone(lambda _: False)


def test_a_library_that_cannot_be_installed_has_a_row_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> Path:
        raise GuestError("no such package")

    monkeypatch.setattr(registry, "find_environment", missing)
    said, rows = _measure(tmp_path, monkeypatch)
    assert any("no such package" in each for each in said)
    assert [row[0] for row in rows] == ["Flower 1.41 SecAgg+ (not installed)"] * 2
    assert {cell for row in rows for cell in row[1:]} == {None}


def test_what_a_guest_answers_is_in_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "guest.py"
    script.write_text(GUEST)
    monkeypatch.setattr(secagg, "GUEST", script)
    monkeypatch.setattr(registry, "find_environment", lambda *_: Path(sys.executable))
    _, rows = _measure(tmp_path, monkeypatch)
    assert rows == [
        ("Flower 1.41 SecAgg+", 0, 250, 500, 3, 2, 28, 0.125),
        ("Flower 1.41 SecAgg+", 3, 250, 500, 3, 2, 28, 0.125),
        ("Flower 1.41 SecAgg+", 0, 3, 2, 2),
    ]


def _measure(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[tuple[Cell, ...]]]:
    monkeypatch.setattr(secagg, "COLUMNS", 4)
    monkeypatch.setattr(secagg, "FEW", 3)
    said: list[str] = []
    plan = BenchmarkPlan(quick=False, rounds=1, scratch=folder, say=said.append)
    tables = secagg.measure(plan)
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
    assert tables[1].rows[1] == ("DPPCA, 4 openers, 1 spare", 3, 3, 7, 1)
    return said, [row for each in tables for row in each.rows if "Flower" in str(row[0])]
