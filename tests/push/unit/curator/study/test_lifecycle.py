import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import (
    ConflictError,
    DppcaError,
    InputError,
    NotReadyError,
    RangeError,
    StudyError,
    StudyStateError,
)
from dppca.common.kernel.study import Study, Trust, study_from_mapping
from dppca.curator.study import lifecycle
from dppca.curator.study.lifecycle import TRANSITIONS, NextAction, Transition
from dppca.curator.study.study_record import Sealing, StoredOpening, StoredResult, StudyRecord
from tests.support.census import make_release
from tests.support.masked import make_masked_study
from tests.support.pooling import contribution_of
from tests.support.studies import make_study, numeric_of

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DEADLINE = NOW + timedelta(hours=1)
OPEN_BY = NOW + timedelta(days=1)
RESULT = StoredResult(10, b"r" * 32, b"envelope")
RELEASE = make_release(make_study())


def record_with(*owners: str, state: StudyState = StudyState.OPEN, **changes: Any) -> StudyRecord:
    return record_of(make_study(**changes), owners, state)


def masked_with(*owners: str, state: StudyState = StudyState.OPEN, **changes: Any) -> StudyRecord:
    """A study with ``trust: aggregate``: owner-1 to owner-4, the first two of them openers."""
    sealing = None if state is StudyState.OPEN else Sealing(b"s" * 32, 1)
    return replace(record_of(make_masked_study(**changes).study, owners, state), sealing=sealing)


def record_of(study: Study, owners: Iterable[str], state: StudyState) -> StudyRecord:
    taken = (contribution_of(owner, RELEASE) for owner in sorted(owners))
    return StudyRecord(study=study, state=state, created_s=0, contributions=tuple(taken))


def opened(record: StudyRecord, *openers: str) -> StudyRecord:
    """The study with what some openers opened: the stream that each holds."""
    streams = {name: place for place, name in enumerate(sorted(record.study.openers or {}))}
    openings = tuple(
        StoredOpening(name, (streams[name],), 8, b"t" * 32, b"", b"m" * 32, 2) for name in openers
    )
    return replace(record, openings=openings)


ALL = ("owner-1", "owner-2", "owner-3", "owner-4")
ELSEWHERE = {
    Trust.OWNER: (StudyState.OPEN, Transition.SEAL),
    Trust.AGGREGATE: (StudyState.OPEN, Transition.DECOMPOSE),
}
"""The pair of the table that the other trust has alone."""


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
    Transition.SEAL: lambda record: lifecycle.seal(
        record, record.contributions, b"d" * 32, now=NOW
    ),
    Transition.CLOSE: lifecycle.close,
    Transition.ABORT: lambda record: lifecycle.abort(record, "no longer needed"),
    Transition.DECOMPOSE: lambda record: lifecycle.decompose(
        record, record.contributions, RESULT, now=NOW
    ),
}


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("state", StudyState)
def test_a_step_leads_where_the_table_says_and_is_refused_where_it_says_nothing(
    trust: Trust, state: StudyState, step: Transition
) -> None:
    record = record_with(*ALL[:3], state=state)
    if trust is Trust.AGGREGATE:
        record = opened(masked_with(*ALL, state=state), "owner-1", "owner-2")
    elif state is StudyState.SEALED:
        return  # no study of this trust is
    if (state, step) in TRANSITIONS and (state, step) != ELSEWHERE[trust]:
        assert STEPS[step](record).state is TRANSITIONS[state, step]
        return
    with pytest.raises(StudyStateError, match=state.value):
        STEPS[step](record)


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


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize("state", sorted(set(StudyState) - {StudyState.OPEN, StudyState.SEALED}))
def test_nothing_is_due_once_a_study_waits_for_nobody(trust: Trust, state: StudyState) -> None:
    record = record_with(*ALL[:3], state=state) if trust is Trust.OWNER else masked_with(*ALL)
    record = replace(record, state=state)
    assert lifecycle.next_action(record, now=OPEN_BY) is NextAction.NOTHING


@pytest.mark.parametrize(
    ("come", "now", "expected"),
    [
        (3, NOW, NextAction.NOTHING),
        (4, NOW, NextAction.SEAL),
        (2, DEADLINE, NextAction.ABORT),
        (3, DEADLINE, NextAction.SEAL),
        (0, DEADLINE, NextAction.ABORT),
        (4, OPEN_BY, NextAction.SEAL),
    ],
)
def test_a_masked_study_is_sealed_where_another_is_decomposed(
    come: int, now: datetime, expected: NextAction
) -> None:
    record = masked_with(*ALL[:come], quorum=3, deadline=DEADLINE, open_by=OPEN_BY)
    assert lifecycle.next_action(record, now=now) is expected
    if expected is NextAction.ABORT:
        assert lifecycle.abort_late(record, now=now).reason == lifecycle.QUORUM_REASON
    else:
        with pytest.raises(StudyStateError, match="is open and not late"):
            lifecycle.abort_late(record, now=now)


