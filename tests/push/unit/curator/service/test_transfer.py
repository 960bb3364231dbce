"""Uploads are written behind their arrival: in order, durably, a few chunks at a time."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.errors import StoreError, UploadError
from dppca.common.transport.channels import CHUNK_BYTES
from dppca.common.transport.codec import ChunkVerifier
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.config import Limits
from dppca.curator.service.transfer import open_spool, read_pieces, receive_chunks
from dppca.curator.store import Spool, SqliteStore
from dppca.curator.store.blobs import Blobs
from tests.support.examples import examples
from tests.support.patience import WAIT_S

Part = pb.ContributeRequest
USUAL = Limits()


class Slow(Spool):
    """A file whose disk hangs, or is full, when a test says so."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.entered, self.passes = threading.Event(), threading.Event()
        self.passes.set()
        self.full = False

    def write(self, content: bytes) -> None:
        self.entered.set()
        assert self.passes.wait(WAIT_S)
        if self.full:
            raise StoreError("the disk is full")
        super().write(content)


def parts_of(content: bytes, size: int) -> list[Part]:
    return [
        Part(chunk=pb.Chunk(offset=at, content=content[at : at + size]))
        for at in range(0, len(content), size)
    ]


def order_of(content: bytes) -> ChunkVerifier:
    return ChunkVerifier(
        total_bytes=len(content), sha256=hashlib.sha256(content).digest(), cap=len(content)
    )


class Sent:
    """Parts of an upload that counts how many were asked for."""

    def __init__(self, parts: list[Part], *, pauses: AbstractSet[int] = frozenset()) -> None:
        self._parts, self._pauses = parts, pauses
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[Part]:
        for number, part in enumerate(self._parts):
            self.taken += 1
            if number in self._pauses:
                await asyncio.sleep(0.001)
            yield part


def take(
    sent: AsyncIterable[Part], order: ChunkVerifier, spool: Spool, *, limits: Limits = USUAL
) -> None:
    async def steps() -> None:
        with ThreadPoolExecutor(1) as threads:
            async with asyncio.timeout(WAIT_S):
                await receive_chunks(aiter(sent), order, spool, limits=limits, threads=threads)

    asyncio.run(steps())


@settings(max_examples=examples(40))
@given(st.binary(min_size=1, max_size=60), st.integers(1, 20), st.sets(st.integers(0, 60)))
def test_what_arrives_is_what_is_written(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, size: int, pauses: set[int]
) -> None:
    """Whatever comes fast or slowly."""
    with Spool(tmp_path_factory.mktemp("in")) as spool:
        sent = Sent(parts_of(content, size), pauses=pauses)
        take(sent, order_of(content), spool)
        assert spool.path.read_bytes() == content
        assert spool.sha256 == hashlib.sha256(content).digest()
        with pytest.raises(AssertionError):
            spool.write(b"more")  # it was made durable, and ended


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: [], "ends after 0"),
        (lambda parts: [*parts[:2], Part(), *parts[2:]], "something else"),
        (lambda parts: [Part(chunk=pb.Chunk(content=b"X")), *parts[1:]], "digest"),
    ],
)
def test_an_upload_that_is_not_what_was_announced_is_refused(
    tmp_path: Path, change: Callable[[list[Part]], list[Part]], message: str
) -> None:
    content = b"abcdefgh"
    with Spool(tmp_path) as spool, pytest.raises(UploadError, match=message):
        take(Sent(change(parts_of(content, 1))), order_of(content), spool)
    assert list(tmp_path.iterdir()) == []


class Endless:
    """An upload whose next part never comes."""

    async def __aiter__(self) -> AsyncIterator[Part]:
        yield parts_of(b"0123456789", 1)[0]
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("sent", "limits", "message"),
    [
        (Endless(), Limits(idle_timeout_s=0.01), "nothing arrived"),
        (Sent(parts_of(b"0123456789", 1)), Limits(max_upload_s=-1.0), "took more than"),
    ],
    ids=["a pause", "in all"],
)
def test_an_upload_holds_its_place_for_a_limited_time(
    tmp_path: Path, sent: AsyncIterable[Part], limits: Limits, message: str
) -> None:
    with Spool(tmp_path) as spool, pytest.raises(UploadError, match=message):
        take(sent, order_of(b"0123456789"), spool, limits=limits)


def test_a_stored_file_is_read_in_pieces_of_one_chunk(tmp_path: Path) -> None:
    content = bytes(range(256)) * (2 * CHUNK_BYTES // 256) + b"end"
    (tmp_path / "result").write_bytes(content)
    pieces = list(read_pieces(tmp_path / "result"))
    assert max(map(len, pieces)) == CHUNK_BYTES
    assert b"".join(pieces) == content


def test_while_a_disk_hangs_few_chunks_are_asked_for(tmp_path: Path) -> None:
    content = bytes(range(50))
    sent = Sent(parts_of(content, 1))

    async def steps() -> None:
        with ThreadPoolExecutor(1) as threads, Slow(tmp_path) as spool:
            spool.passes.clear()
            order = order_of(content)
            coming = receive_chunks(aiter(sent), order, spool, limits=Limits(), threads=threads)
            running = asyncio.ensure_future(coming)
            await asyncio.to_thread(spool.entered.wait, WAIT_S)
            for _ in range(100):  # all that can go on does
                await asyncio.sleep(0)
            assert sent.taken == 2  # one is written, one has just come
            spool.passes.set()
            await running
            assert spool.path.read_bytes() == content

    asyncio.run(steps())


def test_a_full_disk_ends_an_upload(tmp_path: Path) -> None:
    content = bytes(range(50))
    with Slow(tmp_path) as spool:
        spool.full = True
        with pytest.raises(StoreError):
            take(Sent(parts_of(content, 1)), order_of(content), spool)


def test_no_file_is_removed_under_the_thread_that_writes_it(tmp_path: Path) -> None:
    """A caller that goes while a chunk is written: its file is there until that has ended."""
    made: list[Slow] = []

    class Slowly(Blobs):
        def spool(self) -> Spool:
            made.append(Slow(tmp_path / "incoming"))
            return made[-1]

    async def steps() -> None:
        store = SqliteStore(tmp_path)
        store.blobs = Slowly(tmp_path)
        content = bytes(range(50))
        begun = asyncio.Event()

        async def upload() -> None:
            with ThreadPoolExecutor(2) as threads:
                async with open_spool(store, threads) as spool:
                    made[0].passes.clear()
                    begun.set()
                    sent = aiter(Sent(parts_of(content, 1)))
                    await receive_chunks(
                        sent, order_of(content), spool, limits=Limits(), threads=threads
                    )

        running = asyncio.ensure_future(upload())
        await begun.wait()
        await asyncio.to_thread(made[0].entered.wait, WAIT_S)
        running.cancel()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not running.done()
        made[0].passes.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert list((tmp_path / "incoming").iterdir()) == []
        store.close()

    asyncio.run(steps())
