"""An opener sends a sum for each of its streams, and the curator stored each, as large as a vector.

With a thousand streams that is a thousand vectors of one opener. Now an opening has all streams
that are wanted of its opener, so there is one.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations

import pytest

from dppca.curator.study.openings import OpeningDecision, store_opening
from dppca.curator.study.sealed_set import is_opened, wanted_streams
from dppca.curator.study.study_record import StudyRecord
from tests.support.masked import NOW, MaskedRecords, header_for, make_masked_study

SPARE = MaskedRecords(make_masked_study(5, 5, spares=1))
"""Ten streams, of which each opener holds six."""
HELD = SPARE.terms.held("owner-1")


@cache
def send(record: StudyRecord, opener: str, streams: tuple[int, ...]) -> StudyRecord:
    """The study after an opening of these streams; as it was where it is not stored."""
    opening = SPARE.opening(opener, streams)
    header, said = header_for(SPARE.made, opening), opening.without_total()
    after, verdict = store_opening(record, opener, header, said, now=NOW)
    assert (verdict is OpeningDecision.ACCEPT) is (after is not record)
    return after


def one_stream_each() -> Iterator[tuple[int, ...]]:
    return combinations(HELD, 1)


def all_but_one() -> Iterator[tuple[int, ...]]:
    return combinations(HELD, len(HELD) - 1)


def pairs() -> Iterator[tuple[int, ...]]:
    return combinations(HELD, 2)


def halves() -> Iterator[tuple[int, ...]]:
    yield from (HELD[:3], HELD[3:])


@pytest.mark.parametrize("attack", [one_stream_each, all_but_one, pairs, halves])
@pytest.mark.parametrize("other_came", [False, True], ids=["first", "second"])
def test_an_opener_stores_one_sum_whatever_it_sends(
    attack: Callable[[], Iterator[tuple[int, ...]]], *, other_came: bool
) -> None:
    record = SPARE.voted
    if other_came:
        record = send(record, "owner-2", SPARE.terms.held("owner-2"))
    wanted = wanted_streams(record, "owner-1")
    for streams in attack():
        if streams != wanted:
            assert send(record, "owner-1", streams) is record
    record = send(record, "owner-1", wanted)
    assert [each.opener for each in record.openings].count("owner-1") == 1
    for streams in attack():
        assert send(record, "owner-1", streams).openings == record.openings


def test_what_an_attacker_left_the_others_open_as_before() -> None:
    record = SPARE.voted
    for streams in one_stream_each():
        record = send(record, "owner-1", streams)
    for opener in SPARE.terms.openers[1:]:
        if wanted := wanted_streams(record, opener):
            record = send(record, opener, wanted)
    assert is_opened(record)
    assert len(record.openings) <= len(SPARE.terms.openers)
