"""Chain of a ledger: its verification, its totals, and the decision on a charge. Pure.

Steps of one release, in this order only::

    reserve ──▶ (draw) ──▶ commit ──▶ sent
    the charge   nothing    the bytes  the curator has
    counts now   is kept    are kept   acknowledged

Rules
-----
1. An entry holds the hash of the entry before it; the first holds zeros. Entries are numbered
   from 1 without a gap. The hash is the SHA-256 of 16 random bytes, which no message holds, and of
   the document: the last one leaves with a contribution, and must confirm no guess of names,
   places and budgets. Entries of 0.1.0 have none.
2. A study is reserved at most once for all data sets, because a curator takes one release of an
   owner for a study. A model is reserved at most once too, by the digest of its whole request.
   The same request again finds the same reservation, which is never refunded. A reservation has
   one population and one source: nothing is drawn under it for others, or after a budget that it
   counts for has been lowered below the amount spent.
3. A release is committed at most once, after its reservation; sent at most once, after that.
4. A release that a curator holds and the ledger had lost is recovered or disowned, each at most
   once. A recovery charges the cost of its release, regardless of the budget, unless the release's
   reservation is in the ledger. Nothing is reserved or committed for its study afterwards.
5. A population's totals are E, the sum of charged epsilons, and R, the sum of charged rhos, of all
   charges that it is tied to (`dppca.owner.ledger.populations`). A reservation is admitted if
   E + epsilon(R, delta*) <= epsilon* holds *with* it, for the budget (epsilon*, delta*) that the
   policy gives at that time, and for the budget of every other population it would count for.
6. Opener keys have rules of their own (`dppca.owner.ledger.openers`); their entries charge nothing.
7. Where a site has roles, people sign first (`dppca.owner.ledger.approvals`).

Limits: the chain shows that entries were changed, swapped, or removed from the middle. It cannot
show that the last ones were removed, or that the whole chain is another one: the ledger's mark and
the curators' records show that (`dppca.owner.ledger.mark`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields

from dppca.common.kernel.documents.amounts import decimal_text, spent_text
from dppca.common.kernel.errors import (
    BudgetExceededError,
    DppcaError,
    LedgerCorruptError,
    LedgerError,
    NotApprovedError,
    SettingError,
    StudyStateError,
)
from dppca.common.kernel.privacy.accounting import NO_COST, PrivacyCost
from dppca.common.kernel.privacy.promises import Promise, Spending, kept_promise
from dppca.owner.ledger.acts import Act, charge_act
from dppca.owner.ledger.approvals import NOTHING_DONE, Approvals, find_fault
from dppca.owner.ledger.entries import (
    ApprovalEntry,
    Commitment,
    Delivery,
    Disowning,
    Entry,
    OpenerEntry,
    Recovery,
    ReleaseRequest,
    Reservation,
    RowsPublication,
)
from dppca.owner.ledger.entry_documents import from_document
from dppca.owner.ledger.openers import OpenerRecord, misplaced, record_with
from dppca.owner.ledger.populations import Account, Population, identifiers, transitive_links

SALT_BYTES = 16  # so many that none comes twice
FIRST = bytes(32)
"""Stands in the first entry for the hash of the entry before it."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """An entry as it was found in a file; not yet verified."""

    sequence: object
    document: object
    digest: object
    salt: object = b""


@dataclass(frozen=True, slots=True)
class History:
    """Content of a verified chain; not changed once it was handed out.

    ``heads`` has the hash of each entry, in order; ``reserved``, ``commitments``, ``deliveries``,
    ``recoveries`` and ``disowned`` are entries by release, in order; ``openers`` records by opener
    key; ``published`` tables by study and digest; ``approvals`` what people have signed.
    """

    heads: list[bytes] = field(default_factory=list)
    reserved: dict[bytes, Reservation] = field(default_factory=dict)
    commitments: dict[bytes, Commitment] = field(default_factory=dict)
    deliveries: dict[bytes, Delivery] = field(default_factory=dict)
    recoveries: dict[bytes, Recovery] = field(default_factory=dict)
    disowned: dict[bytes, Disowning] = field(default_factory=dict)
    openers: dict[str, OpenerRecord] = field(default_factory=dict)
    published: dict[tuple[str, str], RowsPublication] = field(default_factory=dict)
    approvals: Approvals = field(default_factory=Approvals)
    _reserved: dict[str, Reservation] = field(default_factory=dict)  # by the request's digest
    _settled: dict[str, Recovery | Disowning] = field(default_factory=dict)  # likewise
    _spent: dict[Account, Spending] = field(default_factory=dict)  # the sum of its charges

    @property
    def length(self) -> int:
        """Number of entries."""
        return len(self.heads)

    @property
    def head(self) -> bytes:
        """Hash of the last entry; `FIRST` for an empty chain."""
        return self.heads[-1] if self.heads else FIRST

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """All reservations, in order."""
        return tuple(self.reserved.values())

    def copy(self) -> History:
        """Copy of the history that `add` may extend."""
        return History(*(getattr(self, each.name).copy() for each in fields(self)))

    def add(self, entry: Entry, head: bytes) -> None:
        """Extend the history in place by an entry that may follow; ``head`` is its hash."""
        self.heads.append(head)
        self.approvals.add(entry)
        if isinstance(entry, ApprovalEntry):
            return
        if isinstance(entry, OpenerEntry):
            self.openers[entry.key_id] = record_with(self.openers, entry)
        elif isinstance(entry, Reservation):
            self.reserved[entry.release_id] = entry
            self._reserved[entry.request.request_digest] = entry
            self._charge(entry.request)
        elif isinstance(entry, Commitment):
            self.commitments[entry.release_id] = entry
        elif isinstance(entry, Recovery):
            self.recoveries[entry.release_id] = entry
            if not isinstance(self.settled_for(entry.request.request_digest), Recovery):
                self._settled[entry.request.request_digest] = entry
            if entry.release_id not in self.reserved:
                self._charge(entry.request)
        elif isinstance(entry, Disowning):
            self.disowned[entry.release_id] = entry
            self._settled.setdefault(entry.study_digest, entry)
        elif isinstance(entry, RowsPublication):
            self.published[entry.study_digest, entry.rows_sha256] = entry
        else:
            self.deliveries[entry.release_id] = entry

    def has_prefix(self, length: int, head: bytes) -> bool:
        """Return True if the chain starts with a chain of this length and head."""
        return not length or (length <= self.length and self.heads[length - 1] == head)

    def reservation_for(self, request_digest: str) -> Reservation | None:
        """Reservation under a request's digest, if there is one."""
        return self._reserved.get(request_digest)

    def commitment_for(self, request_digest: str) -> Commitment | None:
        """Stored release under a request's digest, if there is one."""
        reservation = self.reservation_for(request_digest)
        return None if reservation is None else self.commitments.get(reservation.release_id)

    def settled_for(self, request_digest: str) -> Recovery | Disowning | None:
        """Recovery or disowning of a release under a request's digest, if there is one."""
        return self._settled.get(request_digest)

    def contribution_for(self, request_digest: str) -> Commitment | Recovery | None:
        """The release that counts as this site's: the recovered one, or else the stored one."""
        settled = self.settled_for(request_digest)
        recovered = settled if isinstance(settled, Recovery) else None
        return recovered or self.commitment_for(request_digest)

    def is_held(self, request_digest: str) -> bool:
        """Return True if a curator is known to hold the release under a request's digest."""
        contribution = self.contribution_for(request_digest)
        return isinstance(contribution, Recovery) or (
            contribution is not None and contribution.release_id in self.deliveries
        )

    def knows(self, study_digest: str, release_id: bytes) -> bool:
        """Return True if a release is accounted for; without ``release_id``, check by study."""
        if release_id:
            return any(release_id in m for m in (self.commitments, self.recoveries, self.disowned))
        known = self.commitment_for(study_digest) or self.settled_for(study_digest)
        return known is not None

    @property
    def charges(self) -> tuple[Reservation | Recovery, ...]:
        """Charges that count: every reservation, and every recovery of a release without one."""
        recovered = (r for key, r in self.recoveries.items() if key not in self.reserved)
        return (*self.reserved.values(), *recovered)

    def find_charges(
        self, name: str, populations: Collection[Population] = ()
    ) -> tuple[Reservation | Recovery, ...]:
        """Charges that count for the people whom a name of a population or data set stands for.

        ``populations`` are those of the policy, which tie names too.
        """
        tied = self._tied(identifiers(name), populations)
        return tuple(c for c in self.charges if not tied.isdisjoint(c.request.account.identifiers))

    def total(
        self,
        name: str,
        populations: Collection[Population] = (),
        promise: Promise | None = None,
    ) -> PrivacyCost:
        """Sum of `find_charges`, under a promise that they keep; None takes that of `promise`."""
        under = promise or self.promise(name, populations)
        return self._spending(name, populations).under(under)

    def promise(self, name: str, populations: Collection[Population] = ()) -> Promise:
        """Strongest promise that the charges of a population keep, up to the one it states.

        The weakest for a name that is no population of the policy.
        """
        stated = (each.promise for each in populations if each.name == name)
        wanted = next(stated, Promise.ROWS_REPLACED)
        kept = self._spending(name, populations).kept
        return wanted if kept.covers(wanted) else kept

    def weakened_by(
        self, name: str, populations: Collection[Population] = ()
    ) -> Reservation | Recovery | None:
        """First charge by which a number left that the promise before, or that of now, hides."""
        stated = (each.promise for each in populations if each.name == name)
        hidden = next(stated, Promise.ROWS_REPLACED)
        charges = sorted(self.find_charges(name, populations), key=lambda each: each.sequence)
        for charge in charges:
            before = charge.request.account.population.promise
            hidden = hidden if hidden.covers(before) else before
        broken = (c for c in charges if not kept_promise(c.request.relation).covers(hidden))
        return next(broken, None)

    def _spending(self, name: str, populations: Collection[Population]) -> Spending:
        tied = self._tied(identifiers(name), populations)
        spent = (each for who, each in self._spent.items() if not tied.isdisjoint(who.identifiers))
        return sum(spent, Spending())

    def tied_to(self, name: str, populations: Collection[Population]) -> tuple[Population, ...]:
        """Other populations of the policy that share all charges with the named one."""
        tied = self._tied(identifiers(name), populations)
        return tuple(p for p in populations if p.name != name and p.name in tied)

    def counted_for(self, account: Account) -> tuple[Population, ...]:
        """Populations that a charge to an account counts for, its own first."""
        own = account.population
        return (own, *self.tied_to(own.name, account.populations))

    def unclaimed(self, populations: Collection[Population]) -> tuple[str, ...]:
        """Names of charged populations that are tied to no population of the policy."""
        claimed = self._tied(identifiers(*(p.name for p in populations)), populations)
        left = (
            each.population.name for each in self._spent if claimed.isdisjoint(each.identifiers)
        )
        return tuple(dict.fromkeys(left))

    @property
    def data_sets(self) -> tuple[str, ...]:
        """Data sets that were ever charged, in the order of their first charge."""
        return tuple(dict.fromkeys(c.request.data_set for c in self.charges))

    def _tied(self, start: frozenset[str], populations: Collection[Population]) -> frozenset[str]:
        charged = frozenset(account.source for account in self._spent)
        stated = (population.identifiers(charged) for population in populations)
        return transitive_links(start, [*(account.identifiers for account in self._spent), *stated])

    def _charge(self, request: ReleaseRequest) -> None:
        self._spent[request.account] = (
            self._spent.get(request.account, Spending()) + request.spending
        )


