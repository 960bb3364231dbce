"""An owner or an operator with a connection, and its messages."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

import grpc

from dppca.common.kernel.aggregation.contribution import MaskedRelease
from dppca.common.kernel.attestation.envelopes import SignedFile, unchecked_predicate
from dppca.common.kernel.attestation.signatures import Signer, make_signer
from dppca.common.kernel.documents.messages import Form, StudyState
from dppca.common.kernel.identity.tls import Credentials
from dppca.common.kernel.privacy.release import Release
from dppca.common.kernel.study import Study
from dppca.common.transport.channels import open_channel
from dppca.common.transport.codec import form_to_wire, state_from_wire
from dppca.common.wire import federation_pb2 as pb
from dppca.common.wire import federation_pb2_grpc as rpc
from dppca.curator.study.study_record import Header
from tests.support.census import header_of, nobody, sign_document
from tests.support.patience import WAIT_S, wait_until


def to_wire(header: Header) -> pb.ContributionHeader:
    return pb.ContributionHeader(
        envelope=header.release.envelope,
        total_bytes=header.n_bytes,
        ledger_length=header.chain.length,
        ledger_head=header.chain.head,
    )


def sign_for_nobody(envelope: bytes, signer: Signer) -> bytes:
    """Sign an envelope of `nobody` by this party; return another one unchanged."""
    if json.dumps(nobody().certificate.decode())[1:-1].encode() not in envelope:
        return envelope
    return sign_document(unchecked_predicate(envelope), signer)


def upload(
    header: Header | None, payload: bytes, *, chunk_bytes: int = 100
) -> Iterator[pb.ContributeRequest]:
    """Yield a contribution as messages, in small chunks; None leaves the header out."""
    if header is not None:
        yield pb.ContributeRequest(header=to_wire(header))
    for chunk in _chunks(payload, chunk_bytes):
        yield pb.ContributeRequest(chunk=chunk)


class Party:
    def __init__(self, address: str, credentials: Credentials) -> None:
        self.signer = make_signer(credentials)
        self.channel: grpc.Channel = open_channel(address, credentials)
        self.federation = rpc.FederationStub(self.channel)
        self.admin = rpc.AdminStub(self.channel)
        self.ledger_length = 1

    def next_ledger_length(self) -> int:
        """Length of this owner's ledger after one more release to any study."""
        self.ledger_length += 1
        return self.ledger_length

    def create(self, study: Study) -> pb.CreateStudyResponse:
        return self.admin.CreateStudy(
            pb.CreateStudyRequest(document=study.canonical_bytes()), timeout=WAIT_S
        )

    def find(self, **ask: Any) -> pb.GetStudyResponse:
        """Ask for a study by ``name`` or ``digest``."""
        return self.federation.GetStudy(pb.GetStudyRequest(**ask), timeout=WAIT_S)

    def list_studies(self, **how: Any) -> pb.ListStudiesResponse:
        return self.federation.ListStudies(pb.ListStudiesRequest(), timeout=WAIT_S, **how)

    def show(self, study: str) -> pb.ShowStudyResponse:
        return self.admin.ShowStudy(pb.ShowStudyRequest(name=study), timeout=WAIT_S)

    def close_study(self, study: str) -> pb.CloseStudyResponse:
        return self.admin.CloseStudy(pb.CloseStudyRequest(name=study), timeout=WAIT_S)

    def abort(self, study: str, reason: str = "a test") -> pb.AbortStudyResponse:
        request = pb.AbortStudyRequest(name=study, reason=reason)
        return self.admin.AbortStudy(request, timeout=WAIT_S)

    def refusals(self, study: str = "") -> list[pb.Refusal]:
        request = pb.ListRefusalsRequest(study=study)
        return list(self.admin.ListRefusals(request, timeout=WAIT_S).refusals)

    def send(self, parts: Iterable[pb.ContributeRequest]) -> pb.ContributeResponse:
        return self.federation.Contribute(self.signed(parts), timeout=WAIT_S)

    def signed(self, parts: Iterable[pb.ContributeRequest]) -> Iterator[pb.ContributeRequest]:
        """Yield the parts; a header signed by `nobody` is signed by this party."""
        for part in parts:
            if part.WhichOneof("part") == "header":
                part.header.envelope = sign_for_nobody(part.header.envelope, self.signer)
            yield part

    def contribute(self, release: Release | MaskedRelease, **ledger: Any) -> pb.ContributeResponse:
        return self.send(upload(header_of(release, **ledger), release.payload()))

    def contribute_next(self, release: Release | MaskedRelease) -> pb.ContributeResponse:
        """Contribute with a ledger that is one longer than before."""
        return self.contribute(release, ledger_length=self.next_ledger_length())

    def end(self, study: Study) -> pb.GetResultResponse:
        """Return a study's outcome once it has stopped waiting."""

        def ended() -> pb.GetResultResponse | None:
            # A daemon with a moved clock answers at once: for gRPC, all deadlines have passed.
            answer = self.result(study)
            waits = state_from_wire(answer.state) in (StudyState.OPEN, StudyState.SEALED)
            return None if waits else answer

        return wait_until(ended)

    def result(self, study: Study, *, wait_s: float = WAIT_S) -> pb.GetResultResponse:
        """Return a study's outcome once it has stopped waiting, or when the time is up."""
        request = pb.GetResultRequest(
            study_digest=bytes.fromhex(study.digest), wait_ms=int(1000 * wait_s)
        )
        return self.federation.GetResult(request, timeout=wait_s + WAIT_S)

    def components(self, study: Study) -> bytes:
        return self.signed_components(study).content

    def signed_components(self, study: Study) -> SignedFile:
        request = pb.DownloadComponentsRequest(study_digest=bytes.fromhex(study.digest))
        parts = list(self.federation.DownloadComponents(request, timeout=WAIT_S))
        content = b"".join(part.chunk.content for part in parts)
        return SignedFile(content, b"".join(part.envelope for part in parts))

    def sealed(self, study: Study) -> bytes:
        request = pb.DownloadSealedRequest(study_digest=bytes.fromhex(study.digest))
        return _joined(self.federation.DownloadSealed(request, timeout=WAIT_S))

    def open(
        self, study: Study, *, vote: bytes = b"", opening: bytes = b"", **changes: Any
    ) -> pb.OpenResponse:
        """Send a vote, an opening in pieces, or neither; fields of the header as given."""
        fields = {
            "study_digest": bytes.fromhex(study.digest),
            "vote": vote,
            "total_bytes": len(opening),
            "sha256": hashlib.sha256(opening).digest() if opening else b"",
            **changes,
        }
        parts = [pb.OpenRequest(header=pb.OpenHeader(**fields))]
        parts += [pb.OpenRequest(chunk=chunk) for chunk in _chunks(opening, 100)]
        return self.federation.Open(iter(parts), timeout=WAIT_S)

    def publish(
        self, study: Study, form: Form, content: bytes, *, n_rows: int, components: bytes
    ) -> pb.PublishSyntheticResponse:
        header = pb.SyntheticHeader(
            study_digest=bytes.fromhex(study.digest),
            form=form_to_wire(form),
            n_rows=n_rows,
            total_bytes=len(content),
            sha256=hashlib.sha256(content).digest(),
            components_sha256=components,
        )
        parts = [pb.PublishSyntheticRequest(header=header)]
        parts += [pb.PublishSyntheticRequest(chunk=chunk) for chunk in _chunks(content, 1000)]
        return self.federation.PublishSynthetic(iter(parts), timeout=WAIT_S)

    def synthetic(self, study: Study, form: Form) -> bytes:
        request = pb.DownloadSyntheticRequest(
            study_digest=bytes.fromhex(study.digest), form=form_to_wire(form)
        )
        return _joined(self.federation.DownloadSynthetic(request, timeout=WAIT_S))

    def close(self) -> None:
        self.channel.close()


def _chunks(content: bytes, size: int) -> Iterator[pb.Chunk]:
    for offset in range(0, len(content), size):
        yield pb.Chunk(offset=offset, content=content[offset : offset + size])


def _joined(chunks: Iterable[pb.Chunk]) -> bytes:
    content = b""
    for chunk in chunks:
        assert chunk.offset == len(content)
        content += chunk.content
    return content
