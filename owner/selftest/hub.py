"""A throw-away federation on this machine: authority, curator, operator, one site. Real ones.

The curator is the installed program in a process of its own, reached over loopback with mutual
TLS; the site is a folder that the owner's own commands work on. The operator's calls, which an
attacker would make too, are made from here.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.checkpoints import VARIABLE
from common.errors import PeerError, UnreachableError
from common.study import Study
from common.transport.channels import open_channel
from common.transport.tls import Credentials, load_credentials
from common.wire import federation_pb2 as pb
from common.wire import federation_pb2_grpc as rpc
from owner.enrolment import enrol

VICTIM = "victim"
_CURATOR = "curator.cli"  # in a process of its own: nothing of it is imported here
_START_S, _COMMAND_S, _CALL_S, _RESULT_S = 60.0, 120.0, 30.0, 60


@dataclass(frozen=True, slots=True)
class ThrowAway:
    """A site, and an operator's connection to its curator.

    Attributes
    ----------
    site
        Folder of the owner `VICTIM`.
    """

    site: Path
    ca: bytes
    federation: Any
    admin: Any

    def create(self, study: Study) -> None:
        """Begin a study."""
        request = pb.CreateStudyRequest(document=study.canonical_bytes())
        self.admin.CreateStudy(request, timeout=_CALL_S)

    def components(self, study: Study) -> bytes:
        """The result file, as soon as there is one."""
        digest = bytes.fromhex(study.digest)
        question = pb.GetResultRequest(study_digest=digest, wait_ms=_RESULT_S * 1000)
        answer = self.federation.GetResult(question, timeout=_RESULT_S + _CALL_S)
        if answer.state != pb.STUDY_STATE_DECOMPOSED:
            message = f"the throw-away curator has no result of study {study.name}"
            raise UnreachableError(message)
        request = pb.DownloadComponentsRequest(study_digest=digest)
        chunks = self.federation.DownloadComponents(request, timeout=_RESULT_S)
        return b"".join(chunk.content for chunk in chunks)

    def owner(self, *arguments: str) -> dict[str, Any]:
        """Run one of the owner's commands in this process; its JSON document.

        Raises
        ------
        DppcaError
            What the command raised.
        """
        from owner.cli import cli

        out = io.StringIO()
        line = ["--site", str(self.site), *arguments, "--json"]
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            cli.main(args=line, standalone_mode=False)
        found: dict[str, Any] = json.loads(out.getvalue())
        return found

    def start_owner(self, *arguments: str, fault: str | None = None) -> subprocess.Popen[bytes]:
        """Start one of the owner's commands in a process of its own."""
        environment = _environment() | ({VARIABLE: fault} if fault else {})
        return subprocess.Popen(
            [sys.executable, "-m", "owner.cli", "--site", str(self.site), *arguments, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def policy(self, data_sets: Mapping[str, str]) -> None:
        """Give the site data sets with lifetime epsilons; each has its rows in ``NAME.csv``."""
        lines = [
            f'  {name}: {{path: {name}.csv, epsilon: "{epsilon}", delta: "0"}}'
            for name, epsilon in data_sets.items()
        ]
        (self.site / "policy.yaml").write_text("\n".join(["data_sets:", *lines, ""]))


def run_owner(hub: ThrowAway, *arguments: str, fault: str | None = None) -> tuple[int, Any]:
    """Exit code and JSON document (None without one) of a command in a process of its own."""
    process = hub.start_owner(*arguments, fault=fault)
    try:
        printed, _ = process.communicate(timeout=_COMMAND_S)
    finally:
        process.kill()
        process.wait()
    return process.returncode, json.loads(printed) if printed else None


@contextmanager
def throw_away(folder: Path) -> Iterator[ThrowAway]:
    """Make a federation in an empty folder, and end it.

    Raises
    ------
    PeerError
        The curator's commands failed; the message says what they said.
    """
    authority, hub, operator, site = (folder / n for n in ("authority", "hub", "operator", "site"))
    _curator("pki", "init", "--directory", authority)
    issue = ("pki", "issue", "--directory", authority)
    _curator(*issue, *_party("curator", "hub", hub), "--host", "127.0.0.1")
    _curator(*issue, *_party("operator", "attacker", operator))
    with _serving(folder, hub) as address:
        enrol(site, name=VICTIM, curator=address)
        signed = ("--request", site / "request.pem", "--output", site / "certificate.pem")
        _curator("pki", "sign", "--directory", authority, *signed)
        ca = (authority / "ca.pem").read_bytes()
        (site / "ca.pem").write_bytes(ca)
        credentials = _credentials(operator)
        with open_channel(address, credentials) as channel:
            yield ThrowAway(site, ca, rpc.FederationStub(channel), rpc.AdminStub(channel))


@contextmanager
def _serving(folder: Path, credentials: Path) -> Iterator[str]:
    """Run a curator; its address."""
    port_file, log = folder / "port", folder / "log"
    arguments = ["serve", "--state", folder / "state", "--listen", "127.0.0.1:0"]
    arguments += ["--credentials", credentials, "--port-file", port_file]
    with log.open("wb") as output:
        process = subprocess.Popen(
            _line(arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(),
        )
    try:
        end = time.monotonic() + _START_S
        while not port_file.exists():
            if process.poll() is not None or time.monotonic() > end:
                said = log.read_text(errors="replace")[-500:]
                message = f"the throw-away curator did not start: {said}"
                raise PeerError(message)
            time.sleep(0.05)
        yield port_file.read_text().strip()
    finally:
        process.terminate()
        try:
            process.wait(_START_S)
        finally:
            process.kill()
            process.wait()


def _curator(*arguments: object) -> None:
    done = subprocess.run(
        _line(arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
        env=_environment(),
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip()[-500:]
        message = f"dppca-curator {arguments[0]} {arguments[1]} failed: {said}"
        raise PeerError(message)


def _party(role: str, name: str, output: Path) -> tuple[object, ...]:
    return ("--role", role, "--name", name, "--output", output)


def _line(arguments: Sequence[object]) -> list[str]:
    return [sys.executable, "-m", _CURATOR, *map(str, arguments)]


def _environment() -> dict[str, str]:
    """This process's, without settings of a real site, and one thread for arithmetic."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DPPCA_")}
    return kept | {"OPENBLAS_NUM_THREADS": "1"}


def _credentials(folder: Path) -> Credentials:
    return load_credentials(
        ca=folder / "ca.pem", certificate=folder / "certificate.pem", key=folder / "key.pem"
    )
