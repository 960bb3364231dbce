"""The ledger's file: its tables and triggers, how it is read, and its verification.

The chain is verified before any use. It is not verified again in this process while inode, size,
change time, number of entries and last hash of the file are the same. So a command verifies it
once, and a page that is open for days verifies it when it has grown. Stored bytes, which are long,
are compared with their digests when they are sent or shown, and all of them by `read_archive`.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from dppca.common.kernel.durable.files import create_private
from dppca.common.kernel.errors import LedgerCorruptError, LedgerError, LedgerVersionError
from dppca.owner.ledger.chain import FIRST, History, LedgerRow, damaged, verify_chain
from dppca.owner.ledger.entries import Commitment
from dppca.owner.ledger.entry_documents import has_approvals, has_later_form
from dppca.owner.ledger.openers import digest_sums

BUSY_MS = 5_000  # milliseconds that SQLite waits for another process
_APPLICATION_ID = 0x44505043  # "DPPC"
LATEST, LATER, VERSION, UNSALTED = 9, 8, 7, 6
"""Versions of the file: with what people approved; with entries that say how cells are read, which
0.2.0 does not know; of a new file; and before entries had random bytes, as 0.1.0 wrote it."""

_ADD_SALT = "ALTER TABLE entries ADD COLUMN salt BLOB NOT NULL DEFAULT x''"
_UNSALTED_ENTRIES = (
    "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, document BLOB NOT NULL, "
    "digest BLOB NOT NULL)"
)
_DEFINITIONS = (
    _UNSALTED_ENTRIES.replace(")", ", salt BLOB NOT NULL DEFAULT x'')"),
    "CREATE TABLE releases (release_id BLOB PRIMARY KEY, receipt BLOB NOT NULL, "
    "payload BLOB NOT NULL)",
    "CREATE TRIGGER entries_in_order BEFORE INSERT ON entries "
    "WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM entries) "
    "BEGIN SELECT RAISE(ABORT, 'entries are written in order'); END",
    "CREATE TRIGGER releases_once BEFORE INSERT ON releases "
    "WHEN EXISTS (SELECT 1 FROM releases WHERE release_id = NEW.release_id) "
    "BEGIN SELECT RAISE(ABORT, 'a release is stored once'); END",
    "CREATE TABLE sums (opener_key BLOB NOT NULL, stream INTEGER NOT NULL, total BLOB NOT NULL, "
    "PRIMARY KEY (opener_key, stream)) WITHOUT ROWID",
    "CREATE TRIGGER sums_once BEFORE INSERT ON sums WHEN EXISTS "
    "(SELECT 1 FROM sums WHERE opener_key = NEW.opener_key AND stream = NEW.stream) "
    "BEGIN SELECT RAISE(ABORT, 'a sum is stored once'); END",
    *(
        f"CREATE TRIGGER {table}_no_{event} BEFORE {event.upper()} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        for table in ("entries", "releases", "sums")
        for event in ("update", "delete")
    ),
)

_ALL_ENTRIES = "SELECT sequence, document, digest, {} FROM entries ORDER BY sequence"
_LAST_ENTRY = "SELECT sequence, digest FROM entries ORDER BY sequence DESC LIMIT 1"

_Stamp = tuple[object, ...]
_verified: dict[Path, tuple[_Stamp, History]] = {}
"""Chain that this process verified last, by the path of its file."""


def make_private(path: Path) -> None:
    """Create the file, if it is missing, with access for this account alone."""
    try:
        create_private(path)
    except OSError as error:
        raise LedgerError(
            f"the ledger {path} cannot be opened: {error.strerror}: correct its permissions"
        ) from error


def is_empty(connection: sqlite3.Connection) -> bool:
    """Return True if nothing was ever written: an empty file may become a ledger."""
    (count,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(count == 0)


def create(connection: sqlite3.Connection) -> None:
    """Create all tables and triggers in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for definition in _DEFINITIONS:
            connection.execute(definition)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def check_version(connection: sqlite3.Connection) -> None:
    """Refuse a ledger of another version and a file that is no ledger; accept an empty file."""
    if is_empty(connection):
        return
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    version = _version(connection)
    if application != _APPLICATION_ID:
        raise LedgerError("ledger.sqlite is not a ledger")
    if not UNSALTED <= version <= LATEST:
        raise LedgerVersionError(
            f"ledger.sqlite has version {version}; this software reads versions {UNSALTED} to "
            f"{LATEST}: run the dppca-owner that wrote it; do not take an older copy of the "
            "ledger, which would forget charges"
        )


