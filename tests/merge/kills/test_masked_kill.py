"""A curator that is killed while it seals a set or takes openings goes on with the same set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import numpy as np
import pytest

from dppca.common.attestation.results import result_from_bytes
from dppca.common.documents.messages import StudyState
from dppca.common.transport.codec import state_from_wire
from tests.support.curator import Curator
from tests.support.federations import MaskedHub, MaskedSites
from tests.support.masked import noised_sum
from tests.support.patience import WAIT_S


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
