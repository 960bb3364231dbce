"""Conversion of stored rows to records; `dppca.curator.store.tables` has the tables."""

import sqlite3
from collections import defaultdict
from contextlib import ExitStack, closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from dppca.common.kernel.attestation.contributions import SignedRelease, unchecked_receipt
from dppca.common.kernel.documents.messages import Form, StudyState
from dppca.common.kernel.durable.files import create_private
from dppca.common.kernel.errors import ReceiptError, SignatureError, StoreError, StudyError
from dppca.common.kernel.study import study_from_canonical
from dppca.curator.store.tables import add_tables, create_tables, has_tables
from dppca.curator.study.auditor_looks import AuditorLook
from dppca.curator.study.seen_roles import SeenRoles
from dppca.curator.study.study_record import (
    Contribution,
    LedgerHead,
    OwnerHistory,
    Publication,
    Sealing,
    Settlement,
    StoredConsent,
    StoredOpening,
    StoredResult,
    StoredVote,
    StudyRecord,
    by_streams,
)

_BUSY_TIMEOUT_S = 5.0  # for another process that holds the database's lock


def connect(path: Path) -> sqlite3.Connection:
    """Open or create the database.

    Raise `StoreVersionError` if another version of the software wrote it, which leaves it
    unchanged, and `StoreError` if it is no store, or the disk cannot be used.
    """
    try:
        create_private(path)
        database = sqlite3.connect(
            path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        with ExitStack() as undo:
            undo.enter_context(closing(database))
            is_new = not has_tables(database, path)  # before anything is written
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("PRAGMA foreign_keys = ON")
            if is_new:
                create_tables(database)
            add_tables(database)
            undo.pop_all()
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot open {path}: {error}") from error
    return database


def load(database: sqlite3.Connection) -> dict[bytes, StudyRecord]:
    """Return all studies by digest, oldest first."""
    try:
        records: dict[bytes, StudyRecord] = {}
        for row in database.execute(
            "SELECT digest, document, state, created_s, reason, result_sha256, result_bytes, "
            "result_envelope FROM studies ORDER BY rowid"
        ):
            digest, document, state, created_s, reason, sha256, n_bytes, envelope = row
            records[digest] = StudyRecord(
                study=study_from_canonical(document),
                state=StudyState(state),
                created_s=created_s,
                reason=reason,
                result=None if sha256 is None else StoredResult(n_bytes, sha256, envelope),
            )
        for digest, record in records.items():
            records[digest] = _with_parts(database, digest, record)
    except sqlite3.Error as error:
        raise StoreError(
            f"the database cannot be read: {error}: restore the state folder from a copy"
        ) from error
    except (StudyError, SignatureError, ReceiptError) as error:
        raise StoreError(
            f"a stored study is not valid for this version of the software: {error}"
        ) from error
    return records


def load_histories(database: sqlite3.Connection) -> dict[str, OwnerHistory]:
    """Histories of the owners: contributions and settlements in their order."""
    contributed: defaultdict[str, list[tuple[bytes, LedgerHead]]] = defaultdict(list)
    settlements: defaultdict[str, list[Settlement]] = defaultdict(list)
    try:
        for owner, release_id, length, head in database.execute(
            "SELECT owner, release_id, ledger_length, ledger_head FROM contributions ORDER BY rowid"
        ):
            contributed[owner].append((release_id, LedgerHead(length, head)))
        for owner, settled_s, by, reason, *heads, releases in database.execute(
            "SELECT owner, settled_s, settled_by, reason, seen_length, seen_head, "
            "ledger_length, ledger_head, releases FROM settlements ORDER BY rowid"
        ):
            seen = LedgerHead(*heads[:2])
            chain = None if heads[2] is None else LedgerHead(*heads[2:])
            settlement = Settlement(settled_s, by, reason, seen, chain, releases)
            settlements[owner].append(settlement)
        rows = database.execute("SELECT owner, version, sha256 FROM roles")
        roles = {owner: SeenRoles(version, sha256) for owner, version, sha256 in rows}
    except sqlite3.Error as error:
        raise StoreError(
            f"the database cannot be read: {error}: restore the state folder from a copy"
        ) from error
    return {
        owner: replace(
            OwnerHistory.replay(contributed[owner], settlements[owner]), roles=roles.get(owner)
        )
        for owner in contributed.keys() | settlements.keys() | roles.keys()
    }


def load_looks(database: sqlite3.Connection) -> list[AuditorLook]:
    """Looks of auditors, the oldest first."""
    try:
        rows = database.execute(
            "SELECT number, time_s, auditor, method, study, previous FROM looks ORDER BY number"
        ).fetchall()
    except sqlite3.Error as error:
        raise StoreError(
            f"the database cannot be read: {error}: restore the state folder from a copy"
        ) from error
    return [AuditorLook(*row) for row in rows]


def table_row(key: str | bytes, record: object) -> tuple[object, ...]:
    """Values of a record's row: its key in the table, then its fields in their order.

    ``record`` is a dataclass of `dppca.curator.study.study_record`. A chain takes two columns, both
    NULL if there is none, and streams are text.
    """
    values: list[object] = [key]
    for each in fields(record):  # type: ignore[arg-type] # a dataclass
        value = getattr(record, each.name)
        if each.name in ("chain", "seen"):
            values += (None, None) if value is None else (value.length, value.head)
        elif each.name == "streams":
            values.append(",".join(map(str, value)))
        else:
            values.append(value)
    return tuple(values)


def contribution_row(study: bytes, contribution: Contribution) -> tuple[object, ...]:
    """Values of a contribution's row; its envelope holds the other properties."""
    return (
        study,
        contribution.owner,
        contribution.release_id,
        contribution.sha256,
        contribution.release.envelope,
        contribution.n_bytes,
        contribution.chain.length,
        contribution.chain.head,
        contribution.received_s,
    )


def _with_parts(database: sqlite3.Connection, study: bytes, record: StudyRecord) -> StudyRecord:
    def select(columns: str, rest: str = "") -> list[tuple[Any, ...]]:
        query = f"SELECT {columns} WHERE study = ? {rest}"
        return database.execute(query, (study,)).fetchall()

    contributions = select(
        "owner, envelope, n_bytes, ledger_length, ledger_head, received_s FROM contributions",
        "ORDER BY owner",
    )
    publications = select(
        "owner, form, n_rows, n_bytes, sha256, received_s FROM publications", "ORDER BY owner, form"
    )
    openings = select(
        "opener, streams, n_bytes, sha256, signature, message_sha256, received_s FROM openings"
    )
    read = [StoredOpening(row[0], tuple(map(int, row[1].split(","))), *row[2:]) for row in openings]
    sealed = select("set_digest, sealed_s FROM sealed_sets")
    votes = select("opener, content, received_s FROM votes", "ORDER BY opener")
    consents = select("opener, content FROM consents", "ORDER BY opener")
    return replace(
        record,
        contributions=tuple(
            Contribution(
                SignedRelease(owner, unchecked_receipt(envelope), envelope),
                n_bytes,
                LedgerHead(length, head),
                received_s,
            )
            for owner, envelope, n_bytes, length, head, received_s in contributions
        ),
        publications=tuple(Publication(row[0], Form(row[1]), *row[2:]) for row in publications),
        sealing=Sealing(*sealed[0]) if sealed else None,
        votes=tuple(StoredVote(*row) for row in votes),
        openings=tuple(sorted(read, key=by_streams)),
        consents=tuple(StoredConsent(*row) for row in consents),
    )
