"""Sources of rows in ``policy.yaml``, and the locations they stand for.

A password in the policy is refused: a policy is copied, shown and sent. A driver finds credentials
by itself (a libpq service, ``.pgpass``, a cloud's role), or an environment variable or a private
file holds the address with its credentials.

A kind's module is imported for a policy that names one: most name files, and read none at once.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dppca.owner.records.file_locations import locate_files
from dppca.owner.records.locations import Location, Secret
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.site.format_document import FormatDocument

_KEPT_ELSEWHERE = (
    "holds no password, and no address that may have one: name a libpq service, or where the "
    "address is kept, as uri: {env: NAME} or uri: {file: PATH}"
)

_CREDENTIAL = re.compile(r"(?i)(pass(word|wd)?|pwd|secret|token)\s*=|[:/][^/\s]*:[^/\s]+@")
"""Text next to a password, in libpq's keywords, a URI's query, or a URI's user part."""
_STATEMENT = re.compile(r"(?i)\s*(select|with|table|values)\s")


def _refuse(is_refused: Callable[[str], object], why: str) -> AfterValidator:
    """Refuse a text without repeating any of it."""

    def require(text: str) -> str:
        if is_refused(text):
            raise ValueError(why)
        return text

    return AfterValidator(require)


def no_text(why: str) -> BeforeValidator:
    """Refuse a text, without repeating any of it, if a mapping is expected."""

    def require(value: object) -> object:
        if isinstance(value, str):
            raise ValueError(why)  # noqa: TRY004 - what pydantic takes for a fault of the field
        return value

    return BeforeValidator(require)


# `locate_files` checks the address of a store.
PathText = Annotated[
    str,
    Field(min_length=1, pattern=r"^[^\x00]*$"),
    _refuse(lambda text: "://" not in text and _CREDENTIAL.search(text), _KEPT_ELSEWHERE),
]
_NO_ADDRESS = _refuse(lambda text: "://" in text, _KEPT_ELSEWHERE)
LocalText = Annotated[PathText, _NO_ADDRESS]


class StrictDocument(BaseModel):
    """A document that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class OneOfDocument(StrictDocument):
    """A document with exactly one of its fields given."""

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        _one_of(**dict(self))
        return self


class AddressDocument(OneOfDocument):
    """Place of an address or a login that may hold a password: give one of the two.

    Attributes
    ----------
    env
        Name of an environment variable.
    file
        A file that only its owner may read (mode 0600), relative to the site's folder.
    """

    env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    file: LocalText | None = None

    def locate(self, folder: Path) -> Secret:
        """Secret that it refers to, relative to the site's folder."""
        return Secret(self.env or "", None if self.file is None else folder / self.file)


class SourceForm(StrictDocument):
    """A source of one kind in a policy.

    ``takes_query`` is True if the data set needs a table or a query beside it.
    """

    takes_query: ClassVar[bool] = False

    @abstractmethod
    def locate(self, name: str, *, folder: Path, beside: PlaceDocument) -> Location:
        """Location of data set ``name``, relative to the site's folder.

        ``beside`` holds the data set's own fields, such as its query.
        """


_SECRETS = {"password", "passwd", "pwd", "user", "username", "host", "token", "secret", "key"}


class DatabaseDocument(SourceForm):
    """A database."""

    takes_query: ClassVar[bool] = True

    @model_validator(mode="before")
    @classmethod
    def _refuse_passwords(cls, value: object) -> object:
        if isinstance(value, str) or (isinstance(value, Mapping) and value.keys() & _SECRETS):
            raise ValueError(_KEPT_ELSEWHERE)
        return value


class PostgreSQLDocument(DatabaseDocument, OneOfDocument):
    """A database of PostgreSQL: give one of the two.

    Attributes
    ----------
    service
        A section of libpq's service file, which has host, database and role.
    uri
        Place of the driver's address.
    """

    service: (
        Annotated[
            str,
            Field(min_length=1, pattern=r"^[^\x00\]]*$"),
            _NO_ADDRESS,
            _refuse(lambda text: "=" in text, _KEPT_ELSEWHERE),
        ]
        | None
    ) = None
    uri: Annotated[AddressDocument | None, no_text(_KEPT_ELSEWHERE)] = None

    def locate(self, name: str, *, folder: Path, beside: PlaceDocument) -> Location:
        """Location of the database (`SourceForm.locate`)."""
        from dppca.owner.records.databases import PostgreSQLLocation

        return PostgreSQLLocation(
            f"{name} (database)",
            *beside.asked(folder),
            service=self.service or "",
            secret=None if self.uri is None else self.uri.locate(folder),
        )


class SQLiteDocument(DatabaseDocument):
    """A file of SQLite.

    Attributes
    ----------
    path
        The database file, relative to the site's folder.
    """

    path: LocalText

    def locate(self, name: str, *, folder: Path, beside: PlaceDocument) -> Location:
        """Location of the database file (`SourceForm.locate`)."""
        from dppca.owner.records.databases import SQLiteLocation

        title, path = f"{name} (database)", folder / self.path
        return SQLiteLocation(title, *beside.asked(folder), database=path)


