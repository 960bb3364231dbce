"""Reading a ledger: every reading verifies the whole chain, and the digests of all stored bytes."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from dppca.common.errors import LedgerCorruptError
from dppca.owner.ledger.chain import History, LedgerRow, damaged, verify_chain
from dppca.owner.ledger.file import (
    BUSY_MS,
    check_form,
    is_empty,
    sqlite_errors,
)
from dppca.owner.ledger.openers import digest_sums

_ALL_ENTRIES = "SELECT sequence, document, digest FROM entries ORDER BY sequence"


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
class LedgerArchive:
    """A verified ledger in full.

    Attributes
    ----------
    rows
        Every entry as it stands in the file.
    receipts
        Stored receipts (canonical JSON), by release.
    """

    history: History
    rows: tuple[LedgerRow, ...] = ()
    receipts: Mapping[bytes, bytes] = field(default_factory=dict)


def read_archive(path: Path) -> LedgerArchive:
    """Verify a site's ledger and read all of it but the payloads; raises as `read_history`."""
    if not path.exists():
        return LedgerArchive(History())
    with sqlite_errors():
        # Not mode=ro: after a crash, reading means rolling back first.
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)
    with closing(connection), sqlite_errors():
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        if is_empty(connection):
            return LedgerArchive(History())
        check_form(connection)
        # One transaction: a command at work in between would look like a damaged chain.
        connection.execute("BEGIN")
        history = verified(connection)
        return LedgerArchive(
            history,
            tuple(read_rows(connection)),
            dict(connection.execute("SELECT release_id, receipt FROM releases")),
        )


def read_rows(connection: sqlite3.Connection) -> list[LedgerRow]:
    """Every entry as it stands in the file; nothing about it is believed."""
    return [LedgerRow(*row) for row in connection.execute(_ALL_ENTRIES)]


def verified(connection: sqlite3.Connection) -> History:
    """Verify what a connection reads, entries and stored bytes; `LedgerCorruptError`."""
    history = verify_chain(read_rows(connection))
    waiting = dict(history.commitments)
    stored = connection.execute("SELECT release_id, receipt, payload FROM releases")
    faults = []
    for release_id, receipt, payload in stored:
        committed = waiting.pop(release_id, None)
        if committed is None:
            raise LedgerCorruptError(
                "the ledger is damaged: it stores bytes of a release that it never committed"
            )
        if _digest(payload) != committed.payload_sha256:
            faults.append((committed.sequence, "the stored bytes do not have their digest"))
        if _digest(receipt) != committed.receipt_sha256:
            faults.append((committed.sequence, "the stored receipt does not have its digest"))
    faults += [(each.sequence, "its bytes are gone") for each in waiting.values()]
    faults += _faults_of_sums(connection, history)
    if faults:
        raise damaged(*min(faults))
    return history


def read_sums(connection: sqlite3.Connection, key_id: str) -> list[tuple[int, bytes]]:
    """The stored sums of an opener key, streams ascending."""
    query = "SELECT stream, total FROM sums WHERE opener_key = ? ORDER BY stream"
    return connection.execute(query, (bytes.fromhex(key_id),)).fetchall()


def _faults_of_sums(connection: sqlite3.Connection, history: History) -> list[tuple[int, str]]:
    opened = {
        bytes.fromhex(key_id): each.opening
        for key_id, each in history.openers.items()
        if each.opening is not None
    }
    for (key,) in connection.execute("SELECT DISTINCT opener_key FROM sums"):
        if key not in opened:
            raise LedgerCorruptError(
                "the ledger is damaged: it stores sums of masks that it never opened"
            )
    return [
        (opening.sequence, "the stored sums do not have their digest")
        for key, opening in opened.items()
        if _digest_stored(read_sums(connection, key.hex())) != opening.sums_sha256
    ]


def _digest_stored(sums: Sequence[tuple[object, object]]) -> str:
    good = [(s, t) for s, t in sums if isinstance(s, int) and isinstance(t, bytes)]
    return digest_sums(good) if len(good) == len(sums) else ""


def _digest(content: object) -> str:
    return hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else ""
