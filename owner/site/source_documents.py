"""How ``policy.yaml`` says where a data set's rows are, and the location it means.

A password in the policy is refused: a policy is copied, shown and sent. A driver finds credentials
by itself (a libpq service, ``.pgpass``, a cloud's role), or the address that holds them is kept in
an environment variable or in a private file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dppca.owner.records.locations import (
    DatabaseLocation,
    LakeLocation,
    Location,
    Secret,
    SparkLocation,
    locate_files,
)

_KEPT_ELSEWHERE = (
    "holds no password, and no address that may have one: name a libpq service, or where the "
    "address is kept, as uri: {env: NAME} or uri: {file: PATH}"
)

_CREDENTIAL = re.compile(r"(?i)(pass(word|wd)?|pwd|secret|token)\s*=|[:/][^/\s]*:[^/\s]+@")
"""What a password stands behind or before, in libpq's keywords, a URI's query, or its user."""
_STATEMENT = re.compile(r"(?i)\s*(select|with|table|values)\s")


def _no_credential(text: str) -> str:
    """Refuse an address with a password that stands where a name or a path is expected.

    Of an address of a store `locate_files` says what it may hold. Nothing of it is repeated.
    """
    if "://" not in text and _CREDENTIAL.search(text):
        raise ValueError(_KEPT_ELSEWHERE)
    return text


def _no_address(text: str) -> str:
    if "://" in text:
        raise ValueError(_KEPT_ELSEWHERE)
    return text


def _no_setting(text: str) -> str:
    if "=" in text:
        raise ValueError(_KEPT_ELSEWHERE)
    return text


def _no_statement(text: str) -> str:
    if _STATEMENT.match(text):
        raise ValueError("names the file of a query: write the statement into that file")
    return text


PathText = Annotated[
    str, Field(min_length=1, pattern=r"^[^\x00]*$"), AfterValidator(_no_credential)
]
LocalText = Annotated[PathText, AfterValidator(_no_address)]


class StrictDocument(BaseModel):
    """A document in which every field has to be known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AddressDocument(StrictDocument):
    """Where an address, or a login, is kept that may hold a password; one of the two.

    Attributes
    ----------
    env
        Name of an environment variable.
    file
        A file that its owner alone may read (mode 0600), relative to the site's folder.
    """

    env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    file: LocalText | None = None

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        _one_of(env=self.env, file=self.file)
        return self

    def locate(self, folder: Path) -> Secret:
        """The place it means, seen from the site's folder."""
        return Secret(self.env or "", None if self.file is None else folder / self.file)


def _no_text(value: object) -> object:
    if isinstance(value, str):
        raise ValueError(_KEPT_ELSEWHERE)  # noqa: TRY004 - what pydantic takes for a fault
    return value


class DatabaseDocument(StrictDocument):
    """A database; one of the three.

    Attributes
    ----------
    service
        Of PostgreSQL: a section of libpq's service file, which has host, database and role.
    path
        Of SQLite: the database file, relative to the site's folder.
    uri
        Where the driver's address is kept.
    """

    service: (
        Annotated[
            str,
            Field(min_length=1, pattern=r"^[^\x00\]]*$"),
            AfterValidator(_no_address),
            AfterValidator(_no_setting),
        ]
        | None
    ) = None
    path: LocalText | None = None
    uri: Annotated[AddressDocument | None, BeforeValidator(_no_text)] = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_passwords(cls, value: object) -> object:
        if isinstance(value, str) or (isinstance(value, Mapping) and value.keys() & _SECRETS):
            raise ValueError(_KEPT_ELSEWHERE)
        return value

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        _one_of(service=self.service, path=self.path, uri=self.uri)
        return self


_SECRETS = {"password", "passwd", "pwd", "user", "username", "host", "token", "secret", "key"}


