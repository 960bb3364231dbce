"""How rows of the store become records; `dppca.curator.store.tables` holds the tables."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from dppca.common.errors import StoreError, StudyError
from dppca.common.files import create_private
from dppca.common.messages import Form, StudyState
from dppca.common.study_document import study_from_canonical
from dppca.curator.store.tables import create_tables, has_tables
from dppca.curator.study.study_record import (
    Contribution,
    LedgerHead,
    OwnerHistory,
    Publication,
    Sealing,
    Settlement,
    StoredBlob,
    StoredOpening,
    StoredVote,
    StudyRecord,
    by_streams,
)

_BUSY_TIMEOUT_S = 5.0


def connect(path: Path) -> sqlite3.Connection:
    """Open or create the database.

    Raises
    ------
    StoreVersionError
        Another version of the software wrote it; it is unchanged.
    StoreError
        It is no store, or the disk cannot be used.
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
            undo.pop_all()
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot open {path}: {error}") from error
    return database


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
                study=study_from_canonical(document, stored=True),
                state=StudyState(state),
                created_s=created_s,
                reason=reason,
                result=None if sha256 is None else StoredBlob(n_bytes, sha256),
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
                **_masked_sum(database, digest),
            )
    except sqlite3.Error as error:
        raise StoreError(
            f"the database cannot be read: {error}: restore the state folder from a copy"
        ) from error
    except StudyError as error:
        raise StoreError(
            f"a stored study is not valid for this version of the software: {error}"
        ) from error
    return records


def load_histories(database: sqlite3.Connection) -> dict[str, OwnerHistory]:
    """What has been seen of each owner: contributions and settlements in their order."""
    contributed: defaultdict[str, list[tuple[bytes, LedgerHead]]] = defaultdict(list)
    settlements: defaultdict[str, list[Settlement]] = defaultdict(list)
    try:
        for owner, release_id, length, head in database.execute(
            "SELECT owner, release_id, ledger_length, ledger_head FROM contributions ORDER BY rowid"
        ):
            contributed[owner].append((release_id, LedgerHead(length, head)))
        for (
            owner,
            settled_s,
            by,
            reason,
            seen_length,
            seen_head,
            length,
            head,
            releases,
        ) in database.execute(
            "SELECT owner, settled_s, settled_by, reason, seen_length, seen_head, "
            "ledger_length, ledger_head, releases FROM settlements ORDER BY rowid"
        ):
            seen = LedgerHead(seen_length, seen_head)
            chain = None if length is None else LedgerHead(length, head)
            made = Settlement(settled_s, by, reason, seen, chain, releases)
            settlements[owner].append(made)
    except sqlite3.Error as error:
        raise StoreError(
            f"the database cannot be read: {error}: restore the state folder from a copy"
        ) from error
    return {
        owner: OwnerHistory.replay(releases, settlements[owner])
        for owner, releases in contributed.items()
    }


def settlement_row(owner: str, settlement: Settlement) -> tuple[object, ...]:
    """Values of one row of ``settlements``."""
    chain = settlement.chain
    return (
        owner,
        settlement.settled_s,
        settlement.by,
        settlement.reason,
        settlement.seen.length,
        settlement.seen.head,
        None if chain is None else chain.length,
        None if chain is None else chain.head,
        settlement.releases,
    )


class _MaskedSum(TypedDict):
    sealing: Sealing | None
    votes: tuple[StoredVote, ...]
    openings: tuple[StoredOpening, ...]


def _masked_sum(database: sqlite3.Connection, study: bytes) -> _MaskedSum:
    sealing = database.execute(
        "SELECT set_digest, sealed_s FROM sealed_sets WHERE study = ?", (study,)
    ).fetchone()
    votes = database.execute(
        "SELECT opener, content, received_s FROM votes WHERE study = ? ORDER BY opener", (study,)
    )
    openings = database.execute(
        "SELECT opener, streams, n_bytes, sha256, signature, message_sha256, received_s "
        "FROM openings WHERE study = ?",
        (study,),
    )
    read = [StoredOpening(row[0], _streams(row[1]), *row[2:7]) for row in openings]
    return {
        "sealing": None if sealing is None else Sealing(*sealing),
        "votes": tuple(StoredVote(*row) for row in votes),
        "openings": tuple(sorted(read, key=by_streams)),
    }


def _streams(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def opening_row(study: bytes, opening: StoredOpening) -> tuple[object, ...]:
    """Values of one row of ``openings``."""
    return (
        study,
        opening.opener,
        ",".join(str(stream) for stream in opening.streams),
        opening.n_bytes,
        opening.sha256,
        opening.signature,
        opening.message_sha256,
        opening.received_s,
    )


def _contribution(row: tuple[Any, ...]) -> Contribution:
    owner, release_id, n_rows, n_bytes, sha256, length, head, receipt, received_s = row[:9]
    return Contribution(
        owner=owner,
        release_id=release_id,
        n_rows=n_rows,
        n_bytes=n_bytes,
        sha256=sha256,
        chain=LedgerHead(length, head),
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
