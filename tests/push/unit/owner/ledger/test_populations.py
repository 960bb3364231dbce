"""Whose charges count for whom: by names and sources, in any number of steps, for good."""

from dataclasses import replace
from decimal import Decimal

import pytest

from dppca.common.kernel.errors import BudgetExceededError, SettingError
from dppca.common.kernel.privacy.accounting import Budget
from dppca.owner.ledger.chain import History, admit_charge
from dppca.owner.ledger.entries import ReleaseKind, ReleaseRequest, Reservation
from dppca.owner.ledger.populations import Account, Population, identifiers, transitive_links
from tests.support.ledgers import history_of, request_of
from tests.support.studies import make_study

FILE, OTHER_FILE = "f" * 64, "0" * 64


def _people(name: str, epsilon: str = "3", **changes: object) -> Population:
    return replace(Population(name, Budget(Decimal(epsilon), Decimal(0))), **changes)


def _request(number: int, account: Account, epsilon: str = "2") -> ReleaseRequest:
    return replace(
        request_of(make_study("small", name=f"s-{number}", epsilon=epsilon)), account=account
    )


def _charged(*accounts: Account) -> History:
    """A ledger that was charged 2 for each; it holds what a file would."""
    made = [
        Reservation(
            number,
            "",
            bytes([number]) * 16,
            _request(number, replace(each, population=_people(each.population.name))),
        )
        for number, each in enumerate(accounts)
    ]
    return history_of(*made)


PATIENTS = _people("patients", data_sets=("survey",), sources=frozenset({FILE}))
CHARGED = _charged(Account("survey", PATIENTS, FILE))

SAME_PEOPLE = {
    "another query of the data set": Account("survey", PATIENTS, FILE),
    "another data set": Account("visits", replace(PATIENTS, data_sets=("visits",)), OTHER_FILE),
    "a renamed data set and population over the file": Account(
        "x", _people("y", data_sets=("x",), sources=frozenset({FILE})), FILE
    ),
    "a renamed population of the data set": Account(
        "survey", _people("y", data_sets=("survey",)), OTHER_FILE
    ),
    "a population that says what it was": Account("x", _people("y", formerly=("patients",))),
    "a population that says what its data set was": Account(
        "x", _people("y", formerly=("survey",))
    ),
    "a file in what was charged as a folder": Account(
        "x", _people("y", data_sets=("x",), folders=frozenset({FILE})), OTHER_FILE
    ),
}


@pytest.mark.parametrize("account", SAME_PEOPLE.values(), ids=list(SAME_PEOPLE))
def test_the_same_people_have_no_second_budget(account: Account) -> None:
    assert CHARGED.total(account.population.name, account.populations).epsilon == 2
    with pytest.raises(BudgetExceededError, match="2 is spent; with this release it would be 4"):
        admit_charge(CHARGED, _request(9, account))
    assert admit_charge(CHARGED, _request(9, account, epsilon="1")) is None


def test_other_people_have_a_budget_of_their_own() -> None:
    other = Account("x", _people("y", data_sets=("x",)), OTHER_FILE, others=(PATIENTS,))
    assert admit_charge(CHARGED, _request(9, other)) is None


def test_nobody_is_charged_while_a_charged_population_is_left_out() -> None:
    new = Account("x", _people("y", data_sets=("x",)), OTHER_FILE)
    with pytest.raises(SettingError, match=r"charges of patients, and .* was: \[patients\]"):
        admit_charge(CHARGED, _request(9, new))
    retired = replace(new, others=(_people("patients"),))
    assert admit_charge(CHARGED, _request(9, retired)) is None


STAFF = _people("staff", "9", data_sets=("survey",), sources=frozenset({OTHER_FILE}))
POOR = _people("poor", "1", data_sets=("x",), sources=frozenset({FILE}))
OTHERS_ROWS = {
    "other people in another file": (Account("survey", STAFF, OTHER_FILE), "draws on .* and lies"),
    "other people": (Account("survey", replace(STAFF, sources=frozenset({FILE})), FILE), "draws"),
    "another file": (Account("survey", PATIENTS, OTHER_FILE), "lies at another place now, so"),
    "another data set": (Account("visits", PATIENTS, OTHER_FILE), "use --data-set survey, or put"),
    "people that say what they were": (
        Account("survey", _people("staff", formerly=("patients",)), FILE),
        "draws on population staff",
    ),
}


@pytest.mark.parametrize(("account", "says"), OTHERS_ROWS.values(), ids=list(OTHERS_ROWS))
@pytest.mark.parametrize("kind", ReleaseKind)
def test_nothing_is_drawn_from_other_rows_than_were_charged(
    account: Account, says: str, kind: ReleaseKind
) -> None:
    with pytest.raises(SettingError, match=says):
        admit_charge(CHARGED, replace(_request(0, account), kind=kind))


@pytest.mark.parametrize(
    ("account", "whose"),
    [
        (Account("survey", replace(PATIENTS, budget=POOR.budget), FILE), "population patients "),
        (Account("survey", PATIENTS, FILE, others=(POOR,)), "population poor, which"),
    ],
    ids=["lowered", "of others too"],
)
def test_nothing_is_drawn_that_a_budget_does_not_cover_any_more(
    account: Account, whose: str
) -> None:
    with pytest.raises(BudgetExceededError, match=f"{whose}.* 2 is spent, with the charge that"):
        admit_charge(CHARGED, _request(0, account))


def test_ties_are_followed_in_any_number_of_steps_and_no_further() -> None:
    steps = [
        identifiers("c", "d"),
        identifiers("e"),
        identifiers("a", "b"),
        identifiers("b", sources=["c"]),
        identifiers("b", "c"),
    ]
    assert transitive_links(identifiers("a"), steps) == {"a", "b", "c", "d", "source c"}
    assert transitive_links(identifiers("e"), steps) == {"e"}