class LakeDocument(StrictDocument):
    """A table of a lake.

    Attributes
    ----------
    path
        Its folder, or of Iceberg its metadata file (``.metadata.json``): relative to the site's
        folder, or an address as a data set's ``path`` may be.
    version
        Version of Delta, or snapshot of Iceberg; without it the newest whenever it is read.
    """

    path: PathText
    version: Annotated[int, Field(ge=0)] | None = None


class SparkDocument(StrictDocument):
    """A table or view of Spark's catalogue.

    Attributes
    ----------
    table
        ``CATALOGUE.SCHEMA.NAME``; without Unity or another catalogue it is ``spark_catalog``.
    version
        Version of Delta, or snapshot of Iceberg; without it the newest whenever it is read.
    """

    table: Annotated[str, Field(pattern=r"^[^.`\x00-\x1f]+\.[^.`\x00-\x1f]+\.[^.`\x00-\x1f]+$")]
    version: Annotated[int, Field(ge=0)] | None = None


class SourceDocument(StrictDocument):
    """Which database, lake or Spark table the rows are in; one of these.

    Attributes
    ----------
    postgresql
        PostgreSQL.
    sqlite
        SQLite.
    delta, iceberg
        A table of a lake at a version.
    spark
        A table or view of Spark's catalogue, in the session that the environment names.
    """

    postgresql: DatabaseDocument | None = None
    sqlite: DatabaseDocument | None = None
    delta: LakeDocument | None = None
    iceberg: LakeDocument | None = None
    spark: SparkDocument | None = None

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        driver = _one_of(**{name: getattr(self, name) for name in type(self).model_fields})
        database: DatabaseDocument | LakeDocument | SparkDocument = getattr(self, driver)
        if not isinstance(database, DatabaseDocument):
            return self
        if database.service is not None and driver != "postgresql":
            raise ValueError(f"{driver} has no services: give uri")
        if (database.path is not None) != (driver == "sqlite"):
            raise ValueError("path is for sqlite, and sqlite needs it")
        return self

    @property
    def is_database(self) -> bool:
        """Whether it needs a table or a query beside it."""
        return not (self.delta or self.iceberg or self.spark)


class PlaceDocument(StrictDocument):
    """Where rows are: ``path``, or ``source`` with ``table`` or ``query``."""

    path: PathText | None = None
    source: SourceDocument | None = None
    table: PathText | None = None
    query: Annotated[LocalText, AfterValidator(_no_statement)] | None = None
    key: PathText | None = None

    @model_validator(mode="after")
    def _require_place(self) -> Self:
        _one_of(path=self.path, source=self.source)
        if self.source is not None and self.source.is_database:
            _one_of(table=self.table, query=self.query)
        elif self.table or self.query:
            raise ValueError("table and query are for a source that is a database")
        return self

    def locate(self, name: str, *, folder: Path) -> Location:
        """The location it means; `SettingError` for an address with credentials.

        Parameters
        ----------
        name
            Name of the data set.
        folder
            The site's folder.
        """
        if self.path is not None:
            return locate_files(self.path, folder=folder, data_set=name)
        chosen = {k: v for k in SourceDocument.model_fields if (v := getattr(self.source, k))}
        ((driver, database),) = chosen.items()
        if isinstance(database, SparkDocument):
            catalogue, schema, table = database.table.split(".")
            return SparkLocation(
                (catalogue, schema, table), database.version, f"{name} (Spark table)"
            )
        if isinstance(database, LakeDocument):
            place = locate_files(database.path, folder=folder, data_set=name)
            return LakeLocation(driver, place.address, database.version, f"{name} (lake)")
        secret = None if database.uri is None else database.uri.locate(folder)
        return DatabaseLocation(
            driver=driver,
            title=f"{name} (database)",
            service=database.service or "",
            database=None if database.path is None else folder / database.path,
            secret=secret,
            table=self.table or "",
            query=None if self.query is None else folder / self.query,
        )


def _one_of(**given: object) -> str:
    """The one that is given; `ValueError` where none is, or several are."""
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise ValueError(f"give one of {', '.join(given)}")
    return named[0]
