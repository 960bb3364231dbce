"""Policy of a site: its populations, their budgets, and the locations of their rows.

A data set that ``policy.yaml`` does not name does not exist: nothing can be released from it.

A data set draws on a population. In the older form of policies, before there were populations, it
has a budget of its own and counts as a population of its name. Rows have one lifetime budget, so
two data sets of the same rows are refused if one of them has a budget of its own: one path in two
spellings, one file under two paths (links), a file and a folder or a pattern around it, two queries
of one database. If both draw on stated populations, every charge counts for both
(`dppca.owner.ledger.populations`). A file that is replaced under its name counts as the same file.
The policy cannot detect that a second file holds a copy of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dppca.common.errors import NoPolicyError, SettingError
from dppca.common.privacy.accounting import Budget
from dppca.owner.engines.addresses import LOCAL
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.records.locations import Location, digest_location, find_shared_rows
from dppca.owner.site.config import POLICY_FILE, Site
from dppca.owner.site.file_forms import (
    AggregateDocument,
    DataSetDocument,
    PolicyDocument,
    PopulationDocument,
    parse_document,
)


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set of the policy: the location of its rows, and the account that is charged for them.

    ``aggregate`` is None if it takes no part in studies with ``trust: aggregate``.
    """

    name: str
    source: Location
    account: Account
    aggregate: AggregateDocument | None = None
    key: str = ""
    engine: str = LOCAL


@dataclass(frozen=True, slots=True)
class Policy:
    """Data sets and populations of a site, in the order of the file.

    ``populations`` are those that are stated, and those of data sets with a budget of their own.
    """

    data_sets: tuple[DataSet, ...]
    populations: tuple[Population, ...]

    def data_set(self, name: str | None) -> DataSet:
        """Data set called ``name``, or the only one there is.

        Raise `NoPolicyError` if the policy does not name it, or names none; raise `SettingError` if
        no name was given and there are several.
        """
        names = ", ".join(each.name for each in self.data_sets) or "none"
        if name is None and len(self.data_sets) == 1:
            return self.data_sets[0]
        if name is None and self.data_sets:
            raise SettingError(
                f"{POLICY_FILE} has several data sets ({names}): choose with --data-set"
            )
        for each in self.data_sets:
            if each.name == name:
                return each
        subject = "a data set" if name is None else f"data set {name}"
        raise NoPolicyError(
            f"{POLICY_FILE} does not name {subject} (it names: {names}): enter it with its path "
            "and the population whose rows they are; without a policy nothing is released"
        )


def load_policy(site: Site) -> Policy:
    """Read ``policy.yaml``; raise `NoPolicyError` if there is no such file.

    The `SettingError` for an invalid one names every field at fault, or two data sets of one file.
    """
    path = site.folder / POLICY_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NoPolicyError(
            f"no {POLICY_FILE} can be read in {site.folder}: enter the data sets and the lifetime "
            "budgets of their populations; without a policy nothing is released"
        ) from error
    document = parse_document(text, PolicyDocument, POLICY_FILE)
    sets, stated = document.data_sets or {}, document.populations or {}
    _require_names_apart(sets, stated)
    sources = {name: _locate(site, name, each) for name, each in sets.items()}
    _require_rows_of_their_own(sets, sources)
    places = {name: digest_location(each, folder=site.folder) for name, each in sources.items()}
    within = {name: each.within for name, each in places.items()}
    for one, other in find_shared_rows(sources):  # by links, or in a store
        within[one] |= places[other].within
        within[other] |= places[one].within
    drawn_on = {name: each.population or name for name, each in sets.items()}
    populations: list[Population] = []
    for name, budget in _budgets(sets, stated).items():
        members = tuple(each for each in sets if drawn_on[each] == name)
        statement = stated.get(name)
        population = Population(
            name=name,
            budget=budget,
            who="" if statement is None else statement.who,
            formerly=() if statement is None else statement.was or (),
            data_sets=members,
            sources=frozenset().union(*(within[each] for each in members)),
            folders=frozenset().union(*(places[each].folders for each in members)),
        )
        populations.append(population)
    data_sets = tuple(
        DataSet(
            name,
            sources[name],
            _account(name, populations, drawn_on[name], places[name].address),
            each.aggregate,
            each.key or "",
            each.engine or sources[name].engine or LOCAL,
        )
        for name, each in sets.items()
    )
    return Policy(data_sets, tuple(populations))


def _budget(field: str, epsilon: Decimal, delta: Decimal) -> Budget:
    try:
        return Budget(epsilon, delta)
    except SettingError as error:
        raise SettingError(f"{POLICY_FILE}: {field}: {error}") from error


def _account(data_set: str, populations: Sequence[Population], name: str, source: str) -> Account:
    (own,) = (each for each in populations if each.name == name)
    return Account(data_set, own, source, tuple(each for each in populations if each is not own))


def _budgets(
    sets: Mapping[str, DataSetDocument], stated: Mapping[str, PopulationDocument]
) -> dict[str, Budget]:
    """Budget of each population, and of each data set that has its own, by name."""
    own = {
        name: _budget(f"data_sets.{name}", each.epsilon, each.delta)
        for name, each in sets.items()
        if each.epsilon is not None and each.delta is not None
    }
    return {
        name: _budget(f"populations.{name}", each.epsilon, each.delta)
        for name, each in stated.items()
    } | own


def _require_names_apart(
    sets: Mapping[str, DataSetDocument], stated: Mapping[str, PopulationDocument]
) -> None:
    """Refuse a population that is not stated, or stated twice, and a name with two meanings."""
    known = ", ".join(stated) or "none"
    belongs = {name: f"populations.{name}" for name in stated}
    for name, each in sets.items():
        if each.population is not None and each.population not in stated:
            raise SettingError(
                f"{POLICY_FILE}: data_sets.{name}: population {each.population} is not stated in "
                f"populations (stated: {known}): enter it there, with who the people are and their "
                "lifetime budget"
            )
        if name in stated and each.population != name:
            raise SettingError(
                f"{POLICY_FILE}: data_sets.{name} has the name of a population that it does not "
                "draw on: the ledger would take the two for the same people. Rename one of them"
            )
        belongs[name] = f"populations.{each.population}" if each.population else f"data_sets.{name}"
    for population, one in stated.items():
        for name in one.was or ():
            owner = belongs.setdefault(name, f"populations.{population}")
            if owner != f"populations.{population}" or name == population:
                raise SettingError(
                    f"{POLICY_FILE}: populations.{population}.was names {name}, which is stated "
                    f"as {owner} too: the same charges belong to one population"
                )


def _locate(site: Site, name: str, document: DataSetDocument) -> Location:
    try:
        return document.locate(name, folder=site.folder)
    except SettingError as error:
        raise SettingError(f"{POLICY_FILE}: data_sets.{name}: {error}") from None


def _require_rows_of_their_own(
    sets: Mapping[str, DataSetDocument], sources: Mapping[str, Location]
) -> None:
    """Refuse two data sets that share rows unless both draw on stated populations."""
    for one, other in find_shared_rows(sources):
        if sets[one].population is None or sets[other].population is None:
            raise SettingError(
                f"{POLICY_FILE}: data sets {one} and {other} have the same rows "
                f"({sources[other].title}), which have one lifetime budget; a pattern counts as "
                "its folder. State the people in populations and let both draw on it (population: "
                "NAME), or keep one of the two names; `dppca-owner budget` shows what was charged "
                "to each"
            )