def admit_charge(history: History, request: ReleaseRequest) -> Reservation | None:
    """Return the existing reservation of a request, or None if a new one may be made.

    Raises
    ------
    SettingError
        It was reserved for another population, source, query, reading or key; the policy does not
        say whose rows some earlier charge was for; or rows of people have no key, or another one
        than earlier charges.
    BudgetExceededError
        The budget of a population that it counts for does not cover it.
    StudyStateError
        A curator holds a release for it that was recovered or disowned.
    LedgerError
        It was reserved at another price than this version charges.
    """
    require_unsettled(history, request.study, request.request_digest)
    reserved = history.reservation_for(request.request_digest)
    if reserved is not None:
        _require_same(reserved.request, request)
    require_claimed(history, request.account.populations)
    _require_promises(history, request)
    _require_key(history, request)
    _require_room(history, request, charged=reserved is not None)
    return reserved


def signed_charge(history: History, request: ReleaseRequest) -> Act:
    """Return the act of a charge with the evidence of its rows and the budgets before it.

    Raise `NotApprovedError` if no rows were read for it.
    """
    found = request.evidence
    if found is None:
        raise NotApprovedError(
            "people of this site sign what is read, and no rows were read for this request. "
            f"{NOTHING_DONE}"
        )
    budgets = []
    for population in history.counted_for(request.account):
        before = history.total(population.name, request.account.populations)
        budgets.append(
            {
                "population": population.name,
                "who": population.who,
                "promise": population.promise.value,
                "epsilon": decimal_text(population.budget.epsilon),
                "delta": decimal_text(population.budget.delta),
                "spent_epsilon": decimal_text(before.epsilon),
                "spent_rho": decimal_text(before.rho),
            }
        )
    evidence = {"rows": found.rows, "n_rows": found.n_rows, "place": found.place}
    return charge_act(request).with_facts({**evidence, "budgets": budgets})


