"""What the compose file promises, read from the file alone, for three owners and for more."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.errors import ArtefactError, NotReadyError
from dppca.deploy.simulation.cli import cli
from dppca.deploy.simulation.containers.topology import demo_compose_text
from dppca.deploy.simulation.demo_rows import write_rows
from tests.support.checkout import ROOT
from tests.support.compose_folder import N_OWNERS, N_ROWS, OWNERS, write_folder

FILE = ROOT / "docker-compose.yml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("compose"))


@pytest.fixture(params=["demo", "generated"])
def file(request: pytest.FixtureRequest, folder: Path) -> Path:
    return FILE if request.param == "demo" else folder / "docker-compose.yml"


@pytest.fixture
def services(file: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text())["services"]
    return found


def owners_in(services: dict[str, dict[str, Any]]) -> list[str]:
    return [name for name in services if name.startswith("owner-") and not name.endswith("-key")]


def volumes_of(service: dict[str, Any]) -> set[str]:
    return {volume.split(":", 1)[0] for volume in service["volumes"]}


def test_the_file_in_the_root_is_the_generated_one_of_the_demo() -> None:
    assert FILE.read_text() == demo_compose_text(), "run python -m tools.pages"


def test_owners_share_neither_networks_nor_volumes(services: dict[str, dict[str, Any]]) -> None:
    owners = owners_in(services)
    for held in (
        [set(services[owner]["networks"]) for owner in owners],
        [volumes_of(services[owner]) for owner in owners],
    ):
        assert sum(map(len, held)) == len(set.union(*held))


def test_nobody_but_an_owner_and_the_step_that_makes_its_key_sees_its_site(
    services: dict[str, dict[str, Any]],
) -> None:
    for number, owner in enumerate(owners_in(services), start=1):
        for kind, other in (("site", f"{owner}-key"), ("data", "rows")):
            seen = {n for n, each in services.items() if f"{kind}-{number}" in volumes_of(each)}
            assert seen == {owner, other}
        assert f"data-{number}:/data:ro" in services[owner]["volumes"]
    keepers = [name for name, each in services.items() if "authority" in volumes_of(each)]
    assert keepers == ["certificates"], "the authority's key"


def test_a_judge_of_models_sees_no_site_no_owners_rows_and_no_network(
    services: dict[str, dict[str, Any]], file: Path
) -> None:
    if file == FILE:  # the demo's rows are all with its owners
        assert "judge" not in services
        return
    judge, owners = services["judge"], owners_in(services)
    exchanges = {f"exchange-{number + 1}" for number in range(len(owners))}
    assert volumes_of(judge) == {"./rows/held-out.csv", *exchanges}
    assert judge["network_mode"] == "none"
    assert set(judge["depends_on"]) == set(owners)
    assert services["results"]["depends_on"]["judge"] == {
        "condition": "service_completed_successfully"
    }


def test_no_environment_variable_holds_more_than_a_name_or_a_place(
    services: dict[str, dict[str, Any]],
) -> None:
    allowed = {"OWNER", "DPPCA_CURATOR", "DPPCA_CREDENTIALS"}
    for service in services.values():
        assert set(service.get("environment", {})) <= allowed


def test_every_service_is_confined_and_limited(services: dict[str, dict[str, Any]]) -> None:
    # Those that touch a folder of this machine are root there, without a network.
    on_host = {
        name
        for name, service in services.items()
        if name != "study" and any(volume[0] in "./$" for volume in service["volumes"])
    }
    assert on_host - {"rows", "judge"} == {"results"}
    for name, service in services.items():
        assert service["read_only"], name
        assert service["restart"] == "on-failure:5", name  # not a step that ended well
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert ("cap_add" in service) == ("user" in service) == (name in on_host), name
        assert name not in on_host or service["network_mode"] == "none", name
        assert "ports" not in service, name


def test_a_folder_holds_the_study_every_row_once_and_a_readme(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    written = {"README.md", ".env", "docker-compose.yml", "results", "rows", "study.yaml"}
    assert names == written | {"trial.json"}
    study = study_from_yaml((folder / "study.yaml").read_text())
    assert study.owners == tuple(f"owner-{i + 1}" for i in range(N_OWNERS))
    files = [folder / "rows" / owner / "rows.csv" for owner in study.owners]
    apart = folder / "rows" / "held-out.csv"
    rows = [line for path in [*files, apart] for line in path.read_text().splitlines()[1:]]
    assert len(set(rows)) == len(rows) == N_ROWS
    assert len(apart.read_text().splitlines()) - 1 == round(0.2 * N_ROWS)
    assert (folder / "rows").stat().st_mode & 0o077 == 0


def test_an_answer_needs_a_study_that_ran_in_such_a_folder(folder: Path, tmp_path: Path) -> None:
    for place, error in ((folder, NotReadyError), (tmp_path, ArtefactError)):
        with pytest.raises(error):
            CliRunner().invoke(cli, ["report", str(place)], catch_exceptions=False)


def test_each_owner_trains_for_the_target_as_it_is_written(folder: Path) -> None:
    services = yaml.safe_load((folder / "docker-compose.yml").read_text())["services"]
    (script,) = services["owner-1"]["command"]
    quoted = """'likes $$5 '"'"'n more'"""
    assert f"step train heights --target {quoted} --method dppca-svm" in script


def test_no_network_has_a_way_out(file: Path) -> None:
    networks = yaml.safe_load(file.read_text())["networks"]
    assert all(network["internal"] for network in networks.values())


@pytest.mark.parametrize(
    ("owners", "output", "says"),
    [(1, "new", "2 to 20 owners"), (21, "new", "2 to 20 owners"), (2, ".", "is not empty")],
)
def test_two_to_twenty_owners_get_a_folder_of_their_own(
    owners: int, output: str, says: str, folder: Path
) -> None:
    root = folder.parent
    options = ["--study", str(root / "study.yaml"), "--data", str(root / "rows.csv")]
    options += ["--owners", str(owners), "--output", str(root / output)]
    assert says in str(CliRunner().invoke(cli, ["compose", *options]).exception)
    assert not (root / "new").exists()


def test_the_demos_rows_are_divided_among_its_owners(tmp_path: Path) -> None:
    counts = write_rows(tmp_path)
    assert tuple(counts) == OWNERS
    assert {path.parent.name for path in tmp_path.rglob("rows.csv")} == {*OWNERS}
    assert sum(counts.values()) == 20_190 - round(0.2 * 20_190)
