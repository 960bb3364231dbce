"""RPCs for operators; auditors may call those that read."""

import asyncio
from collections.abc import AsyncGenerator

from dppca.common.kernel.documents.yaml_text import MAX_DOCUMENT_BYTES
from dppca.common.kernel.errors import LimitError
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.study import study_from_canonical
from dppca.common.transport.codec import state_to_wire
from dppca.common.wire import federation_pb2 as pb
from dppca.common.wire import federation_pb2_grpc as rpc
from dppca.curator.config import Limits
from dppca.curator.observability.log import log_event
from dppca.curator.service.answers import (
    heard_by,
    newest_looks,
    note_version,
    owner_status,
    refusal_to_wire,
    require_visible,
    seen_owner,
    settlement_to_wire,
    study_summary,
)
from dppca.curator.service.calls import Caller, server_stream, unary
from dppca.curator.service.coordinator import StudyCoordinator
from dppca.curator.service.recent_refusals import RecentRefusals
from dppca.curator.study.admission import largest_contribution
from dppca.curator.study.auditor_looks import FIRST
from dppca.curator.study.sealed_set import missing_openers
from dppca.curator.study.study_record import StudyRecord


class AdminService(rpc.AdminServicer):
    """RPCs for operators; auditors may call those that read."""

    def __init__(self, studies: StudyCoordinator, limits: Limits, refusals: RecentRefusals) -> None:
        self.refusals = refusals
        self._studies = studies
        self._limits = limits
        self._is_heard = heard_by(studies.store, refusals)
        self.note_look = studies.note_look

    @unary(Role.OPERATOR)
    async def CreateStudy(  # noqa: N802
        self, request: pb.CreateStudyRequest, caller: Caller
    ) -> pb.CreateStudyResponse:
        """Create a study."""
        note_version(request.greeting, caller, self.refusals)
        if len(request.document) > MAX_DOCUMENT_BYTES:
            raise LimitError(
                f"{len(request.document)} bytes; a study has at most {MAX_DOCUMENT_BYTES}"
            )
        study = await asyncio.to_thread(study_from_canonical, request.document)
        # Otherwise owners would be charged first, and then refused for ever.
        size = await asyncio.to_thread(largest_contribution, study)
        if size > self._limits.max_contribution_bytes:
            raise LimitError(
                f"a contribution to study {study.name} has up to {size} bytes; this curator takes "
                f"{self._limits.max_contribution_bytes}"
            )
        record, existed = await self._studies.create(study)
        log_event(
            "study created",
            study=study.name,
            digest=study.digest,
            operator=caller.name,
            already_stored=existed,
        )
        return pb.CreateStudyResponse(
            digest=record.digest, already_stored=existed, greeting=self._studies.greet()
        )

    @unary(Role.OPERATOR, Role.AUDITOR)
    async def ShowStudy(  # noqa: N802
        self, request: pb.ShowStudyRequest, caller: Caller
    ) -> pb.ShowStudyResponse:
        """Return a study with the state of each owner."""
        record = self._require_named(request.name, caller)
        return pb.ShowStudyResponse(
            summary=study_summary(record, caller, self._is_heard),
            document=record.study.canonical_bytes(),
            owners=[owner_status(record, owner) for owner in record.study.owners],
            reason=record.reason,
            sealed_s=0 if record.sealing is None else record.sealing.sealed_s,
            set_digest=b"" if record.sealing is None else record.sealing.set_digest,
            missing_openers=missing_openers(record),
        )

    @unary(Role.OPERATOR)
    async def CloseStudy(  # noqa: N802
        self, request: pb.CloseStudyRequest, caller: Caller
    ) -> pb.CloseStudyResponse:
        """Stop accepting synthetic rows."""
        self._require_named(request.name, caller)
        record = await self._studies.close_study(request.name)
        log_event("study closed", study=request.name, operator=caller.name)
        return pb.CloseStudyResponse(state=state_to_wire(record.state))

    @unary(Role.OPERATOR)
    async def AbortStudy(  # noqa: N802
        self, request: pb.AbortStudyRequest, caller: Caller
    ) -> pb.AbortStudyResponse:
        """Abort a study that is open or sealed."""
        self._require_named(request.name, caller)
        record = await self._studies.abort_study(request.name, request.reason)
        log_event("study aborted", study=request.name, operator=caller.name)
        return pb.AbortStudyResponse(state=state_to_wire(record.state))

    @server_stream(Role.OPERATOR, Role.AUDITOR)
    async def ShowOwner(  # noqa: N802
        self,
        request: pb.ShowOwnerRequest,
        caller: Caller,  # noqa: ARG002 - any operator or auditor
    ) -> AsyncGenerator[pb.ShowOwnerResponse]:
        """Stream the record of an owner's ledger in pages."""
        store = self._studies.store
        for page in seen_owner(request.name, store.history(request.name), store.studies()):
            yield page

    @unary(Role.OPERATOR)
    async def SettleLedger(  # noqa: N802
        self, request: pb.SettleLedgerRequest, caller: Caller
    ) -> pb.SettleLedgerResponse:
        """Set aside the recorded chain of an owner's ledger."""
        by = f"operator:{caller.name}"
        settled = await self._studies.settle_ledger(request.name, by=by, reason=request.reason)
        log_event(
            "ledger settled",
            owner=request.name,
            operator=caller.name,
            reason=settled.reason,
            seen_length=settled.seen.length,
        )
        return pb.SettleLedgerResponse(settlement=settlement_to_wire(settled))

    @unary(Role.OPERATOR, Role.AUDITOR)
    async def ListRefusals(  # noqa: N802
        self, request: pb.ListRefusalsRequest, caller: Caller
    ) -> pb.ListRefusalsResponse:
        """Return recent refusals."""
        if request.study:
            self._require_named(request.study, caller)
        looks = self._studies.store.looks
        return pb.ListRefusalsResponse(
            refusals=[refusal_to_wire(each) for each in self.refusals.newest(request.study)],
            since_s=self.refusals.since_s,
            dropped=self.refusals.dropped,
            looks=newest_looks(looks.lines, request.study),
            broken_look=looks.broken,
            looks_head=looks.lines[-1].digest if looks.lines else FIRST,
        )

    def _require_named(self, name: str, caller: Caller) -> StudyRecord:
        record = self._studies.require_named(name)
        require_visible(caller, record)
        return record