def _require_same(before: ReleaseRequest, request: ReleaseRequest) -> None:
    """Refuse a request that differs from the one reserved; errors as in `admit_charge`."""
    _require_account(before, request.account)
    if before.spending != request.spending:
        raise LedgerError(
            f"{request.title} was reserved at {_spent_text(before.spending)}, but this version "
            f"would charge {_spent_text(request.spending)}: finish it with the version that "
            "reserved it"
        )
    if before.key not in ("", request.account.key):
        raise SettingError(
            f"the key of data set {request.data_set} was {before.key} when {request.title} was "
            "reserved: put it back as it was, because the ledger must say whose rows are released"
        )
    if before.query_sha256 != request.query_sha256:
        raise SettingError(
            f"the query of data set {request.data_set} has changed since {request.title} was "
            "reserved: put it back as it was, because the ledger must say what is released"
        )
    if before.reading_sha256 != request.reading_sha256:
        raise SettingError(
            f"the mapping, one_hot or format of data set {request.data_set} has changed since "
            f"{request.title} was reserved: put it back as it was, because the ledger must say "
            "what is released (version 0.2.0 did not record it: what that version reserved, it "
            "must finish)"
        )


def _spent_text(spending: Spending) -> str:
    """Text of what a release costs under each promise that it keeps."""
    claimed, replaced = spending.as_claimed, spending.replaced
    text = f"epsilon {claimed.epsilon} and rho {claimed.rho}"
    if spending.kept is not Promise.PEOPLE_ADDED:
        return text
    return (
        f"{text} under `{spending.kept}` and epsilon {replaced.epsilon} and rho {replaced.rho} "
        "under the other promises"
    )


