"""One daemon for the tests of a module; each test has studies of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dppca.common.messages import StudyState
from dppca.common.study import Study
from dppca.common.transport.codec import state_from_wire
from tests.support.callers import OWNERS
from tests.support.census import make_release, make_study
from tests.support.curator import Curator
from tests.support.masked_sites import MaskedHub
from tests.support.party import Party


@pytest.fixture(scope="module")
def operator(curator: Curator) -> Party:
    return curator.operator()


@pytest.fixture(scope="module")
def owners(curator: Curator) -> dict[str, Party]:
    return {name: curator.party(name) for name in OWNERS}


@pytest.fixture(scope="module")
def hub(curator: Curator) -> MaskedHub:
    return MaskedHub(curator)


@pytest.fixture
def movable(tmp_path: Path) -> Iterator[Curator]:
    """A daemon of the test's own, for deadlines: its clock can be moved."""
    curator = Curator(tmp_path).start_with_clock()
    yield curator
    curator.stop()


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
        owners[owner].contribute_next(make_release(study, seed=seed))
    assert state_from_wire(owners["owner-1"].result(study).state) is StudyState.DECOMPOSED
    return study
