"""`dppca.plan` makes the plan of the command, from Python's values."""

from __future__ import annotations

from decimal import Decimal

import pytest

import dppca
from dppca.common.errors import SettingError, StudyError
from dppca.curator.planning.assumptions import power_law
from dppca.curator.planning.plan import make_plan
from tests.support.studies import make_study

STUDY = make_study("latent")


def test_the_plan_is_that_of_the_command() -> None:
    made = make_plan(
        STUDY,
        dict.fromkeys(STUDY.owners, 700),
        power_law(STUDY.table.layout, 1.0, 1.0),
        delta=None,
        grid=[Decimal("0.5")],
    )
    found = dppca.plan(STUDY, rows=700, epsilons=[0.5])
    assert found.lines == made.lines
    assert found.needs == made.needs
    assert found.rows == made.rows
    by_name = dppca.plan(STUDY, rows=dict.fromkeys(STUDY.owners, 700), epsilons=["0.5"])
    assert by_name.lines == made.lines


def test_a_notebook_marks_the_study_as_it_stands() -> None:
    page = dppca.plan(STUDY, rows=700, epsilons=[], delta="1e-6")._repr_html_()
    assert page.count("asked") == 1
    assert page.count("<td>laplace</td>") == page.count("<td>gaussian</td>") == 1
    assert "Study site-test" in page


def test_a_path_in_the_place_of_a_study_is_refused() -> None:
    with pytest.raises(SettingError, match="study_from_yaml"):
        dppca.plan("study.yaml", rows=700)  # type: ignore[arg-type]
    with pytest.raises(StudyError, match="not its path"):
        dppca.study_from_yaml("study.yaml")


@pytest.mark.parametrize(
    "wrong",
    [{"rows": 0}, {"rows": {"nobody": 3}}, {"epsilons": [0]}, {"delta": -1}, {"eigenvalues": []}],
)
def test_what_is_no_number_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        dppca.plan(STUDY, **{"rows": 700, "epsilons": [], **wrong})  # type: ignore[arg-type]
