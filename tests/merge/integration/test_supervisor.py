from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dppca.common.errors import DppcaError
from tests.support.curator import Curator
from tests.support.patience import WAIT_S


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The other end of ``NOTIFY_SOCKET``, as systemd holds it."""
    with (
        tempfile.TemporaryDirectory() as folder,  # a socket's path has 107 bytes at most
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver,
    ):
        receiver.bind(f"{folder}/notify")
        receiver.settimeout(WAIT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", f"{folder}/notify")
        yield receiver


def test_systemd_is_told_the_truth(
    supervisor: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "120000000")
    curator = Curator(tmp_path).start()
    try:
        said = supervisor.recv(100)
        while said == b"WATCHDOG=1":
            said = supervisor.recv(100)
        assert said == b"READY=1"
        stub = health_pb2_grpc.HealthStub(curator.operator().channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=WAIT_S, wait_for_ready=True)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        assert supervisor.recv(100) == b"WATCHDOG=1"
        assert curator.terminate() == 0
        while said != b"STOPPING=1":
            assert said in {b"WATCHDOG=1", b"READY=1"}
            said = supervisor.recv(100)
    finally:
        curator.stop()


def test_a_daemon_that_cannot_start_is_never_ready(
    supervisor: socket.socket, tmp_path: Path
) -> None:
    curator = Curator(tmp_path)
    curator.credentials.joinpath("key.pem").unlink()
    with pytest.raises(DppcaError, match=r"key\.pem"):
        curator.start()
    supervisor.setblocking(False)
    with pytest.raises(BlockingIOError):
        supervisor.recv(100)
