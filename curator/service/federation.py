"""RPCs for owners; operators may call those that read, auditors those without rows or sums.

The order in every upload: identify the caller, check the header's form, the caps and the protocol's
rules; only then is the first byte accepted. Bytes go to a file as they arrive. When all have
arrived and match the header, the rules are applied again and the result is stored; only then is it
acknowledged.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial

from dppca.common.kernel.attestation.contributions import MAX_BYTES, open_release
from dppca.common.kernel.attestation.envelopes import signing_certificate
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.signatures import load_certificate
from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.errors import (
    InputError,
    LimitError,
    NotReadyError,
    ReceiptError,
    SignatureError,
    UploadError,
)
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.study import Trust
from dppca.common.transport.channels import CHUNK_BYTES
from dppca.common.transport.codec import DIGEST_BYTES, ChunkVerifier, form_from_wire, state_to_wire
from dppca.common.wire import federation_pb2 as pb
from dppca.common.wire import federation_pb2_grpc as rpc
from dppca.curator.config import Limits
from dppca.curator.observability.log import log_event
from dppca.curator.service.answers import (
    chain_to_wire,
    heard_by,
    is_visible,
    note_version,
    require_visible,
    study_page,
    study_summary,
)
from dppca.curator.service.calls import Caller, server_stream, unary
from dppca.curator.service.coordinator import StudyCoordinator
from dppca.curator.service.masked_sums import OpeningSpool, check_upload, require_identity, set_for
from dppca.curator.service.place_limiter import PlaceLimiter
from dppca.curator.service.recent_refusals import RecentRefusals
from dppca.curator.service.transfer import (
    iterate_chunks,
    open_spool,
    read_pieces,
    receive_chunks,
    receive_header,
)
from dppca.curator.store import Spool
from dppca.curator.study import admission, lifecycle
from dppca.curator.study.admission import SyntheticHeader, UploadDecision
from dppca.curator.study.openings import OpeningDecision, OpeningHeader
from dppca.curator.study.sealed_set import (
    missing_openers,
    require_opener,
    require_sealed,
    wanted_streams,
)
from dppca.curator.study.study_record import Header, LedgerHead, OwnerHistory, StudyRecord
from dppca.curator.study.synthetic_rows import check_rows, join_rows, make_joined_receipt

ANSWER_MARGIN_S = 0.25
"""Time before the caller's deadline at which a waiting call is answered."""


