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
"""

import hashlib
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.errors import ChainError, LedgerError, OpeningRefusedError
from dppca.owner.ledger.chain import FIRST, SALT_BYTES, History, LedgerRow, admit_charge, enter
from dppca.owner.ledger.entries import (
    Ballot,
    Commitment,
    Delivery,
    Disowning,
    Entry,
    KeyOffer,
    OpenerEntry,
    OpeningDelivery,
    Recovery,
    ReleaseRequest,
    Reservation,
    SetOpening,
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

        ``release_id`` are 16 fresh random bytes; not used if the study has been reserved before.
        Raise `ChainError` if the site is locked, or its ledger was restored and not compared since.
        Other errors are those of `admit_charge`; the ledger is then unchanged.
        """
        with self._transaction() as history:
            self._require_newest(history)
            reserved = admit_charge(history, request)
            if reserved is not None:
                return reserved
            reservation = Reservation(history.length + 1, time_text(now), release_id, request)
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

    def recover(self, entries: Iterable[Recovery | Disowning]) -> None:
        """Add the steward's entries in one transaction; the ledger counts as the newest afterwards.

        The site stays locked until `compare` has compared it with the curator's record. The entries
        get their numbers here. Raise `LedgerCorruptError` if a release is known already or reserved
        otherwise.
        """
        with self._transaction() as history:
            for entry in entries:
                self._append(history, replace(entry, sequence=history.length + 1))
            checkpoint("store")
        checkpoint("commit")
        view = CuratorView() if self._mark is None else self._mark.missing
        self._leave(Mark(history.length, history.head, view))

    def begin(self) -> None:
        """Write the mark of a new site, for `begin_ledger`."""
        self._leave(Mark(0, FIRST, standing=LedgerAge.UNCOMPARED))

    def _leave(self, mark: Mark) -> None:
        """Write the mark, unless it says the same already."""
        if mark != self._mark:
            write_mark(self._path, mark)
            self._mark = mark

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
            for stream, total in () if sums is None else sums.totals:
                self._connection.execute(
                    "INSERT INTO sums (opener_key, stream, total) VALUES (?, ?, ?)",
                    (bytes.fromhex(entry.key_id), stream, total),
                )
            checkpoint("store")
            self._append(history, made)
        return made

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
            self._leave(Mark(history.length, history.head, self._mark.missing, standing))

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
        if isinstance(before, type(entry)) and before == replace(
            entry, sequence=before.sequence, time=before.time
        ):
            return before
    return None


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
