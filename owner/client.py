"""The owner's side of the conversation: calls to a curator, answers as values.

Nothing listens at a site: owners dial out. Every call has a deadline, and is repeated only after
failures that may pass (`common.transport.channels.with_retries`); every call may safely be
repeated. Nothing that arrives is believed: a study's document must have the digest that was asked
for, a download the size and digest that were announced before it began.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from grpc_health.v1 import health_pb2

from common.checkpoints import checkpoint
from common.conversation import Form, StudyState
from common.errors import (
    NotReadyError,
    StudyStateError,
    UnreachableError,
    UploadError,
)
from common.proof.signatures import Purpose, signer_of
from common.study import Study, study_from_canonical
from common.transport.channels import CONNECT_TIMEOUT_S, open_channel, with_retries
from common.transport.codec import (
    Reassembly,
    chunks,
    contribution_parts,
    form_to_wire,
    state_from_wire,
)
from common.transport.tls import Credentials
from common.wire import federation_pb2 as pb
from common.wire import federation_pb2_grpc as rpc
from owner.ledger.chain import History
from owner.ledger.database import StoredRelease

CALL_TIMEOUT_S = 30.0
TRANSFER_TIMEOUT_S = 600.0
POLL_S = 10.0
MAX_RESULT_BYTES = 2 << 30

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Summary:
    """One study that names this owner; ``digest`` in hexadecimal."""

    name: str
    digest: str
    state: StudyState
    contributed: bool
    contributions: int
    owners: int


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What the curator says of an upload; ``already_stored`` where it had these very bytes."""

    already_stored: bool
    state: StudyState


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """How far a study has come.

    Attributes
    ----------
    contributed, missing
        Names of owners.
    total_bytes, sha256
        Of the result file; 0 and empty before there is one.
    reason
        Why a study ended without a result.
    """

    state: StudyState
    contributed: tuple[str, ...]
    missing: tuple[str, ...]
    total_bytes: int
    sha256: bytes
    reason: str


