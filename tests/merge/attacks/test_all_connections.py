"""One party, or one address, wants every connection; owners and the operator are served meanwhile.

The daemon and the sockets are real. Attackers open more connections than the daemon used to take in
all, and open new ones where theirs are closed. Everybody is on loopback: where the attacker has an
address of its own it is 127.0.0.2; elsewhere all share one address, as behind a proxy.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from dppca.common.testbed import SERVE
from dppca.common.transport.tls import Credentials, Role
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.operator.client import OperatorClient
from dppca.owner.client.calls import CuratorClient
from tests.support.attackers import SLOW_HELLO, Crowd, Enrolled, silent
from tests.support.census import header_of, make_release
from tests.support.curator import Curator
from tests.support.party import Party, upload
from tests.support.patience import WAIT_S
from tests.support.studies import make_study

CROWD, MOST = 600, 3000
"""Connections of an attacker at once, and in all."""
SILENT = 1600
"""Sockets without TLS: more than gRPC itself takes here."""
PER_PARTY, UNIDENTIFIED, PER_ADDRESS = 8, 128, 64
ROUNDS = 3
STUDY = make_study()


@pytest.fixture(scope="module", autouse=True)
def _descriptors() -> Iterator[None]:
    """Enough of them for the attackers, which are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * SILENT)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    curator = Curator(tmp_path_factory.mktemp("hub"))
    curator.start(
        *SERVE,
        *("--log-format", "json"),
        *("--max-connections", "64"),
        *("--max-connections-per-party", str(PER_PARTY)),
        *("--max-unidentified", str(UNIDENTIFIED)),
        *("--max-unidentified-per-address", str(PER_ADDRESS)),
    )
    curator.operator().create(STUDY)
    yield curator
    curator.stop()


@pytest.fixture(scope="module")
def attacker(curator: Curator) -> Credentials:
    return curator.authority.issue(Role.OWNER, "owner-1")


@pytest.fixture
def others_are_served(curator: Curator) -> Callable[[], None]:
    """Asks as another owner and as an operator, each time on a connection of its own."""
    owner = curator.authority.issue(Role.OWNER, "owner-2")
    operator = curator.authority.issue(Role.OPERATOR, "alice")

    def ask() -> None:
        for _ in range(ROUNDS):
            with CuratorClient(curator.address, owner) as client:
                assert STUDY.name in {study.name for study in client.studies()}
            with OperatorClient(curator.address, operator) as watcher:
                assert watcher.show(STUDY.name).summary.owners == 3

    return ask


def closed(curator: Curator, reason: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in curator.log.read_text().splitlines() if line[:1] == "{"]
    return [
        line for line in lines if line["event"] == "connections closed" and line["reason"] == reason
    ]


def descriptors(curator: Curator) -> int:
    return len(os.listdir(f"/proc/{curator.process.pid}/fd"))  # noqa: PTH208 - names alone


def test_an_owner_that_opens_connections_and_never_calls_holds_few(
    curator: Curator, attacker: Credentials, others_are_served: Callable[[], None], tmp_path: Path
) -> None:
    shake_hands = Enrolled(attacker, tmp_path)
    with Crowd(partial(shake_hands, curator.address), size=CROWD, most=MOST) as crowd:
        others_are_served()
        crowd.wait_until_closed(CROWD)
        others_are_served()
        assert crowd.opened > CROWD  # it has come again all the time
    (first, *_) = closed(curator, "too many unidentified of one address")
    assert first["most"] == "127.0.0.1"
    assert first["closed"] > 0


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"], ids=["shared", "of its own"])
@pytest.mark.parametrize("first", [b"", SLOW_HELLO], ids=["silence", "half a ClientHello"])
def test_sockets_without_a_certificate_take_no_place_from_others(
    curator: Curator, others_are_served: Callable[[], None], source: str, first: bytes
) -> None:
    opened = partial(silent, curator.address, source=source, first=first)
    with Crowd(opened, size=SILENT, most=3 * SILENT) as crowd:
        others_are_served()
        crowd.wait_until_closed(SILENT)
        others_are_served()


def test_sockets_of_many_addresses_share_what_one_could_have(
    curator: Curator, others_are_served: Callable[[], None]
) -> None:
    """Eight addresses, each below its limit, are above the limit of all."""
    with ExitStack() as stack:
        crowds = [
            stack.enter_context(
                Crowd(
                    partial(silent, curator.address, source=f"127.0.1.{number}"),
                    size=PER_ADDRESS - 4,
                    most=4 * PER_ADDRESS,
                )
            )
            for number in range(1, 9)
        ]
        others_are_served()
        for crowd in crowds:
            crowd.wait_until_closed(PER_ADDRESS)
        others_are_served()
    assert closed(curator, "too many unidentified")


def test_a_party_that_waits_on_every_connection_has_its_own_share_only(
    curator: Curator, attacker: Credentials, others_are_served: Callable[[], None]
) -> None:
    """Every connection has a call that waits for a result, and one that uploads and then pauses."""
    request = pb.GetResultRequest(study_digest=bytes.fromhex(STUDY.digest), wait_ms=300_000)
    release = make_release(STUDY)
    hold = threading.Event()

    def slow(party: Party) -> Iterator[pb.ContributeRequest]:
        parts = party.signed(upload(header_of(release), release.payload()))
        yield next(parts)
        hold.wait(WAIT_S)

    parties = [Party(curator.address, attacker) for _ in range(5 * PER_PARTY)]
    ended = queue.SimpleQueue[Any]()
    try:
        for party in parties:
            for call in (
                party.federation.GetResult.future(request, timeout=WAIT_S),  # type: ignore[attr-defined] # stubs lack future
                party.federation.Contribute.future(slow(party), timeout=WAIT_S),  # type: ignore[attr-defined] # stubs lack future
            ):
                call.add_done_callback(ended.put)
        others_are_served()
        ends: Counter[grpc.StatusCode] = Counter()
        while ends[grpc.StatusCode.UNAVAILABLE] <= PER_PARTY:
            ends[ended.get(timeout=WAIT_S).code()] += 1
        assert set(ends) == {grpc.StatusCode.UNAVAILABLE}
        others_are_served()
    finally:
        hold.set()
        for party in parties:
            party.close()
    (line, *_) = closed(curator, "too many of one party")
    assert line["most"] == "owner:owner-1"


def test_a_flood_of_calls_leaves_room_for_others(
    curator: Curator, attacker: Credentials, others_are_served: Callable[[], None]
) -> None:
    parties = [Party(curator.address, attacker) for _ in range(PER_PARTY)]
    stop, answered = threading.Event(), Counter[str]()

    def flood(party: Party) -> None:
        request = pb.ListStudiesRequest()
        for _ in range(40):
            if stop.is_set():
                return
            calls = [
                party.federation.ListStudies.future(request, timeout=WAIT_S)  # type: ignore[attr-defined] # stubs lack future
                for _ in range(64)
            ]
            for call in calls:
                answered["no" if call.exception(timeout=WAIT_S) else "yes"] += 1

    threads = [threading.Thread(target=flood, args=(party,)) for party in parties]
    try:
        for thread in threads:
            thread.start()
        others_are_served()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for party in parties:
            party.close()
    assert answered["yes"] > 0


def test_connections_are_gone_once_nobody_holds_them(
    curator: Curator, others_are_served: Callable[[], None]
) -> None:
    with Crowd(partial(silent, curator.address), size=CROWD, most=CROWD) as crowd:
        crowd.wait_until_closed(CROWD)
        others_are_served()
        assert descriptors(curator) < PER_ADDRESS + 64
    assert curator.process.poll() is None
