"""The page of comparisons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rivals import page, pca, synthetic
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


def test_each_relation_has_a_table_of_its_own() -> None:
    added = synthetic_cell(contestant="MST", neighbours="one row added or removed")
    text = page.section_text("nltcs", section(synthetic_cell(), added))
    first, second = text.split("Neighbours: one row added or removed.")
    assert "Neighbours: one row replaced." in first
    assert "| DPPCA | 3 | 0.2 | 0.800 ± 0.010 | 0.700 | 0.100 | 0.200 | 12.3 | 1,234 | 3 |" in first
    assert "MST" in second
    assert "MST" not in first
    assert page.section_text("nltcs", section(synthetic_cell(epsilon="0.5"))).count("DPPCA") == 0


def test_what_was_not_run_says_why() -> None:
    fault = {"runs": 0, "faults": {"not done in 60 s": 1, "not tried": 2}}
    bare = {key: synthetic_cell()[key] for key in (*synthetic.BY,)}
    text = page.section_text(
        "nltcs", section(synthetic_cell(), bare | fault | {"contestant": "AIM"})
    )
    assert "| AIM |" not in text
    assert "- not done in 60 s: AIM (1)." in text
    assert "- not tried: AIM (2)." in text


def test_components_have_a_column_for_each_epsilon_and_a_dash_where_nothing_ran() -> None:
    def cell(who: str, epsilon: str, **figures: Any) -> dict[str, Any]:
        known = {"subject": "musk", "contestant": who, "components": 3, "epsilon": epsilon}
        return {**known, "runs": 1, "faults": {}, **figures}

    text = page.section_text(
        "pca",
        section(
            cell(pca.EXACT, "", captured=[0.6, 0.0]),
            cell(pca.GUESTS[0], "0.1", captured=[0.5, 0.0]),
            cell(pca.GUESTS[0], "1", runs=0, faults={"slow": 1}),
        ),
    )
    assert f"| {pca.EXACT} | 0.600 | 0.600 | 0.600 | 0.600 |" in text
    assert f"| {pca.GUESTS[0]} | 0.500 | – | – | – |" in text
    assert f"- slow: {pca.GUESTS[0]}, musk (1)." in text


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