def require_unsettled(history: History, study: str, request_digest: str) -> None:
    """Raise `StudyStateError` if the study's release at a curator was recovered or disowned."""
    settled = history.settled_for(request_digest)
    if settled is None:
        return
    if isinstance(settled, Recovery):
        message = (
            f"this site has contributed to study {study}: the curator has its contribution, and "
            f"entry {settled.sequence} of the ledger recovered it. You need to do nothing more; "
            "nothing was drawn or charged"
        )
    else:
        message = (
            f"the curator has a contribution under this site's name to study {study}, which "
            f"entry {settled.sequence} of the ledger disowned. It accepts no other one. Nothing "
            "was drawn or charged. To take part, ask the operator to abort the study and to make "
            "a new one"
        )
    raise StudyStateError(message)


def require_data_set(charged: ReleaseRequest, data_set: str) -> None:
    """Raise `SettingError` unless the data set is the one that was charged."""
    if charged.data_set != data_set:
        raise SettingError(
            f"study {charged.study} was charged to data set {charged.data_set} and accepts "
            f"one release of this owner: use --data-set {charged.data_set}"
        )


def _require_account(reserved: ReleaseRequest, account: Account) -> None:
    """Raise `SettingError` unless rows and people are those that were charged."""
    before = reserved.account
    changed = []
    if before.population.name != account.population.name:
        changed.append(f"draws on population {account.population.name}")
    if before.source != account.source:
        changed.append("lies at another place")
    if changed:
        same = account.data_set == before.data_set
        raise SettingError(
            f"{reserved.title} was charged to data set {before.data_set} of population "
            f"{before.population.name}, and nothing was drawn yet. Data set {account.data_set} "
            f"{' and '.join(changed)}{' now' if same else ''}, so nothing is drawn from its rows "
            f"under that charge: {'' if same else f'use --data-set {before.data_set}, or '}put "
            "policy.yaml back as it was until the release is stored"
        )


