"""Trials of a data set."""

from __future__ import annotations

import pytest

from benchmarks.synthesis import grid
from benchmarks.synthesis.forms import PLAIN, TARGETED
from benchmarks.synthesis.subjects import SUBJECTS
from benchmarks.synthesis.trials import BEFORE, FIELD, ONE_NOISE, REAL


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
