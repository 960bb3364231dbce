"""Files that an earlier edition left behind are opened as they are, by the commands."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow.csv
import pytest
from click.testing import CliRunner

from dppca.curator.cli import cli as curator_cli
from dppca.owner.cli import cli as owner_cli
from tests.golden.make_edition import MODELS, ROWS, STUDIES
from tests.golden.make_unoffered_models import MODELS as UNOFFERED
from tests.support.checkout import ROOT
from tests.support.curator import Curator
from tests.support.unpacking import unpack

GOLDEN = ROOT / "tests/golden"
ARCHIVES = (GOLDEN / "edition-1.tar.xz", GOLDEN / "unoffered-models.tar.xz")
RELEASED = ("dp-svm", "private-svm", "pca-dpsvm")


class OldCurator(Curator):
    """The curator of an edition: its own store and credentials."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.credentials = folder / "curator"


class Edition:
    """The folders of an edition, and the present commands in them."""

    def __init__(self, folder: Path) -> None:
        for path in ARCHIVES:
            unpack(path, folder)
        self.folder = folder

    def owner(self, site: str, *line: object) -> Any:
        """What a site's command prints as JSON; it must succeed."""
        return _run(owner_cli, "--site", self.folder / site, *line)

    def operator(self, curator: Curator, *line: object) -> Any:
        """What an operator's command prints as JSON; it must succeed."""
        where = ("--curator", localhost(curator), "--credentials", self.folder / "operator")
        return _run(curator_cli, *line, *where)

    def serve(self) -> OldCurator:
        """Start the curator, and tell the sites where it listens."""
        curator = OldCurator(self.folder)
        curator.start()
        for site in ("hospital", "clinic"):
            settings = self.folder / site / "site.yaml"
            settings.write_text(f'version: 1\nname: {site}\ncurator: "{localhost(curator)}"\n')
        return curator


def localhost(curator: Curator) -> str:
    """The curator's address by the name that its old certificate has."""
    return f"localhost:{curator.address.rpartition(':')[2]}"


def _run(command: click.Command, *line: object) -> Any:
    done = CliRunner().invoke(command, [*map(str, line), "--json"])
    assert done.exit_code == 0, f"{line}: {done.output}"
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def edition(tmp_path_factory: pytest.TempPathFactory) -> Edition:
    return Edition(tmp_path_factory.mktemp("edition-1"))


@pytest.fixture(scope="module")
def curator(edition: Edition) -> Iterator[OldCurator]:
    curator = edition.serve()
    yield curator
    curator.stop()


def released_files() -> list[str]:
    names = ("components.npz", "synthetic-coded.parquet", "synthetic-decoded.parquet")
    finished = ("plain", "mixed", "ball")
    files = [f"{study}/{name}" for study in finished for name in names]
    files += [f"{model[0]}/model-sex-{model[1]}.skops" for model in MODELS if model[1] in RELEASED]
    return [*files, "plain/quality-summary.json", "plain/model-sex-dpsvd-released.skops"]


@pytest.mark.parametrize("name", released_files())
def test_a_released_file_is_verified(edition: Edition, name: str) -> None:
    path = edition.folder / "hospital" / "studies" / name
    found = edition.owner("hospital", "verify", path)
    assert (found["label"], found["authority"] is not None) == ("released", True)


def model_files() -> list[str]:
    made = [f"{model[0]}/model-sex-{model[1].replace('dppca-svm', 'rbf')}" for model in MODELS]
    return [*made, *(f"plain/model-sex-{name}" for name in UNOFFERED)]


@pytest.mark.parametrize("name", model_files())
def test_a_model_predicts_by_whatever_method_it_was_made(
    edition: Edition, tmp_path: Path, name: str
) -> None:
    model = edition.folder / "hospital" / "studies" / f"{name}.skops"
    files = ("--data", edition.folder / "hospital/survey.csv", "--output", tmp_path / "found.csv")
    edition.owner("hospital", "predict", "--model", model, *files)
    found = pyarrow.csv.read_csv(tmp_path / "found.csv")["predicted"].to_pylist()
    assert len(found) == ROWS
    assert set(found) <= {"Female", "Male"}


