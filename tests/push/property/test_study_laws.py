"""Whatever owners, operators and clocks do, in any order: the laws of a study hold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dppca.common.errors import DppcaError
from dppca.common.messages import Form, Header, StudyState
from dppca.common.privacy.release import calibrate
from dppca.curator.study import lifecycle
from dppca.curator.study.admission import (
    SyntheticHeader,
    UploadDecision,
    admit,
    contribute,
    publish,
)
from dppca.curator.study.lifecycle import TRANSITIONS, NextAction
from dppca.curator.study.study_record import OwnerHistory, StoredBlob, StudyRecord
from tests.support.census import header_of, make_release
from tests.support.examples import examples
from tests.support.studies import make_study

START = datetime(2026, 5, 1, tzinfo=UTC)
STUDY = make_study(quorum=2, deadline=(START + timedelta(hours=4)).isoformat(), max_rows=3000)
NOISE = calibrate(STUDY)
OWNERS = st.sampled_from([*STUDY.owners, "stranger"])


@cache
def release_header(seed: int, n_rows: int) -> Header:
    return header_of(make_release(STUDY, seed=seed, n_rows=n_rows))


class AnyOrder(RuleBasedStateMachine):
    """Steps by anybody, legal or not."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.record = lifecycle.create(None, STUDY, now=START)
        self.earlier = [self.record]

    def attempt(self, step: Callable[[StudyRecord], StudyRecord]) -> None:
        try:
            after = step(self.record)
        except DppcaError:
            after = self.record
        self.record = after
        self.earlier.append(after)

    @rule(hours=st.integers(0, 3))
    def time_passes(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    @rule(owner=OWNERS, seed=st.integers(0, 3), n_rows=st.sampled_from([0, 500, 1200]))
    def somebody_contributes(self, owner: str, seed: int, n_rows: int) -> None:
        header = release_header(seed, n_rows)
        self.attempt(
            lambda r: contribute(r, owner, header, OwnerHistory(), calibration=NOISE, now=self.now)[
                0
            ]
        )

    @rule()
    def the_curator_looks_at_the_clock(self) -> None:
        match lifecycle.next_action(self.record, now=self.now):
            case NextAction.DECOMPOSE:
                taken, result = self.record.contributions, StoredBlob(1, b"r" * 32)
                self.attempt(lambda r: lifecycle.decompose(r, taken, result, now=self.now))
                assert self.record.state is StudyState.DECOMPOSED
            case NextAction.ABORT:
                self.attempt(lambda r: lifecycle.abort_late(r, now=self.now))
                assert self.record.state is StudyState.ABORTED
            case NextAction.NOTHING:
                pass

    @rule(owner=OWNERS, form=st.sampled_from(Form), digest=st.sampled_from([b"a", b"b"]))
    def somebody_publishes(self, owner: str, form: Form, digest: bytes) -> None:
        header = SyntheticHeader(self.record.digest, form, 3, 9, digest * 32, b"r" * 32)
        self.attempt(lambda r: publish(r, owner, header, now=self.now)[0])

    @rule()
    def the_operator_closes(self) -> None:
        self.attempt(lifecycle.close)

    @rule()
    def the_operator_aborts(self) -> None:
        self.attempt(lambda r: lifecycle.abort(r, "enough"))

    @invariant()
    def states_change_by_the_table_only(self) -> None:
        moves = {(start, end) for (start, _), end in TRANSITIONS.items()}
        states = [record.state for record in self.earlier[-2:]]
        assert states[0] == states[-1] or (states[0], states[-1]) in moves

    @invariant()
    def nothing_that_was_taken_is_lost_or_changed(self) -> None:
        if len(self.earlier) > 1:
            old, new = self.earlier[-2:]
            assert set(old.contributions) <= set(new.contributions)
            assert set(old.publications) <= set(new.publications)
            assert old.result in (None, new.result)

    @invariant()
    def contributions_are_one_each_of_named_owners_within_the_rows(self) -> None:
        record = self.record
        assert list(record.contributed) == sorted(set(record.contributed))
        assert set(record.contributed) <= set(STUDY.owners)
        assert all(each.n_rows <= STUDY.rows_per_owner for each in record.contributions)
        assert record.n_rows <= STUDY.max_rows
        assert {*record.contributed, *record.missing} == set(STUDY.owners)

    @invariant()
    def rows_are_of_owners_that_took_part(self) -> None:
        keys = [(p.owner, p.form.value) for p in self.record.publications]
        assert keys == sorted(set(keys))
        assert {owner for owner, _ in keys} <= set(self.record.contributed)

    @invariant()
    def what_was_taken_is_acknowledged_again(self) -> None:
        for taken in self.record.contributions:
            header = next(
                release_header(seed, taken.n_rows)
                for seed in range(4)
                if release_header(seed, taken.n_rows).sha256 == taken.sha256
            )
            verdict = admit(
                self.record, taken.owner, header, OwnerHistory(), calibration=NOISE, now=self.now
            )
            assert verdict is UploadDecision.ALREADY_STORED

    @invariant()
    def a_result_is_there_from_decomposed_on(self) -> None:
        with_result = self.record.state in {StudyState.DECOMPOSED, StudyState.CLOSED}
        assert (self.record.result is not None) is with_result
        assert bool(self.record.reason) is (self.record.state is StudyState.ABORTED)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=examples(100), stateful_step_count=30)
