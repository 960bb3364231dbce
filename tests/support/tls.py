"""The other end of a TLS connection, forced to one version: Python's own ssl, not gRPC's."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc

from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.identity.tls import Credentials
from dppca.common.transport.channels import reloading_server_credentials
from tests.support.certificates import write_credentials
from tests.support.patience import WAIT_S


def shake_hands(
    address: str, credentials: Credentials, folder: Path, version: ssl.TLSVersion
) -> tuple[str, bytes]:
    """Connect with one version of TLS; return the agreed version and the server's DER."""
    host, _, port = address.rpartition(":")
    context = context_of(ssl.PROTOCOL_TLS_CLIENT, credentials, folder, version)
    with (
        socket.create_connection((host, int(port)), WAIT_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        # In TLS 1.3 a refusal of the client's certificate comes after its handshake: wait for the
        # first bytes of an HTTP/2 server.
        assert connection.recv(1)
        return str(connection.version()), connection.getpeercert(binary_form=True) or b""


@contextmanager
def listening(
    credentials: Credentials, folder: Path, version: ssl.TLSVersion
) -> Iterator[tuple[str, list[str]]]:
    """Run a server that accepts connections with one version; yield its address and outcomes.

    A client that failed looks at the address again, so there may be more of them than one.
    """
    context = context_of(ssl.PROTOCOL_TLS_SERVER, credentials, folder, version)
    ends: list[str] = []

    def take() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:  # it was shut down
                return
            try:
                with context.wrap_socket(plain, server_side=True) as connection:
                    ends.append(str(connection.version()))
            except (ssl.SSLError, OSError) as error:
                ends.append(str(getattr(error, "reason", error)))

    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(WAIT_S)
    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}", ends
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def context_of(
    protocol: int, credentials: Credentials, folder: Path, version: ssl.TLSVersion
) -> ssl.SSLContext:
    """Context for one version of TLS and HTTP/2 that requires a certificate of the other end."""
    files = CredentialFolder(write_credentials(folder, credentials))
    context = ssl.SSLContext(protocol)
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(files.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    context.minimum_version = context.maximum_version = version
    return context


@contextmanager
def answering(
    credentials: Credentials, answer: Callable[[grpc.ServicerContext], bytes]
) -> Iterator[int]:
    """Run a server of gRPC with credentials that answers every call alike; yield its port."""

    class Handler(grpc.GenericRpcHandler):
        def service(self, _: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
            return grpc.unary_unary_rpc_method_handler(lambda _, context: answer(context))

    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Handler()])
    port = server.add_secure_port("127.0.0.1:0", reloading_server_credentials(lambda: credentials))
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()
