"""The owner's side of the conversation: questions (`queries`), and what is sent or downloaded.

Nothing listens at a site: owners dial out. Every call has a deadline, and is repeated only after
failures that may pass (`dppca.common.transport.channels.with_retries`); every call may safely be
repeated. Nothing that arrives is believed: a study's document must have the digest that was asked
for, a download the size and digest that were announced before it began.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BufferedRandom
from typing import Self

from dppca.common.aggregation.sum_messages import Opening, SealedSet, Vote, sealed_set_limit
from dppca.common.aggregation.terms import Terms
from dppca.common.attestation.acknowledgements import Taken, require_acknowledged
from dppca.common.attestation.envelopes import SignedFile
from dppca.common.attestation.releases import sign_release
from dppca.common.documents.messages import Form, StudyState, accounts_for
from dppca.common.errors import LimitError
from dppca.common.shell.checkpoints import checkpoint
from dppca.common.study import Study
from dppca.common.transport.channels import CHUNK_BYTES
from dppca.common.transport.codec import (
    ChunkVerifier,
    chunks,
    contribution_parts,
    form_to_wire,
    state_from_wire,
)
from dppca.common.verification.downloads import receive_result
from dppca.common.wire import federation_pb2 as pb
from dppca.owner.client.questions import CuratorQueries, StudyProgress
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.database import StoredRelease

TRANSFER_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What the curator says of an upload.

    Attributes
    ----------
    already_stored
        It had these very bytes.
    signed
        Its signed acknowledgement, checked.
    """

    already_stored: bool
    state: StudyState
    signed: bytes


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """What the curator says of an opener's vote or opening.

    Attributes
    ----------
    votes
        That have come, for whichever set; well formed, and not yet believed.
    wanted
        Streams of this opener that no opening has, ascending; none while votes are missing.
    already_stored
        It had this very opening.
    """

    state: StudyState
    votes: tuple[Vote, ...] = ()
    wanted: tuple[int, ...] = ()
    already_stored: bool = False


