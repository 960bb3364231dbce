"""What auditors have looked at: a chain, so that a line that is changed or taken away shows. Pure.

A line is written before an answer leaves: the first call of an hour to one method, for one study.
Each names the hash of the line before it. The newest `MOST_LOOKS` are kept; numbers go on. Who has
the curator's disk can write another chain, and then its last hash is not the one that an auditor
has seen before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from dppca.common.kernel.documents.values import canonical_json

MOST_LOOKS = 10_000  # an auditor that looks at 20 studies each week has a tenth of it in a year
_HOUR_S = 3600  # in which the same look again is no second line
FIRST = bytes(32)
"""Stands in the first line for the hash of the line before it."""


@dataclass(frozen=True, slots=True)
class AuditorLook:
    """A look: ``time_s`` in seconds since 1970 UTC, ``study`` empty if the call named none."""

    number: int
    time_s: int
    auditor: str
    method: str
    study: str
    previous: bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of the line in canonical form, 32 bytes."""
        line = {**asdict(self), "previous": self.previous.hex()}
        return hashlib.sha256(canonical_json(line)).digest()


@dataclass(frozen=True, slots=True)
class AuditorLooks:
    """The newest looks, the oldest first; ``broken`` is what `find_break` says of them."""

    lines: tuple[AuditorLook, ...]
    broken: int

    @classmethod
    def of(cls, lines: Iterable[AuditorLook]) -> AuditorLooks:
        """Return looks whose chain was verified."""
        kept = tuple(lines)
        return cls(kept, find_break(kept))

    def followed_by(self, look: AuditorLook) -> AuditorLooks:
        """Return these and the line that follows; of more than `MOST_LOOKS` the oldest goes."""
        kept = (*self.lines, look)[-MOST_LOOKS:]
        if 0 < self.broken <= kept[0].number:  # the line that did not follow is the first, or gone
            return AuditorLooks.of(kept)
        return replace(self, lines=kept)


def following_look(
    looks: Sequence[AuditorLook], auditor: str, method: str, study: str, *, now: datetime
) -> AuditorLook | None:
    """Return the line to write; None if this hour has one of this call."""
    time_s = int(now.timestamp())
    for each in reversed(looks):
        if each.time_s // _HOUR_S != time_s // _HOUR_S:
            break
        if (each.auditor, each.method, each.study) == (auditor, method, study):
            return None
    last = looks[-1] if looks else None
    number, previous = (1, FIRST) if last is None else (last.number + 1, last.digest)
    return AuditorLook(number, time_s, auditor, method, study, previous)


def find_break(looks: Iterable[AuditorLook]) -> int:
    """Number of the first line that does not follow the one before it; 0 if all do."""
    before: AuditorLook | None = None
    for each in looks:
        if before is None:
            follows = each.number > 1 or each.previous == FIRST
        else:
            follows = (each.number, each.previous) == (before.number + 1, before.digest)
        if not follows:
            return each.number
        before = each
    return 0
