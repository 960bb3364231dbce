"""The engine's failures, addresses and removal, without an engine."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import threading
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, cast

import docker
import pytest
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.utils.socket import SocketError

from common.errors import (
    AddressSpaceError,
    DataError,
    DiskSpaceError,
    DppcaError,
    EngineError,
    ImageMissingError,
    SettingError,
)
from deploy.containers import engine as engine_module
from deploy.containers import leftovers, removal
from deploy.containers.addresses import DEFAULT_RANGE, blocks, capacity
from deploy.containers.archives import packed, unpacked
from deploy.containers.cluster import Cluster, Plan, cluster
from deploy.containers.engine import Engine
from deploy.containers.failures import failure_of
from deploy.containers.removal import remove_run
from deploy.containers.wanted import Container

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
    found = failure_of(said, "making a thing")
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
        assert words in str(failure_of(REFUSALS[name][0], "x")), name


def test_blocks_are_disjoint_and_hold_their_addresses() -> None:
    first = list(itertools.islice(blocks(DEFAULT_RANGE), 64))
    subnets = [IPv4Network(block.subnet) for block in first]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(subnets, 2))
    for block, subnet in zip(first, subnets, strict=True):
        ends = {block.gateway, block.curator, block.other}
        assert len(ends) == 3
        assert ends <= {str(host) for host in subnet.hosts()}


def test_a_range_of_addresses_is_checked() -> None:
    assert capacity("10.0.0.0/24") == 32
    assert len(list(blocks("10.0.0.0/24"))) == 32
    for text in ("10.0.0.0/30", "10.0.0.1/24", "somewhere", "fd00::/64"):
        with pytest.raises(SettingError):
            capacity(text)


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


class FakeClient:
    """As much of the SDK as removal and making use."""

    def __init__(self) -> None:
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


def test_removal_waits_for_what_is_being_made_and_nothing_is_made_after_it() -> None:
    fake = FakeClient()
    asked, answered = threading.Event(), threading.Event()

    def create(*_: object, **__: object) -> None:
        asked.set()
        assert answered.wait(60)
        Thing(fake.volumes.all)

    fake.volumes.create = create  # type: ignore[attr-defined]
    engine = Engine(as_client(fake), run="abc")
    making = threading.Thread(target=engine.make_volume, args=("data",))
    making.start()
    assert asked.wait(60)
    removing = threading.Thread(target=engine.remove)
    removing.start()
    answered.set()
    removing.join(60)
    making.join(60)
    assert not fake.volumes.all
    assert fake.closed
    with pytest.raises(EngineError, match="being stopped"):
        engine.make_volume("more")


def test_addresses_in_use_are_passed_over() -> None:
    fake, taken = FakeClient(), {"10.0.0.0/29", "10.0.0.8/29"}

    def create(*_: object, ipam: Any, **__: object) -> None:
        if ipam["Config"][0]["Subnet"] in taken:
            refusal = APIError("403", explanation="Pool overlaps with other one")
            raise refusal

    fake.networks.create = create  # type: ignore[attr-defined]
    engine = Engine(as_client(fake), run="abc")
    assert engine.make_network("hub", addresses="10.0.0.0/27").subnet == "10.0.0.16/29"
    taken |= {"10.0.0.16/29", "10.0.0.24/29"}
    with pytest.raises(AddressSpaceError, match="--subnet"):
        engine.make_network("hub", addresses="10.0.0.0/27")
    engine.remove()


class Broken(Engine):
    """An engine that refuses one thing, and whose removal is seen."""

    def __init__(self, refused: str, *, removes: bool = True) -> None:
        super().__init__(as_client(FakeClient()), run="abc")
        self.refused = refused
        self.removes = removes
        self.removed = 0

    def _may(self, what: str) -> None:
        if what == self.refused:
            raise DiskSpaceError(what)

    def require_image(self, image: str) -> None:
        self._may("image")

    def require_space(self, n_bytes: int) -> None:
        self._may("space")

    def make_network(self, name: str, *, addresses: str) -> Any:
        self._may("network")
        return next(blocks(addresses))

    def make_volume(self, name: str, **options: str) -> None:
        self._may("volume")

    def make_container(self, wanted: Container) -> None:
        self._may("container")

    def start(self, name: str) -> None:
        self._may("start")

    def kill(self, name: str, *, signal: str = "SIGKILL") -> None:
        raise EngineError(name)

    def remove(self) -> None:
        super().remove()
        self.removed += 1
        if not self.removes:
            message = "2 volumes are left"
            raise EngineError(message)


@pytest.mark.parametrize(
    "refused", ["container", "image", "network", "space", "start", "volume", "nothing"]
)
def test_everything_is_removed_whatever_fails(
    refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Broken(refused)
    monkeypatch.setattr(Engine, "connect", lambda: engine)

    def act() -> None:
        with cluster(Plan(owners=("owner-1", "owner-2"))) as hosts:
            hosts.make()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt if refused == "nothing" else DiskSpaceError):
        act()
    assert engine.removed == 1


def test_what_failed_first_is_told_with_what_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Broken("space", removes=False)
    monkeypatch.setattr(Engine, "connect", lambda: engine)
    with (
        pytest.raises(DiskSpaceError, match=r"^space\. Then also: 2 volumes are left$"),
        cluster(Plan(owners=("owner-1",))) as hosts,
    ):
        hosts.make()


@pytest.mark.parametrize(
    ("owners", "addresses"),
    [(0, DEFAULT_RANGE), (21, DEFAULT_RANGE), (2, "nowhere"), (8, "10.0.0.0/26")],
)
def test_an_impossible_plan_is_refused_before_anything_is_made(owners: int, addresses: str) -> None:
    plan = Plan(owners=tuple(f"owner-{i}" for i in range(owners)), addresses=addresses)
    with pytest.raises(SettingError):
        Cluster(Broken("image"), plan).make()


def test_an_engine_must_answer(tmp_path: Path) -> None:
    # In a process of its own: the SDK leaves a socket open that found nobody.
    code = (
        "from deploy.containers.engine import Engine\n"
        "from common.errors import EngineError\n"
        "try:\n"
        "    Engine.connect()\n"
        "except EngineError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.startswith(
        "EngineError reaching the Docker engine: no Docker engine answers"
    )


def test_an_engine_must_be_new_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(FakeClient):
        class api:  # noqa: N801
            api_version = "1.40"

    old = Old()
    monkeypatch.setattr(engine_module.docker, "from_env", lambda **_: old)
    with pytest.raises(EngineError, match=r"speaks API 1\.40"):
        Engine.connect()
    assert old.closed


def test_a_disk_with_too_little_room_is_refused(tmp_path: Path) -> None:
    fake = FakeClient()
    fake.info = lambda: {"DockerRootDir": str(tmp_path)}  # type: ignore[attr-defined]
    engine = Engine(as_client(fake), run="abc")
    engine.require_space(1)
    with pytest.raises(DiskSpaceError, match="MiB free"):
        engine.require_space(1 << 60)
    fake.info = lambda: {"DockerRootDir": str(tmp_path / "elsewhere")}  # type: ignore[attr-defined]
    engine.require_space(1 << 60)
    engine.remove()


def test_leftovers_are_counted_by_run_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, here = FakeClient(), socket.gethostname()
    assert leftovers.hint(as_client(fake)) is None
    for kind, run, process in (
        (fake.containers, "dead", f"{here}:17"),
        (fake.volumes, "dead", f"{here}:17"),
        (fake.volumes, "dead", f"{here}:17"),
        (fake.networks, "alive", f"{here}:{os.getpid()}"),
        (fake.networks, "far", f"not-{here}:17"),
    ):
        labels = {removal.LABEL_RUN: run, removal.LABEL_PROCESS: process}
        Thing(kind.all).attrs["Labels"] = labels
    monkeypatch.setattr(leftovers, "_lives", lambda pid: pid == os.getpid())
    found = leftovers.leftovers(as_client(fake))
    assert [(each.run, each.state.value) for each in found] == [
        ("alive", "running"),
        ("dead", "left"),
        ("far", "elsewhere"),
    ]
    assert (found[1].containers, found[1].networks, found[1].volumes) == (1, 0, 2)
    told = leftovers.hint(as_client(fake))
    assert told is not None
    assert "(dead)" in told


def test_every_failure_is_of_one_tree() -> None:
    assert all(issubclass(kind, DppcaError) for _, kind in REFUSALS.values())
