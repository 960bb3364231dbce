from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dppca.common.shell.files import CredentialFolder
from dppca.common.transport.tls import Credentials, Identity, Role, load_credentials
from dppca.curator.certificates import pki
from tests.support.curator import Curator
from tests.support.documents import require_documented
from tests.support.patience import WAIT_S, wait_until


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    """A curator with credentials as `dppca-curator pki issue` makes them."""
    folder = tmp_path_factory.mktemp("hub")
    now = datetime.now(UTC)
    pki.init_authority(folder / "authority", name="demo", days=1, now=now)
    curator = Curator(folder)
    curator.credentials = folder / "issued"
    pki.issue(
        folder / "authority",
        identity=Identity("hub", Role.CURATOR),
        hosts=("localhost", "127.0.0.1"),
        output=curator.credentials,
        days=1,
        now=now,
    )
    yield curator.start()
    curator.stop()


def health(address: str, credentials: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON document of ``dppca-curator health``."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "dppca.curator.cli", "health", "--curator", address),
            *("--credentials", str(credentials), "--json", *options),
        ],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    return done.returncode, require_documented("dppca-curator", json.loads(done.stdout))


def issued(curator: Curator) -> Credentials:
    folder = curator.credentials
    return load_credentials(CredentialFolder(folder))


def wait_for(curator: Curator, status: int) -> None:
    stub = health_pb2_grpc.HealthStub(curator.connect(issued(curator)).channel)
    request = health_pb2.HealthCheckRequest()
    wait_until(lambda: stub.Check(request, timeout=WAIT_S).status == status)


def test_a_curator_can_ask_itself_with_its_own_certificate(curator: Curator) -> None:
    code, answer = health(curator.address, curator.credentials)
    assert (code, answer) == (
        0,
        {"command": "health", "curator": curator.address, "status": "SERVING"},
    )


def test_a_curator_that_cannot_write_is_alive_but_not_ready(curator: Curator) -> None:
    arriving, aside = curator.state / "incoming", curator.folder / "aside"
    arriving.rename(aside)
    arriving.write_text("in the way")  # even root cannot write into a file as into a folder
    try:
        wait_for(curator, health_pb2.HealthCheckResponse.NOT_SERVING)
        code, answer = health(curator.address, curator.credentials)
        assert (code, answer["error"]["class"]) == (40, "UnreachableError")
        assert "NOT_SERVING" in answer["error"]["message"]
        code, answer = health(curator.address, curator.credentials, "--live")
        assert (code, answer["status"]) == (0, "NOT_SERVING")
    finally:
        arriving.unlink()
        aside.rename(arriving)
    wait_for(curator, health_pb2.HealthCheckResponse.SERVING)
    assert health(curator.address, curator.credentials)[0] == 0
