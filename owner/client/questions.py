"""Read-only calls of an owner to its curator, with answers as values.

Every call has a deadline, and is repeated only after failures that may pass
(`dppca.common.transport.channels.with_retries`). Nothing that arrives is trusted: a study's
document must have the requested name.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grpc_health.v1 import health_pb2, health_pb2_grpc

from dppca.common.attestation.releases import unchecked_receipt
from dppca.common.attestation.signatures import make_signer
from dppca.common.documents.messages import StudyState
from dppca.common.errors import NotReadyError, StudyStateError, UnreachableError, UploadError
from dppca.common.privacy.release import MomentReceipt
from dppca.common.shell.checkpoints import checkpoint
from dppca.common.study import Study, study_from_canonical
from dppca.common.transport.channels import CONNECT_TIMEOUT_S
from dppca.common.transport.codec import read_message, state_from_wire
from dppca.common.transport.connection import CALL_TIMEOUT_S, CuratorConnection, guess_study
from dppca.common.transport.hosts import DialTarget
from dppca.common.transport.proxies import HttpProxy
from dppca.common.transport.tls import Credentials, Role, parse_certificate, parse_identity
from dppca.common.wire import federation_pb2 as pb
from dppca.common.wire import federation_pb2_grpc as rpc
from dppca.owner.ledger.mark import CuratorView, ListedContribution

POLL_S = 10.0


@dataclass(frozen=True, slots=True)
class StudySummary:
    """One study that names this owner; ``digest`` in hexadecimal."""

    name: str
    digest: str
    state: StudyState
    contributed: bool
    contributions: int
    owners: int


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """Progress of a study.

    ``contributed`` and ``missing`` are names of owners; ``total_bytes`` and ``sha256`` size and
    digest of the result file, 0 and empty before there is one; ``reason`` says why a study ended
    without a result; ``missing_openers`` are those whose vote or opening is still missing, while
    sealed.
    """

    state: StudyState
    contributed: tuple[str, ...]
    missing: tuple[str, ...]
    total_bytes: int
    sha256: bytes
    reason: str
    missing_openers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeldContribution:
    """A contribution of this owner as the curator holds it; not yet verified.

    ``envelope`` holds the receipt; ``acknowledgement`` is the curator's signed one.
    """

    study: str
    envelope: bytes
    received_s: int
    acknowledgement: bytes

    @property
    def receipt(self) -> MomentReceipt:
        """Unverified receipt in the envelope; `ReceiptError` or `SignatureError` if none."""
        return unchecked_receipt(self.envelope)

    @property
    def release_id(self) -> bytes:
        """Identifier of the release in its receipt; 16 bytes."""
        return bytes.fromhex(self.receipt.release_id)


class CuratorQueries(CuratorConnection):
    """Calls with an owner's certificate; a context manager that closes the connection."""

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        *,
        server_name: str | None = None,
        proxy: HttpProxy | None = None,
    ) -> None:
        dialled = DialTarget(address, credentials.ca, Role.OWNER, server_name, proxy)
        super().__init__(dialled, credentials)
        self._signer = make_signer(credentials)
        self._name = parse_identity(parse_certificate(credentials.certificate)).name
        self._federation = rpc.FederationStub(self._channel)
        self._health: Any = health_pb2_grpc.HealthStub(self._channel)  # its stubs lack Check

    def require_serving(self) -> None:
        """Raise `UnreachableError` (or `IdentityError`) unless the curator takes calls."""
        request = health_pb2.HealthCheckRequest()
        answer = self._call(
            lambda left: self._health.Check(request, timeout=left),
            deadline_s=CONNECT_TIMEOUT_S,
            attempts=2,
        )
        if answer.status != health_pb2.HealthCheckResponse.SERVING:
            raise UnreachableError(
                "the curator answers, but does not serve calls now: try again soon"
            )

    def studies(self, *, deadline_s: float | None = None) -> tuple[StudySummary, ...]:
        """Studies that name this owner, newest first."""
        answer = self._ask(
            self._federation.ListStudies, pb.ListStudiesRequest(), deadline_s=deadline_s
        )
        return tuple(read_message(StudySummary, study) for study in answer.studies)

    def held(self) -> CuratorView:
        """The curator's record of this owner's contributions and of its ledger's chain."""
        answer = self._ask(self._federation.ListStudies, pb.ListStudiesRequest())
        return CuratorView(
            tuple(
                ListedContribution(each.name, each.digest.hex(), each.release_id)
                for each in answer.studies
                if each.contributed
            ),
            answer.ledger_length,
            answer.ledger_head,
        )

    def contributions(self) -> tuple[HeldContribution, ...]:
        """Contributions of this owner with their receipts, as the curator holds them."""
        request = pb.ListContributionsRequest()

        def fetch(left: float) -> tuple[HeldContribution, ...]:
            answers = self._federation.ListContributions(request, timeout=left)
            return tuple(read_message(HeldContribution, each) for each in answers)

        return self._call(fetch)

    def study(self, name: str) -> tuple[Study, StudyState]:
        """Return a study's document and state.

        Raise `UnknownStudyError` if there is no such study or it does not name this owner,
        `StudyError` or `UploadError` if the answer is no study or another one.
        """
        with guess_study(name, self.studies):
            answer = self._ask(self._federation.GetStudy, pb.GetStudyRequest(name=name))
        study = study_from_canonical(answer.document)
        if study.name != name:
            raise UploadError(f"the curator sent study {study.name} when it was asked for {name}")
        return study, state_from_wire(answer.state)

    def progress(self, study_digest: str, *, wait_s: float = 0.0) -> StudyProgress:
        """Progress of a study; the curator may delay the answer by up to ``wait_s``."""
        request = pb.GetResultRequest(
            study_digest=bytes.fromhex(study_digest), wait_ms=int(wait_s * 1000)
        )
        answer = self._ask(self._federation.GetResult, request, deadline_s=CALL_TIMEOUT_S + wait_s)
        return read_message(StudyProgress, answer)

    def wait(
        self,
        study: Study,
        *,
        wait_s: float,
        clock: Callable[[], float] = time.monotonic,
        polled: Callable[[], None] = lambda: None,
    ) -> StudyProgress:
        """Wait until there is a result, by polls of bounded length.

        Wait for ``wait_s`` in all; 0 asks once. ``polled`` is called after each poll that found the
        study still open or sealed, except the last. Raise `NotReadyError`, with the missing owners
        or openers, if it was still so at the end, and `StudyStateError` if the study was aborted.
        """
        end = clock() + wait_s
        while True:
            left = max(0.0, end - clock())
            checkpoint("wait")
            progress = self.progress(study.digest, wait_s=min(left, POLL_S))
            if progress.state is StudyState.ABORTED:
                raise StudyStateError(f"study {study.name} was aborted: {progress.reason}")
            if progress.state not in (StudyState.OPEN, StudyState.SEALED):
                return progress
            if clock() >= end:
                awaited = ", ".join(progress.missing) or "its components"
                if progress.state is StudyState.SEALED:
                    awaited = f"its openers ({', '.join(progress.missing_openers)})"
                raise NotReadyError(
                    f"study {study.name} still waits for {awaited}: ask again later, or with a "
                    "longer --wait"
                )
            polled()
