"""A bare gRPC server that takes streams and forgets them: a process of its own.

``python -m benchmarks.performance.bare FOLDER PORT_FILE``, until a line comes on its input.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc

from benchmarks.performance.federation import credentials_in
from dppca.common.errors import UnreachableError
from dppca.common.files import write_file
from dppca.common.testbed import START_TIMEOUT_S, await_address
from dppca.common.transport.channels import SERVER_OPTIONS
from dppca.common.transport.channels import server_credentials as tls_of

METHOD = "/floor.Floor/Throw"
_THREADS = 16


class _Bare(grpc.GenericRpcHandler):
    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        if handler_call_details.method != METHOD:
            return None
        return grpc.stream_unary_rpc_method_handler(_throw)


def _throw(pieces: Iterator[bytes], _: grpc.ServicerContext) -> bytes:
    return str(sum(len(piece) for piece in pieces)).encode()


def serve(folder: str, port_file: str) -> None:
    """Serve with the certificate in ``folder``; the address goes to ``port_file``."""
    made = grpc.server(ThreadPoolExecutor(_THREADS), options=SERVER_OPTIONS)
    made.add_generic_rpc_handlers((_Bare(),))
    port = made.add_secure_port("localhost:0", tls_of(credentials_in(Path(folder))))
    made.start()
    write_file(Path(port_file), f"localhost:{port}".encode(), durable=False)
    sys.stdin.readline()
    made.stop(0).wait()


@contextmanager
def started(command: list[str], port_file: Path) -> Iterator[str]:
    """Run a server that announces its address in a file; end it by a line on its input."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        address = await_address(port_file, process)
        if address is None:
            raise UnreachableError("the bare server did not start")
        yield address
    finally:
        process.communicate(b"\n", timeout=START_TIMEOUT_S)


if __name__ == "__main__":
    serve(*sys.argv[1:])
