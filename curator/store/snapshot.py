"""A copy of an open database as it is at one moment, complete before it has its name.

SQLite's backup interface reads one state, while others write. The copy is one file: it keeps no
write-ahead log, so that it can be moved, and read from a disk that cannot be written.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from dppca.common.errors import StoreError
from dppca.common.shell.files import sync


def copy_database(database: sqlite3.Connection, to: Path) -> None:
    """Write a durable copy; one that has the name already is replaced, whole or not at all.

    Raises
    ------
    StoreError
        It cannot be written; what had the name before is untouched.
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
        with suppress(OSError):  # what is in the way is named below
            draft.unlink(missing_ok=True)
        raise StoreError(
            f"cannot write {to}: {error}: check that disk; the store is unchanged"
        ) from error
