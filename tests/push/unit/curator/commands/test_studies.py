"""The list of studies as text."""

from dppca.common.transport.codec import read_message
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.commands.studies import list_text
from dppca.curator.operator.responses import ListedStudy


def test_the_list_says_what_a_study_costs_until_when_it_waits_and_for_whom() -> None:
    names = pb.NameList(first=["a", "b"], total=3)
    waiting = pb.StudySummary(
        name="census",
        title="Households, 2026",
        state=pb.STUDY_STATE_OPEN,
        contributions=1,
        owners=4,
        epsilon="1",
        delta="0.000001",
        deadline_s=1_800_000_000,
        missing=names,
        unheard=pb.NameList(first=["b"], total=1),
    )
    done = pb.StudySummary(name="done", state=pb.STUDY_STATE_CLOSED, contributions=2, owners=2)
    lines = list_text([read_message(ListedStudy, each) for each in (waiting, done)], width=None)
    assert lines.splitlines() == [
        "study   state   contributions  epsilon            deadline              missing"
        "          title",
        "census  open    1 of 4         1, delta 0.000001  2027-01-15 08:00 UTC  a, b and 1 more"
        "  Households, 2026",
        "done    closed  2 of 2",
        "Study census. Not heard of since the curator was started: b. "
        "`dppca-curator pki list` says who has a certificate, and `pki sign` enrols.",
    ]
    assert list_text([], width=None) == "No studies yet."
