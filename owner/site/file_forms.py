"""Pydantic models of ``site.yaml`` and ``policy.yaml``.

Budgets are decimals written as text, because a budget is an exact number and a binary fraction is
not. Neither file has a default for a budget.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)

from dppca.common.kernel.documents.amounts import parse_decimal
from dppca.common.kernel.documents.faults import explain_faults
from dppca.common.kernel.documents.stated_fields import WHOLE, PartyName
from dppca.common.kernel.documents.yaml_text import NotYamlError, load_yaml
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema.units import NeighbourRelation, Unit
from dppca.owner.engines.addresses import require_engine
from dppca.owner.records.locations import Secret
from dppca.owner.site.source_documents import (
    AddressDocument,
    PlaceDocument,
    StrictDocument,
    no_text,
)

_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_MAX_PORT = 65535  # of TCP
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_MOST_OF_A_NAME = 253  # characters, by RFC 1035 as printed

_Document = TypeVar("_Document", bound=BaseModel)


def parse_document(text: str, kind: type[_Document], name: str) -> _Document:
    """Read a file of the site; `SettingError` names every field at fault."""
    try:
        document = load_yaml(text)
    except NotYamlError as error:
        raise SettingError(f"{name} is not YAML: {error}") from None
    if document is None and text.strip():
        document = {}  # only comments, as `init` writes the policy; an empty file counts as lost
    if not isinstance(document, Mapping):
        raise SettingError(f"{name} must be a mapping with {', '.join(kind.model_fields)}")
    try:
        return kind.model_validate(dict(document))
    except ValidationError as error:
        explanation = explain_faults(error, document, kind=kind, title=name, text=text)
        raise SettingError(explanation) from None  # pydantic's own message may quote a password


def require_address(value: str) -> str:
    """Return a ``HOST:PORT`` unchanged; raise `ValueError` for other text."""
    match = _ADDRESS.fullmatch(value)
    if match is None or not 0 < int(match.group(1)) <= _MAX_PORT:
        raise ValueError(
            f"must be HOST:PORT with a port from 1 to {_MAX_PORT}, such as hub.example:7443"
        )
    return value


def require_host(value: str) -> str:
    """Return a host name or an IP address unchanged; raise `ValueError` for other text."""
    try:
        ip_address(value)
    except ValueError:
        labels = value.removesuffix(".").split(".")
        numbers = labels[-1].isdigit()  # a broken address
        if len(value) > _MOST_OF_A_NAME or numbers or not all(map(_LABEL.fullmatch, labels)):
            raise ValueError(
                "must be a host that the curator's certificate names, such as hub.example, without "
                "a port"
            ) from None
    return value


def require_proxy(value: str) -> str:
    """Return a proxy's ``HOST:PORT`` unchanged; the `ValueError` for other text never quotes it."""
    if "://" in value or "@" in value:
        raise ValueError(
            "must be HOST:PORT alone, such as proxy.example:3128; a name and password are kept "
            "elsewhere (proxy_login)"
        )
    return require_address(value)


