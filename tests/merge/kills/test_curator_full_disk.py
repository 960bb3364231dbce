from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dppca.common.transport.status import from_rpc_error
from tests.support.census import make_release
from tests.support.curator import Curator
from tests.support.party import Party
from tests.support.patience import WAIT_S, wait_until
from tests.support.studies import make_study

STUDY = make_study(owners=["owner-1", "owner-2"])


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[Curator]:
    curator = Curator(tmp_path)
    yield curator
    curator.stop()


def fill_disk(curator: Curator, size: int) -> None:
    """From now on no file of the daemon grows beyond ``size``; Python ignores SIGXFSZ."""
    limits = (size, resource.RLIM_INFINITY)
    resource.prlimit(curator.process.pid, resource.RLIMIT_FSIZE, limits)


def wait_for_health(party: Party, wanted: int) -> None:
    stub = health_pb2_grpc.HealthStub(party.channel)
    request = health_pb2.HealthCheckRequest()
    wait_until(lambda: stub.Check(request, timeout=WAIT_S).status == wanted)


def test_a_full_disk_is_said_to_be_one_and_passes(curator: Curator) -> None:
    curator.start()
    curator.operator().create(STUDY)
    one, two = curator.party("owner-1"), curator.party("owner-2")
    one.contribute(make_release(STUDY, seed=1))
    fill_disk(curator, 16)
    with pytest.raises(grpc.RpcError) as caught:
        two.contribute(make_release(STUDY, seed=2))
    assert type(from_rpc_error(caught.value)).__name__ == "StoreError"
    with pytest.raises(grpc.RpcError) as caught:
        curator.operator().create(make_study(name="other"))
    assert type(from_rpc_error(caught.value)).__name__ == "StoreError"
    wait_for_health(one, health_pb2.HealthCheckResponse.NOT_SERVING)
    assert list(one.result(STUDY, wait_s=0).contributed) == ["owner-1"]

    fill_disk(curator, resource.RLIM_INFINITY)
    wait_for_health(one, health_pb2.HealthCheckResponse.SERVING)
    two.contribute(make_release(STUDY, seed=2))
    assert one.result(STUDY).total_bytes > 0
