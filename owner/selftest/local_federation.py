"""Temporary federation on this machine: a real authority, curator and operator, and one site.

The curator is the installed program in a process of its own, reached over loopback with mutual TLS;
the site is a folder for the owner's own commands. This module makes the operator's calls, which an
attacker could make too.
"""

import io
import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dppca.common.kernel.attestation.envelopes import SignedFile
from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.errors import UnreachableError
from dppca.common.kernel.identity.tls import load_credentials
from dppca.common.kernel.study import Study
from dppca.common.transport.channels import open_channel
from dppca.common.transport.downloads import receive_result
from dppca.common.transport.testbed import OWNER, CommandAuthority, LocalFederation, Processes
from dppca.common.wire import federation_pb2 as pb
from dppca.common.wire import federation_pb2_grpc as rpc

VICTIM = "victim"
_COMMAND_S, _CALL_S, _RESULT_S = 120.0, 30.0, 60  # seconds, for hangs alone


@dataclass(frozen=True, slots=True)
class TemporaryFederation:
    """Site of the owner `VICTIM`, with an operator's connection to its curator.

    ``site`` is the folder of the owner `VICTIM`.
    """

    site: Path
    ca: bytes
    federation: Any
    admin: Any
    processes: Processes

    def create(self, study: Study) -> None:
        """Begin a study."""
        request = pb.CreateStudyRequest(document=study.canonical_bytes())
        self.admin.CreateStudy(request, timeout=_CALL_S)

    def components(self, study: Study) -> SignedFile:
        """Return the result file and its envelope, as soon as they are available."""
        digest = bytes.fromhex(study.digest)
        question = pb.GetResultRequest(study_digest=digest, wait_ms=_RESULT_S * 1000)
        answer = self.federation.GetResult(question, timeout=_RESULT_S + _CALL_S)
        if answer.state != pb.STUDY_STATE_DECOMPOSED:
            raise UnreachableError(f"the temporary curator has no result of study {study.name}")
        request = pb.DownloadComponentsRequest(study_digest=digest)
        return receive_result(
            self.federation.DownloadComponents(request, timeout=_RESULT_S),
            study,
            total_bytes=answer.total_bytes,
            sha256=answer.sha256,
        )

    def owner(self, *arguments: str) -> dict[str, Any]:
        """Run one of the owner's commands in this process; return its JSON document.

        Raise the `DppcaError` that the command raised.
        """
        from dppca.owner.cli import cli

        out = io.StringIO()
        line = ["--site", str(self.site), *arguments, "--json"]
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            cli.main(args=line, standalone_mode=False)
        document: dict[str, Any] = json.loads(out.getvalue())
        return document

    def start_owner(self, *arguments: str, fault: str | None = None) -> subprocess.Popen[bytes]:
        """Start one of the owner's commands in a process of its own."""
        program = ("-P", "-m", OWNER, "--site", self.site, *arguments, "--json")
        return self.processes.start(program, stdout=subprocess.PIPE, fault=fault)

    def policy(self, budgets: Mapping[str, str]) -> None:
        """Give the site populations with lifetime epsilons; each has its rows in ``NAME.csv``."""
        people = [
            f'  {name}: {{who: Invented people, epsilon: "{epsilon}", delta: "0"}}'
            for name, epsilon in budgets.items()
        ]
        sets = [f"  {name}: {{population: {name}, path: {name}.csv}}" for name in budgets]
        (self.site / "policy.yaml").write_text(
            "\n".join(["populations:", *people, "data_sets:", *sets, ""]), encoding="utf-8"
        )


def run_owner(
    federation: TemporaryFederation, *arguments: str, fault: str | None = None
) -> tuple[int, Any]:
    """Run a command in a process of its own; return exit code and JSON document, or None."""
    process = federation.start_owner(*arguments, fault=fault)
    try:
        printed, _ = process.communicate(timeout=_COMMAND_S)
    finally:
        federation.processes.end(process)
    return process.returncode, json.loads(printed) if printed else None


@contextmanager
def temporary_federation(folder: Path) -> Iterator[TemporaryFederation]:
    """Make a federation in an empty folder, and end it after the block.

    Raise `DppcaError` if a command failed; the message has its output.
    """
    with Processes() as processes:
        authority = CommandAuthority(processes, folder / "authority")
        federation = LocalFederation(processes, folder, authority)
        federation.start()
        federation.join(VICTIM)
        site = CredentialFolder(federation.site(VICTIM))
        credentials = load_credentials(CredentialFolder(federation.operator))
        with open_channel(federation.address, credentials) as channel:
            yield TemporaryFederation(
                site.folder,
                site.ca.read_bytes(),
                rpc.FederationStub(channel),
                rpc.AdminStub(channel),
                processes,
            )
