"""The engine's failures, addresses, a project of Compose and its removal, without an engine."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, cast

import docker
import pytest
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.utils.socket import SocketError

from dppca.common.errors import (
    AddressSpaceError,
    DataError,
    DiskSpaceError,
    DppcaError,
    EngineError,
    ImageMissingError,
    SettingError,
)
from dppca.deploy.simulation.containers import orphans, removal
from dppca.deploy.simulation.containers import project as project_module
from dppca.deploy.simulation.containers.failures import translate_failure
from dppca.deploy.simulation.containers.project import Project, project
from dppca.deploy.simulation.containers.removal import remove_run
from dppca.deploy.simulation.containers.subnets import DEFAULT_RANGE, choose_subnets
from dppca.deploy.simulation.containers.tar_archives import packed, unpacked
from dppca.deploy.simulation.containers.topology import Placement
from tests.support.patience import WAIT_S

REFUSALS = {
    "no space left": (
        APIError("500", explanation="mkdir /var/lib/docker/x: no space left on device"),
        DiskSpaceError,
    ),
    "quota": (APIError("500", explanation="write: Disk quota exceeded"), DiskSpaceError),
    "no space here": (OSError(28, "No space left on device"), DiskSpaceError),
    "pools": (
        APIError(
            "500", explanation="could not find an available, non-overlapping IPv4 address pool"
        ),
        AddressSpaceError,
    ),
    "overlap": (
        APIError("403", explanation="Pool overlaps with other one on this address space"),
        AddressSpaceError,
    ),
    "no image": (ImageNotFound("404"), ImageMissingError),
    "refused": (APIError("500", explanation="no such device"), EngineError),
    "not found": (NotFound("404"), EngineError),
    "nobody answers": (DockerException("Connection refused"), EngineError),
    "not allowed": (DockerException("PermissionError(13, 'Permission denied')"), EngineError),
    "no answer in time": (requests.ReadTimeout("read timed out"), EngineError),
    "cut off": (SocketError("Unexpected EOF"), EngineError),
}


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_what_an_engine_says_has_an_error_of_its_own(name: str) -> None:
    said, kind = REFUSALS[name]
    found = translate_failure(said, "making a thing")
    assert type(found) is kind
    assert str(found).startswith("making a thing: ")


def test_messages_say_what_to_do() -> None:
    advice = {
        "no space left": "docker system prune",
        "pools": "--subnet",
        "nobody answers": "start it",
        "not allowed": "join its group",
    }
    for name, words in advice.items():
        assert words in str(translate_failure(REFUSALS[name][0], "x")), name


def test_subnets_are_disjoint_and_hold_a_gateway_a_curator_and_an_owner() -> None:
    subnets = [IPv4Network(text) for text in choose_subnets(DEFAULT_RANGE, 64, offset=8190)]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(subnets, 2))
    assert all(subnet.num_addresses >= 5 for subnet in subnets)
    assert all(subnet.subnet_of(IPv4Network(DEFAULT_RANGE)) for subnet in subnets)


def test_subnets_in_use_are_passed_over() -> None:
    used = ["10.0.0.0/29", "10.0.0.12/30", "192.168.0.0/16"]
    assert choose_subnets("10.0.0.0/27", 2, used=used) == ("10.0.0.16/29", "10.0.0.24/29")
    with pytest.raises(AddressSpaceError, match="--subnet"):
        choose_subnets("10.0.0.0/27", 3, used=used)


@pytest.mark.parametrize("text", ["10.0.0.0/30", "10.0.0.1/24", "somewhere", "fd00::/64"])
def test_a_range_of_addresses_is_checked(text: str) -> None:
    with pytest.raises(SettingError):
        choose_subnets(text, 1)


def test_a_range_that_is_too_small_is_refused() -> None:
    with pytest.raises(SettingError, match="holds 8 networks, and 9 are needed"):
        choose_subnets("10.0.0.0/26", 9)


def test_a_file_comes_back_as_it_went_in() -> None:
    content = bytes(range(256)) * 50
    archive = packed("rows.csv", content, mode=0o600, owner=10001)
    assert unpacked([archive[:700], archive[700:]], "/data/rows.csv") == content
    with pytest.raises(DataError, match="not a file"):
        unpacked([archive], "/data/other.csv")


class Thing:
    """A container, network or volume that gives way at the n-th attempt."""

    def __init__(self, kind: list[Thing], *, attempts: int = 1) -> None:
        self.id = "thing"
        self.attrs: dict[str, Any] = {"Name": "thing"}
        self._kind = kind
        self._attempts = attempts
        kind.append(self)

    def remove(self, **_: object) -> None:
        self._attempts -= 1
        if self._attempts > 0:
            refusal = APIError("409", explanation="has active endpoints")
            raise refusal
        if self not in self._kind:
            gone = NotFound("404")
            raise gone
        self._kind.remove(self)


class Kind:
    def __init__(self) -> None:
        self.all: list[Any] = []
        self.looks: list[Any] = []

    def list(self, **options: Any) -> list[Any]:
        self.looks.append(options["filters"])
        return list(self.all)


class FakeApi:
    """What the engine itself is asked: its networks, and one container where one runs."""

    def __init__(self, used: list[str]) -> None:
        self.api_version = "1.41"
        self.used = used
        self.running = False
        self.on_kill: Callable[[], object] = lambda: None

    def networks(self) -> list[dict[str, Any]]:
        return [{"IPAM": {"Config": [{"Subnet": subnet}]}} for subnet in self.used]

    def containers(self, **_: object) -> list[dict[str, Any]]:
        labels = {"com.docker.compose.service": "curator"}
        return [{"Id": "1", "State": "running", "Labels": labels}] if self.running else []

    def kill(self, _: str) -> None:
        self.running = False
        self.on_kill()


class FakeClient:
    """As much of the SDK as removal and making use."""

    def __init__(self, used: list[str] | None = None) -> None:
        self.api = FakeApi(used or [])
        self.containers, self.networks, self.volumes = Kind(), Kind(), Kind()
        self.closed = False

    def close(self) -> None:
        self.closed = True


def as_client(fake: FakeClient) -> docker.DockerClient:
    return cast("docker.DockerClient", fake)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "_PAUSE_S", 0.0)
    monkeypatch.setattr(removal, "PATIENCE_S", 0.0)


def test_removal_goes_on_until_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "_PAUSE_S", 0.0)
    fake = FakeClient()
    for kind, attempts in ((fake.containers, 1), (fake.networks, 3), (fake.volumes, 2)):
        Thing(kind.all, attempts=attempts)
    remove_run(as_client(fake), "abc")
    assert not fake.containers.all + fake.networks.all + fake.volumes.all
    assert all(
        look == {"label": "org.dppca.simulation.run=abc"}
        for kind in (fake.containers, fake.networks, fake.volumes)
        for look in kind.looks
    )


def test_what_went_by_itself_is_removed(impatient: None) -> None:
    fake = FakeClient()
    gone = Thing(fake.containers.all)
    fake.containers.all.remove(gone)
    looks = iter([[gone], []])
    fake.containers.list = lambda **_: next(looks)  # type: ignore[method-assign]
    remove_run(as_client(fake), "abc")


def test_what_cannot_be_removed_is_told(impatient: None) -> None:
    fake = FakeClient()
    Thing(fake.networks.all, attempts=10**9)
    with pytest.raises(EngineError, match=r"1 networks.*active endpoints.*dppca-simulate clean"):
        remove_run(as_client(fake), "abc")


@pytest.fixture
def compose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a script in the place of Compose."""

    def put(script: str) -> None:
        monkeypatch.setattr(
            project_module, "compose_command", lambda: ["sh", "-c", script, "compose"]
        )

    monkeypatch.setattr(project_module, "POLL_S", 0.01)
    return put


