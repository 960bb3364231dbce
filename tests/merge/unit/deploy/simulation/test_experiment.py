"""A simulation refuses a division that could not end, before anybody is charged."""

import errno
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from pyarrow import csv, parquet

from dppca.common.analysis.rows.synthesis import DecodingMethod
from dppca.common.kernel.errors import DataError, PeerError, SettingError
from dppca.common.shell.console import run
from dppca.deploy.simulation import experiment
from dppca.deploy.simulation.aggregation import Aggregation, write_draft
from dppca.deploy.simulation.cli import cli
from dppca.deploy.simulation.disk import telling_full_disk
from dppca.deploy.simulation.experiment import (
    PARTIES,
    REPORT,
    ExperimentRequest,
    simulate,
    with_owners,
)
from dppca.deploy.simulation.holdings import hold_rows, write_table
from dppca.deploy.simulation.runner import FederationRun, FederationTask
from dppca.deploy.simulation.synthesis import OwnerSynthesis, summarise_synthesis
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.commands import run_here
from tests.support.latent_rows import make_rows, save_rows
from tests.support.studies import binary_of, make_study, numeric_of


def unreached(*_: object) -> Any:
    """No step is taken."""
    raise AssertionError


def require_refused(says: str, data: Path, output: Path, **changes: Any) -> None:
    """Refused before a step is taken."""
    study = make_study("latent", owners=["owner-1", "owner-2"])
    asked = {"command": "run", "study": study, "data": data, "output": output}
    usual = {"target": None, "seed": 0, "split": "iid"}
    request: Any = ExperimentRequest(**{**asked, **usual, **changes})
    with pytest.raises(SettingError, match=says):
        simulate(request, on_step=unreached)


def test_a_division_that_could_not_end_or_a_place_that_cannot_be_written_is_refused(
    tmp_path: Path,
) -> None:
    rows, output = save_rows(make_rows(100), tmp_path / "rows.parquet"), tmp_path / "results"
    says = "owner-1 would hold fewer than two labels of ill.*another --target or none"
    require_refused(says, rows, output, target="ill", split="by:ill")
    assert not output.exists()
    require_refused("nothing can be written in", rows, rows / "below a file")


def test_a_test_table_or_a_number_of_rows_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    data, output = save_rows(make_rows(100), tmp_path / "rows.parquet"), tmp_path / "results"
    test = tmp_path / "test.csv"
    require_refused("name what they predict with --target", data, output, test=test)
    require_refused("1 synthetic rows cannot be divided among 2", data, output, n_rows=1)
    names = ",".join(make_rows(1).column_names)
    test.write_text(f"{names}\n0,0,0,0,perhaps,red\n")
    require_refused(
        "no row of .*test.csv has a label of ill", data, output, target="ill", test=test
    )
    assert not output.exists()


def test_owners_get_all_rows_models_the_test_table_and_synthetic_rows_are_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, test = save_rows(make_rows(50), tmp_path / "rows.parquet"), tmp_path / "test.csv"
    csv.write_csv(make_rows(7, 3), test)
    given: dict[str, Any] = {}

    def stop(task: FederationTask) -> Any:
        tables = {name: parquet.read_table(path) for name, path in task.rows.items()}
        given.update(sizes={name: table.num_rows for name, table in tables.items()})
        given.update(tried=task.held_out.read_text(), n_rows=task.n_rows)
        raise PeerError("far enough")

    monkeypatch.setattr(experiment, "run_federation", stop)
    request = ExperimentRequest(
        command="run",
        study=make_study("latent", owners=["owner-1", "owner-2", "owner-3"]),
        data=data,
        target="ill",
        seed=0,
        split="iid",
        output=tmp_path / "results",
        n_rows=11,
        test=test,
    )
    with pytest.raises(PeerError, match="far enough"):
        simulate(request, on_step=lambda: None)
    assert given["sizes"] == {"owner-1": 17, "owner-2": 17, "owner-3": 16}
    assert given["n_rows"] == {"owner-1": 4, "owner-2": 4, "owner-3": 3}
    assert given["tried"].replace('"', "") == test.read_text().replace('"', "")


