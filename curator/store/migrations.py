"""The versions of the store, and how one becomes the next.

``PRAGMA user_version`` holds the version of the tables; ``application_id`` says that the file is a
curator's store at all. `MIGRATIONS` is the one list of what the tables are: a new store runs all of
it, an old one what it lacks. **To change the tables, append one `Migration`**; one that has been
released is never edited.

Rules of an upgrade:

1. The version is read before anything is written. A newer store is refused by name
   (`StoreVersionError`), and so is a database that is not ours; neither is changed.
2. First a copy of the old database is made beside it, ``curator.sqlite.version-N``, by SQLite's
   backup interface, complete and durable before its name appears. Uploaded bytes are named by
   their digests and never change, so the copy of the database is all that an older daemon needs.
3. Then all steps, their entries in ``upgrades`` and the new version are one transaction. Killed
   before its end, the store is of the old version and the next start begins again.

Reference: SQLite, "PRAGMA user_version", "Online Backup API", "Atomic Commit in SQLite".
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from dppca.common.errors import StoreError, StoreVersionError
from dppca.curator.store.snapshot import copy_database

APPLICATION_ID = 0x44505053
"""``DPPS``, from version 2 on; the first version had none."""


@dataclass(frozen=True, slots=True)
class Migration:
    """What makes a store of ``version`` from one of the version before.

    Attributes
    ----------
    version
        Version of the tables afterwards; the list counts without gaps from 1.
    purpose
        One line for the log and the table ``upgrades``.
    statements
        SQL, one statement each; run in order in the upgrade's transaction.
    """

    version: int
    purpose: str
    statements: tuple[str, ...]


MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        1,
        "studies, contributions and publications",
        (
            """
CREATE TABLE studies (
    digest BLOB PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    document BLOB NOT NULL,
    state TEXT NOT NULL,
    created_s INTEGER NOT NULL,
    reason TEXT NOT NULL,
    result_sha256 BLOB,
    result_bytes INTEGER
) STRICT
""",
            """
CREATE TABLE contributions (
    study BLOB NOT NULL REFERENCES studies (digest),
    owner TEXT NOT NULL,
    release_id BLOB NOT NULL,
    n_rows INTEGER NOT NULL,
    n_bytes INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    ledger_length INTEGER NOT NULL,
    ledger_head BLOB NOT NULL,
    receipt BLOB NOT NULL,
    received_s INTEGER NOT NULL,
    PRIMARY KEY (study, owner),
    UNIQUE (owner, release_id)
) STRICT
""",
            """
CREATE TABLE publications (
    study BLOB NOT NULL REFERENCES studies (digest),
    owner TEXT NOT NULL,
    form TEXT NOT NULL,
    n_rows INTEGER NOT NULL,
    n_bytes INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    received_s INTEGER NOT NULL,
    PRIMARY KEY (study, owner, form)
) STRICT
""",
            "CREATE TABLE checks (id INTEGER PRIMARY KEY, checked_s INTEGER NOT NULL) STRICT",
        ),
    ),
    Migration(
        2,
        "a mark that the file is a store, and the history of its upgrades",
        (
            f"PRAGMA application_id = {APPLICATION_ID}",
            "CREATE TABLE upgrades (version INTEGER PRIMARY KEY, purpose TEXT NOT NULL, "
            "applied_s INTEGER NOT NULL) STRICT",
        ),
    ),
    Migration(
        3,
        "owners' signatures; empty for contributions of earlier versions",
        (
            "ALTER TABLE contributions ADD COLUMN signature BLOB NOT NULL DEFAULT x''",
            "ALTER TABLE contributions ADD COLUMN certificate BLOB NOT NULL DEFAULT x''",
        ),
    ),
    Migration(
        4,
        "settlements: chains of owners' ledgers that were set aside",
        (
            """
CREATE TABLE settlements (
    owner TEXT NOT NULL,
    settled_s INTEGER NOT NULL,
    settled_by TEXT NOT NULL,
    reason TEXT NOT NULL,
    seen_length INTEGER NOT NULL,
    seen_head BLOB NOT NULL,
    ledger_length INTEGER,
    ledger_head BLOB,
    releases INTEGER NOT NULL
) STRICT
""",
        ),
    ),
    Migration(
        5,
        "sealed sets, votes and openings of masked sums",
        (
            """
CREATE TABLE sealed_sets (
    study BLOB PRIMARY KEY REFERENCES studies (digest),
    set_digest BLOB NOT NULL,
    sealed_s INTEGER NOT NULL
) STRICT
""",
            """
CREATE TABLE votes (
    study BLOB NOT NULL REFERENCES sealed_sets (study),
    opener TEXT NOT NULL,
    content BLOB NOT NULL,
    received_s INTEGER NOT NULL,
    PRIMARY KEY (study, opener)
) STRICT
""",
            """
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
) STRICT
""",
        ),
    ),
    Migration(
        6,
        "one settlement of a party for each number of releases: the last",
        (
            "DELETE FROM settlements WHERE rowid NOT IN "
            "(SELECT max(rowid) FROM settlements GROUP BY owner, releases, settled_by)",
            "CREATE UNIQUE INDEX settlement_kinds ON settlements (owner, releases, settled_by)",
        ),
    ),
)

STORE_VERSION = MIGRATIONS[-1].version
"""Version of the tables that this software reads and writes."""

_FIRST_WITH_MARK = 2


@dataclass(frozen=True, slots=True)
class StoreUpgrade:
    """What opening a store did to it; ``copy`` is of the version before, None for a new store."""

    before: int
    after: int
    copy: Path | None


def read_version(database: sqlite3.Connection, path: Path) -> int:
    """Version of an open store's tables, 0 where it has none yet; nothing is changed.

    Raises
    ------
    StoreVersionError
        A newer version of the software wrote it.
    StoreError
        It is a database of something else.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (mark,) = database.execute("PRAGMA application_id").fetchone()
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    marked = mark == APPLICATION_ID or (mark == 0 and version < _FIRST_WITH_MARK)
    ours = "studies" in tables if version else not tables
    if marked and version > STORE_VERSION:
        raise StoreVersionError(
            f"{path} has version {version}; this software reads up to version {STORE_VERSION}: "
            "run the newer dppca-curator, or restore a backup made by this one"
        )
    if not marked or not ours:
        raise StoreError(f"{path} is a database, but no curator's store: give another --state")
    return int(version)


def upgrade(database: sqlite3.Connection, path: Path, *, now_s: int) -> StoreUpgrade | None:
    """Bring an open store to `STORE_VERSION`, after a copy of what it was; None where it is there.

    Parameters
    ----------
    database
        In autocommit; nobody else writes to it.
    now_s
        Seconds since 1970 UTC.

    Raises
    ------
    StoreVersionError, StoreError
        See `read_version`; or the copy cannot be written. The store is as it was.
    """
    before = read_version(database, path)
    if before == STORE_VERSION:
        return None
    copy = None
    if before:
        copy = path.with_name(f"{path.name}.version-{before}")
        copy_database(database, copy)
    database.execute("BEGIN IMMEDIATE")
    try:
        for migration in MIGRATIONS[before:]:
            for statement in migration.statements:
                database.execute(statement)
        database.executemany(
            "INSERT INTO upgrades VALUES (?, ?, ?)",
            [(each.version, each.purpose, now_s) for each in MIGRATIONS[before:]],
        )
        database.execute(f"PRAGMA user_version = {STORE_VERSION}")
        database.execute("COMMIT")
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")
    return StoreUpgrade(before, STORE_VERSION, copy)
