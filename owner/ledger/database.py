"""Ledger file in SQLite: append-only, with one transaction per step.

Limits and choices
------------------
* ``synchronous=EXTRA`` with a rollback journal: when `Ledger.reserve` or `Ledger.commit` returns,
  the step has reached the disk, and so has the removal of the journal that could undo it. The
  whole ledger is one file, and a copy of that file is a backup.
* Triggers refuse changes, removals and writing out of order. They guard against accidents; the
  chain guards against malice (`dppca.owner.ledger.chain`).
* One transaction writes the bytes of a release and the entry that commits them: neither exists
  without the other. If a crash kept the bytes from being stored, they were never sent; they are
  drawn again under the same reservation. The same holds for the sums of an opener and their entry.
* The chain is verified once while the lock is held, and extended by each appended entry; stored
  bytes are compared with their digests when they are read (`dppca.owner.ledger.file`).
  `dppca.owner.ledger.file` defines the file's structure.
* Nothing is reserved or committed if the ledger contradicts its mark or a curator's record, or was
  restored (`dppca.owner.ledger.mark`). `Ledger.compare` and `Ledger.recover` resolve this. Each
  transaction writes the mark before it returns: nothing is drawn, voted or sent on the strength of
  an entry that the mark does not know.
* Only its owner may access the file (mode 0600): a reader could hold SQLite's lock.
* At a site with roles each method that charges, or lets something leave, asks within its own
  transaction for a statement that people have signed (`dppca.owner.ledger.approvals`). Where there
  is none, what was asked becomes one, in a transaction of its own, and the method raises
  `NotApprovedError`: no caller needs to know of it, and none can go round it.
* A copy of the roles lies in ``roles.json``, and their digest in the mark. Neither allows anything:
  a ledger that lacks them is refused until `restore_roles` has entered them again.
"""

import base64
import hashlib
import json
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dppca.common.kernel.consent.roles import FIRST as NO_ROLES
from dppca.common.kernel.consent.roles import read_roles, require_review_day, require_successor
from dppca.common.kernel.consent.statement_kinds import StatementKind
from dppca.common.kernel.consent.statements import SALT_BYTES as FACTS_SALT_BYTES
from dppca.common.kernel.consent.statements import (
    USUAL_DAYS,
    find_signer,
    read_approval,
    write_statement,
)
from dppca.common.kernel.documents.messages import RELEASE_ID_BYTES
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import (
    ChainError,
    LedgerError,
    NotApprovedError,
    OpeningRefusedError,
    SettingError,
)
from dppca.owner.ledger.acts import (
    Act,
    charge_act,
    digest_tables,
    entry_act,
    policy_act,
    recovery_act,
    roles_act,
)
from dppca.owner.ledger.approvals import (
    NOTHING_DONE,
    ProposalRecord,
    find_consent,
    find_fault,
    missing_text,
    require_clock,
    require_drawn_as_signed,
)
from dppca.owner.ledger.chain import (
    FIRST,
    SALT_BYTES,
    History,
    LedgerRow,
    admit_charge,
    enter,
    signed_charge,
)
from dppca.owner.ledger.entries import (
    Approval,
    Ballot,
    Commitment,
    Delivery,
    Disowning,
    Entry,
    KeyOffer,
    OpenerEntry,
    OpeningDelivery,
    Proposal,
    Recovery,
    ReleaseRequest,
    Reservation,
    RowsPublication,
    SetOpening,
    Withdrawal,
    commitment,
    time_text,
)
from dppca.owner.ledger.entry_documents import to_document
from dppca.owner.ledger.file import (
    BUSY_MS,
    check_form,
    check_version,
    create,
    is_empty,
    make_private,
    prepare_entry,
    read_history,
    read_release,
    read_sums,
    remember,
    sqlite_errors,
    verified,
)
from dppca.owner.ledger.lock import lock_site
from dppca.owner.ledger.mark import (
    LOCKED,
    CuratorView,
    LedgerAge,
    Mark,
    find_doubt,
    find_ledger_age,
    merge_view,
    read_mark,
    require_known,
    write_mark,
)
from dppca.owner.ledger.openers import Openers, digest_sums, misplaced
from dppca.owner.ledger.roles_file import (
    ROLES,
    keep_roles,
    last_kept_roles,
    missing_roles,
    read_kept_roles,
)
from dppca.owner.ledger.surroundings import read_surroundings

