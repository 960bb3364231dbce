"""The chain of a bundle's ledger: hashes, order, charges and receipts. Pure.

Rules
-----
1. Entries are numbered from 1, and each names the hash of the one before. The hash is the SHA-256
   of the random bytes and of the canonical JSON of the rest. Of an entry that withholds something
   it is taken as stated, and the next entry names it.
2. A release is reserved once, committed after that, and sent after that; a study is reserved once.
   A receipt is the one whose digest was committed, and says what was charged.
3. A charge was within its budget when it was made, with all charges before it that names and places
   in the ledger tie to the same people.

Limits: the site signs its own record, and hashes that are taken as stated prove nothing of what
stands before them. That nothing was changed or taken away shows only a bundle from before, entry by
entry (`dppca.common.verification.audit.looks`). Ties that policy.yaml alone states are not in the
ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import BudgetExceededError, DppcaError, ReceiptError
from dppca.common.kernel.privacy.accounting import NO_COST, Budget, PrivacyCost
from dppca.common.kernel.privacy.promises import Promise, kept_promise
from dppca.common.kernel.privacy.sensitivity import Relation
from dppca.common.verification.audit.form import AuditedEntry, faulty_entry, read_entry

_FIRST = "0" * 64


@dataclass(frozen=True, slots=True)
class Charge:
    """What a reservation or a recovery charges, and to whom."""

    entry: AuditedEntry
    cost: PrivacyCost
    replaced: PrivacyCost
    kept: Promise
    promise: Promise
    budget: Budget

    @property
    def names(self) -> set[str]:
        """Names and places that it ties together; no name has a blank."""
        places = {f"source {self.entry.source_sha256}"} if self.entry.source_sha256 else set()
        return {self.entry.population, self.entry.data_set, *places}


@dataclass(slots=True)
class People:
    """Charges that names and places tie together, added up."""

    names: set[str] = field(default_factory=set)
    populations: set[str] = field(default_factory=set)
    releases: int = 0
    cost: PrivacyCost = NO_COST
    replaced: PrivacyCost = NO_COST
    kept: Promise = Promise.PEOPLE_ADDED

    def join(self, other: People) -> None:
        """Take in other charges."""
        self.names |= other.names
        self.populations |= other.populations
        self.releases += other.releases
        self.cost, self.replaced = self.cost + other.cost, self.replaced + other.replaced
        self.kept = self.kept if other.kept.covers(self.kept) else other.kept

    def total(self, promise: Promise) -> PrivacyCost:
        """Return what they cost under a promise that they keep."""
        return self.cost if promise is Promise.PEOPLE_ADDED else self.replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was charged to the people of a population, and the budget of its last charge."""

    population: str
    tied: tuple[str, ...]
    releases: int
    promise: Promise
    cost: PrivacyCost
    budget: Budget

    @property
    def epsilon(self) -> Decimal | None:
        """Epsilon spent at the budget's delta; None if there is none."""
        try:
            return self.budget.spent(self.cost)
        except BudgetExceededError:
            return None

    @property
    def is_within(self) -> bool:
        """True if the budget covers it."""
        return self.epsilon is not None and self.budget.admits(self.cost)


