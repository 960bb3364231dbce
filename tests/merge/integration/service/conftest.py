"""One daemon for the tests of a module; each test has studies of its own."""

from __future__ import annotations

import pytest

from dppca.common.documents.messages import StudyState
from dppca.common.study import Study
from dppca.common.transport.codec import state_from_wire
from tests.support.callers import OWNERS
from tests.support.census import make_release
from tests.support.curator import Curator
from tests.support.party import Party


@pytest.fixture(scope="module")
def operator(curator: Curator) -> Party:
    return curator.operator()


@pytest.fixture(scope="module")
def owners(curator: Curator) -> dict[str, Party]:
    return {name: curator.party(name) for name in OWNERS}


@pytest.fixture
def study(curator: Curator) -> Study:
    """A new open study."""
    return curator.begin(*OWNERS)


@pytest.fixture
def finished(study: Study, owners: dict[str, Party]) -> Study:
    """A new study that all owners have contributed to, and that is decomposed."""
    for seed, owner in enumerate(OWNERS):
        owners[owner].contribute_next(make_release(study, seed=seed))
    assert state_from_wire(owners["owner-1"].result(study).state) is StudyState.DECOMPOSED
    return study