def check_form(connection: sqlite3.Connection) -> None:
    """Do `check_version`, and refuse tables or triggers that were changed."""
    check_version(connection)
    statements = connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
    ).fetchall()
    entries = _UNSALTED_ENTRIES if _version(connection) == UNSALTED else _DEFINITIONS[0]
    if {sql for (sql,) in statements} != {entries, *_DEFINITIONS[1:]}:
        raise LedgerCorruptError(
            "the ledger is damaged: its tables or the triggers that guard them were changed"
        )


def prepare_entry(connection: sqlite3.Connection, document: bytes) -> None:
    """Raise the file's version for an entry, within a transaction, if it must be.

    A ledger of 0.1.0 gets random bytes. Software that does not know the entry's form then says so,
    and does not take the ledger for a damaged one.
    """
    if _version(connection) == UNSALTED:
        connection.execute(_ADD_SALT)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    wanted = LATEST if has_approvals(document) else LATER if has_later_form(document) else VERSION
    if wanted > _version(connection):
        connection.execute(f"PRAGMA user_version = {wanted}")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


@contextmanager
def sqlite_errors() -> Iterator[None]:
    """Translate SQLite's errors into this project's."""
    try:
        yield
    except sqlite3.Error as error:
        _raise(error)
    except (UnicodeDecodeError, OverflowError) as error:
        raise LedgerCorruptError(
            "the ledger is damaged: it holds values that it cannot hold"
        ) from error


def _raise(error: sqlite3.Error) -> NoReturn:
    # An error without SQLite's own code (`getattr`) is a misuse; the file did not cause it.
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        raise LedgerCorruptError(
            f"the ledger's file is damaged ({error}): restore ledger.sqlite from a copy no older "
            "than the last contribution"
        ) from error
    raise LedgerError(
        f"the ledger cannot be used ({error}): this step wrote nothing, and charges of earlier "
        "steps stand; free space on its disk or make it writable, then run the same command "
        "again: it goes on where this one ended, and charges nothing twice"
    ) from error


def read_history(path: Path) -> History:
    """Verify the chain of a site's ledger and return its history. Read-only; takes no lock.

    Raise `LedgerVersionError` if another version of the software wrote it; `LedgerError` if the
    file cannot be read or is no ledger; `LedgerCorruptError` if verification fails, with the first
    damaged entry.
    """
    with _reading(path) as connection:
        return History() if connection is None else verified(connection, path)


@dataclass(frozen=True, slots=True)
class LedgerArchive:
    """A verified ledger in full.

    ``rows`` are its entries as stored; ``receipts`` are canonical JSON, by release.
    """

    history: History
    rows: tuple[LedgerRow, ...] = ()
    receipts: Mapping[bytes, bytes] = field(default_factory=dict)


def read_archive(path: Path) -> LedgerArchive:
    """Verify a site's ledger, all stored bytes included; raises as `read_history`."""
    with _reading(path) as connection:
        if connection is None:
            return LedgerArchive(History())
        history = verified(connection, path)
        _require_stored(connection, history)
        return LedgerArchive(
            history,
            tuple(_rows(connection)),
            dict(connection.execute("SELECT release_id, receipt FROM releases")),
        )


def verified(connection: sqlite3.Connection, path: Path) -> History:
    """Verify the chain within a transaction, or reuse a result; raise `LedgerCorruptError`."""
    stamp = _stamp(path, *(connection.execute(_LAST_ENTRY).fetchone() or (0, FIRST)))
    known = _verified.get(path)
    if known is not None and known[0] == stamp:
        return known[1]
    history = verify_chain(_rows(connection))
    _require_same_keys(connection, history)
    _keep(path, stamp, history)
    return history


