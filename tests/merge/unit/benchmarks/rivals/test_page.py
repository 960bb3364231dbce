"""The page of comparisons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rivals import page, synthetic
from dppca.common.errors import SettingError

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


def test_the_page_is_made_from_the_committed_figures() -> None:
    sections = json.loads(page.JSON_FILE.read_text())
    assert list(sections) == list(page.NAMES)
    assert page.PAGE.read_text() == page.page(sections)


def test_every_cell_of_a_full_run_is_in_the_file() -> None:
    sections = json.loads(page.JSON_FILE.read_text())
    for name in page.NAMES:
        cells, by = page.list_cells(name, splits=1, only="", neighbours="")
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
