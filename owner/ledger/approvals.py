"""What people of a site have signed, by the entries of its ledger, and what that allows. Pure.

::

    proposed ──▶ signed by 1 … enough people ──▶ used (reserve, vote, open, recovered, published)
       │                 │                          └─ policy and roles: in force at once
       ├─ withdrawn      └─ a killed command goes on with the same reservation, whatever expires
       ├─ expired
       └─ stale: the roles, or anything of the act, is another now

Rules
-----
1. Without roles nothing is asked, and no entry has a `consent`. The first entry of a statement is
   that of the first roles.
2. A statement is proposed once, under the roles in force, within the hour that it states. Each
   signature in the chain is verified whenever the chain is read, and counts for one point once.
3. Under roles an entry that lets something leave, or charges, names a statement of its kind, with
   its terms, signed by enough people, not withdrawn, not expired, and not used before. A charge has
   the statement's `release_id`. An opening may use the statement of its own vote. A recovery uses
   one statement for all of its entries, each of which stands in it. What a contribution's
   statement allows beforehand (`also`) may use it after the contribution, each once, until it
   expires or is withdrawn.
4. The policy in force is that of the last statement of a policy that enough people signed; the
   first roles bring the first one.

Limits: whoever has the site's account can run other software, which asks nobody.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from dppca.common.kernel.consent.roles import FIRST, Roles, is_agreed, read_roles, require_successor
from dppca.common.kernel.consent.statement_kinds import StatementKind
from dppca.common.kernel.consent.statements import (
    SignableStatement,
    find_signer,
    read_facts,
    read_signable,
)
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import DppcaError, NotApprovedError
from dppca.owner.ledger.acts import Act, ApprovedEntry, entry_act, recovered_document
from dppca.owner.ledger.entries import (
    Approval,
    Ballot,
    Disowning,
    Entry,
    Proposal,
    Recovery,
    Reservation,
    SetOpening,
    Withdrawal,
)

_HOUR = timedelta(hours=1)  # statements give their time in whole ones
NOTHING_DONE = "Nothing was drawn, charged or sent"


@dataclass(frozen=True, slots=True)
class ProposalRecord:
    """A statement of the chain: signatures by their keys' points, and its entries so far."""

    statement: SignableStatement
    facts: Mapping[str, Any]
    signatures: Mapping[bytes, bytes] = field(default_factory=dict)
    uses: tuple[ApprovedEntry, ...] = ()
    is_withdrawn: bool = False
    is_in_force: bool = False

    @property
    def points(self) -> frozenset[bytes]:
        """Points of the keys that have signed."""
        return frozenset(self.signatures)

    @property
    def is_open(self) -> bool:
        """True until it is used, in force or withdrawn."""
        return not (self.uses or self.is_withdrawn or self.is_in_force)

    @property
    def allows_more(self) -> bool:
        """True if it was used for a contribution, and allows something beside that."""
        return bool(self.uses and self.statement.terms.also) and not self.is_withdrawn

    @property
    def roles(self) -> Roles:
        """The roles that a statement of roles proposes."""
        return read_roles(canonical_json(self.facts["roles"]))


