"""Whole studies on real containers, each with one fault; see `docs/reference/faults.md`."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import pytest

from dppca.deploy.containers.removal import LABEL_PROCESS
from tests.fault_injection.case import CaseOutcome
from tests.fault_injection.hosts import HOSTS, container_runtime
from tests.fault_injection.spec import parse_fault
from tests.fault_injection.suite import Suite
from tests.support.containers import IMAGE, docker, require_images

pytestmark = pytest.mark.containers

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


def test_nothing_is_left_on_the_engine(outcomes: Mapping[str, CaseOutcome]) -> None:
    assert outcomes
    for what in ("container", "network", "volume"):
        flags = ("--all",) if what == "container" else ()
        listed = docker(what, "ls", *flags, "--quiet", "--filter", f"label={_own_label()}")
        assert listed.stdout == "", what


def _own_label() -> str:
    """Everything that this process made carries it."""
    return f"{LABEL_PROCESS}={socket.gethostname()}:{os.getpid()}"