def remember(path: Path, history: History) -> None:
    """Record as verified a chain that this process has extended and that has reached the disk."""
    _keep(path, _stamp(path, history.length, history.head), history)


def read_release(connection: sqlite3.Connection, committed: Commitment) -> tuple[bytes, bytes]:
    """Stored receipt and payload of a release; raise `LedgerCorruptError` if they were changed."""
    query = "SELECT receipt, payload FROM releases WHERE release_id = ?"
    receipt, payload = connection.execute(query, (committed.release_id,)).fetchone()
    if _digest(payload) != committed.payload_sha256:
        raise damaged(committed.sequence, "the stored bytes do not have their digest")
    if _digest(receipt) != committed.receipt_sha256:
        raise damaged(committed.sequence, "the stored receipt does not have its digest")
    return receipt, payload


def read_sums(
    connection: sqlite3.Connection, history: History, key_id: str
) -> tuple[tuple[int, bytes], ...]:
    """Stored sums of a key that has opened a set, streams ascending; raises likewise."""
    opening = history.openers[key_id].opening
    assert opening is not None  # noqa: S101 - callers have seen to it
    query = "SELECT stream, total FROM sums WHERE opener_key = ? ORDER BY stream"
    sums = tuple(connection.execute(query, (bytes.fromhex(key_id),)))
    sound = all(isinstance(s, int) and isinstance(total, bytes) for s, total in sums)
    if not sound or digest_sums(sums) != opening.sums_sha256:
        raise damaged(opening.sequence, "the stored sums do not have their digest")
    return sums


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Open a reading transaction on a ledger of checked form; yield None if there is no ledger."""
    if not path.exists():
        yield None
        return
    with sqlite_errors():
        # Not mode=ro: after a crash, a reader must first roll back.
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)
    with closing(connection), sqlite_errors():
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        if is_empty(connection):
            yield None
            return
        check_form(connection)
        # One transaction: a command at work in between would look like a damaged chain.
        connection.execute("BEGIN")
        yield connection


def _rows(connection: sqlite3.Connection) -> Iterator[LedgerRow]:
    """Every entry as stored in the file; not yet verified."""
    salt = "x''" if _version(connection) == UNSALTED else "salt"
    return (LedgerRow(*row) for row in connection.execute(_ALL_ENTRIES.format(salt)))


def _require_same_keys(connection: sqlite3.Connection, history: History) -> None:
    """Refuse stored bytes without an entry, and commitments without their bytes."""
    stored = {key for (key,) in connection.execute("SELECT release_id FROM releases")}
    if stored - history.commitments.keys():
        raise LedgerCorruptError(
            "the ledger is damaged: it stores bytes of a release that it never committed"
        )
    opened = {bytes.fromhex(k) for k, each in history.openers.items() if each.opening is not None}
    if any(key not in opened for (key,) in connection.execute("SELECT opener_key FROM sums")):
        raise LedgerCorruptError(
            "the ledger is damaged: it stores sums of masks that it never opened"
        )
    for release_id, committed in history.commitments.items():
        if release_id not in stored:
            raise damaged(committed.sequence, "its bytes are gone")


def _require_stored(connection: sqlite3.Connection, history: History) -> None:
    """Compare all stored bytes with their digests, in the order of their entries."""
    opened = {
        each.opening.sequence: key_id
        for key_id, each in history.openers.items()
        if each.opening is not None
    }
    committed = {each.sequence: each for each in history.commitments.values()}
    for sequence in sorted({*opened, *committed}):
        if sequence in committed:
            read_release(connection, committed[sequence])
        else:
            read_sums(connection, history, opened[sequence])


def _stamp(path: Path, length: object, head: object) -> _Stamp:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_ctime_ns, length, head


def _keep(path: Path, stamp: _Stamp, history: History) -> None:
    _verified.clear()  # one ledger at a time: a process works for one site
    _verified[path] = stamp, history


def _digest(content: object) -> str:
    return hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else ""
