from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from common.transport.status import from_rpc_error
from tests.support.daemon import Hub
from tests.support.hub import Party, make_release, make_study

pytestmark = pytest.mark.faults
STUDY = make_study(owners=["owner-1", "owner-2"])


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path)
    yield hub
    hub.stop()


def fill_disk(hub: Hub, size: int) -> None:
    """From now on no file of the daemon grows beyond ``size``; Python ignores SIGXFSZ."""
    limits = (size, resource.RLIM_INFINITY)
    resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE, limits)


def wait_for_health(party: Party, wanted: int) -> None:
    stub = health_pb2_grpc.HealthStub(party.channel)
    end = time.monotonic() + 10
    while stub.Check(health_pb2.HealthCheckRequest(), timeout=5).status != wanted:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_full_disk_is_said_to_be_one_and_passes(hub: Hub) -> None:
    hub.start()
    hub.operator().create(STUDY)
    one, two = hub.party("owner-1"), hub.party("owner-2")
    one.contribute(make_release(STUDY, seed=1))
    fill_disk(hub, 16)
    with pytest.raises(grpc.RpcError) as caught:
        two.contribute(make_release(STUDY, seed=2))
    assert type(from_rpc_error(caught.value)).__name__ == "StoreError"
    with pytest.raises(grpc.RpcError) as caught:
        hub.operator().create(make_study(name="other"))
    assert type(from_rpc_error(caught.value)).__name__ == "StoreError"
    wait_for_health(one, health_pb2.HealthCheckResponse.NOT_SERVING)
    assert list(one.result(STUDY, wait_s=0).contributed) == ["owner-1"]

    fill_disk(hub, resource.RLIM_INFINITY)
    wait_for_health(one, health_pb2.HealthCheckResponse.SERVING)
    two.contribute(make_release(STUDY, seed=2))
    assert one.result(STUDY).total_bytes > 0
