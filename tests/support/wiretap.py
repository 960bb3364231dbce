"""A relay between an owner and its curator that sees every byte in the clear.

Both ends speak TLS 1.3 with it: to the owner it is the curator (a certificate of the same authority
for localhost), to the curator it is the owner, whose key the test has. The bytes are recorded
unchanged, and again without the heads of the HTTP/2 frames, so that no text is cut in two.

Source: RFC 9113, 4.1 (frames).
"""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dppca.common.kernel.identity.tls import Credentials, Role
from tests.support.curator import Curator
from tests.support.sites import OwnerSite, make_site
from tests.support.tls import context_of

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEAD = 0, 9


class Wiretap:
    """Listens until it is closed; ``sent`` and ``received`` are the owner's, per connection.

    One thread runs an event loop for all connections: a TLS connection must not be read by one
    thread while another writes to it.
    """

    def __init__(
        self, target: str, *, curator: Credentials, owner: Credentials, folder: Path
    ) -> None:
        self._target = target
        version = ssl.TLSVersion.TLSv1_3
        self._server = context_of(ssl.PROTOCOL_TLS_SERVER, curator, folder / "curator", version)
        self._client = context_of(ssl.PROTOCOL_TLS_CLIENT, owner, folder / "owner", version)
        self.sent: list[bytearray] = []
        self.received: list[bytearray] = []
        self._loop = asyncio.new_event_loop()
        self._listener = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._server)
        )
        self.address = f"127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._listener.close()
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await self._listener.wait_closed()
        # A transport closes its socket in the round of the loop that follows.
        await asyncio.sleep(0.01)

    @property
    def seen(self) -> bytes:
        """All bytes, both ways, unchanged and as the contents of frames."""
        streams = [bytes(each) for each in (*self.sent, *self.received)]
        return b"\n".join((*streams, *(b"".join(contents(each)) for each in streams)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        with contextlib.ExitStack() as stack:
            stack.callback(writer.transport.abort)
            stack.enter_context(contextlib.suppress(OSError, asyncio.CancelledError))
            far_reader, far_writer = await asyncio.open_connection(
                host, int(port), ssl=self._client, server_hostname="localhost"
            )
            stack.callback(far_writer.transport.abort)
            sent, received = bytearray(), bytearray()
            self.sent.append(sent)
            self.received.append(received)
            ways = (_pump(reader, far_writer, sent), _pump(far_reader, writer, received))
            # HTTP/2 has no half-open connections: when one end has gone, so has the other.
            await asyncio.wait(
                [asyncio.ensure_future(way) for way in ways], return_when="FIRST_COMPLETED"
            )


def contents(stream: bytes) -> Iterator[bytes]:
    """Yield the contents of DATA frames, in order."""
    at = len(_PREFACE) if stream.startswith(_PREFACE) else 0
    while at + _HEAD <= len(stream):
        size, kind = int.from_bytes(stream[at : at + 3]), stream[at + 3]
        if kind == _DATA:
            yield stream[at + _HEAD : at + _HEAD + size]
        at += _HEAD + size


@contextmanager
def tapped_site(
    curator: Curator, folder: Path, *, name: str, **how: Any
) -> Iterator[tuple[OwnerSite, Wiretap]]:
    """A site whose curator is a relay, while the block runs."""
    owner, hub = (
        curator.authority.issue(Role.OWNER, name),
        curator.authority.issue(Role.CURATOR, "hub"),
    )
    tap = Wiretap(curator.address, curator=hub, owner=owner, folder=folder / "tap")
    try:
        yield (
            make_site(folder / name, name=name, curator=tap.address, credentials=owner, **how),
            tap,
        )
    finally:
        tap.close()


async def _pump(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, record: bytearray
) -> None:
    """Copy bytes until one side has gone."""
    with contextlib.suppress(OSError):
        while content := await source.read(1 << 16):
            record += content
            target.write(content)
            await target.drain()
