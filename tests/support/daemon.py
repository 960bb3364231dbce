"""A curator in a process of its own, with real certificates on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from common.transport.tls import Credentials, Role
from tests.support.authority import Authority, new_authority
from tests.support.hub import Party

SERVE = ("-m", "curator.cli", "serve")
START_S = 30.0


def write_credentials(folder: Path, credentials: Credentials) -> Path:
    """A credentials folder as the command lines take it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ca.pem").write_bytes(credentials.ca)
    (folder / "certificate.pem").write_bytes(credentials.certificate)
    (folder / "key.pem").write_bytes(credentials.key)
    return folder


class Hub:
    """Starts, kills and restarts one curator; hands out connections to it."""

    def __init__(self, folder: Path, *, authority: Authority | None = None) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.authority = authority or new_authority()
        self.credentials = write_credentials(
            folder / "hub", self.authority.issue(Role.CURATOR, "hub")
        )
        self.address = ""
        self.log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._parties: list[Party] = []

    def start(self, *program: str) -> Hub:
        """Start ``program`` (the daemon itself by default) and wait until it serves."""
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *(program or SERVE),
                    *("--state", self.state),
                    *("--listen", "127.0.0.1:0"),
                    *("--credentials", self.credentials),
                    *("--port-file", port_file),
                ],
                stderr=log,
                stdout=log,
                cwd=Path(__file__).resolve().parents[2],
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
        end = time.monotonic() + START_S
        while not port_file.exists():
            code = self._process.poll()
            assert code is None, f"the curator ended with {code}: {self.log.read_text()}"
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.02)
        self.address = port_file.read_text().strip()
        return self

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=START_S)

    def stop(self) -> None:
        for party in self._parties:
            party.close()
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def party(self, name: str, role: Role = Role.OWNER) -> Party:
        return self.connect(self.authority.issue(role, name))

    def operator(self) -> Party:
        return self.party("alice", Role.OPERATOR)

    def connect(self, credentials: Credentials) -> Party:
        party = Party(self.address, credentials)
        self._parties.append(party)
        return party
