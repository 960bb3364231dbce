"""Small HTTP listener for monitoring: metrics and probes, nothing else.

::

    GET /metrics   the series of `dppca.curator.observability.metrics`
    GET /ready     200 while owners can connect and are served, 503 with the reason while not
    GET /live      200 while the daemon's event loop turns, 503 if it hangs

It uses no TLS and identifies no caller, so it listens on loopback by default; its answers name no
party (`dppca.curator.observability.metrics`). It runs in its own threads, so it still answers when
the daemon is busy or its disk hangs. Connections beyond `MAX_CONNECTIONS` are closed.
"""

import logging
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from dppca.common.kernel.errors import SettingError
from dppca.curator.observability.log import log_event

MAX_CONNECTIONS = 16  # of watchers
_TIMEOUT_S = 10.0  # for a request to come and its answer to go


class MetricsServer:
    """HTTP server for metrics and probes, from `start` to `close`.

    Other threads call ``unready``, which says why owners cannot use the daemon or is empty, and
    ``live``; port 0 takes any free port. Raise `SettingError` if
    the address cannot be listened on.
    """

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        *,
        unready: Callable[[], str],
        live: Callable[[], bool],
    ) -> None:
        def metrics(accept: str) -> tuple[HTTPStatus, str, bytes]:
            encode, content_type = choose_encoder(accept)
            return HTTPStatus.OK, content_type, encode(registry)

        def probe(fault: Callable[[], str]) -> Callable[[str], tuple[HTTPStatus, str, bytes]]:
            def answer(_: str) -> tuple[HTTPStatus, str, bytes]:
                found = fault()
                status = HTTPStatus.SERVICE_UNAVAILABLE if found else HTTPStatus.OK
                content = f"no: {found}\n" if found else "yes\n"
                return status, "text/plain; charset=utf-8", content.encode()

            return answer

        def hung() -> str:
            return "" if live() else "the event loop hangs"

        pages = {"/metrics": metrics, "/ready": probe(unready), "/live": probe(hung)}
        try:
            self._server = _HttpServer(host, port, pages)
        except OSError as error:
            raise SettingError(
                f"cannot listen on {host}:{port} for metrics: choose another --metrics-port"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics")
        self._thread.daemon = True
        self.port: int = self._server.server_address[1]

    def start(self) -> None:
        """Start to serve."""
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = MAX_CONNECTIONS

    def __init__(
        self,
        host: str,
        port: int,
        pages: dict[str, Callable[[str], tuple[HTTPStatus, str, bytes]]],
    ) -> None:
        bare = host.removeprefix("[").removesuffix("]")
        self.address_family = socket.AF_INET6 if ":" in bare else socket.AF_INET
        self.pages = pages
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__((bare, port), _Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # the base would ask the DNS for our own name

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        kind = type(sys.exception()).__name__
        log_event("metrics not answered", level=logging.WARNING, limit=kind, error=kind)


class _Handler(BaseHTTPRequestHandler):
    server: _HttpServer
    timeout = _TIMEOUT_S
    server_version = "dppca"
    sys_version = ""

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        status, content_type, content = page(self.headers.get("Accept", ""))
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Log nothing: a scrape every few seconds is no event."""
