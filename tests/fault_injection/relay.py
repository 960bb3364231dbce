"""A link between an owner and its curator that can be cut and slowed.

It passes bytes without parsing them, so TLS runs through it end to end. While it is cut, nothing
passes and nothing is closed, like a pulled cable: a new connection is neither answered nor refused.
Afterwards all connections continue, like with TCP.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress

SLOW_BYTES_PER_S = 2000
_PIECE, _SLOW_PIECE = 16 << 10, 200
_LOOK_EVERY_S = 0.02


class Relay:
    """Listens at ``address`` until it is closed; ``is_cut`` and ``is_slow`` may change any time.

    After `forget`, nothing passes on the connections of before, and they are not closed, like in a
    firewall that was restarted.

    ``to`` returns the address of the other end for every connection, because a restarted curator
    has another one.
    """

    def __init__(self, to: Callable[[], str]) -> None:
        self.is_cut = self.is_slow = False
        self._forgotten, self.taken = 0, 0
        self._to = to
        self._loop = asyncio.new_event_loop()
        self._listener = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_PIECE)
        )
        self.address = f"127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def forget(self) -> None:
        self._forgotten = self.taken

    def close(self) -> None:
        if self._loop.is_closed():
            return
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
        await asyncio.sleep(_LOOK_EVERY_S)  # a transport closes its socket in a later round

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        number = self.taken
        with ExitStack() as stack:
            stack.callback(writer.close)
            stack.enter_context(suppress(OSError, asyncio.CancelledError))
            await self._until_whole(number)
            host, _, port = self._to().rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port), limit=_PIECE)
            stack.callback(far_writer.close)
            ways = (self._pump(reader, far_writer, number), self._pump(far_reader, writer, number))
            # HTTP/2 has no half-open connections: when one end has gone, so has the other.
            await asyncio.wait(
                [asyncio.ensure_future(way) for way in ways], return_when="FIRST_COMPLETED"
            )

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        with suppress(OSError):  # an end has gone
            while content := await reader.read(_SLOW_PIECE if self.is_slow else _PIECE):
                if self.is_slow:
                    await asyncio.sleep(len(content) / SLOW_BYTES_PER_S)
                await self._until_whole(number)
                writer.write(content)
                await writer.drain()
        await self._until_whole(number)

    async def _until_whole(self, number: int) -> None:
        while self.is_cut or number <= self._forgotten:
            await asyncio.sleep(_LOOK_EVERY_S)
