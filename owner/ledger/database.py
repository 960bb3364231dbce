"""The ledger's file: SQLite, append-only, one transaction per step.

Limits and choices
------------------
* ``synchronous=EXTRA`` with a rollback journal: when `Ledger.reserve` or `Ledger.commit` returns,
  the step has reached the disk, and so has the removal of the journal that could undo it. The
  whole ledger is one file, which a copy of that file backs up.
* Triggers refuse to change or remove what was written, and to write out of order. They guard
  against accidents; against malice there is the chain (`owner.ledger.chain`).
* The bytes of a release and the entry that commits them are written in one transaction: there are
  no bytes without an entry, and no entry without its bytes. Bytes that a crash kept from being
  stored were never sent; they are drawn again under the same reservation.
* Every reading verifies the whole chain, and the digests of all stored bytes.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NoReturn, Protocol

from common.checkpoints import checkpoint
from common.errors import LedgerCorruptError, LedgerError, LedgerVersionError
from owner.ledger.chain import History, Row, admit, damaged, follow
from owner.ledger.entries import (
    Commitment,
    Entry,
    Reservation,
    Sending,
    Wanted,
    commitment,
    time_text,
    to_document,
)
from owner.ledger.lock import lock_site

LOCK_WAIT_S = 10.0
_ALL_ENTRIES = "SELECT sequence, document, digest FROM entries ORDER BY sequence"
_BUSY_MS = 5_000
_APPLICATION_ID = 0x44505043
_VERSION = 1

_DEFINITIONS = (
    "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, document BLOB NOT NULL, "
    "digest BLOB NOT NULL)",
    "CREATE TABLE releases (release_id BLOB PRIMARY KEY, receipt BLOB NOT NULL, "
    "payload BLOB NOT NULL)",
    "CREATE TRIGGER entries_in_order BEFORE INSERT ON entries "
    "WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM entries) "
    "BEGIN SELECT RAISE(ABORT, 'entries are written in order'); END",
    "CREATE TRIGGER releases_once BEFORE INSERT ON releases "
    "WHEN EXISTS (SELECT 1 FROM releases WHERE release_id = NEW.release_id) "
    "BEGIN SELECT RAISE(ABORT, 'a release is stored once'); END",
    *(
        f"CREATE TRIGGER {table}_no_{event} BEFORE {event.upper()} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        for table in ("entries", "releases")
        for event in ("update", "delete")
    ),
)


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """A committed release: exactly what is sent, each time it is sent."""

    reservation: Reservation
    commitment: Commitment
    payload: bytes
    receipt: bytes


class Receipt(Protocol):
    """What says what a release cost and how to check it."""

    def canonical_bytes(self) -> bytes:
        """The one form in which it is stored."""


class Drawn(Protocol):
    """A release with its noise: of moments (`common.privacy.release`) or of a model."""

    @property
    def digest(self) -> str:
        """What it was reserved under."""

    @property
    def release_id(self) -> bytes:
        """Its reservation's."""

    @property
    def n_rows(self) -> int:
        """Rows that it was computed from; public."""

    @property
    def receipt(self) -> Receipt:
        """What it cost."""

    def payload(self) -> bytes:
        """The bytes that may leave."""


