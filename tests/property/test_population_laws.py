"""Whatever a steward does to names, nobody's rows are charged more than a budget that covers them.

Policies are drawn one after the other, read as a site reads them, and charged. The laws are of
places, which the test knows and names do not tell: a charge for a folder is for the rows of each
file in it.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.errors import BudgetExceededError, SettingError
from dppca.common.privacy.accounting import PrivacyCost
from dppca.owner.ledger.chain import History, admit_charge, verify_chain
from dppca.owner.ledger.entries import Reservation
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.site.config import DataSet, Policy, Site, load_policy
from tests.support.ledgers import request_of, rows_of, small_study

STUDY = small_study()
ROWS = {"rows/a.csv": {"a"}, "rows": {"a", "b"}, "c.csv": {"c"}}
"""Whose rows lie at each place."""
DATABASE = "{postgresql: {service: warehouse}}"
NAMES = st.sampled_from(["one", "two"])
PEOPLE = st.sampled_from(["people", "folk"])
EPSILON = st.sampled_from(["1", "2"])
AMOUNT = st.sampled_from([Decimal(1), Decimal(2)])
PLACES = st.sampled_from([*ROWS, "query"])


def _place(place: str) -> str:
    return f"path: {place}" if place in ROWS else f"source: {DATABASE}, table: {place}"


def _people(place: str) -> set[str]:
    return ROWS.get(place, {"warehouse"})


@st.composite
def policies(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """The text of a policy, which may be refused, and the place of each data set."""
    stated = draw(st.lists(PEOPLE, min_size=1, max_size=2, unique=True))
    lines = ["populations:"]
    for name in stated:
        was = draw(st.sampled_from(["", "", "", ", was: [one]", ", was: [people]"]))
        lines.append(f'  {name}: {{who: P, epsilon: "{draw(EPSILON)}", delta: "0"{was}}}')
    places = draw(st.dictionaries(NAMES, PLACES, min_size=1, max_size=3))
    lines.append("data_sets:")
    own = f'epsilon: "{draw(EPSILON)}", delta: "0"'
    drawn_on = [f"population: {each}" for each in stated]
    budgets = st.sampled_from([*drawn_on, *drawn_on, own])
    for name, place in places.items():
        lines.append(f"  {name}: {{{_place(place)}, {draw(budgets)}}}")
    return "\n".join([*lines, ""]), places


@contextmanager
def _site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder), "hospital", "hub.example:7443")
        (site.folder / "rows").mkdir()
        for place in ("rows/a.csv", "rows/b.csv", "c.csv"):
            (site.folder / place).write_text("x\n1\n")
        yield site


def _read(site: Site, text: str) -> Policy | None:
    """The policy, or None where it is refused as a whole."""
    (site.folder / "policy.yaml").write_text(text)
    try:
        return load_policy(site)
    except SettingError:
        return None


class _Told:
    """A ledger, and what only the test knows: whose rows each charge was computed from."""

    def __init__(self) -> None:
        self.history = History()
        self.spent: defaultdict[str, Decimal] = defaultdict(Decimal)

    def charge(self, account: Account, amount: Decimal, people: set[str]) -> bool:
        """Ask for it; whether it was admitted."""
        number = len(self.history.reservations)
        request = replace(
            request_of(STUDY),
            account=account,
            request_digest=f"{number:064x}",
            charge=PrivacyCost(amount, Decimal(0)),
        )
        try:
            assert admit_charge(self.history, request) is None
        except (BudgetExceededError, SettingError):
            return False
        made = Reservation(0, "", number.to_bytes(16, "big"), request)
        # As a file gives it back: the ledger keeps no more of the policy than that.
        self.history = verify_chain(rows_of([*self.history.reservations, made]))
        for each in people:
            self.spent[each] += amount
        return True


STEPS = st.lists(st.tuples(policies(), st.integers(0, 2), AMOUNT), min_size=2, max_size=5)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_whatever_names_become_no_place_is_charged_above_a_budget_that_covers_it(
    steps: list[tuple[tuple[str, dict[str, str]], int, Decimal]],
) -> None:
    told = _Told()
    with _site() as site:
        for (text, places), choice, amount in steps:
            policy = _read(site, text)
            if policy is None:
                continue
            chosen = policy.data_sets[choice % len(policy.data_sets)]
            if not told.charge(chosen.account, amount, _people(places[chosen.name])):
                continue
            for data_set in policy.data_sets:
                for each in _people(places[data_set.name]) & _people(places[chosen.name]):
                    budget = data_set.account.population.budget
                    assert told.spent[each] <= budget.epsilon, (text, each)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_whatever_moves_no_name_is_charged_above_its_budget_and_none_is_left_out(
    steps: list[tuple[tuple[str, dict[str, str]], int, Decimal]],
) -> None:
    told = _Told()
    charged: defaultdict[str, Decimal] = defaultdict(Decimal)
    with _site() as site:
        for (text, _), choice, amount in steps:
            policy = _read(site, text)
            if policy is None:
                continue
            chosen = policy.data_sets[choice % len(policy.data_sets)]
            account = replace(chosen.account, source="")  # as before there were sources
            if not told.charge(account, amount, set()):
                continue
            own = account.population
            for name in {own.name, account.data_set}:
                charged[name] += amount
            for name in {own.name, *own.was, *own.data_sets}:
                assert charged[name] <= own.budget.epsilon, text
            known = {name for each in policy.populations for name in _names(each)}
            for made in told.history.reservations:
                before = made.request.account
                assert {before.population.name, before.data_set} & (
                    known | _tied(told.history, known)
                ), (text, before)


def _names(population: Population) -> set[str]:
    return {population.name, *population.was, *population.data_sets}


def _tied(history: History, known: set[str]) -> set[str]:
    """Names that charges tie to known ones, in as many steps as there are charges."""
    found = set(known)
    for _ in history.reservations:
        for made in history.reservations:
            names = {made.request.account.population.name, made.request.data_set}
            found |= names if names & found else set()
    return found


@settings(max_examples=60, deadline=None)
@given(policies(), st.lists(AMOUNT, max_size=4))
def test_new_names_for_all_change_nothing_where_the_rows_stay(
    drawn: tuple[str, dict[str, str]], amounts: list[Decimal]
) -> None:
    """Every data set and every population gets another name: what is left is what was left."""
    text, places = drawn
    told = _Told()
    with _site() as site:
        policy = _read(site, text)
        if policy is None:
            return
        for number, amount in enumerate(amounts):
            chosen = policy.data_sets[number % len(policy.data_sets)]
            told.charge(chosen.account, amount, _people(places[chosen.name]))
        charged = {made.request.data_set for made in told.history.reservations}
        renamed = _read(site, _rename(policy, places))
        assert renamed is not None
        for before in policy.data_sets:
            if before.name in charged:
                (after,) = (each for each in renamed.data_sets if each.name == f"new-{before.name}")
                assert _total(told.history, before) <= _total(told.history, after)


def _rename(policy: Policy, places: dict[str, str]) -> str:
    lines = ["populations:"]
    lines += [
        f'  new-p-{each.name}: {{who: P, epsilon: "9", delta: "0"}}' for each in policy.populations
    ]
    lines.append("data_sets:")
    lines += [
        f"  new-{each.name}: {{{_place(places[each.name])}, "
        f"population: new-p-{each.account.population.name}}}"
        for each in policy.data_sets
    ]
    return "\n".join([*lines, ""])


def _total(history: History, data_set: DataSet) -> Decimal:
    account = data_set.account
    return history.total(account.population.name, account.populations).epsilon
