from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.documents.messages import StudyState
from dppca.common.errors import BudgetExceededError, StudyStateError, TooManyRowsError
from dppca.common.numerics.forecast import largest_total_variance
from dppca.common.numerics.moments.moments import compute_moments, unpack
from dppca.common.privacy.accounting import Budget
from dppca.common.privacy.release import calibrate
from dppca.common.schema import encode
from dppca.common.study import Study, study_from_mapping
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.entries import Delivery, Reservation, commitment, time_text
from dppca.owner.release import contribution
from dppca.owner.release.contribution import (
    NextStep,
    decide_step,
    require_possible,
    review,
)
from dppca.owner.render.review import review_text
from tests.support.examples import examples
from tests.support.ledgers import BUDGET, NOW, account_of, history_of, request_of
from tests.support.studies import make_study

ID = bytes(16)
STUDY = make_study("small")
EMPTY = History()
STEPS = (
    Reservation(1, time_text(NOW), ID, request_of(STUDY)),
    commitment(sequence=2, now=NOW, release_id=ID, n_rows=9, payload=b"", receipt=b""),
    Delivery(3, time_text(NOW), ID),
)
RESERVED, COMMITTED, SENT = (history_of(*STEPS[:n]) for n in (1, 2, 3))
SPENT = Budget(Decimal("1.0"), Decimal(0))


def _review(history: History = EMPTY, *, budget: Budget = BUDGET, n_rows: int = 1000) -> Any:
    return review(STUDY, history, n_rows=n_rows, account=account_of(budget=budget))


def _forecast(study: Study, *, n_rows: int) -> contribution.Forecast:
    return contribution.forecast(study, calibrate(study), n_rows=n_rows)


def test_a_review_counts_what_would_leave() -> None:
    found = _review()
    assert found.n_entries == STUDY.table.layout.n_entries
    assert found.n_bytes == 8 * found.n_entries
    assert (found.request.epsilon, found.request.delta) == (Decimal("1.0"), Decimal(0))
    for history, budget, left in ((EMPTY, BUDGET, (3, 2)), (RESERVED, SPENT, (0, 0))):
        standing = _review(history, budget=budget).budget_status
        assert (standing.remaining_before, standing.remaining_after) == left
        assert standing.admitted


@pytest.mark.parametrize(
    ("overlap", "epsilon", "says"),
    [
        (False, "1", "No person has rows at two owners"),
        (True, "3", "sums of the owners'"),
        ([["owner-1", "owner-3"]], "2", "owner-1 + owner-3"),
    ],
    ids=["no overlap", "all", "a group"],
)
def test_a_review_prints_what_all_owners_together_cost_one_person(
    overlap: object, epsilon: str, says: str
) -> None:
    owners = ["owner-1", "owner-2", "owner-3"]
    study = make_study("small", owners=owners, overlap=overlap)
    found = review(study, EMPTY, n_rows=1000, account=account_of())
    assert (found.federation.epsilon, found.federation.delta) == (epsilon, "0")
    text = review_text(found, StudyState.OPEN, None)
    assert f"whole federation is at most epsilon {epsilon}, delta 0" in text
    assert says in text


def test_a_review_names_the_numerics_whose_rows_are_counted() -> None:
    document = json.loads(STUDY.canonical_bytes())
    numerics = [each for each in document["schema"]["attributes"] if each["type"] == "numeric"]
    numerics[0]["histogram"] = True
    study = study_from_mapping(document)
    found = review(study, EMPTY, n_rows=1000, account=account_of())
    assert found.n_entries == STUDY.table.layout.n_entries + 40
    named = f"the rows in each cell of {numerics[0]['name']}\n"
    assert named in review_text(found, StudyState.OPEN, None)
    assert "in each cell" not in review_text(_review(), StudyState.OPEN, None)


def test_a_study_beyond_the_budget_is_reviewed_and_not_admitted() -> None:
    found = _review(budget=Budget(Decimal("0.5"), Decimal(0)))
    assert not found.budget_status.admitted
    assert found.budget_status.remaining_after == 0
    with pytest.raises(BudgetExceededError):
        require_possible(found, EMPTY, StudyState.OPEN, now=NOW)


