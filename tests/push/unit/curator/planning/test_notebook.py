"""`dppca.plan` makes the plan of the command, from Python's values."""

from decimal import Decimal
from pathlib import Path

import pytest

import dppca
from dppca.common.kernel.errors import SettingError, StudyError
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
    assert found.forecasts == made.forecasts
    assert found.needs == made.needs
    assert found.rows == made.rows
    by_name = dppca.plan(STUDY, rows=dict.fromkeys(STUDY.owners, 700), epsilons=["0.5"])
    assert by_name.forecasts == made.forecasts


def test_a_plan_is_a_page_in_a_notebook_and_is_printed_in_ten_lines() -> None:
    found = dppca.plan(STUDY, rows=700, delta="1e-6")
    assert "Study site-test" in found._repr_html_()
    said = str(found).split("\n")
    assert len(said) <= 10
    assert said[-1].startswith(f"  Recommended: {found.recommended} noise")


def test_a_path_in_the_place_of_a_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="study_from_yaml"):
        dppca.plan("study.yaml", rows=700)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="study_from_yaml"):
        dppca.calibrate("study.yaml")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"the table of a dppca\.Study"):
        dppca.encode({"age": [40]}, "study.yaml")  # type: ignore[arg-type]
    with pytest.raises(StudyError, match="or its pathlib"):
        dppca.study_from_yaml("study.yaml")
    path = tmp_path / "study.yaml"
    with pytest.raises(StudyError, match=r"study\.yaml cannot be read: No such file"):
        dppca.study_from_yaml(path)
    path.write_bytes(b"name: caf\xe9")
    with pytest.raises(StudyError, match="not text in UTF-8"):
        dppca.study_from_yaml(path)
    path.write_bytes(STUDY.canonical_bytes())
    assert dppca.study_from_yaml(path) == STUDY


def test_attributes_need_no_type_in_python_and_have_one_in_a_file() -> None:
    made = (
        dppca.Numeric(name="age", lower=0, upper=9),
        dppca.Date(name="day", lower="2020-01-01", upper="2020-12-31"),
        dppca.Ordinal(name="grade", levels=("a", "b", "c")),
        dppca.Binary(name="ill", values=("no", "yes")),
        dppca.Categorical(name="town", categories=("x", "y", "z")),
    )
    assert [each.type for each in made] == ["numeric", "date", "ordinal", "binary", "categorical"]
    written = STUDY.canonical_bytes().decode()
    assert '"type":"numeric"' in written
    with pytest.raises(StudyError, match="type is missing"):
        dppca.study_from_yaml(
            written.replace('"type":"numeric",', "").replace(',"type":"numeric"', "")
        )


@pytest.mark.parametrize(
    "wrong",
    [{"rows": 0}, {"rows": {"nobody": 3}}, {"epsilons": [0]}, {"delta": -1}, {"eigenvalues": []}],
)
def test_what_is_no_number_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        dppca.plan(STUDY, **{"rows": 700, "epsilons": [], **wrong})  # type: ignore[arg-type]
