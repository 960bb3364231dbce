"""The owner's calls to a curator: uploads and downloads, besides the queries of `questions`.

Nothing listens at a site: owners dial out. Every call has a deadline, and is repeated only after
failures that may pass (`dppca.common.transport.channels.with_retries`); every call may safely be
repeated. Nothing that arrives is trusted: a study's document must have the requested name, a
download the size and digest that were announced before it began.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BufferedRandom

from dppca.common.aggregation.sum_messages import Opening, SealedSet, Vote, sealed_set_limit
from dppca.common.aggregation.terms import Terms
from dppca.common.attestation.acknowledgements import AcknowledgedContribution, require_acknowledged
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
    """The curator's answer to an upload.

    ``already_stored`` is True if it had these bytes already; ``signed`` is its signed
    acknowledgement, checked.
    """

    already_stored: bool
    state: StudyState
    signed: bytes


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """The curator's answer to an opener's vote or opening.

    ``votes`` may be for any set; they are well formed, not yet verified. ``wanted`` are streams of
    this opener that no opening has, ascending; none while votes are missing. ``already_stored`` is
    True if it had this opening already.
    """

    state: StudyState
    votes: tuple[Vote, ...] = ()
    wanted: tuple[int, ...] = ()
    already_stored: bool = False


class CuratorClient(CuratorQueries):
    """All calls of an owner; a context manager that closes the connection."""

    def continue_ledger(self, history: History, releases: Iterable[bytes]) -> None:
        """Have the curator accept this ledger's chain in place of the one it has seen.

        ``releases`` identify all releases that the curator holds of this owner; the ledger must
        know each. Raise `ChainError` if some are missing.
        """
        request = pb.ContinueLedgerRequest(
            ledger_length=history.length,
            ledger_head=history.head,
            accounts_for=accounts_for(releases),
        )
        self._ask(self._federation.ContinueLedger, request)

    def contribute(
        self,
        stored: StoredRelease,
        history: History,
        *,
        sent: Callable[[int], None] | None = None,
    ) -> Acknowledgement:
        """Upload stored bytes, signed, with the ledger's length and head; retries send them whole.

        ``sent`` is called with the size of every chunk that is sent. Raise `ReceiptError` or
        `SignatureError` if the acknowledgement is invalid.
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
        contribution = AcknowledgedContribution(
            study_digest=reservation.request.request_digest,
            owner=self._name,
            release_id=reservation.release_id.hex(),
            n_rows=committed.n_rows,
            payload_sha256=committed.payload_sha256,
        )
        require_acknowledged(answer.acknowledgement, contribution, ca=self._ca)
        return Acknowledgement(
            answer.already_stored, state_from_wire(answer.state), answer.acknowledgement
        )

    def download_sealed(self, study: Study, terms: Terms) -> SealedSet:
        """The set of uploads that this site, an opener, is asked to open; not yet verified.

        Raise `NotReadyError` if the study still takes contributions, `PermissionDeniedError` if it
        does not name this site as an opener, `LimitError` if the answer is larger than a set of
        this study can be, `UploadError` if it is no set under these terms.
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
        """Send a vote, an opening, or neither; return the curator's answer with the wanted streams.

        Raise `NotReadyError` or `StudyStateError` if the study is not sealed,
        `PermissionDeniedError` if it does not name this site as an opener, `ConflictError` if the
        curator has another set, vote or opening than this one.
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
        """Download the result file and its envelope; raises as `receive_result`."""
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
        """Upload synthetic rows; return True if the curator had these bytes already.

        ``stream`` is a file that holds an Arrow IPC stream, ``components_sha256`` the digest of the
        result file that the rows were drawn from.
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
