"""A simulation refuses a division that could not end, before anybody is charged."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dppca.common.errors import DataError, SettingError
from dppca.deploy.simulation.cli import cli
from dppca.deploy.simulation.experiment import PARTIES, REPORT, ExperimentRequest, simulate
from tests.support.latent_rows import make_rows, save_rows
from tests.support.studies import make_study


def unreached() -> None:
    raise AssertionError


def test_a_division_that_leaves_an_owner_one_label_of_the_target_is_refused(
    tmp_path: Path,
) -> None:
    request = ExperimentRequest(
        command="run",
        study=make_study("latent", owners=["owner-1", "owner-2"]),
        data=save_rows(make_rows(100), tmp_path / "rows.parquet"),
        target="ill",
        seed=0,
        split="by:ill",
        output=tmp_path / "results",
    )
    with pytest.raises(
        SettingError,
        match=r"owner-1 would hold fewer than two labels of ill.*another --target or none",
    ):
        simulate(request, on_step=unreached)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("there", "replace", "says"),
    [
        (REPORT, False, "holds a trial already: name another --output, or say --replace"),
        (f"{PARTIES}/authority", True, "holds keys, ledgers and rows of an earlier trial"),
    ],
)
def test_a_trial_that_is_there_is_not_written_over(
    tmp_path: Path, there: str, says: str, *, replace: bool
) -> None:
    path = tmp_path / "results" / there
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    request = ExperimentRequest(
        command="run",
        study=make_study("latent", owners=["owner-1", "owner-2"]),
        data=tmp_path / "is-not-read.csv",
        target=None,
        seed=0,
        split="iid",
        output=tmp_path / "results",
        replace=replace,
    )
    with pytest.raises(SettingError, match=says):
        simulate(request, on_step=unreached)
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ([], SettingError, "say whose rows these are"),
        (["--data", "ROWS"], SettingError, "--owners M, or --split by:COLUMN"),
        (["--data", "ROWS", "--split", "by:x"], SettingError, "would make 60 owners"),
        (["--data", "ROWS", "--split", "by:z"], DataError, "no column z"),
        (["--owner", "a=ROWS", "--owners", "3"], SettingError, "leave out --data, --owners"),
        (["--owner", "ROWS"], SettingError, "NAME=FILE"),
        (["--owner", "St Mary=ROWS"], SettingError, "NAME=FILE"),
        (["--owner", "a=ROWS", "--owner", "a=ROWS"], SettingError, "given twice"),
        (["--owner", "a=ROWS", "--keep", "--runtime", "containers"], SettingError, "processes"),
    ],
)
def test_options_that_do_not_say_who_holds_what_are_refused(
    tmp_path: Path, options: list[str], error: type[Exception], says: str
) -> None:
    rows, study = tmp_path / "rows.csv", tmp_path / "study.yaml"
    made = make_study("latent", owners=["a"])
    names = [attribute.name for attribute in made.table.attributes]
    rows.write_text(",".join([*names, "x"]) + "\n" + "".join(f"0,0,0,0,,,{n}\n" for n in range(60)))
    study.write_bytes(made.canonical_bytes())
    given = [option.replace("ROWS", str(rows)) for option in options]
    fixed = ["run", "--study", str(study), "--output", str(tmp_path / "out")]
    with pytest.raises(error, match=says):
        CliRunner().invoke(cli, [*fixed, *given], catch_exceptions=False)
