"""The list is bounded, nobody crowds out another, and no word of a caller is in it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.errors import ConflictError, LimitError, StudyStateError
from dppca.curator.service.recent_refusals import MOST, MOST_PER_PARTY, RecentRefusals

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
HOSTILE = "<script>a word of the caller</script>"


@pytest.fixture
def refusals() -> RecentRefusals:
    return RecentRefusals(lambda: NOW)


def test_the_same_refusal_again_is_counted_and_newest(refusals: RecentRefusals) -> None:
    for error in (LimitError(HOSTILE), ConflictError(), LimitError()):
        refusals.add(error, party="owner:a", study="census", method="Contribute")
    assert [(each.error, each.times) for each in refusals.newest()] == [
        ("LimitError", 2),
        ("ConflictError", 1),
    ]
    assert all(each.time_s == NOW.timestamp() for each in refusals.newest())
    assert refusals.since_s == NOW.timestamp()
    assert [HOSTILE in repr(each) for each in refusals.newest()] == [False, False]
    assert refusals.newest()[0].sentence == LimitError.public, "not the error's own text"
    refusals.add(LimitError(), party="owner:a", study="heart", method="Contribute")
    assert [each.study for each in refusals.newest("heart")] == ["heart"]


def test_a_party_with_many_refusals_keeps_the_newest_of_its_own(refusals: RecentRefusals) -> None:
    refusals.add(ConflictError(), party="owner:quiet", study="census", method="Contribute")
    for number in range(10 * MOST_PER_PARTY):
        refusals.add(LimitError(), party="owner:loud", study=f"s-{number}", method="Contribute")
    found = refusals.newest()
    assert sum(each.party == "owner:quiet" for each in found) == 1
    loud = {each.study for each in found if each.party == "owner:loud"}
    assert loud == {f"s-{number}" for number in range(9 * MOST_PER_PARTY, 10 * MOST_PER_PARTY)}
    assert refusals.dropped == 9 * MOST_PER_PARTY


CALLS = st.tuples(
    st.integers(0, 60), st.integers(0, 30), st.sampled_from([LimitError, ConflictError])
)


@given(st.lists(CALLS))
def test_it_never_holds_more_than_it_may(calls: list[tuple[int, int, type]]) -> None:
    refusals = RecentRefusals(lambda: NOW)
    refusals.add(StudyStateError(), party="owner:first", study="", method="Open")
    for party in range(MOST // 10):  # full, by many parties with few each
        for study in range(10):
            refusals.add(LimitError(), party=f"owner:{party}", study=f"{study}", method="Open")
    for party, study, kind in calls:
        refusals.add(kind(), party=f"owner:{party}", study=f"{study}", method="Contribute")
    found = refusals.newest()
    assert len(found) <= MOST
    for party in {each.party for each in found}:
        assert sum(each.party == party for each in found) <= MOST_PER_PARTY
    # Whoever has few is not the one that gives way.
    assert any(each.party == "owner:first" for each in found)