@pytest.mark.parametrize(
    ("there", "replace", "says"),
    [
        (REPORT, True, "is not empty, and no earlier output of this software"),
        (f"{PARTIES}/authority", True, "holds keys, ledgers and rows of an earlier trial"),
    ],
)
def test_a_trial_that_is_there_is_not_written_over(
    tmp_path: Path, there: str, says: str, *, replace: bool
) -> None:
    path = tmp_path / "results" / there
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    require_refused(says, tmp_path / "is-not-read.csv", tmp_path / "results", replace=replace)
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
        (["--owner", "alpa=ROWS"], SettingError, "no owner of the study .did you mean alpha"),
        (["--owner", "alpha=ROWS"], SettingError, "no file of beta. The study's owners are alpha"),
        (
            ["--owner", "alpha=ROWS", "--owner", "beta=ROWS", "--owner", "gamma=ROWS"],
            SettingError,
            "gamma: no owner of the study. The study's owners are alpha, beta",
        ),
        (["--data", "ROWS", "--rename-owners", "--owners", "2"], SettingError, "is for --owner"),
        (["--owner", "St Mary=ROWS"], SettingError, "NAME=FILE"),
        (["--owner", "a=ROWS", "--owner", "a=ROWS"], SettingError, "given twice"),
        (["--data", "ROWS", "--owners", "2", "--test", "ROWS"], SettingError, "with --target"),
        (["--data", "ROWS", "--owners", "2", "--rows", "1"], SettingError, "divided among 2"),
        (
            ["--data", "ROWS", "--owners", "2", "--target", "ill", "--test", "STUDY"],
            DataError,
            "study.yaml",
        ),
    ],
)
def test_options_that_do_not_say_who_holds_what_are_refused(
    tmp_path: Path, options: list[str], error: type[Exception], says: str
) -> None:
    rows, study = tmp_path / "rows.csv", tmp_path / "study.yaml"
    made = make_study("latent", owners=["alpha", "beta"])
    names = [attribute.name for attribute in made.table.attributes]
    rows.write_text(",".join([*names, "x"]) + "\n" + "".join(f"0,0,0,0,,,{n}\n" for n in range(60)))
    study.write_bytes(made.canonical_bytes())
    given = [o.replace("ROWS", str(rows)).replace("STUDY", str(study)) for o in options]
    fixed = ["run", "--study", str(study), "--output", str(tmp_path / "out")]
    with pytest.raises(error, match=says):
        CliRunner().invoke(cli, [*fixed, *given], catch_exceptions=False)


@pytest.mark.parametrize(
    ("command", "options", "says"),
    [
        ("run", ["--data", "ROWS", "--owners", "2"], "unit: person: name the column that tells"),
        ("run", ["OWN", "--key", "alpha=x"], "unit: person: name the column of beta that tells"),
        ("run", ["OWN", "--key", "gamma=x"], "--key gamma: no --owner gamma=FILE is given"),
        ("run", ["OWN", "--key", "alpha=x", "--key", "beta="], "--key: name the column"),
        ("compose", ["OWN", "--key", "x", "--key", "beta=a"], "all owners need the same column"),
    ],
)
def test_a_key_that_does_not_say_whose_rows_these_are_is_refused(
    tmp_path: Path, command: str, options: list[str], says: str
) -> None:
    study, output = tmp_path / "study.yaml", tmp_path / "out"
    fields: dict[str, Any] = {"unit": "person", "neighbours": "added", "max_rows_per_person": None}
    made = make_study("latent", owners=["alpha", "beta"], **fields)
    study.write_bytes(made.canonical_bytes())
    rows = save_rows(make_rows(60), tmp_path / "rows.parquet")
    own = ["--owner", f"alpha={rows}", "--owner", f"beta={rows}"]
    given = [str(rows) if each == "ROWS" else each for each in options if each != "OWN"]
    given += own * ("OWN" in options)
    line = [command, "--study", str(study), "--output", str(output), *given]
    with pytest.raises(SettingError, match=says):
        CliRunner().invoke(cli, line, catch_exceptions=False)
    assert not output.exists()


def test_files_of_the_studys_owners_leave_its_digest_and_new_names_are_asked_for(
    tmp_path: Path,
) -> None:
    rows, study = save_rows(make_rows(60), tmp_path / "rows.parquet"), tmp_path / "study.yaml"
    made = make_study("latent", owners=["beta", "alpha"])
    study.write_bytes(made.canonical_bytes())

    def digest(folder: str, *options: str) -> str:
        line = ["compose", "--study", str(study), "--output", str(tmp_path / folder), "--json"]
        done = CliRunner().invoke(cli, [*line, *options], catch_exceptions=False)
        found: str = json.loads(done.stdout)["digest"]
        return found

    assert digest("own", "--owner", f"alpha={rows}", "--owner", f"beta={rows}") == made.digest
    others = ("--owner", f"gamma={rows}", "--owner", f"delta={rows}", "--rename-owners")
    assert digest("renamed", *others) == with_owners(made, ["gamma", "delta"]).digest != made.digest


