"""Runs are kept one by one, never computed twice; means have their error; tables are Markdown."""

import json
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.experiment import (
    Found,
    KeyedTrial,
    fill_tables,
    group_runs,
    keep_cells,
    markdown_table,
    mean_and_error,
    read_runs,
    run_trials,
    shown,
)
from dppca.common.kernel.errors import DataError


@dataclass(frozen=True)
class Toy(KeyedTrial):
    subject: str
    split: int


def found(trial: Toy) -> Found:
    return {**asdict(trial), "accuracy": trial.split / 4}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *(("performance.page", 1500), ("rivals.page", 1750), ("synthesis.page", 1500)),
        *(("trust", 1500), ("forecast", 900)),
    ],
)
def test_a_committed_page_is_made_from_its_committed_figures_and_short(
    name: str, words: int
) -> None:
    page = import_module(f"benchmarks.{name}")
    text = page.PAGE.read_text()
    assert text == page.page(json.loads(page.JSON_FILE.read_text()))
    assert len(text.split()) <= words


def test_marks_of_a_page_are_filled_and_no_other_than_its_tables(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("is <!-- a -->1<!-- end -->.\n\n<!-- b -->\n\nold\n\n<!-- end -->\n")
    filled = fill_tables(page, {"a": "2", "b": "| x |\n| y |\n"})
    assert filled == ("is <!-- a -->2<!-- end -->.\n\n<!-- b -->\n\n| x |\n| y |\n\n<!-- end -->\n")
    for tables in ({"a": "2"}, {"a": "2", "b": "3", "c": "4"}):
        with pytest.raises(DataError, match="marks"):
            fill_tables(page, tables)


def test_finished_trials_are_not_run_again_and_one_cut_short_is(tmp_path: Path) -> None:
    ran: list[Toy] = []

    def run(trial: Toy) -> Found:
        ran.append(trial)
        return found(trial)

    trials, path = [Toy("fair", split) for split in range(3)], tmp_path / "deeper" / "runs.jsonl"
    run_trials(trials[:2], path, run=run)
    with path.open("a") as file:
        file.write('{"key": "cut sho')
    all_runs = run_trials(trials, path, run=run)
    assert ran == trials
    assert all_runs == [{"key": trial.key, **found(trial)} for trial in trials]
    whole = path.read_text()
    assert len(whole.splitlines()) == 3
    assert run_trials(trials, path, run=run) == all_runs
    assert (len(ran), path.read_text()) == (3, whole)


@pytest.mark.parametrize("line", ["cell,seed", "[1]", '{"no": "key"}'])
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path, line: str) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(DataError, match="move it away"):
        read_runs(path)
    assert path.read_text() == f"{line}\n"


def test_means_have_the_standard_error_of_the_runs() -> None:
    assert mean_and_error([0.7, 0.8]) == pytest.approx([0.75, 0.05])
    assert mean_and_error([3.0]) == [3.0, 0.0]
    assert mean_and_error([{"a": 1.0}, {"a": 3.0}]) == {"a": [2.0, 1.0]}
    assert shown([0.75, 0.05]) == "0.750 ± 0.050"


def test_runs_are_grouped_in_the_order_in_which_each_first_comes() -> None:
    runs = [{"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 3}]
    assert group_runs(runs, ("a",)) == {(2,): [runs[0], runs[2]], (1,): [runs[1]]}


def test_a_table_has_words_to_the_left_and_numbers_to_the_right() -> None:
    table = markdown_table(["name", "ε", "of"], [("x", "1", "y")], words=(0, 2))
    assert table == "| name | ε | of |\n| --- | ---: | --- |\n| x | 1 | y |\n"


@pytest.mark.parametrize("head", [{}, {"how": "by hand"}], ids=["headless", "head"])
def test_new_cells_take_the_place_of_older_ones(tmp_path: Path, head: dict[str, str]) -> None:
    path = tmp_path / "cells.json"
    if head:
        path.write_text(json.dumps({**head, "cells": []}))
    for cells in ([{"s": "b", "x": 1}, {"s": "a", "x": 1}], [{"s": "b", "x": 2}]):
        kept = keep_cells(path, cells, known_by=("s",), order=lambda cell: cell["s"])
    cells = [{"s": "a", "x": 1}, {"s": "b", "x": 2}]
    assert kept == {**head, "cells": cells} == json.loads(path.read_text())
