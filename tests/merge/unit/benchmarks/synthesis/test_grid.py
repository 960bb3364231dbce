"""Trials of a data set."""

from __future__ import annotations

import pytest

from benchmarks.synthesis import grid
from benchmarks.synthesis.subjects import SUBJECTS
from benchmarks.synthesis.trials import REAL


@pytest.mark.parametrize("subject", list(SUBJECTS))
def test_no_trial_is_listed_twice(subject: str) -> None:
    trials = list(grid.list_trials(subject))
    assert len({trial.key for trial in trials}) == len(trials)
    assert sum(trial.decoder == REAL for trial in trials) == grid.SPLITS
