"""A bare gRPC server that takes streams and forgets them: a process of its own.

``python -m benchmarks.performance.bare FOLDER PORT_FILE``, until a line comes on its input.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc

from benchmarks.performance.hub import START_S, credentials_in
from common.errors import UnreachableError
from common.transport.channels import SERVER_OPTIONS
from common.transport.channels import server_credentials as tls_of

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
    draft = Path(f"{port_file}.draft")
    draft.write_text(f"localhost:{port}")
    draft.replace(port_file)
    sys.stdin.readline()
    made.stop(0).wait()


@contextmanager
def started(command: list[str], port_file: Path) -> Iterator[str]:
    """Run a server that announces its address in a file; end it by a line on its input."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        end = time.monotonic() + START_S
        while not port_file.exists():
            if process.poll() is not None or time.monotonic() > end:
                message = "the bare server did not start"
                raise UnreachableError(message)
            time.sleep(0.02)
        yield port_file.read_text()
    finally:
        process.communicate(b"\n", timeout=START_S)


if __name__ == "__main__":
    serve(*sys.argv[1:])
