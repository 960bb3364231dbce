"""Files that are written whole or not at all, and files that only their owner may open.

A file is written under a name of its own beside its place and then renamed, so a reader never finds
half of it and a crash leaves the earlier content. Private folders have mode 0700 and private files
0600: a user who can open a SQLite file can read it, and can hold its lock and thereby block all
others. SQLite gives a database's journals the mode of the database.

Limits: Windows has no such modes. Permissions there follow from the folder, and are neither set nor
checked here. Nor can a folder's names be made durable there; NTFS keeps a journal of them.
"""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

from dppca.common.kernel.errors import SettingError

HAS_MODES: Final = os.name == "posix"
"""True if a file's mode restricts who may open it; False on Windows."""
PRIVATE = 0o600  # its owner alone may read and write it
SHARED = 0o666
"""Mode of a file that only the process's mask restricts."""
_OTHERS = 0o077  # rights of everybody else

CA, CERTIFICATE, KEY = "ca.pem", "certificate.pem", "key.pem"
REQUEST, REVOKED = "request.pem", "crl.pem"


@dataclass(frozen=True, slots=True)
class CredentialFolder:
    """A folder with the files that prove a party's identity."""

    folder: Path

    @property
    def ca(self) -> Path:
        """Path of the authority's certificate, from the operator."""
        return self.folder / CA

    @property
    def certificate(self) -> Path:
        """Path of this party's certificate, from the operator."""
        return self.folder / CERTIFICATE

    @property
    def key(self) -> Path:
        """Path of this party's private key; an owner's never leaves the folder."""
        return self.folder / KEY

    @property
    def certificate_advice(self) -> str:
        """How a party gets its certificate, if this one is lost."""
        return self.key_advice

    @property
    def key_advice(self) -> str:
        """How a party gets another key, if this one is lost."""
        return "`dppca-curator pki issue` makes another, with its certificate, in a new folder"

    @property
    def request(self) -> Path:
        """Path of the request, which the operator signs."""
        return self.folder / REQUEST


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise `SettingError` where the block cannot write the file or folder at ``path``."""
    try:
        yield
    except OSError as error:
        raise SettingError(f"cannot write {path}: {error.strerror}") from error


_PROMISED: Final[set[Path]] = set()


def promise_new(path: Path, *, new: bool = True) -> None:
    """Say that nothing was at ``path`` when a command decided to write it, or take it back.

    `replacing` then writes it only if nothing is there still: of two commands one is refused.
    """
    (_PROMISED.add if new else _PROMISED.discard)(path.absolute())


def _appear(draft: Path, path: Path) -> None:
    """Give a draft the name of a file that is new; `SettingError` if another command did."""
    try:
        os.link(draft, path)
    except FileExistsError as error:
        raise SettingError(
            f"cannot write {path}: another command has written it meanwhile, and it is not "
            "overwritten: name another"
        ) from error
    except OSError:  # a file system without hard links
        require_no_file(path)
        draft.replace(path)
    promise_new(path, new=False)


@contextmanager
def replacing(path: Path, *, durable: bool) -> Iterator[Path]:
    """Yield the path of a draft, not yet made; it replaces ``path`` if the block ends well.

    A process that is killed leaves its draft, ``.NAME.XXXXXXXX``, which nothing reads. With
    ``durable`` the bytes are on the disk before the draft is renamed. Raise `OSError` if the draft
    cannot be made durable or renamed, and `SettingError` if a file that was promised to be new is
    there (`promise_new`); the file at ``path`` is then unchanged.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield draft
        if durable:
            sync(draft)
        if path.absolute() in _PROMISED:
            _appear(draft, path)
        else:
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_file(path: Path, content: bytes, *, mode: int = PRIVATE, durable: bool = True) -> None:
    """Write a file whole or not at all, replacing an earlier one; see `replacing`.

    ``mode`` has the permissions of the file, before the process's mask.
    """
    with replacing(path, durable=durable) as draft, open_new(draft, mode=mode) as file:
        file.write(content)


def create_file(path: Path, content: bytes, *, mode: int = PRIVATE) -> None:
    """Write a new file durably; `FileExistsError` if there is one."""
    with open_new(path, mode=mode) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def open_regular(path: Path) -> Iterator[tuple[BufferedReader, int]]:
    """Open a file of somebody else, and yield it with its size in bytes.

    Raise `OSError` for all that is no regular file: a pipe, at which reading waits for ever, a
    device, which has no end, or a folder.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # before it is opened: a pipe waits there already
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        yield file, found.st_size


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a regular file, in hexadecimal, with the memory of a piece."""
    with open_regular(path) as (file, _):
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_content(path: Path) -> bytes:
    """Bytes of a file that somebody named to a command; `SettingError` where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingError(f"cannot read {path}: {error.strerror}") from error


def require_absent(path: Path, error: Exception) -> None:
    """Raise `SettingError` if ``error``, which reading a text raised, does not mean: no file."""
    if isinstance(error, UnicodeDecodeError):
        raise SettingError(f"{path} is not text in UTF-8: save it again, in UTF-8") from error
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise SettingError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from error


def read_text(path: Path) -> str:
    """Return the text of a file that a user named; `SettingError` if it cannot be read."""
    try:
        return read_content(path).decode()
    except UnicodeDecodeError as error:
        raise SettingError(f"{path} is not text in UTF-8: save it as text in UTF-8") from error


def require_no_file(path: Path) -> None:
    """Raise `SettingError` if there is something at the path of a new file that a user named."""
    if path.exists() or path.is_symlink():
        raise SettingError(
            f"cannot write the new file {path}: it exists and is not overwritten: give another "
            "--output"
        )


def write_new(path: Path, content: str | bytes, *, mode: int = SHARED) -> None:
    """Write a new file that a user named; `SettingError` if there is one, or none can be."""
    try:
        with open_new(path, mode=mode) as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        require_no_file(path)
        raise SettingError(f"cannot write the new file {path}: {error.strerror}") from error


def open_new(path: Path, *, mode: int = PRIVATE) -> BinaryIO:
    """Open a new file for writing, with its mode from the first moment.

    Raise `FileExistsError` if there is one.
    """
    # Not pathlib's, which has no parameter for the mode.
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))


def sync(path: Path) -> None:
    """Make a file's bytes, or a folder's names, durable; names only if the system can."""
    if not HAS_MODES and path.is_dir():
        return
    # Windows writes out only files that are open for writing.
    handle = os.open(path, os.O_RDONLY if HAS_MODES else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def create_private(path: Path) -> None:
    """Create an empty private file if there is none; deny others access to an existing one."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))
    shut([path])


def shut(paths: Iterable[Path]) -> list[Path]:
    """Deny others access to files and folders; return those for which this failed.

    Symbolic links are ignored. Files of another user, or on a read-only disk, stay unchanged:
    `open_to_others` names them.
    """
    for path in open_to_others(listed := list(paths)):
        with suppress(OSError):
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)
    return open_to_others(listed)


def open_to_others(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that other users may read, write, or enter; none without modes."""
    return [
        path
        for path in (paths if HAS_MODES else ())
        if path.exists() and not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & _OTHERS
    ]
