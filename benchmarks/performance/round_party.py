"""One owner of the round, a process: ``python -m benchmarks.performance.round_party KIND …``.

``ours ADDRESS FOLDER STUDY NUMBER BEFORE`` sends a release, waits for components, takes them,
as `dppca-owner contribute` and `components` do. ``floor ADDRESS FOLDER BYTES`` moves the same bytes
over one bare gRPC stream. ``server FOLDER PORT_FILE OWNERS COLUMNS COMPONENTS`` is the other
end of that: it adds up the vectors, decomposes with ``eigh``, and sends the arrays of a result.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from benchmarks.performance.federation import ROWS, credentials_in, make_release, make_study
from dppca.common.files import write_file
from dppca.common.numerics.moments.moments import unpack
from dppca.common.study_document import study_from_canonical
from dppca.common.transport.channels import CHUNK_BYTES, SERVER_OPTIONS, open_channel
from dppca.common.transport.channels import server_credentials as tls_of
from dppca.owner.client.calls import CuratorClient

METHOD = "/floor.Floor/Round"
_WAIT_S = 600.0


def await_go() -> None:
    """Say that this party is ready, and wait for the word."""
    print("ready", flush=True)
    if sys.stdin.readline().strip() != "go":
        raise SystemExit(1)


def ours(address: str, folder: str, study_file: str, number: str, before: str) -> None:
    """An owner by this project's client."""
    study = study_from_canonical(Path(study_file).read_bytes())
    stored, history = make_release(study, int(number), before=int(before))
    with CuratorClient(address, credentials_in(Path(folder))) as client:
        client.require_serving()
        await_go()
        client.contribute(stored, history)
        progress = client.wait(study, wait_s=_WAIT_S)
        content = client.download(study, progress)
        print("done", flush=True)
    if not content:
        raise SystemExit(1)


def floor(address: str, folder: str, size: str) -> None:
    """An owner by one bare stream."""
    content = np.random.default_rng(0).bytes(int(size))
    with open_channel(address, credentials_in(Path(folder))) as channel:
        grpc.channel_ready_future(channel).result(timeout=_WAIT_S)
        call: Any = channel.stream_stream(METHOD)
        await_go()
        pieces = (content[i : i + CHUNK_BYTES] for i in range(0, len(content), CHUNK_BYTES))
        received = sum(len(piece) for piece in call(pieces, timeout=_WAIT_S))
        print("done", flush=True)
    if not received:
        raise SystemExit(1)


class _Floor(grpc.GenericRpcHandler):
    """Adds vectors up; when all are there, one thread decomposes and all get the result."""

    def __init__(self, owners: int, columns: int, components: int) -> None:
        self._study = make_study("floor", owners=owners, columns=columns, components=components)
        self._components = components
        self._lock = threading.Lock()
        self._open()

    def _open(self) -> None:
        self._arrived = 0
        self._pooled = np.zeros(self._study.table.layout.n_entries, np.uint64)
        self._ready = threading.Event()
        self._result = b""

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        if handler_call_details.method != METHOD:
            return None
        return grpc.stream_stream_rpc_method_handler(self._round)

    def _round(self, pieces: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        vector = np.frombuffer(b"".join(pieces), "<u8")
        with self._lock:
            self._pooled += vector
            self._arrived += 1
            last = self._arrived == len(self._study.owners)
            ready = self._ready
        if last:
            self._result = self._decomposed()
            ready.set()
        ready.wait(_WAIT_S)
        result = self._result
        for start in range(0, len(result), CHUNK_BYTES):
            yield result[start : start + CHUNK_BYTES]

    def _decomposed(self) -> bytes:
        layout = self._study.table.layout
        pooled = self._pooled.view(np.int64)
        mean, second = unpack(pooled, ROWS * len(self._study.owners), layout)
        if mean is None:
            raise AssertionError  # this schema has sums
        values, columns = np.linalg.eigh(second - np.outer(mean, mean))
        buffer = io.BytesIO()
        np.savez(
            buffer,
            pooled=pooled,
            mean=mean,
            eigenvalues=values[::-1],
            vectors=columns.T[::-1][: self._components],
        )
        return buffer.getvalue()


def server(folder: str, port_file: str, owners: str, columns: str, components: str) -> None:
    """The floor's other end, for one round."""
    handler = _Floor(int(owners), int(columns), int(components))
    made = grpc.server(ThreadPoolExecutor(int(owners) + 1), options=SERVER_OPTIONS)
    made.add_generic_rpc_handlers((handler,))
    port = made.add_secure_port("localhost:0", tls_of(credentials_in(Path(folder))))
    made.start()
    write_file(Path(port_file), f"localhost:{port}".encode(), durable=False)
    sys.stdin.readline()  # until told to end
    made.stop(0).wait()


if __name__ == "__main__":
    _KINDS: dict[str, Callable[..., None]] = {"ours": ours, "floor": floor, "server": server}
    _KINDS[sys.argv[1]](*sys.argv[2:])
