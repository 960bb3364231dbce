"""Components and covariance under each law: the committed record, and a cell that is measured."""

import json

import pytest

from benchmarks.rivals import laws
from benchmarks.rivals.component_tables import BALL, BOX, SMALL_ROWS
from benchmarks.rivals.page import JSON_FILE
from benchmarks.rivals.pca import EXACT, RANDOM

FALSE_ALARMS = 0.0  # all noise has a seed
CELLS = {
    tuple(each[name] for name in laws.BY): each
    for each in json.loads(JSON_FILE.read_text())["laws"]["cells"]
}


def error(columns: str, form: str, law: str, epsilon: str) -> float:
    found: float = CELLS[f"{columns} columns", f"DPPCA, {form}, {law}", epsilon]["spectral"][0]
    return found


@pytest.mark.parametrize("form", [BOX, BALL])
@pytest.mark.parametrize("columns", laws.TABLES)
def test_noise_of_the_whole_release_puts_a_covariance_less_off_than_laplace_noise(
    columns: str, form: str
) -> None:
    for epsilon in laws.EPSILONS:
        found = [error(columns, form, law, epsilon) for law in ("matrix-laplace", "laplace")]
        few = form == BOX and columns == "8"  # where a table of few columns may want Laplace
        assert found[0] < found[1] * (1.1 if few else 0.95), epsilon


def test_tables_have_the_columns_that_they_say_and_bounds_that_hold() -> None:
    for columns, small in laws.subjects().values():
        if laws.TABLES[columns] == "nltcs":
            table = laws.columns_of(columns, small)
            assert table.rows.shape[1] == int(columns)
            assert (table.rows**2).sum(axis=1).max() <= table.norm**2 + 1e-9


def test_a_release_is_between_all_and_nothing() -> None:
    subject = laws.SMALL.format("8", SMALL_ROWS)
    every = laws.measured(subject, EXACT, "", 0)
    nothing = laws.measured(subject, RANDOM, "", 0)
    assert every["spectral"] == 0
    for form in (BOX, BALL):
        found = laws.measured(subject, f"DPPCA, {form}, matrix-laplace", "100", 0)
        assert nothing["captured"] < found["captured"] <= every["captured"] + 1e-9
        assert 0 < found["spectral"] < nothing["spectral"]
