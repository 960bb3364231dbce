"""Whatever owners, operators and clocks do, in any order: the laws of a study hold."""

from datetime import timedelta
from functools import cache

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.privacy.release import calibrate
from dppca.curator.study import lifecycle
from dppca.curator.study.admission import (
    SyntheticHeader,
    UploadDecision,
    admit,
    contribute,
    publish,
)
from dppca.curator.study.study_record import Header, OwnerHistory
from tests.support.census import header_of, make_release
from tests.support.examples import examples
from tests.support.studies import make_study
from tests.support.study_machine import START, StudyMachine

STUDY = make_study(quorum=2, deadline=(START + timedelta(hours=4)).isoformat(), max_rows=3000)
NOISE = calibrate(STUDY)
OWNERS = st.sampled_from([*STUDY.owners, "stranger"])


@cache
def release_header(owner: str, seed: int, n_rows: int) -> Header:
    return header_of(make_release(STUDY, seed=seed, n_rows=n_rows), owner)


class AnyOrder(StudyMachine):
    """Steps by anybody, legal or not."""

    study = STUDY

    @rule(hours=st.integers(0, 3))
    def time_passes(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    @rule(owner=OWNERS, seed=st.integers(0, 3), n_rows=st.sampled_from([0, 500, 1200]))
    def somebody_contributes(self, owner: str, seed: int, n_rows: int) -> None:
        header = release_header(owner, seed, n_rows)
        self.attempt(
            lambda r: contribute(r, header, OwnerHistory(), calibration=NOISE, now=self.now)[0]
        )

    @rule(owner=OWNERS, form=st.sampled_from(Form), digest=st.sampled_from([b"a", b"b"]))
    def somebody_publishes(self, owner: str, form: Form, digest: bytes) -> None:
        header = SyntheticHeader(self.record.digest, form, 3, 9, digest * 32, b"r" * 32)
        self.attempt(lambda r: publish(r, owner, header, now=self.now)[0])

    @rule()
    def the_operator_aborts(self) -> None:
        self.attempt(lambda r: lifecycle.abort(r, "enough"))

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
            headers = (release_header(taken.owner, seed, taken.n_rows) for seed in range(4))
            header = next(each for each in headers if each.sha256 == taken.sha256)
            verdict = admit(self.record, header, OwnerHistory(), calibration=NOISE, now=self.now)
            assert verdict is UploadDecision.ALREADY_STORED


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=examples(100), stateful_step_count=30)
