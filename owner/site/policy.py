"""Policy of a site: its populations, their budgets, and the locations of their rows.

A data set that ``policy.yaml`` does not name does not exist: nothing can be released from it.

A data set draws on a population, and every charge counts for all populations whose data sets have
the same rows (`dppca.owner.ledger.populations`): one path in two spellings, one file under two
paths (links), a file and a folder or a pattern around it, two queries of one database. A file that
is replaced under its name counts as the same file. The policy cannot detect that a second file
holds a copy of the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dppca.common.kernel.durable.files import require_absent
from dppca.common.kernel.errors import NoPolicyError, SettingError
from dppca.common.kernel.privacy.accounting import Budget
from dppca.common.kernel.privacy.promises import Promise
from dppca.common.kernel.schema.units import NeighbourRelation, Unit
from dppca.owner.engines.addresses import LOCAL
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.records.locations import Location, digest_location, find_shared_rows
from dppca.owner.site import POLICY_FILE
from dppca.owner.site.config import Site
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

    ``aggregate`` is None if it takes no part in studies with ``trust: aggregate``. ``must_say``
    names the texts that a study must have.
    """

    name: str
    source: Location
    account: Account
    aggregate: AggregateDocument | None = None
    key: str = ""
    engine: str = LOCAL
    must_say: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """Data sets and populations of a site, in the order of the file."""

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

    The `SettingError` for an invalid one names every field at fault.
    """
    path = site.folder / POLICY_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        require_absent(path, error)
        raise NoPolicyError(
            f"no {POLICY_FILE} can be read in {site.folder}: enter the data sets and the lifetime "
            "budgets of their populations; without a policy nothing is released"
        ) from error
    document = parse_document(text, PolicyDocument, POLICY_FILE)
    sets, stated = document.data_sets or {}, document.populations or {}
    _require_names_apart(sets, stated)
    sources = {name: _locate(site, name, each) for name, each in sets.items()}
    places = {name: digest_location(each, folder=site.folder) for name, each in sources.items()}
    within = {name: each.within for name, each in places.items()}
    for one, other in find_shared_rows(sources):  # by links, or in a store
        within[one] |= places[other].within
        within[other] |= places[one].within
    populations: list[Population] = []
    for name, statement in stated.items():
        members = tuple(each for each in sets if sets[each].population == name)
        population = Population(
            name=name,
            budget=_budget(name, statement),
            who=statement.who,
            formerly=statement.was or (),
            data_sets=members,
            sources=frozenset().union(*(within[each] for each in members)),
            folders=frozenset().union(*(places[each].folders for each in members)),
            promise=_promise(statement),
            counts_people=statement.unit is Unit.PERSON,
        )
        if population.counts_people:
            _require_one_key(name, {each: sets[each].key or "" for each in members})
        populations.append(population)
    data_sets = tuple(
        DataSet(
            name,
            sources[name],
            _account(name, populations, each, places[name].address),
            each.aggregate,
            each.key or "",
            each.engine or sources[name].engine or LOCAL,
            each.must_say,
        )
        for name, each in sets.items()
    )
    return Policy(data_sets, tuple(populations))


def _promise(statement: PopulationDocument) -> Promise:
    if statement.neighbours is NeighbourRelation.ADDED:
        return Promise.PEOPLE_ADDED
    person = statement.unit is Unit.PERSON
    return Promise.PEOPLE_REPLACED if person else Promise.ROWS_REPLACED


def _budget(name: str, statement: PopulationDocument) -> Budget:
    try:
        return Budget(statement.epsilon, statement.delta)
    except SettingError as error:
        raise SettingError(f"{POLICY_FILE}: populations.{name}: {error}") from error


def _account(
    name: str, populations: Sequence[Population], document: DataSetDocument, source: str
) -> Account:
    (own,) = (each for each in populations if each.name == document.population)
    others = tuple(each for each in populations if each is not own)
    return Account(name, own, source, others, document.key or "")


def _require_one_key(population: str, keys: Mapping[str, str]) -> None:
    """Refuse data sets whose rows of one person are told apart by different columns."""
    stated = [f"{key} of {data_set}" for data_set, key in keys.items() if key]
    if len(set(keys.values()) - {""}) > 1:
        raise SettingError(
            f"{POLICY_FILE}: populations.{population} has unit: person, and its data sets have "
            f"different keys: {', '.join(stated)}. One person could count as several. If these "
            "columns hold the same numbers of the same people, give them one name, in the files or "
            "by a query"
        )


def _require_names_apart(
    sets: Mapping[str, DataSetDocument], stated: Mapping[str, PopulationDocument]
) -> None:
    """Refuse a population that is not stated, or stated twice, and a name with two meanings."""
    known = ", ".join(stated) or "none"
    belongs = {name: name for name in stated}
    for name, each in sets.items():
        if each.population not in stated:
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
        belongs[name] = each.population
    for population, one in stated.items():
        for name in one.was or ():
            owner = belongs.setdefault(name, population)
            if owner != population or name == population:
                raise SettingError(
                    f"{POLICY_FILE}: populations.{population}.was names {name}, which is stated "
                    f"as populations.{owner} too: the same charges belong to one population"
                )


def _locate(site: Site, name: str, document: DataSetDocument) -> Location:
    try:
        return document.locate(name, folder=site.folder)
    except SettingError as error:
        raise SettingError(f"{POLICY_FILE}: data_sets.{name}: {error}") from None
