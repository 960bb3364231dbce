"""The chain of a ledger: what its entries say together, and whether a charge is admitted. Pure.

Steps of one release, in this order and no other::

    reserve ──▶ (draw) ──▶ commit ──▶ sent
    the charge   nothing    the bytes  the curator has
    counts now   is kept    are kept   acknowledged

Rules
-----
1. An entry holds the SHA-256 of the entry before it; the first holds zeros. Entries are numbered
   from 1 without a gap.
2. A study is reserved at most once, whatever the data set, because a curator takes one release of
   an owner for a study. So is a model, by the digest of all that it was asked for with. Asking
   again finds the same reservation, which is never refunded.
3. A release is committed at most once, after its reservation; sent at most once, after that.
4. A data set's totals are E, the sum of charged epsilons, and R, the sum of charged rhos. A
   reservation is admitted where E + epsilon(R, delta*) <= epsilon* holds *with* it, for the budget
   (epsilon*, delta*) that the policy gives at that time.

Limits: the chain shows that entries were changed, swapped, or taken from the middle. That the last
ones were taken away shows only at a curator, which has seen the chain's length and head; that a
person who can write here made up a whole new chain shows there, too, and nowhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from common.errors import (
    BudgetExceededError,
    DppcaError,
    LedgerCorruptError,
    LedgerError,
    SettingError,
)
from common.privacy.accounting import Charge
from common.study import decimal_text
from owner.ledger.entries import (
    Commitment,
    Entry,
    Reservation,
    Sending,
    Wanted,
    from_document,
)

FIRST = bytes(32)
"""What the first entry holds in place of the hash of one before it."""


@dataclass(frozen=True, slots=True)
class Row:
    """An entry as it was found in a file; nothing about it is believed."""

    sequence: object
    document: object
    digest: object


@dataclass(frozen=True, slots=True)
class History:
    """What a verified chain says.

    Attributes
    ----------
    length, head
        Number of entries, and the hash of the last (`FIRST` of an empty chain).
    reservations
        In order.
    commitments, sendings
        By release.
    """

    length: int = 0
    head: bytes = FIRST
    reservations: tuple[Reservation, ...] = ()
    commitments: Mapping[bytes, Commitment] = field(default_factory=dict)
    sendings: Mapping[bytes, Sending] = field(default_factory=dict)

    def reservation_for(self, study_digest: str) -> Reservation | None:
        """The one reservation for a study, if there is one."""
        return next((r for r in self.reservations if r.wanted.study_digest == study_digest), None)

    def commitment_for(self, study_digest: str) -> Commitment | None:
        """The stored release for a study, if there is one."""
        reservation = self.reservation_for(study_digest)
        return None if reservation is None else self.commitments.get(reservation.release_id)

    def total(self, data_set: str) -> Charge:
        """All that was ever charged to a data set."""
        charges = (r.wanted.charge for r in self.reservations if r.wanted.data_set == data_set)
        return sum(charges, Charge(epsilon=Decimal(0), rho=Decimal(0)))

    @property
    def data_sets(self) -> tuple[str, ...]:
        """Names that were ever charged, in the order of their first charge."""
        return tuple(dict.fromkeys(r.wanted.data_set for r in self.reservations))


def admit(history: History, wanted: Wanted) -> Reservation | None:
    """Decide on a charge: the reservation that is already there, or None where one may be made.

    Raises
    ------
    SettingError
        The study was charged to another data set.
    BudgetExceededError
        The budget does not cover it.
    LedgerError
        It was reserved at another price than is asked now.
    """
    found = history.reservation_for(wanted.study_digest)
    if found is None:
        _require_room(history, wanted)
        return None
    before = found.wanted
    if before.data_set != wanted.data_set:
        message = (
            f"study {wanted.study} was charged to data set {before.data_set} and takes one release "
            f"of this owner: use --data-set {before.data_set}"
        )
        raise SettingError(message)
    if before.charge != wanted.charge:
        message = (
            f"{wanted.title} was reserved at epsilon {before.charge.epsilon} and rho "
            f"{before.charge.rho}, but this version would charge {wanted.charge.epsilon} and "
            f"{wanted.charge.rho}: finish it with the version that reserved it"
        )
        raise LedgerError(message)
    return found


def follow(rows: Iterable[Row]) -> History:
    """Verify a chain from its first entry and say what it amounts to.

    Raises
    ------
    LedgerCorruptError
        Names the first entry that is not what the chain demands.
    """
    history = History()
    for row in rows:
        entry = _read(row, history)
        fault = _misplaced(history, entry)
        if fault is not None:
            raise damaged(entry.sequence, fault)
        history = _with(history, entry, hashlib.sha256(_document(row)).digest())
    return history


def damaged(sequence: int, reason: str) -> LedgerCorruptError:
    """The error for a ledger whose entry ``sequence`` is the first not to be what it should."""
    return LedgerCorruptError(
        f"the ledger is damaged at entry {sequence}: {reason}. Nothing is released until "
        "ledger.sqlite is restored from a copy no older than the last contribution"
    )


def _read(row: Row, history: History) -> Entry:
    number = history.length + 1
    document = _document(row)
    if row.sequence != number:
        raise damaged(number, "another entry stands in its place")
    if hashlib.sha256(document).digest() != row.digest:
        raise damaged(number, "its content does not have its hash")
    try:
        entry = from_document(document, previous=history.head)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError, DppcaError) as error:
        raise damaged(number, "it is not one that follows the entry before it") from error
    if entry.sequence != number:
        raise damaged(number, "it has another number")
    return entry


def _document(row: Row) -> bytes:
    return row.document if isinstance(row.document, bytes) else b""


def _misplaced(history: History, entry: Entry) -> str | None:
    """Which of rules 2 and 3 an entry breaks, if any."""
    if isinstance(entry, Reservation):
        if history.reservation_for(entry.wanted.study_digest) is not None:
            return "its study has been reserved before"
        if any(r.release_id == entry.release_id for r in history.reservations):
            return "its release has been reserved before"
    elif isinstance(entry, Commitment):
        if all(r.release_id != entry.release_id for r in history.reservations):
            return "its release was never reserved"
        if entry.release_id in history.commitments:
            return "its release has been committed before"
    else:
        if entry.release_id not in history.commitments:
            return "its release was never committed"
        if entry.release_id in history.sendings:
            return "its release has been sent before"
    return None


def _with(history: History, entry: Entry, head: bytes) -> History:
    grown = replace(history, length=entry.sequence, head=head)
    if isinstance(entry, Reservation):
        return replace(grown, reservations=(*history.reservations, entry))
    if isinstance(entry, Commitment):
        return replace(grown, commitments={**history.commitments, entry.release_id: entry})
    return replace(grown, sendings={**history.sendings, entry.release_id: entry})


def _require_room(history: History, wanted: Wanted) -> None:
    budget, before = wanted.budget, history.total(wanted.data_set)
    if budget.admits(before + wanted.charge):
        return
    message = (
        f"the budget of data set {wanted.data_set} does not cover {wanted.title}: of epsilon "
        f"{decimal_text(budget.epsilon)} at delta {decimal_text(budget.delta)}, "
        f"{decimal_text(budget.spent(before))} is spent; with it, it would be "
        f"{decimal_text(budget.spent(before + wanted.charge))}. Ask for "
        f"{'a' if wanted.model else 'a study with a'} smaller epsilon, or decide on a larger "
        "lifetime budget in policy.yaml"
    )
    raise BudgetExceededError(message)
