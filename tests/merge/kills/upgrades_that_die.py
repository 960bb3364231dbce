"""Opens one old store per folder given, in processes that kill themselves one statement later each.

Prints for each folder how its process ended: ``killed``, or ``opened`` where nothing was left to
be killed at. ``python upgrades_that_die.py FOLDER...``
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from functools import partial
from pathlib import Path
from typing import Any

from dppca.curator.store import SqliteStore, snapshot

LEFT = 0


def step() -> None:
    """One more thing has been done; the last one allowed is where the power goes."""
    global LEFT
    if LEFT == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    LEFT -= 1


class Dying(sqlite3.Connection):
    """A connection that may not live to run its next statement."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        step()
        return super().execute(*arguments)

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        step()
        return super().executemany(*arguments)

    def backup(self, *arguments: Any, **named: Any) -> None:
        step()
        super().backup(*arguments, **named)
        step()


def open_and_die(folder: Path, *, at: int) -> None:
    """Open a store in this process, which is killed before its step number ``at``."""
    global LEFT
    LEFT = at
    sqlite3.connect = partial(sqlite3.connect, factory=Dying)
    synced = snapshot.sync

    def sync(path: Path) -> None:
        step()
        synced(path)
        step()

    snapshot.sync = sync
    SqliteStore(folder)


def main() -> None:
    for number, folder in enumerate(sys.argv[1:]):
        child = os.fork()
        if child == 0:
            open_and_die(Path(folder), at=number)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        end = "killed" if killed else "opened" if status == 0 else f"status {status}"
        sys.stdout.write(f"{end}\n")


if __name__ == "__main__":
    main()
