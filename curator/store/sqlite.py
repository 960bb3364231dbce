"""Store in one folder: SQLite for records, files for uploads.

::

    STATE/lock            held while a daemon runs
    STATE/curator.sqlite  records: studies, contributions, openings ... (WAL, FULL)
    STATE/blobs/DIGEST    vectors, sums of masks, results, synthetic rows
    STATE/incoming/       uploads that are arriving

All records are kept in memory as well, read once at the start: this process is the only writer.
A record in memory is replaced only after its transaction has been committed.

* `save`, `create` and `settle` are all or nothing, and durable when they return. After a failure
  the store answers as before it.
* Bytes are durable before a record refers to them. Opening the store removes files to which no
  record refers.
* One process at a time: opening a store that is in use fails.
* Only one thread may write at a time; any thread may call `study`, `named`, `studies` and
  `history`, which never wait for a disk.
* Failures of the disk and of the database are `StoreError`.
"""

import json
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from filelock import lock_descriptor

from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.durable.files import create_private
from dppca.common.kernel.errors import StoreError
from dppca.curator.store.blobs import Blobs, Spool
from dppca.curator.store.stored_records import (
    connect,
    contribution_row,
    load,
    load_histories,
    load_looks,
    table_row,
)
from dppca.curator.study.auditor_looks import AuditorLook, AuditorLooks
from dppca.curator.study.seen_roles import SeenRoles
from dppca.curator.study.study_record import OwnerHistory, Settlement, StudyRecord

DATABASE = "curator.sqlite"


@dataclass(frozen=True, slots=True)
class StoreSize:
    """Bytes of a store's files, and the free space of its disk."""

    database_bytes: int
    upload_bytes: int
    arriving_bytes: int
    free_bytes: int


