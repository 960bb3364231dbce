"""The watch over a process's own sockets: which are found, which are closed, what stays."""

from __future__ import annotations

import logging
import os
import resource
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dppca.common.transport.tls import Identity, Role
from dppca.curator.config import Limits
from dppca.curator.connections import CallerRegistry, CloseReason
from dppca.curator.service import sockets
from dppca.curator.service.sockets import ConnectionWatcher, max_connections
from tests.support.patience import WAIT_S

OWNER = Identity("h", Role.OWNER)
CAPS = Limits(max_connections_per_party=2, max_unidentified_per_address=3, identify_s=5.0)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Stage:
    """A listening socket of this process, connections to it, and a watch over them."""

    def __init__(self, stack: ExitStack, limits: Limits = CAPS) -> None:
        self.stack, self.clock, self.closed = stack, Clock(), Counter[CloseReason]()
        self.listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = self.listener.getsockname()[1]
        self.callers = CallerRegistry(clock=self.clock)
        self.watch = ConnectionWatcher(
            self.port,
            self.callers,
            limits,
            closed=lambda ground: self.closed.update([ground]),
            clock=self.clock,
        )

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """Both ends of a connection: the other's, ours."""
        far = self.stack.enter_context(socket.create_connection(("127.0.0.1", self.port), WAIT_S))
        near, _ = self.listener.accept()
        far.setblocking(False)
        return far, self.stack.enter_context(near)

    def calls(self, far: socket.socket, party: Identity = OWNER) -> None:
        self.callers.heard(peer(far), party)


def peer(far: socket.socket) -> str:
    return f"ipv4:127.0.0.1:{far.getsockname()[1]}"


def alive(far: socket.socket) -> bool:
    try:
        return far.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.fixture
def stage() -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(stack)


def test_a_connection_without_a_call_ends_in_time_and_one_with_a_call_stays(stage: Stage) -> None:
    caller, mute = stage.connect()[0], stage.connect()[0]
    stage.watch.look()
    stage.calls(caller)
    stage.watch.look()
    assert stage.watch.counts() == (1, 1)
    stage.clock.now += CAPS.identify_s
    stage.watch.look()
    assert (alive(caller), alive(mute)) == (True, False)
    assert stage.closed == {CloseReason.SILENT: 1}
    assert stage.watch.counts() == (1, 0)


def test_who_loses_its_certificate_loses_its_connection(stage: Stage) -> None:
    far, _ = stage.connect()
    stage.calls(far)
    stage.watch.look()
    stage.callers.forget(peer(far))
    stage.clock.now += CAPS.identify_s
    stage.watch.look()
    assert not alive(far)


def test_the_oldest_of_an_address_and_the_newest_of_a_party_are_closed(stage: Stage) -> None:
    ends = []
    for _ in range(10):
        ends.append(stage.connect()[0])
        stage.clock.now += 0.1
        stage.watch.look()
    assert [alive(far) for far in ends] == [False] * 7 + [True] * 3
    for far in ends[7:]:
        stage.calls(far)
    stage.watch.look()
    assert [alive(far) for far in ends[7:]] == [True, True, False]
    assert stage.closed == {CloseReason.ADDRESS: 7, CloseReason.PARTY: 1}


def test_a_port_that_is_used_again_is_not_the_party_it_was(stage: Stage) -> None:
    far, near = stage.connect()
    stage.calls(far)
    stage.clock.now += 0.1
    stage.watch.look()
    source = far.getsockname()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    near.close()
    far.close()
    stage.clock.now += 0.1
    again = stage.stack.enter_context(
        socket.create_connection(("127.0.0.1", stage.port), WAIT_S, source_address=source)
    )
    stage.stack.enter_context(stage.listener.accept()[0])
    again.setblocking(False)
    stage.watch.look()
    assert stage.watch.counts() == (0, 1)


def test_other_sockets_and_files_of_the_process_are_left_alone(
    stage: Stage, tmp_path: Path
) -> None:
    elsewhere = stage.stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    mine = stage.stack.enter_context(
        socket.create_connection(("127.0.0.1", elsewhere.getsockname()[1]), WAIT_S)
    )
    theirs = stage.stack.enter_context(elsewhere.accept()[0])
    one, two = socket.socketpair()
    with one, two, (tmp_path / "file").open("wb") as file:
        stage.watch.look()
        stage.clock.now += 100.0
        stage.watch.look()
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone
        stage.watch.look()
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - names alone
        one.sendall(b"x")
        mine.sendall(b"x")
        file.write(b"x")
        assert two.recv(1) == theirs.recv(1) == b"x"
    stage.connect()
    assert not stage.closed


def test_a_connection_is_looked_at_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a look costs for a connection that is known is one system call."""
    duplicates = Counter[str]()
    dup = os.dup

    def counted(descriptor: int) -> int:
        duplicates["made"] += 1
        return dup(descriptor)

    kept = [stage.connect() for _ in range(3)]
    stage.watch.look()
    monkeypatch.setattr(os, "dup", counted)
    for _ in range(5):
        stage.watch.look()
    assert not duplicates
    assert all(alive(far) for far, _ in kept)


def test_many_closed_connections_make_one_line_a_minute(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "dppca.curator"):
        for _ in range(20):
            stage.connect()
            stage.watch.look()
        stage.clock.now += sockets.LOG_EVERY_S
        stage.watch.look()
    lines = [r.fields for r in caplog.records if r.getMessage() == "connections closed"]  # type: ignore[attr-defined] # fields of ours
    address = [line for line in lines if line["reason"] == CloseReason.ADDRESS.value]
    assert [line["closed"] for line in address] == [1, 16]
    assert {line["most"] for line in address} == {"127.0.0.1"}


def test_a_system_that_does_not_list_descriptors_is_told_so(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sockets, "DESCRIPTORS", tmp_path / "none")
    with caplog.at_level(logging.INFO, "dppca.curator"):
        stage.watch.run()  # comes back
    assert [record.getMessage() for record in caplog.records] == ["connections not watched"]


@pytest.mark.parametrize(
    ("soft", "hard", "allowed", "connections"),
    [(65_536, 65_536, True, 2048), (1024, 4096, True, 2048), (1024, 4096, False, 768)],
)
def test_no_more_connections_are_taken_than_there_are_descriptors(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, *, allowed: bool, connections: int
) -> None:
    raised = []

    def setrlimit(_: int, asked: tuple[int, int]) -> None:
        if not allowed:
            raise ValueError
        raised.append(asked)

    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    assert max_connections(Limits()) == connections
    assert all(new <= hard for new, _ in raised)
