"""Two studies at one curator, in every order of calls, of threads, of time and of a kill.

An example begins where something is about to happen: contributions are one short of enough, or
complete; the next tick of the clock is the deadline's, or not. Then some parties call, time passes,
an operator aborts, the daemon is killed. Between any two of these, jobs of the curator's threads
go on, in any order that threads may have. One event is tried with every order that departs once
from the usual; several, with orders by chance.

Reference: Emmi, Qadeer, Rakamaric, "Delay-bounded scheduling" (2011).
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.study import Study
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
LATER = plain_study("later", deadline=OPEN_BY)
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
SHORT = [situation for situation, come in SITUATIONS.items() if 1 in come.values()]
"""Where one more contribution makes a quorum."""
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


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a curator in a situation, for copies; made once."""

    @cache
    def make(situation: str) -> Path:
        folder = tmp_path_factory.mktemp("situation")
        SteppedCurator(folder, begun(situation)).close()
        return folder

    return make


def begun(situation: str) -> dict[Study, tuple[str, ...]]:
    """Studies, and who has contributed."""
    return {study: study.owners[:number] for study, number in SITUATIONS[situation].items()}


def play(
    prepared: Path, situation: str, events: Sequence[str], schedule: Sequence[int]
) -> list[int]:
    """Let events happen and jobs go on until there are none; how many ways each moment had.

    Parameters
    ----------
    prepared
        Folder of the situation.
    schedule
        Which way is taken: jobs, oldest first, then the next event. After its end always the first.
    """
    studies, waiting, turns, ways = begun(situation), [*events, "tick"], iter(schedule), list[int]()
    before = DEADLINE - timedelta(seconds=TICK_S)
    with TemporaryDirectory() as at, ExitStack() as stack:
        shutil.copytree(prepared, at, dirs_exist_ok=True)
        hub = stack.enter_context(closing(SteppedCurator(Path(at), studies, now=before)))
        if LATER in studies:
            begin_to_open(hub)
            hub.tick(OPEN_BY - timedelta(seconds=TICK_S))
        while n_ways := len(jobs := hub.loop.movable) + bool(waiting):
            ways.append(n_ways)
            turn = next(turns, 0) % n_ways
            if turn < len(jobs):
                hub.loop.go_on(jobs[turn])
            else:
                happen(hub, list(studies), waiting.pop(0))
            hub.require_sound()
        hub.require_settled()
    return ways


@pytest.mark.parametrize("event", ["comes 0", "comes 1", "abort 1"])
@pytest.mark.parametrize("situation", SHORT)
def test_at_every_moment_something_else_may_go_first(
    situation: str, event: str, prepared: Callable[[str], Path]
) -> None:
    for moment, n_ways in enumerate(play(prepared(situation), situation, [event], [])):
        for way in range(1, n_ways):
            play(prepared(situation), situation, [event], [*[0] * moment, way])


@pytest.mark.parametrize("situation", SITUATIONS)
@settings(max_examples=examples(30))
@given(
    events=st.lists(st.sampled_from(EVENTS), min_size=1, max_size=3),
    schedule=st.lists(st.integers(0, 11), max_size=16),
)
def test_whatever_comes_in_between_no_contribution_no_quorum_and_no_daemon_is_lost(
    situation: str, prepared: Callable[[str], Path], events: list[str], schedule: list[int]
) -> None:
    play(prepared(situation), situation, events, schedule)
