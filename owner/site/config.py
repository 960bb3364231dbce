"""A site: one folder with its settings, its policy, its credentials and its ledger.

``site.yaml`` says who this owner is and where the curator listens. ``policy.yaml`` says whose rows
there are (populations), what may be spent on them in their lifetime, and which data sets hold the
rows. Budgets are decimals written as text, because a budget is an exact number and a binary
fraction is not. A data set that the policy does not name does not exist: nothing can be released
from it. Neither file has a default for a budget.

A data set draws on a population. In the form that policies had before there were populations, it
has a budget of its own: that is a population of its name. Rows have one lifetime budget, so two
data sets of the same rows are refused where one of them has a budget of its own: one path in two
spellings, one file under two paths (links), a file and the folder that it is in, two queries of one
database. Where both draw on stated populations, what is charged counts for both
(`dppca.owner.ledger.populations`). A file that is replaced under its name stays what it was. That a
second file holds a copy of the rows cannot be seen.

The software never writes to either file after `dppca.owner.site.enrolment` has made them. The
folder and what is in it is one user's alone: every command shuts others out where it can
(`dppca.common.files`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)

from dppca.common.amounts import parse_decimal
from dppca.common.errors import NoPolicyError, SettingError
from dppca.common.files import KEY, REVOKED, CredentialFolder, shut
from dppca.common.names import is_party_name, require_party_name
from dppca.common.privacy.accounting import Budget
from dppca.common.study_document import load_yaml
from dppca.owner.engines.addresses import CLUSTER, LOCAL, SPARK, require_engine
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.records.locations import Location, Secret, digest_places
from dppca.owner.site.source_documents import AddressDocument, PlaceDocument, StrictDocument

SITE_FILE = "site.yaml"
POLICY_FILE = "policy.yaml"
STUDIES = "studies"
_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_MAX_PORT = 65535

_Document = TypeVar("_Document", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Site(CredentialFolder):
    """An owner's folder.

    Attributes
    ----------
    folder
        Absolute.
    name
        Of the owner, as studies and its certificate have it.
    curator
        ``HOST:PORT``.
    server_name
        Name to expect in the curator's certificate instead of the host; None to expect the host.
    proxy
        ``HOST:PORT`` of the HTTP proxy through which the curator is called; None to call it itself.
    proxy_login
        Where the name and password for the proxy are kept.
    """

    name: str
    curator: str
    server_name: str | None = None
    proxy: str | None = None
    proxy_login: Secret | None = None

    @property
    def crl(self) -> Path | None:
        """The authority's revocation list, where the site has one."""
        path = self.folder / REVOKED
        return path if path.exists() else None

    @property
    def next(self) -> Path:
        """Folder of the key that is to follow, while its certificate is awaited."""
        return self.folder / "next"

    @property
    def previous(self) -> Path:
        """Folder of the key and certificate that were in use before the last renewal."""
        return self.folder / "previous"

    @property
    def ledger(self) -> Path:
        """What this site has spent, and the releases it was spent on."""
        return self.folder / "ledger.sqlite"

    @property
    def lock(self) -> Path:
        """Held by the one command that may write the ledger."""
        return self.folder / "site.lock"

    @property
    def openers(self) -> Path:
        """Folder of the site's opener keys (`dppca.owner.site.opener_keys`)."""
        return self.folder / "openers"

    @property
    def peers(self) -> Path:
        """The owners' keys that the steward has verified (`dppca.owner.site.agreement`)."""
        return self.folder / "peers.yaml"

    @property
    def private(self) -> tuple[Path, ...]:
        """What other users of the machine must not read, write or lock."""
        ledger = self.ledger.name
        files = (SITE_FILE, POLICY_FILE, ledger, f"{ledger}-journal", f"{ledger}-wal")
        names = (*files, f"{ledger}-shm", "ledger.mark", KEY, self.lock.name)
        keys = (self.openers, *self.openers.glob("*.key"), self.folder / CLUSTER / KEY)
        return (self.folder, *(self.folder / name for name in names), self.peers, *keys)

    def study_folder(self, name: str) -> Path:
        """Where a study's document, components and artefacts are kept."""
        if not is_party_name(name):
            raise SettingError(f"{name!r} cannot be a study's name: use a-z 0-9 . _ - only")
        return self.folder / STUDIES / name


