"""The operator's side of the conversation: calls to a running curator, answers as values.

Every call has a deadline and is repeated after failures that may pass; every call may safely be
repeated. Downloads go to a file beside their target, are compared with their digest, and only then
take its name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from common.conversation import Form, StudyState
from common.errors import NotReadyError, SettingError, StudyStateError, UploadError
from common.study import Study
from common.transport.channels import open_channel, with_retries
from common.transport.codec import form_to_wire, state_from_wire
from common.transport.tls import Credentials
from common.wire import federation_pb2 as pb
from common.wire import federation_pb2_grpc as rpc

CALL_TIMEOUT_S = 30.0
DOWNLOAD_TIMEOUT_S = 600.0

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of the list of studies; ``digest`` in hexadecimal."""

    name: str
    digest: str
    state: StudyState
    contributions: int
    owners: int
    created_s: int


@dataclass(frozen=True, slots=True)
class OwnerLine:
    """What has come of one owner; times in seconds since 1970 UTC, None before."""

    name: str
    contributed: bool
    rows: int
    bytes: int
    received_s: int | None
    synthetic_coded_rows: int
    synthetic_decoded_rows: int


@dataclass(frozen=True, slots=True)
class Details:
    """One study and its owners."""

    summary: Summary
    document: bytes
    owners: tuple[OwnerLine, ...]
    reason: str


class OperatorClient(AbstractContextManager["OperatorClient"]):
    """Calls with an operator's certificate; a context manager that closes the connection."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self._channel = open_channel(address, credentials)
        self._admin = rpc.AdminStub(self._channel)
        self._federation = rpc.FederationStub(self._channel)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    def create(self, study: Study) -> bool:
        """Begin a study; True where this very document was there already."""
        request = pb.CreateStudyRequest(document=study.canonical_bytes())
        return _call(lambda left: self._admin.CreateStudy(request, timeout=left)).already_stored

    def studies(self) -> tuple[Summary, ...]:
        """All studies, newest first."""
        request = pb.ListStudiesRequest()
        answer = _call(lambda left: self._federation.ListStudies(request, timeout=left))
        return tuple(_summary(study) for study in answer.studies)

    def show(self, name: str) -> Details:
        """One study with its owners."""
        request = pb.ShowStudyRequest(name=name)
        answer = _call(lambda left: self._admin.ShowStudy(request, timeout=left))
        return Details(
            summary=_summary(answer.summary),
            document=answer.document,
            owners=tuple(_owner(owner) for owner in answer.owners),
            reason=answer.reason,
        )

    def close(self, name: str) -> StudyState:
        """Take no more synthetic rows."""
        request = pb.CloseStudyRequest(name=name)
        return state_from_wire(
            _call(lambda left: self._admin.CloseStudy(request, timeout=left)).state
        )

    def abort(self, name: str, reason: str) -> StudyState:
        """End an open study."""
        request = pb.AbortStudyRequest(name=name, reason=reason)
        return state_from_wire(
            _call(lambda left: self._admin.AbortStudy(request, timeout=left)).state
        )

    def download_components(self, name: str, path: Path) -> int:
        """Write the result file of a study; returns its size in bytes.

        Raises
        ------
        NotReadyError, StudyStateError
            There is none yet, or will never be.
        UploadError
            What came is not what was announced.
        """
        digest = bytes.fromhex(self.show(name).summary.digest)
        question = pb.GetResultRequest(study_digest=digest)
        answer = _call(lambda left: self._federation.GetResult(question, timeout=left))
        state = state_from_wire(answer.state)
        if state is StudyState.OPEN:
            message = f"study {name} still waits for {', '.join(answer.missing)}"
            raise NotReadyError(message)
        if state is StudyState.ABORTED:
            message = f"study {name} was aborted: {answer.reason}"
            raise StudyStateError(message)
        request = pb.DownloadComponentsRequest(study_digest=digest)
        return _call(
            lambda left: _save(
                self._federation.DownloadComponents(request, timeout=left),
                path,
                sha256=answer.sha256,
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
        return _call(
            lambda left: _save(
                self._federation.DownloadSynthetic(request, timeout=left), path, sha256=None
            ),
            deadline_s=DOWNLOAD_TIMEOUT_S,
        )


def _call(call: Callable[[float], _T], *, deadline_s: float = CALL_TIMEOUT_S) -> _T:
    return with_retries(call, deadline_s=deadline_s)


def _save(chunks: Iterable[pb.Chunk], path: Path, *, sha256: bytes | None) -> int:
    draft = path.with_name(f".{path.name}.part")
    digest, size = hashlib.sha256(), 0
    try:
        with draft.open("wb") as file:
            for chunk in chunks:
                if chunk.offset != size:
                    message = f"a chunk begins at byte {chunk.offset}; {size} was expected"
                    raise UploadError(message)
                digest.update(chunk.content)
                size += file.write(chunk.content)
            file.flush()
            os.fsync(file.fileno())
        if sha256 is not None and digest.digest() != sha256:
            message = "the download does not have the digest announced: run the command again"
            raise UploadError(message)
        draft.replace(path)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise SettingError(message) from error
    finally:
        draft.unlink(missing_ok=True)
    return size


def _summary(message: pb.StudySummary) -> Summary:
    return Summary(
        name=message.name,
        digest=message.digest.hex(),
        state=state_from_wire(message.state),
        contributions=message.contributions,
        owners=message.owners,
        created_s=message.created_s,
    )


def _owner(message: pb.OwnerStatus) -> OwnerLine:
    return OwnerLine(
        name=message.name,
        contributed=message.contributed,
        rows=message.n_rows,
        bytes=message.bytes,
        received_s=message.received_s if message.contributed else None,
        synthetic_coded_rows=message.synthetic_coded_rows,
        synthetic_decoded_rows=message.synthetic_decoded_rows,
    )
