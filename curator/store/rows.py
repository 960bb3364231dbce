"""How rows of the store become records; what the tables are, `curator.store.migrations` says."""

from __future__ import annotations

import sqlite3
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.conversation import Form, StudyState
from common.errors import StoreError, StudyError
from common.study import study_from_canonical
from curator.record import Chain, Content, Contribution, Publication, StudyRecord
from curator.store.migrations import Upgrade, upgrade, version_of

_BUSY_TIMEOUT_S = 5.0


def connect(path: Path) -> tuple[sqlite3.Connection, Upgrade | None]:
    """Open, create or upgrade the database; also what became of its version.

    Raises
    ------
    StoreVersionError
        A newer version of the software wrote it; it is unchanged.
    StoreError
        It is no store, or the disk cannot be used.
    """
    try:
        database = sqlite3.connect(
            path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        with ExitStack() as undo:
            undo.enter_context(closing(database))
            version_of(database, path)  # before anything is written
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("PRAGMA foreign_keys = ON")
            upgraded = upgrade(database, path, now_s=int(time.time()))
            undo.pop_all()
    except sqlite3.Error as error:
        message = f"cannot open {path}: {error}"
        raise StoreError(message) from error
    return database, upgraded


def load(database: sqlite3.Connection) -> dict[bytes, StudyRecord]:
    """All studies by digest, oldest first."""
    try:
        records: dict[bytes, StudyRecord] = {}
        for row in database.execute(
            "SELECT digest, document, state, created_s, reason, result_sha256, result_bytes "
            "FROM studies ORDER BY rowid"
        ):
            digest, document, state, created_s, reason, sha256, n_bytes = row
            records[digest] = StudyRecord(
                study=study_from_canonical(document),
                state=StudyState(state),
                created_s=created_s,
                reason=reason,
                result=None if sha256 is None else Content(n_bytes, sha256),
            )
        for digest, record in records.items():
            contributions = database.execute(
                "SELECT owner, release_id, n_rows, n_bytes, sha256, ledger_length, ledger_head, "
                "receipt, received_s, signature, certificate FROM contributions "
                "WHERE study = ? ORDER BY owner",
                (digest,),
            )
            publications = database.execute(
                "SELECT owner, form, n_rows, n_bytes, sha256, received_s "
                "FROM publications WHERE study = ? ORDER BY owner, form",
                (digest,),
            )
            records[digest] = replace(
                record,
                contributions=tuple(_contribution(row) for row in contributions),
                publications=tuple(
                    Publication(row[0], Form(row[1]), *row[2:6]) for row in publications
                ),
            )
    except sqlite3.Error as error:
        message = f"the database cannot be read: {error}: restore the state folder from a copy"
        raise StoreError(message) from error
    except StudyError as error:
        message = f"a stored study is not valid for this version of the software: {error}"
        raise StoreError(message) from error
    return records


def _contribution(row: tuple[Any, ...]) -> Contribution:
    owner, release_id, n_rows, n_bytes, sha256, length, head, receipt, received_s = row[:9]
    return Contribution(
        owner=owner,
        release_id=release_id,
        n_rows=n_rows,
        n_bytes=n_bytes,
        sha256=sha256,
        chain=Chain(length, head),
        receipt=receipt,
        received_s=received_s,
        signature=row[9],
        certificate=row[10],
    )


def contribution_row(study: bytes, contribution: Contribution) -> tuple[object, ...]:
    """Values of one row of ``contributions``."""
    return (
        study,
        contribution.owner,
        contribution.release_id,
        contribution.n_rows,
        contribution.n_bytes,
        contribution.sha256,
        contribution.chain.length,
        contribution.chain.head,
        contribution.receipt,
        contribution.received_s,
        contribution.signature,
        contribution.certificate,
    )
