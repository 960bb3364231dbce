"""One ledger, several promises: each release has its own price under each, or none."""

from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.errors import BudgetExceededError, LedgerError, SettingError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.accounting import NO_COST, Budget
from dppca.common.kernel.privacy.promises import Promise, kept_promise
from dppca.common.kernel.privacy.release import calibrate, replaced_charge, schema_sensitivity
from dppca.common.kernel.privacy.sensitivity import Relation
from dppca.common.kernel.schema import Column
from dppca.owner.ledger.chain import History, admit_charge
from dppca.owner.ledger.entries import ReleaseRequest, Reservation
from dppca.owner.ledger.entry_documents import from_document, has_later_form, to_document
from dppca.owner.ledger.populations import Account, Population
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
    "by person, up to 3 rows": ({**BY_PERSON, "rows_counted": 3}, Promise.PEOPLE_REPLACED),
    "rows added": (ADDED, Promise.PEOPLE_ADDED),
    "people added": (BY_PERSON | ADDED, Promise.PEOPLE_ADDED),
}


def people(promise: Promise = Promise.ROWS_REPLACED, *, epsilon: str = "3") -> Population:
    return Population("people", Budget(Decimal(epsilon), Decimal(0)), promise=promise)


def counted(
    name: str,
    kind: dict[str, Any],
    key: str,
    *,
    others: tuple[Population, ...] = (),
    people_in: str = "people",
) -> ReleaseRequest:
    """Request under a population ``people`` whose rows of a person may have to be counted."""
    own = replace(people(epsilon="9"), counts_people=people_in == "people")
    study = make_study(FLAGS, name=name, **kind)
    account = Account("survey", own, others=others, key=key)
    return request_contribution(study, calibrate(study), account=account)


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


@pytest.mark.parametrize("kind", ["by row", "rows added"])
def test_rows_of_people_are_not_charged_where_nobody_counts_them(kind: str) -> None:
    changes = STUDIES[kind][0]
    with pytest.raises(SettingError, match="data set survey has no key, so nobody counts"):
        admit_charge(History(), counted("s", changes, ""))
    assert admit_charge(History(), counted("s", changes, "pid")) is None
    assert admit_charge(History(), counted("s", changes, "", people_in="none")) is None


def test_a_population_tied_to_one_of_people_needs_a_key_too() -> None:
    first = asked("first", BY_ROW)
    clinic = Population(
        "clinic", first.account.population.budget, data_sets=("survey",), counts_people=True
    )
    apart = replace(clinic, data_sets=())
    asked_tied = counted("s", BY_ROW, "", others=(clinic,), people_in="clinic")
    asked_apart = counted("s", BY_ROW, "", others=(apart,), people_in="clinic")
    with pytest.raises(SettingError, match="population clinic has unit: person"):
        admit_charge(charged(first), asked_tied)
    assert admit_charge(charged(first), asked_apart) is None


def test_people_are_counted_by_one_column_for_good() -> None:
    first, person = counted("first", BY_ROW, "pid"), STUDIES["by person"][0]
    for kind, people_in in ((BY_ROW, "people"), (person, "people"), (person, "none")):
        other = counted("second", kind, "visit", people_in=people_in)
        with pytest.raises(SettingError, match=r"first, charged on 2026-03-01 .* counted by pid"):
            admit_charge(charged(first), other)
        same = counted("second", kind, "pid", people_in=people_in)
        assert admit_charge(charged(first), same) is None
    by_rows_alone = counted("second", BY_ROW, "visit", people_in="none")
    assert by_rows_alone.key == ""
    assert admit_charge(charged(first), by_rows_alone) is None


def test_a_charge_is_resumed_by_the_column_that_it_was_made_with() -> None:
    first = counted("s", STUDIES["by person"][0], "pid")
    assert admit_charge(charged(first), first) is not None
    for key in ("visit", ""):
        changed = replace(first, key=key, account=replace(first.account, key=key))
        with pytest.raises(SettingError, match="the key of data set survey was pid when study s"):
            admit_charge(charged(first), changed)


def test_an_entry_keeps_the_column_of_people_and_old_ones_their_form() -> None:
    for request, key in (
        (counted("s", BY_ROW, "pid"), "pid"),
        (counted("s", STUDIES["by person"][0], "pid", people_in="none"), "pid"),
        (counted("s", BY_ROW, "pid", people_in="none"), ""),
    ):
        entry = Reservation(1, "2026-03-01T00:00:00+00:00", bytes(16), request)
        document = to_document(entry, previous=bytes(32))
        again = from_document(document, previous=bytes(32))
        assert isinstance(again, Reservation)
        assert again.request.key == key
        assert has_later_form(document) is bool(key)


def test_a_charge_is_resumed_at_what_it_cost_under_every_promise() -> None:
    first = asked("s", ADDED)
    assert first.replaced is not None
    assert admit_charge(charged(first), first) is not None
    with pytest.raises(LedgerError, match=r"reserved at epsilon 1\.0 and rho 0 under `people"):
        admit_charge(charged(first), replace(first, replaced=first.replaced + first.replaced))
    with pytest.raises(LedgerError, match=r"would charge epsilon 1\.0 and rho 0 under `people"):
        admit_charge(charged(replace(first, replaced=NO_COST)), first)


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
