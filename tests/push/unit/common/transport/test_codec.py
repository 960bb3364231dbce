"""What another machine answers is read into values, and nothing of it obeys its author."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import PeerError, UploadError
from dppca.common.transport.codec import read_message
from dppca.common.wire import federation_pb2 as pb


@dataclass(frozen=True)
class Owner:
    name: str
    n_rows: int
    opener: bool
    received: datetime
    voted: datetime | None


@dataclass(frozen=True)
class Summary:
    digest: str
    state: StudyState


@dataclass(frozen=True)
class Details:
    summary: Summary
    owners: tuple[Owner, ...]
    missing_openers: tuple[str, ...]
    set_digest: str | None


SUMMARY = pb.StudySummary(digest=b"\x01\xff", state=pb.STUDY_STATE_SEALED)


def test_a_message_is_read_by_the_names_and_kinds_of_the_fields() -> None:
    owner = pb.OwnerStatus(name="a\x1b[2J", n_rows=3, opener=True, received_s=60)
    message = pb.ShowStudyResponse(summary=SUMMARY, owners=[owner], missing_openers=["b\nc"])
    read = read_message(Details, message)
    assert read.summary == Summary("01ff", StudyState.SEALED)
    (one,) = read.owners
    assert (one.n_rows, one.opener, one.voted) == (3, True, None)
    assert one.received == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    assert "\x1b" not in one.name
    assert "\n" not in read.missing_openers[0]
    assert read.set_digest is None


@pytest.mark.parametrize(
    ("kind", "message", "error"),
    [
        (Owner, pb.OwnerStatus(received_s=1 << 62), PeerError),
        (Summary, pb.StudySummary(state=99), UploadError),  # type: ignore[arg-type]
    ],
    ids=["time", "state"],
)
def test_what_this_version_cannot_read_is_refused(
    kind: type, message: pb.OwnerStatus | pb.StudySummary, error: type[Exception]
) -> None:
    with pytest.raises(error):
        read_message(kind, message)
