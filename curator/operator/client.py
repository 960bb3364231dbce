"""The operator's side of the conversation: calls to a running curator, answers as values.

Every call has a deadline and is repeated after failures that may pass; every call may safely be
repeated. Downloads go to a file beside their target, are compared with their digest, and only then
take its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from dppca.common.attestation.verify import verified_result
from dppca.common.errors import (
    ConflictError,
    LimitError,
    NotReadyError,
    SettingError,
    StudyStateError,
    UploadError,
)
from dppca.common.files import replacing
from dppca.common.messages import Form, StudyState
from dppca.common.names import one_line
from dppca.common.results import largest_result
from dppca.common.study import Study
from dppca.common.study_document import differences, study_from_canonical
from dppca.common.transport.codec import form_to_wire, state_from_wire
from dppca.common.transport.connection import CuratorConnection, guess_study
from dppca.common.transport.hosts import DialTarget
from dppca.common.transport.tls import Credentials, Role
from dppca.common.wire import federation_pb2 as pb
from dppca.common.wire import federation_pb2_grpc as rpc

DOWNLOAD_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class StudyLine:
    """One line of the list of studies; ``digest`` in hexadecimal."""

    name: str
    digest: str
    state: StudyState
    contributions: int
    owners: int
    created_s: int


@dataclass(frozen=True, slots=True)
class OwnerLine:
    """What one owner has sent; times in seconds since 1970 UTC, None before.

    ``opener`` and what follows are of ``trust: aggregate``.
    """

    name: str
    contributed: bool
    rows: int
    bytes: int
    received_s: int | None
    synthetic_coded_rows: int
    synthetic_decoded_rows: int
    opener: bool
    voted_s: int | None
    opened_s: int | None


@dataclass(frozen=True, slots=True)
class StudyDetails:
    """One study and its owners.

    Attributes
    ----------
    sealed_s, set_digest
        When the set was sealed, in seconds since 1970 UTC, and its digest in hexadecimal; None
        before, and with ``trust: owner``.
    missing_openers
        Whose vote or opening a sealed study waits for.
    """

    summary: StudyLine
    document: bytes
    owners: tuple[OwnerLine, ...]
    reason: str
    sealed_s: int | None
    set_digest: str | None
    missing_openers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SeenContribution:
    """A contribution and the ledger's length and head (hexadecimal) that came with it."""

    study: str
    received_s: int
    ledger_length: int
    ledger_head: str


@dataclass(frozen=True, slots=True)
class SettlementLine:
    """A chain that was set aside, and what took its place (0 and empty for nothing)."""

    settled_s: int
    by: str
    reason: str
    seen_length: int
    seen_head: str
    ledger_length: int
    ledger_head: str


@dataclass(frozen=True, slots=True)
class SeenOwner:
    """What the curator has seen of an owner; length 0 where no chain counts as seen."""

    ledger_length: int
    ledger_head: str
    contributions: tuple[SeenContribution, ...]
    settlements: tuple[SettlementLine, ...]


@dataclass(frozen=True, slots=True)
class RefusalLine:
    """Calls of one party that one rule has refused.

    Attributes
    ----------
    time_s
        When the last of them was, in seconds since 1970 UTC.
    party
        ``ROLE:NAME``, such as ``owner:hospital``; empty where no good certificate came.
    study
        Empty where the call named none.
    """

    time_s: int
    times: int
    party: str
    study: str
    method: str
    error: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Refusals:
    """What a curator has refused since it was started, newest first; some it may have dropped."""

    since_s: int
    dropped: int
    lines: tuple[RefusalLine, ...]