def require_claimed(history: History, populations: Collection[Population]) -> None:
    """Raise `SettingError` while the policy does not say whose rows some charge was for."""
    unclaimed = history.unclaimed(populations)
    if unclaimed:
        names = ", ".join(unclaimed)
        raise SettingError(
            f"the ledger has charges of {names}, and policy.yaml does not say whose rows these "
            f"were. If it is a population by another name, enter was: [{names}] in that "
            "population; if they are other people, state them under that name in populations, "
            "with their budget. Until then nothing is charged"
        )


def is_finished(history: History, reservation: Reservation) -> bool:
    """Return True if a contribution has arrived or is settled, or if a file's bytes are stored."""
    done = history.commitments if reservation.request.makes_file else history.deliveries
    return (
        reservation.release_id in done
        or history.settled_for(reservation.request.request_digest) is not None
    )


def verify_chain(rows: Iterable[LedgerRow]) -> History:
    """Verify a chain from its first entry and return its history.

    Raise a `LedgerCorruptError` that names the first entry at fault.
    """
    history = History()
    for row in rows:
        enter(history, row)
    return history


def enter(history: History, row: LedgerRow) -> None:
    """Verify the next row of a chain, and extend its history in place; raises likewise."""
    entry, head = _read(row, history)
    fault = _misplaced(history, entry)
    if fault is not None:
        raise damaged(entry.sequence, fault)
    history.add(entry, head)


def damaged(sequence: int, reason: str) -> LedgerCorruptError:
    """The error for a ledger in which ``sequence`` is the first entry at fault."""
    return LedgerCorruptError(
        f"the ledger is damaged at entry {sequence}: {reason}. Nothing is released until "
        "ledger.sqlite is restored from a copy no older than the last contribution"
    )


def _read(row: LedgerRow, history: History) -> tuple[Entry, bytes]:
    """Entry of a row, and its hash."""
    number = history.length + 1
    document = row.document if isinstance(row.document, bytes) else b""
    salt = row.salt if isinstance(row.salt, bytes) else b""
    head = hashlib.sha256(salt + document).digest()
    if row.sequence != number:
        raise damaged(number, "another entry stands in its place")
    if len(salt) not in (0, SALT_BYTES):
        raise damaged(number, "it does not have its random bytes")
    if head != row.digest:
        raise damaged(number, "its content does not have its hash")
    try:
        entry = from_document(document, previous=history.head)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError, DppcaError) as error:
        raise damaged(number, "it is not one that follows the entry before it") from error
    if entry.sequence != number:
        raise damaged(number, "it has another number")
    return entry, head


def _misplaced(history: History, entry: Entry) -> str | None:
    """Reason why an entry breaks rule 2, 3, 4, 6 or 7; None if it breaks none."""
    # No budget is compared: a charge was admitted under the policy of its time (`admit_charge`).
    unsigned = find_fault(history.approvals, entry)
    if unsigned is not None or isinstance(entry, ApprovalEntry):
        return unsigned
    if isinstance(entry, RowsPublication):
        again = (entry.study_digest, entry.rows_sha256) in history.published
        return "its tables have been published before" if again else None
    if isinstance(entry, OpenerEntry):
        return misplaced(history.openers, entry)
    if isinstance(entry, Reservation):
        if history.reservation_for(entry.request.request_digest) is not None:
            return "its study has been reserved before"
        if entry.release_id in history.reserved:
            return "its release has been reserved before"
        if entry.release_id in history.recoveries:
            return "its release has been recovered before"
        if history.settled_for(entry.request.request_digest) is not None:
            return "its study has been recovered or disowned before"
    elif isinstance(entry, Commitment):
        if entry.release_id not in history.reserved:
            return "its release was never reserved"
        if entry.release_id in history.commitments:
            return "its release has been committed before"
        if entry.release_id in history.recoveries:
            return "its release has been recovered before"
    elif isinstance(entry, Recovery | Disowning):
        return _unsettled(history, entry)
    else:
        if entry.release_id not in history.commitments:
            return "its release was never committed"
        if entry.release_id in history.deliveries:
            return "its release has been sent before"
    return None