@dataclass(slots=True)
class Chain:
    """Entries that were verified so far, and what they say together; `add` changes it in place."""

    entries: list[AuditedEntry] = field(default_factory=list)
    charges: dict[str, Charge] = field(default_factory=dict)
    committed: dict[str, AuditedEntry] = field(default_factory=dict)
    _sent: set[str] = field(default_factory=set)
    _settled: set[str] = field(default_factory=set)  # studies that are reserved or recovered
    _people: dict[str, People] = field(default_factory=dict)  # by each of their names

    @property
    def head(self) -> str:
        """Hash of the last entry; zeros for an empty ledger."""
        return self.entries[-1].sha256 if self.entries else _FIRST

    def head_at(self, length: int) -> str | None:
        """Hash of the last of so many first entries; None if there are fewer."""
        if length > len(self.entries):
            return None
        return self.entries[length - 1].sha256 if length else _FIRST

    def add(self, document: dict[str, Any]) -> AuditedEntry:
        """Take in the next entry; raise `ReceiptError` if it breaks rule 1, 2 or 3."""
        number = len(self.entries) + 1
        entry = read_entry(document, number)
        if (entry.sequence, entry.previous) != (number, self.head):
            raise faulty_entry(number, "it does not follow the entry before it")
        if entry.withheld is None and _hash_of(document) != entry.sha256:
            raise faulty_entry(number, "its content does not have its hash")
        try:
            fault = self._take(entry)
        except (ArithmeticError, ValueError, DppcaError) as error:
            raise faulty_entry(number, "its amounts are none") from error
        if fault is not None:
            raise faulty_entry(number, fault)
        self.entries.append(entry)
        return entry

    def _take(self, entry: AuditedEntry) -> str | None:
        key = entry.release_id
        if entry.kind == "reserve":
            return self._reserve(entry)
        if entry.kind in ("recovered", "disowned"):
            self._settled.add(entry.study_digest)
            if entry.kind == "recovered" and key not in self.charges:
                self._charge(read_charge(entry))
        elif entry.kind == "commit":
            if key in self.committed or self._kind_of(key) != "reserve":
                return "its release was never reserved, or committed before"
            self.committed[key] = entry
        elif entry.kind == "sent":
            if key not in self.committed or key in self._sent:
                return "its release was never committed, or sent before"
            self._sent.add(key)
        return None

    def _kind_of(self, release_id: str) -> str | None:
        charge = self.charges.get(release_id)
        return None if charge is None else charge.entry.kind

    def _reserve(self, entry: AuditedEntry) -> str | None:
        if entry.release_id in self.charges or entry.study_digest in self._settled:
            return "its release, or its study, was reserved or recovered before"
        charge = read_charge(entry)
        self._settled.add(entry.study_digest)
        people = self._charge(charge)
        if not people.kept.covers(charge.promise):
            return "a number that its budget's promise hides has left"
        within = charge.budget.admits(people.total(charge.promise))
        return None if within else "it was charged above its budget"

    def _charge(self, charge: Charge) -> People:
        """Add a charge to those of the same people; return them."""
        self.charges[charge.entry.release_id] = charge
        names, entry = charge.names, charge.entry
        new = People(names, {entry.population}, 1, charge.cost, charge.replaced, charge.kept)
        known = {id(each): each for each in map(self._people.get, names) if each is not None}
        # The largest takes in the others, so that no name is written often.
        people, *others = sorted((*known.values(), new), key=lambda each: -len(each.names))
        for each in others:
            people.join(each)
            self._people.update(dict.fromkeys(each.names, people))
        self._people.update(dict.fromkeys(names, people))
        return people

    def spent(self) -> Iterator[Spent]:
        """Yield what was spent of each population, in the order of first charges."""
        last = {each.entry.population: each for each in self.charges.values()}
        for name, charge in last.items():
            people = self._people[name]
            promise = charge.promise if people.kept.covers(charge.promise) else people.kept
            yield Spent(
                population=name,
                tied=tuple(sorted(people.populations - {name})),
                releases=people.releases,
                promise=promise,
                cost=people.total(promise),
                budget=charge.budget,
            )

    def require_receipts(self, receipts: Sequence[Mapping[str, Any]]) -> None:
        """Raise `ReceiptError` unless these are the receipts that were committed, in order."""
        if len(receipts) != len(self.committed):
            raise ReceiptError("the bundle has another number of receipts than of releases")
        for (key, committed), receipt in zip(self.committed.items(), receipts, strict=True):
            wrong = _differing(self.charges[key].entry, committed, receipt)
            if hashlib.sha256(canonical_json(receipt)).hexdigest() != committed.receipt_sha256:
                wrong = ["its digest"]
            if wrong:
                raise faulty_entry(
                    committed.sequence, f"its receipt says otherwise in {', '.join(wrong)}"
                )


def read_charge(entry: AuditedEntry) -> Charge:
    """Return what an entry charges; raise `ValueError`, `ArithmeticError` or `DppcaError`."""
    cost = PrivacyCost(Decimal(entry.charged_epsilon), Decimal(entry.charged_rho))
    kept = kept_promise(Relation(entry.relation or Relation.REPLACE_ONE))
    replaced = cost
    if (kept is Promise.PEOPLE_ADDED) is not (entry.replaced_epsilon is not None):
        raise ValueError(entry.relation)
    if entry.replaced_epsilon is not None:
        replaced = PrivacyCost(Decimal(entry.replaced_epsilon), Decimal(entry.replaced_rho or "x"))
    budget = Budget(Decimal(entry.budget_epsilon), Decimal(entry.budget_delta))
    promise = Promise(entry.promise or Promise.ROWS_REPLACED)
    return Charge(entry, cost, replaced, kept, promise, budget)


def _hash_of(document: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in document.items() if key not in ("salt", "sha256")}
    salt = bytes.fromhex(document.get("salt", ""))
    return hashlib.sha256(salt + canonical_json(rest)).hexdigest()


def _differing(
    charged: AuditedEntry, committed: AuditedEntry, receipt: Mapping[str, Any]
) -> list[str]:
    follows: dict[str, object] = {
        "release_id": charged.release_id,
        "n_rows": committed.n_rows,
        "ledger_sequence": charged.sequence,
        "mechanism": charged.mechanism,
        "epsilon": charged.epsilon,
        "delta": charged.delta,
        "charged_epsilon": charged.charged_epsilon,
        "charged_rho": charged.charged_rho,
    }
    if not charged.model:
        follows |= {"study_digest": charged.study_digest}
        follows |= {"payload_sha256": committed.payload_sha256}
    return [key for key, value in follows.items() if receipt.get(key) != value]
