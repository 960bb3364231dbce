"""The committed record of synthetic rows without a delta."""

import json

import pytest

from benchmarks.pure_rows import (
    CELL,
    EVIDENCE,
    JOINT,
    LAWS,
    MEASURES,
    RELEASES,
    SEEDS,
    list_trials,
    run_trial,
    summarize,
)

FALSE_ALARMS = 0.0  # all noise has a seed
RECORD = json.loads(EVIDENCE.read_text())
CELLS = {tuple(each[name] for name in CELL): each for each in RECORD["cells"]}
BEFORE = 0.758  # accuracy of outside at epsilon 0.1, three owners, before this law was there


def joint(*release: object) -> dict[str, object]:
    return CELLS[(*release, JOINT)]


def test_the_record_has_ten_seeds_of_every_release_under_both_laws() -> None:
    assert CELLS.keys() == {(*release, law) for release in RELEASES for law in LAWS}
    assert {each["runs"] for each in CELLS.values()} == {RECORD["seeds"]} == {SEEDS}


@pytest.mark.parametrize(("epsilon", "least", "most"), [("0.1", 0.775, 0.26), ("0.2", 0.80, 0.13)])
def test_rows_of_three_owners_teach_more_and_their_covariance_is_closer(
    epsilon: str, least: float, most: float
) -> None:
    cell = joint("nltcs", "plain", 3, epsilon)
    mean, error = cell["accuracy"]["outside"]  # type: ignore[index]
    assert mean >= least
    assert mean - 2 * error > BEFORE
    assert cell["spectral"][0] <= most  # type: ignore[index]


def test_one_owners_rows_of_adult_have_closer_tables_or_teach_trees_more_by_form() -> None:
    plain, targets = (joint("adult", form, 1, "1")["gain"] for form in ("plain", "shaped, targets"))
    mean, error = plain["trees"]["income"]  # type: ignore[index]
    assert mean > error
    mean, error = targets["pairs"]  # type: ignore[index]
    assert mean < -error


def test_a_release_is_judged_under_both_laws() -> None:
    trials = [each for each in list_trials(1) if each.subject == "nltcs" and each.epsilon == "0.1"]
    cells = summarize([run_trial(each) for each in trials])
    assert [each["law"] for each in cells] == list(LAWS)
    assert cells[1]["spectral"][0] < cells[0]["spectral"][0]
    assert cells[1]["gain"].keys() == set(MEASURES)