class CuratorClient(CuratorQueries):
    """All calls of an owner; a context manager that closes the connection."""

    def __enter__(self) -> Self:
        return self

    def continue_ledger(self, history: History, releases: Iterable[bytes]) -> None:
        """Have the curator go on with this ledger's chain, in place of the one it has seen.

        Parameters
        ----------
        releases
            Identifiers of all releases that the curator holds of this owner, each of which the
            ledger knows.

        Raises
        ------
        ChainError
            They are not all.
        """
        request = pb.ContinueLedgerRequest(
            ledger_length=history.length,
            ledger_head=history.head,
            accounts_for=accounts_for(releases),
        )
        self._call(lambda left: self._federation.ContinueLedger(request, timeout=left))

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

        Raises
        ------
        ReceiptError, SignatureError
            The acknowledgement that came does not hold.
        """
        reservation, committed = stored.reservation, stored.commitment
        envelope = sign_release(self._name, stored.receipt, self._signer)

        def upload(left: float) -> pb.ContributeResponse:
            parts = contribution_parts(
                payload=stored.payload,
                envelope=envelope,
                ledger_length=history.length,
                ledger_head=history.head,
                sent=sent,
            )
            return self._federation.Contribute(parts, timeout=left)

        answer = self._call(upload, deadline_s=TRANSFER_TIMEOUT_S)
        taken = Taken(
            study_digest=reservation.request.request_digest,
            owner=self._name,
            release_id=reservation.release_id.hex(),
            n_rows=committed.n_rows,
            payload_sha256=committed.payload_sha256,
        )
        require_acknowledged(answer.acknowledgement, taken, ca=self._ca)
        return Acknowledgement(
            answer.already_stored, state_from_wire(answer.state), answer.acknowledgement
        )

    def download_sealed(self, study: Study, terms: Terms) -> SealedSet:
        """The set of uploads that this site, an opener, is asked to open; nothing is believed yet.

        Raises
        ------
        NotReadyError
            The study still takes contributions.
        PermissionDeniedError
            The study does not name this site as an opener.
        LimitError
            More comes than a set of this study can have.
        UploadError
            It is no set under these terms.
        """
        request = pb.DownloadSealedRequest(study_digest=bytes.fromhex(study.digest))
        limit = sealed_set_limit(terms)

        def fetch(left: float) -> bytes:
            whole = ChunkVerifier(total_bytes=limit, sha256=b"", cap=limit)
            chunks = self._federation.DownloadSealed(request, timeout=left)
            return b"".join(whole.take(chunk) for chunk in chunks)

        return SealedSet.from_bytes(self._call(fetch, deadline_s=TRANSFER_TIMEOUT_S), terms)

    def open(
        self,
        study: Study,
        terms: Terms,
        *,
        vote: Vote | None = None,
        opening: Opening | None = None,
    ) -> OpenAnswer:
        """Bring a vote, an opening, or neither, and hear which streams are wanted.

        Raises
        ------
        NotReadyError, StudyStateError
            The study is not sealed.
        PermissionDeniedError
            The study does not name this site as an opener.
        ConflictError
            Another set, vote or opening is there than this one.
        """
        content = b"" if opening is None else opening.to_bytes()
        header = pb.OpenHeader(
            study_digest=bytes.fromhex(study.digest),
            vote=b"" if vote is None else vote.to_bytes(),
            total_bytes=len(content),
            sha256=hashlib.sha256(content).digest() if content else b"",
        )

        def parts() -> Iterator[pb.OpenRequest]:
            yield pb.OpenRequest(header=header)
            if content:
                checkpoint("send")
            for offset in range(0, len(content), CHUNK_BYTES):
                piece = content[offset : offset + CHUNK_BYTES]
                yield pb.OpenRequest(chunk=pb.Chunk(offset=offset, content=piece))

        answer = self._call(
            lambda left: self._federation.Open(parts(), timeout=left),
            deadline_s=TRANSFER_TIMEOUT_S,
        )
        if len(answer.votes) > len(terms.openers):
            raise LimitError(f"{len(answer.votes)} votes of {len(terms.openers)} openers came")
        return OpenAnswer(
            state_from_wire(answer.state),
            tuple(Vote.from_bytes(each, terms) for each in answer.votes),
            tuple(answer.wanted),
            answer.already_stored,
        )

    def download(
        self,
        study: Study,
        announced: StudyProgress,
        *,
        received: Callable[[int], None] | None = None,
    ) -> SignedFile:
        """The result file and its envelope; raises as `receive_result`."""
        request = pb.DownloadComponentsRequest(study_digest=bytes.fromhex(study.digest))

        def fetch(left: float) -> SignedFile:
            checkpoint("download")
            return receive_result(
                self._federation.DownloadComponents(request, timeout=left),
                study,
                total_bytes=announced.total_bytes,
                sha256=announced.sha256,
                received=received,
            )

        return self._call(fetch, deadline_s=TRANSFER_TIMEOUT_S)

    def publish(
        self,
        study_digest: str,
        form: Form,
        stream: BufferedRandom,
        *,
        n_rows: int,
        components_sha256: bytes,
    ) -> bool:
        """Upload synthetic rows; True where the curator had these very bytes.

        Parameters
        ----------
        stream
            A file that holds an Arrow IPC stream.
        components_sha256
            Digest of the result file that the rows were drawn from.
        """
        stream.seek(0)
        sha256 = hashlib.file_digest(stream, "sha256").digest()
        header = pb.SyntheticHeader(
            study_digest=bytes.fromhex(study_digest),
            form=form_to_wire(form),
            n_rows=n_rows,
            total_bytes=stream.tell(),
            sha256=sha256,
            components_sha256=components_sha256,
        )

        def parts() -> Iterator[pb.PublishSyntheticRequest]:
            yield pb.PublishSyntheticRequest(header=header)
            for chunk in chunks(stream):
                yield pb.PublishSyntheticRequest(chunk=chunk)

        answer = self._call(
            lambda left: self._federation.PublishSynthetic(parts(), timeout=left),
            deadline_s=TRANSFER_TIMEOUT_S,
        )
        return answer.already_stored
