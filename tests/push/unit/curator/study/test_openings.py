from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.aggregation.sum_messages import Opening, opening_limit
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import (
    ConflictError,
    DppcaError,
    LimitError,
    NotReadyError,
    PermissionDeniedError,
    SignatureError,
    StudyStateError,
    UploadError,
)
from dppca.common.kernel.signing import Purpose, sign
from dppca.curator.study import lifecycle
from dppca.curator.study.lifecycle import NextAction
from dppca.curator.study.openings import (
    OpeningDecision,
    OpeningHeader,
    admit_opening,
    store_opening,
    store_vote,
)
from dppca.curator.study.sealed_set import missing_openers, wanted_streams
from dppca.curator.study.study_record import StoredOpening, StoredVote, StudyRecord
from tests.support.masked import NOW, MaskedRecords, header_for, make_masked_study
from tests.support.studies import make_study

OPEN_BY = NOW + timedelta(days=1)
PLAIN = MaskedRecords(make_masked_study(open_by=OPEN_BY))
SPARE = MaskedRecords(make_masked_study(4, 4, spares=1, open_by=OPEN_BY))
FIRST, SECOND = (PLAIN.opening(each) for each in PLAIN.terms.openers)


def store(
    record: StudyRecord,
    opening: Opening,
    *,
    opener: str | None = None,
    now: datetime = NOW,
    of: MaskedRecords = PLAIN,
) -> tuple[StudyRecord, OpeningDecision]:
    header = header_for(of.made, opening)
    who = opener or opening.opener
    return store_opening(record, who, header, opening.without_total(), now=now)


def resigned(opening: Opening, of: MaskedRecords = PLAIN) -> Opening:
    return replace(
        opening, signature=sign(of.made.keys[opening.opener], Purpose.OPENING, opening.signed())
    )


def test_an_opening_is_kept_with_all_that_its_receipt_needs() -> None:
    record, verdict = store(PLAIN.sealed, FIRST)
    assert verdict is OpeningDecision.ACCEPT
    kept = StoredOpening(
        opener="owner-1",
        streams=(0,),
        n_bytes=len(FIRST.total),
        sha256=FIRST.without_total().total_sha256,
        signature=FIRST.signature,
        message_sha256=header_for(PLAIN.made, FIRST).sha256,
        received_s=int(NOW.timestamp()),
    )
    assert record == replace(PLAIN.sealed, openings=(kept,))
    assert missing_openers(record) == ("owner-2",)
    both, _ = store(record, SECOND)
    again, _ = store(store(PLAIN.sealed, SECOND)[0], FIRST)
    assert both == again, "whoever comes first"
    assert lifecycle.next_action(both, now=NOW) is NextAction.DECOMPOSE


@pytest.mark.parametrize("state", sorted(set(StudyState) - {StudyState.OPEN}))
def test_the_very_same_opening_is_acknowledged_in_every_state(state: StudyState) -> None:
    record = replace(store(PLAIN.sealed, FIRST)[0], state=state)
    late = OPEN_BY + timedelta(days=1)
    assert store(record, FIRST, now=late) == (record, OpeningDecision.ALREADY_STORED)
    header = header_for(PLAIN.made, FIRST)
    verdict = admit_opening(record, "owner-1", header, now=late)
    assert verdict is OpeningDecision.ALREADY_STORED


def test_the_same_sum_with_another_signature_is_the_same_opening() -> None:
    """Anybody can change a signature of ECDSA into a second valid one."""
    record, _ = store(PLAIN.sealed, FIRST)
    header = replace(header_for(PLAIN.made, FIRST), sha256=bytes(32))
    again = store_opening(record, "owner-1", header, FIRST.without_total(), now=NOW)
    assert again == (record, OpeningDecision.ALREADY_STORED)


WRONG: dict[str, tuple[Opening, type[DppcaError], str]] = {
    "a smaller set": (
        resigned(replace(FIRST, set_digest=PLAIN.shown("owner-1", ["owner-1", "owner-2"]).digest)),
        ConflictError,
        "another set or study",
    ),
    "no stream": (resigned(replace(FIRST, streams=())), UploadError, "names no stream"),
    "another's": (SECOND, UploadError, "an opening of owner-2 came from owner-1"),
}
"""What else is wrong with an opening alone is in `common/kernel/aggregation/test_pooling`."""


