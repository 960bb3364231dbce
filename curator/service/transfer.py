"""Uploads as they arrive, and downloads as they leave.

Threads wait for the disk. While one chunk of an upload is hashed and written, the next one
arrives; at the end the last chunk is written and all bytes are made durable in one step. So at most
three chunks of each upload are in memory: one being written, the next, and one arriving.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from dppca.common.kernel.errors import StoreError, UploadError
from dppca.common.transport.channels import CHUNK_BYTES
from dppca.common.transport.codec import ChunkVerifier
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.config import Limits
from dppca.curator.service.masked_sums import OpeningSpool
from dppca.curator.store import Spool, SqliteStore

_Part = TypeVar("_Part", pb.ContributeRequest, pb.PublishSyntheticRequest, pb.OpenRequest)


async def receive_header(parts: AsyncIterator[_Part], *, idle_timeout_s: float) -> _Part:
    """Return the first message of an upload; raise `UploadError` unless it is a header."""
    part = await _next(parts, idle_timeout_s)
    if part is None or part.WhichOneof("part") != "header":
        raise UploadError("an upload begins with its header")
    return part


@asynccontextmanager
async def open_spool(store: SqliteStore, threads: Executor) -> AsyncIterator[Spool]:
    """Open a file for an upload; it is removed on leaving unless it was kept."""
    spool = store.blobs.spool()
    try:
        yield spool
    finally:
        if not spool.kept:
            await asyncio.get_running_loop().run_in_executor(threads, spool.close)


async def receive_chunks(
    parts: AsyncIterator[_Part],
    verifier: ChunkVerifier,
    spool: Spool | OpeningSpool,
    *,
    limits: Limits,
    threads: Executor,
) -> None:
    """Write the rest of an upload to a spool, durably.

    Raise `UploadError` for anything but the announced chunks in their order, a pause above
    ``idle_timeout_s``, or more than ``max_upload_s`` in all; `StoreError` if the disk is full.
    """
    end = time.monotonic() + limits.max_upload_s
    loop = asyncio.get_running_loop()
    writing: asyncio.Future[None] | None = None
    try:
        while (part := await _next(parts, limits.idle_timeout_s)) is not None:
            if time.monotonic() > end:
                raise UploadError(f"an upload took more than {limits.max_upload_s:.0f} s")
            if part.WhichOneof("part") != "chunk":
                raise UploadError("something else than a chunk after the header")
            if writing is not None:  # one chunk is written while the next one arrives
                await asyncio.shield(writing)
            writing = loop.run_in_executor(threads, _take, part.chunk, verifier, spool)
            writing.add_done_callback(note_failure)
        if writing is not None:
            await asyncio.shield(writing)
        writing = loop.run_in_executor(threads, _finish, verifier, spool)
        writing.add_done_callback(note_failure)
        await asyncio.shield(writing)
    finally:
        if writing is not None:  # the file stays open for the thread that writes it
            await asyncio.wait([writing])  # the first failure is the one that counts


def note_failure(done: asyncio.Future[Any]) -> None:
    """Take note of a failure for which nobody waits any more, since a daemon that stops has to."""
    if not done.cancelled():
        done.exception()


def read_pieces(path: Path) -> Iterator[bytes]:
    """Yield a stored file in pieces; raise `StoreError` if it cannot be read."""
    try:
        with path.open("rb") as file:
            while piece := file.read(CHUNK_BYTES):
                yield piece
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error


async def iterate_chunks(pieces: Iterator[bytes]) -> AsyncIterator[pb.Chunk]:
    """Yield pieces of any size as chunks; another thread reads the iterator."""
    offset = 0
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        for start in range(0, len(piece), CHUNK_BYTES):
            content = piece[start : start + CHUNK_BYTES]
            yield pb.Chunk(offset=offset, content=content)
            offset += len(content)


async def _next(parts: AsyncIterator[_Part], idle_timeout_s: float) -> _Part | None:
    """Next message of an upload; None at its end."""
    try:
        async with asyncio.timeout(idle_timeout_s):
            return await anext(parts, None)
    except TimeoutError as error:
        raise UploadError(f"nothing arrived for {idle_timeout_s:.0f} s") from error
    except DecodeError as error:
        raise UploadError("a message of the upload cannot be read") from error


def _take(chunk: pb.Chunk, verifier: ChunkVerifier, spool: Spool | OpeningSpool) -> None:
    spool.write(verifier.take(chunk))


def _finish(verifier: ChunkVerifier, spool: Spool | OpeningSpool) -> None:
    verifier.require_whole(spool.sha256)
    spool.sync()
