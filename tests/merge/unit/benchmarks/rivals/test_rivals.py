"""Contestants, their cells, and the page of comparisons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.environments import GuestError, PatienceError
from benchmarks.rivals import page, synthetic
from benchmarks.rivals.cells import RivalRun, read_cells, run_cells, summarize
from benchmarks.rivals.neighbours import Neighbours
from benchmarks.rivals.synthetic import (
    OURS,
    SUBN3,
    Contestant,
    draw_values,
    judge_table,
    run_contestant,
)
from benchmarks.synthesis.judging import attribute_cells, split_rows
from benchmarks.synthesis.subjects import load_subject
from dppca.common.errors import SettingError


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


def test_a_cell_that_cannot_run_keeps_its_reason_and_the_others_run(tmp_path: Path) -> None:
    error = GuestError("its last words")
    runs, path = Runs(), tmp_path / "cells.jsonl"
    found = run_cells([runs.cell(1, error), runs.cell(2)], path)
    assert found[0]["fault"] == str(error)
    assert "fault" not in found[1]
    assert run_cells([runs.cell(1, error)], path) == found[:1]
    assert runs.splits == [1, 2], "a fault is a finished cell, too"


def test_where_patience_ended_once_the_others_of_that_place_are_not_tried(tmp_path: Path) -> None:
    runs, path = Runs(), tmp_path / "cells.jsonl"
    cells = [runs.cell(1, PatienceError(60)), runs.cell(2), runs.cell(3, who="two"), runs.cell(4)]
    found = run_cells(cells, path)
    skipped = "not tried, as another cell took too long"
    assert [each.get("fault") for each in found] == ["not done in 60 s", skipped, None, skipped]
    assert runs.splits == [1, 3]


def test_a_file_is_taken_as_it_is_without_a_run(tmp_path: Path) -> None:
    runs, path = Runs(), tmp_path / "cells.jsonl"
    done = run_cells([runs.cell(1)], path)
    found = read_cells([runs.cell(1), runs.cell(2)], path)
    assert found[:1] == done
    assert found[1]["fault"] == "not run, for want of machine time"
    assert runs.splits == [1]


def test_means_are_of_runs_with_figures_and_reasons_of_the_others(tmp_path: Path) -> None:
    runs = Runs()
    cells = [runs.cell(1), runs.cell(3), runs.cell(5, GuestError("no\n  room"))]
    (mean,) = summarize(run_cells(cells, tmp_path / "cells.jsonl"), ("subject", "contestant"))
    assert mean == {
        "subject": "fair",
        "contestant": "one",
        "runs": 2,
        "faults": {"no room": 1},
        "figure": [2.0, 1.0],
        "by": {"a": [1.0, 0.0], "b": [4.0, 2.0]},
    }


MACHINE = dict.fromkeys(("processor", "cores", "memory", "Python", "numpy"), "?")


def section(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"command": "python -m benchmarks.rivals x", "machine": MACHINE, "cells": list(cells)}


def synthetic_cell(**changes: Any) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "subject": "nltcs",
        "contestant": "DPPCA",
        "owners": 3,
        "neighbours": "one row replaced",
        "epsilon": "0.2",
        "runs": 3,
        "faults": {},
        "linear": {"money": [0.8, 0.01]},
        "rbf": {"money": [0.7, 0.0]},
        "singles": [0.1, 0.0],
        "pairs": [0.2, 0.0],
        "seconds": [12.34, 0.0],
        "mib": [1234.5, 1.0],
    }
    return cell | changes


def test_every_cell_of_a_full_run_is_in_the_file() -> None:
    sections = json.loads(page.JSON_FILE.read_text())
    for name in page.NAMES:
        cells, by = page.list_cells(name, splits=1, only="")
        asked = {tuple(cell.facts[each] for each in by) for cell in cells}
        kept = {tuple(cell[each] for each in by) for cell in sections[name]["cells"]}
        assert kept == asked, name


@pytest.fixture
def committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "JSON_FILE", tmp_path / "comparison.json")
    monkeypatch.setattr(page, "PAGE", tmp_path / "comparison.md")
    page.keep("nltcs", section(synthetic_cell(), synthetic_cell(contestant="MST", runs=1)))


@pytest.mark.usefixtures("committed")
def test_cells_of_other_contestants_stay_in_their_places() -> None:
    again = section(synthetic_cell(runs=2), synthetic_cell(contestant="AIM"))
    merged = page.merge("nltcs", again, synthetic.BY)["cells"]
    assert [(cell["contestant"], cell["runs"]) for cell in merged] == [
        ("DPPCA", 2),
        ("MST", 1),
        ("AIM", 3),
    ]


@pytest.mark.usefixtures("committed")
def test_cells_of_two_machines_are_not_mixed() -> None:
    elsewhere = section(synthetic_cell()) | {"machine": MACHINE | {"processor": "another"}}
    with pytest.raises(SettingError, match="run all here"):
        page.merge("nltcs", elsewhere, synthetic.BY)


def test_values_that_are_made_of_cells_are_in_these_cells() -> None:
    subject = load_subject("fair")
    schema, edges = subject.schema, subject.edges
    codes, _ = attribute_cells(schema, subject.columns, edges)
    values = draw_values(subject, np.column_stack(codes).astype(float), np.random.default_rng(0))
    again, _ = attribute_cells(schema, values, edges)
    assert (np.column_stack(again) == np.column_stack(codes)).all()


def test_the_real_rows_have_no_distance_from_themselves() -> None:
    subject = load_subject("fair")
    training, _ = split_rows(subject.n_rows, 0)
    found = judge_table("fair", [column[training] for column in subject.columns], 0)
    assert (found["singles"], found["pairs"]) == (0.0, 0.0)
    assert found["linear"]["affair"] == pytest.approx(0.73, abs=0.02)
    assert found["rbf"]["affair"] == pytest.approx(0.73, abs=0.02)


@pytest.mark.parametrize(
    "who", [Contestant(OURS, Neighbours.ADDED, owners=2), Contestant(SUBN3, Neighbours.REPLACED)]
)
def test_a_guest_of_this_software_makes_rows_that_resemble_the_real_ones(who: Contestant) -> None:
    found = run_contestant("fair", who, "100", 0)
    assert found["singles"] < 0.1
    assert found["seconds"] > 0
    assert 50 < found["mib"] < 5000
