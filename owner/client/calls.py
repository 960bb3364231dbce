"""A site's connection to its curator, and all calls on it.

Nothing listens at a site: owners dial out. Every call has a deadline, and is repeated only after
failures that may pass (`dppca.common.transport.channels.with_retries`); every call may safely be
repeated. Nothing that arrives is trusted: a study's document must have the requested name and be
the one that was agreed on, a download the size and digest that were announced before it began.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpc_health.v1 import health_pb2, health_pb2_grpc

from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.documents.messages import Form, StudyState, accounts_for
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import (
    IdentityError,
    LimitError,
    NotReadyError,
    PeerError,
    SettingError,
    StudyStateError,
    UnreachableError,
    UploadError,
)
from dppca.common.kernel.identity.tls import (
    Credentials,
    Role,
    check_credentials,
    load_credentials,
    parse_certificate,
    parse_identity,
)
from dppca.common.kernel.study import Study, require_continues, study_from_canonical
from dppca.common.shell.console import tell
from dppca.common.transport.allowance import Allowance
from dppca.common.transport.channels import (
    CALL_TIMEOUT_S,
    CHUNK_BYTES,
    CONNECT_TIMEOUT_S,
    CuratorConnection,
    Patience,
    guess_study,
)
from dppca.common.transport.codec import (
    ChunkVerifier,
    chunks,
    contribution_parts,
    form_to_wire,
    read_message,
    state_from_wire,
)
from dppca.common.transport.hosts import DialTarget
from dppca.common.transport.proxies import HttpProxy
from dppca.common.wire import federation_pb2 as pb
from dppca.common.wire import federation_pb2_grpc as rpc
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import find_continued, keep_study, require_same

# Most calls sign, open and charge nothing: what does is imported where it is called.
if TYPE_CHECKING:
    from dppca.common.kernel.aggregation.sum_messages import Opening, SealedSet, Vote
    from dppca.common.kernel.aggregation.terms import Terms
    from dppca.common.kernel.attestation.envelopes import SignedFile
    from dppca.owner.ledger.chain import History
    from dppca.owner.ledger.database import StoredRelease
    from dppca.owner.ledger.mark import ContributionRecord, CuratorView

POLL_S = 10.0  # that a call waits at the curator for news
TRANSFER_TIMEOUT_S = 600.0  # for one upload or download
DOCUMENTS_BYTES = 128 << 20
"""Most bytes of all studies that one command fetches."""


def allow_documents() -> Allowance:
    """Return what the documents of all listed studies may take, from now on."""
    return Allowance("the curator's list of studies with their documents", n_bytes=DOCUMENTS_BYTES)


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


class CuratorClient(CuratorConnection):
    """All calls of an owner; a context manager that closes the connection."""

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        *,
        server_name: str | None = None,
        proxy: HttpProxy | None = None,
        patience: Patience | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        own = credentials.certificate
        dialled = DialTarget(address, credentials.ca, Role.OWNER, server_name, proxy, own)
        super().__init__(dialled, credentials, patience=patience, warn=warn)
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
        """Studies that name this owner, newest first; ``deadline_s`` is for each page of them."""
        pages = self._list_studies(self._federation.ListStudies, deadline_s=deadline_s)
        return tuple(read_message(StudySummary, each) for page in pages for each in page.studies)

    def held(self) -> CuratorView:
        """The curator's record of this owner's contributions and of its ledger's chain."""
        from dppca.owner.ledger.mark import ContributionRecord, CuratorView

        pages = tuple(self._list_studies(self._federation.ListStudies))
        return CuratorView(
            tuple(
                ContributionRecord(each.name, each.digest.hex(), each.release_id)
                for page in pages
                for each in page.studies
                if each.contributed
            ),
            pages[-1].ledger_length,
            pages[-1].ledger_head,
            pages[-1].roles_version,
        )

    def contributions(
        self, of: Callable[[str], bool] | None = None
    ) -> tuple[ContributionRecord, ...]:
        """Contributions of this owner with their receipts; ``of`` chooses studies by name.

        Raise `ReceiptError` or `SignatureError` if an envelope of these holds no receipt,
        `PeerError` if a study comes twice, `LimitError` if they are more, or larger, than a
        curator stores.
        """
        request = pb.ListContributionsRequest()

        def fetch(left: float) -> tuple[ContributionRecord, ...]:
            answers = self._federation.ListContributions(request, timeout=left)
            allowed, seen = Allowance("the curator's list of contributions"), set[str]()
            found: list[ContributionRecord] = []
            for each in allowed.of(answers):
                study = one_line(each.study)
                if study in seen:
                    raise PeerError("the curator lists a contribution twice: tell the operator")
                seen.add(study)
                if of is None or of(study):
                    found.append(_held(each))
            return tuple(found)

        return self._call(fetch)

    def study(self, name: str, allowed: Allowance | None = None) -> tuple[Study, StudyState]:
        """Return a study's document and state.

        ``allowed`` is what the documents of several studies may take together. Raise
        `UnknownStudyError` if there is no such study or it does not name this owner, `StudyError`
        or `UploadError` if the answer is no study or another one.
        """
        with guess_study(name, self.studies):
            answer = self._greet(self._federation.GetStudy, pb.GetStudyRequest(name=name))
        if allowed is not None:
            allowed.take(len(answer.document))
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
        left: Callable[[], float] = lambda: 0.0,
        polled: Callable[[], None] = lambda: None,
    ) -> StudyProgress:
        """Wait until there is a result, by polls of bounded length.

        Wait while ``left`` returns seconds; 0 asks once. ``polled`` is called after each poll that
        found the study still open or sealed, except the last. Raise `NotReadyError`, with the
        missing owners or openers, if it was still so at the end, and `StudyStateError` if the study
        was aborted.
        """
        while True:
            checkpoint("wait")
            progress = self.progress(study.digest, wait_s=min(left(), POLL_S))
            if progress.state is StudyState.ABORTED:
                raise StudyStateError(f"study {study.name} was aborted: {progress.reason}")
            if progress.state not in (StudyState.OPEN, StudyState.SEALED):
                return progress
            if not left():
                awaited = ", ".join(progress.missing) or "its components"
                if progress.state is StudyState.SEALED:
                    awaited = f"its openers ({', '.join(progress.missing_openers)})"
                raise NotReadyError(
                    f"study {study.name} still waits for {awaited}: ask again later, or with a "
                    "longer --wait"
                )
            polled()

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
        consent: Mapping[str, Any] | None = None,
        sent: Callable[[int], None] | None = None,
    ) -> Acknowledgement:
        """Upload stored bytes, signed, with the ledger's length and head; retries send them whole.

        ``consent`` is what people of this site have signed, if the study asks for it; ``sent`` is
        called with the size of every chunk that is sent. Raise `ReceiptError` or
        `SignatureError` if the acknowledgement is invalid.
        """
        from dppca.common.kernel.attestation.contributions import (
            AcknowledgedContribution,
            require_acknowledged,
            sign_release,
        )

        reservation, committed = stored.reservation, stored.commitment
        envelope = sign_release(self._name, stored.receipt, self._signer, consent)

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
        from dppca.common.kernel.aggregation.sum_messages import SealedSet, sealed_set_limit

        request = pb.DownloadSealedRequest(study_digest=bytes.fromhex(study.digest))
        limit = sealed_set_limit(terms)

        def fetch(left: float) -> bytes:
            whole = ChunkVerifier(total_bytes=limit, sha256=b"", cap=limit)
            content = bytearray()  # not a list: a chunk may have one byte
            for chunk in self._federation.DownloadSealed(request, timeout=left):
                content += whole.take(chunk)
            return bytes(content)

        return SealedSet.from_bytes(self._call(fetch, deadline_s=TRANSFER_TIMEOUT_S), terms)

    def open(
        self,
        study: Study,
        terms: Terms,
        *,
        vote: Vote | None = None,
        opening: Opening | None = None,
        consent: Mapping[str, Any] | None = None,
    ) -> OpenAnswer:
        """Send a vote, an opening, or neither; return the curator's answer with the wanted streams.

        ``consent`` is what people of this site signed of the set, if the study asks for it.
        Raise `NotReadyError` or `StudyStateError` if the study is not sealed,
        `PermissionDeniedError` if it does not name this site as an opener, `ConflictError` if the
        curator has another set, vote or opening than this one.
        """
        from dppca.common.kernel.aggregation.sum_messages import Vote

        content = b"" if opening is None else opening.to_bytes()
        header = pb.OpenHeader(
            study_digest=bytes.fromhex(study.digest),
            vote=b"" if vote is None else vote.to_bytes(),
            total_bytes=len(content),
            sha256=hashlib.sha256(content).digest() if content else b"",
            consent=b"" if consent is None else canonical_json(consent),
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
        from dppca.common.transport.downloads import receive_result

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


def connect(
    site: Site, patience: Patience | None = None, *, warn: Callable[[str], None] = tell
) -> CuratorClient:
    """Return a client with the site's credentials, which are checked before use.

    ``patience`` is for a curator that is away; ``warn`` is told what is unusual about the curator,
    such as an older version. Raise `IdentityError` if the credentials are missing
    or will not be accepted; the message says why and what to do (a failed TLS handshake would not).
    """
    credentials = load_credentials(site)
    check_credentials(credentials, role=Role.OWNER, name=site.name, now=utc_now())
    return open_client(site, credentials, patience, warn=warn)


def open_client(
    site: Site,
    credentials: Credentials,
    patience: Patience | None = None,
    *,
    warn: Callable[[str], None] = lambda _: None,
) -> CuratorClient:
    """Return a client with checked credentials; raise `SettingError` as `read_proxy` does."""
    return CuratorClient(
        site.curator,
        credentials,
        server_name=site.server_name,
        proxy=read_proxy(site),
        patience=patience,
        warn=warn,
    )


def countdown(seconds: float) -> Callable[[], float]:
    """Return a function that returns the remaining seconds, 0 at the end."""
    end = time.monotonic() + seconds
    return lambda: max(0.0, end - time.monotonic())


def read_proxy(site: Site) -> HttpProxy | None:
    """The proxy through which the site calls, with its login; None if it calls directly.

    Raise `SettingError` if the login is not at the place that ``site.yaml`` names, is readable by
    others, or is malformed.
    """
    if site.proxy is None or site.proxy_login is None:
        return None if site.proxy is None else HttpProxy(site.proxy)
    login = site.proxy_login.read("the login for the proxy")
    if ":" not in login or not login.isprintable():
        raise SettingError(
            "the login for the proxy must be NAME:PASSWORD, in one line: correct what proxy_login "
            "in site.yaml names"
        )
    return HttpProxy(site.proxy, login)


def compare_with_curator(site: Site, client: CuratorClient) -> CuratorView:
    """Compare the ledger with the curator's record of this site, before it is charged.

    The curator is asked first, and the ledger is read under the lock afterwards: another command
    may send a release in between. If the ledger is not the newest, the site is locked; the
    `ChainError` says what to do.
    """
    from dppca.owner.ledger import database

    view = client.held()
    database.compare_ledger(site.ledger, view, lock=site.lock)
    return view


def require_newest_ledger(site: Site) -> None:
    """Compare the ledger with the curator, unless this site knows that it is the newest.

    This precedes charges that need no curator. Raise `ChainError` if the site is locked; raise
    `UnreachableError` or `IdentityError` if the ledger was never compared, and the curator cannot
    be asked.
    """
    from dppca.owner.ledger import database

    if database.require_newest(site.ledger):
        return
    try:
        with connect(site) as client:
            compare_with_curator(site, client)
    except (UnreachableError, IdentityError) as error:
        raise type(error)(
            "run the same command again while the curator can be reached; this is needed once: the "
            "curator is asked what it holds of this site before anything is charged to a ledger "
            f"that was not compared yet. Nothing was drawn or charged ({error})"
        ) from error


def agreed_study(
    site: Site, client: CuratorClient, name: str, *, study_file: Path | None
) -> tuple[Study, StudyState]:
    """A study's document at the curator, which is then kept, and its state.

    Raise `SchemaMismatchError` if the steward's copy (``study_file``), or the document that the
    curator showed earlier, is another one; `StudyError` if it continues a study that is kept here
    and asks for other people, attributes or rows; other errors are those of `CuratorClient.study`.
    """
    site.study_folder(name)  # refuses an invalid name before it is sent
    ours = None if study_file is None else _read_study(study_file)
    checkpoint("fetch")
    study, state = client.study(name)
    if ours is not None:
        require_same(ours, study, what=str(study_file))
    first = find_continued(site, study)
    if first is not None:
        require_continues(first, study, result_sha256=None)
    keep_study(site, study)
    return study, state


def _read_study(file: Path) -> Study:
    from dppca.common.analysis.study_file import study_from_yaml

    return study_from_yaml(file)


def _held(held: pb.HeldContribution) -> ContributionRecord:
    from dppca.common.kernel.attestation.contributions import MAX_BYTES, unchecked_receipt
    from dppca.owner.ledger.mark import ContributionRecord

    if max(len(held.envelope), len(held.acknowledgement)) > MAX_BYTES:
        raise LimitError(f"an envelope or acknowledgement has more than {MAX_BYTES} bytes")
    receipt = unchecked_receipt(held.envelope)
    return ContributionRecord(
        study=one_line(held.study),
        study_digest=receipt.study_digest,
        release_id=bytes.fromhex(receipt.release_id),
        envelope=held.envelope,
        received_s=held.received_s,
        acknowledgement=held.acknowledgement,
    )
