"""Whole studies on real containers, each with one fault; see `docs/reference/faults.md`."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.fault_injection.case import CaseOutcome
from tests.fault_injection.hosts import HOSTS, container_runtime
from tests.fault_injection.spec import parse_fault
from tests.fault_injection.suite import Suite
from tests.support.containers import IMAGE, require_images

CELLS = [
    "curator:disk-full@store:5s",
    "curator:kill@store",
    "owner-1:clock+2d@read",
    "owner-1:partition@send:5s",
    "owner-2:kill@draw",
    "owner-2:never",
    "owner-3:slow@send",
]
DEADLINE_S = 40.0


@pytest.fixture(scope="module")
def outcomes() -> Mapping[str, CaseOutcome]:
    require_images()
    matrix = Suite(container_runtime(IMAGE), hosts=HOSTS, deadline_s=DEADLINE_S)
    done = matrix.run([parse_fault(written) for written in CELLS])
    return {str(outcome.fault): outcome for outcome in done}


@pytest.mark.parametrize("written", CELLS)
def test_a_study_of_containers_with_a_fault_keeps_every_promise(
    written: str, outcomes: Mapping[str, CaseOutcome]
) -> None:
    outcome = outcomes[written]
    assert outcome.problems == ()
    assert outcome.end is outcome.expected.end
