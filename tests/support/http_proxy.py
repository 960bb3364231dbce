"""An HTTP proxy that supports only CONNECT, and keeps every byte that passes it."""

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_PIECE = 16 << 10


@dataclass
class ConnectProxy:
    """A proxy on loopback that records the targets ``asked`` for and all bytes within tunnels.

    ``login`` is a required ``NAME:PASSWORD``, empty for none; ``refusal`` is the status line of a
    refusal, empty to connect; ``silent`` answers nothing at all; a tunnel is cut after
    ``cut_after`` bytes of the client, None for never.
    """

    login: str = ""
    refusal: str = ""
    silent: bool = False
    cut_after: int | None = None
    asked: list[str] = field(default_factory=list)
    passed: bytearray = field(default_factory=bytearray)
    address: str = ""
    _sockets: list[socket.socket] = field(default_factory=list)

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            threading.Thread(target=self._answer, args=[client], daemon=True).start()

    def close(self) -> None:
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _answer(self, client: socket.socket) -> None:
        with suppress(OSError):
            head = bytearray()
            while b"\r\n\r\n" not in head:
                piece = client.recv(1)
                if not piece:
                    client.close()
                    return
                head += piece
            verb, target, *_ = head.decode("ascii").split()
            self.asked.append(target)
            refusal = self.refusal
            if self.login:
                wanted = base64.b64encode(self.login.encode()).decode()
                if f"basic {wanted}".lower() not in head.decode("ascii").lower():
                    refusal = "407 Proxy Authentication Required"
            if verb != "CONNECT":
                refusal = "405 Method Not Allowed"
            if self.silent:
                return
            if refusal:
                client.sendall(f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n".encode())
                client.close()
                return
            host, _, port = target.rpartition(":")
            far = socket.create_connection((host.strip("[]"), int(port)))
            self._sockets.append(far)
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            threading.Thread(target=self._pump, args=[far, client, None], daemon=True).start()
            self._pump(client, far, self.cut_after)

    def _pump(self, source: socket.socket, to: socket.socket, cut_after: int | None) -> None:
        passed = 0
        with suppress(OSError):
            while content := source.recv(_PIECE):
                passed += len(content)
                self.passed += content
                if cut_after is not None and passed > cut_after:
                    break
                to.sendall(content)
        for each in (source, to):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def connect_proxy(**settings: object) -> Iterator[ConnectProxy]:
    """Run a proxy while the block runs."""
    proxy = ConnectProxy(**settings)  # type: ignore[arg-type] # its fields
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy.address = f"127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=proxy.serve, args=[listener], daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            proxy.close()
