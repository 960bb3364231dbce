from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from common.conversation import Header, StudyState
from common.errors import (
    ConflictError,
    DppcaError,
    InputError,
    NotReadyError,
    RangeError,
    StudyError,
    StudyStateError,
)
from curator import protocol
from curator.protocol import TRANSITIONS, Due, Step, next_state
from curator.record import Chain, Content, Contribution, StudyRecord
from tests.support.hub import header_of, make_release, make_study

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DEADLINE = NOW + timedelta(hours=1)
RESULT = Content(10, b"r" * 32)


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
        chain=Chain(1, b"h" * 32),
        receipt=header.receipt,
        received_s=1,
    )


@pytest.mark.parametrize("state", StudyState)
@pytest.mark.parametrize("step", Step)
def test_every_pair_that_the_table_does_not_list_is_illegal(state: StudyState, step: Step) -> None:
    record = record_with(state=state)
    if (state, step) in TRANSITIONS:
        assert next_state(record, step) is TRANSITIONS[state, step]
        return
    with pytest.raises(StudyStateError, match=state.value):
        next_state(record, step)


def test_the_table_of_the_docstring_is_the_table() -> None:
    lines = (protocol.__doc__ or "").splitlines()
    head = next(index for index, line in enumerate(lines) if line.split() == list(Step))
    told = {}
    for line in lines[head + 1 : head + 1 + len(StudyState)]:
        state, *after = line.split()
        told.update(
            {
                (StudyState(state), step): StudyState(to)
                for step, to in zip(Step, after, strict=True)
                if to != "-"
            }
        )
    assert told == TRANSITIONS


@pytest.mark.parametrize(
    "step",
    [
        protocol.close,
        lambda record: protocol.abort(record, "no longer needed"),
        lambda record: protocol.decompose(record, record.contributions, RESULT, now=NOW),
    ],
)
@pytest.mark.parametrize("state", StudyState)
def test_an_illegal_step_raises_and_leaves_the_study_as_it_was(
    state: StudyState, step: Callable[[StudyRecord], StudyRecord]
) -> None:
    record = record_with("owner-1", "owner-2", "owner-3", state=state)
    before = replace(record)
    try:
        after = step(record)
    except StudyStateError:
        pass
    else:
        assert (state, after.state) in {(start, end) for (start, _), end in TRANSITIONS.items()}
    assert record == before


def test_a_study_is_due_when_all_have_come() -> None:
    assert protocol.due(record_with("owner-1", "owner-2"), now=NOW) is Due.NOTHING
    assert protocol.due(record_with("owner-1", "owner-2", "owner-3"), now=NOW) is Due.DECOMPOSE


@pytest.mark.parametrize(
    ("come", "now", "expected"),
    [
        (1, NOW, Due.NOTHING),
        (2, NOW, Due.NOTHING),
        (3, NOW, Due.DECOMPOSE),
        (1, DEADLINE, Due.ABORT),
        (2, DEADLINE, Due.DECOMPOSE),
        (2, DEADLINE + timedelta(days=9), Due.DECOMPOSE),
        (0, DEADLINE, Due.ABORT),
    ],
)
def test_at_the_deadline_a_quorum_decides(come: int, now: datetime, expected: Due) -> None:
    owners = [f"owner-{number + 1}" for number in range(come)]
    record = record_with(*owners, quorum=2, deadline=DEADLINE)
    assert protocol.due(record, now=now) is expected


@pytest.mark.parametrize("state", sorted(set(StudyState) - {StudyState.OPEN}))
def test_nothing_is_due_once_a_study_is_no_longer_open(state: StudyState) -> None:
    record = record_with("owner-1", "owner-2", "owner-3", state=state)
    assert protocol.due(record, now=NOW) is Due.NOTHING


def test_a_result_of_other_contributions_is_refused() -> None:
    record = record_with("owner-1", "owner-2", "owner-3")
    with pytest.raises(StudyStateError, match="changed"):
        protocol.decompose(record, record.contributions[:2], RESULT, now=NOW)


def test_a_study_that_waits_is_not_decomposed() -> None:
    record = record_with("owner-1")
    with pytest.raises(StudyStateError, match="waits"):
        protocol.decompose(record, record.contributions, RESULT, now=NOW)


def test_a_decomposed_study_has_its_result() -> None:
    record = record_with("owner-1", "owner-2", "owner-3")
    with pytest.raises(NotReadyError):
        protocol.result_of(record)
    after = protocol.decompose(record, record.contributions, RESULT, now=NOW)
    assert (after.state, protocol.result_of(after)) == (StudyState.DECOMPOSED, RESULT)
    assert protocol.result_of(protocol.close(after)) == RESULT


def test_an_aborted_study_says_why_it_has_no_result() -> None:
    record = protocol.abort(record_with(), "the schema was wrong")
    with pytest.raises(StudyStateError, match="the schema was wrong"):
        protocol.result_of(record)
    assert protocol.abort(record, "again") == record


@pytest.mark.parametrize("reason", ["", "x" * 201, "two\nlines", "\x1b[31mred"])
def test_a_reason_is_one_short_line(reason: str) -> None:
    with pytest.raises(InputError):
        protocol.abort(record_with(), reason)


def test_the_same_document_again_has_no_effect_even_after_its_deadline() -> None:
    study = make_study(deadline=DEADLINE)
    record = protocol.create(None, study, now=NOW)
    assert record.state is StudyState.OPEN
    assert protocol.create(record, study, now=DEADLINE) is record


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"deadline": NOW}, StudyError),
        ({"overlap": True}, ConflictError),
        ({"name": "huge", "privacy": {"mechanism": "laplace", "epsilon": "1e-17"}}, RangeError),
    ],
)
def test_a_study_that_cannot_be_is_refused(
    changes: dict[str, Any], error: type[DppcaError]
) -> None:
    study = make_study(**changes)
    existing = record_with() if error is ConflictError else None
    with pytest.raises(error):
        protocol.create(existing, study, now=NOW)
