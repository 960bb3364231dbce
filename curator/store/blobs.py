"""Files named by the SHA-256 of their bytes.

Bytes are spooled into ``incoming/`` while they arrive, so a contribution is never whole in memory.
`Blobs.keep` makes the file durable, renames it to its digest and makes the new name durable, in
this order: whatever has a digest for a name is complete, even after a power cut. Only then may a
database row refer to it. A file that no row refers to was cut off before that, and is removed at
the next start.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType

from common.errors import StoreError

_PROBE_BYTES = 64 << 10


class Spool(AbstractContextManager["Spool"]):
    """A file that is being filled. Leaving the context removes it unless it was kept."""

    def __init__(self, folder: Path) -> None:
        self._hash = hashlib.sha256()
        self.n_bytes = 0
        try:
            handle, name = tempfile.mkstemp(dir=folder)
        except OSError as error:
            raise StoreError(_text("begin an upload", error)) from error
        self._file = os.fdopen(handle, "wb", buffering=0)
        self.path = Path(name)

    @property
    def sha256(self) -> bytes:
        """Digest of what has been written, 32 bytes."""
        return self._hash.digest()

    def write(self, content: bytes) -> None:
        """Append bytes; `StoreError` where the disk is full."""
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise StoreError(_text("write an upload", error)) from error
        self._hash.update(content)
        self.n_bytes += len(content)

    def sync(self) -> None:
        """Make what has been written durable, and end writing."""
        try:
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise StoreError(_text("finish an upload", error)) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        try:
            self.path.unlink(missing_ok=True)
        except OSError as failure:
            raise StoreError(_text("remove an upload", failure)) from failure


class Blobs:
    """A folder of digest-named files and the spools that become them."""

    def __init__(self, folder: Path) -> None:
        self._kept = folder / "blobs"
        self._probe = self._kept / "probe"
        self._incoming = folder / "incoming"
        try:
            for path in (folder, self._kept, self._incoming):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(_text(f"create {folder}", error)) from error

    def spool(self) -> Spool:
        """A new, empty file."""
        return Spool(self._incoming)

    def keep(self, spool: Spool) -> None:
        """Give a complete spool its digest for a name, durably; the same bytes may come again."""
        spool.sync()
        try:
            spool.path.replace(self._kept / spool.sha256.hex())
            _sync_folder(self._kept)
        except OSError as error:
            raise StoreError(_text("keep an upload", error)) from error

    def path(self, sha256: bytes) -> Path:
        """Where the bytes of a digest lie."""
        path = self._kept / sha256.hex()
        if not path.is_file():
            message = f"{path} is gone: restore the state folder from a copy"
            raise StoreError(message)
        return path

    def read(self, sha256: bytes) -> bytes:
        """Bytes of a digest, compared with it."""
        try:
            content = self.path(sha256).read_bytes()
        except OSError as error:
            raise StoreError(_text("read a stored file", error)) from error
        if hashlib.sha256(content).digest() != sha256:
            message = f"blob {sha256.hex()} is damaged: restore the state folder from a copy"
            raise StoreError(message)
        return content

    def check(self) -> None:
        """Go the way of an upload with bytes of nothing; `StoreError` where it is barred."""
        with self.spool() as spool:
            spool.write(bytes(_PROBE_BYTES))
            spool.sync()
            try:
                spool.path.replace(self._probe)
                self._probe.unlink()
            except OSError as error:
                raise StoreError(_text("keep an upload", error)) from error

    def sizes(self) -> tuple[int, int]:
        """Bytes that are kept, and that are arriving."""
        return _folder_bytes(self._kept), _folder_bytes(self._incoming)

    def remove_orphans(self, referred: AbstractSet[bytes]) -> int:
        """Remove what an interrupted daemon left; returns how many files."""
        names = {digest.hex() for digest in referred}
        orphans = [path for path in self._kept.iterdir() if path.name not in names]
        orphans += self._incoming.iterdir()
        try:
            for path in orphans:
                path.unlink()
        except OSError as error:
            raise StoreError(_text("remove what was left over", error)) from error
        return len(orphans)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
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
    return f"cannot {action}: {reason}: see to the disk of the state folder"
