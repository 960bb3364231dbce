"""One ledger, several promises: each release has its own price under each, or none."""

from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.errors import BudgetExceededError, SettingError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.accounting import Budget
from dppca.common.kernel.privacy.release import calibrate, replaced_charge, schema_sensitivity
from dppca.common.kernel.privacy.sensitivity import Relation
from dppca.common.kernel.schema import Column
from dppca.owner.ledger.chain import History, admit_charge
from dppca.owner.ledger.entries import ReleaseRequest, Reservation
from dppca.owner.ledger.entry_documents import from_document, has_later_form, to_document
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.ledger.promises import Promise, kept_promise
from dppca.owner.release.contribution import compute_budget_status, request_contribution
from tests.support.ledgers import history_of
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

FLAGS = [binary_of(f"b{i}", ["n", "y"]) for i in range(16)]
BY_ROW: dict[str, Any] = {}
BY_PERSON: dict[str, Any] = {"unit": "person", "max_rows_per_person": None}
ADDED: dict[str, Any] = {"neighbours": "added"}
STUDIES = {
    "by row": (BY_ROW, Promise.ROWS_REPLACED),
    "by person": (BY_PERSON, Promise.PEOPLE_REPLACED),
    "rows added": (ADDED, Promise.PEOPLE_ADDED),
    "people added": (BY_PERSON | ADDED, Promise.PEOPLE_ADDED),
}


def people(promise: Promise = Promise.ROWS_REPLACED, *, epsilon: str = "3") -> Population:
    return Population("people", Budget(Decimal(epsilon), Decimal(0)), promise=promise)


def asked(
    name: str, kind: dict[str, Any], promise: Promise = Promise.ROWS_REPLACED
) -> ReleaseRequest:
    study = make_study(FLAGS, name=name, **kind)
    account = Account("survey", people(promise))
    return request_contribution(study, calibrate(study), account=account)


def charged(*requests: ReleaseRequest) -> History:
    days = (f"2026-03-0{number}T00:00:00+00:00" for number in range(1, 9))
    return history_of(
        *(
            Reservation(number, day, bytes([number]) * 16, each)
            for number, (each, day) in enumerate(zip(requests, days, strict=False), 1)
        )
    )


@pytest.mark.parametrize("kind", STUDIES)
@pytest.mark.parametrize("promise", Promise)
def test_a_release_is_admitted_where_its_price_is_finite(kind: str, promise: Promise) -> None:
    changes, kept = STUDIES[kind]
    request = asked("s", changes, promise)
    assert kept_promise(request.relation) is kept
    status = compute_budget_status(History(), request)
    assert status.admitted is kept.covers(promise)
    if kept.covers(promise):
        assert admit_charge(History(), request) is None
    else:
        with pytest.raises(SettingError, match="publishes a number that population people keeps"):
            admit_charge(History(), request)


def test_a_release_that_hides_its_number_has_another_price_where_rows_are_replaced() -> None:
    """16 yes/no columns: 40.5 over 39 in L1, whose noise is that of an added row."""
    request = asked("s", ADDED)
    assert request.replaced is not None
    assert float(request.replaced.epsilon) == pytest.approx(40.5 / 39, rel=1e-6)
    history = charged(request)
    for promise, spent in (
        (Promise.ROWS_REPLACED, request.replaced.epsilon),
        (Promise.PEOPLE_REPLACED, request.replaced.epsilon),
        (Promise.PEOPLE_ADDED, Decimal(1)),
    ):
        assert history.total("people", [people(promise)]).epsilon == spent
    assert asked("s", BY_ROW).replaced is None
    tight = replace(request, account=Account("survey", people(epsilon="1")))
    with pytest.raises(BudgetExceededError, match=r"it would be 1\.0"):
        admit_charge(History(), tight)
    assert not compute_budget_status(History(), tight).admitted
    hidden = replace(request, account=Account("survey", people(Promise.PEOPLE_ADDED, epsilon="1")))
    assert admit_charge(History(), hidden) is None


def test_a_number_that_left_stops_charges_until_the_policy_promises_no_more() -> None:
    first = asked("hiding", ADDED, Promise.PEOPLE_ADDED)
    second = asked("telling", BY_ROW)
    history = charged(first, second)
    assert first.replaced is not None
    for stated in (Promise.PEOPLE_ADDED, Promise.PEOPLE_REPLACED):
        population = people(stated)
        assert history.promise("people", [population]) is Promise.ROWS_REPLACED
        third = replace(asked("third", ADDED), account=Account("survey", population))
        with pytest.raises(SettingError, match="study telling, charged on 2026-03-02, publishes"):
            admit_charge(history, third)
        assert not compute_budget_status(history, third).admitted
    weakest = people()
    ample = Account("survey", people(epsilon="9"))
    assert admit_charge(history, replace(asked("third", BY_ROW), account=ample)) is None
    assert history.total("people", [weakest]).epsilon == 1 + first.replaced.epsilon
    told = history.weakened_by("people", [weakest])
    assert told is not None
    assert told.request.study == "telling"
    assert charged(second).weakened_by("people", [weakest]) is None


@pytest.mark.parametrize("kind", STUDIES)
@pytest.mark.parametrize("promise", Promise)
def test_an_entry_keeps_relation_and_promise_and_old_ones_their_form(
    kind: str, promise: Promise
) -> None:
    request = asked("s", STUDIES[kind][0], promise)
    entry = Reservation(1, "2026-03-01T00:00:00+00:00", bytes(16), request)
    document = to_document(entry, previous=bytes(32))
    again = from_document(document, previous=bytes(32))
    assert isinstance(again, Reservation)
    assert again.request.spending == request.spending
    assert again.request.account.population.promise is promise
    later = kind != "by row" or promise is not Promise.ROWS_REPLACED
    assert has_later_form(document) is later
    assert (b"promise" in document, b"relation" in document) == (
        promise is not Promise.ROWS_REPLACED,
        kind != "by row",
    )


SMALL = [
    numeric_of("x", 0, 4, bins=[1, 3], histogram=True),
    binary_of("b", ["n", "y"]),
    categorical_of("c", ["p", "q", "r"]),
]
ROWS = list(product([0.0, 1.0, 4.0], [0, 1], [0, 1, 2]))


@given(
    st.lists(st.sampled_from(ROWS), max_size=3),
    st.lists(st.sampled_from(ROWS), max_size=3),
    st.sampled_from([0.25, 1, 6]),
)
def test_a_person_replaced_by_one_with_other_rows_costs_no_more_than_that_price(
    left: list[tuple[float, int, int]], right: list[tuple[float, int, int]], weight: float
) -> None:
    """k and k' rows, up to 3; the number of rows moves, too."""
    study = make_study(SMALL, max_rows_per_person=3, count_weight=weight, **ADDED)
    others = [ROWS[0]]

    def sums(rows: list[tuple[float, int, int]]) -> Any:
        x, b, c = zip(*others, *rows, strict=True)
        columns: list[Column] = [np.array(x), np.array(b, np.int32), np.array(c, np.int32)]
        return accumulate_moments(study.table, columns).packed.astype(object)

    noise = calibrate(study)
    price = replaced_charge(study, noise)
    assert price is not None
    change = np.abs(sums(left) - sums(right)).sum()
    own = schema_sensitivity(study.table)
    moved = replace(own, l1=int(change), relation=Relation.REPLACE_ONE)
    assert noise.law.cost(moved, 1).epsilon <= price.epsilon if change else True
