"""Trials of synthetic rows: forms, subjects, noise, and what is reached."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.synthesis import page
from benchmarks.synthesis.asked import ASKED, GAIN, HISTOGRAMS, PAIRS, Asked
from benchmarks.synthesis.forms import BINS, BINS_TARGETED, PLAIN, SHAPED, TARGETED, find_form
from benchmarks.synthesis.judging import find_reference, split_rows, target_labels
from benchmarks.synthesis.subjects import load_subject
from benchmarks.synthesis.trials import (
    BEFORE,
    FIELD,
    ONE_NOISE,
    OWN_NOISE,
    OWNERS,
    GridTrial,
    judge,
    make_study,
    release,
    run_trial,
)
from dppca.common.numerics.moments.moments import empty_moments
from dppca.common.privacy.release import calibrate
from dppca.common.schema import Schema, find_faults
from tests.support.studies import numeric_of


@pytest.mark.parametrize("name", BINS)
def test_some_numerics_have_bins_in_products(name: str) -> None:
    schema = Schema.from_document(find_form(load_subject("fair"), name))
    assert schema.products_of_bins == ("rate_marriage", "age", "yrs_married")
    widths = {
        attribute.name: stop - start
        for attribute, (start, stop) in zip(schema.attributes, schema.layout.groups, strict=True)
    }
    # Forty bins are the most; where the shape of an answer is known, it says the bins.
    expected = {"age": 11, "yrs_married": 13} if name == BINS_TARGETED else {"age": BINS[name]}
    assert widths.items() >= expected.items()
    assert widths["educ"] == 1


def test_cells_about_an_answer_hold_that_answer_alone() -> None:
    subject = load_subject("fair")
    schema = Schema.from_document(find_form(subject, TARGETED))
    index = schema.find_index("yrs_married")
    cells = schema.cells[index]
    assert cells is not None
    answers = np.array([0.5, 2.5, 6, 9, 13, 16.5, 23])
    assert cells.index(answers).tolist() == list(range(0, 13, 2))
    found = np.unique(cells.index(np.asarray(subject.columns[index], np.float64)))
    assert found.tolist() == list(range(0, 13, 2))


@pytest.mark.parametrize(("name", "n_rows", "most_out"), [("fair", 6366, 0), ("demo", 20190, 12)])
def test_every_value_is_known_and_hardly_any_is_out_of_its_bounds(
    name: str, n_rows: int, most_out: int
) -> None:
    subject = load_subject(name)
    assert subject.n_rows == n_rows
    for faults in find_faults(subject.schema, list(subject.columns)).values():
        assert not (faults.missing | faults.invalid).any()
        assert faults.out.sum() <= most_out


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
        found = judge("fair", columns, 0, "a copy")
        return found["pairs"], max(found["marginals"].values())

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
    assert first["method"] == decoder
    assert first["accuracy"] == second["accuracy"]
    assert first["marginals"] == second["marginals"]
    assert 0.6 < first["accuracy"]["affair"] < 0.8
    assert (max(first["marginals"].values()) < 0.1) == (form == SHAPED)


def test_the_class_that_is_asked_for_may_be_of_several_labels() -> None:
    subject = load_subject("demo")
    found = target_labels(subject.schema, subject.targets[0], subject.columns)
    assert found.sum() == 5249


def run(split: int, accuracy: float, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "subject": "fair",
        "form": PLAIN,
        "decoder": FIELD,
        "mechanism": "gaussian",
        "epsilon": "1",
        "noise": OWN_NOISE,
        "split": split,
        "draw": 0,
        "accuracy": {"affair": accuracy},
        "pairs": 0.1,
        "marginals": {"age": 0.2, "educ": 0.3},
        "seconds": 2.0,
        "method": "field",
        "misfit": 0.1,
    }
    return found | changes


def test_the_gain_compares_runs_of_one_split_and_draw() -> None:
    before = [run(0, 0.5, decoder=BEFORE), run(1, 0.7, decoder=BEFORE)]
    shaped = [run(0, 0.7, form=SHAPED), run(1, 0.8, form=SHAPED)]
    cells = page.summarize([*before, *shaped])
    assert cells[1]["gain"] == pytest.approx([0.15, 0.05])
    assert cells[0]["gain"] == [0.0, 0.0]


def test_what_was_asked_is_looked_up_in_the_form_with_most_declared() -> None:
    runs = [run(s, x, form=f) for f, x in ((TARGETED, 0.9), (PLAIN, 0.5)) for s in (0, 1)]
    cells = page.summarize([*runs, run(0, 0.1, form="8 bins"), run(0, 0.2, decoder=BEFORE)])
    assert page.judged(asked("affair", 0.8), cells) == [0.9, 0.0]
    assert page.judged(asked(PAIRS, 0.8), cells) == [0.1, 0.0]
    assert page.judged(asked(HISTOGRAMS, 0.8), cells) == [0.3, 0.0]
    assert page.judged(asked("affair", 0.8, epsilon="0.2"), cells) is None
    assert page.judged(asked(GAIN, 0.0), cells) == pytest.approx([0.7, 0.0])


@pytest.mark.parametrize(
    ("measure", "mean", "reached"),
    [
        ("affair", 0.7996, True),
        ("affair", 0.7994, False),
        (GAIN, 0.801, True),
        (PAIRS, 0.8004, True),
        (PAIRS, 0.8006, False),
        (HISTOGRAMS, 0.9, False),
    ],
)
def test_a_figure_is_reached_to_three_decimals(measure: str, mean: float, reached: bool) -> None:
    assert page.is_reached(asked(measure, 0.8), mean) == reached


def test_every_figure_that_was_asked_for_was_measured() -> None:
    cells = json.loads(page.JSON_FILE.read_text())
    assert [each for each in ASKED if page.judged(each, cells) is None] == []


def asked(measure: str, bound: float, *, epsilon: str = "1") -> Asked:
    return Asked("fair", "gaussian", epsilon, OWN_NOISE, measure, bound)
