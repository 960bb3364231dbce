"""What people of a site have signed, by a bundle: the rules of its ledger without its facts. Pure.

Each signature is verified over the statement that the bundle has; the facts that it commits to stay
at the site, so nobody can compare them here. An entry that charges, or lets something leave, names
a statement of its kind and terms that enough people signed in time and that nothing else used.
What lacks that is no fault of the form: it is what an auditor looks for, and is told.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dppca.common.kernel.consent.roles import FIRST, Roles, is_agreed, read_roles, require_successor
from dppca.common.kernel.consent.statement_kinds import StatementKind
from dppca.common.kernel.consent.statements import SignableStatement, find_signer, read_signable
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import DppcaError, ReceiptError
from dppca.common.verification.audit.form import AuditedEntry, faulty_entry

_HOUR = timedelta(hours=1)  # statements give their time in whole ones
_OPTIONAL = (
    *("study", "study_digest", "content_digest", "mechanism", "epsilon", "delta"),
    *("charged_epsilon", "charged_rho", "colluders", "honest"),
)
"""Terms that are null where they have no meaning."""
_KINDS = {
    "vote": StatementKind.OPENING,
    "open": StatementKind.OPENING,
    "published": StatementKind.ROWS,
    "recovered": StatementKind.RECOVERY,
    "disowned": StatementKind.RECOVERY,
}
APPROVED = frozenset({"reserve", *_KINDS})
"""Kinds of entries that people sign at a site with roles."""


@dataclass(slots=True)
class _Record:
    statement: SignableStatement
    signatures: set[bytes] = field(default_factory=set)
    uses: list[AuditedEntry] = field(default_factory=list)
    is_withdrawn: bool = False
    is_in_force: bool = False

    @property
    def is_open(self) -> bool:
        return not (self.uses or self.is_withdrawn or self.is_in_force)

    @property
    def allows_more(self) -> bool:
        """Return True if it was used for a contribution, and allows something beside that."""
        return bool(self.uses and self.statement.terms.also) and not self.is_withdrawn


@dataclass(frozen=True, slots=True)
class SignedEntry:
    """Who has signed what an entry did, by the roles of that time.

    ``signed`` are numbers of people, from 1; ``needed`` is 0 where the site had no roles; ``lacks``
    says what is missing, and is None where nothing is.
    """

    entry: AuditedEntry
    signed: tuple[int, ...]
    needed: int
    lacks: str | None


@dataclass(slots=True)
class SignedRecord:
    """Roles and statements so far; `add` changes it in place.

    ``known`` are roles by their digest, in force or not.
    """

    owner: str
    known: Mapping[str, Roles]
    roles: list[Roles] = field(default_factory=list)
    entries: list[SignedEntry] = field(default_factory=list)
    _records: dict[str, _Record] = field(default_factory=dict)
    _releases: set[str] = field(default_factory=set)

    @property
    def in_force(self) -> Roles | None:
        """Roles in force; None at a site without."""
        return self.roles[-1] if self.roles else None

    def add(self, entry: AuditedEntry) -> None:
        """Take in the next entry; raise `ReceiptError` if it cannot be what people did."""
        try:
            fault = self._take(entry)
        except (DppcaError, ValueError, TypeError, LookupError) as error:
            fault = f"what people sign is damaged in it ({type(error).__name__})"
        if fault is not None:
            raise faulty_entry(entry.sequence, fault)

    def _take(self, entry: AuditedEntry) -> str | None:
        if entry.kind == "proposed":
            return self._propose(entry)
        if entry.kind in ("approved", "withdrawn"):
            return self._sign(entry)
        if entry.kind in APPROVED:
            self.entries.append(self._signed(entry))
        return None

    def _propose(self, entry: AuditedEntry) -> str | None:
        statement = read_signable(entry.statement.encode())
        terms, before = statement.terms, self.in_force
        waited = datetime.fromisoformat(entry.time) - datetime.fromisoformat(terms.proposed)
        if statement.sha256 in self._records or terms.release_id in self._releases:
            return "its statement has been proposed before"
        if terms.owner != self.owner:
            return "its statement is of another site"
        if terms.roles_sha256 != (FIRST if before is None else before.sha256):
            return "its statement is of other roles"
        if not timedelta() <= waited < _HOUR:
            return "its statement is of another hour"
        if terms.kind is StatementKind.ROLES:
            require_successor(before, self._proposed(statement))
        elif before is None:
            return "it stands before any roles"
        self._records[statement.sha256] = _Record(statement)
        self._releases.add(terms.release_id)
        return None

    def _proposed(self, statement: SignableStatement) -> Roles:
        return self.known[statement.terms.content_digest or ""]

    def _sign(self, entry: AuditedEntry) -> str | None:
        record = self._records[entry.proposal or ""]
        if not record.is_open and not (entry.kind == "withdrawn" and record.allows_more):
            return "its statement was used or withdrawn before"
        if entry.kind == "withdrawn":
            record.is_withdrawn = True
            return None
        if not self._is_current(record) or not self._is_in_time(record, entry):
            return "its statement had expired, or is of other roles"
        point = find_signer(record.statement, _signature(entry)).point
        if point in record.signatures or point not in self._may_sign(record):
            return "its key has signed before, or is not in the roles"
        record.signatures.add(point)
        self._bring_into_force(record)
        return None

    def _bring_into_force(self, record: _Record) -> None:
        kind = record.statement.terms.kind
        if kind is StatementKind.ROLES:
            roles = self._proposed(record.statement)
            if is_agreed(self.in_force, roles, record.signatures):
                record.is_in_force = True
                self.roles.append(roles)
        elif kind is StatementKind.POLICY and self.in_force is not None:
            record.is_in_force = self.in_force.is_enough(record.signatures)

    def _may_sign(self, record: _Record) -> set[bytes]:
        known = set[bytes]() if self.in_force is None else set(self.in_force.people)
        proposes = record.statement.terms.kind is StatementKind.ROLES
        return known | set(self._proposed(record.statement).people) if proposes else known

    def _is_current(self, record: _Record) -> bool:
        before = self.in_force
        return record.statement.terms.roles_sha256 == (FIRST if before is None else before.sha256)

    def _is_in_time(self, record: _Record, entry: AuditedEntry) -> bool:
        return datetime.fromisoformat(entry.time) < record.statement.expires

    def _signed(self, entry: AuditedEntry) -> SignedEntry:
        """Return who has signed what an entry did; it is said, not refused, if nobody has."""
        roles = self.in_force
        if roles is None:
            lacks = None if entry.consent is None else "it names signatures, and there are no roles"
            return SignedEntry(entry, (), 0, lacks)
        needed, record = roles.document.needed, self._records.get(entry.consent or "")
        if record is None:
            return SignedEntry(entry, (), needed, "nobody has signed it")
        people = tuple(sorted(number + 1 for number in roles.signed_by(record.signatures)))
        lacks = self._lacking(record, entry, roles)
        record.uses.append(entry)
        return SignedEntry(entry, people, needed, lacks)

    def _lacking(self, record: _Record, entry: AuditedEntry, roles: Roles) -> str | None:
        terms = record.statement.terms
        if _is_of_vote(record, entry):
            return None
        if not self._is_current(record):
            return "its signatures are under other roles"
        if not roles.is_enough(record.signatures):
            return "too few people have signed it"
        if not self._is_in_time(record, entry):
            return "its signatures had expired"
        if _is_beforehand(record, entry):
            return None
        if record.is_withdrawn or not _is_unused(record, entry):
            return "its signatures were withdrawn, or used for something else"
        kind, asked = _asked(entry)
        stated = terms.model_dump()
        same = all(stated[key] == asked.get(key) for key in _OPTIONAL)
        if entry.kind == "reserve":
            same = same and terms.release_id == entry.release_id
        return None if same and terms.kind is kind else "people signed something else"


def roles_by_digest(documents: Iterable[Mapping[str, Any]], owner: str) -> dict[str, Roles]:
    """Read roles; raise `ReceiptError` if some are none, are another site's, or stand twice."""
    found: dict[str, Roles] = {}
    for document in documents:
        try:
            roles = read_roles(canonical_json(document))
        except DppcaError as error:
            raise ReceiptError(f"the bundle holds roles that are none: {error}") from error
        if roles.document.owner != owner or roles.sha256 in found:
            raise ReceiptError("the bundle holds roles of another site, or the same ones twice")
        found[roles.sha256] = roles
    return found


