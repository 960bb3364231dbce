"""The states of a study: pure, without I/O, clock or randomness.

A study moves through four states::

                 contribute   decompose    publish      close       abort
    open         open         decomposed   -            -           aborted
    decomposed   -            -            decomposed   closed      -
    closed       -            -            -            closed      -
    aborted      -            -            -            -           aborted

``-`` is illegal: it raises `StudyStateError`, and as every step returns a new `StudyRecord`, the
old one is as it was. Closing and aborting again have no effect, so that a call may be repeated.
What is contributed and published, and by whom, `curator.admission` decides.

A study is decomposed when all owners have come, or with a quorum once the deadline has passed; with
less it is aborted. What a site says of itself is never passed on: of late and missing owners the
others learn the names.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from enum import Enum, StrEnum, auto

from common.conversation import StudyState
from common.errors import (
    ConflictError,
    InputError,
    NotReadyError,
    StudyError,
    StudyStateError,
)
from common.privacy.release import calibrate
from common.study import Study
from curator.record import Content, Contribution, StudyRecord

QUORUM_REASON = "The deadline passed before enough owners had contributed."
MAX_REASON_LENGTH = 200


class Step(StrEnum):
    """What can happen to a study."""

    CONTRIBUTE = "contribute"
    DECOMPOSE = "decompose"
    PUBLISH = "publish"
    CLOSE = "close"
    ABORT = "abort"


TRANSITIONS: dict[tuple[StudyState, Step], StudyState] = {
    (StudyState.OPEN, Step.CONTRIBUTE): StudyState.OPEN,
    (StudyState.OPEN, Step.DECOMPOSE): StudyState.DECOMPOSED,
    (StudyState.OPEN, Step.ABORT): StudyState.ABORTED,
    (StudyState.DECOMPOSED, Step.PUBLISH): StudyState.DECOMPOSED,
    (StudyState.DECOMPOSED, Step.CLOSE): StudyState.CLOSED,
    (StudyState.CLOSED, Step.CLOSE): StudyState.CLOSED,
    (StudyState.ABORTED, Step.ABORT): StudyState.ABORTED,
}
"""The table above; a pair that is not listed is illegal."""


class Due(Enum):
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
        message = f"there is another study called {study.name}: choose another name"
        raise ConflictError(message)
    calibrate(study)
    if study.deadline_passed(now):
        message = f"the deadline of study {study.name} has passed: set a later one"
        raise StudyError(message)
    return StudyRecord(study=study, state=StudyState.OPEN, created_s=int(now.timestamp()))


def due(record: StudyRecord, *, now: datetime) -> Due:
    """What is to be done with a study now, without anybody asking."""
    if record.state is not StudyState.OPEN:
        return Due.NOTHING
    if record.complete:
        return Due.DECOMPOSE
    if not record.study.deadline_passed(now):
        return Due.NOTHING
    return Due.DECOMPOSE if len(record.contributions) >= record.study.needed else Due.ABORT


def decompose(
    record: StudyRecord, taken: tuple[Contribution, ...], result: Content, *, now: datetime
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
    state = next_state(record, Step.DECOMPOSE)
    if due(record, now=now) is not Due.DECOMPOSE:
        message = f"study {record.study.name} still waits for owners"
        raise StudyStateError(message)
    if taken != record.contributions:
        message = f"the contributions to study {record.study.name} have changed meanwhile"
        raise StudyStateError(message)
    return replace(record, state=state, result=result)


def close(record: StudyRecord) -> StudyRecord:
    """The study without further synthetic rows; `StudyStateError` unless decomposed."""
    return replace(record, state=next_state(record, Step.CLOSE))


def abort(record: StudyRecord, reason: str) -> StudyRecord:
    """The study ended without a result; `StudyStateError` unless open.

    Raises
    ------
    InputError
        No reason, or one above `MAX_REASON_LENGTH` characters.
    """
    if not 1 <= len(reason) <= MAX_REASON_LENGTH or not reason.isprintable():
        message = f"a reason is one line of 1 to {MAX_REASON_LENGTH} characters"
        raise InputError(message)
    state = next_state(record, Step.ABORT)
    if record.state is StudyState.ABORTED:
        return record
    return replace(record, state=state, reason=reason)


def result_of(record: StudyRecord) -> Content:
    """The result file of a study.

    Raises
    ------
    NotReadyError
        Still open.
    StudyStateError
        Aborted.
    """
    if record.state is StudyState.ABORTED:
        message = f"study {record.study.name} was aborted: {record.reason}"
        raise StudyStateError(message)
    if record.result is None:
        message = f"study {record.study.name} still waits for {len(record.missing)} owners"
        raise NotReadyError(message)
    return record.result


def next_state(record: StudyRecord, step: Step) -> StudyState:
    """State after a step; `StudyStateError` where the table has none."""
    try:
        return TRANSITIONS[record.state, step]
    except KeyError:
        message = f"study {record.study.name} is {record.state.value}: it cannot {step.value}"
        raise StudyStateError(message) from None
