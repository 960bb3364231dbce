"""How a daemon is watched: its metrics, its health, and what systemd is told."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client.parser import text_string_to_metric_families

from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.identity.tls import Role
from dppca.common.transport.testbed import CURATOR, SERVE
from dppca.curator.cli import cli
from dppca.curator.observability.metrics_server import MAX_CONNECTIONS
from tests.support.census import arrow, decoded_rows, make_release
from tests.support.certificates import write_credentials
from tests.support.commands import answer_of
from tests.support.curator import Curator, far_moment
from tests.support.party import Party
from tests.support.patience import WAIT_S, wait_until
from tests.support.studies import make_study

STUDY = make_study(owners=["owner-1", "owner-2"])


class Watched(Curator):
    """A curator with an endpoint for metrics."""

    def start(self, *program: str) -> Watched:
        super().start(*(program or SERVE), "--metrics-port", "0", "--log-format", "json")
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        self.endpoint = [line["address"] for line in lines if line["event"] == "metrics"][-1]
        return self

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.endpoint}{path}", timeout=WAIT_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def series(self) -> dict[tuple[str, ...], float]:
        """Value of each series by its name and its labels' values, in order of their names."""
        code, text = self.get("/metrics")
        assert code == 200
        return {
            _key(sample.name, sample.labels): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def _key(name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    return name.removeprefix("dppca_curator_"), *(labels[label] for label in sorted(labels))


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[Watched]:
    curator = Watched(tmp_path).start()
    yield curator
    curator.stop()


def test_a_daemon_whose_certificate_has_ended_is_not_ready_and_says_who_renews_it(
    tmp_path: Path,
) -> None:
    curator = Watched(tmp_path)
    ends = datetime.now(UTC) + timedelta(hours=12)
    issued = curator.authority.issue(Role.CURATOR, "hub", end=ends)
    write_credentials(curator.credentials, issued)
    curator.start_with_clock()
    try:
        assert curator.get("/ready") == (200, "yes\n")
        curator.move_clock()
        wait_until(lambda: curator.get("/ready")[0] == 503)
        said = curator.get("/ready")[1]
        assert "curator hub expired on" in said
        assert "pki issue --role curator --name hub" in said
        now = curator.series()
        assert now["ready",] == 0
        assert now["certificate_expiry_seconds", "curator"] <= 0
        assert now["certificate_expiry_seconds", "authority"] > 0
        wait_until(lambda: '"certificate has ended"' in curator.log.read_text())
    finally:
        curator.stop()


def names_of(kind: type[DppcaError]) -> Iterator[str]:
    yield kind.__name__
    for child in kind.__subclasses__():
        yield from names_of(child)


def test_every_series_moves_as_it_should(curator: Watched) -> None:
    start = curator.series()
    states = ["open", "decomposed", "closed", "aborted"]
    assert [start["studies", state] for state in states] == [0, 0, 0, 0]
    assert (start["contributions",], start["publications",]) == (0, 0)
    assert (start["received_bytes_total",], start["sent_bytes_total",]) == (0, 0)
    refusals = {key[1] for key in start if key[0] == "refusals_total"}
    assert refusals == set(names_of(DppcaError))
    assert all(start["refusals_total", reason] == 0 for reason in refusals)
    assert 89 * 86_400 < start["certificate_expiry_seconds", "curator"] <= 90 * 86_400
    assert (start["ready",], start["store_writable",], start["studies_stopped",]) == (1, 1, 0)
    assert (start["studies_computing",], start["studies_waiting_to_compute",]) == (0, 0)

    operator, one, two = curator.operator(), curator.party("owner-1"), curator.party("owner-2")
    operator.create(STUDY)
    operator.create(make_study(name="other"))
    release = make_release(STUDY, seed=1)
    one.contribute(release)
    one.contribute(release)
    mid = curator.series()
    assert mid["studies", "open"] == 2
    assert mid["contributions",] == 1
    assert mid["calls_total", "OK", "CreateStudy"] == 2
    assert mid["calls_total", "OK", "Contribute"] == 2
    assert mid["call_seconds_count", "Contribute"] == 2
    assert mid["received_bytes_total",] > 2 * len(release.payload())
    assert mid["store_bytes", "uploads"] == len(release.payload())
    assert mid["store_bytes", "database"] > 0
    assert mid["store_free_bytes",] > 0

    with pytest.raises(grpc.RpcError):
        one.contribute(make_release(STUDY, seed=7))
    with pytest.raises(grpc.RpcError):
        one.create(STUDY)
    with pytest.raises(grpc.RpcError):
        curator.party("mallory").contribute(release)
    # The caller hears of a refusal just before it is counted.
    wait_until(lambda: curator.series()["refusals_total", "PermissionDeniedError"] == 1)
    refused = curator.series()
    assert refused["refusals_total", "ConflictError"] == 1
    assert refused["calls_total", "ALREADY_EXISTS", "Contribute"] == 1
    assert refused["refusals_total", "PermissionDeniedError"] == 1
    assert refused["calls_total", "PERMISSION_DENIED", "CreateStudy"] == 1
    assert refused["contributions",] == 1
    _, text = curator.get("/metrics")
    for name in ("owner-1", "owner-2", "mallory", "alice", STUDY.name, STUDY.digest[:12]):
        assert name not in text

    two.contribute(make_release(STUDY, seed=2))
    digest = one.result(STUDY).sha256
    n_bytes = len(two.components(STUDY))
    rows = arrow(decoded_rows())
    one.publish(STUDY, Form.DECODED, rows, n_rows=3, components=digest)
    end = curator.series()
    assert [end["studies", state] for state in states] == [1, 1, 0, 0]
    assert (end["contributions",], end["publications",]) == (2, 1)
    assert end["sent_bytes_total",] > refused["sent_bytes_total",] + n_bytes
    assert end["store_bytes", "uploads"] == 2 * len(release.payload()) + n_bytes + len(rows)
    assert end["store_bytes", "arriving"] == 0

    # What is stored outlives a restart, what is counted does not.
    curator.kill()
    curator.start()
    again = curator.series()
    assert (again["contributions",], again["studies", "decomposed"]) == (2, 1)
    assert again["received_bytes_total",] == 0


def test_a_clock_that_jumps_ends_nothing_and_is_seen(tmp_path: Path) -> None:
    """A day forward and back again: a study waits on, whose deadline lies between."""
    curator = Watched(tmp_path).start_with_clock(jumps=True)
    try:
        study = make_study(owners=["owner-1", "owner-2"], quorum=1, deadline=far_moment())
        curator.operator().create(study)
        curator.party("owner-1").contribute(make_release(study, seed=0))
        curator.move_clock()
        wait_until(lambda: curator.get("/ready")[0] == 503)
        held = curator.series()
        assert (held["ready",], held["studies", "open"]) == (0, 1)
        assert held["clock_jump_seconds",] == pytest.approx(86400, abs=60)
        late = curator.party("owner-2")  # its certificate would have ended by no clock yet
        assert late.list_studies().greeting.clock_held
        curator.move_clock()
        wait_until(lambda: curator.get("/ready")[0] == 200)
        late.contribute(make_release(study, seed=1))
        assert late.end(study).contributed == ["owner-1", "owner-2"]
        assert curator.series()["clock_jump_seconds",] == 0
        events = [json.loads(line)["event"] for line in curator.log.read_text().splitlines()]
        assert [each for each in events if "clock" in each] == ["clock jumped", "clock is back"]
    finally:
        curator.stop()


def test_what_a_caller_chooses_makes_no_series(curator: Watched) -> None:
    party = curator.operator()
    party.create(STUDY)
    curator.series()
    before = {key for key in curator.series() if not key[0].startswith(("process", "python"))}
    for number in range(5):
        call = party.channel.unary_unary(f"/dppca.v1.Federation/Made{number}")
        with pytest.raises(grpc.RpcError):
            call(b"", timeout=WAIT_S)
    after = {key for key in curator.series() if not key[0].startswith(("process", "python"))}
    assert after == before


def test_the_endpoint_and_the_daemon_have_a_port_each_on_loopback(
    curator: Watched, tmp_path: Path
) -> None:
    assert curator.endpoint.startswith("127.0.0.1:")
    assert curator.get("/ready") == curator.get("/live") == (200, "yes\n")
    for path in ("/", "/metric", "/metrics/x", "/../etc/passwd"):
        assert curator.get(path)[0] == 404
    other = Curator(tmp_path / "other")
    port = curator.endpoint.rpartition(":")[2]
    with pytest.raises(DppcaError, match=r"cannot listen on 127\.0\.0\.1:"):
        other.start(*SERVE, "--metrics-port", port)
    assert other.process.returncode == 10
    line = ("serve", "--state", "other", "--listen", curator.address, "--log-format", "text")
    ended = subprocess.run(
        [sys.executable, "-m", CURATOR, *line, "--credentials", curator.credentials],
        capture_output=True,
        text=True,
        cwd=curator.folder,
        timeout=WAIT_S,
    )
    assert ended.returncode == 10
    (said,) = ended.stderr.splitlines()
    assert said.startswith(f"error: cannot listen on {curator.address}")


def test_connections_that_say_nothing_are_limited_and_make_room(curator: Watched) -> None:
    host, _, port = curator.endpoint.rpartition(":")
    silent = [
        socket.create_connection((host, int(port)), timeout=WAIT_S)
        for _ in range(MAX_CONNECTIONS + 4)
    ]
    try:
        for connection in silent[MAX_CONNECTIONS:]:
            assert connection.recv(1) == b""  # closed: there are too many

        def answers() -> bool:
            try:
                return curator.get("/live")[0] == 200
            except (urllib.error.URLError, ConnectionError):
                return False

        for connection in silent[: MAX_CONNECTIONS // 2]:
            connection.close()
        wait_until(answers)
    finally:
        for connection in silent:
            connection.close()


def ready_by_grpc(party: Party) -> bool:
    stub = health_pb2_grpc.HealthStub(party.channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=WAIT_S)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def health(curator: Curator, *options: str) -> tuple[int, str]:
    """Exit code of ``dppca-curator health`` with the curator's own certificate, and its answer."""
    asked = ("health", "--curator", curator.address, "--credentials", curator.credentials)
    code, document = answer_of("dppca-curator", cli, *asked, *options)
    return code, document.get("status") or document["error"]["class"]


def test_a_store_that_cannot_be_written_is_seen_before_anybody_uploads(curator: Watched) -> None:
    party = curator.party("owner-1")
    curator.operator().create(STUDY)

    def is_ready() -> bool:
        by_grpc, (code, _) = ready_by_grpc(party), curator.get("/ready")
        gauges = curator.series()
        return by_grpc and code == 200 and gauges["ready",] == gauges["store_writable",] == 1

    def is_red() -> bool:
        by_grpc, (code, _) = ready_by_grpc(party), curator.get("/ready")
        gauges = curator.series()
        return not by_grpc and code == 503 and gauges["ready",] == gauges["store_writable",] == 0

    wait_until(is_ready)
    assert health(curator) == (0, "SERVING")
    # Somebody else holds the database's lock and does not let go.
    with closing(sqlite3.connect(curator.state / "curator.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        wait_until(is_red)
        assert curator.get("/live") == (200, "yes\n")
        assert health(curator) == (40, "UnreachableError")
        assert health(curator, "--live") == (0, "NOT_SERVING")
        assert list(party.result(STUDY, wait_s=0).missing) == ["owner-1", "owner-2"]
        other.execute("ROLLBACK")
    wait_until(is_ready)
    assert not party.contribute(make_release(STUDY)).already_stored


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The other end of ``NOTIFY_SOCKET``, as systemd holds it."""
    with (
        tempfile.TemporaryDirectory() as folder,  # a socket's path has 107 bytes at most
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver,
    ):
        receiver.bind(f"{folder}/notify")
        receiver.settimeout(WAIT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", f"{folder}/notify")
        yield receiver


def test_systemd_is_told_the_truth(
    supervisor: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "120000000")
    curator = Curator(tmp_path).start()
    try:
        said = supervisor.recv(100)
        while said == b"WATCHDOG=1":
            said = supervisor.recv(100)
        assert said == b"READY=1"
        stub = health_pb2_grpc.HealthStub(curator.operator().channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=WAIT_S, wait_for_ready=True)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        assert supervisor.recv(100) == b"WATCHDOG=1"
        assert curator.terminate() == 0
        while said != b"STOPPING=1":
            assert said in {b"WATCHDOG=1", b"READY=1"}
            said = supervisor.recv(100)
    finally:
        curator.stop()


def test_a_daemon_that_cannot_start_is_never_ready(
    supervisor: socket.socket, tmp_path: Path
) -> None:
    curator = Curator(tmp_path)
    curator.credentials.joinpath("key.pem").unlink()
    with pytest.raises(DppcaError, match=r"key\.pem"):
        curator.start()
    supervisor.setblocking(False)
    with pytest.raises(BlockingIOError):
        supervisor.recv(100)
