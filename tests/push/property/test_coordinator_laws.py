"""Two studies at one curator, in every order of calls, of threads, of time and of a kill.

An example begins where something is about to happen: contributions are one short of enough, or
complete; the next tick of the clock is the deadline's, or not. Then some parties call, time passes,
an operator aborts, the daemon is killed. Between any two of these, jobs of the curator's threads
go on, in any order that threads may have.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.study import Study
from tests.support.examples import examples
from tests.support.interleavings import (
    DEADLINE,
    MASKED_STUDY,
    OPEN_BY,
    OPENERS,
    TICK_S,
    SteppedCurator,
    plain_study,
)

PLAIN, OTHER = plain_study("plain"), plain_study("other")
LATER = plain_study("later", deadline=OPEN_BY.isoformat())
SITUATIONS: dict[str, dict[Study, int]] = {
    "both one short of enough": {PLAIN: 1, OTHER: 1},
    "both one short of all": {PLAIN: 2, OTHER: 2},
    "one complete": {PLAIN: 1, OTHER: 3},
    "both complete": {PLAIN: 3, OTHER: 3},
    "masked one short of enough": {MASKED_STUDY: 3, OTHER: 1},
    "masked complete": {PLAIN: 2, MASKED_STUDY: 5},
    "one opening short": {LATER: 1, MASKED_STUDY: 5},
}
"""How many owners have contributed to each of two studies, of whom two, or four, are enough."""
EVENTS = [*("comes 0", "comes 1") * 3, "abort 0", "abort 1", "kill", "tick"]


def begin_to_open(curator: SteppedCurator) -> None:
    """Where all have contributed to the masked study: votes, and all openings but the last."""
    for step, openers in ((curator.vote, OPENERS[:3]), (curator.open, OPENERS[:1])):
        curator.loop.work_off()
        step(*openers)
    curator.loop.work_off()


def happen(hub: SteppedCurator, pair: Sequence[Study], event: str) -> None:
    """One thing that somebody does, or that time does."""
    what, _, which = event.partition(" ")
    study = pair[int(which or 0)]
    if what == "comes" and hub.record(study).sealing is not None:
        hub.vote(*OPENERS[-1:])
        hub.open(*OPENERS[-1:])
    elif what == "comes":
        hub.contribute(study, *(hub.record(study).missing or study.owners)[:1])
    elif what == "abort":
        hub.abort(study)
    elif what == "kill":
        hub.restart()
    else:
        hub.tick()


@pytest.mark.parametrize("situation", SITUATIONS)
@settings(max_examples=examples(30))
@given(
    events=st.lists(st.sampled_from(EVENTS), min_size=1, max_size=3),
    schedule=st.lists(st.integers(0, 11), max_size=16),
)
def test_whatever_comes_in_between_no_contribution_no_quorum_and_no_daemon_is_lost(
    situation: str, events: list[str], schedule: list[int]
) -> None:
    come, waiting, turns = SITUATIONS[situation], [*events, "tick"], iter(schedule)
    begun = {study: study.owners[:number] for study, number in come.items()}
    before = DEADLINE - timedelta(seconds=TICK_S)
    with TemporaryDirectory() as at, closing(SteppedCurator(Path(at), begun, now=before)) as hub:
        if LATER in begun:
            begin_to_open(hub)
            hub.tick(OPEN_BY - timedelta(seconds=TICK_S))
        while (jobs := hub.loop.movable) or waiting:
            turn = next(turns, 0) % (len(jobs) + bool(waiting))
            if turn < len(jobs):
                hub.loop.go_on(jobs[turn])
            else:
                happen(hub, list(begun), waiting.pop(0))
            hub.require_sound()
        hub.require_settled()
