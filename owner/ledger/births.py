"""Which file stands at a path: its inode, and the moment at which the system made it.

No tool can choose either: whoever restores, copies or moves bytes to another disk makes other
files, or writes into files that were made for other bytes. Inodes are used again after a file is
removed; with the moment they are not. A change of mode, times or links leaves both.

Linux tells the moment by ``statx``, on most local file systems (`statx(2)`, ``stx_btime``); Python
3.11 has no call for it. Elsewhere nothing is known: macOS moves a file's birth back with its
modification time, which a tool may set.
"""

import ctypes
import struct
import sys
from pathlib import Path

_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000  # of Linux's fcntl.h
_INODE, _BIRTH = 0x100, 0x800  # fields of Linux's statx
_STATX = struct.Struct("=I28xQ40xqI164x")  # mask, inode, seconds and nanoseconds of birth


def find_birth(place: Path | int) -> tuple[int, int] | None:
    """Return inode and birth (ns since 1970) of a path or open file; None if nothing is known."""
    known = getattr(ctypes.CDLL(None), "statx", None) if sys.platform == "linux" else None
    if known is None:
        return None
    at = (place, b"", _AT_EMPTY_PATH) if isinstance(place, int) else (_AT_FDCWD, bytes(place), 0)
    found = ctypes.create_string_buffer(_STATX.size)
    if known(*at, _INODE | _BIRTH, found) != 0:
        return None
    mask, inode, seconds, nanoseconds = _STATX.unpack(found.raw)
    if mask & _BIRTH and mask & _INODE:
        return inode, seconds * 10**9 + nanoseconds
    return None
