"""HAProxy as ``deploy/systemd/dppca-proxy.service`` runs it: both families, a reload, a stop."""

import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from dppca.common.kernel.identity.tls import Role
from dppca.common.transport.channels import open_channel
from tests.push.contract.test_systemd_unit import PROXY, read_unit
from tests.support.certificates import Authority
from tests.support.patience import WAIT_S, wait_until
from tests.support.ports import reserved_port
from tests.support.proxy import CONFIGURATION, find_haproxy
from tests.support.tls import answering

Running = tuple[int, subprocess.Popen[bytes], Callable[[], None]]


@contextmanager
def _as_the_unit_runs_it(folder: Path, curator: str) -> Iterator[Running]:
    """Port of the owners, the process of the master, and what waits until it says READY=1."""
    (line,) = read_unit(PROXY.read_text())["Service"]["ExecStart"]
    arguments = shlex.split(line)[1:-1]
    with ExitStack() as stack:
        owners, operators = (stack.enter_context(reserved_port()) for _ in range(2))
        told = stack.enter_context(closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)))
        told.bind(str(folder / "notify"))
        told.settimeout(WAIT_S)
        settings = {
            "DPPCA_OWNERS": f":::{owners}",
            "DPPCA_OPERATORS": f"127.0.0.1:{operators}",
            "DPPCA_CURATOR": curator,
            "NOTIFY_SOCKET": str(folder / "notify"),
        }

        def until_ready() -> None:
            while b"READY=1" not in told.recv(1000):
                pass

        master = subprocess.Popen(
            [find_haproxy(), *arguments, CONFIGURATION],
            env=os.environ | settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            until_ready()
            yield owners, master, until_ready
        finally:
            with suppress(ProcessLookupError):
                os.killpg(master.pid, signal.SIGKILL)
            master.wait()


@pytest.fixture
def port(authority: Authority) -> Iterator[int]:
    """A curator that answers with the other end of the connection, which is the proxy's."""
    issued = authority.issue(Role.CURATOR, "hub")
    with answering(issued, lambda context: str(context.peer()).encode()) as port:
        yield port


def _refuses(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), WAIT_S).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # a listener that is just being closed
        pass
    return False


def test_both_families_are_taken_and_a_reload_and_a_stop_cut_nobody(
    tmp_path: Path, port: int, authority: Authority
) -> None:
    caller = authority.issue(Role.OWNER, "owner-1")
    with (
        _as_the_unit_runs_it(tmp_path, f"127.0.0.1:{port}") as (owners, master, until_ready),
        ExitStack() as open_,
    ):

        def connect() -> Callable[[], bytes]:
            channel = open_.enter_context(open_channel(f"127.0.0.1:{owners}", caller))
            method = channel.unary_unary("/test/Who")
            return lambda: bytes(method(b"", timeout=WAIT_S))

        assert not _refuses("::1", owners)
        before = connect()
        first = before()
        master.send_signal(signal.SIGUSR2)
        until_ready()
        after = connect()
        second = after()
        assert before() == first, "on the same connection"

        def stops() -> bool:
            # Again and again: a master that is just taking up its new worker may miss one.
            master.send_signal(signal.SIGUSR1)
            return _refuses("127.0.0.1", owners)

        wait_until(stops)
        assert (before(), after()) == (first, second)
        assert master.poll() is None, "it waits for what is open"
        open_.close()
        assert master.wait(WAIT_S) in (0, 128 + signal.SIGTERM)