def test_owners_in_containers_are_named_as_the_study_names_them(tmp_path: Path) -> None:
    made = make_study("latent", owners=["alpha", "beta"])
    study = tmp_path / "study.yaml"
    study.write_bytes(made.canonical_bytes())
    rows = save_rows(make_rows(60), tmp_path / "rows.parquet")

    def services(n_owners: int) -> dict[str, Any]:
        output = tmp_path / f"of-{n_owners}"
        line = ["compose", "--study", str(study), "--data", str(rows), "--output", str(output)]
        CliRunner().invoke(cli, [*line, "--owners", str(n_owners)], catch_exceptions=False)
        found: dict[str, Any] = yaml.safe_load((output / "docker-compose.yml").read_text())
        return found["services"]

    assert {"alpha", "alpha-key", "beta", "beta-key"} < services(2).keys()
    assert {"owner-1", "owner-2", "owner-3"} < services(3).keys()


@pytest.mark.parametrize("names", [["curator", "a"], ["a", "a-key"], ["a-key", "a"]])
def test_an_owner_with_the_name_of_another_service_is_refused(
    tmp_path: Path, names: list[str]
) -> None:
    made = make_study("latent", owners=names)
    study = tmp_path / "study.yaml"
    study.write_bytes(made.canonical_bytes())
    rows = save_rows(make_rows(60), tmp_path / "rows.parquet")
    own = [f"--owner={name}={rows}" for name in names]
    line = ["compose", "--study", str(study), *own, "--output", str(tmp_path / "folder")]
    with pytest.raises(SettingError, match="a service has that name"):
        CliRunner().invoke(cli, line, catch_exceptions=False)
    assert not (tmp_path / "folder").exists()


def test_a_draft_without_keys_is_taken_as_a_study_of_its_numbers(tmp_path: Path) -> None:
    made = make_study("latent", owners=["alpha", "beta", "gamma"])
    study = tmp_path / "draft.yaml"
    study.write_text(write_draft(made, Aggregation(1, 2)))
    rows = save_rows(make_rows(60), tmp_path / "rows.parquet")
    line = ["compose", "--study", str(study), "--data", str(rows), "--owners", "4"]

    def openers(folder: str, *options: str) -> int:
        output = tmp_path / folder
        CliRunner().invoke(cli, [*line, "--output", str(output), *options], catch_exceptions=False)
        return (output / "docker-compose.yml").read_text().count(', OPENER: "--opener"')

    assert openers("as-it-says") == 2
    assert openers("one-more", "--colluders", "2", "--openers", "3") == 3
    assert openers("each-its-own", "--trust", "owner") == 0


