"""Structure of the ledger's file: tables, triggers, versions; translation of SQLite's errors."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from dppca.common.errors import LedgerCorruptError, LedgerError, LedgerVersionError
from dppca.common.shell.files import create_private

BUSY_MS = 5_000
_APPLICATION_ID = 0x44505043
VERSION = 6

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
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION_ID:
        raise LedgerError("ledger.sqlite is not a ledger")
    if version != VERSION:
        raise LedgerVersionError(
            f"ledger.sqlite has version {version}; this software reads version {VERSION}: run the "
            "dppca-owner that wrote it; do not take an older copy of the ledger, which would "
            "forget charges"
        )


def check_form(connection: sqlite3.Connection) -> None:
    """Do `check_version`, and refuse tables or triggers that were changed."""
    check_version(connection)
    statements = connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
    ).fetchall()
    if {sql for (sql,) in statements} != set(_DEFINITIONS):
        raise LedgerCorruptError(
            "the ledger is damaged: its tables or the triggers that guard them were changed"
        )


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
        f"the ledger cannot be used ({error}): nothing was written by this step; free space on its "
        "disk or correct its permissions, then run the same command again"
    ) from error