@dataclass(slots=True)
class Approvals:
    """Statements of a chain, by digest in order, and what is in force; `add` changes it in place.

    ``roles`` are all versions, the one in force last; ``policy_sha256`` is the policy's, empty
    without roles; ``entries`` are those that made the roles; ``latest`` is the last entry's time.
    """

    roles: list[Roles] = field(default_factory=list)
    records: dict[str, ProposalRecord] = field(default_factory=dict)
    policy_sha256: str = ""
    entries: list[Proposal | Approval] = field(default_factory=list)
    latest: str = ""

    def copy(self) -> Approvals:
        """Copy that `add` may change."""
        return replace(
            self,
            roles=self.roles.copy(),
            records=self.records.copy(),
            entries=self.entries.copy(),
        )

    @property
    def in_force(self) -> Roles | None:
        """Roles in force; None at a site without."""
        return self.roles[-1] if self.roles else None

    @property
    def roles_sha256(self) -> str:
        """Digest of the roles in force; zeros without."""
        return self.roles[-1].sha256 if self.roles else FIRST

    def add(self, entry: Entry) -> None:
        """Take in the next entry, which breaks no rule (`find_fault`)."""
        self.latest = max(self.latest, entry.time)
        if isinstance(entry, Proposal):
            statement, facts = _read(entry)
            self.records[statement.sha256] = ProposalRecord(statement, facts)
            if statement.terms.kind is StatementKind.ROLES:
                self.entries.append(entry)
        elif isinstance(entry, Approval):
            self._sign(entry)
        elif isinstance(entry, Withdrawal):
            before = self.records[entry.proposal]
            self.records[entry.proposal] = replace(before, is_withdrawn=True)
        elif isinstance(entry, ApprovedEntry) and entry.consent:
            before = self.records[entry.consent]
            self.records[entry.consent] = replace(before, uses=(*before.uses, entry))

    def entries_in_force(self) -> list[Proposal | Approval]:
        """Entries of all versions of roles that came into force, in order."""
        kept: set[str] = {key for key, each in self.records.items() if each.is_in_force}
        return [
            each
            for each in self.entries
            if (each.proposal if isinstance(each, Approval) else _read(each)[0].sha256) in kept
        ]

    def _sign(self, entry: Approval) -> None:
        before = self.records[entry.proposal]
        content = _signature(entry)
        point = find_signer(before.statement, content).point
        record = replace(before, signatures={**before.signatures, point: content})
        kind = record.statement.terms.kind
        if kind is StatementKind.ROLES:
            self.entries.append(entry)
        if kind in (StatementKind.ROLES, StatementKind.POLICY) and self.is_enough(record):
            record = replace(record, is_in_force=True)
            if kind is StatementKind.ROLES:
                self.roles.append(record.roles)
            if kind is StatementKind.POLICY or len(self.roles) == 1:
                self.policy_sha256 = record.facts["policy_sha256"]
        self.records[entry.proposal] = record

    def is_enough(self, record: ProposalRecord) -> bool:
        """Return True if enough people have signed, by the roles in force."""
        if record.statement.terms.kind is StatementKind.ROLES:
            return is_agreed(self.in_force, record.roles, record.points)
        return self.in_force is not None and self.in_force.is_enough(record.points)

    def is_current(self, record: ProposalRecord) -> bool:
        """Return True if it was proposed under the roles in force."""
        return record.statement.terms.roles_sha256 == self.roles_sha256

    def may_sign(self, record: ProposalRecord) -> frozenset[bytes]:
        """Points whose signatures count: those of the roles in force and of proposed ones."""
        known = frozenset[bytes]() if self.in_force is None else self.in_force.people.keys()
        proposes = record.statement.terms.kind is StatementKind.ROLES
        return frozenset(known) | (record.roles.people.keys() if proposes else frozenset())


def find_fault(approvals: Approvals, entry: Entry) -> str | None:
    """Reason why an entry breaks a rule; None if it breaks none."""
    try:
        if isinstance(entry, Proposal):
            return _misproposed(approvals, entry)
        if isinstance(entry, Approval | Withdrawal):
            return _missigned(approvals, entry)
        if isinstance(entry, ApprovedEntry):
            return _unapproved(approvals, entry)
    except (DppcaError, ValueError, TypeError, LookupError) as error:
        return f"what people sign is damaged in it ({type(error).__name__})"
    return None


