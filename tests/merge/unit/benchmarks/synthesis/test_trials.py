"""Releases of a data set, and what rows are worth."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.synthesis.forms import PLAIN, SHAPED
from benchmarks.synthesis.judging import find_reference, split_rows, target_labels
from benchmarks.synthesis.subjects import load_subject
from benchmarks.synthesis.trials import (
    BEFORE,
    FIELD,
    ONE_NOISE,
    OWNERS,
    GridTrial,
    judge,
    make_study,
    release,
    run_trial,
)
from dppca.common.numerics.moments.moments import empty_moments
from dppca.common.privacy.release import calibrate
from tests.support.studies import numeric_of


def test_a_split_holds_a_fifth_out() -> None:
    training, test = split_rows(101, 1)
    assert len(test) == 20
    assert sorted([*training, *test]) == list(range(101))
    assert not np.array_equal(split_rows(101, 2)[1], test)


def test_training_rows_are_as_good_as_themselves_and_others_are_not() -> None:
    subject = load_subject("fair")
    training, test = split_rows(subject.n_rows, 0)

    def worth(rows: np.ndarray) -> tuple[float, float]:
        columns = [column[rows] for column in subject.columns]
        found = judge("fair", columns, 0)
        return found.pairs, max(found.marginals.values())

    assert find_reference("fair", 0).training[0].tolist() == subject.columns[0][training].tolist()
    assert worth(training) == (0.0, 0.0)
    assert min(worth(test)) > 0
    assert worth(np.repeat(training[:1], 50))[0] > 0.9


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("owners", [OWNERS, 1])
def test_the_noise_has_the_calibrated_width(mechanism: str, owners: int) -> None:
    attributes = [numeric_of(f"x{i}", 0, 1, histogram=True) for i in range(30)]
    study = make_study({"attributes": attributes}, mechanism, "0.5", owners=owners)
    assert len(study.owners) == owners
    calibration, layout = calibrate(study), study.table.layout
    moments = [empty_moments(layout).merge(empty_moments(layout)) for _ in study.owners]
    moments = [type(each)(100, each.packed) for each in moments]
    result = release(study, calibration, moments, rng=np.random.default_rng(0))
    assert result.header.n_rows == 100 * owners
    expected = calibration.law.deviation * np.sqrt(owners)
    assert result.pooled.std() == pytest.approx(expected, rel=0.08)
    assert result.pooled.mean() == pytest.approx(0, abs=0.1 * expected)


@pytest.mark.parametrize(("form", "decoder"), [(PLAIN, BEFORE), (PLAIN, FIELD), (SHAPED, FIELD)])
def test_a_trial_gives_rows_and_repeats_itself(form: str, decoder: str) -> None:
    trial = GridTrial("fair", form, decoder, "gaussian", "1", ONE_NOISE, 0, 0)
    first, second = run_trial(trial), run_trial(trial)
    assert first.method == decoder
    assert first.accuracy == second.accuracy
    assert first.marginals == second.marginals
    assert 0.6 < first.accuracy["affair"] < 0.8
    assert (max(first.marginals.values()) < 0.1) == (form == SHAPED)


def test_the_class_that_is_asked_for_may_be_of_several_labels() -> None:
    subject = load_subject("demo")
    found = target_labels(subject.schema, subject.targets[0], subject.columns)
    assert found.sum() == 5249