class SqliteStore:
    """Studies, contributions, openings and published rows in a folder; see the module."""

    def __init__(self, folder: Path) -> None:
        """Open or create the store.

        Raise `StoreVersionError` if another version of the software wrote it, which leaves it
        unchanged, and `StoreError` if another process uses it, it is no store, or the disk cannot
        be used.
        """
        self.blobs = Blobs(folder)
        with ExitStack() as undo:
            self._lock = undo.enter_context(lock_folder(folder))
            self._path = folder / DATABASE
            self._database = connect(self._path)
            undo.enter_context(closing(self._database))
            self._file_id = _file_id(self._path)
            self._records = load(self._database)
            self._histories = load_histories(self._database)
            self.looks = AuditorLooks.of(load_looks(self._database))
            self.orphans_removed = self.blobs.remove_orphans(self._referred())
            undo.pop_all()
        self._names = {record.study.name: digest for digest, record in self._records.items()}

    def study(self, digest: bytes) -> StudyRecord | None:
        """Return the study with this digest (32 bytes)."""
        return self._records.get(digest)

    def named(self, name: str) -> StudyRecord | None:
        """Return the study with this name."""
        digest = self._names.get(name)
        return None if digest is None else self._records[digest]

    def studies(self) -> tuple[StudyRecord, ...]:
        """Return all studies, newest first."""
        return tuple(reversed(self._records.values()))

    def history(self, owner: str) -> OwnerHistory:
        """Record of an owner over all studies."""
        return self._histories.get(owner, OwnerHistory())

    def create(self, record: StudyRecord) -> None:
        """Store a new study; its name and digest must be new."""
        with self._transaction() as database:
            database.execute(
                "INSERT INTO studies VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
                (
                    record.digest,
                    record.study.name,
                    record.study.canonical_bytes(),
                    record.state.value,
                    record.created_s,
                    record.reason,
                ),
            )
        self._records[record.digest] = record
        self._names[record.study.name] = record.digest

    def save(self, record: StudyRecord, *uploads: Spool) -> None:
        """Store the new parts of a study in one transaction.

        ``record`` is the stored study after one or more steps of `dppca.curator.study.lifecycle`,
        `dppca.curator.study.admission` or `dppca.curator.study.openings`. ``uploads`` are complete
        spools, from `spool`, to which the steps refer; after a failure they may be given again.
        """
        digest = record.digest
        before = self._records[digest]
        # Stored records never change, so a name identifies them.
        stored = {c.owner for c in before.contributions}
        published = {(p.owner, p.form) for p in before.publications}
        contributions = [c for c in record.contributions if c.owner not in stored]
        publications = [p for p in record.publications if (p.owner, p.form) not in published]
        voted = {vote.opener for vote in before.votes}
        votes = [vote for vote in record.votes if vote.opener not in voted]
        openings = [opening for opening in record.openings if opening not in before.openings]
        consents = [each for each in record.consents if each not in before.consents]
        sealing = record.sealing if before.sealing is None else None
        self.blobs.keep(*uploads)
        result = record.result if before.result is None else None
        with self._transaction() as database:
            database.execute(
                "UPDATE studies SET state = ?, reason = ? WHERE digest = ?",
                (record.state.value, record.reason, digest),
            )
            if result is not None:
                database.execute(
                    "UPDATE studies SET result_sha256 = ?, result_bytes = ?, result_envelope = ? "
                    "WHERE digest = ?",
                    (result.sha256, result.n_bytes, result.envelope, digest),
                )
            database.executemany(
                "INSERT INTO contributions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [contribution_row(digest, each) for each in contributions],
            )
            database.executemany(
                "INSERT INTO publications VALUES (?, ?, ?, ?, ?, ?, ?)",
                [table_row(digest, each) for each in publications],
            )
            if sealing is not None:
                database.execute(
                    "INSERT INTO sealed_sets VALUES (?, ?, ?)", table_row(digest, sealing)
                )
            database.executemany(
                "INSERT INTO votes VALUES (?, ?, ?, ?)",
                [table_row(digest, each) for each in votes],
            )
            database.executemany(
                "INSERT INTO openings VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [table_row(digest, each) for each in openings],
            )
            roles = {c.owner: SeenRoles.of(c.release.consent) for c in contributions}
            roles |= {each.opener: SeenRoles.of(json.loads(each.content)) for each in consents}
            database.executemany(
                "INSERT OR REPLACE INTO roles VALUES (?, ?, ?)",
                [(owner, each.version, each.sha256) for owner, each in roles.items() if each],
            )
            database.executemany(
                "INSERT INTO consents VALUES (?, ?, ?)",
                [table_row(digest, each) for each in consents],
            )
            checkpoint("store")
        self._records[digest] = record
        for each in contributions:
            seen = self.history(each.owner)
            self._histories[each.owner] = seen.contributed(each.release_id, each.chain)
        for owner, own in roles.items():
            if own is not None:
                self._histories[owner] = replace(self.history(owner), roles=own)

    def settle(self, owner: str, settlement: Settlement) -> None:
        """Set aside the record of an owner's chain; it replaces a settlement with the same key."""
        with self._transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO settlements VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                table_row(owner, settlement),
            )
            if settlement.is_operators:
                database.execute("DELETE FROM roles WHERE owner = ?", (owner,))
        self._histories[owner] = self.history(owner).settled(settlement)

    def keep_look(self, look: AuditorLook) -> None:
        """Store the next look; the oldest goes where they are too many."""
        kept = self.looks.followed_by(look)
        with self._transaction() as database:
            row = (look.number, look.time_s, look.auditor, look.method, look.study, look.previous)
            database.execute("INSERT INTO looks VALUES (?, ?, ?, ?, ?, ?)", row)
            database.execute("DELETE FROM looks WHERE number < ?", (kept.lines[0].number,))
        self.looks = kept

    def check(self) -> None:
        """Raise `StoreError` unless bytes, their names and rows can all be written."""
        self.blobs.check()
        if _file_id(self._path) != self._file_id:
            raise StoreError(f"{self._path} is not the file that was opened: restart the daemon")
        with self._transaction() as database:
            database.execute("INSERT OR REPLACE INTO checks VALUES (1, ?)", (int(time.time()),))

    def size(self) -> StoreSize:
        """Current bytes on the disk, from any thread; raise `StoreError` if the disk fails."""
        try:
            database = sum(path.stat().st_size for path in self._path.parent.glob(f"{DATABASE}*"))
            free = shutil.disk_usage(self._path.parent).free
        except OSError as error:
            raise StoreError(f"cannot look into {self._path.parent}: {error.strerror}") from error
        return StoreSize(database, *self.blobs.sizes(), free)

    def close(self) -> None:
        """Release the store to other processes."""
        self._database.close()
        self._lock.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:  # SQLite rolls back by itself when the disk is full
                    database.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise StoreError(
                f"the database cannot be written: {error}: check the state folder's disk"
            ) from error

    def _referred(self) -> set[bytes]:
        digests: set[bytes] = set()
        for record in self._records.values():
            digests.update(c.sha256 for c in record.contributions)
            digests.update(p.sha256 for p in record.publications)
            digests.update(o.sha256 for o in record.openings)
            if record.result is not None:
                digests.add(record.result.sha256)
        return digests


def _file_id(path: Path) -> tuple[int, int]:
    """Device and inode: a different file of the same name has others."""
    try:
        status = path.stat()
    except OSError as error:
        raise StoreError(f"{path} is gone: restore the state folder from a copy") from error
    return status.st_dev, status.st_ino


def lock_folder(folder: Path) -> BinaryIO:
    """Lock a folder for one process; the kernel releases the lock when the process ends.

    Raise `StoreError` if another process holds the lock, or if it cannot be created.
    """
    path = folder / "lock"
    try:
        create_private(path)
        file = path.open("ab")
    except OSError as error:
        raise StoreError(
            f"cannot open {path}: {error.strerror}: make its disk writable, or correct permissions"
        ) from error
    try:
        taken = lock_descriptor(file.fileno(), blocking=False)
    except OSError as error:
        file.close()
        raise StoreError(f"cannot lock {path}: {error.strerror}") from error
    if not taken:
        file.close()
        raise StoreError(f"another daemon uses {folder}: stop it, or give this one another --state")
    return file
