"""Whatever a steward does to names, nobody's rows are charged more than a budget that covers them.

Policies are drawn one after the other, read as a site reads them, and charged. The laws are of
places, which the test knows and names do not tell: a charge for a folder is for the rows of each
file in it. A command may die after its charge, before anything is drawn, and be run again under
another policy: what it then draws on counts.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.errors import BudgetExceededError, SettingError
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.owner.ledger.chain import History, admit_charge, verify_chain
from dppca.owner.ledger.entries import ReleaseRequest, Reservation
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.site.config import Site
from dppca.owner.site.policy import DataSet, Policy, load_policy
from tests.support.examples import examples
from tests.support.ledgers import request_of, rows_of
from tests.support.studies import make_study

STUDY = make_study("small")
ROWS = {"rows/a.csv": {"a"}, "rows": {"a", "b"}, "c.csv": {"c"}}
"""Whose rows lie at each place."""
DATABASE = "{postgresql: {service: warehouse}}"
NAMES = ("one", "two", "three")
PEOPLE = ("people", "folk", "crowd")
PLACES = (*ROWS, "table", "query")
AMOUNTS = (Decimal(1), Decimal(2))
NUMBER = st.integers(0, 5)
EDITS = st.sampled_from(
    ["rename", "rename", "restate", "move", "move", "place", "give", "give", "add", "remove"]
)


@dataclass
class _Steward:
    """Somebody who edits a policy: the epsilon of each population, and who draws on it."""

    populations: dict[str, str] = field(default_factory=lambda: {"people": "2"})
    was: dict[str, str] = field(default_factory=dict)
    data_sets: dict[str, tuple[str, str]] = field(
        default_factory=lambda: {"one": ("rows/a.csv", "people")}
    )

    def edit(self, kind: str, first: int, second: int) -> None:
        """One edit; a name that was in use before may come back."""
        name = list(self.data_sets)[first % len(self.data_sets)]
        place, people = self.data_sets[name]
        other = PEOPLE[second % len(PEOPLE)]
        if kind == "rename":
            del self.data_sets[name]
            self.data_sets[NAMES[second % len(NAMES)]] = place, people
        elif kind == "restate":  # a population gets another name, and sometimes says it
            self.populations.setdefault(other, self.populations.pop(people))
            if first % 2 and other != people:
                self.was[other] = people
            self.data_sets = {
                each: (where, other if whose == people else whose)
                for each, (where, whose) in self.data_sets.items()
            }
        elif kind == "move":
            self.populations.setdefault(other, str(1 + first % 3))
            self.data_sets[name] = place, other
        elif kind == "place":
            self.data_sets[name] = PLACES[second % len(PLACES)], people
        elif kind == "give":  # the name, to other people in another place
            self.populations.setdefault(other, str(1 + first % 3))
            self.data_sets[name] = PLACES[second % len(PLACES)], other
        elif kind == "add":
            self.data_sets[NAMES[second % len(NAMES)]] = PLACES[first % len(PLACES)], people
        elif len(self.populations) > 1:
            drawn_on = {whose for _, whose in self.data_sets.values()}
            for each in {*self.populations} - drawn_on:
                del self.populations[each]

    def policy(self) -> str:
        """The text of the file."""
        lines = ["populations:"]
        for name, epsilon in self.populations.items():
            was = f", was: [{self.was[name]}]" if name in self.was else ""
            lines.append(f'  {name}: {{who: P, epsilon: "{epsilon}", delta: "0"{was}}}')
        lines.append("data_sets:")
        for name, (place, people) in self.data_sets.items():
            lines.append(f"  {name}: {{{_place(place)}, population: {people}}}")
        return "\n".join([*lines, ""])


def _place(place: str) -> str:
    return f"path: {place}" if place in ROWS else f"source: {DATABASE}, table: {place}"


def _people(place: str) -> set[str]:
    return ROWS.get(place, {"warehouse"})


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
        self.undrawn: list[ReleaseRequest] = []

    def charge(self, account: Account, amount: Decimal, people: set[str], *, dies: bool) -> bool:
        """Ask for it, and draw unless the command dies; whether it was admitted."""
        number = len(self.history.reservations)
        asked = request_of(STUDY)
        request = replace(
            asked,
            account=account,
            request_digest=f"{number:064x}",
            price=replace(asked.price, charge=PrivacyCost(amount, Decimal(0))),
        )
        try:
            assert admit_charge(self.history, request) is None
        except (BudgetExceededError, SettingError):
            return False
        made = Reservation(0, "", number.to_bytes(16, "big"), request)
        # As a file gives it back: the ledger keeps no more of the policy than that.
        self.history = verify_chain(rows_of([*self.history.reservations, made]))
        if dies:
            self.undrawn.append(request)
            return True
        for each in people:
            self.spent[each] += amount
        return True

    def draw_what_died(self, account: Account, people: set[str]) -> bool:
        """Run each command again that died, for this account; whether anything was drawn."""
        before = len(self.undrawn)
        for request in list(self.undrawn):
            try:
                assert admit_charge(self.history, replace(request, account=account))
            except (BudgetExceededError, SettingError):
                continue
            self.undrawn.remove(request)
            for each in people:
                self.spent[each] += request.price.charge.epsilon
        return len(self.undrawn) < before


STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(EDITS, NUMBER, NUMBER), max_size=2),
        NUMBER,
        st.sampled_from(AMOUNTS),
        st.booleans(),
    ),
    min_size=2,
    max_size=6,
)
Steps = list[tuple[list[tuple[str, int, int]], int, Decimal, bool]]


def _charges(
    site: Site, told: _Told, steps: Steps, *, sources: bool
) -> Iterator[tuple[Policy, DataSet, dict[str, str], Decimal]]:
    """Edit, draw and charge; yields what was charged, with the places of all data sets."""
    steward = _Steward()
    for edits, choice, amount, dies in steps:
        for edit in edits:
            steward.edit(*edit)
        policy = _read(site, steward.policy())
        if policy is None:
            continue
        chosen = policy.data_sets[choice % len(policy.data_sets)]
        places = {name: place for name, (place, _) in steward.data_sets.items()}
        account = chosen.account if sources else replace(chosen.account, source="")
        people = _people(places[chosen.name])
        if told.draw_what_died(account, people):
            yield policy, chosen, places, Decimal(0)
        if told.charge(account, amount, people, dies=dies):
            yield policy, chosen, places, amount


@settings(max_examples=examples(150))
@given(STEPS)
def test_whatever_names_become_no_place_is_charged_above_a_budget_that_covers_it(
    steps: Steps,
) -> None:
    told = _Told()
    with _site() as site:
        for policy, chosen, places, _ in _charges(site, told, steps, sources=True):
            for data_set in policy.data_sets:
                for each in _people(places[data_set.name]) & _people(places[chosen.name]):
                    assert told.spent[each] <= data_set.account.population.budget.epsilon


@settings(max_examples=examples(150))
@given(STEPS)
def test_whatever_moves_no_name_is_charged_above_its_budget_and_none_is_left_out(
    steps: Steps,
) -> None:
    """As before there were sources: by names alone."""
    told = _Told()
    charged: defaultdict[str, Decimal] = defaultdict(Decimal)
    with _site() as site:
        for policy, chosen, _, amount in _charges(site, told, steps, sources=False):
            own = chosen.account.population
            for name in {own.name, chosen.name}:
                charged[name] += amount
            for name in {own.name, *own.formerly, *own.data_sets}:
                assert charged[name] <= own.budget.epsilon
            known = _tied(told.history, set().union(*map(_names, policy.populations)))
            for made in told.history.reservations:
                account = made.request.account
                assert {account.population.name, account.data_set} & known


def _names(population: Population) -> set[str]:
    return {population.name, *population.formerly, *population.data_sets}


def _tied(history: History, known: set[str]) -> set[str]:
    """Names that charges tie to known ones, in as many steps as there are charges."""
    found = set(known)
    for _ in history.reservations:
        for made in history.reservations:
            names = {made.request.account.population.name, made.request.data_set}
            found |= names if names & found else set()
    return found


@settings(max_examples=examples(60))
@given(STEPS)
def test_new_names_for_all_change_nothing_where_the_rows_stay(steps: Steps) -> None:
    """Every data set and every population gets another name: what was charged still counts."""
    told = _Told()
    with _site() as site:
        for policy, _, places, _ in _charges(site, told, steps, sources=True):
            renamed = _read(site, _rename(policy, places))
            assert renamed is not None
            for before, after in zip(policy.data_sets, renamed.data_sets, strict=True):
                spent = [told.spent[each] for each in _people(places[before.name])]
                assert _total(told.history, after) >= max(spent)


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
