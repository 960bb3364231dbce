"""The committed record of coverage and time of matrix noise."""

import json

import pytest

from benchmarks.matrix_noise import (
    CELLS,
    EVIDENCE,
    HONEST,
    RELEASES,
    SIDES,
    measure_cell,
    measure_shares,
    measure_time,
)
from tests.support.coverage import QUESTIONS
from tests.support.studies import binary_of

FALSE_ALARMS = 0.0  # all noise has a seed
RECORD = json.loads(EVIDENCE.read_text())


def test_each_cell_covers_and_all_cover_what_they_say() -> None:
    cells = RECORD["coverage"]
    assert [(each["trust"], each["epsilon"]) for each in cells] == [each[:2] for each in CELLS]
    assert {each["releases"] for each in cells} == {RELEASES}
    for question in QUESTIONS:
        held = [each["held"][question] for each in cells]
        assert all(one >= 0.89 * given for one, given in held), question
        share = sum(one for one, _ in held) / sum(given for _, given in held)
        assert 0.935 <= share <= 0.985, question


def test_shares_are_a_thousandth_above_what_their_columns_need() -> None:
    cells = RECORD["shares"]
    assert {each["honest"] for each in cells} == set(HONEST)
    assert all(1 <= each["deviation"] < 1.001 for each in cells)
    assert all(each["least"] <= each["columns"] for each in cells)
    few = measure_shares("few", [binary_of(f"b{i}", ["no", "yes"]) for i in range(3)])
    assert [each["columns"] for each in few] == [5, 6, 10, 30]


def test_a_draw_takes_seconds_at_most() -> None:
    assert [each["side"] for each in RECORD["seconds"]] == list(SIDES)
    assert all(each["laplace"] < each["matrix-laplace"] < 10 for each in RECORD["seconds"])


def test_a_cell_and_a_time_are_measured() -> None:
    cell = measure_cell(*CELLS[0], releases=2)
    assert cell["held"]["mean"][1] == 2
    assert measure_time(5)["matrix-laplace"] > 0


@pytest.mark.parametrize("place", [0, 3, 6, 7, 11])
def test_cells_can_be_asked(place: int) -> None:
    cell = measure_cell(*CELLS[place], releases=1)
    assert all(given > 0 for _, given in cell["held"].values())