def _unsettled(history: History, entry: Recovery | Disowning) -> str | None:
    """Reason why an entry breaks rule 4; None if it does not."""
    digest = entry.study_digest if isinstance(entry, Disowning) else entry.request.request_digest
    if history.knows(digest, entry.release_id):
        return "its release is known already"
    reserved = history.reserved.get(entry.release_id)
    if reserved is None:
        return None
    if isinstance(entry, Disowning):
        return "its release was reserved here"
    ours, theirs = reserved.request, entry.request
    same = (ours.request_digest, ours.data_set, ours.price.charge) == (
        theirs.request_digest,
        theirs.data_set,
        theirs.price.charge,
    )
    return None if same else "its release was reserved otherwise"


def _require_promises(history: History, request: ReleaseRequest) -> None:
    """Refuse a release while some price, its own or an earlier one's, is infinite."""
    populations = request.account.populations
    for population in history.counted_for(request.account):
        hidden = population.promise
        weaker = history.promise(population.name, populations)
        left = request.title
        if weaker is hidden:
            weaker = kept_promise(request.relation)
            if weaker.covers(hidden):
                continue
        elif (charge := history.weakened_by(population.name, populations)) is not None:
            left = f"{charge.request.title}, charged on {charge.time[:10]},"
        raise SettingError(
            f"{left} publishes a number that population {population.name} keeps secret: its budget "
            f"in policy.yaml is of the promise `{hidden}`, under which that costs without limit. "
            f"What can be promised with it is `{weaker}`, for good. If that is what you decide, "
            f"state {_STATED[weaker]} in the population. Nothing was charged by this command"
        )


def find_population_of_people(history: History, account: Account) -> str | None:
    """Population that a charge counts for and that states ``unit: person``; None without one."""
    counted = history.counted_for(account)
    return next((each.name for each in counted if each.counts_people), None)


def _require_key(history: History, request: ReleaseRequest) -> None:
    """Refuse rows of people whom nobody counts, or who were counted by another column."""
    account, key = request.account, request.account.key
    own = account.population.name
    people = find_population_of_people(history, account)
    if people is not None and not key:
        raise SettingError(
            f"population {people} has unit: person in policy.yaml, and data set "
            f"{request.data_set} has no key, so nobody counts how many rows of {request.title} one "
            "person has. Enter the column that tells people apart as `key` of the data set. "
            "Nothing was charged by this command"
        )
    # Populations that are tied to it have the same charges.
    for charge in history.find_charges(own, account.populations) if request.key else ():
        before = charge.request
        if before.key not in ("", key):
            raise SettingError(
                f"data set {request.data_set} has the key {key}, and {before.title}, charged "
                f"on {charge.time[:10]} for people of population {own}, was counted by "
                f"{before.key}: one person could count as several. Give the column the name "
                f"{before.key}, in the file or by a query, if it holds the same numbers of the "
                "same people. Nothing was charged by this command"
            )


_STATED = {
    Promise.ROWS_REPLACED: "neither unit nor neighbours",
    Promise.PEOPLE_REPLACED: "unit: person, without neighbours,",
}


def _require_room(history: History, request: ReleaseRequest, *, charged: bool) -> None:
    """Refuse a release if a budget does not cover the amount spent together with its charge.

    ``charged`` says that the charge is a part of what is spent.
    """
    own, populations = request.account.population, request.account.populations
    for population in history.counted_for(request.account):
        budget, before = population.budget, history.total(population.name, populations)
        charge = NO_COST if charged else request.spending.under(population.promise)
        if budget.admits(before + charge):
            continue
        total = spent_text(budget.spent(before + charge))
        why = "" if population is own else f", which shares charges with {own.name},"
        raise BudgetExceededError(
            f"the budget of population {population.name}{why} does not cover {request.title}: of "
            f"epsilon {decimal_text(budget.epsilon)} at delta {decimal_text(budget.delta)}, "
            f"{spent_text(budget.spent(before))} is spent"
            + (
                ", with the charge that was reserved for it. Decide on a larger lifetime budget in "
                "policy.yaml; until then nothing is drawn"
                if charged
                else f"; with this release it would be {total}. Ask for "
                f"{'a' if request.makes_file else 'a study with a'} smaller epsilon, or decide on "
                "a larger lifetime budget in policy.yaml"
            )
        )
