from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from common.conversation import Form, StudyState
from common.results import result_from_bytes
from common.transport.codec import state_from_wire
from common.transport.status import from_rpc_error
from common.wire import federation_pb2 as pb
from tests.faults.curator_that_dies import POINTS
from tests.support.daemon import Hub
from tests.support.hub import arrow, decoded_rows, header_of, make_release, make_study, upload

pytestmark = pytest.mark.faults
STUDY = make_study(owners=["owner-1", "owner-2"])
DYING = str(Path(__file__).with_name("curator_that_dies.py"))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path)
    yield hub
    hub.stop()


def start_dying(hub: Hub, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPPCA_DIE_AT", point)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    hub.start(DYING, "serve")


@pytest.mark.parametrize("point", [point for point in POINTS if point != "never"])
def test_a_curator_that_is_killed_continues_where_it_was(
    point: str, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = point.startswith(("bytes", "contribution"))
    sent = [("owner-1", make_release(STUDY, seed=1)), ("owner-2", make_release(STUDY, seed=2))]
    hub.start()
    hub.operator().create(STUDY)
    if not early:
        hub.party("owner-1").contribute(sent[0][1])
    if point in {"result named", "result stored"}:
        # Then the next thing that is stored is the result.
        hub.terminate()
        start_dying(hub, "last contribution stored", monkeypatch)
        with suppress(grpc.RpcError):
            hub.party("owner-2").contribute(sent[1][1])
        hub.process.wait(timeout=20)
        monkeypatch.setenv("DPPCA_DIE_AT", point)
        with suppress(AssertionError):  # it may die before it says where it listens
            hub.start(DYING, "serve")
    else:
        hub.terminate()
        start_dying(hub, point, monkeypatch)
        owner, release = sent[0] if early else sent[1]
        with suppress(grpc.RpcError):
            hub.party(owner).contribute(release)
    assert hub.process.wait(timeout=20) == -9

    hub.start()
    for owner, release in sent:
        hub.party(owner).contribute(release)
        assert hub.party(owner).contribute(release).already_stored
    answer = hub.party("owner-1").result(STUDY)
    assert state_from_wire(answer.state) is StudyState.DECOMPOSED
    content = hub.party("owner-2").components(STUDY)
    result = result_from_bytes(content, STUDY)
    expected = sent[0][1].packed + sent[1][1].packed
    assert (result.pooled == expected).all()
    blobs = {path.name for path in (hub.state / "blobs").iterdir()}
    shares = {share.payload_sha256 for share in result.header.shares}
    assert blobs == shares | {answer.sha256.hex()}


def test_published_rows_outlive_a_kill(hub: Hub) -> None:
    hub.start()
    hub.operator().create(STUDY)
    for seed, owner in enumerate(STUDY.owners):
        hub.party(owner).contribute(make_release(STUDY, seed=seed))
    digest = hub.party("owner-1").result(STUDY).sha256
    rows = arrow(decoded_rows())
    hub.party("owner-1").publish(STUDY, Form.DECODED, rows, n_rows=3, components=digest)
    before = hub.party("owner-1").synthetic(STUDY, Form.DECODED)
    hub.kill()
    hub.start()
    assert hub.party("owner-2").synthetic(STUDY, Form.DECODED) == before
    again = hub.party("owner-1").publish(STUDY, Form.DECODED, rows, n_rows=3, components=digest)
    assert again.already_stored


def test_a_deadline_that_passed_while_the_curator_was_down_is_kept(hub: Hub) -> None:
    hub.start()
    deadline = datetime.now(UTC) + timedelta(seconds=6)  # to be there before it on a busy machine
    study = make_study(owners=["owner-1", "owner-2"], quorum=1, deadline=deadline.isoformat())
    hub.operator().create(study)
    hub.party("owner-1").contribute(make_release(study))
    hub.kill()
    time.sleep(max(0.0, (deadline - datetime.now(UTC)).total_seconds()))
    hub.start()
    answer = hub.party("owner-2").result(study)
    assert state_from_wire(answer.state) is StudyState.DECOMPOSED
    assert list(answer.missing) == ["owner-2"]


def test_sigterm_finishes_what_runs_and_answers_who_waits(hub: Hub) -> None:
    hub.start()
    hub.operator().create(STUDY)
    owner, waiting = hub.party("owner-1"), hub.party("owner-2")
    release = make_release(STUDY)
    begun, ends = threading.Event(), []

    def slowly() -> Iterator[pb.ContributeRequest]:
        parts = list(upload(header_of(release), release.payload(), chunk_bytes=8))
        yield from parts[:3]
        begun.set()
        time.sleep(1.0)
        yield from parts[3:]

    def send() -> None:
        ends.append(owner.send(slowly()).already_stored)

    def wait() -> None:
        try:
            waiting.result(STUDY, wait_s=20)
        except grpc.RpcError as error:
            ends.append(type(from_rpc_error(error)).__name__)

    threads = [threading.Thread(target=target) for target in (send, wait)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    time.sleep(0.2)
    began = time.monotonic()
    assert hub.terminate() == 0
    for thread in threads:
        thread.join()
    assert time.monotonic() - began < 10
    assert sorted(ends, key=str) == [False, "UnreachableError"]
    hub.start()
    assert list(hub.party("owner-1").result(STUDY, wait_s=0).contributed) == ["owner-1"]


def test_an_upload_that_is_cut_off_leaves_nothing(hub: Hub) -> None:
    hub.start()
    hub.operator().create(STUDY)
    owner, release = hub.party("owner-1"), make_release(STUDY)
    parts = list(owner.signed(upload(header_of(release), release.payload(), chunk_bytes=8)))
    cut = threading.Event()

    def half() -> Iterator[pb.ContributeRequest]:
        yield from parts[: len(parts) // 2]
        cut.wait(15)

    call = owner.federation.Contribute.future(half(), timeout=20)
    end = time.monotonic() + 10
    while not list((hub.state / "incoming").iterdir()):
        assert time.monotonic() < end
        time.sleep(0.05)
    call.cancel()
    cut.set()
    end = time.monotonic() + 10
    while list((hub.state / "incoming").iterdir()):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert not hub.party("owner-1").contribute(release).already_stored


def test_two_curators_cannot_share_a_folder(hub: Hub) -> None:
    hub.start()
    first = hub.process
    with pytest.raises(AssertionError, match="another daemon uses"):
        hub.start()
    assert hub.process.returncode == 60
    assert first.poll() is None
    first.kill()
    first.wait()
