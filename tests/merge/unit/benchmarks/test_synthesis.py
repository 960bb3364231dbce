"""Trials of synthetic rows: forms, subjects, noise, and what is reached."""

from typing import Any

import numpy as np
import pytest

from benchmarks.synthesis import page, trials
from benchmarks.synthesis.forms import PLAIN, TARGETED
from benchmarks.synthesis.judging import find_reference, split_rows
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
    make_study,
    release,
    run_trial,
)
from dppca.common.kernel.moments.moments import empty_moments
from dppca.common.kernel.privacy.composition import Round, compose_guarantee
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from tests.support.studies import numeric_of


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