class Ledger:
    """An open ledger whose site is locked for this process; made by `open_ledger`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def history(self) -> History:
        """Verify everything and say what it amounts to; `LedgerCorruptError` names the fault."""
        with _errors():
            return _verified(self._connection)

    def reserve(self, wanted: Wanted, *, release_id: bytes, now: datetime) -> Reservation:
        """Charge a study to a data set, before any noise is drawn; durable when it returns.

        Parameters
        ----------
        release_id
            16 fresh random bytes; not used where the study has been reserved before.

        Raises
        ------
        SettingError, BudgetExceededError, LedgerError
            See `admit`; the ledger is unchanged.
        """
        with self._transaction() as history:
            found = admit(history, wanted)
            if found is not None:
                return found
            made = Reservation(history.length + 1, time_text(now), release_id, wanted)
            self._append(history, made)
            return made

    def commit(self, release: Drawn, *, now: datetime) -> StoredRelease:
        """Store the bytes of a release that was reserved; durable when it returns.

        Raises
        ------
        LedgerError
            Its reservation is not here, or it was committed before; or the disk is full, and the
            charge stands for the release that will be drawn anew.
        """
        payload, receipt = release.payload(), release.receipt.canonical_bytes()
        with self._transaction() as history:
            reservation = history.reservation_for(release.digest)
            if reservation is None or reservation.release_id != release.release_id:
                message = "a release was drawn without a reservation; it is not stored"
                raise LedgerError(message)
            if release.release_id in history.commitments:
                message = "this release is stored already; send it as it is"
                raise LedgerError(message)
            self._connection.execute(
                "INSERT INTO releases (release_id, receipt, payload) VALUES (?, ?, ?)",
                (release.release_id, receipt, payload),
            )
            checkpoint("store")
            made = commitment(
                sequence=history.length + 1,
                now=now,
                release_id=release.release_id,
                n_rows=release.n_rows,
                payload=payload,
                receipt=receipt,
            )
            self._append(history, made)
        return StoredRelease(reservation, made, payload, receipt)

    def stored(self, study_digest: str) -> StoredRelease:
        """The release committed under a digest: the bytes that may leave."""
        history = self.history()
        reservation = history.reservation_for(study_digest)
        committed = history.commitment_for(study_digest)
        if reservation is None or committed is None:
            message = "nothing is stored for this study or model"
            raise LedgerError(message)
        with _errors():
            receipt, payload = self._connection.execute(
                "SELECT receipt, payload FROM releases WHERE release_id = ?",
                (reservation.release_id,),
            ).fetchone()
        return StoredRelease(reservation, committed, payload, receipt)

    def mark_sent(self, release_id: bytes, *, now: datetime) -> None:
        """Write down that the curator has acknowledged a release; once, however often it did."""
        with self._transaction() as history:
            if release_id not in history.sendings:
                self._append(history, Sending(history.length + 1, time_text(now), release_id))

    def _append(self, history: History, entry: Entry) -> None:
        document = to_document(entry, previous=history.head)
        self._connection.execute(
            "INSERT INTO entries (sequence, document, digest) VALUES (?, ?, ?)",
            (entry.sequence, document, hashlib.sha256(document).digest()),
        )

    @contextmanager
    def _transaction(self) -> Iterator[History]:
        """All or nothing, on a chain that has just been verified."""
        connection = self._connection
        with _errors():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield _verified(connection)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")


@contextmanager
def open_ledger(path: Path, *, lock: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[Ledger]:
    """Open a site's ledger for writing, under the site's lock; make it where there is none.

    Raises
    ------
    LedgerVersionError
        A newer version of the software wrote it; it is unchanged.
    LedgerError
        Another command is at work, or the file cannot be written or is no ledger.
    LedgerCorruptError
        The file is damaged.
    """
    with lock_site(lock, wait_s=wait_s):
        with _errors():
            connection = sqlite3.connect(path, isolation_level=None)
        with closing(connection):
            with _errors():
                connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
                _check_version(connection)  # before anything is written
                connection.execute("PRAGMA journal_mode = DELETE")
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA fullfsync = ON")
                if _is_empty(connection):
                    _create(connection)
                _check_form(connection)
            yield Ledger(connection)


def read_history(path: Path) -> History:
    """Verify a site's ledger and say what it amounts to; nothing is written or locked.

    Raises
    ------
    LedgerVersionError
        A newer version of the software wrote it.
    LedgerError
        The file cannot be read or is no ledger.
    LedgerCorruptError
        It does not verify; the message names the first damaged entry.
    """
    return read_archive(path).history


@dataclass(frozen=True, slots=True)
class Archive:
    """A verified ledger in full.

    Attributes
    ----------
    rows
        Every entry as it stands in the file.
    receipts
        Stored receipts (canonical JSON), by release.
    """

    history: History
    rows: tuple[Row, ...] = ()
    receipts: Mapping[bytes, bytes] = field(default_factory=dict)


def read_archive(path: Path) -> Archive:
    """Verify a site's ledger and read all of it but the payloads; raises as `read_history`."""
    if not path.exists():
        return Archive(History())
    with _errors():
        # Not mode=ro: after a crash, reading means rolling back first.
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)
    with closing(connection), _errors():
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        if _is_empty(connection):
            return Archive(History())
        _check_form(connection)
        # One transaction: a command at work in between would look like a damaged chain.
        connection.execute("BEGIN")
        history = _verified(connection)
        return Archive(
            history,
            tuple(Row(*row) for row in connection.execute(_ALL_ENTRIES)),
            dict(connection.execute("SELECT release_id, receipt FROM releases")),
        )


def _verified(connection: sqlite3.Connection) -> History:
    history = follow(Row(*row) for row in connection.execute(_ALL_ENTRIES))
    waiting = dict(history.commitments)
    stored = connection.execute("SELECT release_id, receipt, payload FROM releases")
    faults = []
    for release_id, receipt, payload in stored:
        committed = waiting.pop(release_id, None)
        if committed is None:
            message = "the ledger is damaged: it stores bytes of a release that it never committed"
            raise LedgerCorruptError(message)
        if _digest(payload) != committed.payload_sha256:
            faults.append((committed.sequence, "the stored bytes do not have their digest"))
        if _digest(receipt) != committed.receipt_sha256:
            faults.append((committed.sequence, "the stored receipt does not have its digest"))
    faults += [(each.sequence, "its bytes are gone") for each in waiting.values()]
    if faults:
        raise damaged(*min(faults))
    return history


def _digest(content: object) -> str:
    return hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else ""


def _is_empty(connection: sqlite3.Connection) -> bool:
    (count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(count == 0)


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for definition in _DEFINITIONS:
            connection.execute(definition)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _check_version(connection: sqlite3.Connection) -> None:
    """Refuse a ledger of another version, and what is no ledger; an empty file may become one."""
    if _is_empty(connection):
        return
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == _APPLICATION_ID and version > _VERSION:
        message = (
            f"ledger.sqlite has version {version}; this software reads version {_VERSION}: run "
            "the newer dppca-owner, for an older copy of the ledger would forget charges"
        )
        raise LedgerVersionError(message)
    if (application, version) != (_APPLICATION_ID, _VERSION):
        message = "ledger.sqlite is not a ledger that this version can read"
        raise LedgerError(message)


def _check_form(connection: sqlite3.Connection) -> None:
    _check_version(connection)
    found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    if {sql for (sql,) in found} != set(_DEFINITIONS):
        message = "the ledger is damaged: its tables or the triggers that guard them were changed"
        raise LedgerCorruptError(message)


@contextmanager
def _errors() -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        _raise(error)
    except (UnicodeDecodeError, OverflowError) as error:
        message = "the ledger is damaged: it holds values that it cannot hold"
        raise LedgerCorruptError(message) from error


def _raise(error: sqlite3.Error) -> NoReturn:
    # Without a code of SQLite's own (`getattr`) it is a misuse, not a matter of the file.
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        message = (
            f"the ledger's file is damaged ({error}): restore ledger.sqlite from a copy no older "
            "than the last contribution"
        )
        raise LedgerCorruptError(message) from error
    message = (
        f"the ledger cannot be used ({error}): nothing was written by this step; free space on its "
        "disk or mend its permissions, then run the same command again"
    )
    raise LedgerError(message) from error
