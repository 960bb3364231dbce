"""What callers are shown of a study."""

from __future__ import annotations

from common.conversation import Form
from common.errors import UnknownStudyError
from common.transport.codec import state_to_wire
from common.wire import federation_pb2 as pb
from curator.record import StudyRecord
from curator.service.calls import Caller


def sees(caller: Caller, record: StudyRecord) -> bool:
    """Owners see studies that name them; operators all."""
    return not caller.is_owner or caller.name in record.study.owners


def require_sight(caller: Caller, record: StudyRecord) -> None:
    """Refuse whoever may not see a study, as if there were no such study."""
    if not sees(caller, record):
        message = f"study {record.study.name} does not name {caller.name}"
        raise UnknownStudyError(message)


def summary_of(record: StudyRecord, caller: Caller) -> pb.StudySummary:
    """A study in one line."""
    return pb.StudySummary(
        name=record.study.name,
        digest=record.digest,
        state=state_to_wire(record.state),
        contributed=caller.is_owner and caller.name in record.contributed,
        contributions=len(record.contributions),
        owners=len(record.study.owners),
        created_s=record.created_s,
    )


def owner_status(record: StudyRecord, owner: str) -> pb.OwnerStatus:
    """What has come of one owner."""
    status = pb.OwnerStatus(name=owner)
    contribution = record.contribution_of(owner)
    if contribution is not None:
        status.contributed = True
        status.n_rows = contribution.n_rows
        status.bytes = contribution.n_bytes
        status.received_s = contribution.received_s
    coded = record.publication_of(owner, Form.CODED)
    decoded = record.publication_of(owner, Form.DECODED)
    status.synthetic_coded_rows = 0 if coded is None else coded.n_rows
    status.synthetic_decoded_rows = 0 if decoded is None else decoded.n_rows
    return status
