from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dppca.common.errors import (
    ConflictError,
    DppcaError,
    InputError,
    NotReadyError,
    RangeError,
    StudyError,
    StudyStateError,
)
from dppca.common.messages import Header, StudyState
from dppca.curator.study import lifecycle
from dppca.curator.study.lifecycle import TRANSITIONS, NextAction, Transition, next_state
from dppca.curator.study.study_record import Contribution, LedgerHead, StoredBlob, StudyRecord
from tests.support.census import header_of, make_release, make_study

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DEADLINE = NOW + timedelta(hours=1)
RESULT = StoredBlob(10, b"r" * 32)


def record_with(*owners: str, state: StudyState = StudyState.OPEN, **changes: Any) -> StudyRecord:
    study = make_study(**changes)
    header = header_of(make_release(study))
    return StudyRecord(
        study=study,
        state=state,
        created_s=0,
        contributions=tuple(contribution(owner, header) for owner in sorted(owners)),
    )


def contribution(owner: str, header: Header) -> Contribution:
    return Contribution(
        owner=owner,
        release_id=owner.encode().ljust(16),
        n_rows=header.n_rows,
        n_bytes=header.total_bytes,
        sha256=header.sha256,
        chain=LedgerHead(1, b"h" * 32),
        receipt=header.receipt,
        received_s=1,
    )


@pytest.mark.parametrize("state", StudyState)
@pytest.mark.parametrize("step", Transition)
def test_every_pair_that_the_table_does_not_list_is_illegal(
    state: StudyState, step: Transition
) -> None:
    record = record_with(state=state)
    if (state, step) in TRANSITIONS:
        assert next_state(record, step) is TRANSITIONS[state, step]
        return
    with pytest.raises(StudyStateError, match=state.value):
        next_state(record, step)


def test_the_table_of_the_docstring_is_the_table() -> None:
    lines = (lifecycle.__doc__ or "").splitlines()
    head = next(index for index, line in enumerate(lines) if line.split() == list(Transition))
    told = {}
    for line in lines[head + 1 : head + 1 + len(StudyState)]:
        state, *after = line.split()
        told.update(
            {
                (StudyState(state), step): StudyState(to)
                for step, to in zip(Transition, after, strict=True)
                if to != "-"
            }
        )
    assert told == TRANSITIONS


STEPS: dict[Transition, Callable[[StudyRecord], StudyRecord]] = {
    Transition.CLOSE: lifecycle.close,
    Transition.ABORT: lambda record: lifecycle.abort(record, "no longer needed"),
    Transition.DECOMPOSE: lambda record: lifecycle.decompose(
        record, record.contributions, RESULT, now=NOW
    ),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("state", StudyState)
def test_a_step_leads_where_the_table_says_and_is_refused_where_it_says_nothing(
    state: StudyState, step: Transition
) -> None:
    record = record_with("owner-1", "owner-2", "owner-3", state=state)
    if (state, step) in TRANSITIONS:
        assert STEPS[step](record).state is TRANSITIONS[state, step]
        return
    with pytest.raises(StudyStateError, match=state.value):
        STEPS[step](record)


def test_a_study_is_due_when_all_have_come() -> None:
    assert lifecycle.next_action(record_with("owner-1", "owner-2"), now=NOW) is NextAction.NOTHING
    assert (
        lifecycle.next_action(record_with("owner-1", "owner-2", "owner-3"), now=NOW)
        is NextAction.DECOMPOSE
    )


@pytest.mark.parametrize(
    ("come", "now", "expected"),
    [
        (1, NOW, NextAction.NOTHING),
        (2, NOW, NextAction.NOTHING),
        (3, NOW, NextAction.DECOMPOSE),
        (1, DEADLINE, NextAction.ABORT),
        (2, DEADLINE, NextAction.DECOMPOSE),
        (2, DEADLINE + timedelta(days=9), NextAction.DECOMPOSE),
        (0, DEADLINE, NextAction.ABORT),
    ],
)
def test_at_the_deadline_a_quorum_decides(come: int, now: datetime, expected: NextAction) -> None:
    owners = [f"owner-{number + 1}" for number in range(come)]
    record = record_with(*owners, quorum=2, deadline=DEADLINE)
    assert lifecycle.next_action(record, now=now) is expected


@pytest.mark.parametrize("state", sorted(set(StudyState) - {StudyState.OPEN}))
def test_nothing_is_due_once_a_study_is_no_longer_open(state: StudyState) -> None:
    record = record_with("owner-1", "owner-2", "owner-3", state=state)
    assert lifecycle.next_action(record, now=NOW) is NextAction.NOTHING


def test_a_result_of_other_contributions_is_refused() -> None:
    record = record_with("owner-1", "owner-2", "owner-3")
    with pytest.raises(StudyStateError, match="changed"):
        lifecycle.decompose(record, record.contributions[:2], RESULT, now=NOW)


def test_a_study_that_waits_is_not_decomposed() -> None:
    record = record_with("owner-1")
    with pytest.raises(StudyStateError, match="waits"):
        lifecycle.decompose(record, record.contributions, RESULT, now=NOW)


def test_a_decomposed_study_has_its_result() -> None:
    record = record_with("owner-1", "owner-2", "owner-3")
    with pytest.raises(NotReadyError, match="still waits for 0 owners"):
        lifecycle.require_result(record)
    after = lifecycle.decompose(record, record.contributions, RESULT, now=NOW)
    assert (after.state, lifecycle.require_result(after)) == (StudyState.DECOMPOSED, RESULT)
    assert lifecycle.require_result(lifecycle.close(after)) == RESULT


def test_an_aborted_study_says_why_it_has_no_result() -> None:
    record = lifecycle.abort(record_with(), "the schema was wrong")
    with pytest.raises(StudyStateError, match="the schema was wrong"):
        lifecycle.require_result(record)
    assert lifecycle.abort(record, "again") == record


@pytest.mark.parametrize("reason", ["", "x" * 201, "two\nlines", "\x1b[31mred"])
def test_a_reason_is_one_short_line(reason: str) -> None:
    for taken in ("x", "x" * 200):
        assert lifecycle.abort(record_with(), taken).reason == taken
    with pytest.raises(InputError, match="one line of 1 to 200 characters"):
        lifecycle.abort(record_with(), reason)


def test_the_same_document_again_has_no_effect_even_after_its_deadline() -> None:
    study = make_study(deadline=DEADLINE)
    record = lifecycle.create(None, study, now=NOW)
    assert (record.state, record.created_s) == (StudyState.OPEN, int(NOW.timestamp()))
    assert lifecycle.create(record, study, now=DEADLINE) is record


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"deadline": NOW}, StudyError, "deadline of study census has passed"),
        ({"overlap": True}, ConflictError, "another study called census"),
        ({"privacy": {"mechanism": "laplace", "epsilon": "1e-17"}}, RangeError, r"reach 2\^62"),
    ],
)
def test_a_study_that_cannot_be_is_refused(
    changes: dict[str, Any], error: type[DppcaError], says: str
) -> None:
    study = make_study(**changes)
    existing = record_with() if error is ConflictError else None
    with pytest.raises(error, match=says):
        lifecycle.create(existing, study, now=NOW)