@dataclass(frozen=True, slots=True)
class AggregateRule:
    """Which studies with ``trust: aggregate`` a data set takes part in.

    Attributes
    ----------
    colluders
        Least number of colluding owners that a study must bear.
    trusted_openers
        One of these at least must be among a study's openers; empty: any openers will do.
    """

    colluders: int
    trusted_openers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set of the policy: where its rows are, and what a release of them is charged to.

    ``aggregate`` is None where it takes no part in studies with ``trust: aggregate``.
    """

    name: str
    source: Location
    account: Account
    aggregate: AggregateRule | None = None
    key: str = ""
    engine: str = LOCAL


@dataclass(frozen=True, slots=True)
class Policy:
    """The data sets and the populations of a site, in the order of the file.

    Attributes
    ----------
    populations
        Those that are stated, and those of data sets with a budget of their own.
    """

    data_sets: tuple[DataSet, ...]
    populations: tuple[Population, ...]

    def data_set(self, name: str | None) -> DataSet:
        """The data set called ``name``, or the only one there is.

        Raises
        ------
        NoPolicyError
            The policy does not name it, or names none.
        SettingError
            No name was given and there are several.
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
            "and the population whose rows they are; without a policy there is no release"
        )


def load_site(folder: Path) -> Site:
    """Read ``site.yaml``; `SettingError` names every field at fault."""
    path = folder / SITE_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"no {SITE_FILE} can be read in {folder}: run `dppca-owner --site "
            f"{shlex.quote(str(folder))} init "
            "--name NAME --curator HOST:PORT`, or name another folder with --site"
        ) from error
    document = parse_document(text, SiteDocument, SITE_FILE)
    site = Site(
        folder=folder.resolve(),
        name=document.name,
        curator=document.curator,
        server_name=document.server_name,
        proxy=document.proxy,
        proxy_login=document.keep_login(folder),
    )
    shut(site.private)
    if site.openers.exists():  # the cryptography of openers takes its time to import
        from dppca.owner.site.opener_keys import sweep_opener_keys

        sweep_opener_keys(site.openers, site.ledger)
    return site


def load_policy(site: Site) -> Policy:
    """Read ``policy.yaml``.

    Raises
    ------
    NoPolicyError
        There is no such file.
    SettingError
        It is not valid; the message names every field at fault, or two data sets of one file.
    """
    path = site.folder / POLICY_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NoPolicyError(
            f"no {POLICY_FILE} can be read in {site.folder}: enter the data sets and the lifetime "
            "budgets of their populations; without a policy there is no release"
        ) from error
    document = parse_document(text, PolicyDocument, POLICY_FILE)
    sets, stated = document.data_sets or {}, document.populations or {}
    _require_names_apart(sets, stated)
    sources = {name: _locate(site, name, each) for name, each in sets.items()}
    _require_rows_of_their_own(sets, sources)
    places = {name: digest_places(each, folder=site.folder) for name, each in sources.items()}
    drawn_on = {name: each.population or name for name, each in sets.items()}
    populations: list[Population] = []
    for name, budget in _budgets(sets, stated).items():
        members = tuple(each for each in sets if drawn_on[each] == name)
        statement = stated.get(name)
        population = Population(
            name=name,
            budget=budget,
            who="" if statement is None else statement.who,
            was=() if statement is None else statement.was or (),
            data_sets=members,
            sources=frozenset().union(*(places[each].within for each in members)),
            folders=frozenset().union(*(places[each].folders for each in members)),
        )
        populations.append(population)
    data_sets = tuple(
        DataSet(
            name,
            sources[name],
            _account(name, populations, drawn_on[name], places[name].address),
            _rule(each.aggregate),
            each.key or "",
            each.engine or (SPARK if each.source and each.source.spark else LOCAL),
        )
        for name, each in sets.items()
    )
    return Policy(data_sets, tuple(populations))


def require_address(value: str) -> str:
    """Pass on a ``HOST:PORT``; `ValueError` otherwise."""
    match = _ADDRESS.fullmatch(value)
    if match is None or not 0 < int(match.group(1)) <= _MAX_PORT:
        raise ValueError(
            f"must be HOST:PORT with a port from 1 to {_MAX_PORT}, such as hub.example:7443"
        )
    return value


def require_proxy(value: str) -> str:
    """Pass on a proxy's ``HOST:PORT``; `ValueError` otherwise, which repeats nothing of it."""
    if "://" in value or "@" in value:
        raise ValueError(
            "must be HOST:PORT alone, such as proxy.example:3128; a name and password are kept "
            "elsewhere (proxy_login)"
        )
    return require_address(value)


