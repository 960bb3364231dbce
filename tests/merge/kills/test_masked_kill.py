"""A curator that is killed while it seals a set or takes openings goes on with the same set."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import numpy as np
import pytest

from dppca.common.messages import StudyState
from dppca.common.results import result_from_bytes
from dppca.common.transport.codec import state_from_wire
from dppca.common.wire import federation_pb2 as pb
from tests.support.callers import refused
from tests.support.curator import Curator
from tests.support.federations import MaskedHub, MaskedSites
from tests.support.masked import noised_sum
from tests.support.patience import WAIT_S, wait_until


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[MaskedHub]:
    curator = Curator(tmp_path)
    curator.start()
    yield MaskedHub(curator)
    curator.stop()


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


STEPS = ("receive", "commit", "seal", "sealed", "vote", "opening", "opened", "result", "serve")


@pytest.mark.parametrize("step", STEPS)
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


def test_a_set_stays_sealed_through_a_kill_and_takes_nobody_more(hub: MaskedHub) -> None:
    curator, sites = hub.curator, hub.join(name="stays")
    sites.contribute()
    sites.until_sealed()
    first, second = sites.openers
    shown, opening = first.shown(), first.make_opening().to_bytes()
    first.party.open(sites.study, opening=opening)
    curator.kill()
    curator.start()
    hub.reconnect(sites)
    assert first.shown() == shown
    assert first.party.open(sites.study, opening=opening).already_stored
    assert refused(lambda: sites["owner-3"].contribute(seed=1))[1] == "ConflictError"
    assert list(sites.wait(wait_s=0).missing_openers) == [second.name]
    second.open()
    assert state_from_wire(sites.wait().state) is StudyState.DECOMPOSED


def test_an_opening_that_is_cut_off_leaves_nothing(hub: MaskedHub) -> None:
    curator, sites = hub.curator, hub.join(name="cut-off")
    sites.contribute()
    sites.until_sealed()
    first, second = sites.openers
    content = first.make_opening().to_bytes()
    incoming, cut = curator.state / "incoming", threading.Event()

    def most_of_it() -> Iterator[pb.OpenRequest]:
        header = pb.OpenHeader(
            study_digest=bytes.fromhex(sites.study.digest),
            total_bytes=len(content),
            sha256=hashlib.sha256(content).digest(),
        )
        yield pb.OpenRequest(header=header)
        for at in range(0, len(content) - 8, 8):
            yield pb.OpenRequest(chunk=pb.Chunk(offset=at, content=content[at : at + 8]))
        cut.wait(WAIT_S)

    call = first.party.federation.Open.future(most_of_it(), timeout=WAIT_S)
    wait_until(lambda: list(incoming.iterdir()) != [])
    call.cancel()
    cut.set()
    wait_until(lambda: list(incoming.iterdir()) == [])
    assert list(sites.wait(wait_s=0).missing_openers) == [first.name, second.name]
    assert not first.party.open(sites.study, opening=content).already_stored
    second.open()
    assert state_from_wire(sites.wait().state) is StudyState.DECOMPOSED
