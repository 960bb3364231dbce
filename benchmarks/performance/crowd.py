"""Many owners that send to one curator, or to a bare server that throws away what comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.performance.bare import METHOD
from benchmarks.performance.hub import Hub, credentials_in, owner_name, release_of
from common.study import Study
from common.transport.channels import CHUNK_BYTES, open_channel
from common.transport.tls import Credentials
from owner.client import CuratorClient
from owner.ledger.chain import History
from owner.ledger.database import StoredRelease


@dataclass(frozen=True, slots=True)
class Sender:
    """An owner with its certificate; its release is kept on disk until it is sent."""

    credentials: Credentials
    stored: StoredRelease
    history: History
    path: Path

    def release(self) -> StoredRelease:
        """The release with its bytes."""
        return StoredRelease(
            self.stored.reservation,
            self.stored.commitment,
            self.path.read_bytes(),
            self.stored.receipt,
        )


def senders_of(hub: Hub, study: Study, folder: Path) -> list[Sender]:
    """One for each owner of a study, enrolled and with a release of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for number in range(len(study.owners)):
        stored, history = release_of(study, number)
        path = folder / f"{number}.bin"
        path.write_bytes(stored.payload)
        bare = StoredRelease(stored.reservation, stored.commitment, b"", stored.receipt)
        credentials = credentials_in(hub.enrol(owner_name(number)))
        found.append(Sender(credentials, bare, history, path))
    return found


def send_all(address: str, senders: list[Sender], *, at_once: int) -> float:
    """Seconds until the curator has acknowledged every release."""

    def send(sender: Sender) -> None:
        with CuratorClient(address, sender.credentials) as client:
            client.contribute(sender.release(), sender.history)

    return _timed(senders, send, at_once)


def throw_all(address: str, senders: list[Sender], *, at_once: int) -> float:
    """Seconds until a bare server has taken and forgotten the same bytes."""

    def send(sender: Sender) -> None:
        content = sender.path.read_bytes()
        with open_channel(address, sender.credentials) as channel:
            call: Any = channel.stream_unary(METHOD)
            pieces = (content[i : i + CHUNK_BYTES] for i in range(0, len(content), CHUNK_BYTES))
            call(pieces, timeout=600)

    return _timed(senders, send, at_once)


def _timed(senders: list[Sender], send: Callable[[Sender], None], at_once: int) -> float:
    begin = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(send, sender) for sender in senders]:
            done.result()
    return time.perf_counter() - begin
