"""States of a study: pure, without I/O, clock or randomness.

A study moves through these states::

                 contribute   seal     open     decompose    publish      close       abort
    open         open         sealed   -        decomposed   -            -           aborted
    sealed       -            -        sealed   decomposed   -            -           aborted
    decomposed   -            -        -        -            decomposed   closed      -
    closed       -            -        -        -            -            closed      -
    aborted      -            -        -        -            -            -           aborted

``-`` is illegal: it raises `StudyStateError`, and because every step returns a new `StudyRecord`,
the old one is unchanged. Closing and aborting again have no effect, so that a call may be repeated.
`dppca.curator.study.admission` and `dppca.curator.study.openings` decide who may contribute, open
and publish, and what.

With ``trust: owner`` a study is decomposed when all owners have contributed, or with a quorum once
the deadline has passed. With ``trust: aggregate`` it is sealed then, and decomposed once the
openers have opened every stream; only such a study may be sealed, and it cannot be decomposed while
open. With less than a quorum, or with a stream that is not opened by ``open_by``, it is aborted. A
step of the curator itself is refused unless it is due when it is stored: a study may have changed
since the call of `next_action`. The curator never passes on a site's own words: other parties learn
only the names of late and missing owners and openers.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from enum import Enum, StrEnum, auto
from types import MappingProxyType

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import (
    ConflictError,
    InputError,
    NotReadyError,
    StudyError,
    StudyStateError,
)
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study, Trust, require_continues
from dppca.curator.study.codable import require_codable
from dppca.curator.study.sealed_set import is_opened, make_terms, missing_openers, open_by_passed
from dppca.curator.study.seen_roles import SeenRoles, require_pins
from dppca.curator.study.study_record import Contribution, Sealing, StoredResult, StudyRecord

QUORUM_REASON = "The deadline passed, by the curator's clock, before enough owners had contributed."
OPENERS_REASON = "The time to open passed, by the curator's clock, before enough openers had come."
GARBLED_REASON = "The openings do not fit the contributions: the sum says nothing."
TOO_FEW_ROWS_REASON = (
    "The noised number of rows is below five of its deviations: nothing can be divided by it."
)
MAX_REASON_LENGTH = 200  # characters of the operator's reason, which owners are shown


class Transition(StrEnum):
    """Event that changes a study."""

    CONTRIBUTE = "contribute"
    SEAL = "seal"
    OPEN = "open"
    DECOMPOSE = "decompose"
    PUBLISH = "publish"
    CLOSE = "close"
    ABORT = "abort"


TRANSITIONS: dict[tuple[StudyState, Transition], StudyState] = {
    (StudyState.OPEN, Transition.CONTRIBUTE): StudyState.OPEN,
    (StudyState.OPEN, Transition.SEAL): StudyState.SEALED,
    (StudyState.OPEN, Transition.DECOMPOSE): StudyState.DECOMPOSED,
    (StudyState.OPEN, Transition.ABORT): StudyState.ABORTED,
    (StudyState.SEALED, Transition.OPEN): StudyState.SEALED,
    (StudyState.SEALED, Transition.DECOMPOSE): StudyState.DECOMPOSED,
    (StudyState.SEALED, Transition.ABORT): StudyState.ABORTED,
    (StudyState.DECOMPOSED, Transition.PUBLISH): StudyState.DECOMPOSED,
    (StudyState.DECOMPOSED, Transition.CLOSE): StudyState.CLOSED,
    (StudyState.CLOSED, Transition.CLOSE): StudyState.CLOSED,
    (StudyState.ABORTED, Transition.ABORT): StudyState.ABORTED,
}
"""The table above; a pair that is not listed is illegal."""
_TRUST_SPECIFIC = {
    (StudyState.OPEN, Transition.SEAL): Trust.AGGREGATE,
    (StudyState.OPEN, Transition.DECOMPOSE): Trust.OWNER,
}
"""Pairs that are legal for one trust only."""


class NextAction(Enum):
    """Next step that time and contributions require."""

    NOTHING = auto()
    SEAL = auto()
    DECOMPOSE = auto()
    ABORT = auto()


def create(
    existing: StudyRecord | None,
    study: Study,
    *,
    now: datetime,
    first: StudyRecord | None = None,
    seen: Mapping[str, SeenRoles | None] = MappingProxyType({}),
) -> StudyRecord:
    """Return a new study, or the stored one if it is the same document.

    ``existing`` is the stored study of that name, ``first`` the one that the study continues, if
    any; that one must have the result which the study names. ``seen`` are roles of owners that this
    curator has seen. Raise `ConflictError` if ``existing`` is another document, `StudyError` if the
    study continues none of this curator, pins nobody where people were seen to sign, the deadline
    or the time to open has passed, a key does not fit, or rows cannot be coded (`require_codable`),
    and `RangeError` if the study's integers could leave 64 bits.
    """
    if existing is not None:
        if existing.study.digest == study.digest:
            return existing
        raise ConflictError(f"another study is called {study.name}: choose another name")
    calibrate(study)
    require_codable(study.table)
    require_pins(study, seen)
    if study.continues is not None:
        if first is None or first.result is None:
            raise StudyError(f"study {study.name} continues a study that has no result here")
        require_continues(first.study, study, result_sha256=first.result.sha256)
    if study.trust is Trust.AGGREGATE:
        make_terms(study)
    if study.deadline_passed(now):
        raise StudyError(
            f"the deadline of study {study.name} has passed by the curator's clock: set a later one"
        )
    if open_by_passed(study, now):
        raise StudyError(
            f"open_by of study {study.name} has passed by the curator's clock: set a later time"
        )
    return StudyRecord(study=study, state=StudyState.OPEN, created_s=int(now.timestamp()))


def next_action(record: StudyRecord, *, now: datetime) -> NextAction:
    """Return the step of the curator that is due now."""
    if record.state is StudyState.SEALED:
        if is_opened(record):
            return NextAction.DECOMPOSE
        return NextAction.ABORT if open_by_passed(record.study, now) else NextAction.NOTHING
    if record.state is not StudyState.OPEN:
        return NextAction.NOTHING
    ready = NextAction.SEAL if record.study.trust is Trust.AGGREGATE else NextAction.DECOMPOSE
    if record.complete:
        return ready
    if not record.study.deadline_passed(now):
        return NextAction.NOTHING
    return (
        ready
        if len(record.contributions) >= record.study.required_contributions
        else NextAction.ABORT
    )


def seal(
    record: StudyRecord, taken: tuple[Contribution, ...], set_digest: bytes, *, now: datetime
) -> StudyRecord:
    """Return the study with its sealed set; no contribution is accepted afterwards.

    ``taken`` are the contributions with the digest ``set_digest``, 32 bytes. `StudyStateError` is
    raised if the study is not open, has another trust, is not due, or has other contributions now.
    """
    state = next_state(record, Transition.SEAL)
    _require_due(record, NextAction.SEAL, taken, now)
    return replace(record, state=state, sealing=Sealing(set_digest, int(now.timestamp())))


def decompose(
    record: StudyRecord, taken: tuple[Contribution, ...], result: StoredResult, *, now: datetime
) -> StudyRecord:
    """Return the study with its result.

    ``taken`` are the contributions from which the result was computed. `StudyStateError` is raised
    if the study is neither open nor sealed, is not due, or has other contributions now.
    """
    state = next_state(record, Transition.DECOMPOSE)
    _require_due(record, NextAction.DECOMPOSE, taken, now)
    return replace(record, state=state, result=result)


def close(record: StudyRecord) -> StudyRecord:
    """Close a study to synthetic rows; raise `StudyStateError` unless decomposed or closed."""
    return replace(record, state=next_state(record, Transition.CLOSE))


def abort(record: StudyRecord, reason: str) -> StudyRecord:
    """Return the study ended without a result.

    Raise `StudyStateError` unless it is open, sealed or aborted already, and `InputError` without a
    reason, or for one above `MAX_REASON_LENGTH` characters.
    """
    require_reason(reason)
    state = next_state(record, Transition.ABORT)
    if record.state is StudyState.ABORTED:
        return record
    return replace(record, state=state, reason=reason)


def abort_late(record: StudyRecord, *, now: datetime) -> StudyRecord:
    """Abort a study that waited too long; raise `StudyStateError` if it did not."""
    _require_due(record, NextAction.ABORT, record.contributions, now)
    return abort(record, OPENERS_REASON if record.state is StudyState.SEALED else QUORUM_REASON)


def abort_undecomposed(
    record: StudyRecord, taken: tuple[Contribution, ...], reason: str, *, now: datetime
) -> StudyRecord:
    """Abort a study because no result can be made of the contributions ``taken``.

    Raise `StudyStateError` if it is not due for decomposition, or has other contributions now.
    """
    next_state(record, Transition.DECOMPOSE)
    _require_due(record, NextAction.DECOMPOSE, taken, now)
    return abort(record, reason)


def require_reason(reason: str) -> None:
    """Raise `InputError` unless a reason is one line of 1 to `MAX_REASON_LENGTH` characters."""
    if not 1 <= len(reason) <= MAX_REASON_LENGTH or not reason.isprintable():
        raise InputError(f"a reason is one line of 1 to {MAX_REASON_LENGTH} characters")


def require_result(record: StudyRecord) -> StoredResult:
    """Return the result file; raise `NotReadyError` before it, `StudyStateError` if aborted."""
    if record.state is StudyState.ABORTED:
        raise StudyStateError(f"study {record.study.name} was aborted: {record.reason}")
    if record.state is StudyState.SEALED:
        raise NotReadyError(
            f"study {record.study.name} waits to be opened by {', '.join(missing_openers(record))}"
        )
    if record.result is None:
        raise NotReadyError(
            f"study {record.study.name} still waits for {len(record.missing)} owners"
        )
    return record.result


def next_state(record: StudyRecord, step: Transition) -> StudyState:
    """Return the state after a step; raise `StudyStateError` if the table has none."""
    pair = (record.state, step)
    trust = record.study.trust
    if pair not in TRANSITIONS or _TRUST_SPECIFIC.get(pair, trust) is not trust:
        raise StudyStateError(
            f"study {record.study.name} is {record.state.value}: it cannot {step.value}"
        )
    return TRANSITIONS[pair]


def _require_due(
    record: StudyRecord, action: NextAction, taken: tuple[Contribution, ...], now: datetime
) -> None:
    if next_action(record, now=now) is not action:
        if action is NextAction.ABORT:
            raise StudyStateError(f"study {record.study.name} is {record.state.value} and not late")
        whom = "openers" if record.state is StudyState.SEALED else "owners"
        raise StudyStateError(f"study {record.study.name} still waits for {whom}")
    if taken != record.contributions:
        raise StudyStateError(
            f"the contributions to study {record.study.name} have changed meanwhile"
        )
