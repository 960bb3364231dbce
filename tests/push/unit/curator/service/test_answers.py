"""An owner's summary of a study is about itself; an operator's says whom the study waits for."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import InputError
from dppca.common.kernel.identity.tls import Identity, Role
from dppca.common.transport.channels import STUDIES_PAGE
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.service.answers import MOST_NAMES, heard_by, study_page, study_summary
from dppca.curator.service.calls import Caller
from dppca.curator.service.recent_refusals import RecentRefusals
from dppca.curator.study.study_record import LedgerHead, OwnerHistory, StudyRecord
from tests.support.studies import make_study

DEADLINE = datetime(2027, 1, 31, 12, 0, tzinfo=UTC)
OWNERS = [f"owner-{number:02}" for number in range(20)]
STUDY = make_study(owners=OWNERS, deadline=DEADLINE.isoformat(), epsilon="1.50", delta="1e-6")
OPERATORS_ONLY = ("epsilon", "delta", "deadline_s", "missing", "unheard")


def _summary(role: Role, state: StudyState = StudyState.OPEN, **heard: Any) -> pb.StudySummary:
    caller = Caller(Identity("owner-01", role), None, b"", lambda _: None)
    record = StudyRecord(study=STUDY, state=state, created_s=0)
    return study_summary(record, caller, lambda owner: heard.get(owner, False))


@pytest.mark.parametrize("state", StudyState)
def test_an_owner_gets_no_name_of_another(state: StudyState) -> None:
    summary = _summary(Role.OWNER, state)
    assert {field.name for field, _ in summary.ListFields()}.isdisjoint(OPERATORS_ONLY)
    assert b"owner-" not in summary.SerializeToString()


def test_an_operator_gets_what_it_costs_how_long_it_waits_and_the_first_names() -> None:
    summary = _summary(Role.OPERATOR, **{"owner-00": True})
    assert (summary.epsilon, summary.delta) == ("1.5", "0.000001")
    assert summary.deadline_s == DEADLINE.timestamp()
    assert list(summary.missing.first) == OWNERS[:MOST_NAMES]
    assert list(summary.unheard.first) == OWNERS[1 : MOST_NAMES + 1]
    assert (summary.missing.total, summary.unheard.total) == (20, 19)


def test_nobody_is_missing_once_a_study_has_ended() -> None:
    summary = _summary(Role.OPERATOR, StudyState.ABORTED)
    assert (summary.missing.total, summary.unheard.total, summary.deadline_s) == (0, 0, 0)


def test_an_owner_is_heard_if_it_has_called_or_contributed() -> None:
    refusals = RecentRefusals(lambda: DEADLINE)
    refusals.called.add("called")
    sent = OwnerHistory().contributed(b"r" * 16, LedgerHead(1, b"h" * 32))
    histories = {"sent": sent}
    store = SimpleNamespace(history=lambda owner: histories.get(owner, OwnerHistory()))
    is_heard = heard_by(cast("Any", store), refusals)
    assert [is_heard(owner) for owner in ("called", "sent", "stranger")] == [True, True, False]


def _open(name: str) -> StudyRecord:
    return StudyRecord(study=make_study(name=name), state=StudyState.OPEN, created_s=0)


@pytest.mark.parametrize("most", [1, 2, 3, 7, 8, STUDIES_PAGE, 10**9])
def test_pages_of_studies_together_are_the_list(most: int) -> None:
    records = [_open(f"s{n}") for n in range(7)]
    seen: list[StudyRecord] = []
    has_more, after = True, b""
    while has_more:
        page, has_more = study_page(records, most=most, after=after)
        assert 0 < len(page) <= most
        seen += page
        after = page[-1].digest
        records = [_open(f"new-{len(seen)}"), *records]
    assert [each.study.name for each in seen] == [f"s{n}" for n in range(7)]


def test_an_earlier_version_gets_the_whole_list_and_no_page_is_larger_than_ours() -> None:
    record = _open("one")
    many = [record] * (2 * STUDIES_PAGE)
    assert study_page(many, most=0, after=b"") == (many, False)
    page, has_more = study_page(many, most=2 * STUDIES_PAGE, after=b"")
    assert (len(page), has_more) == (STUDIES_PAGE, True)
    assert study_page([], most=5, after=b"") == ([], False)
    with pytest.raises(InputError, match="no study"):
        study_page(many, most=5, after=b"x" * 32)