@pytest.mark.parametrize(
    ("openers", "now", "expected"),
    [
        ((), NOW, NextAction.NOTHING),
        (("owner-1",), NOW, NextAction.NOTHING),
        (("owner-1", "owner-2"), NOW, NextAction.DECOMPOSE),
        (("owner-1", "owner-2"), OPEN_BY, NextAction.DECOMPOSE),
        (("owner-2",), OPEN_BY, NextAction.ABORT),
        ((), OPEN_BY, NextAction.ABORT),
    ],
)
def test_a_sealed_study_is_decomposed_once_every_stream_is_opened(
    openers: tuple[str, ...], now: datetime, expected: NextAction
) -> None:
    record = opened(masked_with(*ALL, state=StudyState.SEALED, open_by=OPEN_BY), *openers)
    assert lifecycle.next_action(record, now=now) is expected
    if expected is NextAction.ABORT:
        assert lifecycle.abort_late(record, now=now).reason == lifecycle.OPENERS_REASON
    else:
        with pytest.raises(StudyStateError, match="is sealed and not late"):
            lifecycle.abort_late(record, now=now)
    if expected is NextAction.DECOMPOSE:
        after = lifecycle.decompose(record, record.contributions, RESULT, now=now)
        assert (after.state, after.result) == (StudyState.DECOMPOSED, RESULT)
        assert (after.sealing, after.openings) == (record.sealing, record.openings)
        garbled = lifecycle.abort_undecomposed(
            record, record.contributions, lifecycle.GARBLED_REASON, now=now
        )
        assert garbled.reason == lifecycle.GARBLED_REASON
        for other, taken in (
            (after, record.contributions),
            (lifecycle.abort(record, "enough"), record.contributions),
            (record, record.contributions[1:]),
        ):
            with pytest.raises(StudyStateError):
                lifecycle.abort_undecomposed(other, taken, lifecycle.GARBLED_REASON, now=now)
    else:
        with pytest.raises(StudyStateError, match="still waits for openers"):
            lifecycle.decompose(record, record.contributions, RESULT, now=now)


def test_the_set_is_sealed_once_and_is_what_has_come() -> None:
    record = masked_with(*ALL)
    sealed = lifecycle.seal(record, record.contributions, b"d" * 32, now=NOW)
    assert sealed == replace(
        record, state=StudyState.SEALED, sealing=Sealing(b"d" * 32, int(NOW.timestamp()))
    )
    for refused, taken, says in (
        (record, record.contributions[:3], "changed meanwhile"),
        (masked_with(*ALL[:3]), masked_with(*ALL[:3]).contributions, "still waits for owners"),
        (sealed, sealed.contributions, "is sealed: it cannot seal"),
        (record_with(*ALL[:3]), record_with(*ALL[:3]).contributions, "is open: it cannot seal"),
    ):
        with pytest.raises(StudyStateError, match=says):
            lifecycle.seal(refused, taken, b"e" * 32, now=NOW)


def test_a_quorum_is_sealed_once_the_deadline_has_passed() -> None:
    record = masked_with(*ALL[:3], quorum=3, deadline=DEADLINE.isoformat(), colluders=1)
    with pytest.raises(StudyStateError, match="still waits for owners"):
        lifecycle.seal(record, record.contributions, b"d" * 32, now=NOW)
    sealed = lifecycle.seal(record, record.contributions, b"d" * 32, now=DEADLINE)
    assert sealed.sealing == Sealing(b"d" * 32, int(DEADLINE.timestamp()))


def test_a_sealed_study_says_which_openers_it_waits_for() -> None:
    record = opened(masked_with(*ALL, state=StudyState.SEALED), "owner-1")
    with pytest.raises(NotReadyError, match=r"waits to be opened by owner-2$"):
        lifecycle.require_result(record)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_study_whose_keys_do_not_fit_is_not_begun(seed: int) -> None:
    made, other = make_masked_study(), make_masked_study(seed=seed)
    document = json.loads(made.study.canonical_bytes())
    document["openers"]["owner-1"] = json.loads(other.study.canonical_bytes())["openers"]["owner-1"]
    with pytest.raises(StudyError, match="opener key of owner-1 is not signed"):
        lifecycle.create(None, study_from_mapping(document), now=NOW)
    assert lifecycle.create(None, made.study, now=NOW).state is StudyState.OPEN
    with pytest.raises(StudyError, match="open_by of study study has passed"):
        lifecycle.create(None, made.study, now=datetime(2100, 1, 1, tzinfo=UTC))


def test_a_decomposed_study_has_its_result() -> None:
    record = record_with("owner-1", "owner-2", "owner-3")
    with pytest.raises(NotReadyError, match="still waits for 0 owners"):
        lifecycle.require_result(record)
    for waiting, taken, says in (
        (record, record.contributions[:2], "changed"),
        (record_with("owner-1"), record_with("owner-1").contributions, "waits"),
    ):
        with pytest.raises(StudyStateError, match=says):
            lifecycle.decompose(waiting, taken, RESULT, now=NOW)
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
        ({"overlap": True}, ConflictError, "another study is called census"),
        ({"privacy": {"mechanism": "laplace", "epsilon": "1e-17"}}, RangeError, r"reach 2\^62"),
        (
            {
                "attributes": [numeric_of("id", 0, 1.9e19, integer=True), numeric_of("x", 0, 1)],
                "components": {"count": 1},
            },
            StudyError,
            r"id: .*\(2\^53\)",
        ),
    ],
)
def test_a_study_that_cannot_be_is_refused(
    changes: dict[str, Any], error: type[DppcaError], says: str
) -> None:
    study = make_study(**changes)
    existing = record_with() if error is ConflictError else None
    with pytest.raises(error, match=says):
        lifecycle.create(existing, study, now=NOW)
