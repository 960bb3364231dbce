"""Backup of a store, and restoring a store from it.

::

    BACKUP/backup.json     version, counts and the digest of the database
    BACKUP/curator.sqlite  the tables at one moment
    BACKUP/blobs/DIGEST    every file that they refer to

A backup may be made while a daemon serves. The database is copied first, in its state at one
moment. Every file that it refers to was durable before (`dppca.curator.store.blobs`), never
changes, and is copied afterwards, each compared with its digest on the way. So the copy is the
store of that moment, even if uploads arrive meanwhile. A store and its backup hold nothing secret:
keys and certificates lie elsewhere, everything here was released, and the openings show only one
sum of the masked vectors.

A backup gets its name once it is complete and durable. Restoring writes the database last: a folder
without it is no store, and restoring can begin again.
"""

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated

from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.durable.files import sync
from dppca.common.kernel.errors import ArtefactError, SettingError, StoreError
from dppca.curator.store.blobs import Blobs
from dppca.curator.store.sqlite import DATABASE, lock_folder
from dppca.curator.store.tables import STORE_VERSION, require_tables

MANIFEST = "backup.json"
_BLOBS = "blobs"
_PIECE_BYTES = 1 << 20  # that are copied and digested at once
_REFERRED = (
    "SELECT sha256 FROM contributions UNION SELECT sha256 FROM publications "
    "UNION SELECT sha256 FROM openings "
    "UNION SELECT result_sha256 FROM studies WHERE result_sha256 IS NOT NULL"
)
"""Query for the digests of all files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """Contents of a backup."""

    version: Annotated[int, "version of the store's tables"]
    created_s: Annotated[int, "when the backup was made, seconds since 1970 UTC"]
    studies: Annotated[int, "number of studies"]
    contributions: Annotated[int, "number of contributions"]
    files: Annotated[int, "number of files"]
    file_bytes: Annotated[int, "bytes of all files together"]
    database_sha256: Annotated[DigestText, "SHA-256 of the database"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupDocument(Backup):
    """Backup that was made, or that a state folder was made from."""

    folder: Annotated[Path, "the folder that was made"]


Advance = Callable[[int], None]


def back_up(state: Path, to: Path, *, now_s: int, advance: Advance = lambda _: None) -> Backup:
    """Copy the store in ``state`` to the new folder ``to``; a daemon may serve it meanwhile.

    ``advance`` is called with the number of bytes after each copied piece. Raise `SettingError` if
    there is no store, or ``to`` exists; `StoreVersionError` if a newer version of the software
    wrote the store; `StoreError` if a file is damaged, or the disk cannot be read or written. After
    an error there is no ``to``.
    """
    if not (state / DATABASE).is_file():
        raise SettingError(f"{state} holds no store: give the --state of the daemon")
    if to.exists():
        raise SettingError(f"{to} exists already: give each backup a folder of its own")
    draft = to.with_name(f".{to.name}.partial-{os.getpid()}")
    try:
        draft.mkdir(mode=0o700, parents=True)
        (draft / _BLOBS).mkdir(mode=0o700)
        backup = _fill(state, draft, now_s, advance)
        for folder in (draft / _BLOBS, draft):
            sync(folder)
        draft.rename(to)
        sync(to.parent)
    except FileNotFoundError as error:
        raise StoreError(
            f"{error.filename} is missing: the store is damaged; use an earlier backup"
        ) from error
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"the backup cannot be written: {error}: check that disk") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return backup


def restore(backup: Path, state: Path, *, advance: Advance = lambda _: None) -> Backup:
    """Create a store from a backup, comparing every byte with its digest.

    ``state`` is created if missing. Raise `SettingError` if it holds a store already;
    `ArtefactError` if ``backup`` is no backup, not whole, or damaged, which leaves no store in
    ``state``; `StoreVersionError` if a newer version of the software made it; `StoreError` if the
    disk cannot be read or written, or a daemon uses ``state``.
    """
    manifest = _manifest(backup)
    if list(state.glob(f"{DATABASE}*")):
        raise SettingError(f"{state} holds a store already: restore into a new folder")
    Blobs(state)
    with lock_folder(state):
        try:
            draft = state / f".{DATABASE}.partial"
            copied = _copy(backup / DATABASE, draft, advance)
            if copied != manifest.database_sha256:
                raise ArtefactError(f"{backup / DATABASE} is damaged: use another backup")
            with closing(sqlite3.connect(draft, isolation_level=None)) as database:
                require_tables(database, draft)
                digests = _referred(database)
            for digest in digests:
                name = digest.hex()
                if _copy(backup / _BLOBS / name, state / _BLOBS / name, advance) != name:
                    raise ArtefactError(f"{backup / _BLOBS / name} is damaged: use another backup")
            sync(state / _BLOBS)
            draft.replace(state / DATABASE)
            sync(state)
        except FileNotFoundError as error:
            raise ArtefactError(f"{error.filename} is missing: use another backup") from error
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise StoreError(
                f"the backup cannot be restored to {state}: {reason}: correct that, then run the "
                "same command again; the backup is unchanged"
            ) from error
        finally:
            with suppress(OSError):  # left for the next attempt, which writes it again
                draft.unlink(missing_ok=True)
    return manifest


def _fill(state: Path, draft: Path, now_s: int, advance: Advance) -> Backup:
    # Not mode=ro: reading a database in WAL mode may create its index file.
    uri = f"{(state / DATABASE).absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as database:
        require_tables(database, state / DATABASE)
        _copy_database(database, draft / DATABASE)
    with closing(sqlite3.connect(draft / DATABASE, isolation_level=None)) as database:
        (verdict,) = database.execute("PRAGMA integrity_check").fetchone()
        if verdict != "ok":
            raise StoreError(
                f"the database is damaged: {verdict}: keep it, and use an earlier backup"
            )
        digests = _referred(database)
        (studies,) = database.execute("SELECT count(*) FROM studies").fetchone()
        (contributions,) = database.execute("SELECT count(*) FROM contributions").fetchone()
    n_bytes = 0
    for digest in digests:
        name = digest.hex()
        copied = _copy(state / _BLOBS / name, draft / _BLOBS / name, advance)
        if copied != name:
            raise StoreError(
                f"{state / _BLOBS / name} is damaged: its bytes do not have the digest in its name"
            )
        n_bytes += (draft / _BLOBS / name).stat().st_size
    backup = Backup(
        version=STORE_VERSION,
        created_s=now_s,
        studies=studies,
        contributions=contributions,
        files=len(digests),
        file_bytes=n_bytes,
        database_sha256=hashlib.sha256((draft / DATABASE).read_bytes()).hexdigest(),
    )
    manifest = draft / MANIFEST
    manifest.write_text(json.dumps(asdict(backup), indent=2) + "\n")
    sync(manifest)
    return backup


def _copy_database(database: sqlite3.Connection, to: Path) -> None:
    """Write a durable copy of an open database at one moment, complete before it has its name.

    SQLite reads one state while others write. The copy is one file without a write-ahead log, so
    that it can be moved, and read from a disk that cannot be written. Raise `StoreError` if it
    cannot be written; an existing file of that name is then untouched.
    """
    draft = to.with_name(f"{to.name}.partial")
    try:
        draft.unlink(missing_ok=True)
        with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
            database.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
        draft.chmod(0o600)
        sync(draft)
        draft.replace(to)
        sync(to.parent)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):  # the error below names the obstacle
            draft.unlink(missing_ok=True)
        raise StoreError(
            f"cannot write {to}: {error}: check that disk; the store is unchanged"
        ) from error


def _manifest(backup: Path) -> Backup:
    path = backup / MANIFEST
    try:
        document = json.loads(path.read_text())
        manifest = Backup(**{field.name: document[field.name] for field in fields(Backup)})
    except FileNotFoundError as error:
        raise ArtefactError(f"{backup} is not a backup: it has no {MANIFEST}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtefactError(f"{path} is damaged: use another backup") from error
    return manifest


def _referred(database: sqlite3.Connection) -> list[bytes]:
    return sorted(digest for (digest,) in database.execute(_REFERRED))


def _copy(source: Path, to: Path, advance: Advance) -> str:
    """Copy a file durably; return the SHA-256 of its bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with source.open("rb") as file, to.open("wb") as copy:
        to.chmod(0o600)
        while piece := file.read(_PIECE_BYTES):
            copy.write(piece)
            digest.update(piece)
            advance(len(piece))
        copy.flush()
        os.fsync(copy.fileno())
    return digest.hexdigest()