if TYPE_CHECKING:
    from dppca.common.kernel.aggregation.opening import Sums
    from dppca.common.kernel.study import Study

LOCK_WAIT_S = 10.0  # for another command of the site to end
OpenerEntryT = TypeVar("OpenerEntryT", bound=OpenerEntry)


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A committed release: the exact bytes that are sent, each time it is sent."""

    reservation: Reservation
    commitment: Commitment
    payload: bytes
    receipt: bytes


class LedgerReceipt(Protocol):
    """Receipt that states the cost of a release and the means to check it."""

    def canonical_bytes(self) -> bytes:
        """Bytes of the receipt in canonical form."""


class NoisedRelease(Protocol):
    """A noised release: of moments (`dppca.common.kernel.privacy.release`) or of a model."""

    @property
    def digest(self) -> str:
        """Digest of the request that it was reserved under."""

    @property
    def release_id(self) -> bytes:
        """Identifier of its reservation."""

    @property
    def n_rows(self) -> int:
        """Number of rows that it was computed from; public."""

    @property
    def receipt(self) -> LedgerReceipt:
        """Receipt of its cost."""

    def payload(self) -> bytes:
        """Bytes that may leave."""


class Ledger:
    """An open ledger whose site is locked for this process; made by `open_ledger`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._mark = read_mark(path)

    def history(self) -> History:
        """Return the verified history; `LedgerCorruptError` names the fault."""
        with self._reading() as history:
            return history

    def reserve(self, request: ReleaseRequest, *, release_id: bytes, now: datetime) -> Reservation:
        """Charge a release to a population, before any noise is drawn; durable on return.

        ``release_id`` are 16 fresh random bytes; not used if the study has been reserved before, or
        if people have signed one. Raise `ChainError` if the site is locked, or its ledger was
        restored and not compared since; `NotApprovedError` if people have to sign first. Other
        errors are those of `admit_charge`; the ledger is then unchanged.
        """
        with self._proposing(now), self._transaction() as history:
            self._require_newest(history)
            reserved = admit_charge(history, request)
            if reserved is not None:
                self._require_drawn_as_signed(history, reserved, request)
                return reserved
            record = self._consent(history, lambda: signed_charge(history, request), now)
            if record is not None:
                release_id = bytes.fromhex(record.statement.terms.release_id)
            reservation = Reservation(
                history.length + 1, time_text(now), release_id, request, _digest_of(record)
            )
            self._append(history, reservation)
            return reservation

    def commit(self, release: NoisedRelease, *, now: datetime) -> StoredRelease:
        """Store the bytes of a release that was reserved; durable on return.

        Raise `ChainError` as `reserve` does. Raise `LedgerError` if the ledger lacks its
        reservation, if it was committed before, or if the disk is full; then the charge stands for
        the release, which will be drawn again.
        """
        payload, receipt = release.payload(), release.receipt.canonical_bytes()
        with self._transaction() as history:
            self._require_newest(history)
            reservation = history.reservation_for(release.digest)
            if reservation is None or reservation.release_id != release.release_id:
                raise LedgerError("a release was drawn without a reservation; it is not stored")
            if release.release_id in history.commitments:
                raise LedgerError("this release is stored already; send it as it is")
            self._connection.execute(
                "INSERT INTO releases (release_id, receipt, payload) VALUES (?, ?, ?)",
                (release.release_id, receipt, payload),
            )
            checkpoint("store")
            committed = commitment(
                sequence=history.length + 1,
                now=now,
                release_id=release.release_id,
                n_rows=release.n_rows,
                payload=payload,
                receipt=receipt,
            )
            self._append(history, committed)
        return StoredRelease(reservation, committed, payload, receipt)

    def stored(self, request_digest: str) -> StoredRelease:
        """Return the release committed under a digest, with the bytes that may leave.

        Raise `LedgerError` if there is none, `LedgerCorruptError` if the bytes have another digest.
        """
        with self._reading() as history:
            reservation = history.reservation_for(request_digest)
            committed = history.commitment_for(request_digest)
            if reservation is None or committed is None:
                raise LedgerError("nothing is stored for this study or model")
            receipt, payload = read_release(self._connection, committed)
        return StoredRelease(reservation, committed, payload, receipt)

    def mark_sent(self, release_id: bytes, *, now: datetime) -> None:
        """Record once that the curator has acknowledged a release."""
        with self._transaction() as history:
            if release_id not in history.deliveries:
                self._append(history, Delivery(history.length + 1, time_text(now), release_id))

    def offer(self, study: str, key_id: str, *, now: datetime) -> KeyOffer:
        """Record a fresh opener key, before it is kept anywhere; durable on return.

        This is allowed in a ledger that was not compared yet: nothing is charged. Raise
        `ChainError` if the site is locked, `LedgerError` if the key was offered before or the file
        cannot be written.
        """
        offer = KeyOffer(0, time_text(now), key_id, study)
        return self._enter(offer)

    def vote(self, study: "Study", key_id: str, set_digest: str, *, now: datetime) -> None:
        """Bind an opener key to a set, before its vote is sent; durable on return.

        The same set again has no effect. Raise `OpeningRefusedError` if the key or the study is
        bound to another set or key, or the key was never offered here; `ChainError` and
        `LedgerError` as `reserve`.
        """
        ballot = Ballot(0, time_text(now), key_id, study.name, study.digest, set_digest)
        with self._proposing(now):
            self._enter(ballot)

    def open_set(
        self, study: "Study", key_id: str, sums: "Sums", *, n_owners: int, now: datetime
    ) -> None:
        """Store the sums over the one set that an opener key opens, together with its entry.

        Durable on return. The same set again has no effect. Raises as `vote`; nothing is stored
        then.
        """
        entry = SetOpening(
            0,
            time_text(now),
            key_id,
            study.name,
            study.digest,
            sums.set_digest,
            n_owners,
            digest_sums(sums.totals),
        )
        with self._proposing(now):
            self._enter(entry, sums)

    def sums(self, key_id: str) -> "Sums":
        """Return the sums that an opener key has opened; raises as `stored`."""
        # Numbers and the cryptography of openers take their time to import.
        from dppca.common.kernel.aggregation.opening import Sums

        with self._reading() as history:
            opened = history.openers.get(key_id)
            if opened is None or opened.opening is None:
                raise LedgerError("this opener key has opened nothing")
            totals = read_sums(self._connection, history, key_id)
        return Sums(opened.opening.set_digest, totals)

    def mark_opened(self, key_id: str, *, now: datetime) -> None:
        """Record once that the curator needs no further part of an opening."""
        self._enter(OpeningDelivery(0, time_text(now), key_id))

    def compare(self, view: CuratorView) -> None:
        """Compare the ledger with a curator's record; durable on return.

        Raise `ChainError` if the ledger lacks part of the record, or entries that this site has
        written: the site is locked, now and for later commands. The message says what to do.
        """
        history = self.history()
        self._leave(merge_view(self._mark, view, history))
        require_known(self._mark, history)

    def recover(
        self, entries: Sequence[Recovery | Disowning], *, now: datetime | None = None
    ) -> None:
        """Add the steward's entries in one transaction; the ledger counts as the newest afterwards.

        The site stays locked until `compare` has compared it with the curator's record. The entries
        get their numbers here. Raise `LedgerCorruptError` if a release is known already or reserved
        otherwise, and `NotApprovedError` if people have to sign all of it first. A ledger that is
        known to be the newest, and gets no entry, needs nobody.
        """
        now = utc_now() if now is None else now
        with self._proposing(now), self._transaction() as history:
            record = None
            if entries or not self._is_newest(history):
                record = self._consent(history, lambda: recovery_act(entries), now)
            for entry in entries:
                made = replace(entry, sequence=history.length + 1, consent=_digest_of(record))
                self._append(history, made)
            checkpoint("store")
        checkpoint("commit")
        view = CuratorView() if self._mark is None else self._mark.missing
        roles = history.approvals.roles_sha256
        self._leave(Mark(history.length, history.head, view, roles=roles))

    def publish(
        self,
        study: "Study",
        tables: Mapping[str, tuple[int, str]],
        *,
        now: datetime,
        usual_rows: int = 0,
    ) -> None:
        """Record tables of synthetic rows before they are sent; durable on return.

        ``tables`` has, by form, the number of rows and the SHA-256 of what is sent, hexadecimal;
        ``usual_rows`` are drawn of this result where nobody says a number. The same tables again
        have no effect. Raise `ChainError` if the site is locked, and `NotApprovedError` if people
        have to sign first.
        """
        digest = digest_tables((form, sha256) for form, (_, sha256) in tables.items())
        entry = RowsPublication(
            0,
            time_text(now),
            study.name,
            study.digest,
            " and ".join(sorted(tables)),
            sum(n_rows for n_rows, _ in tables.values()),
            digest,
        )
        with self._proposing(now), self._transaction() as history:
            require_known(self._mark, history)
            self._require_roles(history)
            if (study.digest, digest) in history.published:
                return
            largest = max(n_rows for n_rows, _ in tables.values())
            act = replace(entry_act(entry), largest_rows=largest, usual_rows=usual_rows)
            record = self._consent(history, lambda: act, now)
            made = replace(entry, sequence=history.length + 1, consent=_digest_of(record))
            self._append(history, made)

    def propose_policy(self, *, now: datetime) -> str:
        """Propose policy.yaml as it is written; return the statement's digest, also if it waits.

        Raise `SettingError` at a site without roles, or if the policy is in force already.
        """
        with self._transaction() as history:
            require_known(self._mark, history)
            self._require_roles(history)
            around = read_surroundings(self._path)
            if history.approvals.in_force is None:
                raise SettingError("this site has no roles: nobody has to sign its policy")
            if history.approvals.policy_sha256 == around.policy_sha256:
                raise SettingError("policy.yaml is the one that people signed last")
            return self._propose_once(history, policy_act(around.policy), now)

    def propose_roles(self, roles: Mapping[str, Any], *, now: datetime) -> str:
        """Propose a version of roles, without ``version``, ``previous`` and ``form``.

        Return the statement's digest, also if it waits. Raise `SettingError` for roles that are
        not valid.
        """
        with self._transaction() as history:
            require_known(self._mark, history)
            self._require_roles(history)
            before = history.approvals.in_force
            version = 1 if before is None else before.document.version + 1
            previous = history.approvals.roles_sha256
            made = read_roles(
                canonical_json({**roles, "form": 1, "version": version, "previous": previous})
            )
            require_successor(before, made)
            require_review_day(made, now.date())
            policy = read_surroundings(self._path).policy if before is None else None
            return self._propose_once(
                history, roles_act(made, policy), now, owner=made.document.owner
            )

    def approve(self, approval: bytes, *, now: datetime) -> ProposalRecord:
        """Enter the signatures of an envelope; return the statement's record afterwards.

        Signatures that the ledger has are passed over, whoever sends them again. Raise
        `SignatureError` for no such envelope or a signature that fits nothing, and
        `NotApprovedError` if the statement is not open here.
        """
        statement, signatures = read_approval(approval)
        points = [find_signer(statement, each).point for each in signatures]
        with self._transaction() as history:
            self._require_roles(history)
            require_clock(history.approvals, now)
            for signature, point in zip(signatures, points, strict=True):
                record = history.approvals.records.get(statement.sha256)
                if record is not None and point in record.points:
                    continue
                text = base64.b64encode(signature).decode()
                entry = Approval(history.length + 1, time_text(now), statement.sha256, text)
                fault = find_fault(history.approvals, entry)
                if fault is not None:
                    raise NotApprovedError(f"the signature is not entered: {fault}. {NOTHING_DONE}")
                self._append(history, entry)
                if history.approvals.records[statement.sha256].is_in_force:
                    break
        keep_roles(self._path, history.approvals)
        return history.approvals.records[statement.sha256]

    def withdraw(self, proposal: str, *, now: datetime) -> None:
        """Withdraw a statement for ever; raise `NotApprovedError` if it is not open."""
        with self._transaction() as history:
            entry = Withdrawal(history.length + 1, time_text(now), proposal)
            fault = find_fault(history.approvals, entry)
            if fault is not None:
                raise NotApprovedError(f"this statement cannot be withdrawn: {fault}")
            self._append(history, entry)

    def restore_roles(self) -> int:
        """Enter the roles of roles.json in a ledger that lacks them; return how many versions.

        Every signature is verified again. Raise `SettingError` if the file is missing or damaged,
        or continues other roles than the ledger's.
        """
        entries = read_kept_roles(self._path)
        with self._transaction() as history:
            before = len(history.approvals.roles)
            for entry in missing_roles(history.approvals, entries):
                made = replace(entry, sequence=history.length + 1)
                fault = find_fault(history.approvals, made)
                if fault is not None:
                    raise SettingError(f"{ROLES} does not continue this ledger's roles: {fault}")
                self._append(history, made)
        return len(history.approvals.roles) - before

    def begin(self) -> None:
        """Write the mark of a new site, for `begin_ledger`."""
        self._leave(Mark(0, FIRST, standing=LedgerAge.UNCOMPARED))

    def _leave(self, mark: Mark) -> None:
        """Write the mark, unless it says the same already."""
        if mark != self._mark:
            write_mark(self._path, mark)
            self._mark = mark

    def _consent(
        self, history: History, make_act: Callable[[], Act], now: datetime
    ) -> ProposalRecord | None:
        """Return the statement that allows an act, None at a site without roles: the one gate."""
        self._require_roles(history)
        if history.approvals.in_force is None:
            return None
        act = make_act().with_facts(read_surroundings(self._path).facts)
        record = find_consent(history.approvals, act, now=now)
        if record is None:
            raise _UnproposedError(act)
        return record

    def _require_drawn_as_signed(
        self, history: History, reserved: Reservation, request: ReleaseRequest
    ) -> None:
        """Refuse other rows under a charge that people have signed and that was not drawn."""
        self._require_roles(history)
        if not reserved.consent:
            return  # from before the roles: it goes on as it was begun
        found = request.evidence
        seen = {} if found is None else asdict(found)
        act = charge_act(request).with_facts({**seen, **read_surroundings(self._path).facts})
        require_drawn_as_signed(history.approvals, reserved.consent, act)

    @contextmanager
    def _proposing(self, now: datetime) -> Iterator[None]:
        """Make a statement of what people have to sign first, once the transaction is undone."""
        try:
            yield
        except _UnproposedError as error:
            with self._transaction() as history:
                digest = self._propose(history, error.act, now)
            raise NotApprovedError(
                f"people of this site have to sign this first: it is statement {digest[:12]} now "
                f"({missing_text(history.approvals, history.approvals.records[digest])}). "
                "`dppca-owner proposals --output FOLDER` writes it for them; then run this command "
                f"again. {NOTHING_DONE}"
            ) from None

    def _propose_once(
        self, history: History, act: Act, now: datetime, *, owner: str | None = None
    ) -> str:
        """Propose an act unless the same waits for people; return the statement's digest."""
        act = act.with_facts(read_surroundings(self._path).facts)
        act = replace(act, facts=json.loads(canonical_json(dict(act.facts))))
        require_clock(history.approvals, now)
        for digest, each in history.approvals.records.items():
            known = each.is_open and history.approvals.is_current(each)
            fresh = now < each.statement.expires
            if known and fresh and act.is_of(each.statement.terms, each.facts):
                return digest
        return self._propose(history, act, now, owner=owner)

    def _propose(
        self, history: History, act: Act, now: datetime, *, owner: str | None = None
    ) -> str:
        from dppca.common.kernel.consent.statement_terms import MOST_DAYS, StatementTerms

        roles = history.approvals.in_force
        if (
            roles is not None
            and act.kind is not StatementKind.ROLES
            and not roles.is_reviewed(now.date())
        ):
            raise NotApprovedError(
                f"the roles of this site were to be reviewed by {roles.document.review_by}: people "
                f"have to sign their next version first. {NOTHING_DONE}"
            )
        facts = canonical_json({**act.facts, "salt": secrets.token_bytes(FACTS_SALT_BYTES).hex()})
        hour = now.replace(minute=0, second=0, microsecond=0)
        values: dict[str, Any] = dict.fromkeys(StatementTerms.model_fields)
        days = MOST_DAYS if "also" in act.terms else USUAL_DAYS  # the rest comes after the others
        terms = StatementTerms.model_validate(
            {
                **values,
                **act.terms,
                "version": 2 if "also" in act.terms else 1,
                "kind": act.kind,
                "owner": owner if roles is None else roles.document.owner,
                "authority": act.facts["authority_sha256"],
                "roles_sha256": history.approvals.roles_sha256,
                "release_id": secrets.token_bytes(RELEASE_ID_BYTES).hex(),
                "proposed": hour.isoformat(),
                "expires": (hour + timedelta(days=days)).isoformat(),
            }
        )
        statement = write_statement(terms, facts)
        entry = Proposal(history.length + 1, time_text(now), statement.decode(), facts.decode())
        self._append(history, entry)
        return hashlib.sha256(statement).hexdigest()

    def _require_roles(self, history: History) -> None:
        """Refuse a ledger that lacks the roles which the mark or roles.json knows."""
        known = {each.sha256 for each in history.approvals.roles} | {NO_ROLES}
        wanted = {NO_ROLES if self._mark is None else self._mark.roles}
        wanted.add(last_kept_roles(self._path))
        if wanted - known:
            raise ChainError(
                "this ledger lacks the roles that this site has: put the newest ledger.sqlite "
                f"back, or run `dppca-owner roles restore`. {LOCKED}"
            )

    def _is_newest(self, history: History) -> bool:
        try:
            return require_known(self._mark, history) is not LedgerAge.RESTORED
        except ChainError:
            return False

    def _require_newest(self, history: History) -> None:
        """Refuse a charge in a ledger that is not known to be the newest; see the module."""
        if require_known(self._mark, history) is not LedgerAge.NEWEST:
            raise ChainError(
                "this ledger was not compared with the curator yet: run the same command again "
                f"while the curator can be reached. {LOCKED}"
            )

    def _enter(self, entry: OpenerEntryT, sums: "Sums | None" = None) -> OpenerEntryT:
        """Record a step of an opener key, unless the same step is already recorded."""
        with self._transaction() as history:
            if isinstance(entry, KeyOffer):
                require_known(self._mark, history)
            else:
                self._require_newest(history)
            before = _same_before(history.openers, entry)
            if before is not None:
                return before
            fault = misplaced(history.openers, entry)
            if fault is not None:
                raise OpeningRefusedError(f"the ledger refuses it: {fault}")
            made = replace(entry, sequence=history.length + 1)
            if isinstance(made, Ballot | SetOpening):
                made = replace(made, consent=self._opening_consent(history, made, now=entry.time))
            for stream, total in () if sums is None else sums.totals:
                self._connection.execute(
                    "INSERT INTO sums (opener_key, stream, total) VALUES (?, ?, ?)",
                    (bytes.fromhex(entry.key_id), stream, total),
                )
            checkpoint("store")
            self._append(history, made)
        return made

    def _opening_consent(self, history: History, entry: Ballot | SetOpening, *, now: str) -> str:
        """Digest of the statement for a vote or opening; an opening may have that of its vote."""
        voted = history.openers[entry.key_id].vote
        if isinstance(entry, SetOpening) and voted is not None and voted.consent:
            self._require_roles(history)
            return voted.consent
        act = entry_act(entry)
        return _digest_of(self._consent(history, lambda: act, datetime.fromisoformat(now)))

    def _append(self, history: History, entry: Entry) -> None:
        """Write an entry, and extend the history by it."""
        document, salt = to_document(entry, previous=history.head), secrets.token_bytes(SALT_BYTES)
        head = hashlib.sha256(salt + document).digest()
        prepare_entry(self._connection, document)
        self._connection.execute(
            "INSERT INTO entries (sequence, document, digest, salt) VALUES (?, ?, ?, ?)",
            (entry.sequence, document, head, salt),
        )
        enter(history, LedgerRow(entry.sequence, document, head, salt))

    @contextmanager
    def _reading(self) -> Iterator[History]:
        """Read the verified chain and stored bytes in one transaction."""
        with self._begun("BEGIN"):
            yield verified(self._connection, self._path)

    @contextmanager
    def _transaction(self) -> Iterator[History]:
        """Write in one transaction; yield a copy of the verified chain, which `_append` extends.

        The mark follows, before anything is done on the strength of the new entries.
        """
        connection = self._connection
        with self._begun("BEGIN IMMEDIATE"):
            history = verified(connection, self._path).copy()
            standing = find_ledger_age(self._mark)
            yield history
            connection.execute("COMMIT")
            remember(self._path, history)
        checkpoint("mark")
        if self._mark is not None and history.has_prefix(self._mark.length, self._mark.head):
            roles = history.approvals.roles_sha256
            if roles == NO_ROLES:  # a lost ledger does not forget that it had some
                roles = self._mark.roles
            self._leave(Mark(history.length, history.head, self._mark.missing, standing, roles))

    @contextmanager
    def _begun(self, begin: str) -> Iterator[None]:
        """Run an SQLite transaction; roll it back unless it was committed."""
        with sqlite_errors():
            self._connection.execute(begin)
            try:
                yield
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")


