"""What the compose file promises, read from the file alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.simulation.demo import demo_study
from deploy.simulation.rows import write_rows
from tests.support.containers import OWNERS, ROOT, compose_command

FILE = ROOT / "docker-compose.yml"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]


def volumes_of(service: str) -> set[str]:
    return {volume.split(":", 1)[0] for volume in SERVICES[service]["volumes"]}


def test_compose_takes_the_file() -> None:
    command = compose_command()
    if not command:
        pytest.skip("Compose is missing")
    done = subprocess.run(
        [*command, "--file", str(FILE), "config", "--quiet"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_file_keeps_the_compose_specification() -> None:
    """What Compose v2 checks first; its schema comes with the checker."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, str(FILE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_its_owners_are_the_demos() -> None:
    assert demo_study().owners == OWNERS


def test_owners_share_neither_networks_nor_volumes() -> None:
    for kind in ("networks", "volumes"):
        of = {
            owner: set(SERVICES[owner]["networks"]) if kind == "networks" else volumes_of(owner)
            for owner in OWNERS
        }
        assert sum(map(len, of.values())) == len(set.union(*of.values()))


def test_nobody_but_an_owner_and_the_step_that_makes_its_key_sees_its_site() -> None:
    for number, owner in enumerate(OWNERS, start=1):
        seen = {name for name in SERVICES if f"site-{number}" in volumes_of(name)}
        assert seen == {owner, f"{owner}-key"}
        assert {name for name in SERVICES if f"data-{number}" in volumes_of(name)} == {
            owner,
            "rows",
        }


def test_only_certificates_sees_the_authoritys_key() -> None:
    assert [name for name in SERVICES if "authority" in volumes_of(name)] == ["certificates"]


def test_no_environment_variable_holds_more_than_a_name_or_a_place() -> None:
    allowed = {"OWNER", "DPPCA_CURATOR", "DPPCA_CREDENTIALS"}
    for service in SERVICES.values():
        assert set(service.get("environment", {})) <= allowed


def test_every_service_is_confined_and_limited() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert ("cap_add" in service) == (name == "results")


def test_owners_start_once_the_curator_is_healthy() -> None:
    for name in ("study", *OWNERS):
        assert SERVICES[name]["depends_on"]["curator"] == {"condition": "service_healthy"}


def test_the_demos_rows_are_divided_among_its_owners(tmp_path: Path) -> None:
    counts = write_rows(tmp_path)
    assert tuple(counts) == OWNERS
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.csv")} == {
        f"{owner}/rows.csv" for owner in OWNERS
    }
    assert sum(counts.values()) == 20_190 - round(0.2 * 20_190)
