"""What owners call; operators may look.

The order in every upload: who calls, the header's form, the caps, the protocol's rules; only then
the first byte is taken. Bytes go to a file as they come. When all have come and are what the header
said, the rules are applied again and the result stored; only then it is acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace

from common.checkpoints import checkpoint
from common.errors import InputError, NotReadyError, UploadError
from common.proof.signatures import Purpose, require_signed
from common.transport.codec import (
    DIGEST_BYTES,
    Order,
    form_from_wire,
    header_from_wire,
    state_to_wire,
)
from common.transport.tls import Role
from common.wire import federation_pb2 as pb
from common.wire import federation_pb2_grpc as rpc
from curator import admission, protocol
from curator.admission import SyntheticHeader, Verdict
from curator.config import Limits
from curator.log import note
from curator.record import Publication, StudyRecord
from curator.service.calls import Caller, answers, streams
from curator.service.slots import Slots
from curator.service.transfer import chunked, first_part, pieces_of, receive, spooled
from curator.service.views import require_sight, sees, summary_of
from curator.store import Spool
from curator.studies import Studies
from curator.synthetic import check_rows, joined, receipt_of_joined

ANSWER_MARGIN_S = 0.25
"""How long before the caller's deadline a waiting call is answered."""


class FederationService(rpc.FederationServicer):
    """What owners call; operators may look."""

    def __init__(self, studies: Studies, limits: Limits) -> None:
        self._studies = studies
        self._limits = limits
        self._slots = Slots(total=limits.max_uploads, each=limits.max_uploads_per_owner)
        # One each: no upload waits for another's disk.
        self._threads = ThreadPoolExecutor(limits.max_uploads, thread_name_prefix="upload")

    @answers(Role.OWNER, Role.OPERATOR)
    async def ListStudies(  # noqa: N802 - the names of RPCs are the .proto's
        self, _: pb.ListStudiesRequest, caller: Caller
    ) -> pb.ListStudiesResponse:
        """Studies that name the caller."""
        records = [record for record in self._studies.store.studies() if sees(caller, record)]
        return pb.ListStudiesResponse(studies=[summary_of(record, caller) for record in records])

    @answers(Role.OWNER, Role.OPERATOR)
    async def GetStudy(  # noqa: N802
        self, request: pb.GetStudyRequest, caller: Caller
    ) -> pb.GetStudyResponse:
        """The document of one study."""
        if request.WhichOneof("study") == "name":
            record = self._studies.require_named(request.name)
            require_sight(caller, record)
        else:
            record = self._visible(request.digest, caller)
        return pb.GetStudyResponse(
            document=record.study.canonical_bytes(), state=state_to_wire(record.state)
        )

    @answers(Role.OWNER)
    async def Contribute(  # noqa: N802
        self, request: AsyncIterator[pb.ContributeRequest], caller: Caller
    ) -> pb.ContributeResponse:
        """Take one release."""
        parts = aiter(request)
        first = await first_part(parts, idle_timeout_s=self._limits.idle_timeout_s)
        header = replace(header_from_wire(first.header), certificate=caller.certificate)
        self._visible(header.study_digest, caller)
        order = Order(
            total_bytes=header.total_bytes,
            sha256=header.sha256,
            cap=self._limits.max_contribution_bytes,
        )
        record, verdict = await self._studies.admit(caller.name, header)
        if verdict is Verdict.ACCEPT:
            require_signed(
                Purpose.RELEASE,
                header.receipt,
                header.signature,
                header.certificate,
                what=f"the receipt of {caller.name}",
            )
            async with self._place(caller) as spool:
                checkpoint("receive")
                await receive(parts, order, spool, limits=self._limits, threads=self._threads)
                record, verdict = await self._studies.contribute(caller.name, header, spool)
        note(
            "contribution",
            study=record.study.name,
            owner=caller.name,
            rows=header.n_rows,
            bytes=header.total_bytes,
            already_stored=verdict is Verdict.ALREADY_STORED,
        )
        return pb.ContributeResponse(
            already_stored=verdict is Verdict.ALREADY_STORED, state=state_to_wire(record.state)
        )

    @answers(Role.OWNER, Role.OPERATOR)
    async def GetResult(  # noqa: N802
        self, request: pb.GetResultRequest, caller: Caller
    ) -> pb.GetResultResponse:
        """Wait for a study to leave its first state."""
        self._visible(request.study_digest, caller)
        wait_s = min(request.wait_ms / 1000, self._limits.max_wait_s)
        if caller.remaining_s is not None:
            wait_s = min(wait_s, caller.remaining_s - ANSWER_MARGIN_S)
        record = await self._studies.wait(request.study_digest, timeout_s=max(wait_s, 0.0))
        answer = pb.GetResultResponse(
            state=state_to_wire(record.state),
            contributed=record.contributed,
            missing=record.missing,
            reason=record.reason,
        )
        if record.result is not None:
            answer.total_bytes = record.result.n_bytes
            answer.sha256 = record.result.sha256
        return answer

    @streams(Role.OWNER, Role.OPERATOR)
    async def DownloadComponents(  # noqa: N802
        self, request: pb.DownloadComponentsRequest, caller: Caller
    ) -> AsyncIterator[pb.Chunk]:
        """The result file."""
        record = self._visible(request.study_digest, caller)
        path = self._studies.store.content(protocol.result_of(record).sha256)
        async for chunk in chunked(pieces_of(path)):
            yield chunk

    @answers(Role.OWNER)
    async def PublishSynthetic(  # noqa: N802
        self, request: AsyncIterator[pb.PublishSyntheticRequest], caller: Caller
    ) -> pb.PublishSyntheticResponse:
        """Take one owner's synthetic rows of one form."""
        parts = aiter(request)
        first = await first_part(parts, idle_timeout_s=self._limits.idle_timeout_s)
        header = _synthetic_header(first.header)
        record = self._visible(header.study_digest, caller)
        order = Order(
            total_bytes=header.total_bytes,
            sha256=header.sha256,
            cap=self._limits.max_synthetic_bytes,
        )
        verdict = admission.admit_publication(record, caller.name, header)
        if verdict is Verdict.ACCEPT:
            async with self._place(caller) as spool:
                await receive(parts, order, spool, limits=self._limits, threads=self._threads)
                await asyncio.to_thread(
                    check_rows, spool.path, record.study.table, header.form, n_rows=header.n_rows
                )
                record, verdict = await self._studies.publish(caller.name, header, spool)
        note(
            "synthetic rows",
            study=record.study.name,
            owner=caller.name,
            form=header.form.value,
            rows=header.n_rows,
            bytes=header.total_bytes,
            already_stored=verdict is Verdict.ALREADY_STORED,
        )
        return pb.PublishSyntheticResponse(already_stored=verdict is Verdict.ALREADY_STORED)

    @streams(Role.OWNER, Role.OPERATOR)
    async def DownloadSynthetic(  # noqa: N802
        self, request: pb.DownloadSyntheticRequest, caller: Caller
    ) -> AsyncIterator[pb.Chunk]:
        """All owners' synthetic rows of one form as one table."""
        record = self._visible(request.study_digest, caller)
        form = form_from_wire(request.form)
        store = self._studies.store
        parts = [p for p in record.publications if p.form is form]
        paths = [store.content(p.sha256) for p in parts]
        if not paths:
            message = f"no {form.value} rows have been published for study {record.study.name}"
            raise NotReadyError(message)
        receipt = await asyncio.to_thread(self._receipt_of_rows, record, parts)
        async for chunk in chunked(joined(paths, record.study.table, form, receipt)):
            yield chunk

    @asynccontextmanager
    async def _place(self, caller: Caller) -> AsyncIterator[Spool]:
        """A place for an upload of a caller, and a file for its bytes."""
        with self._slots.take(caller.name):
            async with spooled(self._studies.store, self._threads) as spool:
                yield spool

    def _receipt_of_rows(self, record: StudyRecord, parts: list[Publication]) -> bytes:
        """What joined rows claim: it follows from the components that they were drawn from."""
        content = self._studies.store.read(protocol.result_of(record).sha256)
        return receipt_of_joined(record.study, content, parts)

    def _visible(self, digest: bytes, caller: Caller) -> StudyRecord:
        if len(digest) != DIGEST_BYTES:
            message = f"a study's digest has {DIGEST_BYTES} bytes, not {len(digest)}"
            raise InputError(message)
        record = self._studies.require(digest)
        require_sight(caller, record)
        return record


def _synthetic_header(message: pb.SyntheticHeader) -> SyntheticHeader:
    for name in ("study_digest", "sha256", "components_sha256"):
        if len(getattr(message, name)) != DIGEST_BYTES:
            text = f"{name} has {len(getattr(message, name))} bytes, not {DIGEST_BYTES}"
            raise UploadError(text)
    return SyntheticHeader(
        study_digest=message.study_digest,
        form=form_from_wire(message.form),
        n_rows=message.n_rows,
        total_bytes=message.total_bytes,
        sha256=message.sha256,
        components_sha256=message.components_sha256,
    )
