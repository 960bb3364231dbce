"""A study changes while the daemon works on it, or on another: by an operator, an owner, an opener.

Whoever knows when a study is decomposed can time this: an enrolled owner whose own contribution
completes it, and an operator by chance.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.study import Study
from tests.support.interleavings import (
    DEADLINE,
    MASKED_STUDY,
    OPEN_BY,
    OPENERS,
    TICK_S,
    Job,
    SteppedCurator,
    plain_study,
)

FIRST, SECOND = plain_study("first"), plain_study("second")
ALL = FIRST.owners
TICK = timedelta(seconds=TICK_S)


@contextmanager
def one_tick_before(
    moment: datetime, folder: Path, begun: Mapping[Study, Sequence[str]]
) -> Iterator[SteppedCurator]:
    """A curator whose daemon looks at the newest study first; it is sound in the end, too."""
    with closing(SteppedCurator(folder, begun, now=moment - TICK)) as curator:
        yield curator
        curator.require_sound()
        curator.require_settled()


def begin_decomposition(curator: SteppedCurator) -> Job:
    """The job in which a complete study is decomposed; it has begun."""
    (job,) = curator.loop.jobs
    curator.loop.go_on(job)
    return job


def test_an_operator_aborts_a_study_while_it_is_decomposed(tmp_path: Path) -> None:
    with one_tick_before(DEADLINE, tmp_path, {FIRST: [], SECOND: ALL}) as curator:
        decomposing = begin_decomposition(curator)
        curator.abort(SECOND)
        curator.loop.work_off(but=decomposing)
        assert curator.record(SECOND).state is StudyState.ABORTED
        curator.contribute(FIRST, *ALL)
        curator.loop.work_off()
        assert curator.record(SECOND).reason == "no longer wanted"
        assert curator.record(FIRST).state is StudyState.DECOMPOSED


@pytest.mark.parametrize("before", [2, 1], ids=["the last owner", "a quorum"])
def test_owners_come_in_time_while_another_study_is_decomposed(tmp_path: Path, before: int) -> None:
    with one_tick_before(DEADLINE, tmp_path, {FIRST: ALL[:before], SECOND: ALL}) as curator:
        decomposing = begin_decomposition(curator)
        curator.contribute(FIRST, ALL[before])
        curator.loop.work_off(but=decomposing)
        curator.tick(DEADLINE)
        curator.loop.work_off()
        assert curator.record(FIRST).state is StudyState.DECOMPOSED
        assert curator.record(FIRST).contributed == ALL[: before + 1]


def test_a_quorum_is_being_stored_as_the_deadline_passes(tmp_path: Path) -> None:
    with one_tick_before(DEADLINE, tmp_path, {FIRST: ALL[:1]}) as curator:
        begin_to_store(curator, ALL[1])
        curator.tick(DEADLINE)
        assert len(curator.loop.jobs) == 2  # the other is to abort the study
        curator.loop.work_off()
        assert curator.record(FIRST).contributed == ALL[:2]
        assert curator.record(FIRST).state is StudyState.DECOMPOSED


def test_a_contribution_is_being_stored_as_the_others_are_pooled(tmp_path: Path) -> None:
    with one_tick_before(DEADLINE, tmp_path, {FIRST: ALL[:2]}) as curator:
        storing = begin_to_store(curator, ALL[2])
        curator.tick(DEADLINE)
        curator.loop.work_off(but=storing)
        curator.loop.work_off()
        assert curator.record(FIRST).contributed == ALL
        assert curator.record(FIRST).state is StudyState.DECOMPOSED


def test_an_operator_aborts_a_study_while_its_set_is_sealed(tmp_path: Path) -> None:
    begun = {FIRST: [], MASKED_STUDY: MASKED_STUDY.owners}
    with one_tick_before(DEADLINE, tmp_path, begun) as curator:
        (sealing,) = curator.loop.jobs
        curator.loop.go_on(sealing)
        curator.abort(MASKED_STUDY)
        curator.loop.work_off(but=sealing)
        curator.loop.work_off()
        assert curator.record(MASKED_STUDY).state is StudyState.ABORTED
        assert curator.record(MASKED_STUDY).sealing is None


def test_the_last_opening_is_being_stored_as_the_time_to_open_passes(tmp_path: Path) -> None:
    with one_tick_before(DEADLINE, tmp_path, {MASKED_STUDY: MASKED_STUDY.owners}) as curator:
        for step, openers in ((curator.vote, OPENERS[:3]), (curator.open, OPENERS[:1])):
            curator.loop.work_off()
            step(*openers)
        curator.loop.work_off()
        curator.tick(OPEN_BY - TICK)
        curator.open(OPENERS[-1])
        (storing,) = curator.loop.jobs
        curator.loop.go_on(storing)
        curator.tick(OPEN_BY)
        assert len(curator.loop.jobs) == 2  # the other is to abort the study
        curator.loop.work_off()
        assert curator.record(MASKED_STUDY).state is StudyState.DECOMPOSED


def begin_to_store(curator: SteppedCurator, owner: str) -> Job:
    """The job that stores a contribution to the first study; it has read the clock."""
    curator.contribute(FIRST, owner)
    (storing,) = curator.loop.jobs
    curator.loop.go_on(storing)
    return storing
