"""Uploads as they come in, and downloads as they go out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import DecodeError

from common.errors import StoreError, UploadError
from common.transport.channels import CHUNK_BYTES
from common.transport.codec import Reassembly
from common.wire import federation_pb2 as pb
from curator.config import Limits
from curator.store import Spool

_Part = TypeVar("_Part", pb.ContributeRequest, pb.PublishSyntheticRequest)


async def first_part(parts: AsyncIterator[_Part], *, idle_timeout_s: float) -> _Part:
    """The message that begins an upload; `UploadError` unless it is a header."""
    part = await _next(parts, idle_timeout_s)
    if part is None or part.WhichOneof("part") != "header":
        message = "an upload begins with its header"
        raise UploadError(message)
    return part


async def receive(
    parts: AsyncIterator[_Part], reassembly: Reassembly, spool: Spool, *, limits: Limits
) -> None:
    """Write the rest of an upload to a spool.

    Raises
    ------
    UploadError
        Anything but the chunks announced, in their order; a pause above ``idle_timeout_s``, or more
        than ``max_upload_s`` in all.
    StoreError
        The disk is full.
    """
    end = time.monotonic() + limits.max_upload_s
    while (part := await _next(parts, limits.idle_timeout_s)) is not None:
        if time.monotonic() > end:
            message = f"an upload took more than {limits.max_upload_s:.0f} s"
            raise UploadError(message)
        if part.WhichOneof("part") != "chunk":
            message = "something else than a chunk after the header"
            raise UploadError(message)
        await asyncio.to_thread(_take, part.chunk, reassembly, spool)
    reassembly.finish()


def pieces_of(path: Path) -> Iterator[bytes]:
    """A stored file in pieces; `StoreError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            while piece := file.read(CHUNK_BYTES):
                yield piece
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise StoreError(message) from error


async def chunked(pieces: Iterator[bytes]) -> AsyncIterator[pb.Chunk]:
    """Pieces of any size as chunks; taken from the iterator in another thread."""
    offset = 0
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        for start in range(0, len(piece), CHUNK_BYTES):
            content = piece[start : start + CHUNK_BYTES]
            yield pb.Chunk(offset=offset, content=content)
            offset += len(content)


async def _next(parts: AsyncIterator[_Part], idle_timeout_s: float) -> _Part | None:
    """The next message of an upload; None at its end."""
    try:
        async with asyncio.timeout(idle_timeout_s):
            return await anext(parts, None)
    except TimeoutError as error:
        message = f"nothing has come for {idle_timeout_s:.0f} s"
        raise UploadError(message) from error
    except DecodeError as error:
        message = "a message of the upload cannot be read"
        raise UploadError(message) from error


def _take(chunk: pb.Chunk, reassembly: Reassembly, spool: Spool) -> None:
    spool.write(reassembly.add(chunk))
