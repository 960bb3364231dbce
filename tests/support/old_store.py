"""A curator's store as version 1 of its tables left it, written without the software under test.

The tables are copied here and stay as they were shipped: an upgrade must be able to read them
whatever becomes of `dppca.curator.store`.
"""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

from dppca.common.study import Study
from tests.support.census import header_of, make_release

TABLES_OF_VERSION_1 = """
CREATE TABLE studies (
    digest BLOB PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    document BLOB NOT NULL,
    state TEXT NOT NULL,
    created_s INTEGER NOT NULL,
    reason TEXT NOT NULL,
    result_sha256 BLOB,
    result_bytes INTEGER
) STRICT;
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
"""

CREATED_S = 1_777_000_000


def write_version_1(state: Path, study: Study) -> None:
    """An open study with the contribution of its first owner (`make_release`, seed 0)."""
    for name in ("blobs", "incoming"):
        (state / name).mkdir(parents=True)
    release = make_release(study, seed=0)
    header, payload = header_of(release), release.payload()
    (state / "blobs" / hashlib.sha256(payload).hexdigest()).write_bytes(payload)
    with closing(sqlite3.connect(state / "curator.sqlite", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(f"BEGIN; {TABLES_OF_VERSION_1} PRAGMA user_version = 1; COMMIT;")
        digest = bytes.fromhex(study.digest)
        database.execute(
            "INSERT INTO studies VALUES (?, ?, ?, 'open', ?, '', NULL, NULL)",
            (digest, study.name, study.canonical_bytes(), CREATED_S),
        )
        database.execute(
            "INSERT INTO contributions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                digest,
                study.owners[0],
                header.release_id,
                header.n_rows,
                header.total_bytes,
                header.sha256,
                header.ledger_length,
                header.ledger_head,
                header.receipt,
                CREATED_S + 1,
            ),
        )
