"""Files to and from the tar archives in which an engine takes and gives them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from dppca.common.errors import DataError


def packed(name: str, content: bytes, *, mode: int, owner: int) -> bytes:
    """An archive of one file that belongs to user and group ``owner``."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.uid, entry.gid = len(content), mode, owner, owner
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as archive:
        archive.addfile(entry, io.BytesIO(content))
    return into.getvalue()


def unpacked(chunks: Iterable[bytes], path: str) -> bytes:
    """The content of the one file in an archive.

    Raises
    ------
    DataError
        It holds a folder or a link.
    """
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        members = archive.getmembers()
        content = archive.extractfile(members[0]) if len(members) == 1 else None
        if content is None or members[0].name != PurePosixPath(path).name:
            raise DataError(f"{path} is not a file")
        return content.read()


def unpacked_into(chunks: Iterable[bytes], to: Path) -> None:
    """Write the one folder of an archive as the new folder ``to``; files are this user's.

    Raises
    ------
    DataError
        It holds a name that would lie outside of the folder.
    """
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        for member in archive.getmembers():
            parts = PurePosixPath(member.name).parts[1:]
            if ".." in parts:
                raise DataError(f"an archive names {member.name}, which is outside of it")
            place = to.joinpath(*parts)
            content = archive.extractfile(member)
            if content is None:
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.write_bytes(content.read())
