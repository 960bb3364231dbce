"""Trials of a data set, and the file that keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.synthesis import grid
from benchmarks.synthesis.forms import PLAIN, TARGETED
from benchmarks.synthesis.subjects import SUBJECTS
from benchmarks.synthesis.trials import BEFORE, FIELD, ONE_NOISE, OWN_NOISE, REAL, GridTrial, Worth
from dppca.common.errors import DataError

WORTH = Worth({"a": 0.5}, 0.1, {"b": 0.2}, 1.0, "field", None)


@pytest.mark.parametrize("subject", list(SUBJECTS))
def test_no_trial_is_listed_twice(subject: str) -> None:
    trials = list(grid.list_trials(subject))
    assert len({trial.key for trial in trials}) == len(trials)
    assert sum(trial.decoder == REAL for trial in trials) == grid.SPLITS


def test_the_decoder_before_has_the_releases_of_the_plain_field() -> None:
    trials = list(grid.list_trials("fair"))
    before = {t.key.replace(BEFORE, FIELD) for t in trials if t.decoder == BEFORE}
    plain = {t.key for t in trials if t.decoder == FIELD and t.form == PLAIN}
    assert before == plain
    assert before


def test_one_noise_for_all_owners_is_for_the_form_that_is_asked_for() -> None:
    def forms(subject: str) -> set[str]:
        return {t.form for t in grid.list_trials(subject) if t.noise == ONE_NOISE}

    assert forms("adult") == {TARGETED}
    assert forms("nltcs") == {PLAIN}
    assert forms("fair") == set()


def test_finished_trials_are_not_run_again(tmp_path: Path) -> None:
    ran: list[GridTrial] = []

    def run_trial(trial: GridTrial) -> Worth:
        ran.append(trial)
        return WORTH

    trials = [GridTrial("fair", PLAIN, FIELD, "laplace", "1", OWN_NOISE, s, 0) for s in range(3)]
    path = tmp_path / "deeper" / "cells.jsonl"
    grid.run_trials(trials[:2], path, run=run_trial)
    with path.open("a") as file:
        file.write('{"key": "cut sho')
    found = grid.run_trials(trials, path, run=run_trial)
    assert ran == trials
    assert [each["split"] for each in found] == [0, 1, 2]
    assert found[2]["accuracy"] == WORTH.accuracy
    assert len(path.read_text().splitlines()) == 3


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    path.write_text("cell,seed\n")
    with pytest.raises(DataError, match="move it away"):
        grid.read_results(path)