def test_a_ledger_keeps_its_charges(edition: Edition) -> None:
    (survey,) = edition.owner("hospital", "budget")["data_sets"]
    # Three studies at 1, three models and a summary at 1/2; one study and one model are Gaussian.
    assert survey["charged_epsilon"] == "5"
    assert survey["charged_rho"] == "0.029783247095"


CHARGED = ("5", "0.029783247095")


@pytest.mark.parametrize("path", ["survey.csv", "elsewhere.csv"])
def test_an_old_ledger_keeps_its_charges_under_a_population(
    edition: Edition, tmp_path: Path, path: str
) -> None:
    site = _copy(edition, tmp_path, f"  survey: {{population: patients, path: {path}}}")
    found = _run(owner_cli, "--site", site, "budget")
    (patients,) = found["populations"]
    assert (patients["name"], patients["epsilon"]) == ("patients", "20")
    assert (patients["charged_epsilon"], patients["charged_rho"]) == CHARGED
    assert found["ledger"]["verified"]


def test_an_old_ledger_charges_nobody_until_it_is_said_whose_its_charges_are(
    edition: Edition, tmp_path: Path
) -> None:
    site = _copy(edition, tmp_path, "  rows: {population: patients, path: survey.csv}")
    doctor = CliRunner().invoke(owner_cli, ["--site", str(site), "doctor", "--offline", "--json"])
    (broken,) = (f for f in json.loads(doctor.stdout)["findings"] if f["area"] == "budget")
    assert "the ledger has charges of survey" in broken["message"]
    policy = site / "policy.yaml"
    policy.write_text(policy.read_text().replace('"1e-5"', '"1e-5", was: [survey]'))
    assert _run(owner_cli, "--site", site, "doctor", "--offline")["healthy"]
    (patients,) = _run(owner_cli, "--site", site, "budget")["populations"]
    assert (patients["charged_epsilon"], patients["charged_rho"]) == CHARGED


def _copy(edition: Edition, folder: Path, data_set: str) -> Path:
    """The hospital's folder, with a policy that states a population."""
    site = folder / "hospital"
    shutil.copytree(edition.folder / "hospital", site)
    people = 'populations:\n  patients: {who: All patients, epsilon: "20", delta: "1e-5"}'
    (site / "policy.yaml").write_text(f"{people}\ndata_sets:\n{data_set}\n")
    return site


def test_a_curator_serves_its_old_store_and_an_open_study_is_finished(
    edition: Edition, curator: OldCurator
) -> None:
    studies = edition.operator(curator, "study", "list")["studies"]
    listed = {each["study"]: each["state"] for each in studies}
    assert listed.keys() == STUDIES.keys()
    assert (listed["open"], listed["aborted"], listed["ball"]) == ("open", "aborted", "closed")
    edition.owner("clinic", "contribute", "open", "--yes")
    for site in ("hospital", "clinic"):
        assert edition.owner(site, "components", "open", "--wait", "300")["count"] == 1


@pytest.mark.parametrize("study", ["plain", "mixed"])
def test_an_old_result_is_fetched_drawn_from_and_trained_on(
    edition: Edition, curator: OldCurator, study: str
) -> None:
    edition.owner("hospital", "components", study)
    edition.owner("hospital", "synthesize", study)
    edition.owner("hospital", "train", study, "--target", "sex", "--kernel", "linear")
    edition.owner("hospital", "report", study)


def test_a_charged_release_is_sent_and_made_again_at_no_further_charge(
    edition: Edition, curator: OldCurator
) -> None:
    before = edition.owner("hospital", "budget")["data_sets"]
    assert edition.owner("hospital", "contribute", "plain", "--yes")["already_stored"]
    for study, method, *options in MODELS:
        if method in RELEASED:
            line = ("--target", "sex", "--method", method, *options, "--yes")
            edition.owner("hospital", "train", study, *line)
    assert edition.owner("hospital", "budget")["data_sets"] == before


def test_a_backup_is_restored(edition: Edition, tmp_path: Path) -> None:
    found = _run(curator_cli, "restore", edition.folder / "backup", "--state", tmp_path / "new")
    assert found["studies"] == len(STUDIES)


def test_a_revocation_list_still_revokes(edition: Edition) -> None:
    found = _run(curator_cli, "pki", "list", "--directory", edition.folder / "authority")
    assert [each["name"] for each in found["certificates"] if each["revoked"]] == ["former"]
