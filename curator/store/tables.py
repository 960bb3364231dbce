"""Tables of the store, and their version.

``PRAGMA user_version`` holds the version of the tables; ``application_id`` marks the file as a
curator's store. Both are read before the first write: a store of another version is refused by name
(`StoreVersionError`), and so is a database that is not ours; neither is changed.

Reference: SQLite, "PRAGMA user_version", "Atomic Commit in SQLite".
"""

import sqlite3
from pathlib import Path

from dppca.common.kernel.errors import StoreError, StoreVersionError

APPLICATION_ID = 0x44505053
"""The letters ``DPPS``."""
STORE_VERSION = 9
"""Version of the tables that this software reads and writes."""

_TABLES = """
CREATE TABLE studies (
    digest BLOB PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    document BLOB NOT NULL,
    state TEXT NOT NULL,
    created_s INTEGER NOT NULL,
    reason TEXT NOT NULL,
    result_sha256 BLOB,
    result_bytes INTEGER,
    result_envelope BLOB
) STRICT;
CREATE TABLE contributions (
    study BLOB NOT NULL REFERENCES studies (digest),
    owner TEXT NOT NULL,
    release_id BLOB NOT NULL,
    sha256 BLOB NOT NULL,
    envelope BLOB NOT NULL,
    n_bytes INTEGER NOT NULL,
    ledger_length INTEGER NOT NULL,
    ledger_head BLOB NOT NULL,
    received_s INTEGER NOT NULL,
    PRIMARY KEY (study, owner),
    UNIQUE (owner, release_id)
) STRICT;
CREATE TABLE publications (
    study BLOB NOT NULL REFERENCES studies (digest),
    owner TEXT NOT NULL,
    form TEXT NOT NULL,
    n_rows INTEGER NOT NULL,
    n_bytes INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    received_s INTEGER NOT NULL,
    PRIMARY KEY (study, owner, form)
) STRICT;
CREATE TABLE checks (id INTEGER PRIMARY KEY, checked_s INTEGER NOT NULL) STRICT;
CREATE TABLE settlements (
    owner TEXT NOT NULL,
    settled_s INTEGER NOT NULL,
    settled_by TEXT NOT NULL,
    reason TEXT NOT NULL,
    seen_length INTEGER NOT NULL,
    seen_head BLOB NOT NULL,
    ledger_length INTEGER,
    ledger_head BLOB,
    releases INTEGER NOT NULL,
    UNIQUE (owner, releases, settled_by)
) STRICT;
CREATE TABLE sealed_sets (
    study BLOB PRIMARY KEY REFERENCES studies (digest),
    set_digest BLOB NOT NULL,
    sealed_s INTEGER NOT NULL
) STRICT;
CREATE TABLE votes (
    study BLOB NOT NULL REFERENCES sealed_sets (study),
    opener TEXT NOT NULL,
    content BLOB NOT NULL,
    received_s INTEGER NOT NULL,
    PRIMARY KEY (study, opener)
) STRICT;
CREATE TABLE openings (
    study BLOB NOT NULL REFERENCES sealed_sets (study),
    opener TEXT NOT NULL,
    streams TEXT NOT NULL,
    n_bytes INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    signature BLOB NOT NULL,
    message_sha256 BLOB NOT NULL,
    received_s INTEGER NOT NULL,
    PRIMARY KEY (study, opener, streams)
) STRICT;
"""
_LATER = """
CREATE TABLE IF NOT EXISTS consents (
    study BLOB NOT NULL REFERENCES sealed_sets (study),
    opener TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (study, opener)
) STRICT;
CREATE TABLE IF NOT EXISTS roles (
    owner TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    sha256 BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS looks (
    number INTEGER PRIMARY KEY,
    time_s INTEGER NOT NULL,
    auditor TEXT NOT NULL,
    method TEXT NOT NULL,
    study TEXT NOT NULL,
    previous BLOB NOT NULL
) STRICT;
"""
# Tables that a store of this version may lack: software before them neither reads nor minds them.


def has_tables(database: sqlite3.Connection, path: Path) -> bool:
    """Return True if an open store has its tables, False for an empty file; nothing is changed.

    Raise `StoreVersionError` if another version of the software wrote it, and `StoreError` if it is
    a database of another program.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (mark,) = database.execute("PRAGMA application_id").fetchone()
    if not (version or mark or database.execute("SELECT name FROM sqlite_master").fetchall()):
        return False
    if mark != APPLICATION_ID:
        raise StoreError(f"{path} is a database, but not a curator's store: give another --state")
    if version != STORE_VERSION:
        raise StoreVersionError(
            f"{path} has version {version}; this software reads version {STORE_VERSION}: run the "
            "dppca-curator that wrote it, or restore a backup made by this one"
        )
    return True


def require_tables(database: sqlite3.Connection, path: Path) -> None:
    """Raise the errors of `has_tables`, and `StoreError` for an empty file too."""
    if not has_tables(database, path):
        raise StoreError(f"{path} is empty: it is not a curator's store")


def create_tables(database: sqlite3.Connection) -> None:
    """Create the tables of a new store in one transaction; ``database`` is in autocommit mode."""
    database.executescript(
        f"BEGIN IMMEDIATE; {_TABLES} PRAGMA application_id = {APPLICATION_ID}; "
        f"PRAGMA user_version = {STORE_VERSION}; COMMIT;"
    )


def add_tables(database: sqlite3.Connection) -> None:
    """Create the tables that a store of this version may lack."""
    database.executescript(f"BEGIN IMMEDIATE; {_LATER} COMMIT;")