class LakeDocument(SourceForm):
    """A table of a lake."""

    path: PathText
    version: Annotated[int, Field(ge=0)] | None = None
    read_by: ClassVar[str]
    """Name of its kind's class."""

    def locate(
        self,
        name: str,
        *,
        folder: Path,
        beside: PlaceDocument,  # noqa: ARG002 - it says all of it
    ) -> Location:
        """Location of the table; raise `SettingError` for an address with credentials."""
        from dppca.owner.records import lakes
        from dppca.owner.records.lake_files import LakeLocation

        place = locate_files(self.path, folder=folder, data_set=name)
        kind: type[LakeLocation] = getattr(lakes, self.read_by)
        return kind(f"{name} (lake)", place.address, self.version)


class DeltaDocument(LakeDocument):
    """A Delta table.

    Attributes
    ----------
    path
        Its folder: relative to the site's folder, or an address as in a data set's ``path``.
    version
        Version to read. Default: the newest at each reading.
    """

    read_by: ClassVar[str] = "DeltaLocation"


class IcebergDocument(LakeDocument):
    """An Iceberg table.

    Attributes
    ----------
    path
        Its metadata file (``.metadata.json``): relative to the site's folder, or an address as in a
        data set's ``path``.
    version
        Snapshot to read. Default: the newest at each reading.
    """

    read_by: ClassVar[str] = "IcebergLocation"


class SparkDocument(SourceForm):
    """A table or view of Spark's catalogue.

    Attributes
    ----------
    table
        ``CATALOGUE.SCHEMA.NAME``; without Unity or another catalogue it is ``spark_catalog``.
    version
        Version of Delta, or snapshot of Iceberg. Default: the newest at each reading.
    """

    table: Annotated[str, Field(pattern=r"^[^.`\x00-\x1f]+\.[^.`\x00-\x1f]+\.[^.`\x00-\x1f]+$")]
    version: Annotated[int, Field(ge=0)] | None = None

    def locate(
        self,
        name: str,
        *,
        folder: Path,  # noqa: ARG002 - it is in no folder
        beside: PlaceDocument,  # noqa: ARG002 - it says all of it
    ) -> Location:
        """Location of the table (`SourceForm.locate`)."""
        from dppca.owner.records.spark_tables import SparkLocation

        catalogue, schema, table = self.table.split(".")
        return SparkLocation(f"{name} (Spark table)", (catalogue, schema, table), self.version)


class SourceDocument(OneOfDocument):
    """Database, lake or Spark table that holds the rows: give one.

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

    postgresql: PostgreSQLDocument | None = None
    sqlite: SQLiteDocument | None = None
    delta: DeltaDocument | None = None
    iceberg: IcebergDocument | None = None
    spark: SparkDocument | None = None

    @property
    def chosen(self) -> SourceForm:
        """The source that is given."""
        form: SourceForm = getattr(self, _one_of(**dict(self)))
        return form


class PlaceDocument(StrictDocument):
    """Place of rows: ``path``, or ``source`` with ``table`` or ``query``."""

    path: PathText | None = None
    source: SourceDocument | None = None
    table: PathText | None = None
    query: (
        Annotated[
            LocalText,
            _refuse(
                _STATEMENT.match, "names the file of a query: write the statement into that file"
            ),
        ]
        | None
    ) = None
    key: PathText | None = None
    one_hot: dict[str, dict[str, str]] | None = None
    format: FormatDocument | None = None
    mapping: LocalText | None = None

    @model_validator(mode="after")
    def _require_place(self) -> Self:
        _one_of(path=self.path, source=self.source)
        if self.source is not None and self.source.chosen.takes_query:
            _one_of(table=self.table, query=self.query)
        elif self.table or self.query:
            raise ValueError("table and query are for a source that is a database")
        if self.format is not None and self.path is None:
            raise ValueError("format is for path: a source has no text files")
        groups = [*(self.one_hot or {}).values()]
        columns = [column for group in groups for column in group]
        if groups and self.path is None:
            raise ValueError("one_hot is for path: a source has it in its query, table or view")
        if len({*columns}) < len(columns) or any(
            len({*g.values()}) < max(2, len(g)) for g in groups
        ):
            raise ValueError(
                "one_hot joins two columns or more into each attribute, each column into one, with "
                "a label of its own"
            )
        return self

    def locate(self, name: str, *, folder: Path) -> Location:
        """Location of data set ``name``; raise `SettingError` for an address with credentials.

        ``folder`` is the site's.
        """
        if self.path is not None:
            place: Location = locate_files(self.path, folder=folder, data_set=name)
            if self.format is not None:
                place = place.written(self.format.read())
        else:
            assert self.source is not None  # noqa: S101 - one of the two is given
            place = self.source.chosen.locate(name, folder=folder, beside=self)
        if self.mapping is None and not self.one_hot:
            return place
        file = None if self.mapping is None else folder / self.mapping
        return place.mapped(MappingPlace(file, self.one_hot or {}))

    def asked(self, folder: Path) -> tuple[str, Path | None]:
        """The table and the file of the query; one of them is empty or None."""
        return self.table or "", None if self.query is None else folder / self.query


def _one_of(**given: object) -> str:
    """Name of the one field that is given; raise `ValueError` if there are none or several."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise ValueError(f"give one of {', '.join(given)}")
    return names[0]
