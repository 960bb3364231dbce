"""Files named by the SHA-256 of their bytes.

Bytes are spooled into ``incoming/`` while they arrive, so a contribution is never whole in memory.
`Blobs.keep` makes the file durable, renames it to its digest and makes the new name durable, in
this order: a file named by a digest is complete, even after a power cut. Only then may a database
row refer to it. A file without such a row was interrupted before that, and the next start removes
it.

An upload is read once, when the last owner has contributed. The newest `WARM_BYTES` stay in the
system's page cache, so that a small study is read from memory; older uploads leave the cache, so
that many of them do not fill the machine's memory.

Source: posix_fadvise(2), POSIX_FADV_DONTNEED: pages that are durable already are given back.
"""

import hashlib
import itertools
import os
import sys
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from dppca.common.kernel.durable.files import shut, sync
from dppca.common.kernel.errors import StoreError

WARM_BYTES = 128 << 20  # of uploads that stay in memory for the next reader
_PROBE_BYTES = 64 << 10  # written to learn whether the disk takes anything
_MODE = 0o600  # for the daemon's user alone
_numbers = itertools.count()


class Spool(AbstractContextManager["Spool"]):
    """File that is being filled. Leaving the context removes it unless it was kept.

    Creating a spool does not touch the disk: the first byte creates the file. `Blobs.keep` sets
    ``kept``.
    """

    def __init__(self, folder: Path) -> None:
        self._hash = hashlib.sha256()
        self._ended = False
        self._handle: int | None = None
        self.path = folder / f"{os.getpid():x}-{next(_numbers):x}"
        self.kept = False
        self.n_bytes = 0

    @property
    def sha256(self) -> bytes:
        """Digest of the bytes written, 32 bytes."""
        return self._hash.digest()

    def write(self, content: bytes) -> None:
        """Append bytes; raise `StoreError` if the disk is full."""
        rest = memoryview(content)
        handle = self._opened()
        try:
            while rest:
                rest = rest[os.write(handle, rest) :]
        except OSError as error:
            raise StoreError(_text("write an upload", error)) from error
        self._hash.update(content)
        self.n_bytes += len(content)

    def sync(self) -> None:
        """Make the written bytes durable and end writing; a second call does nothing.

        It waits for the disk: an upload's own thread calls it, before the one writing thread has
        its turn.
        """
        if self._ended:
            return
        handle = self._opened()
        try:
            os.fsync(handle)
            self._shut()
        except OSError as error:
            raise StoreError(_text("finish an upload", error)) from error
        self._ended = True

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End writing; remove the file unless it was kept."""
        self._ended = True
        try:
            self._shut()
            if not self.kept:
                self.path.unlink(missing_ok=True)
        except OSError as failure:
            raise StoreError(_text("remove an upload", failure)) from failure

    def _opened(self) -> int:
        if self._handle is None:
            if self._ended:
                raise AssertionError  # nothing is written after the end
            try:
                self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
            except OSError as error:
                raise StoreError(_text("begin an upload", error)) from error
        return self._handle

    def _shut(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


class Blobs:
    """A folder of digest-named files and the spools that become them."""

    def __init__(self, folder: Path) -> None:
        self._kept = folder / "blobs"
        self._probe = self._kept / "probe"
        self._incoming = folder / "incoming"
        self._warm: dict[Path, int] = {}  # bytes by path, oldest first
        try:
            for path in (folder, self._kept, self._incoming):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            shut([folder])
        except OSError as error:
            raise StoreError(_text(f"create {folder}", error)) from error

    def spool(self) -> Spool:
        """Return a new, empty spool."""
        return Spool(self._incoming)

    def keep(self, *spools: Spool) -> None:
        """Rename complete spools to their digests, durably; known bytes may be given again.

        The folder is made durable once for all of them. After a failure some may have their names:
        give them again.
        """
        if not spools:
            return
        try:
            for spool in spools:
                spool.sync()
                if not spool.kept:
                    path = self._kept / spool.sha256.hex()
                    spool.path.replace(path)
                    spool.kept = True
                    self._warm[path] = spool.n_bytes
            sync(self._kept)
            while sum(self._warm.values()) > WARM_BYTES:
                oldest = next(iter(self._warm))
                del self._warm[oldest]
                _cool(oldest)
        except OSError as error:
            raise StoreError(_text("keep an upload", error)) from error

    def path(self, sha256: bytes) -> Path:
        """Path of the file with a digest; raise `StoreError` if it is missing."""
        path = self._kept / sha256.hex()
        if not path.is_file():
            raise StoreError(f"{path} is gone: restore the state folder from a copy")
        return path

    def read(self, sha256: bytes) -> bytes:
        """Read the file with a digest and compare it with the digest."""
        path = self.path(sha256)
        try:
            content = path.read_bytes()
            self._was_read(path)
        except OSError as error:
            raise StoreError(_text("read a stored file", error)) from error
        _require_digest(content, sha256)
        return content

    def read_into(self, sha256: bytes, buffer: memoryview) -> None:
        """Read like `read`, into a buffer of the file's size."""
        path = self.path(sha256)
        try:
            with path.open("rb", buffering=0) as file:
                n_read = 0
                while more := file.readinto(buffer[n_read:]):
                    n_read += more
                longer = bool(file.read(1))
            self._was_read(path)
        except OSError as error:
            raise StoreError(_text("read a stored file", error)) from error
        _require_digest(b"" if longer else buffer[:n_read], sha256)

    def _was_read(self, path: Path) -> None:
        if path not in self._warm:
            _cool(path)

    def check(self) -> None:
        """Write, rename and remove zero bytes like an upload; raise `StoreError` if that fails."""
        with self.spool() as spool:
            spool.write(bytes(_PROBE_BYTES))
            spool.sync()
            try:
                spool.path.replace(self._probe)
                self._probe.unlink()
            except OSError as error:
                raise StoreError(_text("keep an upload", error)) from error

    def sizes(self) -> tuple[int, int]:
        """Bytes of kept files, and of arriving ones."""
        return _folder_bytes(self._kept), _folder_bytes(self._incoming)

    def remove_orphans(self, referred: AbstractSet[bytes]) -> int:
        """Remove the remains of an interrupted daemon; return the number of files."""
        names = {digest.hex() for digest in referred}
        orphans = [path for path in self._kept.iterdir() if path.name not in names]
        orphans += self._incoming.iterdir()
        try:
            for path in orphans:
                path.unlink()
        except OSError as error:
            raise StoreError(_text("remove what was left over", error)) from error
        return len(orphans)


def _require_digest(content: bytes | memoryview, sha256: bytes) -> None:
    if hashlib.sha256(content).digest() != sha256:
        raise StoreError(f"blob {sha256.hex()} is damaged: restore the state folder from a copy")


def _cool(path: Path) -> None:
    """Drop the cached pages of a durable file, if the system can be advised."""
    if sys.platform != "linux":
        return
    with suppress(OSError):  # only advice; the next reader finds a bad file
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def _folder_bytes(folder: Path) -> int:
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # an upload that ended meanwhile
                    total += entry.stat(follow_symlinks=False).st_size
    except OSError as error:
        raise StoreError(_text(f"look into {folder}", error)) from error
    return total


def _text(action: str, error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    return f"cannot {action}: {reason}: check the disk of the state folder"
