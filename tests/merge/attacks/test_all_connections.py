"""One party, or one address, wants every connection; owners and operators are served meanwhile.

Daemon, proxy and sockets are real, and everybody is on loopback, where each attacker has addresses
of its own: 127.0.0.2 and further ones. Honest parties come from 127.0.0.1.
"""

import re
import resource
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from dppca.common.kernel.errors import BusyError
from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.transport.status import from_rpc_error
from dppca.common.transport.testbed import SERVE
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.operator.client import OperatorClient
from dppca.owner.client.calls import CuratorClient
from tests.support.attackers import SLOW_HELLO, Crowd, Enrolled, silent
from tests.support.census import make_release
from tests.support.curator import Curator
from tests.support.party import Party
from tests.support.patience import WAIT_S, wait_until
from tests.support.proxy import CONFIGURATION, Proxy, running_proxy
from tests.support.studies import make_study
from tests.support.tls import context_of, shake_hands

OF_ADDRESS = int(re.findall(r"sc0_conn_cur gt (\d+)", CONFIGURATION.read_text())[0])
IN_TEN_SECONDS = int(re.findall(r"sc0_conn_rate gt (\d+)", CONFIGURATION.read_text())[0])
OWNERS = int(re.findall(r"frontend owners.*?maxconn (\d+)", CONFIGURATION.read_text(), re.S)[0])
FEW = 8
"""Connections that a daemon without a proxy takes here."""
ROUNDS = 3
STUDY = make_study()


@pytest.fixture(scope="module", autouse=True)
def _descriptors() -> Iterator[None]:
    """Enough of them for the attackers, which are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * OWNERS)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    curator = Curator(tmp_path_factory.mktemp("hub")).start()
    curator.operator().create(STUDY)
    yield curator
    curator.stop()


@pytest.fixture(scope="module")
def attacker(curator: Curator) -> Credentials:
    return curator.authority.issue(Role.OWNER, "owner-1")


@pytest.fixture
def proxy(curator: Curator, tmp_path: Path) -> Iterator[Proxy]:
    """A proxy that has counted nothing yet."""
    with running_proxy(curator.address, tmp_path) as proxy:
        yield proxy


@pytest.fixture
def operators_are_served(curator: Curator) -> Callable[[str], None]:
    """Asks an address as an operator, each time on a connection of its own."""
    operator = curator.authority.issue(Role.OPERATOR, "alice")

    def ask(address: str) -> None:
        for _ in range(ROUNDS):
            with OperatorClient(address, operator) as watcher:
                assert watcher.show(STUDY.name).summary.owners == 3

    return ask


@pytest.fixture
def owners_are_served(curator: Curator) -> Callable[[str], None]:
    """Asks an address as another owner, each time on a connection of its own."""
    owner = curator.authority.issue(Role.OWNER, "owner-2")

    def ask(address: str) -> None:
        for _ in range(ROUNDS):
            with CuratorClient(address, owner) as client:
                assert STUDY.name in {study.name for study in client.studies()}

    return ask


def test_a_study_goes_through_the_proxy_and_tls_ends_at_the_curator(
    curator: Curator, proxy: Proxy, attacker: Credentials, tmp_path: Path
) -> None:
    version, shown = shake_hands(proxy.owners, attacker, tmp_path, ssl.TLSVersion.TLSv1_3)
    own = ssl.PEM_cert_to_DER_cert((curator.credentials / "certificate.pem").read_text())
    assert (version, shown) == ("TLSv1.3", own)

    names = ("owner-1", "owner-2", "owner-3")
    study = make_study(name="through-the-proxy", owners=list(names))
    with ExitStack() as stack:

        def connect(address: str, role: Role, name: str) -> Party:
            party = Party(address, curator.authority.issue(role, name))
            stack.callback(party.close)
            return party

        operator = connect(proxy.operators, Role.OPERATOR, "alice")
        operator.create(study)
        owners = [connect(proxy.owners, Role.OWNER, name) for name in names]
        for seed, owner in enumerate(owners):
            owner.contribute(make_release(study, seed=seed))
        answer = owners[0].end(study)
        assert answer.state == pb.STUDY_STATE_DECOMPOSED
        assert owners[0].components(study) == owners[2].components(study)


def test_one_address_has_few_connections_and_others_get_in(
    proxy: Proxy,
    attacker: Credentials,
    owners_are_served: Callable[[str], None],
    operators_are_served: Callable[[str], None],
    tmp_path: Path,
) -> None:
    opened = partial(Enrolled(attacker, tmp_path), proxy.owners)
    size = 2 * OF_ADDRESS
    with Crowd(partial(opened, source="127.0.0.2"), size=size, most=size) as crowd:
        wait_until(lambda: crowd.held == OF_ADDRESS, said=lambda: (crowd.held, crowd.ended))
        assert crowd.opened == OF_ADDRESS
        opened(source="127.0.0.3").close()
        owners_are_served(proxy.owners)
        operators_are_served(proxy.operators)
        assert crowd.held == OF_ADDRESS


def test_one_address_that_comes_too_often_is_refused_and_others_get_in(
    proxy: Proxy, attacker: Credentials, owners_are_served: Callable[[str], None], tmp_path: Path
) -> None:
    shake = Enrolled(attacker, tmp_path)

    def is_refused() -> bool:
        """By the rate: one connection is over before the next begins."""
        for _ in range(2 * IN_TEN_SECONDS):
            with (
                suppress(ConnectionError),
                silent(proxy.owners, source="127.0.0.2", first=b"no TLS at all") as plain,
            ):
                plain.recv(1)
        try:
            shake(proxy.owners, source="127.0.0.2").close()
        except OSError:
            return True
        return False

    wait_until(is_refused)
    shake(proxy.owners, source="127.0.0.3").close()
    owners_are_served(proxy.owners)


@pytest.mark.parametrize("first", [b"", SLOW_HELLO], ids=["silence", "half a ClientHello"])
def test_sockets_that_begin_no_tls_are_closed_in_time(
    proxy: Proxy, first: bytes, owners_are_served: Callable[[str], None]
) -> None:
    opened = partial(silent, proxy.owners, source="127.0.0.2", first=first)
    with Crowd(opened, size=OF_ADDRESS, most=OF_ADDRESS) as crowd:
        owners_are_served(proxy.owners)
        crowd.wait_until_closed(OF_ADDRESS)


def test_operators_are_served_while_many_addresses_have_all_places_of_owners(
    curator: Curator,
    proxy: Proxy,
    attacker: Credentials,
    operators_are_served: Callable[[str], None],
    tmp_path: Path,
) -> None:
    """What the proxy cannot do either: the next owner waits until a place is free."""
    shake = Enrolled(attacker, tmp_path)
    sources = cycle(f"127.0.1.{number}" for number in range(1, OWNERS // OF_ADDRESS + 1))
    owner = curator.authority.issue(Role.OWNER, "owner-2")
    context = context_of(ssl.PROTOCOL_TLS_CLIENT, owner, tmp_path, ssl.TLSVersion.TLSv1_3)
    with Crowd(
        lambda: shake(proxy.owners, source=next(sources)), size=OWNERS, most=OWNERS
    ) as crowd:
        assert crowd.held == OWNERS
        with silent(proxy.owners) as late:
            late.settimeout(1.0)
            with pytest.raises(TimeoutError):
                context.wrap_socket(late, server_hostname="localhost")
        operators_are_served(proxy.operators)
        assert crowd.held == OWNERS


def test_a_daemon_without_a_proxy_bounds_handshakes_and_connections(
    tmp_path: Path, attacker: Credentials, curator: Curator
) -> None:
    """What is left are gRPC's own limits, which know no addresses."""
    bare = Curator(tmp_path, authority=curator.authority)
    bare.start(*SERVE, "--max-connections", str(FEW), "--handshake-within", "1")
    try:
        with Crowd(partial(silent, bare.address), size=FEW, most=FEW) as crowd:
            crowd.wait_until_closed(FEW)
        shake = partial(Enrolled(attacker, tmp_path), bare.address)
        with Crowd(shake, size=4 * FEW, most=4 * FEW) as crowd:
            assert 0 < crowd.held <= FEW
        assert bare.operator().list_studies(wait_for_ready=True)
    finally:
        bare.stop()


