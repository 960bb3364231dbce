"""State of this site's opener keys, as the ledger records it. Pure.

An opener key is made for one study (`offer`), promises one set of uploads if the study has spares
(`vote`), and opens one set (`open`); the same step stores its sums. The curator acknowledges that
(`opened`). None of this is charged: an opening holds masks and nothing of a row.

Rules
-----
1. A key is offered once, votes once, opens once, and is acknowledged once, in this order.
2. It votes and opens for the study that it was offered for, under one document of it.
3. It opens the set that it voted for, if it voted.
4. A study's document is voted for, and opened, with one key.

So one set at most is ever opened for a study and for a key.
`dppca.common.kernel.aggregation.opening` says why that is enough against a lying curator.

Limits: a ledger from before an opening, restored with its key and taken for the newest, can be
asked for a second set. So keys are destroyed with their use and belong in no backup.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dppca.owner.ledger.entries import Ballot, KeyOffer, OpenerEntry, OpeningDelivery, SetOpening

if TYPE_CHECKING:
    from dppca.common.kernel.study import Study

_STREAM = 4  # bytes of a stream's number


@dataclass(frozen=True, slots=True)
class OpenerRecord:
    """The ledger's entries about one opener key; None for each step not yet made."""

    offer: KeyOffer
    vote: Ballot | None = None
    opening: SetOpening | None = None
    delivery: OpeningDelivery | None = None

    @property
    def bound(self) -> Ballot | SetOpening | None:
        """Entry that binds the key to a set, if any."""
        return self.opening or self.vote

    @property
    def is_done(self) -> bool:
        """True if the curator has acknowledged the opening."""
        return self.delivery is not None


Openers = Mapping[str, OpenerRecord]
"""By key: SHA-256 of the public key, hexadecimal."""


def record_for(openers: Openers, study: "Study", owner: str) -> OpenerRecord | None:
    """Record of the key that a study names for an owner; None if it names none that is known."""
    opener = (study.openers or {}).get(owner)
    return None if opener is None else openers.get(hashlib.sha256(opener.key).hexdigest())


def misplaced(openers: Openers, entry: OpenerEntry) -> str | None:
    """Reason why an entry breaks a rule; None if it breaks none."""
    opener = openers.get(entry.key_id)
    if isinstance(entry, KeyOffer):
        return None if opener is None else "its opener key has been offered before"
    if opener is None:
        return "its opener key was never offered"
    if isinstance(entry, OpeningDelivery):
        if opener.opening is None:
            return "its opener key has opened nothing"
        return "its opening has been acknowledged before" if opener.is_done else None
    return _misbound(openers, opener, entry)


def _misbound(openers: Openers, found: OpenerRecord, entry: Ballot | SetOpening) -> str | None:
    if found.opening is not None:
        return "its opener key has opened a set before"
    if isinstance(entry, Ballot) and found.vote is not None:
        return "its opener key has voted before"
    if entry.study != found.offer.study:
        return "its opener key was offered for another study"
    before = found.vote
    if before is not None and (entry.study_digest, entry.set_digest) != (
        before.study_digest,
        before.set_digest,
    ):
        return "its opener key has voted for another set"
    others = (each.bound for key_id, each in openers.items() if key_id != entry.key_id)
    if any(each is not None and each.study_digest == entry.study_digest for each in others):
        return "its study was voted for or opened with another key"
    return None


def record_with(openers: Openers, entry: OpenerEntry) -> OpenerRecord:
    """Record of a key after an entry that breaks no rule."""
    if isinstance(entry, KeyOffer):
        return OpenerRecord(entry)
    opener = openers[entry.key_id]
    if isinstance(entry, Ballot):
        return replace(opener, vote=entry)
    if isinstance(entry, SetOpening):
        return replace(opener, opening=entry)
    return replace(opener, delivery=entry)


def digest_sums(totals: Iterable[tuple[int, bytes]]) -> str:
    """SHA-256 of the sums of an opener's streams, hexadecimal.

    ``totals`` are pairs of a stream and the bytes of its sum, streams ascending.
    """
    digest = hashlib.sha256()
    for stream, total in totals:
        digest.update(stream.to_bytes(_STREAM, "big"))
        digest.update(len(total).to_bytes(8, "big"))
        digest.update(total)
    return digest.hexdigest()
