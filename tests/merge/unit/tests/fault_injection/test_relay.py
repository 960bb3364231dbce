from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.fault_injection.relay import SLOW_BYTES_PER_S, Relay
from tests.support.patience import WAIT_S

NOTHING_COMES_S = 0.3


def _echo(listener: socket.socket) -> None:
    far, _ = listener.accept()
    with far:
        while content := far.recv(1000):
            far.sendall(content)


@pytest.fixture
def near() -> Iterator[tuple[Relay, socket.socket]]:
    """A relay, and a connection through it to one who says everything again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        echo = threading.Thread(target=_echo, args=(listener,))
        echo.start()
        relay = Relay(lambda: f"127.0.0.1:{listener.getsockname()[1]}")
        host, port = relay.address.split(":")
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
            yield relay, connection
        echo.join(WAIT_S)
        relay.close()


def test_a_cut_link_passes_nothing_and_closes_nothing_and_healed_it_loses_nothing(
    near: tuple[Relay, socket.socket],
) -> None:
    relay, connection = near
    connection.sendall(b"word")
    assert connection.makefile("rb").read(4) == b"word"
    relay.is_cut = True
    connection.sendall(b"more")
    connection.settimeout(NOTHING_COMES_S)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    relay.is_cut = False
    connection.settimeout(WAIT_S)
    assert connection.makefile("rb").read(4) == b"more"


def test_a_slow_link_takes_its_time_and_loses_nothing(near: tuple[Relay, socket.socket]) -> None:
    relay, connection = near
    relay.is_slow, begun = True, time.monotonic()
    connection.sendall(b"slowly" * 100)
    assert connection.makefile("rb").read(600) == b"slowly" * 100
    assert time.monotonic() - begun > 400 / SLOW_BYTES_PER_S