@pytest.mark.parametrize("what", WRONG)
def test_an_opening_that_does_not_fit_is_refused(what: str) -> None:
    opening, error, says = WRONG[what]
    before = PLAIN.sealed
    with pytest.raises(error, match=says):
        store(before, opening, opener="owner-1")
    assert before == PLAIN.sealed
    assert store(before, FIRST)[1] is OpeningDecision.ACCEPT


def test_rules_are_applied_in_their_order() -> None:
    """Each case breaks its own rule and all that come after it."""
    header = OpeningHeader(PLAIN.sealed.digest, b"", 1 << 40, bytes(32))
    aborted = lifecycle.abort(PLAIN.sealed, "enough")
    whole = StudyRecord(study=make_study(), state=StudyState.OPEN, created_s=0)
    cases: list[tuple[StudyRecord, str, OpeningHeader, type[DppcaError], str]] = [
        (whole, "nobody", header, StudyStateError, "has no masked contributions"),
        (PLAIN.complete, "owner-3", header, PermissionDeniedError, "owner-3 is not an opener"),
        (PLAIN.complete, "nobody", header, PermissionDeniedError, "not an owner"),
        (PLAIN.complete, "owner-1", header, NotReadyError, "is not sealed yet"),
        (aborted, "owner-1", header, StudyStateError, "was aborted: enough"),
        (PLAIN.sealed, "owner-1", header, LimitError, "are allowed"),
        (PLAIN.sealed, "owner-1", replace(header, total_bytes=8), UploadError, "is incomplete"),
        (
            PLAIN.sealed,
            "owner-1",
            replace(header, total_bytes=opening_limit(PLAIN.terms)),
            StudyStateError,
            "open_by",
        ),
    ]
    for record, who, said, error, message in cases:
        with pytest.raises(error, match=message):
            admit_opening(record, who, said, now=OPEN_BY)
    said = replace(header, total_bytes=opening_limit(PLAIN.terms))
    assert admit_opening(PLAIN.sealed, "owner-1", said, now=NOW) is OpeningDecision.ACCEPT
    record, _ = store(PLAIN.sealed, FIRST)
    assert admit_opening(record, "owner-1", said, now=NOW) is OpeningDecision.NOT_WANTED
    with pytest.raises(StudyStateError, match="open_by"):
        store(PLAIN.sealed, FIRST, now=OPEN_BY)
    for late in (PLAIN.complete, aborted):
        with pytest.raises(DppcaError, match=r"not sealed yet|was aborted"):
            store(late, FIRST)


def test_another_sum_of_the_same_streams_is_a_conflict() -> None:
    record = SPARE.opened(SPARE.voted, SPARE.opening("owner-1"))
    other = resigned(replace(SPARE.opening("owner-1"), total=bytes(8 * SPARE.terms.n_words)), SPARE)
    with pytest.raises(ConflictError, match="the same streams with another sum"):
        store(record, other, of=SPARE)


def test_what_somebody_else_has_opened_is_not_wanted_any_more() -> None:
    """Streams of four openers: 123, 124, 134, 234."""
    record = SPARE.opened(SPARE.voted, SPARE.opening("owner-2"))
    assert wanted_streams(record, "owner-1") == (2,)
    assert store(record, SPARE.opening("owner-1"), of=SPARE) == (record, OpeningDecision.NOT_WANTED)
    assert missing_openers(record) == ("owner-1", "owner-3", "owner-4")
    record = SPARE.opened(record, SPARE.opening("owner-1", (2,)))
    assert missing_openers(record) == ()
    assert lifecycle.next_action(record, now=NOW) is NextAction.DECOMPOSE


