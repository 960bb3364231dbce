"""Whatever owners, openers, operators and clocks do, in any order: the laws of a masked study."""

import hashlib
from datetime import timedelta
from functools import cache

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.privacy.release import calibrate
from dppca.curator.study import lifecycle
from dppca.curator.study.admission import contribute
from dppca.curator.study.openings import store_opening, store_vote
from dppca.curator.study.sealed_set import is_opened, missing_openers, wanted_streams
from dppca.curator.study.study_record import Header, OwnerHistory
from tests.support.census import header_of
from tests.support.examples import examples
from tests.support.interleavings import MASKED, MASKED_STUDY, OPENERS, ballot, opening_of
from tests.support.masked import header_for
from tests.support.study_machine import StudyMachine

STUDY, NOISE = MASKED_STUDY, calibrate(MASKED_STUDY)
OWNERS = st.sampled_from([*STUDY.owners, "stranger"])
ANY_OPENER = st.sampled_from(OPENERS)


@cache
def release_header(owner: str) -> Header:
    release = MASKED.releases[owner if owner in STUDY.owners else "owner-1"]
    return header_of(release, owner)


@cache
def digest_of(owners: tuple[str, ...]) -> bytes:
    return bytes.fromhex(MASKED.shown("owner-1", owners).digest)


class AnyOrder(StudyMachine):
    """Steps by anybody, legal or not."""

    study = STUDY

    def set_digest(self) -> bytes:
        return digest_of(self.record.contributed)

    def chosen(self, whole: bool) -> tuple[str, ...]:
        """The owners of the sealed set, or of some other set of at least a quorum."""
        taken = self.record.contributed
        return (
            taken
            if whole and len(taken) >= STUDY.required_contributions
            else STUDY.owners[: STUDY.required_contributions]
        )

    @initialize(come=st.sampled_from([0, 3, 4, 5]), steps=st.integers(0, 3))
    def some_have_come(self, come: int, steps: int) -> None:
        """Begin further on: owners have contributed, the set is sealed, openers have voted."""
        self.owners_contribute(list(STUDY.owners[:come]))
        if come == len(STUDY.owners) and steps:
            self.the_curator_looks_at_the_clock()
            openers = list(OPENERS)
            for step in (self.openers_vote, self.openers_open_what_is_wanted)[: steps - 1]:
                step(openers)

    @rule(hours=st.sampled_from([0, 0, 1, 4]))
    def time_passes(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    @rule(owners=st.lists(OWNERS, max_size=5))
    def owners_contribute(self, owners: list[str]) -> None:
        for owner in owners:
            header = release_header(owner)
            self.attempt(
                lambda r, header=header: contribute(
                    r, header, OwnerHistory(), calibration=NOISE, now=self.now
                )[0]
            )

    @rule(openers=st.permutations(OPENERS), whole=st.sampled_from([True, True, False]))
    def openers_vote(self, openers: list[str], whole: bool = True) -> None:
        for opener in openers[:3]:
            content = ballot(opener, self.chosen(whole))
            self.attempt(
                lambda r, opener=opener, content=content: store_vote(
                    r, opener, content, now=self.now
                )
            )

    @rule(opener=ANY_OPENER, mask=st.integers(1, 7), whole=st.booleans())
    def somebody_opens(self, opener: str, mask: int, whole: bool) -> None:
        held = MASKED.terms.held(opener)
        streams = tuple(stream for place, stream in enumerate(held) if mask >> place & 1)
        opening = opening_of(opener, streams, self.chosen(whole))
        header = header_for(MASKED.made, opening)
        self.attempt(
            lambda r: store_opening(r, opener, header, opening.without_total(), now=self.now)[0]
        )

    @rule(openers=st.permutations(OPENERS))
    def openers_open_what_is_wanted(self, openers: list[str]) -> None:
        for opener in openers[:2]:
            if wanted := wanted_streams(self.record, opener):
                opening = opening_of(opener, wanted, self.record.contributed)
                header, said = header_for(MASKED.made, opening), opening.without_total()
                self.attempt(
                    lambda r, opener=opener, header=header, said=said: store_opening(
                        r, opener, header, said, now=self.now
                    )[0]
                )

    @rule(really=st.integers(0, 9))
    def the_operator_aborts(self, really: int) -> None:
        if really == 0:
            self.attempt(lambda r: lifecycle.abort(r, "enough"))

    @invariant()
    def a_set_is_sealed_once_with_a_quorum_and_stays(self) -> None:
        old, new = self.last_two
        if new.sealing is None:
            assert (new.votes, new.openings) == ((), ())
            assert new.state in {StudyState.OPEN, StudyState.ABORTED}
            return
        assert new.sealing.set_digest == digest_of(new.contributed)
        assert len(new.contributions) >= STUDY.required_contributions
        if old.sealing is not None:
            assert (old.sealing, old.contributions) == (new.sealing, new.contributions)

    @invariant()
    def each_stream_is_opened_once_and_each_opener_has_one_vote(self) -> None:
        new = self.record
        streams = [stream for opening in new.openings for stream in opening.streams]
        assert len(streams) == len(set(streams))
        assert not streams or len(new.votes) >= MASKED.terms.votes_needed
        assert [vote.opener for vote in new.votes] == sorted({vote.opener for vote in new.votes})

    @invariant()
    def a_result_is_there_once_every_stream_is_opened(self) -> None:
        record = self.record
        assert is_opened(record) or record.result is None
        waits = record.state is StudyState.SEALED and not is_opened(record)
        assert bool(missing_openers(record)) is waits

    @invariant()
    def the_very_same_opening_is_acknowledged(self) -> None:
        for stored in self.record.openings:
            opening = opening_of(stored.opener, stored.streams, self.record.contributed)
            header = header_for(MASKED.made, opening)
            assert hashlib.sha256(opening.to_bytes()).digest() == stored.message_sha256
            after, _ = store_opening(
                self.record, stored.opener, header, opening.without_total(), now=self.now
            )
            assert after is self.record


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=examples(100), stateful_step_count=30)
