"""Trials of synthetic rows: forms, subjects, noise, and what is reached."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.synthesis import page, trials
from benchmarks.synthesis.forms import (
    BINS,
    BINS_TARGETED,
    PLAIN,
    SHAPED,
    TARGETED,
    TREES,
    find_form,
)
from benchmarks.synthesis.judging import find_reference, split_rows, target_labels
from benchmarks.synthesis.subjects import load_subject
from benchmarks.synthesis.trials import (
    FIELD,
    ONE_NOISE,
    OWN_NOISE,
    OWNERS,
    REAL,
    ROUNDS,
    GridTrial,
    judge,
    list_trials,
    make_study,
    release,
    run_trial,
)
from dppca.common.numerics.moments.moments import empty_moments
from dppca.common.privacy.composition import Round, compose_guarantee
from dppca.common.privacy.release import calibrate
from dppca.common.schema import Schema
from dppca.common.study import Study
from tests.support.faults import find_faults
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


@pytest.mark.parametrize(
    ("name", "n_rows", "most_out"), [("fair", 6366, 0), ("demo", 20190, 12), ("rule", 20_000, 0)]
)
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


def test_real_rows_are_judged_by_the_rows_held_out_and_others_by_themselves() -> None:
    subject = load_subject("fair")
    training, test = split_rows(subject.n_rows, 0)

    def worth(rows: np.ndarray) -> dict[str, Any]:
        return judge("fair", [column[rows] for column in subject.columns], 0)

    assert find_reference("fair", 0).training[0].tolist() == subject.columns[0][training].tolist()
    real, held_out, copy = (worth(rows) for rows in (training, test, training[::-1]))
    for name in ("singles", "pairs", "triples", "workload", "marginals"):
        assert real[name] == held_out[name]
    assert held_out["singles"] < held_out["pairs"] < held_out["triples"]
    assert (copy["triples"], copy["workload"], max(copy["marginals"].values())) == (0, 0, 0)
    assert held_out["trees"]["affair"] > 0.85, "trained on the rows that it is tried on"
    assert worth(np.repeat(training[:1], 50))["pairs"] > 0.9


def test_the_rule_is_one_that_trees_see() -> None:
    subject = load_subject("rule")
    training, _ = split_rows(subject.n_rows, 0)
    real = judge("rule", [column[training] for column in subject.columns], 0)
    assert real["accuracy"]["granted"] < 0.9
    assert real["trees"]["granted"] > 0.99


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


@pytest.mark.parametrize("form", [PLAIN, SHAPED])
def test_a_trial_gives_rows_and_repeats_itself(form: str) -> None:
    trial = GridTrial("fair", form, FIELD, "gaussian", "1", ONE_NOISE, 0, 0)
    first, second = run_trial(trial), run_trial(trial)
    assert first["method"] == FIELD
    assert first["accuracy"] == second["accuracy"]
    assert first["marginals"] == second["marginals"]
    assert 0.6 < first["accuracy"]["affair"] < 0.8
    assert 0 < first["forecast"] < 1
    assert (max(first["marginals"].values()) < 0.1) == (form == SHAPED)


def test_two_rounds_cost_what_one_would_and_see_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    studies: list[Study] = []
    made = trials.release

    def watched(study: Study, *given: Any, **named: Any) -> Any:
        studies.append(study)
        return made(study, *given, **named)

    monkeypatch.setattr(trials, "release", watched)
    found = run_trial(GridTrial("rule", TARGETED, ROUNDS, "gaussian", "8", ONE_NOISE, 0, 0))
    first, second = studies
    assert second.table.targets == ()
    assert second.continues is not None
    together = compose_guarantee(second, calibrate(second), first=Round(first, calibrate(first)))
    assert 7.9 < float(together.epsilon) <= 8
    assert together.delta == "0.000000001"
    assert found["trees"]["granted"] > 0.97


def test_every_kind_of_trial_is_listed_once_and_random_trees_are_written_out() -> None:
    keys = [trial.key for trial in list_trials("rule", splits=2, draws=2)]
    assert len(set(keys)) == len(keys)
    kinds = {(trial.form, trial.rows) for trial in list_trials("rule", splits=1, draws=1)}
    once = {(form, rows) for form in (TARGETED, BINS_TARGETED) for rows in (FIELD, ROUNDS)}
    assert kinds == {(PLAIN, REAL), (TREES, FIELD), *once}
    schema = Schema.from_document(find_form(load_subject("rule"), TREES))
    assert len(schema.tables) == 20


def test_the_class_that_is_asked_for_may_be_of_several_labels() -> None:
    subject = load_subject("demo")
    found = target_labels(subject.schema, subject.targets[0], subject.columns)
    assert found.sum() == 5249


def run(split: int, accuracy: float, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "subject": "fair",
        "form": PLAIN,
        "rows": FIELD,
        "mechanism": "gaussian",
        "epsilon": "1",
        "noise": OWN_NOISE,
        "split": split,
        "draw": 0,
        "accuracy": {"affair": accuracy},
        "trees": {"affair": accuracy},
        "pairs": 0.1,
        "triples": 0.2,
        "workload": 0.15,
        "forecast": 0.05,
        "marginals": {"age": 0.2, "educ": 0.3},
        "seconds": 2.0,
        "method": "field",
    }
    return found | changes


def test_a_table_has_the_columns_that_all_its_cells_have() -> None:
    real = run(0, 0.9, rows=REAL, form=PLAIN, mechanism="", epsilon="", noise="", forecast=None)
    new = page.summarize([real, run(0, 0.5), run(1, 0.7)])
    first, _, *rows = page.subject_table(new).splitlines()
    for name in ("affair, trees", "two-way", "forecast", "three-way", "workload"):
        assert f" {name} |" in first
    assert rows[0].endswith(
        "| 0.100 ± 0.000 |  | 0.200 ± 0.000 | 0.150 ± 0.000 | 0.300 ± 0.000 educ |  |"
    )
    assert "| 0.600 ± 0.100 | 0.600 ± 0.100 | 0.100 ± 0.000 | 0.050 ± 0.000 |" in rows[1]
    older = [{name: cell[name] for name in cell if name != "trees"} for cell in new]
    assert "trees" not in page.subject_table(older)
    assert page.page(older) != page.page(new)