class OperatorClient(CuratorConnection):
    """Calls with an operator's certificate; a context manager that closes the connection."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        super().__init__(DialTarget(address, credentials.ca, Role.OPERATOR), credentials)
        self._admin = rpc.AdminStub(self._channel)
        self._federation = rpc.FederationStub(self._channel)

    def create(self, study: Study) -> bool:
        """Begin a study; True if the curator had this very document already.

        Raises
        ------
        ConflictError
            Another document has the name; says in which fields it differs.
        """
        request = pb.CreateStudyRequest(document=study.canonical_bytes())
        try:
            return self._call(
                lambda left: self._admin.CreateStudy(request, timeout=left)
            ).already_stored
        except ConflictError as error:
            there = study_from_canonical(self.show(study.name).document, stored=True)
            raise ConflictError(
                f"there is another study called {study.name}; it differs in: "
                f"{differences(study, there)}. Nothing was changed: choose another name, or look "
                f"at `dppca-curator study show {study.name}`"
            ) from error

    def studies(self, *, deadline_s: float | None = None) -> tuple[StudyLine, ...]:
        """All studies, newest first."""
        request = pb.ListStudiesRequest()
        answer = self._call(
            lambda left: self._federation.ListStudies(request, timeout=left),
            deadline_s=deadline_s,
        )
        return tuple(_study_line(study) for study in answer.studies)

    def show(self, name: str) -> StudyDetails:
        """One study with its owners."""
        request = pb.ShowStudyRequest(name=name)
        with guess_study(name, self.studies):
            answer = self._call(lambda left: self._admin.ShowStudy(request, timeout=left))
        return StudyDetails(
            summary=_study_line(answer.summary),
            document=answer.document,
            owners=tuple(_owner_line(owner) for owner in answer.owners),
            reason=one_line(answer.reason),
            sealed_s=answer.sealed_s or None,
            set_digest=answer.set_digest.hex() or None,
            missing_openers=tuple(map(one_line, answer.missing_openers)),
        )

    def refusals(self, study: str = "") -> Refusals:
        """What was refused lately, of one study or of all; `PeerError` of an earlier version."""
        request = pb.ListRefusalsRequest(study=study)
        answer = self._call(lambda left: self._admin.ListRefusals(request, timeout=left))
        return Refusals(
            answer.since_s, answer.dropped, tuple(_refusal_line(each) for each in answer.refusals)
        )

    def close(self, name: str) -> StudyState:
        """Take no more synthetic rows."""
        request = pb.CloseStudyRequest(name=name)
        with guess_study(name, self.studies):
            answer = self._call(lambda left: self._admin.CloseStudy(request, timeout=left))
        return state_from_wire(answer.state)

    def abort(self, name: str, reason: str) -> StudyState:
        """End a study that is open or sealed."""
        request = pb.AbortStudyRequest(name=name, reason=reason)
        with guess_study(name, self.studies):
            answer = self._call(lambda left: self._admin.AbortStudy(request, timeout=left))
        return state_from_wire(answer.state)

    def show_owner(self, name: str) -> SeenOwner:
        """What has been seen of an owner's ledger."""
        request = pb.ShowOwnerRequest(name=name)
        pages = self._call(lambda left: list(self._admin.ShowOwner(request, timeout=left)))
        first = next(iter(pages), pb.ShowOwnerResponse())
        return SeenOwner(
            ledger_length=first.ledger_length,
            ledger_head=first.ledger_head.hex(),
            contributions=tuple(
                SeenContribution(c.study, c.received_s, c.ledger_length, c.ledger_head.hex())
                for page in pages
                for c in page.contributions
            ),
            settlements=tuple(
                _settlement_line(each) for page in pages for each in page.settlements
            ),
        )

    def settle_ledger(self, name: str, reason: str) -> SettlementLine:
        """Set aside what was seen of an owner's ledger; again, return the last settlement."""
        request = pb.SettleLedgerRequest(name=name, reason=reason)
        answer = self._call(lambda left: self._admin.SettleLedger(request, timeout=left))
        return _settlement_line(answer.settlement)

    def download_components(self, name: str, path: Path) -> int:
        """Write the result file of a study once it is verified; returns its size in bytes.

        Raises
        ------
        NotReadyError, StudyStateError
            There is none yet, or will never be.
        UploadError
            What came is not what was announced.
        ArtefactError, ReceiptError, SignatureError, AlteredError
            It does not verify (`dppca.common.attestation.verify`).
        """
        study = study_from_canonical(self.show(name).document)
        digest = bytes.fromhex(study.digest)
        question = pb.GetResultRequest(study_digest=digest)
        answer = self._call(lambda left: self._federation.GetResult(question, timeout=left))
        state = state_from_wire(answer.state)
        if state is StudyState.OPEN:
            raise NotReadyError(
                f"study {name} still waits for {', '.join(map(one_line, answer.missing))}"
            )
        if state is StudyState.SEALED:
            raise NotReadyError(
                f"study {name} waits to be opened by "
                f"{', '.join(map(one_line, answer.missing_openers))}"
            )
        if state is StudyState.ABORTED:
            raise StudyStateError(f"study {name} was aborted: {one_line(answer.reason)}")
        request = pb.DownloadComponentsRequest(study_digest=digest)
        return self._call(
            lambda left: _save(
                self._federation.DownloadComponents(request, timeout=left),
                path,
                sha256=answer.sha256,
                cap=largest_result(study),
                check=lambda draft: verified_result(draft.read_bytes(), study, ca=self._ca),
            ),
            deadline_s=DOWNLOAD_TIMEOUT_S,
        )

    def download_synthetic(self, name: str, form: Form, path: Path) -> int:
        """Write all published rows of one form as an Arrow IPC stream; returns its size in bytes.

        Raises
        ------
        NotReadyError
            Nothing has been published.
        """
        digest = bytes.fromhex(self.show(name).summary.digest)
        request = pb.DownloadSyntheticRequest(study_digest=digest, form=form_to_wire(form))
        return self._call(
            lambda left: _save(
                self._federation.DownloadSynthetic(request, timeout=left), path, sha256=None
            ),
            deadline_s=DOWNLOAD_TIMEOUT_S,
        )