def test_nothing_is_wanted_before_enough_have_voted() -> None:
    record = SPARE.sealed
    for number, opener in enumerate(("owner-4", "owner-1", "owner-2")):
        assert wanted_streams(record, "owner-1") == ()
        assert len(missing_openers(record)) == 4 - number
        opening = SPARE.opening("owner-1")
        assert store(record, opening, of=SPARE) == (record, OpeningDecision.NOT_WANTED)
        content = SPARE.vote(opener).to_bytes()
        record = store_vote(record, opener, content, now=NOW)
        assert store_vote(record, opener, content, now=OPEN_BY) is record
    assert [vote.opener for vote in record.votes] == ["owner-1", "owner-2", "owner-4"]
    assert record.votes[2] == StoredVote(
        "owner-4", SPARE.vote("owner-4").to_bytes(), int(NOW.timestamp())
    )
    assert wanted_streams(record, "owner-1") == (0, 1, 2)
    assert wanted_streams(record, "owner-3") == (0, 2, 3), "who has not voted may open"


def test_a_vote_that_does_not_fit_is_refused() -> None:
    vote = SPARE.vote("owner-1")
    fewer = replace(vote, set_digest="0" * 64)
    other = MaskedRecords(make_masked_study(4, 4, spares=1, seed=1)).vote("owner-1")
    forged = replace(vote, signature=SPARE.vote("owner-2").signature)
    signed = replace(
        fewer, signature=sign(SPARE.made.keys["owner-1"], Purpose.VOTE, fewer.signed())
    )
    aborted = lifecycle.abort(SPARE.sealed, "enough")
    for record, content, now, error, says in (
        (SPARE.sealed, signed.to_bytes(), NOW, ConflictError, "another set"),
        (SPARE.sealed, forged.to_bytes(), NOW, SignatureError, "not signed"),
        (SPARE.sealed, SPARE.vote("owner-2").to_bytes(), NOW, UploadError, "came from owner-1"),
        (SPARE.sealed, other.to_bytes(), NOW, UploadError, "another study"),
        (SPARE.sealed, b"vote", NOW, UploadError, "not a signed vote"),
        (SPARE.sealed, vote.to_bytes() + b"x", NOW, UploadError, "too long"),
        (SPARE.sealed, vote.to_bytes(), OPEN_BY, StudyStateError, "open_by"),
        (SPARE.complete, vote.to_bytes(), NOW, NotReadyError, "not sealed yet"),
        (aborted, vote.to_bytes(), NOW, StudyStateError, "was aborted"),
        (PLAIN.sealed, vote.to_bytes(), NOW, UploadError, "without spares"),
    ):
        with pytest.raises(error, match=says):
            store_vote(record, "owner-1", content, now=now)
    done = replace(SPARE.voted, state=StudyState.DECOMPOSED)
    late = SPARE.vote("owner-4").to_bytes()
    assert store_vote(done, "owner-4", late, now=OPEN_BY) is done, "too late to matter"


@cache
def spare_opening(opener: str, streams: tuple[int, ...]) -> Opening:
    return SPARE.opening(opener, streams)


TRIES = st.sampled_from(
    [
        (opener, streams)
        for opener in SPARE.terms.openers
        for size in (1, 2, 3)
        for streams in combinations(SPARE.terms.held(opener), size)
    ]
)


@given(st.lists(TRIES, max_size=8))
def test_however_openers_come_every_stream_is_opened_once(
    tries: list[tuple[str, tuple[int, ...]]],
) -> None:
    record = SPARE.voted
    for opener, streams in tries:
        before = record
        record, verdict = store(before, spare_opening(opener, streams), of=SPARE)
        wanted = streams == wanted_streams(before, opener)
        assert (verdict is OpeningDecision.ACCEPT) is wanted
        assert (record != before) is wanted
    for opener in SPARE.terms.openers:
        if left := wanted_streams(record, opener):
            record = SPARE.opened(record, spare_opening(opener, left))
    opened = [stream for each in record.openings for stream in each.streams]
    assert sorted(opened) == list(range(len(SPARE.terms.holders)))
    openers = [each.opener for each in record.openings]
    assert len(set(openers)) == len(openers), "an opener stores one sum"
    assert lifecycle.next_action(record, now=NOW) is NextAction.DECOMPOSE