def test_a_party_that_waits_on_many_connections_has_its_own_calls_only(
    curator: Curator,
    attacker: Credentials,
    owners_are_served: Callable[[str], None],
    operators_are_served: Callable[[str], None],
) -> None:
    request = pb.GetResultRequest(study_digest=bytes.fromhex(STUDY.digest), wait_ms=300_000)
    parties = [Party(curator.address, attacker) for _ in range(16)]
    try:
        calls = [
            party.federation.GetResult.future(request, timeout=WAIT_S)  # type: ignore[attr-defined] # stubs lack future
            for party in parties
            for _ in range(4)
        ]
        wait_until(lambda: sum(call.done() for call in calls) >= len(calls) - 32)
        owners_are_served(curator.address)
        operators_are_served(curator.address)
        ended = [call for call in calls if call.done()]
        assert len(ended) == len(calls) - 32
        assert {type(from_rpc_error(call.exception())) for call in ended} == {BusyError}
    finally:
        for party in parties:
            party.close()


def test_a_flood_of_calls_leaves_room_for_others(
    curator: Curator,
    attacker: Credentials,
    owners_are_served: Callable[[str], None],
    operators_are_served: Callable[[str], None],
) -> None:
    parties = [Party(curator.address, attacker) for _ in range(OF_ADDRESS)]
    stop, answered = threading.Event(), Counter[str]()

    def flood(party: Party) -> None:
        request = pb.ListStudiesRequest()
        for _ in range(10):
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
        owners_are_served(curator.address)
        operators_are_served(curator.address)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for party in parties:
            party.close()
    assert answered["yes"] > 0
