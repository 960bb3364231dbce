"""The way through an HTTP proxy: ``CONNECT``, then TLS from end to end.

::

    site ── CONNECT curator:7443 ──▶ proxy ──▶ curator
    site ◀═══════ TLS 1.3, mutual ═══════▶ curator

The proxy learns the curator's host and port, times and sizes; it can neither read nor change the
traffic. A channel whose site names a proxy dials the proxy and nothing else: gRPC gets the
curator's address as the target to request from the proxy (`channel_options`). Its own handling of
proxies stays off, since it would read the environment: a ``no_proxy`` there that matches the
curator would make it silently bypass the proxy.

Limits: a proxy that requires a name and password gets them by HTTP Basic, in clear up to the proxy.
Digest, NTLM and Kerberos are not supported.
"""

import base64
import socket
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse

from dppca.common.kernel.errors import UnreachableError

ANSWER_S = 10.0
"""Timeout of the connection to a proxy, and of its answer."""


@dataclass(frozen=True, slots=True)
class HttpProxy:
    """A proxy that connects by ``CONNECT``.

    ``address`` is ``HOST:PORT``; ``login`` is ``NAME:PASSWORD``, or empty if the proxy requires
    none.
    """

    address: str
    login: str = field(default="", repr=False)

    @property
    def _authorization(self) -> str:
        return f"Basic {base64.b64encode(self.login.encode()).decode('ascii')}"

    def channel_options(self, target: str) -> tuple[tuple[str, str], ...]:
        """Options of a channel that dials the proxy to reach ``target``, a ``HOST:PORT``."""
        options = (("grpc.http_connect_server", target), ("grpc.default_authority", target))
        if not self.login:
            return options
        header = f"Proxy-Authorization:{self._authorization}"
        return (*options, ("grpc.http_connect_headers", header))

    def open_tunnel(self, target: str) -> socket.socket:
        """Open a connection through the proxy to a ``HOST:PORT``, before TLS.

        Raise `UnreachableError` if the proxy cannot be reached, does not answer, or refuses; the
        message says what to do.
        """
        host, _, port = self.address.rpartition(":")
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self.login:
            lines.append(f"Proxy-Authorization: {self._authorization}")
        try:
            tunnel = socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S)
        except OSError as error:
            raise UnreachableError(
                f"the proxy {self.address} cannot be reached: check proxy in site.yaml, and that "
                "this machine may connect to it"
            ) from error
        try:
            tunnel.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
            status = _read_status(tunnel)
        except TimeoutError as error:
            tunnel.close()
            raise UnreachableError(
                f"the proxy {self.address} did not answer within {ANSWER_S:.0f} s: check that it "
                "runs, and proxy in site.yaml"
            ) from error
        except (OSError, HTTPException) as error:
            tunnel.close()
            raise UnreachableError(
                f"what listens at {self.address} does not answer as an HTTP proxy: check proxy in "
                "site.yaml"
            ) from error
        if status != HTTPStatus.OK:
            tunnel.close()
            refused = UnreachableError(self._refusal(target, status))
            refused.may_pass = status in _NOT_REACHED
            raise refused
        return tunnel

    def _refusal(self, target: str, status: int) -> str:
        if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            if self.login:
                return (
                    f"the proxy {self.address} refuses the name and password of proxy_login (HTTP "
                    "Basic): correct them, or ask its administrator how this machine may pass"
                )
            return (
                f"the proxy {self.address} asks for a name and password: say in site.yaml where "
                "they are kept, as proxy_login: {env: NAME} or {file: PATH}"
            )
        if status in _NOT_REACHED:
            return (
                f"the proxy {self.address} cannot reach {target} (HTTP {status}): check curator in "
                "site.yaml, and that the curator is running"
            )
        return (
            f"the proxy {self.address} refuses to connect to {target} (HTTP {status}): ask its "
            "administrator to allow CONNECT to that host and port"
        )


_NOT_REACHED = {
    HTTPStatus.NOT_FOUND,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}


def _read_status(tunnel: socket.socket) -> int:
    """Read the proxy's answer and return its status; nothing follows until we send."""
    answer = HTTPResponse(tunnel, method="CONNECT")
    try:
        answer.begin()
        return answer.status
    finally:
        answer.close()
