"""An owner claims all of ``max_rows``: owners that come later were charged, and refused for ever.

A number of rows is an owner's own word, so room that all share belongs to whoever comes first. Now
each owner has a part of it by the study's document alone: what a site is told before it is charged
is what the curator says when it sends, whoever else has come.
"""

from datetime import UTC, datetime
from functools import cache
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import TooManyRowsError
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.curator.study import lifecycle
from dppca.curator.study.admission import contribute
from dppca.curator.study.study_record import Header, OwnerHistory, StudyRecord
from dppca.owner.ledger.chain import History
from dppca.owner.release.contribution import require_possible, review
from tests.support.census import header_of, make_release
from tests.support.examples import examples
from tests.support.ledgers import account_of
from tests.support.masked import N_ROWS, make_masked_release, make_masked_study
from tests.support.studies import make_study

NOW = datetime(2026, 5, 1, tzinfo=UTC)
STUDY = make_study(max_rows=10_000)
PART = 3333
OWNERS = STUDY.owners


@cache
def header(owner: str, n_rows: int) -> Header:
    return header_of(make_release(STUDY, seed=n_rows, n_rows=n_rows), owner)


def take(record: StudyRecord, said: Header) -> StudyRecord:
    noise = calibrate(record.study)
    return contribute(record, said, OwnerHistory(), calibration=noise, now=NOW)[0]


def refused_at_home(study: Study, n_rows: int) -> bool:
    """Whether a site with so many rows is told so before it is asked, and charged."""
    found = review(study, History(), n_rows=n_rows, account=account_of())
    try:
        require_possible(found, History(), StudyState.OPEN, now=NOW)
    except TooManyRowsError:
        return True
    return False


def test_who_claims_all_rows_is_refused_and_the_next_owner_is_taken() -> None:
    record = lifecycle.create(None, STUDY, now=NOW)
    with pytest.raises(TooManyRowsError, match=r"owner-1 has 9999 rows.*3333.*max_rows is 10000"):
        take(record, header("owner-1", 9_999))
    assert not refused_at_home(STUDY, 200)
    assert take(record, header("owner-2", 200)).contributed == ("owner-2",)


@pytest.mark.parametrize("order", list(permutations(OWNERS)))
def test_owners_that_each_bring_all_they_may_leave_the_last_one_its_part(
    order: tuple[str, ...],
) -> None:
    record = lifecycle.create(None, STUDY, now=NOW)
    for owner in order:
        record = take(record, header(owner, PART))
    assert record.complete
    assert record.n_rows <= STUDY.max_rows, "the range was computed for so many"


def test_masked_uploads_have_room_of_their_own_too() -> None:
    quorum = {"quorum": 3, "deadline": "2099-01-01T00:00:00+00:00"}
    for max_rows, fits in ((4 * N_ROWS, True), (4 * N_ROWS - 1, False)):
        made = make_masked_study(4, 2, max_rows=max_rows, **quorum)
        said = header_of(make_masked_release(made, "owner-4"), "owner-4")
        record = lifecycle.create(None, made.study, now=NOW)
        assert refused_at_home(made.study, N_ROWS) is not fits
        if fits:
            assert take(record, said).contributed == ("owner-4",)
        else:
            with pytest.raises(TooManyRowsError):
                take(record, said)


COMING = st.lists(
    st.tuples(st.sampled_from(OWNERS), st.sampled_from([1, 200, PART, PART + 1, 9_999])),
    unique_by=lambda each: each[0],
)


@settings(max_examples=examples(40))
@given(COMING)
def test_what_a_site_is_told_is_what_the_curator_says_whoever_came_before(
    coming: list[tuple[str, int]],
) -> None:
    record = lifecycle.create(None, STUDY, now=NOW)
    for owner, n_rows in coming:
        if refused_at_home(STUDY, n_rows):
            with pytest.raises(TooManyRowsError):
                take(record, header(owner, n_rows))
        else:
            record = take(record, header(owner, n_rows))
            assert owner in record.contributed