def test_a_gaussian_study_has_no_standing_where_delta_is_zero() -> None:
    study = make_study("small", name="gauss", delta="1e-6")
    budget = Budget(Decimal(9), Decimal(0))
    standing = review(study, EMPTY, n_rows=9, account=account_of(budget=budget)).budget_status
    assert (standing.spent_after, standing.admitted) == (None, False)


@pytest.mark.parametrize(
    ("history", "step"),
    [
        (EMPTY, NextStep.RESERVE),
        (RESERVED, NextStep.DRAW),
        (COMMITTED, NextStep.SEND),
        (SENT, NextStep.SEND),
    ],
)
def test_the_ledger_says_what_is_next(history: History, step: NextStep) -> None:
    assert decide_step(history, STUDY.digest) is step


@pytest.mark.parametrize("state", [s for s in StudyState if s is not StudyState.OPEN])
@pytest.mark.parametrize("history", [EMPTY, RESERVED])
def test_nothing_is_charged_or_drawn_for_a_study_that_is_not_open(
    history: History, state: StudyState
) -> None:
    with pytest.raises(StudyStateError, match=state.value):
        require_possible(_review(history), history, state, now=NOW)


@pytest.mark.parametrize("state", list(StudyState))
@pytest.mark.parametrize("history", [COMMITTED, SENT])
def test_stored_bytes_are_sent_in_every_state(history: History, state: StudyState) -> None:
    assert require_possible(_review(history), history, state, now=NOW) is None


def test_more_rows_than_the_study_allows_are_refused_before_a_charge() -> None:
    study = make_study("small", max_rows=32, owners=["north", "south", "west"])
    most, above = (review(study, EMPTY, n_rows=n, account=account_of()) for n in (10, 11))
    assert require_possible(most, EMPTY, StudyState.OPEN, now=NOW) is None
    with pytest.raises(TooManyRowsError, match=r"11 rows, .* 10 from each .* max_rows of 33 or"):
        require_possible(above, EMPTY, StudyState.OPEN, now=NOW)


def test_nothing_is_charged_for_a_study_whose_deadline_has_passed() -> None:
    study = make_study("small", deadline=NOW)
    found = review(study, EMPTY, n_rows=9, account=account_of())
    with pytest.raises(StudyStateError, match="deadline"):
        require_possible(found, EMPTY, StudyState.OPEN, now=NOW)


def test_no_component_is_promised_where_the_noise_exceeds_all_variance() -> None:
    found = _forecast(make_study("small", epsilon="0.01"), n_rows=2)
    assert found.noise_edge > found.largest_variance
    assert found.assumed_components == 0


def test_a_review_warns_where_the_noise_hides_relations() -> None:
    few, many = (_forecast(STUDY, n_rows=n) for n in (20, 100_000))
    texts = [
        review_text(_review(), StudyState.OPEN, expected).replace("\n  ", "\n")
        for expected in (few, many)
    ]
    assert few.relations is not None
    assert "\n".join(few.relations.warning) in texts[0]
    assert "THE NOISE HIDES RELATIONS" in texts[0]
    assert "THE NOISE HIDES RELATIONS" not in texts[1]


@settings(max_examples=examples(50))
@given(
    st.lists(
        st.tuples(st.floats(-50, 150), st.integers(0, 1), st.integers(0, 2)),
        min_size=1,
        max_size=30,
    )
)
def test_no_table_has_more_variance_than_the_schema_allows(
    rows: list[tuple[float, int, int]],
) -> None:
    age, sex, plan = (np.array(column) for column in zip(*rows, strict=True))
    columns = [age.astype(np.float64), sex.astype(np.int32), plan.astype(np.int32)]
    layout = STUDY.table.layout
    moments = compute_moments(encode(STUDY.table, columns), layout)
    mean, second = unpack(moments.packed, moments.n_rows, layout)
    assert mean is not None
    assert np.trace(second) - mean @ mean <= largest_total_variance(STUDY.table.layout) + 1e-9
