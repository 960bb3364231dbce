"""A byte relay: a link between two hosts that can be cut, healed, slowed and hurried.

It passes bytes and understands none, so TLS runs through it end to end. While it is cut, nothing
passes and nothing is closed, as with a pulled cable: who waits keeps waiting, a new connection is
neither answered nor refused. Healed, everything goes on where it was, as TCP would have it.

``relay.py --listen 127.0.0.1:7443 --to curator:7443`` runs one by itself;
SIGUSR1 makes it slow, SIGUSR2 quick again.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

SLOW_BYTES_PER_S = 2000
_PIECE = 16 << 10
_SLOW_PIECE = 200

Address = tuple[str, int]


class Proxy:
    """One link; make it and use it in a running event loop.

    Parameters
    ----------
    to
        Asked for at every new connection, because the other end may have moved.
    """

    def __init__(self, to: Callable[[], Address]) -> None:
        self._to = to
        self._passing = asyncio.Event()
        self._passing.set()
        self._slow = False
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> Address:
        """Begin; the address that is listened on."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=_PIECE)
        bound: Address = self._server.sockets[0].getsockname()[:2]
        return bound

    def cut(self) -> None:
        """From now on nothing passes."""
        self._passing.clear()

    def heal(self) -> None:
        """Undo `cut`."""
        self._passing.set()

    def slow(self, *, slow: bool = True) -> None:
        """From now on `SLOW_BYTES_PER_S` each way and connection, or as quick as can be."""
        self._slow = slow

    async def close(self) -> None:
        """End every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await asyncio.sleep(0)  # what was aborted is told so, and lets go of its socket

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise AssertionError  # a server's callback runs in a task
        self._open.add(task)
        try:
            with suppress(OSError):  # either end has gone: so does the connection
                await self._join(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()  # what has not been sent is not waited for
            raise
        finally:
            self._open.discard(task)
            writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._passing.wait()
        far_reader, far_writer = await asyncio.open_connection(*self._to(), limit=_PIECE)
        try:
            await self._pump_both(reader, writer, far_reader, far_writer)
        except asyncio.CancelledError:
            far_writer.transport.abort()
            raise
        finally:
            far_writer.close()

    async def _pump_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, far_writer))
                pumps.create_task(self._pump(far_reader, writer))
        except* OSError:
            pass  # either end has gone: so does the connection

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while content := await reader.read(_SLOW_PIECE if self._slow else _PIECE):
            await self._passing.wait()
            if self._slow:
                await asyncio.sleep(len(content) / SLOW_BYTES_PER_S)
                await self._passing.wait()
            writer.write(content)
            await writer.drain()
        await self._passing.wait()
        writer.write_eof()


async def _run(listen: Address, to: Address) -> None:
    relay = Proxy(lambda: to)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, relay.slow)
    loop.add_signal_handler(signal.SIGUSR2, lambda: relay.slow(slow=False))
    await relay.listen(*listen)
    await asyncio.Event().wait()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    """Entry point; runs until it is killed."""
    parser = argparse.ArgumentParser(description="Pass bytes from one address to another.")
    parser.add_argument("--listen", type=_address, required=True, metavar="HOST:PORT")
    parser.add_argument("--to", type=_address, required=True, metavar="HOST:PORT")
    given = parser.parse_args()
    asyncio.run(_run(given.listen, given.to))


if __name__ == "__main__":
    main()
