"""Two studies at one curator, in every order of calls, of threads, of time and of a kill.

An example begins where something is about to happen: contributions are one short of enough, or
complete; the next tick of the clock is the deadline's, or not. Then some parties call, time passes,
an operator aborts, the daemon is killed. Between any two of these, jobs of the curator's threads
go on, in any order that threads may have.
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

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
PAIRS = {
    "plain, other": (PLAIN, OTHER),
    "plain, masked": (PLAIN, MASKED_STUDY),
    "masked, plain": (MASKED_STUDY, PLAIN),
}
EVENTS = ["contribute 0", "contribute 1", "open", "abort 0", "abort 1", "kill", "tick"]
COME = st.sampled_from(["quorum less one", "quorum", "all less one", "all"])


def some(study: Study, come: str) -> tuple[str, ...]:
    """Owners that have contributed when an example begins."""
    number = study.needed if come.startswith("quorum") else len(study.owners)
    return study.owners[: number - come.endswith("less one")]


def begin_to_open(curator: SteppedCurator) -> None:
    """Where all have contributed to the masked study: votes, and all openings but the last."""
    for step, openers in ((curator.vote, OPENERS[:3]), (curator.open, OPENERS[:1])):
        curator.loop.work_off()
        step(*openers)
    curator.loop.work_off()


def happen(hub: SteppedCurator, pair: tuple[Study, Study], event: str) -> None:
    """One thing that somebody does, or that time does."""
    what, _, which = event.partition(" ")
    study = pair[int(which or 0)]
    if what == "contribute":
        missing = hub.record(study).missing
        hub.contribute(study, *(missing or study.owners)[:1])
    elif what == "open":
        hub.vote(*OPENERS[-1:])
        hub.open(*OPENERS[-1:])
    elif what == "abort":
        hub.abort(study)
    elif what == "kill":
        hub.restart()
    else:
        hub.tick()


@settings(max_examples=examples(200))
@given(
    names=st.sampled_from(sorted(PAIRS)),
    come=st.tuples(COME, COME),
    nearly=st.sampled_from([DEADLINE, OPEN_BY]),
    events=st.lists(st.sampled_from(EVENTS), min_size=1, max_size=4),
    schedule=st.lists(st.integers(0, 11), max_size=20),
)
def test_whatever_comes_in_between_no_contribution_no_quorum_and_no_daemon_is_lost(
    names: str,
    come: tuple[str, str],
    nearly: datetime,
    events: list[str],
    schedule: list[int],
) -> None:
    pair, waiting, turns = PAIRS[names], [*events, "tick"], iter(schedule)
    begun = {study: some(study, said) for study, said in zip(pair, come, strict=True)}
    before = DEADLINE - timedelta(seconds=TICK_S)
    with (
        TemporaryDirectory() as name,
        closing(SteppedCurator(Path(name), begun, now=before)) as hub,
    ):
        if nearly is OPEN_BY:
            begin_to_open(hub)
            hub.tick(OPEN_BY - timedelta(seconds=TICK_S))
        while (jobs := hub.loop.movable) or waiting:
            turn = next(turns, 0) % (len(jobs) + bool(waiting))
            if turn < len(jobs):
                hub.loop.go_on(jobs[turn])
            else:
                happen(hub, pair, waiting.pop(0))
            hub.require_sound()
        hub.require_settled()
