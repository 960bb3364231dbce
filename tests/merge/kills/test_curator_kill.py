"""A curator that dies at a step goes on where it was, with the same set of owners."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import numpy as np
import pytest

from dppca.common.kernel.attestation.results import result_from_bytes
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.transport.codec import state_from_wire
from dppca.common.transport.status import from_rpc_error
from dppca.common.wire import federation_pb2 as pb
from tests.support.census import header_of, make_release
from tests.support.curator import Curator
from tests.support.federations import MaskedHub, MaskedSites
from tests.support.masked import noised_sum
from tests.support.party import upload
from tests.support.patience import WAIT_S, wait_until
from tests.support.studies import make_study

STUDY = make_study(owners=["owner-1", "owner-2"])
PATIENT = (
    "from functools import partial; from dppca.curator import cli, config; "
    f"config.DaemonConfig = partial(config.DaemonConfig, grace_s={WAIT_S}); cli.main()"
)
"""A curator that gives running calls as long as a test waits."""
HASTY = PATIENT.replace(f"grace_s={WAIT_S}", "grace_s=0.3")


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[Curator]:
    curator = Curator(tmp_path)
    yield curator
    curator.stop()


@pytest.mark.parametrize("step", ["receive", "store", "commit", "decompose", "result", "serve"])
def test_a_curator_that_is_killed_continues_where_it_was(step: str, curator: Curator) -> None:
    sent = [("owner-1", make_release(STUDY, seed=1)), ("owner-2", make_release(STUDY, seed=2))]
    curator.start()
    curator.operator().create(STUDY)
    curator.party("owner-1").contribute(sent[0][1])
    curator.terminate()
    curator.start(fault=f"kill@{step}")
    with suppress(grpc.RpcError):
        last = curator.party("owner-2")
        last.contribute(sent[1][1])
        last.result(STUDY)
        last.components(STUDY)
    assert curator.process.wait(timeout=WAIT_S) == -9

    curator.start()
    for owner, release in sent:
        curator.party(owner).contribute(release)
        assert curator.party(owner).contribute(release).already_stored
    answer = curator.party("owner-1").result(STUDY)
    assert state_from_wire(answer.state) is StudyState.DECOMPOSED
    content = curator.party("owner-2").components(STUDY)
    result = result_from_bytes(content, STUDY)
    expected = sent[0][1].packed + sent[1][1].packed
    assert (result.pooled == expected).all()
    blobs = {path.name for path in (curator.state / "blobs").iterdir()}
    shares = {share.payload_sha256 for share in result.header.shares}
    assert blobs == shares | {answer.sha256.hex()}


def test_sigterm_finishes_what_runs_and_answers_who_waits(curator: Curator) -> None:
    curator.start("-P", "-c", PATIENT, "serve")
    curator.operator().create(STUDY)
    owner, waiting = curator.party("owner-1"), curator.party("owner-2")
    release = make_release(STUDY)
    stopping, ends = threading.Event(), []

    def slowly() -> Iterator[pb.ContributeRequest]:
        parts = list(upload(header_of(release), release.payload(), chunk_bytes=8))
        yield from parts[:3]
        assert stopping.wait(WAIT_S)
        yield from parts[3:]

    def send() -> None:
        ends.append(owner.send(slowly()).already_stored)

    def wait() -> None:
        try:
            waiting.result(STUDY)
        except grpc.RpcError as error:
            ends.append(type(from_rpc_error(error)).__name__)

    threads = [threading.Thread(target=target) for target in (send, wait)]
    for thread in threads:
        thread.start()
    # Whether its call came before or after the signal, the answer is the same.
    wait_until(lambda: len(list((curator.state / "incoming").iterdir())) == 1)
    curator.process.terminate()
    wait_until(lambda: "UnreachableError" in ends)  # who waits is answered while the upload goes on
    stopping.set()
    assert curator.process.wait(WAIT_S) == 0
    for thread in threads:
        thread.join()
    assert sorted(ends, key=str) == [False, "UnreachableError"]
    curator.start()
    assert list(curator.party("owner-1").result(STUDY, wait_s=0).contributed) == ["owner-1"]


def test_a_slow_upload_at_the_stop_leaves_no_traceback_and_may_come_again(
    curator: Curator,
) -> None:
    curator.start("-P", "-c", HASTY, "serve")
    curator.operator().create(STUDY)
    owner, release = curator.party("owner-1"), make_release(STUDY)
    over, ends = threading.Event(), []

    def slowly() -> Iterator[pb.ContributeRequest]:
        yield from list(upload(header_of(release), release.payload(), chunk_bytes=8))[:3]
        over.wait(WAIT_S)

    def send() -> None:
        with pytest.raises(grpc.RpcError) as failed:
            owner.send(slowly())
        ends.append(type(from_rpc_error(failed.value)).__name__)

    sending = threading.Thread(target=send)
    sending.start()
    wait_until(lambda: len(list((curator.state / "incoming").iterdir())) == 1)
    assert curator.terminate() == 0
    over.set()
    sending.join()
    assert ends == ["UnreachableError"]
    assert "Traceback" not in curator.log.read_text()
    curator.start()
    assert not curator.party("owner-1").contribute(release).already_stored


def test_an_upload_that_is_cut_off_leaves_nothing(curator: Curator) -> None:
    curator.start()
    curator.operator().create(STUDY)
    owner, release = curator.party("owner-1"), make_release(STUDY)
    parts = list(owner.signed(upload(header_of(release), release.payload(), chunk_bytes=8)))
    cut = threading.Event()

    def half() -> Iterator[pb.ContributeRequest]:
        yield from parts[: len(parts) // 2]
        cut.wait(WAIT_S)

    call = owner.federation.Contribute.future(half(), timeout=WAIT_S)
    wait_until(lambda: list((curator.state / "incoming").iterdir()))
    call.cancel()
    cut.set()
    curator.until_nothing_arrives()
    assert not curator.party("owner-1").contribute(release).already_stored


@pytest.fixture
def hub(curator: Curator) -> MaskedHub:
    return MaskedHub(curator.start())


def go_on(sites: MaskedSites) -> None:
    """All that is still to be done, by all owners and three of four openers."""
    sites.contribute()
    sites.until_sealed()
    for opener in sites.openers[1:]:
        opener.vote()
    for opener in sites.openers[1:]:
        if opener.ask().wanted:
            opener.open()
    assert state_from_wire(sites.wait().state) is StudyState.DECOMPOSED


MASKED_STEPS = (
    "receive",
    "commit",
    "seal",
    "sealed",
    "vote",
    "opening",
    "opened",
    "result",
    "serve",
)


@pytest.mark.parametrize("step", MASKED_STEPS)
def test_a_curator_that_is_killed_goes_on_with_the_same_set(step: str, hub: MaskedHub) -> None:
    curator, sites = hub.curator, hub.join(4, 4, spares=1, name="killed")
    sites.contribute("owner-1", "owner-2", "owner-3")
    curator.terminate()
    curator.start(fault=f"kill@{step}")
    hub.reconnect(sites)
    with suppress(grpc.RpcError):
        go_on(sites)
    assert curator.process.wait(timeout=WAIT_S) == -9

    curator.start()
    hub.reconnect(sites)
    go_on(sites)  # an opener refuses any set but the one that it has voted for
    for owner in sites.sites.values():
        assert owner.contribute().already_stored
    content = sites.openers[0].party.components(sites.study)
    result = result_from_bytes(content, sites.study)
    np.testing.assert_array_equal(result.pooled, noised_sum(sites.made, sites.study.owners))
    blobs = {path.name for path in (curator.state / "blobs").iterdir()}
    uploads = {share.payload_sha256 for share in result.header.shares}
    assert uploads < blobs
    assert len(blobs) == len(uploads) + 2 + 1, "two openings, one result"
    curator.until_nothing_arrives()
