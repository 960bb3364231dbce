"""Lock that lets only one command at a time write a site's ledger.

The operating system provides the lock (``flock``; ``LockFileEx`` on Windows) and drops it when the
process ends, however it ends: a killed command never leaves a site locked. The lock file is empty
and stays. Limits: the folder must be on a file system with working locks (a local disk; NFS since
version 4).
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from dppca.common.kernel.durable.files import PRIVATE
from dppca.common.kernel.errors import LedgerError

_POLL_S = 0.1  # between two looks at who has the lock


@contextmanager
def lock_site(
    path: Path,
    *,
    wait_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[None]:
    """Hold the site's lock while the block runs; wait for another command at most ``wait_s``.

    Raise `LedgerError` if another command holds the lock or the file cannot be created.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE)
    except OSError as error:
        raise LedgerError(
            f"cannot lock the site at {path}: {error.strerror}: make its disk writable, or correct "
            "the folder's permissions, then run the same command again"
        ) from error
    try:
        end = clock() + wait_s
        while not _taken(descriptor, path):
            if clock() >= end:
                raise LedgerError(
                    "another command of this site is at work on its ledger: wait until it has "
                    "ended, then run this one again"
                )
            sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int, path: Path) -> bool:
    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError as error:
        raise LedgerError(
            f"cannot lock the site at {path}: {error.strerror}: keep its folder on a local disk"
        ) from error
