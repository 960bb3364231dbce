"""Errors of a full disk during a simulation."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dppca.common.kernel.errors import PeerError, SettingError

ANOTHER_OUTPUT = "name another --output"
ANOTHER_TMPDIR = "set TMPDIR to a folder on another disk"
_FULL = 1 << 20  # bytes


def is_full_disk(error: OSError) -> bool:
    """Return True if an error reports that no space is left."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def telling_full_disk(folder: Path, *, instead: str) -> Iterator[None]:
    """Raise `SettingError` if the block finds no space left in the folder that it writes to.

    A `PeerError` of the block counts too if the disk is almost full. ``instead`` is the message's
    alternative to freeing space.
    """
    try:
        yield
    except (OSError, PeerError) as error:
        # A party that cannot write ends without being able to write the reason.
        full = (
            is_full_disk(error)
            if isinstance(error, OSError)
            else shutil.disk_usage(folder).free < _FULL
        )
        if not full:
            raise
        raise SettingError(
            f"the disk is full: no space is left in {folder}; free some, or {instead}"
        ) from error
