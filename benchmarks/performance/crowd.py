"""Many owners that send to one curator, or to a bare server that throws away what comes.

Both get the same messages, byte for byte, from the same code: they are made, and signed, before the
clock runs, and read from a file when their turn comes. So a ratio compares two servers, not two
clients.
"""

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from benchmarks.performance.federation import CuratorProcess, credentials_in, make_release
from benchmarks.performance.round_party import THROW, path_of
from benchmarks.releases import owner_name
from dppca.common.kernel.attestation.contributions import sign_release
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.errors import ConflictError
from dppca.common.kernel.identity.tls import Credentials
from dppca.common.kernel.study import Study
from dppca.common.transport.channels import open_channel, with_retries
from dppca.common.transport.codec import contribution_parts
from dppca.common.wire import federation_pb2 as pb
from dppca.owner.client.calls import CuratorClient, StudyProgress, countdown

CONTRIBUTE = "/dppca.v1.Federation/Contribute"
_WAVE = 100
"""Connections at once. While the next wave connects, the clock stands still."""
_CONNECT_S = 120.0
_SEND_S = 600.0


@dataclass(frozen=True, slots=True)
class Sender:
    """An owner with its certificate; ``sizes`` cut its file into the messages of one call."""

    credentials: Credentials
    path: Path
    sizes: tuple[int, ...]

    def messages(self) -> list[bytes]:
        """What it sends, serialised."""
        content = self.path.read_bytes()
        ends = list(itertools.accumulate(self.sizes))
        return [content[end - size : end] for end, size in zip(ends, self.sizes, strict=True)]


def make_senders(federation: CuratorProcess, study: Study, folder: Path) -> list[Sender]:
    """One for each owner of a study, enrolled and with a release of its own."""
    folder.mkdir(parents=True)
    return [
        _sender(federation, study, number, folder / f"{number}.bin")
        for number in range(len(study.owners))
    ]


def _sender(federation: CuratorProcess, study: Study, number: int, path: Path) -> Sender:
    stored, history = make_release(study, number)
    credentials = credentials_in(federation.enrol(owner_name(number)))
    parts = contribution_parts(
        payload=stored.payload,
        envelope=sign_release(owner_name(number), stored.receipt, make_signer(credentials)),
        ledger_length=history.length,
        ledger_head=history.head,
    )
    messages = [part.SerializeToString() for part in parts]
    path.write_bytes(b"".join(messages))
    return Sender(credentials, path, tuple(len(message) for message in messages))


def send_all(address: str, senders: list[Sender], *, at_once: int, connected: bool = True) -> float:
    """Seconds until the curator has acknowledged every release as new.

    ``connected``: all connections are open before the clock runs; else each is made in its turn.
    """
    taken, answers = _all(address, CONTRIBUTE, senders, at_once, connected=connected)
    if any(pb.ContributeResponse.FromString(answer).already_stored for answer in answers):
        raise ConflictError("the curator had a release before it was sent")
    return taken


def throw_all(address: str, senders: list[Sender], *, at_once: int) -> float:
    """Seconds until a bare server has taken and forgotten the same messages."""
    taken, answers = _all(address, path_of(THROW), senders, at_once, connected=True)
    for sender, answer in zip(senders, answers, strict=True):
        if int(answer) != sum(sender.sizes):
            raise ConflictError(f"the bare server took {answer!r} of {sum(sender.sizes)} bytes")
    return taken


def await_components(address: str, study: Study, sender: Sender) -> tuple[StudyProgress, float]:
    """What a sender sees once there are components, and the seconds until then."""
    begin = time.perf_counter()
    with CuratorClient(address, sender.credentials) as client:
        return client.wait(study, left=countdown(_SEND_S)), time.perf_counter() - begin


def _all(
    address: str, method: str, senders: list[Sender], at_once: int, *, connected: bool
) -> tuple[float, list[bytes]]:
    taken = 0.0
    answers: list[bytes] = []
    for begin in range(0, len(senders), _WAVE):
        wave = senders[begin : begin + _WAVE]
        with _channels(address, wave) as channels, ThreadPoolExecutor(at_once) as pool:
            if connected:
                for channel in channels:
                    grpc.channel_ready_future(channel).result(timeout=_CONNECT_S)
            start = time.perf_counter()
            answers += pool.map(lambda pair: _send(method, *pair), zip(channels, wave, strict=True))
            taken += time.perf_counter() - start
    return taken, answers


@contextmanager
def _channels(address: str, senders: list[Sender]) -> Iterator[list[grpc.Channel]]:
    """One for each; it connects when it is first used."""
    with ExitStack() as stack:
        yield [stack.enter_context(open_channel(address, each.credentials)) for each in senders]


def _send(method: str, channel: grpc.Channel, sender: Sender) -> bytes:
    messages = sender.messages()
    call: Any = channel.stream_unary(method)

    def once(left: float) -> bytes:
        answer: bytes = call(iter(messages), timeout=left)
        return answer

    return with_retries(once, deadline_s=_SEND_S)
