"""What a fault is, and how one is written on a command line: pure.

::

    PARTY:kill@STEP                        kill -9 at that step; started again at once
    PARTY:partition@STEP[:DURATION]        the network is cut at that step, and healed after so long
    PARTY:slow@STEP[:DURATION]             from that step on, 2000 bytes a second each way
    PARTY:disk-full[@STEP][:DURATION]      from that step on, nothing more can be written
    PARTY:clock+OFFSET[@STEP]              from that step on, its clock is wrong by so much (or -)
    OWNER:late                             it begins after the study's deadline
    OWNER:never                            it never begins; `owners:never`: none of them does
    OPENER:late                            it contributes, and comes to open after ``open_by``
    OPENER:never                           it contributes, and never comes to open
    OPENER:key-lost                        its opener key is gone before it comes to open

PARTY is ``curator``, an owner's name, such as ``owner-2``, or ``opener-1`` or ``opener-2``: the
same sites when they open a study with ``trust: aggregate``. STEP is one of the party's own
(`catalogue`); without one a fault is there from the beginning. DURATION and OFFSET are a whole
number and a unit: ``20s``, ``5m``, ``3h``, ``2d``. A fault without DURATION lasts until the study
has ended, or its deadline has passed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import get_args

from dppca.common.checkpoints import CuratorStep, OwnerStep
from dppca.common.errors import SettingError
from dppca.common.names import is_party_name

CURATOR = "curator"
OWNERS = "owners"
OWNER_STEPS: tuple[str, ...] = get_args(OwnerStep)
OPENER_STEPS: tuple[str, ...] = ("check", "open", "destroy", "send")
CURATOR_STEPS: tuple[str, ...] = tuple(step for step in get_args(CuratorStep) if step != "vote")
"""Without votes: no study here has spare openers."""
MASKED_STEPS: tuple[str, ...] = ("seal", "sealed", "opening", "opened")
"""Steps of a curator that only a study with ``trust: aggregate`` has."""

MIN_OFFSET_S = 3600
"""A smaller one could not be told from the length of a study."""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_CLOCK = re.compile(r"clock([+-])(\w+)")
_LENGTH = re.compile(r"([1-9][0-9]{0,5})([smhd])")


class FaultKind(StrEnum):
    """What is done to a party."""

    KILL = "kill"
    PARTITION = "partition"
    SLOW = "slow"
    DISK_FULL = "disk-full"
    CLOCK = "clock"
    LATE = "late"
    NEVER = "never"
    KEY_LOST = "key-lost"


_NEEDS_STEP = {FaultKind.KILL, FaultKind.PARTITION, FaultKind.SLOW}
_TAKES_STEP = {*_NEEDS_STEP, FaultKind.DISK_FULL, FaultKind.CLOCK}
_TAKES_DURATION = {FaultKind.PARTITION, FaultKind.SLOW, FaultKind.DISK_FULL}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes
    ----------
    step
        Where it begins; None: before anything is done.
    duration_s
        How long it lasts; None: until the study has ended.
    offset_s
        Offset of the clock; 0 for other faults.
    """

    party: str
    kind: FaultKind
    step: str | None = None
    duration_s: int | None = None
    offset_s: int = 0

    @property
    def is_of_curator(self) -> bool:
        """Whether it is done to the curator."""
        return self.party == CURATOR

    @property
    def is_of_opener(self) -> bool:
        """Whether it is done to an owner that opens the study."""
        return role(self.party) == "opener"

    @property
    def is_masked(self) -> bool:
        """Whether its study has ``trust: aggregate``."""
        return self.is_of_opener or (self.is_of_curator and self.step in MASKED_STEPS)

    @property
    def host(self) -> str:
        """The party whose machine it is done to: of ``opener-1`` this is ``owner-1``."""
        return self.party.replace("opener", "owner") if self.is_of_opener else self.party

    def __str__(self) -> str:
        kind = self.kind.value
        if self.kind is FaultKind.CLOCK:
            kind += ("+" if self.offset_s > 0 else "-") + length_text(abs(self.offset_s))
        step = "" if self.step is None else f"@{self.step}"
        duration = "" if self.duration_s is None else f":{length_text(self.duration_s)}"
        return f"{self.party}:{kind}{step}{duration}"


