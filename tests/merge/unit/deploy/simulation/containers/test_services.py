"""The compose file's text as containers: nothing is lost on the way, and nothing unknown passes."""

from pathlib import Path

import pytest
import yaml

from dppca.common.kernel.errors import SettingError
from dppca.deploy.simulation.containers.services import HEALTHY, ContainerPlan, Service, read_plan
from tests.support.checkout import ROOT
from tests.support.compose_folder import write_folder

TEXT = (ROOT / "docker-compose.yml").read_text()


def read(text: str = TEXT, **variables: str) -> ContainerPlan:
    return read_plan(text, Path("/folder"), variables=variables)


def service(plan: ContainerPlan, name: str) -> Service:
    (found,) = (each for each in plan.services if each.name == name)
    return found


def test_every_limit_of_every_service_is_kept() -> None:
    written = yaml.safe_load(TEXT)
    plan = read()
    assert [each.name for each in plan.services] == list(written["services"])
    assert (plan.networks, plan.volumes) == (
        tuple(written["networks"]),
        tuple(written["volumes"]),
    )
    for each in plan.services:
        given = written["services"][each.name]
        for limit in ("read_only", "tmpfs", "cap_drop", "security_opt", "pids_limit", "init"):
            assert each.limits[limit] == given[limit]
        assert each.limits["mem_limit"] == "1g"
        assert each.limits.get("cap_add") == given.get("cap_add")
        assert each.user == given.get("user", "")
        assert each.networks == tuple(given.get("networks", ()))
        assert set(each.needs) == set(given.get("depends_on", ()))
        assert each.environment == given.get("environment", {})
        assert bool(each.networks) != (given.get("network_mode") == "none")


def test_variables_go_before_their_defaults_and_two_dollars_are_one() -> None:
    plan = read(DPPCA_IMAGE="other:1", DPPCA_RESULTS="/there")
    owner, results = service(plan, "owner-1"), service(plan, "results")
    assert owner.image == "other:1"
    assert 'dppca-owner "$@" --json > "/tmp/$1.json"' in owner.command[0]
    assert "/there:/host" in results.mounts
    assert "/folder/results:/host" in service(read(), "results").mounts
    assert (
        f"{'/folder'}/deploy/simulation/demo.yaml:/study.yaml:ro" in service(plan, "study").mounts
    )


def test_the_curator_is_asked_whether_it_is_healthy_and_its_operator_sees_its_processes() -> None:
    plan = read()
    curator = service(plan, "curator")
    assert curator.health is not None
    assert (curator.health["interval"], curator.health["retries"]) == (3, 20)
    assert service(plan, "owner-1").health is None
    assert service(plan, "operator").beside == "curator"
    assert service(plan, "owner-1").needs["curator"] == HEALTHY


def test_a_written_folder_is_read_too(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    plan = read_plan((folder / "docker-compose.yml").read_text(), folder, variables={})
    assert f"{folder}/rows:/host:ro" in service(plan, "rows").mounts
    assert service(plan, "judge").limits["cap_add"] == ["DAC_OVERRIDE"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("  restart:", "  privileged: true\n  restart:"), "privileged is nothing that"),
        (
            ("hub: {internal: true}", "hub: {}"),
            "every network of a study in containers",
        ),
    ],
)
def test_what_a_driver_does_not_know_is_refused(change: tuple[str, str], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        read(TEXT.replace(*change))
