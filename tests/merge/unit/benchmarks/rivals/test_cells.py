"""Cells that are kept, cells that cannot run, and means over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.environments import GuestError
from benchmarks.rivals.cells import PatienceError, RivalRun, read_cells, run_cells, summarize


class Runs:
    """Cells whose figure is their split, and what was run of them."""

    def __init__(self) -> None:
        self.splits: list[int] = []

    def cell(self, split: int, error: Exception | None = None, who: str = "one") -> RivalRun:
        def run() -> dict[str, Any]:
            self.splits.append(split)
            if error is not None:
                raise error
            return {"figure": float(split), "by": {"a": 1.0, "b": 2.0 * split}}

        return RivalRun({"subject": "fair", "contestant": who, "split": split}, run)

    def run(
        self, cells: list[RivalRun], path: Path, *, again: bool = False
    ) -> list[dict[str, Any]]:
        return run_cells(cells, path, again=again)


def test_a_cell_that_cannot_run_keeps_its_reason_and_the_others_run(tmp_path: Path) -> None:
    error = GuestError("its last words")
    runs, path = Runs(), tmp_path / "cells.jsonl"
    found = runs.run([runs.cell(1, error), runs.cell(2)], path)
    assert found[0]["fault"] == str(error)
    assert "fault" not in found[1]
    assert runs.run([runs.cell(1, error)], path) == found[:1]
    assert runs.splits == [1, 2], "a fault is a finished cell, too"


def test_where_patience_ended_once_the_others_of_that_place_are_not_tried(tmp_path: Path) -> None:
    runs, path = Runs(), tmp_path / "cells.jsonl"
    slow = runs.cell(1, PatienceError(60))
    found = runs.run([slow, runs.cell(2), runs.cell(3, who="two")], path)
    assert [each.get("fault") for each in found] == [
        "not done in 60 s",
        "not tried, as another cell took too long",
        None,
    ]
    assert runs.run([runs.cell(4)], path)[0]["fault"].startswith("not tried")
    assert runs.splits == [1, 3]


def test_a_file_is_taken_as_it_is_without_a_run(tmp_path: Path) -> None:
    runs, path = Runs(), tmp_path / "cells.jsonl"
    done = runs.run([runs.cell(1)], path)
    found = read_cells([runs.cell(1), runs.cell(2)], path)
    assert found[:1] == done
    assert found[1]["fault"] == "not run, for want of machine time"
    assert runs.splits == [1]


def test_means_are_of_runs_with_figures_and_reasons_of_the_others(tmp_path: Path) -> None:
    runs = Runs()
    cells = [runs.cell(1), runs.cell(3), runs.cell(5, GuestError("no\n  room"))]
    (mean,) = summarize(runs.run(cells, tmp_path / "cells.jsonl"), ("subject", "contestant"))
    assert mean == {
        "subject": "fair",
        "contestant": "one",
        "runs": 2,
        "faults": {"no room": 1},
        "figure": [2.0, 1.0],
        "by": {"a": [1.0, 0.0], "b": [4.0, 2.0]},
    }