@contextmanager
def open_ledger(path: Path, *, lock: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[Ledger]:
    """Open a site's ledger for writing, under the site's lock; create it if there is none.

    A ledger without marks is locked; `begin_ledger` makes those of a new site. Raise
    `LedgerVersionError` if another version of the software wrote it, which leaves it unchanged;
    `LedgerError` if another command is at work, or the file cannot be written or is no ledger;
    `LedgerCorruptError` if it is damaged.
    """
    with lock_site(lock, wait_s=wait_s):
        make_private(path)
        with sqlite_errors():
            connection = sqlite3.connect(path, isolation_level=None)
        with ExitStack() as undo:
            undo.enter_context(closing(connection))
            with sqlite_errors():
                connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
                check_version(connection)  # before anything is written
                connection.execute("PRAGMA journal_mode = DELETE")
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA fullfsync = ON")
                if is_empty(connection):
                    create(connection)
                check_form(connection)
            yield Ledger(connection, path)


def begin_ledger(path: Path, *, lock: Path) -> None:
    """Make the ledger of a new site, and its marks; a curator is asked before the first charge."""
    with open_ledger(path, lock=lock) as ledger:
        ledger.begin()


def _same_before(openers: Openers, entry: OpenerEntryT) -> OpenerEntryT | None:
    """Existing entry with the same content as a new one, if there is one."""
    opener = openers.get(entry.key_id)
    if opener is None:
        return None
    for before in (opener.offer, opener.vote, opener.opening, opener.delivery):
        if isinstance(before, type(entry)):
            same = replace(entry, sequence=before.sequence, time=before.time)
            if isinstance(same, Ballot | SetOpening):
                same = replace(same, consent=before.consent)  # type: ignore[union-attr]
            if before == same:
                return before
    return None


class _UnproposedError(Exception):
    """An act that no statement of the chain is about; ends a transaction, which is undone."""

    def __init__(self, act: Act) -> None:
        super().__init__(act.kind)
        self.act = act


def _digest_of(record: ProposalRecord | None) -> str:
    return "" if record is None else record.statement.sha256


def compare_ledger(path: Path, view: CuratorView, *, lock: Path) -> None:
    """Compare a ledger, or its absence, with a curator's record (`Ledger.compare`).

    A missing ledger is not created. Raises as `open_ledger` and `Ledger.compare` do.
    """
    if path.exists():
        with open_ledger(path, lock=lock) as ledger:
            ledger.compare(view)
        return
    with lock_site(lock, wait_s=LOCK_WAIT_S):
        before = read_mark(path)
        mark = merge_view(before, view, History())
        if mark != before:
            write_mark(path, mark)
    require_known(mark, History())


def require_newest(path: Path) -> bool:
    """Return True if this site knows that a ledger is the newest; False if it must be compared.

    Raise `ChainError` if the site is locked; other errors are those of `read_history`.
    """
    mark = read_mark(path)  # first: a command at work writes it after the ledger
    return require_known(mark, read_history(path)) is LedgerAge.NEWEST


def find_lock(path: Path) -> str | None:
    """Return why a site is locked, if its ledger can still be shown; None if it is not locked.

    Raise `ChainError` if the ledger lacks what this site knows; other errors are those of
    `read_history`.
    """
    mark = read_mark(path)
    return find_doubt(mark, read_history(path))