def _save(
    chunks: Iterable[pb.Chunk],
    path: Path,
    *,
    sha256: bytes | None,
    cap: int | None = None,
    check: Callable[[Path], object] = lambda _: None,
) -> int:
    """Write chunks to a file that gets its name once ``check`` has not raised."""
    digest, size = hashlib.sha256(), 0
    try:
        with replacing(path, durable=True) as draft:
            with draft.open("wb") as file:
                for chunk in chunks:
                    if chunk.offset != size:
                        raise UploadError(
                            f"a chunk begins at byte {chunk.offset}; {size} was expected"
                        )
                    if cap is not None and size + len(chunk.content) > cap:
                        raise LimitError(
                            f"the download has more than the {cap} bytes that it may have"
                        )
                    digest.update(chunk.content)
                    size += file.write(chunk.content)
            if sha256 is not None and digest.digest() != sha256:
                raise UploadError(
                    "the download does not have the digest announced: run the command again"
                )
            check(draft)
    except OSError as error:
        raise SettingError(f"cannot write {path}: {error.strerror}") from error
    return size


def _study_line(message: pb.StudySummary) -> StudyLine:
    return StudyLine(
        name=one_line(message.name),
        digest=message.digest.hex(),
        state=state_from_wire(message.state),
        contributions=message.contributions,
        owners=message.owners,
        created_s=message.created_s,
    )


def _owner_line(message: pb.OwnerStatus) -> OwnerLine:
    return OwnerLine(
        name=one_line(message.name),
        contributed=message.contributed,
        rows=message.n_rows,
        bytes=message.bytes,
        received_s=message.received_s if message.contributed else None,
        synthetic_coded_rows=message.synthetic_coded_rows,
        synthetic_decoded_rows=message.synthetic_decoded_rows,
        opener=message.opener,
        voted_s=message.voted_s or None,
        opened_s=message.opened_s or None,
    )


def _settlement_line(message: pb.Settlement) -> SettlementLine:
    return SettlementLine(
        settled_s=message.settled_s,
        by=message.by,
        reason=message.reason,
        seen_length=message.seen_length,
        seen_head=message.seen_head.hex(),
        ledger_length=message.ledger_length,
        ledger_head=message.ledger_head.hex(),
    )


def _refusal_line(message: pb.Refusal) -> RefusalLine:
    return RefusalLine(
        time_s=message.time_s,
        times=message.times,
        party=one_line(message.party),
        study=one_line(message.study),
        method=one_line(message.method),
        error=one_line(message.error),
        sentence=one_line(message.sentence),
    )