@pytest.mark.parametrize(
    ("command", "fails", "where", "instead"),
    [
        ("run", "experiment.write_table", "dppca-simulate-", "set TMPDIR to"),
        ("run", "experiment.write_report", "results", "name another --output"),
        ("compose", "containers.folder.write_table", "dppca-compose-", "set TMPDIR to"),
        ("compose", "containers.folder.shutil.move", "results", "name another --output"),
        ("compose", "containers.folder.compose_text", "results", "name another --output"),
    ],
)
def test_a_disk_that_fills_up_is_no_defect(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    fails: str,
    where: str,
    instead: str,
) -> None:
    def fill(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    synthesis = summarise_synthesis({"beta": OwnerSynthesis(1, DecodingMethod.FIELD, 0.5)})

    def run_nothing(task: FederationTask) -> FederationRun:
        return FederationRun(task.study, (), synthesis, tmp_path, coded=tmp_path, decoded=tmp_path)

    rows, study = save_rows(make_rows(60), tmp_path / "rows.parquet"), tmp_path / "study.yaml"
    study.write_bytes(make_study("latent", owners=["beta", "alpha"]).canonical_bytes())
    monkeypatch.setattr(f"dppca.deploy.simulation.{fails}", fill)
    monkeypatch.setattr(experiment, "run_federation", run_nothing)
    files = ["--owner", f"alpha={rows}", "--owner", f"beta={rows}"]
    line = [command, "--study", str(study), *files, "--output", str(tmp_path / "results")]
    with pytest.raises(SystemExit) as left:
        run(cli, line)
    assert left.value.code == SettingError.exit_code
    said = capsys.readouterr().err
    assert said.startswith("error: the disk is full: no space is left in ")
    assert where in said
    assert instead in said


@pytest.mark.parametrize(("free", "error"), [(4096, SettingError), (1 << 30, PeerError)])
def test_a_party_that_ended_without_a_word_on_a_full_disk_is_no_riddle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, error: type[Exception]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(error), telling_full_disk(tmp_path, instead="wait"):
        raise PeerError("curator: it ended with code 1 without output")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--mapping", "m.yaml"), "say whose columns it is for"),
        (("--mapping", "clinc=m.yaml"), "no --owner clinc=FILE is given"),
        (("--format", "{header: 2}", "--format", "{header: 3}"), "given twice for all files"),
        (("--format", "clinic={header: x}"), "--format"),
        (("--mapping", "clinic=m.yaml"), "m.yaml is not there"),
    ],
)
def test_what_is_said_of_a_file_is_said_of_an_owner(
    tmp_path: Path, options: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = make_study("latent", owners=["clinic"])
    Path("study.yaml").write_bytes(study.canonical_bytes())
    Path("rows.csv").write_text("a\n1\n")
    arguments = ["run", "--study", "study.yaml", "--owner", "clinic=rows.csv", "--output", "out"]
    code, _, told = run_here(cli, *arguments, *options)
    assert code == SettingError.exit_code
    assert said in " ".join(told.split())


@pytest.mark.parametrize(
    ("place", "options", "said"),
    [
        ("source: {sqlite: {path: rows.db}}", (), "give one of table, query"),
        ("path: rows.csv\nkey: a", ("--key", "clinic=b"), "--key clinic: clinic.yaml says a"),
        ("path: rows.csv", ("--format", "clinic={header: 2}"), "write it into clinic.yaml"),
        ("path: rows.csv", ("--mapping", "clinic=m.yaml"), "write it into clinic.yaml"),
        ("path: rows.csv\npopulation: all", (), "population"),
    ],
)
def test_a_place_of_rows_is_described_as_in_a_policy_and_says_all_itself(
    tmp_path: Path, place: str, options: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = make_study("latent", owners=["clinic"])
    Path("study.yaml").write_bytes(study.canonical_bytes())
    Path("clinic.yaml").write_text(place)
    arguments = ["run", "--study", "study.yaml", "--owner", "clinic=clinic.yaml", "--output", "out"]
    code, _, told = run_here(cli, *arguments, *options)
    assert code == SettingError.exit_code
    assert said in " ".join(told.split())


def test_a_database_a_folder_and_a_file_are_simulated_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    attributes = [numeric_of("age", 0, 100), binary_of("ill", ["no", "yes"])]
    study = make_study(attributes, owners=["agency", "clinic", "lab"], epsilon="9")
    Path("study.yaml").write_bytes(study.canonical_bytes())
    rows = [(age % 90, ["no", "yes"][age % 2]) for age in range(120)]
    Path("lab.csv").write_text("age,ill\n" + "".join(f"{age},{ill}\n" for age, ill in rows))
    Path("parts").mkdir()
    for n, part in enumerate((rows[:50], rows[50:])):
        ages, ills = zip(*part, strict=True)
        parquet.write_table(pa.table({"age": ages, "ill": ills}), f"parts/{n}.parquet")
    with closing(sqlite3.connect("clinic.db")) as base, base:
        base.execute("CREATE TABLE visits (years INTEGER, sick TEXT)")
        coded = [(age, {"no": "0", "yes": "1"}[ill]) for age, ill in rows]
        base.executemany("INSERT INTO visits VALUES (?, ?)", coded)
    Path("ours.yaml").write_text(
        "version: 1\nattributes: {age: years, ill: {column: sick, recode: {0: no, 1: yes}}}\n"
    )
    Path("clinic.yaml").write_text(
        "source: {sqlite: {path: clinic.db}}\ntable: visits\nmapping: ours.yaml\n"
    )
    Path("agency.yaml").write_text("path: parts/*.parquet\n")
    seen = list[ExperimentRequest]()

    def look(request: ExperimentRequest, **_: Any) -> Any:
        seen.append(request)
        raise PeerError("looked")

    monkeypatch.setattr(experiment, "simulate", look)
    owners = ["agency=agency.yaml", "clinic=clinic.yaml", "lab=lab.csv"]
    files = [word for owner in owners for word in ("--owner", owner)]
    run_here(cli, "run", "--study", "study.yaml", *files, "--output", "out")
    (request,) = seen
    held = hold_rows(
        request.data,
        study.owners,
        schema=study.table,
        seed=1,
        hold_out=False,
        readings=request.readings,
    )
    sums = []
    for owner, table in held.owners.items():
        copy = write_table(table, tmp_path, stem=owner, like=held.like)
        sums.append(moments_of_table(open_table(copy, study.table), study.table).packed)
    lab = moments_of_table(open_table(tmp_path / "lab.csv", study.table), study.table).packed
    for found in sums:
        assert (found == lab).all()
