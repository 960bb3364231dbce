"""One party of a round, a process: ``python -m benchmarks.performance.round_party KIND …``.

``released``, ``owner`` or ``aggregate``, with ADDRESS FOLDER STUDY NUMBER BEFORE SECRET, is an
owner that waits for components and takes them, as the owner's commands do: it sends a release that
it holds, or draws the noise of made-up moments first, by a study's kind of trust, and opens where
it has a SECRET. ``floor ADDRESS FOLDER BYTES`` moves the same bytes over one bare gRPC stream.
``server FOLDER PORT_FILE OWNERS COLUMNS COMPONENTS`` is the other end of that: it adds up the
vectors, decomposes with ``eigh``, and sends the arrays of a result. ``sink FOLDER PORT_FILE`` is a
bare server that takes streams and forgets them. Servers end when a line comes on their input.
"""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from benchmarks.performance.federation import (
    PARTY,
    ROWS,
    credentials_in,
    make_moments,
    make_release,
    make_release_id,
    make_study,
    store,
)
from dppca.common.aggregation.contribution import draw_masked
from dppca.common.aggregation.opening import answer, open_set
from dppca.common.aggregation.seals import OpenerKey
from dppca.common.aggregation.terms import Terms
from dppca.common.documents.messages import StudyState
from dppca.common.errors import UnreachableError
from dppca.common.numerics.moments.moments import unpack
from dppca.common.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.privacy.release import calibrate, draw
from dppca.common.shell.files import write_file
from dppca.common.study import Study, Trust, study_from_canonical
from dppca.common.transport.channels import CHUNK_BYTES, SERVER_OPTIONS, open_channel
from dppca.common.transport.channels import server_credentials as tls_of
from dppca.common.transport.testbed import START_TIMEOUT_S, await_address
from dppca.owner.client.calls import CuratorClient
from dppca.owner.site.agreement import own_key
from dppca.owner.site.config import load_site

THROW, ROUND = "Throw", "Round"
_THREADS = 16
_WAIT_S = 600.0
_POLL_S = 0.005


def await_go() -> None:
    """Say that this party is ready, and wait for the word."""
    print("ready", flush=True)
    if sys.stdin.readline().strip() != "go":
        raise SystemExit(1)


def owner(
    kind: str, address: str, folder: str, study_file: str, number: str, before: str, secret: str
) -> None:
    """An owner by this project's client."""
    study = study_from_canonical(Path(study_file).read_bytes())
    make_sender = _hold_release if kind == "released" else _hold_sums
    send = make_sender(study, Path(folder), int(number), int(before), Path(secret).read_bytes())
    with CuratorClient(address, credentials_in(Path(folder))) as client:
        client.require_serving()
        await_go()
        send(client)
        progress = client.wait(study, wait_s=_WAIT_S)
        signed = client.download(study, progress)
        print("done", flush=True)
    if not signed.content:
        raise SystemExit(1)


def _hold_release(
    study: Study, _folder: Path, number: int, before: int, _secret: bytes
) -> Callable[[CuratorClient], object]:
    stored, history = make_release(study, number, before=before)
    return lambda client: client.contribute(stored, history)


def _hold_sums(
    study: Study, folder: Path, number: int, before: int, secret: bytes
) -> Callable[[CuratorClient], object]:
    calibration, moments = calibrate(study), make_moments(study, number)
    site = load_site(folder)
    name, key = site.name, own_key(site)

    def send(client: CuratorClient) -> None:
        made: dict[str, Any] = {
            "release_id": make_release_id(study, number),
            "ledger_sequence": 0,
            "entropy": OperatingSystemEntropy(),
        }
        if study.trust is Trust.OWNER:
            release = draw(study, calibration, moments, **made)
            client.contribute(*store(study, release, before=before))
            return
        terms = Terms.from_study(study)
        masked = draw_masked(study, calibration, moments, terms=terms, owner=name, key=key, **made)
        client.contribute(*store(study, masked, before=before))
        if not secret:
            return
        while client.progress(study.digest).state is StudyState.OPEN:
            time.sleep(_POLL_S)
        shown = client.download_sealed(study, terms)
        sums = open_set(terms, shown, (), opener=name, secret=OpenerKey(secret), bound=None)
        opening = answer(terms, sums, terms.held(name), opener=name, key=key)
        client.open(study, terms, opening=opening)

    return send


