"""HAProxy with the shipped configuration, on ports that the system chose."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.checkout import ROOT
from tests.support.patience import wait_until
from tests.support.ports import reserved_port
from tests.support.requirements import miss

CONFIGURATION = ROOT / "deploy/proxy/haproxy.cfg"
ADDRESSES = dict(re.findall(r"presetenv DPPCA_(\w+) (\S+)", CONFIGURATION.read_text()))
"""Default addresses of its listeners and of the curator."""


@dataclass(frozen=True, slots=True)
class Proxy:
    owners: str
    operators: str


def find_haproxy() -> str:
    """Return the program; end the test without it."""
    # Debian installs it in a folder of root's path.
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        miss("HAProxy", "apt-get install haproxy")
    return program


@contextmanager
def running_proxy(curator: str, folder: Path) -> Iterator[Proxy]:
    """Run a proxy in front of the curator at ``HOST:PORT`` while the block runs."""
    with ExitStack() as stack:
        owners, operators = (f"127.0.0.1:{stack.enter_context(reserved_port())}" for _ in range(2))
        addresses = {"DPPCA_OWNERS": owners, "DPPCA_OPERATORS": operators, "DPPCA_CURATOR": curator}
        log = stack.enter_context((folder / "haproxy.log").open("wb"))
        process = subprocess.Popen(
            [find_haproxy(), "-f", CONFIGURATION],
            env=os.environ | addresses,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            for address in (owners, operators):
                wait_until(partial(_listens, address, process))
            assert process.poll() is None, (folder / "haproxy.log").read_text()
            yield Proxy(owners, operators)
        finally:
            process.kill()
            process.wait()


def _listens(address: str, process: subprocess.Popen[bytes]) -> bool:
    """Return True if a program listens, or the process has ended and never will."""
    if process.poll() is not None:
        return True
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