class CuratorClient(AbstractContextManager["CuratorClient"]):
    """Calls with an owner's certificate; a context manager that closes the connection."""

    def __init__(
        self, address: str, credentials: Credentials, *, server_name: str | None = None
    ) -> None:
        self._channel = open_channel(address, credentials, server_name=server_name)
        self._signer = signer_of(credentials)
        self._federation = rpc.FederationStub(self._channel)
        self._check_health = self._channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    def require_serving(self) -> None:
        """Raise `UnreachableError` (or `IdentityError`) unless the curator takes calls."""
        request = health_pb2.HealthCheckRequest()
        answer = with_retries(
            lambda left: self._check_health(request, timeout=left),
            deadline_s=CONNECT_TIMEOUT_S,
            attempts=2,
        )
        if answer.status != health_pb2.HealthCheckResponse.SERVING:
            message = "the curator answers, but does not serve calls now: try again soon"
            raise UnreachableError(message)

    def studies(self) -> tuple[Summary, ...]:
        """The studies that name this owner, newest first."""
        request = pb.ListStudiesRequest()
        answer = _call(lambda left: self._federation.ListStudies(request, timeout=left))
        return tuple(
            Summary(
                name=study.name,
                digest=study.digest.hex(),
                state=state_from_wire(study.state),
                contributed=study.contributed,
                contributions=study.contributions,
                owners=study.owners,
            )
            for study in answer.studies
        )

    def study(self, name: str) -> tuple[Study, StudyState]:
        """A study's document and state.

        Raises
        ------
        UnknownStudyError
            There is no such study, or it does not name this owner.
        StudyError, UploadError
            What came is no study, or not the one that was asked for.
        """
        request = pb.GetStudyRequest(name=name)
        answer = _call(lambda left: self._federation.GetStudy(request, timeout=left))
        study = study_from_canonical(answer.document)
        if study.name != name:
            message = f"the curator sent study {study.name} when it was asked for {name}"
            raise UploadError(message)
        return study, state_from_wire(answer.state)

    def contribute(
        self,
        stored: StoredRelease,
        history: History,
        *,
        sent: Callable[[int], None] | None = None,
    ) -> Acknowledgement:
        """Upload stored bytes, signed, with the ledger's length and head; retries send them whole.

        Parameters
        ----------
        sent
            Told the size of every chunk that is sent.
        """
        reservation = stored.reservation
        signature = self._signer.sign(Purpose.RELEASE, stored.receipt)

        def upload(left: float) -> pb.ContributeResponse:
            parts = contribution_parts(
                payload=stored.payload,
                receipt=stored.receipt,
                signature=signature,
                study_digest=bytes.fromhex(reservation.wanted.study_digest),
                release_id=reservation.release_id,
                n_rows=stored.commitment.n_rows,
                ledger_length=history.length,
                ledger_head=history.head,
                sent=sent,
            )
            return self._federation.Contribute(parts, timeout=left)

        answer = _call(upload, deadline_s=TRANSFER_TIMEOUT_S)
        return Acknowledgement(answer.already_stored, state_from_wire(answer.state))

    def progress(self, study_digest: str, *, wait_s: float = 0.0) -> StudyProgress:
        """Where a study stands; the curator may hold the answer back for ``wait_s``."""
        request = pb.GetResultRequest(
            study_digest=bytes.fromhex(study_digest), wait_ms=int(wait_s * 1000)
        )
        answer = _call(
            lambda left: self._federation.GetResult(request, timeout=left),
            deadline_s=CALL_TIMEOUT_S + wait_s,
        )
        return StudyProgress(
            state=state_from_wire(answer.state),
            contributed=tuple(answer.contributed),
            missing=tuple(answer.missing),
            total_bytes=answer.total_bytes,
            sha256=answer.sha256,
            reason=answer.reason,
        )

    def wait(
        self,
        study: Study,
        *,
        wait_s: float,
        clock: Callable[[], float] = time.monotonic,
        polled: Callable[[], None] = lambda: None,
    ) -> StudyProgress:
        """Wait until there is a result, by polls of bounded length.

        Parameters
        ----------
        wait_s
            In all; 0 asks once.
        polled
            Called after each poll that found the study still open.

        Raises
        ------
        NotReadyError
            The study was still open at the end; names who is missing.
        StudyStateError
            It was aborted.
        """
        end = clock() + wait_s
        while True:
            left = max(0.0, end - clock())
            checkpoint("wait")
            found = self.progress(study.digest, wait_s=min(left, POLL_S))
            if found.state is StudyState.ABORTED:
                message = f"study {study.name} was aborted: {found.reason}"
                raise StudyStateError(message)
            if found.state is not StudyState.OPEN:
                return found
            if clock() >= end:
                awaited = ", ".join(found.missing) or "its components"
                message = (
                    f"study {study.name} still waits for {awaited}: ask again later, or with a "
                    "longer --wait"
                )
                raise NotReadyError(message)
            polled()

    def download(
        self,
        study_digest: str,
        announced: StudyProgress,
        *,
        received: Callable[[int], None] | None = None,
    ) -> bytes:
        """The result file, of the size and digest that were announced; `UploadError` otherwise."""
        request = pb.DownloadComponentsRequest(study_digest=bytes.fromhex(study_digest))

        def fetch(left: float) -> bytes:
            whole = Reassembly(
                total_bytes=announced.total_bytes, sha256=announced.sha256, cap=MAX_RESULT_BYTES
            )
            pieces = []
            checkpoint("download")
            for chunk in self._federation.DownloadComponents(request, timeout=left):
                pieces.append(whole.add(chunk))
                if received is not None:
                    received(len(pieces[-1]))
            whole.finish()
            return b"".join(pieces)

        return _call(fetch, deadline_s=TRANSFER_TIMEOUT_S)

    def publish(
        self,
        study_digest: str,
        form: Form,
        content: bytes,
        *,
        n_rows: int,
        components_sha256: bytes,
    ) -> bool:
        """Upload synthetic rows; True where the curator had these very bytes.

        Parameters
        ----------
        content
            An Arrow IPC stream.
        components_sha256
            Of the result file that the rows were drawn from.
        """
        header = pb.SyntheticHeader(
            study_digest=bytes.fromhex(study_digest),
            form=form_to_wire(form),
            n_rows=n_rows,
            total_bytes=len(content),
            sha256=hashlib.sha256(content).digest(),
            components_sha256=components_sha256,
        )

        def parts() -> Iterator[pb.PublishSyntheticRequest]:
            yield pb.PublishSyntheticRequest(header=header)
            for chunk in chunks(content):
                yield pb.PublishSyntheticRequest(chunk=chunk)

        answer = _call(
            lambda left: self._federation.PublishSynthetic(parts(), timeout=left),
            deadline_s=TRANSFER_TIMEOUT_S,
        )
        return answer.already_stored


def _call(call: Callable[[float], _T], *, deadline_s: float = CALL_TIMEOUT_S) -> _T:
    return with_retries(call, deadline_s=deadline_s)