def _signature(entry: AuditedEntry) -> bytes:
    try:
        return base64.b64decode(entry.signature, validate=True)
    except binascii.Error as error:
        raise ValueError("no base64") from error


def _asked(entry: AuditedEntry) -> tuple[StatementKind, dict[str, object]]:
    """Return the kind and the terms of a statement that allows an entry."""
    if entry.kind in ("recovered", "disowned"):
        return StatementKind.RECOVERY, {}  # its terms are facts
    asked: dict[str, object] = {"study": entry.study, "study_digest": entry.study_digest}
    if entry.kind != "reserve":
        return _KINDS[entry.kind], {
            **asked,
            "content_digest": entry.rows_sha256 or entry.set_digest,
        }
    asked |= {
        "content_digest": entry.study_digest,
        "mechanism": entry.mechanism,
        "epsilon": entry.epsilon,
        "delta": entry.delta,
        "charged_epsilon": entry.charged_epsilon,
        "charged_rho": entry.charged_rho,
        "colluders": entry.colluders,
        "honest": entry.honest,
    }
    if entry.model:
        del asked["study_digest"]
        return StatementKind.MODEL, asked
    return StatementKind.CONTRIBUTION, asked


def _is_unused(record: _Record, entry: AuditedEntry) -> bool:
    """Return True if a statement was not used, or only by others of the same recovery."""
    recovers = entry.kind in ("recovered", "disowned")
    return not record.uses or (
        recovers and all(each.kind in ("recovered", "disowned") for each in record.uses)
    )


def _is_beforehand(record: _Record, entry: AuditedEntry) -> bool:
    """Return True if a contribution's statement allows an entry, too, and nothing did it before."""
    also, kind = record.statement.terms.also, _KINDS.get(entry.kind)
    if also is None or not record.allows_more:
        return False
    if entry.study_digest != record.statement.terms.study_digest:
        return False
    if any(_KINDS.get(each.kind) is kind for each in record.uses):
        return False
    if kind is StatementKind.ROWS:
        return also.rows is not None and also.rows.cover(entry.forms, entry.n_rows)
    return kind is StatementKind.OPENING and also.opening


def _is_of_vote(record: _Record, entry: AuditedEntry) -> bool:
    """Return True if an opening is of the vote that the statement was used for."""
    if entry.kind != "open" or any(each.kind == "open" for each in record.uses):
        return False
    vote = next((each for each in record.uses if each.kind == "vote"), None)
    if vote is None:
        return False
    named = (vote.opener_key, vote.study_digest, vote.set_digest)
    return named == (
        entry.opener_key,
        entry.study_digest,
        entry.set_digest,
    )