def floor(address: str, folder: str, size: str) -> None:
    """An owner by one bare stream."""
    content = np.random.default_rng(0).bytes(int(size))
    with open_channel(address, credentials_in(Path(folder))) as channel:
        grpc.channel_ready_future(channel).result(timeout=_WAIT_S)
        call: Any = channel.stream_stream(path_of(ROUND))
        await_go()
        pieces = (content[i : i + CHUNK_BYTES] for i in range(0, len(content), CHUNK_BYTES))
        received = sum(len(piece) for piece in call(pieces, timeout=_WAIT_S))
        print("done", flush=True)
    if not received:
        raise SystemExit(1)


class _Adder:
    """Adds vectors up; when all are there, one thread decomposes and all get the result."""

    def __init__(self, owners: int, columns: int, components: int) -> None:
        self._study = make_study("floor", owners=owners, columns=columns, components=components)
        self._components = components
        self._lock = threading.Lock()
        self._arrived = 0
        self._pooled = np.zeros(self._study.table.layout.n_entries, np.uint64)
        self._ready = threading.Event()
        self._result = b""

    def add(self, pieces: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        """Handle an owner's stream."""
        vector = np.frombuffer(b"".join(pieces), "<u8")
        with self._lock:
            self._pooled += vector
            self._arrived += 1
            last = self._arrived == len(self._study.owners)
        if last:
            self._result = self._decomposed()
            self._ready.set()
        self._ready.wait(_WAIT_S)
        for start in range(0, len(self._result), CHUNK_BYTES):
            yield self._result[start : start + CHUNK_BYTES]

    def _decomposed(self) -> bytes:
        layout = self._study.table.layout
        pooled = self._pooled.view(np.int64)
        mean, second = unpack(pooled, ROWS * len(self._study.owners), layout)
        assert mean is not None
        values, columns = np.linalg.eigh(second - np.outer(mean, mean))
        buffer = io.BytesIO()
        leading = columns.T[::-1][: self._components]
        np.savez(buffer, pooled=pooled, mean=mean, eigenvalues=values[::-1], vectors=leading)
        return buffer.getvalue()


def server(folder: str, port_file: str, owners: str, columns: str, components: str) -> None:
    """The floor's other end, for one round."""
    adder = _Adder(int(owners), int(columns), int(components))
    handler: Any = grpc.stream_stream_rpc_method_handler(adder.add)
    _serve(folder, port_file, ROUND, handler, threads=int(owners) + 1)


def sink(folder: str, port_file: str) -> None:
    """A server that forgets what it takes."""
    handler: Any = grpc.stream_unary_rpc_method_handler(
        lambda pieces, _: str(sum(map(len, pieces))).encode()
    )
    _serve(folder, port_file, THROW, handler, threads=_THREADS)


def path_of(method: str) -> str:
    """What a client calls."""
    return f"/floor.Floor/{method}"


def _serve(folder: str, port_file: str, method: str, handler: Any, *, threads: int) -> None:
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
def started(kind: str, folder: Path, port_file: Path, *others: object) -> Iterator[str]:
    """Run a server of this module, which announces its address in a file, and end it."""
    command = [sys.executable, "-m", PARTY, *map(str, (kind, folder, port_file, *others))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        address = await_address(port_file, process)
        if address is None:
            raise UnreachableError("the bare server did not start")
        yield address
    finally:
        process.communicate(b"\n", timeout=START_TIMEOUT_S)


if __name__ == "__main__":
    _, _kind, *_given = sys.argv
    if _kind == "server":
        server(*_given)
    elif _kind == "sink":
        sink(*_given)
    elif _kind == "floor":
        floor(*_given)
    else:
        owner(_kind, *_given)
