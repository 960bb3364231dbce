"""The states of a study: pure, without I/O, clock or randomness.

A study moves through four states::

                 contribute   decompose    publish      close       abort
    open         open         decomposed   -            -           aborted
    decomposed   -            -            decomposed   closed      -
    closed       -            -            -            closed      -
    aborted      -            -            -            -           aborted

``-`` is illegal: it raises `StudyStateError`, and as every step returns a new `StudyRecord`, the
old one is as it was. Closing and aborting again have no effect, so that a call may be repeated.
What is contributed and published, and by whom, `dppca.curator.study.admission` decides.

A study is decomposed when all owners have come, or with a quorum once the deadline has passed; with
less it is aborted. What a site says of itself is never passed on: of late and missing owners the
others learn the names.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from enum import Enum, StrEnum, auto

from dppca.common.errors import (
    ConflictError,
    InputError,
    NotReadyError,
    StudyError,
    StudyStateError,
)
from dppca.common.messages import StudyState
from dppca.common.privacy.release import calibrate
from dppca.common.study import Study
from dppca.curator.study.study_record import Contribution, StoredBlob, StudyRecord

QUORUM_REASON = "The deadline passed before enough owners had contributed."
MAX_REASON_LENGTH = 200


class Transition(StrEnum):
    """What can happen to a study."""

    CONTRIBUTE = "contribute"
    DECOMPOSE = "decompose"
    PUBLISH = "publish"
    CLOSE = "close"
    ABORT = "abort"


TRANSITIONS: dict[tuple[StudyState, Transition], StudyState] = {
    (StudyState.OPEN, Transition.CONTRIBUTE): StudyState.OPEN,
    (StudyState.OPEN, Transition.DECOMPOSE): StudyState.DECOMPOSED,
    (StudyState.OPEN, Transition.ABORT): StudyState.ABORTED,
    (StudyState.DECOMPOSED, Transition.PUBLISH): StudyState.DECOMPOSED,
    (StudyState.DECOMPOSED, Transition.CLOSE): StudyState.CLOSED,
    (StudyState.CLOSED, Transition.CLOSE): StudyState.CLOSED,
    (StudyState.ABORTED, Transition.ABORT): StudyState.ABORTED,
}
"""The table above; a pair that is not listed is illegal."""


class NextAction(Enum):
    """What time and contributions ask for."""

    NOTHING = auto()
    DECOMPOSE = auto()
    ABORT = auto()


def create(existing: StudyRecord | None, study: Study, *, now: datetime) -> StudyRecord:
    """A study as the curator begins it; the stored one where it is the same document.

    Parameters
    ----------
    existing
        What has the study's name already.

    Raises
    ------
    ConflictError
        Another document has the name.
    StudyError
        The deadline has passed already.
    RangeError
        The study's integers could leave 64 bits.
    """
    if existing is not None:
        if existing.study.digest == study.digest:
            return existing
        raise ConflictError(f"there is another study called {study.name}: choose another name")
    calibrate(study)
    if study.deadline_passed(now):
        raise StudyError(f"the deadline of study {study.name} has passed: set a later one")
    return StudyRecord(study=study, state=StudyState.OPEN, created_s=int(now.timestamp()))


def next_action(record: StudyRecord, *, now: datetime) -> NextAction:
    """What is to be done with a study now, without anybody asking."""
    if record.state is not StudyState.OPEN:
        return NextAction.NOTHING
    if record.complete:
        return NextAction.DECOMPOSE
    if not record.study.deadline_passed(now):
        return NextAction.NOTHING
    return (
        NextAction.DECOMPOSE
        if len(record.contributions) >= record.study.needed
        else NextAction.ABORT
    )


def decompose(
    record: StudyRecord, taken: tuple[Contribution, ...], result: StoredBlob, *, now: datetime
) -> StudyRecord:
    """The study with its result.

    Parameters
    ----------
    taken
        The contributions that the result was computed from.

    Raises
    ------
    StudyStateError
        Not open, not due, or the result is not of the contributions stored.
    """
    state = next_state(record, Transition.DECOMPOSE)
    if next_action(record, now=now) is not NextAction.DECOMPOSE:
        raise StudyStateError(f"study {record.study.name} still waits for owners")
    if taken != record.contributions:
        raise StudyStateError(
            f"the contributions to study {record.study.name} have changed meanwhile"
        )
    return replace(record, state=state, result=result)


def close(record: StudyRecord) -> StudyRecord:
    """The study without further synthetic rows; `StudyStateError` unless decomposed."""
    return replace(record, state=next_state(record, Transition.CLOSE))


def abort(record: StudyRecord, reason: str) -> StudyRecord:
    """The study ended without a result; `StudyStateError` unless open.

    Raises
    ------
    InputError
        No reason, or one above `MAX_REASON_LENGTH` characters.
    """
    require_reason(reason)
    state = next_state(record, Transition.ABORT)
    if record.state is StudyState.ABORTED:
        return record
    return replace(record, state=state, reason=reason)


def require_reason(reason: str) -> None:
    """Raise `InputError` unless a reason is one line of 1 to `MAX_REASON_LENGTH` characters."""
    if not 1 <= len(reason) <= MAX_REASON_LENGTH or not reason.isprintable():
        raise InputError(f"a reason is one line of 1 to {MAX_REASON_LENGTH} characters")


def require_result(record: StudyRecord) -> StoredBlob:
    """The result file of a study.

    Raises
    ------
    NotReadyError
        Still open.
    StudyStateError
        Aborted.
    """
    if record.state is StudyState.ABORTED:
        raise StudyStateError(f"study {record.study.name} was aborted: {record.reason}")
    if record.result is None:
        raise NotReadyError(
            f"study {record.study.name} still waits for {len(record.missing)} owners"
        )
    return record.result


def next_state(record: StudyRecord, step: Transition) -> StudyState:
    """State after a step; `StudyStateError` where the table has none."""
    try:
        return TRANSITIONS[record.state, step]
    except KeyError:
        raise StudyStateError(
            f"study {record.study.name} is {record.state.value}: it cannot {step.value}"
        ) from None
