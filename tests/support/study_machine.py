"""Common part of random state machines on a study: record, clock, laws of its states."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.study import Study, Trust
from dppca.curator.study import lifecycle
from dppca.curator.study.lifecycle import TRANSITIONS, NextAction
from dppca.curator.study.study_record import StoredResult, StudyRecord

START = datetime(2026, 5, 1, tzinfo=UTC)


class StudyMachine(RuleBasedStateMachine):
    """Steps of a curator and an operator; a test adds legal and illegal steps of the others."""

    study: Study

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.record = lifecycle.create(None, self.study, now=START)
        self.earlier = [self.record]

    def attempt(self, step: Callable[[StudyRecord], StudyRecord]) -> None:
        with suppress(DppcaError):
            self.record = step(self.record)
        self.earlier.append(self.record)

    @property
    def last_two(self) -> list[StudyRecord]:
        """The record before the last step, and the present one."""
        return [self.earlier[-2:][0], self.record]

    def set_digest(self) -> bytes:
        raise NotImplementedError

    @rule()
    def the_curator_looks_at_the_clock(self) -> None:
        taken, now = self.record.contributions, self.now
        match lifecycle.next_action(self.record, now=now):
            case NextAction.SEAL:
                digest = self.set_digest()
                self.attempt(lambda r: lifecycle.seal(r, taken, digest, now=now))
                assert self.record.state is StudyState.SEALED
            case NextAction.DECOMPOSE:
                result = StoredResult(1, b"r" * 32, b"envelope")
                self.attempt(lambda r: lifecycle.decompose(r, taken, result, now=now))
                assert self.record.state is StudyState.DECOMPOSED
            case NextAction.ABORT:
                self.attempt(lambda r: lifecycle.abort_late(r, now=now))
                assert self.record.state is StudyState.ABORTED
            case NextAction.NOTHING:
                pass

    @rule()
    def the_operator_closes(self) -> None:
        self.attempt(lifecycle.close)

    @invariant()
    def states_change_by_the_table_only(self) -> None:
        moves = {(start, end) for (start, _), end in TRANSITIONS.items()}
        if self.study.trust is Trust.AGGREGATE:
            moves -= {(StudyState.OPEN, StudyState.DECOMPOSED)}
        old, new = (record.state for record in self.last_two)
        assert old == new or (old, new) in moves

    @invariant()
    def nothing_that_was_taken_is_lost_or_changed(self) -> None:
        old, new = self.last_two
        assert set(old.contributions) <= set(new.contributions)
        assert set(old.publications) <= set(new.publications)
        assert set(old.votes) <= set(new.votes)
        assert set(old.openings) <= set(new.openings)
        assert old.result in (None, new.result)

    @invariant()
    def a_result_is_there_from_decomposed_on(self) -> None:
        with_result = self.record.state in {StudyState.DECOMPOSED, StudyState.CLOSED}
        assert (self.record.result is not None) is with_result
        assert bool(self.record.reason) is (self.record.state is StudyState.ABORTED)