def _no_login(value: object) -> object:
    if isinstance(value, str):
        message = (
            "holds no password: say where NAME:PASSWORD is kept, as {env: NAME} or {file: PATH}"
        )
        raise ValueError(message)  # noqa: TRY004 - what pydantic takes for a fault of the field
    return value


def _exact(value: object) -> Decimal:
    """A decimal from text (or a whole number): a YAML fraction has been through binary."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        message = 'write the decimal as text, in quotes, such as "3.0"'
        raise ValueError(message)  # noqa: TRY004 - what pydantic takes for a fault of the field
    return parse_decimal(value)


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
    """Refuse a population that is not stated, or stated twice, and a name that means two."""
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


def _one_line(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("say who the people are, in one line of text")
    return text.strip()


def _locate(site: Site, name: str, document: DataSetDocument) -> Location:
    try:
        return document.locate(name, folder=site.folder)
    except SettingError as error:
        raise SettingError(f"{POLICY_FILE}: data_sets.{name}: {error}") from None


def _rule(document: AggregateDocument | None) -> AggregateRule | None:
    if document is None:
        return None
    return AggregateRule(document.colluders, document.trusted_openers or ())


def find_shared_rows(sources: Mapping[str, Location]) -> Iterator[tuple[str, str]]:
    """Pairs of data sets with rows in common, as far as their places show it."""
    marks = {name: frozenset(each.marks()) for name, each in sources.items()}
    above = {name: frozenset(each.inside()) for name, each in sources.items()}
    for one, other in combinations(sources, 2):
        if marks[one] & (marks[other] | above[other]) or above[one] & marks[other]:
            yield one, other


def _require_rows_of_their_own(
    sets: Mapping[str, DataSetDocument], sources: Mapping[str, Location]
) -> None:
    """Refuse rows that have a budget in two places, of which one is not a population's."""
    for one, other in find_shared_rows(sources):
        if sets[one].population is None or sets[other].population is None:
            raise SettingError(
                f"{POLICY_FILE}: data sets {one} and {other} have the same rows "
                f"({sources[other].title}), which have one lifetime budget. State the people in "
                "populations and let both draw on it (population: NAME), or keep one of the two "
                "names; `dppca-owner budget` shows what was charged to each"
            )


class SiteDocument(StrictDocument):
    """``site.yaml``: who this owner is and where its curator listens.

    Attributes
    ----------
    version
        Version of this format.
    name
        The owner's name, as studies and its certificate have it.
    curator
        The curator's address, such as ``hub.example:7443``.
    server_name
        Name to expect in the curator's certificate, where it is not the host of ``curator``.
    proxy
        The HTTP proxy through which the curator is called, such as ``proxy.example:3128``; without
        it the curator is called directly. Variables such as ``https_proxy`` have no effect.
    proxy_login
        Where ``NAME:PASSWORD`` for the proxy is kept, if it asks for them (HTTP Basic).
    """

    version: Literal[1] = 1
    name: Annotated[str, AfterValidator(require_party_name)]
    curator: Annotated[str, AfterValidator(require_address)]
    server_name: str | None = None
    proxy: Annotated[str, AfterValidator(require_proxy)] | None = None
    proxy_login: Annotated[AddressDocument | None, BeforeValidator(_no_login)] = None

    @model_validator(mode="after")
    def _require_proxy(self) -> Self:
        if self.proxy_login is not None and self.proxy is None:
            raise ValueError("proxy_login is for a proxy: give proxy too, or leave both out")
        return self

    def keep_login(self, folder: Path) -> Secret | None:
        """Where the proxy's name and password are kept, seen from the site's folder."""
        return None if self.proxy_login is None else self.proxy_login.locate(folder)


class AggregateDocument(StrictDocument):
    """What a data set asks of studies with ``trust: aggregate``.

    Attributes
    ----------
    colluders
        A study must bear at least so many owners that collude with the curator.
    trusted_openers
        Owners one of whom at least must be an opener; without it, any openers will do.
    """

    colluders: Annotated[int, Field(ge=1)]
    trusted_openers: (
        Annotated[
            tuple[Annotated[str, AfterValidator(require_party_name)], ...], Field(min_length=1)
        ]
        | None
    ) = None