class FederationService(rpc.FederationServicer):
    """RPCs for owners; operators may call those that read, auditors those without rows or sums."""

    def __init__(self, studies: StudyCoordinator, limits: Limits, refusals: RecentRefusals) -> None:
        self.refusals = refusals
        self._studies = studies
        self.note_look = studies.note_look
        self._limits = limits
        self._is_heard = heard_by(studies.store, refusals)
        self._upload_limiter = PlaceLimiter(
            "uploads", max_total=limits.max_uploads, per_owner=limits.max_uploads_per_owner
        )
        self._download_limiter = PlaceLimiter(
            "downloads of a set or of rows", max_total=limits.max_calls, per_owner=1
        )
        self._one_result = asyncio.Lock()
        # One thread for each upload, so that no upload waits for another's disk.
        self._threads = ThreadPoolExecutor(limits.max_uploads, thread_name_prefix="upload")

    @unary(Role.OWNER, Role.OPERATOR, Role.AUDITOR)
    async def ListStudies(  # noqa: N802 - the names of RPCs are the .proto's
        self, request: pb.ListStudiesRequest, caller: Caller
    ) -> pb.ListStudiesResponse:
        """Return a page of the studies that name the caller; an operator gets all."""
        if not request.after:
            note_version(request.greeting, caller, self.refusals)
        records = [record for record in self._studies.store.studies() if is_visible(caller, record)]
        records, has_more = study_page(records, most=request.most, after=request.after)
        seen = self._studies.store.history(caller.name) if caller.is_owner else OwnerHistory()
        length, head = chain_to_wire(seen.chain)
        return pb.ListStudiesResponse(
            studies=[study_summary(record, caller, self._is_heard) for record in records],
            ledger_length=length,
            ledger_head=head,
            has_more=has_more,
            greeting=self._studies.greet(),
            roles_version=0 if seen.roles is None else seen.roles.version,
        )

    @unary(Role.OWNER, Role.OPERATOR, Role.AUDITOR)
    async def GetStudy(  # noqa: N802
        self, request: pb.GetStudyRequest, caller: Caller
    ) -> pb.GetStudyResponse:
        """Return the document of one study."""
        note_version(request.greeting, caller, self.refusals)
        if request.WhichOneof("study") == "name":
            record = self._studies.require_named(request.name)
            require_visible(caller, record)
        else:
            record = self._require_visible(request.digest, caller)
        return pb.GetStudyResponse(
            document=record.study.canonical_bytes(),
            state=state_to_wire(record.state),
            greeting=self._studies.greet(),
        )

    @unary(Role.OWNER)
    async def Contribute(  # noqa: N802
        self, request: AsyncIterator[pb.ContributeRequest], caller: Caller
    ) -> pb.ContributeResponse:
        """Receive one release."""
        parts = aiter(request)
        first = await receive_header(parts, idle_timeout_s=self._limits.idle_timeout_s)
        header = _contribution_header(first.header, caller)
        self._require_visible(header.study_digest, caller)
        verifier = ChunkVerifier(
            total_bytes=header.n_bytes,
            sha256=header.sha256,
            cap=self._limits.max_contribution_bytes,
        )
        record, verdict = await self._studies.admit(header)
        if verdict is UploadDecision.ACCEPT:
            masked = record.study.trust is Trust.AGGREGATE
            if masked:
                require_identity(record.study, caller.name, caller.certificate)
            async with self._open_upload(caller) as spool:
                checkpoint("receive")
                await receive_chunks(
                    parts, verifier, spool, limits=self._limits, threads=self._threads
                )
                if masked:  # without masks, any int64 of this number may be noised sums
                    check = partial(check_upload, spool.path, record.study, header)
                    await asyncio.get_running_loop().run_in_executor(self._threads, check)
                record, verdict = await self._studies.contribute(header, spool)
        stored_before = verdict is UploadDecision.ALREADY_STORED
        log_event(
            "contribution",
            limit=(caller.identity, "contribution") if stored_before else None,
            study=record.study.name,
            owner=caller.name,
            rows=header.n_rows or None,
            bytes=header.n_bytes,
            already_stored=stored_before,
        )
        return pb.ContributeResponse(
            already_stored=stored_before,
            state=state_to_wire(record.state),
            acknowledgement=self._studies.acknowledgement(header),
        )

    @server_stream(Role.OWNER)
    async def DownloadSealed(  # noqa: N802
        self, request: pb.DownloadSealedRequest, caller: Caller
    ) -> AsyncGenerator[pb.Chunk]:
        """Stream the sealed set in the caller's view."""
        record = self._require_visible(request.study_digest, caller)
        require_opener(record, caller.name)
        require_sealed(record)
        with self._download_limiter.take(caller.name):
            pieces = set_for(self._studies.store, record, caller.name)
            async for chunk in iterate_chunks(pieces):
                yield chunk

    @unary(Role.OWNER)
    async def Open(  # noqa: N802
        self, request: AsyncIterator[pb.OpenRequest], caller: Caller
    ) -> pb.OpenResponse:
        """Receive an opener's vote, opening, or neither; return the streams it must open."""
        parts = aiter(request)
        first = await receive_header(parts, idle_timeout_s=self._limits.idle_timeout_s)
        header = _opening_header(first.header)
        record = self._require_visible(header.study_digest, caller)
        terms = require_opener(record, caller.name)
        verdict, new_vote = None, bool(header.vote) and record.find_vote(caller.name) is None
        if header.vote:
            record = await self._studies.vote(caller.name, header)
        if header.total_bytes:
            record, verdict = self._studies.admit_opening(caller.name, header)
            if verdict is OpeningDecision.ACCEPT:
                verifier = ChunkVerifier(
                    total_bytes=header.total_bytes,
                    sha256=header.sha256,
                    cap=self._limits.max_contribution_bytes,
                )
                async with self._open_upload(caller) as spool:
                    opening = OpeningSpool(spool, header.total_bytes - 8 * terms.n_words)
                    checkpoint("opening")
                    await receive_chunks(
                        parts, verifier, opening, limits=self._limits, threads=self._threads
                    )
                    signed = opening.read(record.study)
                    record, verdict = await self._studies.open(caller.name, header, signed, spool)
        else:
            require_sealed(record)
        wanted = wanted_streams(record, caller.name)
        if header.vote or header.total_bytes:
            stored = verdict is OpeningDecision.ACCEPT
            log_event(
                "opening",
                limit=None if stored or new_vote else (caller.identity, "opening"),
                study=record.study.name,
                opener=caller.name,
                voted=bool(header.vote),
                bytes=header.total_bytes,
                stored=stored,
                wanted=len(wanted),
            )
        return pb.OpenResponse(
            state=state_to_wire(record.state),
            votes=[vote.content for vote in record.votes],
            wanted=wanted,
            already_stored=verdict is OpeningDecision.ALREADY_STORED,
        )

    @unary(Role.OWNER, Role.OPERATOR, Role.AUDITOR)
    async def GetResult(  # noqa: N802
        self, request: pb.GetResultRequest, caller: Caller
    ) -> pb.GetResultResponse:
        """Wait for a study that waits for owners or openers."""
        self._require_visible(request.study_digest, caller)
        wait_s = min(request.wait_ms / 1000, self._limits.max_wait_s)
        if caller.remaining_s is not None:
            wait_s = min(wait_s, caller.remaining_s - ANSWER_MARGIN_S)
        record = await self._studies.wait(request.study_digest, timeout_s=max(wait_s, 0.0))
        answer = pb.GetResultResponse(
            state=state_to_wire(record.state),
            contributed=record.contributed,
            missing=record.missing,
            reason=record.reason,
            missing_openers=missing_openers(record),
        )
        if record.result is not None:
            answer.total_bytes = record.result.n_bytes
            answer.sha256 = record.result.sha256
        return answer

    @server_stream(Role.OWNER, Role.OPERATOR)
    async def DownloadComponents(  # noqa: N802
        self, request: pb.DownloadComponentsRequest, caller: Caller
    ) -> AsyncGenerator[pb.DownloadComponentsResponse]:
        """Stream the envelope of the result file, then the file."""
        record = self._require_visible(request.study_digest, caller)
        result = lifecycle.require_result(record)
        for start in range(0, len(result.envelope), CHUNK_BYTES):
            piece = result.envelope[start : start + CHUNK_BYTES]
            yield pb.DownloadComponentsResponse(envelope=piece)
        path = self._studies.store.blobs.path(result.sha256)
        async for chunk in iterate_chunks(read_pieces(path)):
            yield pb.DownloadComponentsResponse(chunk=chunk)

    @unary(Role.OWNER)
    async def PublishSynthetic(  # noqa: N802
        self, request: AsyncIterator[pb.PublishSyntheticRequest], caller: Caller
    ) -> pb.PublishSyntheticResponse:
        """Receive one owner's synthetic rows of one form."""
        parts = aiter(request)
        first = await receive_header(parts, idle_timeout_s=self._limits.idle_timeout_s)
        header = _synthetic_header(first.header)
        record = self._require_visible(header.study_digest, caller)
        verifier = ChunkVerifier(
            total_bytes=header.total_bytes,
            sha256=header.sha256,
            cap=self._limits.max_synthetic_bytes,
        )
        verdict = admission.admit_publication(record, caller.name, header)
        if verdict is UploadDecision.ACCEPT:
            async with self._open_upload(caller) as spool:
                await receive_chunks(
                    parts, verifier, spool, limits=self._limits, threads=self._threads
                )
                # In a thread of the uploads, so that large tables do not delay other calls.
                await asyncio.get_running_loop().run_in_executor(
                    self._threads,
                    partial(
                        check_rows,
                        spool.path,
                        record.study.table,
                        header.form,
                        n_rows=header.n_rows,
                    ),
                )
                record, verdict = await self._studies.publish(caller.name, header, spool)
        stored_before = verdict is UploadDecision.ALREADY_STORED
        log_event(
            "synthetic rows",
            limit=(caller.identity, "synthetic rows") if stored_before else None,
            study=record.study.name,
            owner=caller.name,
            form=header.form.value,
            rows=header.n_rows,
            bytes=header.total_bytes,
            already_stored=stored_before,
        )
        return pb.PublishSyntheticResponse(already_stored=stored_before)

    @server_stream(Role.OWNER, Role.OPERATOR)
    async def DownloadSynthetic(  # noqa: N802
        self, request: pb.DownloadSyntheticRequest, caller: Caller
    ) -> AsyncGenerator[pb.Chunk]:
        """Stream all owners' synthetic rows of one form as one table."""
        record = self._require_visible(request.study_digest, caller)
        form = form_from_wire(request.form)
        store = self._studies.store
        parts = [p for p in record.publications if p.form is form]
        paths = [store.blobs.path(p.sha256) for p in parts]
        if not paths:
            raise NotReadyError(
                f"no {form.value} rows have been published for study {record.study.name}"
            )
        calibration = await self._studies.calibration(record)
        first = await self._studies.first_result(record.study)
        before = None if first is None else first.round
        with self._download_limiter.take(caller.name):
            async with self._one_result:  # it is in memory until the receipt is made
                receipt = await asyncio.to_thread(
                    make_joined_receipt, record, calibration, parts, before
                )
            async for chunk in iterate_chunks(join_rows(paths, record.study.table, form, receipt)):
                yield chunk

    @server_stream(Role.OWNER)
    async def ListContributions(  # noqa: N802
        self, _: pb.ListContributionsRequest, caller: Caller
    ) -> AsyncGenerator[pb.HeldContribution]:
        """Stream the caller's own contributions in order of arrival, each acknowledged."""
        for record in reversed(self._studies.store.studies()):
            contribution = record.find_contribution(caller.name)
            if contribution is not None:
                yield pb.HeldContribution(
                    study=record.study.name,
                    envelope=contribution.release.envelope,
                    received_s=contribution.received_s,
                    acknowledgement=self._studies.acknowledgement(contribution),
                )

    @unary(Role.OWNER)
    async def ContinueLedger(  # noqa: N802
        self, request: pb.ContinueLedgerRequest, caller: Caller
    ) -> pb.ContinueLedgerResponse:
        """Continue with the chain of a ledger that was lost and recovered."""
        if len(request.ledger_head) != DIGEST_BYTES:
            raise InputError(
                f"a chain's head has {DIGEST_BYTES} bytes, not {len(request.ledger_head)}"
            )
        chain = LedgerHead(request.ledger_length, request.ledger_head)
        settlement = await self._studies.continue_ledger(caller.name, chain, request.accounts_for)
        if settlement is not None:
            log_event(
                "ledger recovered",
                limit=(caller.identity, "ledger recovered"),
                owner=caller.name,
                seen_length=settlement.seen.length,
                ledger_length=chain.length,
            )
        return pb.ContinueLedgerResponse()

    @asynccontextmanager
    async def _open_upload(self, caller: Caller) -> AsyncIterator[Spool]:
        with self._upload_limiter.take(caller.name):
            async with open_spool(self._studies.store, self._threads) as spool:
                yield spool

    def _require_visible(self, digest: bytes, caller: Caller) -> StudyRecord:
        if len(digest) != DIGEST_BYTES:
            raise InputError(f"a study's digest has {DIGEST_BYTES} bytes, not {len(digest)}")
        record = self._studies.require(digest)
        require_visible(caller, record)
        return record


