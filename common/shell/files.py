"""Files that are written whole or not at all, and files that are their owner's alone.

A file is written under a name of its own beside its place and then renamed, so that a reader never
finds half of it and a crash leaves what was there before. Private folders have mode 0700 and
private files 0600: a user who can open a SQLite file can read it, and can hold its lock so that
nobody else gets on. SQLite gives a database's journals the mode of the database.

Limits: Windows has no such modes. Who may open a file there follows from its folder, and is neither
set nor seen here. Nor can a folder's names be made durable there; NTFS keeps a journal of them.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from dppca.common.errors import SettingError

HAS_MODES: Final = os.name == "posix"
"""Whether a file's mode says who may open it; not on Windows."""
PRIVATE = 0o600
SHARED = 0o666
"""Mode of a file that the process's mask alone restricts."""
_OTHERS = 0o077

CA, CERTIFICATE, KEY = "ca.pem", "certificate.pem", "key.pem"
REQUEST, REVOKED = "request.pem", "crl.pem"


@dataclass(frozen=True, slots=True)
class CredentialFolder:
    """A folder with the files by which a party proves who it is."""

    folder: Path

    @property
    def ca(self) -> Path:
        """The authority's certificate, from the operator."""
        return self.folder / CA

    @property
    def certificate(self) -> Path:
        """Certificate of this party, from the operator."""
        return self.folder / CERTIFICATE

    @property
    def key(self) -> Path:
        """Private key of this party; an owner's never leaves the folder."""
        return self.folder / KEY

    @property
    def request(self) -> Path:
        """What the operator signs."""
        return self.folder / REQUEST


@contextmanager
def replacing(path: Path, *, durable: bool) -> Iterator[Path]:
    """The path of a draft that does not exist yet; it replaces ``path`` if the block ends well.

    A process that is killed leaves its draft, ``.NAME.XXXXXXXX``, which nothing reads.

    Parameters
    ----------
    durable
        Whether the bytes are on the disk before the draft gets its name.

    Raises
    ------
    OSError
        The draft cannot be made durable or renamed. What was at ``path`` is untouched.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield draft
        if durable:
            sync(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_file(path: Path, content: bytes, *, mode: int = PRIVATE, durable: bool = True) -> None:
    """Write a file whole or not at all, over what was there; see `replacing`.

    Parameters
    ----------
    mode
        Permissions of the file, before the process's mask.
    """
    with replacing(path, durable=durable) as draft, open_new(draft, mode=mode) as file:
        file.write(content)


def create_file(path: Path, content: bytes, *, mode: int = PRIVATE) -> None:
    """Write a new file durably; `FileExistsError` where there is one."""
    with open_new(path, mode=mode) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_content(path: Path) -> bytes:
    """Bytes of a file that somebody named to a command; `SettingError` where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingError(f"cannot read {path}: {error.strerror}") from error


def read_text(path: Path) -> str:
    """Text of a file that somebody named to a command; `SettingError` where it cannot be read."""
    try:
        return read_content(path).decode()
    except UnicodeDecodeError as error:
        raise SettingError(f"cannot read {path}: it is not text in UTF-8") from error


def open_new(path: Path, *, mode: int = PRIVATE) -> BinaryIO:
    """Open a new file for writing; its mode is right from its first moment.

    Raises
    ------
    FileExistsError
        There is one.
    """
    # Not pathlib's, which cannot say the mode.
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))


def sync(path: Path) -> None:
    """Make a file's bytes, or a folder's names, durable; names only where the system can."""
    if not HAS_MODES and path.is_dir():
        return
    # Windows writes out only what is open for writing.
    handle = os.open(path, os.O_RDONLY if HAS_MODES else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def create_private(path: Path) -> None:
    """Make an empty private file where there is none, and shut others out of one that is there."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))
    shut([path])


def shut(paths: Iterable[Path]) -> list[Path]:
    """Shut others out of files and folders; returns those where it could not be done.

    Symbolic links are left alone. What another user owns, or lies on a disk that cannot be written,
    stays as it is: `open_to_others` names it.
    """
    for path in open_to_others(listed := list(paths)):
        with suppress(OSError):
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)
    return open_to_others(listed)


def open_to_others(paths: Iterable[Path]) -> list[Path]:
    """Those of some paths that other users may read, write, or enter; none where no mode says."""
    return [
        path
        for path in (paths if HAS_MODES else ())
        if path.exists() and not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & _OTHERS
    ]
