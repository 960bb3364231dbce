"""Bare gRPC servers, each a process of its own, and one that takes streams and forgets them.

``python -m benchmarks.performance.bare FOLDER PORT_FILE``, until a line comes on its input.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from benchmarks.performance.federation import credentials_in
from dppca.common.errors import UnreachableError
from dppca.common.shell.files import write_file
from dppca.common.transport.channels import SERVER_OPTIONS
from dppca.common.transport.channels import server_credentials as tls_of
from dppca.common.transport.testbed import START_TIMEOUT_S, await_address

THROW, ROUND = "Throw", "Round"
_THREADS = 16


def path_of(method: str) -> str:
    """What a client calls."""
    return f"/floor.Floor/{method}"


def serve(folder: str, port_file: str, method: str, handler: Any, *, threads: int) -> None:
    """Serve with the certificate in ``folder``; the address goes to ``port_file``."""
    made = grpc.server(ThreadPoolExecutor(threads), options=SERVER_OPTIONS)
    handlers = grpc.method_handlers_generic_handler("floor.Floor", {method: handler})
    made.add_generic_rpc_handlers((handlers,))
    port = made.add_secure_port("localhost:0", tls_of(credentials_in(Path(folder))))
    made.start()
    write_file(Path(port_file), f"localhost:{port}".encode(), durable=False)
    sys.stdin.readline()
    made.stop(0).wait()


@contextmanager
def started(module: str, *arguments: object, port_file: Path) -> Iterator[str]:
    """Run a server that announces its address in a file; end it by a line on its input."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        address = await_address(port_file, process)
        if address is None:
            raise UnreachableError("the bare server did not start")
        yield address
    finally:
        process.communicate(b"\n", timeout=START_TIMEOUT_S)


def _throw(pieces: Iterator[bytes], _: grpc.ServicerContext) -> bytes:
    return str(sum(len(piece) for piece in pieces)).encode()


if __name__ == "__main__":
    _folder, _port_file = sys.argv[1:]
    serve(
        _folder, _port_file, THROW, grpc.stream_unary_rpc_method_handler(_throw), threads=_THREADS
    )
