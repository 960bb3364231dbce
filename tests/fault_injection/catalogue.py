"""What each step of a study is, what every fault should come to, and the cells of the table: pure.

The study of a cell has three owners, a quorum of all but one, and a deadline. It ends in one of
five ways, and which one a fault should lead to follows from what the fault keeps a party from:

* a kill, a slow link, and whatever is healed, cost time and nothing else: all owners take part;
* an owner that cannot get its release to the curator before the deadline is left out, and the
  others have their result; so is one that is late, missing, or refuses by its own wrong clock;
* with too few, the study is aborted at the deadline, and says so;
* a curator whose disk is full cannot end a study. It refuses, says why, and ends the study once it
  can write again;
* a curator whose clock is wrong from the beginning does not begin.

A fault of an opener, or at a step of sealing or opening, is done in a study with
``trust: aggregate``, a quorum of all three owners, one colluder, and two openers without spares.
Where an opener does not open by ``open_by``, the study is aborted and all owners stay charged.

Certificates of a cell are good for 35 days.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tests.fault_injection.spec import (
    CURATOR,
    MASKED_STEPS,
    OPENER_STEPS,
    OWNERS,
    Fault,
    FaultKind,
    list_steps,
)

CERTIFICATE_DAYS = 35
_SKEW_ALLOWED_S = 300  # certificates begin so long before they are made
_DAY_S = 86_400

MEANING: dict[str, dict[str, str]] = {
    "owner": {
        "fetch": "about to ask for the study's document",
        "read": "no row has been read for it yet",
        "reserve": "the charge is in the ledger, nothing is drawn",
        "draw": "the noise is drawn, nothing is stored",
        "store": "the bytes are written, the ledger's transaction is not complete",
        "commit": "the bytes are stored, nothing is sent",
        "send": "the upload's header is on its way, its bytes are not",
        "acknowledge": "the curator has the bytes and says so, the ledger does not yet",
        "wait": "about to ask whether there is a result",
        "download": "about to fetch the result",
    },
    "opener": {
        "check": "the sealed set is checked, nothing is stored",
        "open": "the sums of its masks are in the ledger, the opener key is still there",
        "destroy": "the opener key is destroyed, nothing is sent",
        "send": "the opening's header is on its way, its bytes are not",
    },
    CURATOR: {
        "receive": "the first contribution is admitted, its bytes are on their way",
        "store": "its bytes are on disk, the database's transaction is not complete",
        "commit": "it is stored, the owner has not been told",
        "seal": "all have come, the set of uploads is not fixed",
        "sealed": "the set is stored, no opener has been told",
        "opening": "an opening is admitted, its bytes are on their way",
        "opened": "an opening is stored, its opener has not been told",
        "decompose": "all have come, nothing is computed",
        "result": "the result is computed, not stored",
        "serve": "the result is stored, nobody has been told",
        "close": "the study is closed, the operator has not been told",
    },
}
"""Where a party stands at each of its steps."""


class End(StrEnum):
    """How a study ends."""

    ALL = "all"
    """With a result of all owners."""
    QUORUM = "quorum"
    """At the deadline, with a result of the others."""
    ABORTED = "aborted"
    """Without a result, and with a reason."""
    STUCK = "stuck"
    """Not by its deadline; everybody was told why, and it ends once the curator can write."""
    NOT_BEGUN = "not begun"
    """It could not be created, and the operator was told why."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a fault should come to.

    Attributes
    ----------
    charged
        How often the owner that the fault is done to should have been charged; None: 0 or 1, by
        who is quicker. Every other owner of a study with a result is charged once.
    has_result
        Whether that owner can fetch the result once the study has ended and the fault is over.
    short_deadline
        Whether the study has to run into its deadline for this.
    """

    end: End
    charged: int | None = 1
    has_result: bool = True
    short_deadline: bool = False


def expected(fault: Fault) -> Expected:
    """What a fault should come to; see the module."""
    if fault.is_of_opener:
        return _of_opener(fault)
    return _of_curator(fault) if fault.is_of_curator else _of_owner(fault)


def all_cases() -> tuple[Fault, ...]:
    """Every step with every fault, and the faults that have no step."""
    owners = ("owner-1", "owner-2", "owner-3")
    made: list[Fault] = []
    for party in ("owner", CURATOR):
        for number, step in enumerate(list_steps(party)):
            if party == CURATOR and step in MASKED_STEPS:
                continue
            who = party if party == CURATOR else owners[number % len(owners)]
            made += (
                Fault(who, FaultKind.KILL, step),
                Fault(who, FaultKind.PARTITION, step, 5),
                Fault(who, FaultKind.SLOW, step),
                Fault(who, FaultKind.DISK_FULL, step, 5),
                Fault(who, FaultKind.CLOCK, step, offset_s=2 * _DAY_S),
            )
    days = (2 * _DAY_S, -2 * _DAY_S, 40 * _DAY_S)
    made += (
        Fault("owner-1", FaultKind.PARTITION, "send", 20),
        Fault("owner-1", FaultKind.PARTITION, "send"),
        Fault("owner-2", FaultKind.DISK_FULL, "draw"),
        Fault("owner-3", FaultKind.DISK_FULL),
        *(Fault("owner-1", FaultKind.CLOCK, offset_s=offset) for offset in days),
        Fault("owner-2", FaultKind.NEVER),
        Fault("owner-2", FaultKind.LATE),
        Fault(OWNERS, FaultKind.NEVER),
        Fault(CURATOR, FaultKind.DISK_FULL),
        Fault(CURATOR, FaultKind.DISK_FULL, "decompose"),
        *(Fault(CURATOR, FaultKind.CLOCK, offset_s=offset) for offset in days),
    )
    return (*made, *masked_cases())


def masked_cases() -> tuple[Fault, ...]:
    """Those of studies with ``trust: aggregate``."""
    made = [Fault(CURATOR, FaultKind.KILL, step) for step in MASKED_STEPS]
    for number, step in enumerate(OPENER_STEPS):
        who = f"opener-{number % 2 + 1}"
        made += (
            Fault(who, FaultKind.KILL, step),
            Fault(who, FaultKind.PARTITION, step, 5),
            Fault(who, FaultKind.DISK_FULL, step, 5),
        )
    made += (
        Fault("opener-1", FaultKind.NEVER),
        Fault("opener-2", FaultKind.LATE),
        Fault("opener-1", FaultKind.KEY_LOST),
    )
    return tuple(made)


def _of_owner(fault: Fault) -> Expected:
    kind = fault.kind
    if fault.party == OWNERS:
        return Expected(End.ABORTED, charged=0, has_result=False, short_deadline=True)
    if kind in (FaultKind.LATE, FaultKind.NEVER):
        return _left_out(charged=0, has_result=kind is FaultKind.LATE)
    if kind is FaultKind.CLOCK:
        return _owner_clock(fault)
    lasting = fault.duration_s is None
    if kind is FaultKind.PARTITION and lasting:
        if _before(fault, "acknowledge"):
            return _left_out(charged=0 if fault.step == "fetch" else 1, has_result=True)
    elif kind is FaultKind.DISK_FULL and lasting and _before(fault, "commit"):
        return _left_out(charged=0 if _before(fault, "reserve") else 1, has_result=True)
    return Expected(End.ALL)


def _of_opener(fault: Fault) -> Expected:
    if fault.kind in (FaultKind.LATE, FaultKind.NEVER, FaultKind.KEY_LOST):
        return Expected(End.ABORTED, has_result=False, short_deadline=True)
    return Expected(End.ALL)


def _owner_clock(fault: Fault) -> Expected:
    foreign = _certificate_refused(fault.offset_s)  # to every command that begins with this clock
    if fault.step is None and foreign:
        return _left_out(charged=0, has_result=False)
    if _before(fault, "reserve") and fault.offset_s > 0:  # the deadline seems to have passed
        return _left_out(charged=0, has_result=not foreign)
    return Expected(End.ALL, has_result=not foreign or not _before(fault, "wait"))


def _of_curator(fault: Fault) -> Expected:
    if fault.kind is FaultKind.DISK_FULL and fault.duration_s is None:
        if _before(fault, "serve"):
            return Expected(End.STUCK, has_result=False, short_deadline=True)
    elif fault.kind is FaultKind.CLOCK:
        if fault.step is None:
            if fault.offset_s > 0 or _certificate_refused(fault.offset_s):
                return Expected(End.NOT_BEGUN, charged=0, has_result=False)
        elif fault.offset_s > 0 and _before(fault, "decompose"):  # the deadline has passed
            return Expected(End.ABORTED, charged=None, has_result=False)
    return Expected(End.ALL)


def _left_out(*, charged: int, has_result: bool) -> Expected:
    return Expected(End.QUORUM, charged=charged, has_result=has_result, short_deadline=True)


def _before(fault: Fault, step: str) -> bool:
    """Whether a fault is there before a step is over; True of one without a step."""
    if fault.step is None:
        return True
    steps = list_steps(fault.party)
    return steps.index(fault.step) < steps.index(step)


def _certificate_refused(offset_s: int) -> bool:
    return not -_SKEW_ALLOWED_S < offset_s < CERTIFICATE_DAYS * _DAY_S
