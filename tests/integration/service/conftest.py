"""One daemon for the tests of a module; each test has studies of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from common.conversation import StudyState
from common.study import Study
from common.transport.codec import state_from_wire
from tests.support.daemon import Hub
from tests.support.hub import (
    Party,
    make_release,
    make_study,
)
from tests.support.service import OWNERS, ledger_of


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One daemon for all tests of this module; each has studies of its own."""
    hub = Hub(tmp_path_factory.mktemp("hub")).start()
    yield hub
    hub.stop()


@pytest.fixture(scope="module")
def operator(hub: Hub) -> Party:
    return hub.operator()


@pytest.fixture(scope="module")
def owners(hub: Hub) -> dict[str, Party]:
    return {name: hub.party(name) for name in OWNERS}


@pytest.fixture
def study(operator: Party, request: pytest.FixtureRequest) -> Study:
    """A new open study."""
    study = make_study(name=f"s-{hashlib.sha256(request.node.name.encode()).hexdigest()[:20]}")
    operator.create(study)
    return study


@pytest.fixture
def finished(study: Study, owners: dict[str, Party]) -> Study:
    """A new study that all owners have contributed to, and that is decomposed."""
    for seed, owner in enumerate(OWNERS):
        owners[owner].contribute(make_release(study, seed=seed), ledger_length=ledger_of(owner))
    assert state_from_wire(owners["owner-1"].result(study).state) is StudyState.DECOMPOSED
    return study