def _misproposed(approvals: Approvals, entry: Proposal) -> str | None:
    statement, facts = _read(entry)
    terms, before = statement.terms, approvals.in_force
    time = datetime.fromisoformat(entry.time)
    if statement.sha256 in approvals.records:
        return "its statement has been proposed before"
    if terms.roles_sha256 != approvals.roles_sha256:
        return "its statement is of other roles"
    if any(each.statement.terms.release_id == terms.release_id for each in _all(approvals)):
        return "its identifier has been proposed before"
    if not timedelta() <= time - datetime.fromisoformat(terms.proposed) < _HOUR:
        return "its statement is of another hour"
    if before is not None and terms.owner != before.document.owner:
        return "its statement is of another site"
    if len(facts["policy_sha256"]) != len(FIRST) or facts["authority_sha256"] != terms.authority:
        return "its facts are not those of its statement"
    if terms.kind is StatementKind.ROLES:
        roles = ProposalRecord(statement, facts).roles
        require_successor(before, roles)
        named = (roles.document.owner, roles.sha256) == (terms.owner, terms.content_digest)
        return None if named else "its roles are of another site, or not those that it names"
    return "it stands before any roles" if before is None else None


def _missigned(approvals: Approvals, entry: Approval | Withdrawal) -> str | None:
    record = approvals.records.get(entry.proposal)
    if record is None:
        return "its statement was never proposed"
    is_stopped = isinstance(entry, Withdrawal) and record.allows_more
    if not record.is_open and not is_stopped:
        return "its statement was used or withdrawn before"
    if isinstance(entry, Withdrawal):
        return None
    if not approvals.is_current(record):
        return "its statement is of other roles"
    if datetime.fromisoformat(entry.time) >= record.statement.expires:
        return "its statement had expired"
    point = find_signer(record.statement, _signature(entry)).point
    if point not in approvals.may_sign(record):
        return "it is signed by a key that is not in the roles"
    return "this key has signed its statement before" if point in record.points else None


def _unapproved(approvals: Approvals, entry: ApprovedEntry) -> str | None:
    """Reason why an entry breaks rule 1 or 3."""
    if approvals.in_force is None:
        return (
            "people are said to have signed it, and the site has no roles" * bool(entry.consent)
            or None
        )
    record = approvals.records.get(entry.consent)
    if record is None:
        return "no statement that people signed allows it"
    terms = record.statement.terms
    if isinstance(entry, SetOpening) and _is_of_vote(record, entry):
        return None
    beforehand = _is_beforehand(record, _plain(entry_act(entry)))
    if not (beforehand or _is_unused(record, entry)) or record.is_withdrawn:
        return "its statement was used or withdrawn before"
    if not approvals.is_current(record) or not approvals.is_enough(record):
        return "too few people have signed its statement"
    if datetime.fromisoformat(entry.time) >= record.statement.expires:
        return "its statement had expired"
    if isinstance(entry, Reservation) and entry.release_id.hex() != terms.release_id:
        return "its statement is of another release"
    if isinstance(entry, Recovery | Disowning):
        known = recovered_document(entry) in record.facts.get("entries", ())
        return (
            None if known and terms.kind is StatementKind.RECOVERY else "its statement is of others"
        )
    same = beforehand or _plain(entry_act(entry)).is_within(terms, record.facts)
    return None if same else "its statement allows something else"


def _is_unused(record: ProposalRecord, entry: ApprovedEntry) -> bool:
    """Return True if a statement was not used, or only by other entries of the same recovery."""
    if not isinstance(entry, Recovery | Disowning):
        return not record.uses
    others = [each for each in record.uses if isinstance(each, Recovery | Disowning)]
    document = recovered_document(entry)
    again = any(recovered_document(each) == document for each in others)
    return len(others) == len(record.uses) and not again


def _is_of_vote(record: ProposalRecord, entry: SetOpening) -> bool:
    """Return True if a statement was used by the vote for this very set, and by no opening."""
    if any(isinstance(each, SetOpening) for each in record.uses):
        return False
    used = next((each for each in record.uses if isinstance(each, Ballot)), None)
    return (
        used is not None
        and used.key_id == entry.key_id
        and (used.study_digest, used.set_digest) == (entry.study_digest, entry.set_digest)
    )


def _is_beforehand(record: ProposalRecord, act: Act) -> bool:
    """Return True if a contribution was made by a statement that allows an act, too, and once."""
    if not record.allows_more or not act.is_beforehand(record.statement.terms, record.facts):
        return False
    return all(entry_act(each).kind is not act.kind for each in record.uses)


