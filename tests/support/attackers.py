"""Hostile clients: plain sockets, and TLS with HTTP/2 by hand."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from dppca.common.kernel.identity.tls import Credentials
from tests.support.patience import WAIT_S, wait_until
from tests.support.tls import context_of

SLOW_HELLO = b"\x16\x03\x01\x40\x00"
"""The beginning of a handshake whose rest never comes."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS, _PING, _ACK, _HEADER = 4, 6, 1, 9
_PAUSE_S = 0.02


def silent(address: str, *, source: str = "127.0.0.1", first: bytes = b"") -> socket.socket:
    """Open TCP from one of our addresses; send only ``first``."""
    host, _, port = address.rpartition(":")
    plain = socket.create_connection((host, int(port)), WAIT_S, source_address=(source, 0))
    try:
        plain.sendall(first)
    except OSError:
        plain.close()
        raise
    return plain


class _Closing(ssl.SSLSocket):
    """Closed with its last use; Python leaves one open whose peer was gone before TLS began."""

    def __del__(self) -> None:
        self.close()


class Enrolled:
    """Opens connections with a certificate that get as far as HTTP/2, and make no call."""

    def __init__(self, credentials: Credentials, folder: Path) -> None:
        self._context = context_of(
            ssl.PROTOCOL_TLS_CLIENT, credentials, folder, ssl.TLSVersion.TLSv1_3
        )
        self._context.sslsocket_class = _Closing

    def __call__(self, address: str, *, source: str = "127.0.0.1") -> socket.socket:
        open_now = silent(address, source=source)
        try:
            # From here on the plain socket is an empty shell: the wrapping one is open.
            open_now = self._context.wrap_socket(open_now, server_hostname="localhost")
            open_now.sendall(_PREFACE + _frame(_SETTINGS, 0))
        except OSError:
            open_now.close()
            raise
        return open_now


class Crowd:
    """Holds ``size`` connections, answers settings and pings, and opens at most ``most`` in all."""

    def __init__(self, opened: Callable[[], socket.socket], *, size: int, most: int) -> None:
        self._opened = opened
        self._size = size
        self._left = most
        self._held: dict[socket.socket, bytes] = {}
        self._stop = threading.Event()
        self._full = threading.Event()
        self.opened = self.ended = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Return once all were open at once, or as many as the other side allows."""
        self._thread.start()
        assert self._full.wait(WAIT_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        for connection in self._held:
            connection.close()

    @property
    def held(self) -> int:
        return len(self._held)

    def wait_until_closed(self, n: int) -> None:
        wait_until(lambda: self.ended >= n, said=lambda: (self.ended, self.held))

    def _run(self) -> None:
        while not self._stop.is_set():
            fresh = self._size - len(self._held)
            for _ in range(min(fresh, self._left)):
                if self._stop.is_set():
                    return
                self._left -= 1
                with suppress(OSError):
                    connection = self._opened()
                    connection.settimeout(0)
                    self._held[connection] = b""
                    self.opened += 1
            self._full.set()
            for connection in list(self._held):
                self._answer(connection)
            time.sleep(_PAUSE_S)

    def _answer(self, connection: socket.socket) -> None:
        try:
            more = connection.recv(4096)
            rest = self._held[connection] + more
            while len(rest) >= _HEADER and len(rest) >= _HEADER + int.from_bytes(rest[:3]):
                size, kind, flags = int.from_bytes(rest[:3]), rest[3], rest[4]
                body, rest = rest[_HEADER : _HEADER + size], rest[_HEADER + size :]
                if kind in {_SETTINGS, _PING} and not flags & _ACK:
                    connection.sendall(_frame(kind, _ACK, body if kind == _PING else b""))
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError:
            more = b""
        if more:
            self._held[connection] = rest
            return
        del self._held[connection]
        connection.close()
        self.ended += 1


def _frame(kind: int, flags: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + bytes(4) + body