def _contribution_header(message: pb.ContributionHeader, caller: Caller) -> Header:
    """Parse a header, whose receipt is signed with the certificate of the call."""
    if len(message.ledger_head) != DIGEST_BYTES:
        raise UploadError(f"ledger_head has {len(message.ledger_head)} bytes, not {DIGEST_BYTES}")
    if len(message.envelope) > MAX_BYTES:
        raise LimitError(f"the envelope has {len(message.envelope)} bytes; {MAX_BYTES} are allowed")
    try:
        release = open_release(message.envelope, caller.name, KnownParties(None))
    except ReceiptError as error:
        raise UploadError(str(error)) from error
    what = f"the receipt of {caller.name}"
    certificates = (signing_certificate(release.envelope), caller.certificate)
    signed, used = (load_certificate(each, what=what) for each in certificates)
    if signed != used:
        raise SignatureError(f"{what} was signed with another certificate than that of the call")
    chain = LedgerHead(message.ledger_length, message.ledger_head)
    return Header(release, message.total_bytes, chain)


def _opening_header(message: pb.OpenHeader) -> OpeningHeader:
    expected = DIGEST_BYTES if message.total_bytes else 0
    if len(message.sha256) != expected:
        raise UploadError(f"sha256 has {len(message.sha256)} bytes, not {expected}")
    return OpeningHeader(
        message.study_digest, message.vote, message.total_bytes, message.sha256, message.consent
    )


def _synthetic_header(message: pb.SyntheticHeader) -> SyntheticHeader:
    for name in ("study_digest", "sha256", "components_sha256"):
        if len(getattr(message, name)) != DIGEST_BYTES:
            raise UploadError(f"{name} has {len(getattr(message, name))} bytes, not {DIGEST_BYTES}")
    return SyntheticHeader(
        study_digest=message.study_digest,
        form=form_from_wire(message.form),
        n_rows=message.n_rows,
        total_bytes=message.total_bytes,
        sha256=message.sha256,
        components_sha256=message.components_sha256,
    )
