"""Copy of an open database at one moment, complete before it has its name.

SQLite's backup interface reads one state while others write. The copy is one file without a
write-ahead log, so that it can be moved, and read from a disk that cannot be written.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from dppca.common.errors import StoreError
from dppca.common.shell.files import sync


def copy_database(database: sqlite3.Connection, to: Path) -> None:
    """Write a durable copy; an existing file of that name is replaced atomically.

    Raise `StoreError` if it cannot be written; an existing file is then untouched.
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
