"""What operators call."""

from __future__ import annotations

import asyncio

from common.errors import LimitError
from common.study import MAX_DOCUMENT_BYTES, study_from_canonical
from common.transport.codec import state_to_wire
from common.transport.tls import Role
from common.wire import federation_pb2 as pb
from common.wire import federation_pb2_grpc as rpc
from curator.log import note
from curator.service.calls import Caller, answers
from curator.service.views import owner_status, summary_of
from curator.studies import Studies


class AdminService(rpc.AdminServicer):
    """What operators call."""

    def __init__(self, studies: Studies) -> None:
        self._studies = studies

    @answers(Role.OPERATOR)
    async def CreateStudy(  # noqa: N802
        self, request: pb.CreateStudyRequest, caller: Caller
    ) -> pb.CreateStudyResponse:
        """Begin a study."""
        if len(request.document) > MAX_DOCUMENT_BYTES:
            message = f"{len(request.document)} bytes; a study has at most {MAX_DOCUMENT_BYTES}"
            raise LimitError(message)
        study = await asyncio.to_thread(study_from_canonical, request.document)
        record, existed = await self._studies.create(study)
        note(
            "study created",
            study=study.name,
            digest=study.digest,
            operator=caller.name,
            already_stored=existed,
        )
        return pb.CreateStudyResponse(digest=record.digest, already_stored=existed)

    @answers(Role.OPERATOR)
    async def ShowStudy(  # noqa: N802
        self, request: pb.ShowStudyRequest, caller: Caller
    ) -> pb.ShowStudyResponse:
        """Who has come."""
        record = self._studies.require_named(request.name)
        return pb.ShowStudyResponse(
            summary=summary_of(record, caller),
            document=record.study.canonical_bytes(),
            owners=[owner_status(record, owner) for owner in record.study.owners],
            reason=record.reason,
        )

    @answers(Role.OPERATOR)
    async def CloseStudy(  # noqa: N802
        self, request: pb.CloseStudyRequest, caller: Caller
    ) -> pb.CloseStudyResponse:
        """Take no more synthetic rows."""
        record = await self._studies.close_study(request.name)
        note("study closed", study=request.name, operator=caller.name)
        return pb.CloseStudyResponse(state=state_to_wire(record.state))

    @answers(Role.OPERATOR)
    async def AbortStudy(  # noqa: N802
        self, request: pb.AbortStudyRequest, caller: Caller
    ) -> pb.AbortStudyResponse:
        """End an open study."""
        record = await self._studies.abort_study(request.name, request.reason)
        note("study aborted", study=request.name, operator=caller.name)
        return pb.AbortStudyResponse(state=state_to_wire(record.state))