def described(placement: Placement) -> str:
    return json.dumps([dict(placement.labels), placement.subnets])


def test_a_project_is_described_with_labels_and_free_subnets(
    tmp_path: Path, compose: Callable[[str], None]
) -> None:
    compose("exit 0")
    fake = FakeClient(used=["10.0.0.0/28"])
    made = Project(as_client(fake), tmp_path)
    made.up(described, n_networks=2, addresses="10.0.0.0/27")
    labels, subnets = json.loads((tmp_path / "docker-compose.yml").read_text())
    assert sorted(subnets) == ["10.0.0.16/29", "10.0.0.24/29"]
    assert labels == {
        removal.LABEL_RUN: made.run,
        removal.LABEL_PROCESS: f"{socket.gethostname()}:{os.getpid()}",
    }
    made.remove()


def test_another_subnet_is_taken_where_a_run_took_it_meanwhile(
    tmp_path: Path, compose: Callable[[str], None]
) -> None:
    compose("[ -f again ] || { touch again; echo 'Pool overlaps with other one'; exit 1; }")
    made = Project(as_client(FakeClient()), tmp_path)
    made.up(described, n_networks=1)
    made.remove()
    compose("echo 'Pool overlaps with other one' >&2; exit 1")
    made = Project(as_client(FakeClient()), tmp_path)
    with pytest.raises(AddressSpaceError, match="--subnet"):
        made.up(described, n_networks=1)
    made.remove()


