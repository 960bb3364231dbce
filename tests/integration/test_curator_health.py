from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from common.transport.tls import Credentials, Identity, Role, load_credentials
from common.wire import federation_pb2 as pb
from curator import pki
from tests.support.authority import new_authority
from tests.support.daemon import Hub, write_credentials
from tests.support.hub import Party, make_release, make_study

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A curator with credentials as `dppca-curator pki issue` makes them."""
    folder = tmp_path_factory.mktemp("hub")
    now = datetime.now(UTC)
    pki.init_authority(folder / "authority", name="demo", days=1, now=now)
    hub = Hub(folder)
    hub.credentials = folder / "issued"
    pki.issue(
        folder / "authority",
        identity=Identity("hub", Role.CURATOR),
        hosts=("localhost", "127.0.0.1"),
        output=hub.credentials,
        days=1,
        now=now,
    )
    yield hub.start()
    hub.stop()


def health(address: str, credentials: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON document of ``dppca-curator health``."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "curator.cli", "health", "--curator", address),
            *("--credentials", str(credentials), "--json", *options),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, json.loads(done.stdout)


def issued(hub: Hub) -> Credentials:
    folder = hub.credentials
    return load_credentials(
        ca=folder / "ca.pem", certificate=folder / "certificate.pem", key=folder / "key.pem"
    )


def wait_for(hub: Hub, status: int) -> None:
    stub = health_pb2_grpc.HealthStub(hub.connect(issued(hub)).channel)
    end = time.monotonic() + 60
    while stub.Check(health_pb2.HealthCheckRequest(), timeout=30).status != status:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_curator_can_ask_itself_with_its_own_certificate(hub: Hub) -> None:
    code, answer = health(hub.address, hub.credentials)
    assert (code, answer) == (
        0,
        {"command": "health", "curator": hub.address, "status": "SERVING"},
    )


def test_the_curators_certificate_opens_no_other_call(hub: Hub) -> None:
    party = Party(hub.address, issued(hub))
    study = bytes(32)
    calls: list[Callable[[], object]] = [
        lambda: party.create(make_study()),
        lambda: party.admin.ShowStudy(pb.ShowStudyRequest(name="census"), timeout=20),
        lambda: party.federation.ListStudies(pb.ListStudiesRequest(), timeout=20),
        lambda: party.federation.GetStudy(pb.GetStudyRequest(name="census"), timeout=20),
        lambda: party.federation.GetResult(pb.GetResultRequest(study_digest=study), timeout=20),
        lambda: party.contribute(make_release(make_study())),
    ]
    try:
        for call in calls:
            with pytest.raises(grpc.RpcError) as refused:
                call()
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    finally:
        party.close()


def test_another_authoritys_certificate_gets_no_answer(hub: Hub, tmp_path: Path) -> None:
    stranger = write_credentials(tmp_path, new_authority("other").issue(Role.OPERATOR, "eve"))
    code, answer = health(hub.address, stranger)
    assert (code, answer["error"]["class"]) == (41, "IdentityError")


def test_a_curator_that_is_not_there_is_not_healthy(hub: Hub) -> None:
    code, answer = health("127.0.0.1:1", hub.credentials)
    assert (code, answer["error"]["class"]) == (40, "UnreachableError")


def test_a_curator_that_cannot_write_is_alive_but_not_ready(hub: Hub) -> None:
    arriving, aside = hub.state / "incoming", hub.folder / "aside"
    arriving.rename(aside)
    arriving.write_text("in the way")  # even root cannot write into a file as into a folder
    try:
        wait_for(hub, health_pb2.HealthCheckResponse.NOT_SERVING)
        code, answer = health(hub.address, hub.credentials)
        assert (code, answer["error"]["class"]) == (40, "UnreachableError")
        assert "NOT_SERVING" in answer["error"]["message"]
        code, answer = health(hub.address, hub.credentials, "--live")
        assert (code, answer["status"]) == (0, "NOT_SERVING")
    finally:
        arriving.unlink()
        aside.rename(arriving)
    wait_for(hub, health_pb2.HealthCheckResponse.SERVING)
    assert health(hub.address, hub.credentials)[0] == 0
