"""One party of a round, a process: ``python -m benchmarks.performance.round_party KIND …``.

``owner ADDRESS FOLDER STUDY NUMBER BEFORE SECRET`` is an owner that waits for components and takes
them, as the owner's commands do: it draws the noise of made-up moments, by the study's kind of
trust, and opens where it has a SECRET. ``sink FOLDER PORT_FILE`` is a bare server that takes
streams and forgets them, until a line comes on its input.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from benchmarks.performance.federation import (
    PARTY,
    credentials_in,
    make_moments,
    make_release_id,
    store,
)
from dppca.common.kernel.aggregation.contribution import draw_masked
from dppca.common.kernel.aggregation.opening import answer, open_set
from dppca.common.kernel.aggregation.seals import OpenerKey
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.durable.files import write_file
from dppca.common.kernel.errors import UnreachableError
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.privacy.release import calibrate, draw
from dppca.common.kernel.study import Study, Trust, study_from_canonical
from dppca.common.transport.channels import SERVER_OPTIONS, reloading_server_credentials
from dppca.common.transport.testbed import START_TIMEOUT_S, await_address
from dppca.owner.client.calls import CuratorClient, countdown
from dppca.owner.site.agreement import own_key
from dppca.owner.site.config import load_site

THROW = "Throw"
_THREADS = 16
_WAIT_S = 600.0
_POLL_S = 0.005


def await_go() -> None:
    """Say that this party is ready, and wait for the word."""
    print("ready", flush=True)
    if sys.stdin.readline().strip() != "go":
        raise SystemExit(1)


def owner(
    address: str, folder: str, study_file: str, number: str, before: str, secret: str
) -> None:
    """An owner by this project's client."""
    study = study_from_canonical(Path(study_file).read_bytes())
    send = _hold_sums(study, Path(folder), int(number), int(before), Path(secret).read_bytes())
    with CuratorClient(address, credentials_in(Path(folder))) as client:
        client.require_serving()
        await_go()
        send(client)
        progress = client.wait(study, left=countdown(_WAIT_S))
        signed = client.download(study, progress)
        print("done", flush=True)
    if not signed.content:
        raise SystemExit(1)


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


def sink(folder: str, port_file: str) -> None:
    """A server that forgets what it takes; its address goes to ``port_file``."""
    handler: Any = grpc.stream_unary_rpc_method_handler(
        lambda pieces, _: str(sum(map(len, pieces))).encode()
    )
    made = grpc.server(ThreadPoolExecutor(_THREADS), options=SERVER_OPTIONS)
    handlers = grpc.method_handlers_generic_handler("floor.Floor", {THROW: handler})
    made.add_generic_rpc_handlers((handlers,))
    credentials = credentials_in(Path(folder))
    port = made.add_secure_port("localhost:0", reloading_server_credentials(lambda: credentials))
    made.start()
    write_file(Path(port_file), f"localhost:{port}".encode(), durable=False)
    sys.stdin.readline()
    made.stop(0).wait()


def path_of(method: str) -> str:
    """What a client calls."""
    return f"/floor.Floor/{method}"


@contextmanager
def started_sink(folder: Path, port_file: Path) -> Iterator[str]:
    """Run a sink, which announces its address in a file, and end it."""
    command = [sys.executable, "-m", PARTY, "sink", str(folder), str(port_file)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        address = await_address(port_file, process)
        if address is None:
            raise UnreachableError("the bare server did not start")
        yield address
    finally:
        process.communicate(b"\n", timeout=START_TIMEOUT_S)


if __name__ == "__main__":
    if sys.argv[1] == "sink":
        sink(*sys.argv[2:])
    else:
        owner(*sys.argv[2:])