def test_what_compose_says_is_told_and_what_a_host_said_comes_first(
    tmp_path: Path, compose: Callable[[str], None]
) -> None:
    compose("echo 'no such thing' >&2; exit 3")

    def look() -> None:
        if made._calls[-1].poll() is not None:
            raise DataError("owner-1: no rows")

    made = Project(as_client(FakeClient()), tmp_path)
    with pytest.raises(EngineError, match="Compose failed: no such thing"):
        made.up(described, n_networks=1)
    with pytest.raises(DataError, match="owner-1"):
        made.up(described, n_networks=1, look=look)
    made.remove()


def test_removal_kills_until_compose_has_ended_and_nothing_is_made_after_it(
    tmp_path: Path, compose: Callable[[str], None]
) -> None:
    # Compose ends when a container that it waits for is killed, not before.
    compose("until [ -f killed ]; do sleep 0.01; done; touch ended")
    fake = FakeClient()
    fake.api.running = True
    fake.api.on_kill = (tmp_path / "killed").touch
    made = Project(as_client(fake), tmp_path)
    begun = threading.Event()
    failures: list[DppcaError] = []

    def up() -> None:
        try:
            made.up(described, n_networks=1, look=begun.set)
        except DppcaError as error:
            failures.append(error)

    making = threading.Thread(target=up)
    making.start()
    assert begun.wait(WAIT_S)
    made.remove()
    making.join(WAIT_S)
    assert (tmp_path / "ended").exists()
    assert not failures
    assert fake.closed
    with pytest.raises(EngineError, match="being stopped"):
        made.up(described, n_networks=1)


@pytest.mark.parametrize("failure", [DiskSpaceError("full"), KeyboardInterrupt()])
def test_everything_is_removed_whatever_fails(
    failure: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeClient()
    monkeypatch.setattr(project_module, "connect", lambda: as_client(fake))
    Thing(fake.volumes.all)
    with pytest.raises(type(failure)), project():
        raise failure
    assert not fake.volumes.all


def test_what_failed_first_is_told_with_what_was_left(
    monkeypatch: pytest.MonkeyPatch, impatient: None
) -> None:
    fake = FakeClient()
    monkeypatch.setattr(project_module, "connect", lambda: as_client(fake))
    Thing(fake.volumes.all, attempts=10**9)
    with (
        pytest.raises(DiskSpaceError, match=r"^space\. Then also: .*1 volumes are left"),
        project(),
    ):
        raise DiskSpaceError("space")


def test_compose_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="Compose is missing: install"):
        project_module.compose_command()


def test_an_engine_must_answer(tmp_path: Path) -> None:
    # In a process of its own: the SDK leaves a socket open that found nobody.
    code = (
        "from dppca.deploy.simulation.containers.project import connect\n"
        "from dppca.common.errors import EngineError\n"
        "try:\n"
        "    connect()\n"
        "except EngineError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"},
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    assert done.stdout.startswith(
        "EngineError reaching the Docker engine: no Docker engine answers"
    )


def test_an_engine_must_be_new_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    old = FakeClient()
    old.api.api_version = "1.40"
    monkeypatch.setattr(docker, "from_env", lambda **_: old)
    with pytest.raises(EngineError, match=r"speaks API 1\.40"):
        project_module.connect()
    assert old.closed


def test_a_disk_with_too_little_room_is_refused(tmp_path: Path) -> None:
    fake = FakeClient()
    fake.info = lambda: {"DockerRootDir": str(tmp_path)}  # type: ignore[attr-defined]
    made = Project(as_client(fake), tmp_path)
    made.require_space(1)
    with pytest.raises(DiskSpaceError, match="MiB free"):
        made.require_space(1 << 60)
    fake.info = lambda: {"DockerRootDir": str(tmp_path / "elsewhere")}  # type: ignore[attr-defined]
    made.require_space(1 << 60)
    made.remove()


def test_leftovers_are_counted_by_run_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, here = FakeClient(), socket.gethostname()
    assert orphans.hint(as_client(fake)) is None
    for kind, run, process in (
        (fake.containers, "dead", f"{here}:17"),
        (fake.volumes, "dead", f"{here}:17"),
        (fake.volumes, "dead", f"{here}:17"),
        (fake.networks, "alive", f"{here}:{os.getpid()}"),
        (fake.networks, "far", f"not-{here}:17"),
    ):
        labels = {removal.LABEL_RUN: run, removal.LABEL_PROCESS: process}
        Thing(kind.all).attrs["Labels"] = labels
    monkeypatch.setattr(orphans, "_lives", lambda pid: pid == os.getpid())
    found = orphans.leftovers(as_client(fake))
    assert [(each.run, each.state.value) for each in found] == [
        ("alive", "running"),
        ("dead", "left"),
        ("far", "elsewhere"),
    ]
    assert (found[1].containers, found[1].networks, found[1].volumes) == (1, 0, 2)
    told = orphans.hint(as_client(fake))
    assert told is not None
    assert "(dead)" in told