def _exact(value: object) -> Decimal:
    """Decimal from text or a whole number; YAML has already rounded a fraction to binary."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(  # noqa: TRY004 - what pydantic takes for a fault of the field
            'write the decimal as text, in quotes, such as "3.0"'
        )
    return parse_decimal(value)


def _one_line(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("say who the people are, in one line of text")
    return text.strip()


_Exact = Annotated[Decimal, BeforeValidator(_exact)]
_Names = Annotated[tuple[PartyName, ...], Field(min_length=1)]


class SiteDocument(StrictDocument):
    """``site.yaml``: the owner's name and its curator's address.

    Attributes
    ----------
    version
        Version of this format.
    name
        The owner's name, as studies and its certificate have it.
    curator
        The curator's address, such as ``hub.example:7443``.
    server_name
        Expected name in the curator's certificate, if it is not the host of ``curator``.
    proxy
        The HTTP proxy to the curator, such as ``proxy.example:3128``. Default: none. Variables such
        as ``https_proxy`` have no effect.
    proxy_login
        Place of ``NAME:PASSWORD`` for the proxy, if it asks for them (HTTP Basic).
    """

    version: Literal[1] = 1
    name: PartyName
    curator: Annotated[str, AfterValidator(require_address)]
    server_name: Annotated[str, AfterValidator(require_host)] | None = None
    proxy: Annotated[str, AfterValidator(require_proxy)] | None = None
    proxy_login: Annotated[
        AddressDocument | None,
        no_text(
            "holds no password: say where NAME:PASSWORD is kept, as {env: NAME} or {file: PATH}"
        ),
    ] = None

    @model_validator(mode="after")
    def _require_proxy(self) -> Self:
        if self.proxy_login is not None and self.proxy is None:
            raise ValueError("proxy_login is for a proxy: give proxy too, or leave both out")
        return self

    def keep_login(self, folder: Path) -> Secret | None:
        """Reference to the proxy's name and password, relative to the site's folder."""
        return None if self.proxy_login is None else self.proxy_login.locate(folder)


class AggregateDocument(StrictDocument):
    """Conditions of a data set on studies with ``trust: aggregate``.

    Attributes
    ----------
    colluders
        Least number of owners colluding with the curator that a study must tolerate.
    trusted_openers
        At least one of these owners must be an opener. Default: any.
    """

    colluders: Annotated[int, Field(ge=1), WHOLE]
    trusted_openers: _Names | None = None


class PopulationDocument(StrictDocument):
    """People whose rows this site holds, and the budget of all releases from these rows.

    Attributes
    ----------
    who
        Who the people are, in one line. Commands show it; it never leaves the site.
    epsilon
        Lifetime budget: the largest epsilon of all releases together, from all data sets and
        queries.
    delta
        Lifetime delta; ``"0"`` if only Laplace noise is used.
    was
        Names under which these people were charged before.
    unit
        What the budget promises: that a person is hidden who is ``replaced`` by one with as many
        rows or, with ``person``, with any number of rows. Every data set then needs ``key``, the
        same in all of them. Studies that publish a number which the budget hides are refused.
    neighbours
        With ``added`` a person is hidden who is added or taken away.
    """

    who: Annotated[str, AfterValidator(_one_line)]
    epsilon: _Exact
    delta: _Exact
    was: _Names | None = None
    unit: Unit = Unit.ROW
    neighbours: NeighbourRelation = NeighbourRelation.REPLACED


class DataSetDocument(PlaceDocument):
    """Rows that studies may use, and the population they belong to.

    Attributes
    ----------
    path
        A file (CSV, Parquet or Arrow), a folder of files, or a pattern such as ``rows/*.parquet``;
        relative to the site's folder, or an address such as ``s3://bucket/rows`` (``gs:``,
        ``abfs:``, ``hdfs:``).
    source
        Instead of ``path``: the database or lake that holds the rows.
    table
        With ``source``: a table or view, such as ``omop.person_year``.
    query
        With ``source``, instead of ``table``: the file of a query of one statement, relative to the
        site's folder.
    key
        The column that identifies people, such as their number. `check`, `review` and `contribute`
        count the rows of each; ``check --keys`` writes those of rows at fault.
    one_hot
        With ``path``: one-hot columns that are one attribute of a study, as ``ATTRIBUTE: {COLUMN:
        LABEL}``. Unless exactly one of them is 1 and all others 0, the attribute is missing.
    format
        With ``path``: how its text files are written. `check` proposes it; nothing is guessed.
    mapping
        The file that says how columns become a study's attributes, relative to the site's folder.
        Default: each attribute is the column of its name.
    population
        The population of these rows. Its data sets may share files, or be queries of one database.
    aggregate
        Studies with ``trust: aggregate`` are refused without it.
    must_say
        Texts of a study, such as ``[purpose, contact, approval]``. A study that lacks one is
        refused. Default: none.
    engine
        What reads the rows: ``local``, ``spark``, or a Dask scheduler as ``dask://HOST:PORT`` on
        this machine or ``tls://HOST:PORT``. Default: ``local``, and ``spark`` for a table of Spark.
    """

    population: PartyName
    aggregate: AggregateDocument | None = None
    must_say: tuple[Literal["title", "purpose", "contact", "approval"], ...] = ()
    engine: Annotated[str, AfterValidator(require_engine)] | None = None


class PolicyDocument(StrictDocument):
    """``policy.yaml``: the site's populations and data sets. Nothing else can be released.

    Attributes
    ----------
    populations
        The protected people, by the name that commands and the ledger use. A population that was
        charged stays here, even without data sets.
    data_sets
        Each data set by the name that commands and the ledger use.
    """

    populations: dict[PartyName, PopulationDocument] | None = None
    data_sets: dict[PartyName, DataSetDocument] | None = None