def parse_fault(text: str) -> Fault:
    """Read one fault.

    Raises
    ------
    SettingError
        It is none; the message says which part is not, and what could stand there.
    """
    party, *rest = text.split(":")
    if len(rest) not in (1, 2) or not all([party, *rest]):
        raise SettingError(
            f"{text!r} is no fault: write PARTY:KIND@STEP:DURATION, such as owner-2:kill@draw"
        )
    if not is_party_name(party):
        raise _refused(text, f"{party!r} names no party: write {CURATOR} or an owner's name")
    written, at, step = rest[0].partition("@")
    kind, offset_s = _kind(text, written)
    fault = Fault(
        party,
        kind,
        step if at else None,
        _length(text, rest[1]) if len(rest) > 1 else None,
        offset_s,
    )
    _require_sense(text, fault)
    return fault


def length_text(seconds: int) -> str:
    """Seconds in the largest unit that needs no fraction."""
    unit = next(u for u in ("d", "h", "m", "s") if seconds % _SECONDS[u] == 0)
    return f"{seconds // _SECONDS[unit]}{unit}"


def list_steps(party: str) -> tuple[str, ...]:
    """The steps of a party, in order."""
    return {CURATOR: CURATOR_STEPS, "opener": OPENER_STEPS}.get(role(party), OWNER_STEPS)


def role(party: str) -> str:
    """A party's name without its number."""
    return party.partition("-")[0]


def _kind(text: str, written: str) -> tuple[FaultKind, int]:
    clock = _CLOCK.fullmatch(written)
    if clock is not None:
        offset_s = _length(text, clock[2])
        if offset_s < MIN_OFFSET_S:
            raise _refused(text, "a wrong clock is wrong by at least 1h")
        return FaultKind.CLOCK, offset_s if clock[1] == "+" else -offset_s
    if written == FaultKind.CLOCK:
        raise _refused(text, "a wrong clock needs an offset: clock+2d or clock-2d")
    if written not in set(FaultKind):
        known = ", ".join(kind.value for kind in FaultKind)
        raise _refused(text, f"{written!r} is none of {known}")
    return FaultKind(written), 0


def _length(text: str, written: str) -> int:
    found = _LENGTH.fullmatch(written)
    if found is None:
        raise _refused(text, f"{written!r} is no length of time: write 20s, 5m, 3h or 2d")
    return int(found[1]) * _SECONDS[found[2]]


def _require_sense(text: str, fault: Fault) -> None:
    kind, steps = fault.kind, list_steps(fault.party)
    if fault.step is not None and kind not in _TAKES_STEP:
        raise _refused(text, f"{kind.value} has no step: it is of the whole study")
    if fault.step is None and kind in _NEEDS_STEP:
        raise _refused(text, f"{kind.value} needs a step: @{', @'.join(steps)}")
    if fault.step is not None and fault.step not in steps:
        raise _refused(text, f"{fault.step!r} is no step of it: {', '.join(steps)}")
    if fault.duration_s is not None and kind not in _TAKES_DURATION:
        raise _refused(text, f"{kind.value} takes no duration")
    if fault.is_of_curator and kind in (FaultKind.LATE, FaultKind.NEVER):
        raise _refused(text, "without a curator there is no study")
    if fault.party == OWNERS and kind is not FaultKind.NEVER:
        raise _refused(text, f"all owners at once may only be missing: {OWNERS}:never")
    if kind is FaultKind.KEY_LOST and not fault.is_of_opener:
        raise _refused(text, "only an opener can lose its opener key: opener-1:key-lost")
    if fault.is_of_opener:
        _require_sense_of_opener(text, fault)
    if fault.is_of_curator and kind is FaultKind.PARTITION and fault.duration_s is None:
        raise _refused(text, "a curator that is cut off for good is no curator: give a duration")


def _require_sense_of_opener(text: str, fault: Fault) -> None:
    if fault.party not in ("opener-1", "opener-2"):
        raise _refused(text, "the openers are opener-1 and opener-2")
    if fault.kind in (FaultKind.SLOW, FaultKind.CLOCK):
        raise _refused(text, f"{fault.kind.value} is not done to openers, but to owners")
    lasting = fault.step is None or fault.duration_s is None
    if fault.kind in (FaultKind.PARTITION, FaultKind.DISK_FULL) and lasting:
        raise _refused(text, "an opener that is held up needs a step and a duration")


def _refused(text: str, reason: str) -> SettingError:
    return SettingError(f"fault {text!r}: {reason}")