def find_consent(approvals: Approvals, act: Act, *, now: datetime) -> ProposalRecord | None:
    """Return the statement that allows an act now; None if it has to be proposed first.

    The site has roles. Raise `NotApprovedError` if a statement of it waits for people, the policy
    is not the one in force, or the clock is behind the last entry's.
    """
    require_clock(approvals, now)
    act = _plain(act)
    if act.kind not in (StatementKind.POLICY, StatementKind.ROLES):
        require_policy(approvals, act.facts["policy_sha256"])
    waiting = None
    for record in reversed(list(approvals.records.values())):
        if not record.is_open or not approvals.is_current(record):
            continue
        if now >= record.statement.expires or not act.is_of(record.statement.terms, record.facts):
            continue
        if approvals.is_enough(record):
            return record
        waiting = waiting or record
    for record in approvals.records.values():
        in_time = approvals.is_current(record) and now < record.statement.expires
        if in_time and approvals.is_enough(record) and _is_beforehand(record, act):
            return record
    if waiting is not None:
        raise NotApprovedError(
            f"statement {waiting.statement.sha256[:12]} waits for people: "
            f"{missing_text(approvals, waiting)}. {NOTHING_DONE}"
        )
    return None


def require_drawn_as_signed(approvals: Approvals, consent: str, act: Act) -> None:
    """Raise `NotApprovedError` unless a charge that was not drawn is drawn as it was signed."""
    record, act = approvals.records[consent], _plain(act)
    require_policy(approvals, act.facts["policy_sha256"])
    if "rows" not in act.facts or not act.is_within(record.statement.terms, record.facts):
        raise NotApprovedError(
            f"statement {consent[:12]}, under which this was charged, is of other rows, or of "
            "another place, authority or site.yaml: put them back as they were. If they are gone "
            "for good, this study gets nothing of this site: ask its operator for another one. The "
            "charge stands; nothing was drawn or sent"
        )


def require_policy(approvals: Approvals, policy_sha256: str) -> None:
    """Raise `NotApprovedError` unless policy.yaml is the one that people signed last."""
    if policy_sha256 != approvals.policy_sha256:
        raise NotApprovedError(
            "policy.yaml is not the one that people of this site signed last: put it back, or run "
            f"`dppca-owner policy propose`. {NOTHING_DONE}"
        )


def require_clock(approvals: Approvals, now: datetime) -> None:
    """Raise `NotApprovedError` if this machine's clock is behind the last entry's time."""
    if approvals.latest and now < datetime.fromisoformat(approvals.latest):
        raise NotApprovedError(
            f"this machine's clock is earlier than the ledger's last entry ({approvals.latest}): "
            f"correct the clock. {NOTHING_DONE}"
        )


def missing_text(approvals: Approvals, record: ProposalRecord) -> str:
    """Say who has signed, as numbers of people, and how many must."""
    proposes = record.statement.terms.kind is StatementKind.ROLES
    roles = record.roles if proposes else approvals.in_force
    assert roles is not None  # noqa: S101 - a statement of anything else has roles
    signed = sorted(roles.signed_by(record.points))
    names = ", ".join(f"p{number + 1}" for number in signed) or "nobody"
    every = " (every new key must sign)" if proposes else ""
    return f"{len(signed)} of {roles.document.needed} have signed ({names}){every}"


def _plain(act: Act) -> Act:
    """Return an act with facts as JSON reads them back."""
    return replace(act, facts=json.loads(canonical_json(dict(act.facts))))


def _all(approvals: Approvals) -> list[ProposalRecord]:
    return list(approvals.records.values())


def _read(entry: Proposal) -> tuple[SignableStatement, dict[str, Any]]:
    statement = read_signable(entry.statement.encode())
    return statement, read_facts(entry.facts.encode(), statement)


def _signature(entry: Approval) -> bytes:
    try:
        content = base64.b64decode(entry.signature, validate=True)
    except binascii.Error as error:
        raise ValueError("no base64") from error
    if base64.b64encode(content).decode() != entry.signature:
        raise ValueError("another form of base64")
    return content