class PopulationDocument(StrictDocument):
    """People whose rows this site holds, and what all releases from these rows may spend together.

    Attributes
    ----------
    who
        Who they are, in one line. Commands show it; it never leaves the site.
    epsilon
        Lifetime budget: the largest epsilon of all releases together, from whichever data sets and
        queries. A decimal in quotes.
    delta
        Lifetime delta; ``"0"`` where only Laplace noise is used. A decimal in quotes.
    was
        Names under which these people were charged before: of a population that has another name
        now, or of a data set with a budget of its own that has no such entry any more.
    """

    who: Annotated[str, AfterValidator(_one_line)]
    epsilon: Annotated[Decimal, BeforeValidator(_exact)]
    delta: Annotated[Decimal, BeforeValidator(_exact)]
    was: (
        Annotated[
            tuple[Annotated[str, AfterValidator(require_party_name)], ...], Field(min_length=1)
        ]
        | None
    ) = None


class DataSetDocument(PlaceDocument):
    """Rows that studies may use, and whose they are.

    Attributes
    ----------
    path
        The data: a file (CSV, Parquet or Arrow), a folder of files, or a pattern such as
        ``rows/*.parquet``; relative to the site's folder, or an address such as ``s3://bucket/rows``
        (``gs:``, ``abfs:``, ``hdfs:``).
    source
        Instead of it, the database or lake that the rows are in.
    table
        With ``source``: a table or view by its name, such as ``omop.person_year``.
    query
        With ``source``, instead of ``table``: the file of a query of one statement, relative to the
        site's folder.
    key
        A column that tells a row from others, for ``check --keys``.
    population
        The population whose rows these are. Several data sets of one population may share files,
        or be queries of one database.
    epsilon, delta
        Without ``population``: a lifetime budget of its own, as policies had it before there were
        populations. No other data set may share its files or its database then.
    aggregate
        Needed for studies with ``trust: aggregate``: such a study is refused without it.
    engine
        Where rows are read: ``local``, ``spark``, or a Dask scheduler as ``dask://HOST:PORT`` on
        this machine or ``tls://HOST:PORT``; without it here, and a table of Spark by Spark.
    """

    population: Annotated[str, AfterValidator(require_party_name)] | None = None
    epsilon: Annotated[Decimal | None, BeforeValidator(_exact)] = None
    delta: Annotated[Decimal | None, BeforeValidator(_exact)] = None
    aggregate: AggregateDocument | None = None
    engine: Annotated[str, AfterValidator(require_engine)] | None = None

    @model_validator(mode="after")
    def _require_one_budget(self) -> Self:
        given = [name for name in ("epsilon", "delta") if getattr(self, name) is not None]
        if self.population is not None and given:
            raise ValueError(
                f"give population or {' and '.join(given)}, not both: the budget of a data set "
                "that draws on a population is the population's"
            )
        if self.population is None and len(given) < 2:
            raise ValueError(
                "name the population whose rows these are (or, as in older policies, give epsilon "
                "and delta, both of them)"
            )
        return self


class PolicyDocument(StrictDocument):
    """``policy.yaml``: whose rows there are. Nothing else can be released from this site.

    Attributes
    ----------
    populations
        Who is protected, by the name that commands and the ledger use. One that was charged stays
        here even if no data set draws on it any more.
    data_sets
        Each data set by the name that commands and the ledger use.
    """

    populations: (
        dict[Annotated[str, AfterValidator(require_party_name)], PopulationDocument] | None
    ) = None
    data_sets: dict[Annotated[str, AfterValidator(require_party_name)], DataSetDocument] | None = (
        None
    )


def parse_document(text: str, kind: type[_Document], name: str) -> _Document:
    """Read a file of the site; `SettingError` names every field at fault."""
    try:
        document = load_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        raise SettingError(f"{name} is not YAML: {error}") from error
    if document is None and text.strip():
        document = {}  # comments alone, as `init` writes the policy; an empty file is a lost one
    if not isinstance(document, Mapping):
        raise SettingError(f"{name} must be a mapping with {', '.join(kind.model_fields)}")
    try:
        return kind.model_validate(dict(document))
    except ValidationError as error:
        raise SettingError(_explain(name, error)) from error


def _explain(name: str, error: ValidationError) -> str:
    faults: list[Any] = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [
        f"{'.'.join(str(part) for part in fault['loc']) or name}: "
        f"{fault['msg'].removeprefix('Value error, ')}"
        for fault in faults
    ]
    return f"{name} is not valid:\n  " + "\n  ".join(lines)
