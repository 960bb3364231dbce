"""Rows of a database, by its ADBC driver, counted and read in one read-only transaction.

What runs is what is digested: the statement of the query's file, or the table in the schema in
which it was found. Memory stays flat: drivers give batches, PostgreSQL's of `_BATCH_BYTES` at most.
"""

from __future__ import annotations

import hashlib
import os
import re
from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.shell.packages import require_package
from dppca.owner.records.locations import Location, Place, Remark, Secret, resolve
from dppca.owner.records.queries import (
    POSTGRESQL,
    SQLITE,
    Dialect,
    count_query,
    no_rows,
    read_columns,
    require_one_statement,
    schema_query,
    share_columns,
    table_query,
)
from dppca.owner.records.refusals import STATES, translated_errors
from dppca.owner.records.rights import describe_rights
from dppca.owner.records.source_facts import SourceFacts
from dppca.owner.records.sources import Source, Wanted

_BATCH_BYTES: Final = 1 << 20  # of PostgreSQL's rows, so that memory stays flat
_BATCH_ROWS: Final = 1020  # of SQLite, whole also if each row comes in two or three parts


class DigestedQuery(NamedTuple):
    """A query, the SHA-256 that the ledger has of it (hexadecimal), and the table that it reads."""

    text: str
    sha256: str
    table: str = ""


@dataclass(frozen=True, slots=True)
class DatabaseLocation(Location):
    """A table or a query of a database, by an ADBC driver.

    One of ``table``, a name, and ``query``, the file of a query, is given. ``module`` is the
    driver's package; ``options`` are those of each statement that reads, ``asked`` those of a
    question about the session, which is no query.
    """

    table: str = ""
    query: Path | None = None
    module: ClassVar[str]
    dialect: ClassVar[Dialect]
    options: ClassVar[dict[str, str]] = {}
    asked: ClassVar[dict[str, str]] = {}

    @abstractmethod
    def address(self) -> str:
        """Address for the driver; it may hold a password."""

    def name_columns(self, connection: Any, query: str) -> list[str]:
        """Names of a query's columns, before the database makes them distinct."""
        del connection, query
        return []

    def prepare(self, connection: Any) -> None:
        """Let the database read the queries of its views as it reads the steward's."""

    def read_query(self) -> DigestedQuery:
        """Query, with the SHA-256 of its file or of the table's name.

        Raise `SettingError` if the file cannot be read or is not one statement, `DataError` if the
        table is not found.
        """
        if self.query is None:
            return _statement(self.table, table_query(self.table))
        try:
            content = self.query.read_bytes()
            text = content.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"the query {self.query} of {self.title} cannot be read") from error
        try:
            statement = require_one_statement(text, self.dialect)
        except SettingError as error:
            raise SettingError(f"{self.query}: {error}") from None
        return DigestedQuery(statement, hashlib.sha256(content).hexdigest())

    def open(self) -> DatabaseSource:
        """Read the query's columns and count its rows; no row leaves the database."""
        with _counting(self, self.read_query()) as source:
            return replace(source, connection=None)

    def examine(self) -> list[Remark]:
        """Remarks on the connection and on the role, from the database."""
        with _counting(self, self.read_query()) as found:
            said, warnings = self.ask_about_role(found)
        relation = found.facts.relation
        of = f", of {relation}" if relation else ""
        rows, columns = many(found.n_rows, "rows"), many(len(found.names), "columns")
        text = f"{rows} and {columns} in the database{of}"
        return [
            Remark("; ".join([text, *said])),
            *(Remark(warning, is_warning=True) for warning in warnings),
        ]

    @abstractmethod
    def ask_about_role(self, found: DatabaseSource) -> tuple[list[str], list[str]]:
        """Return findings on the connection and the role's rights, with corrections."""


_PASSWORD = re.compile(r"(://[^/?#@:]*:)[^@/]*(?=@)|((?:^|[\s?&])password=)(?:'[^']*'|[^\s&]*)")
"""A password in an address or in libpq's pairs of keys and values."""


def _service_lines(service: str) -> Iterator[str]:
    """Lines of a service of libpq, in the first file that has it, without its password.

    Source: libpq, "The Connection Service File".
    """
    folder = os.environ.get("PGSYSCONFDIR", "")
    user = os.environ.get("PGSERVICEFILE") or str(Path.home() / ".pg_service.conf")
    for path in (user, *([os.path.join(folder, "pg_service.conf")] if folder else [])):  # noqa: PTH118
        try:
            lines = Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        except OSError:
            continue
        sections = [number for number, line in enumerate(lines) if line.strip().startswith("[")]
        for begin, end in zip(sections, [*sections[1:], len(lines)], strict=True):
            if lines[begin].strip() == f"[{service}]":
                yield from (
                    line.strip()
                    for line in lines[begin:end]
                    if not line.strip().startswith(("#", "password"))
                )
                return


@dataclass(frozen=True, slots=True)
class PostgreSQLLocation(DatabaseLocation):
    """A table or a query of PostgreSQL.

    ``service`` or ``secret`` gives access: a service of libpq, or a reference to the address.
    """

    service: str = ""
    secret: Secret | None = None
    module: ClassVar[str] = "adbc_driver_postgresql"
    dialect: ClassVar[Dialect] = POSTGRESQL
    options: ClassVar[dict[str, str]] = {
        "adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES),
    }
    asked: ClassVar[dict[str, str]] = {"adbc.postgresql.use_copy": "false"}

    def read_query(self) -> DigestedQuery:
        """Query (`DatabaseLocation.read_query`); a table's schema is found as the role finds it."""
        if self.query is not None or "." in self.table:
            return DatabaseLocation.read_query(self)
        # In a transaction of its own, for the first question fixes the moment of the rows.
        with _transaction(self) as connection:
            asked = schema_query(self.table, self.dialect)
            schema = [s for b in _rows(self, connection, asked) for s in b.column(0).to_pylist()]
        if not schema:
            raise DataError(f"{self.title} cannot be read: {STATES['42P01']}")
        return _statement(f"{schema[0]}.{self.table}", table_query(self.table, schema[0]))

    def ask_about_role(self, found: DatabaseSource) -> tuple[list[str], list[str]]:
        """Ask the server, which sees its own connection and the rights that roles were granted."""
        # A database that is only compatible with PostgreSQL may lack parts of its catalogue.
        with suppress(DataError):
            (batch,) = _rows(self, found.connection, self.dialect.examination)
            is_remote, encrypted, n_writable = (column[0].as_py() for column in batch.columns)
            return describe_rights(
                is_clear=bool(is_remote and not encrypted),
                is_encrypted=encrypted,
                n_writable=n_writable,
                is_hidden=_is_refused(found, *self.dialect.unhidden),
                is_found_by_path=_is_refused(found, *self.dialect.unfound),
            )
        return ["this command cannot see what its role may do, or whether TLS is used"], []

    def address(self) -> str:
        """Address for the driver, from the secret or the service."""
        if self.secret is not None:
            return self.secret.read(f"the address of {self.title}")
        return f"postgresql:///?service={quote(self.service, safe='')}"

    def leads_to(self) -> tuple[str, ...]:
        """See `Location`: the address without its password, or the lines of the service."""
        found = DatabaseLocation.leads_to(self)
        if self.secret is not None:
            return (*found, _PASSWORD.sub(r"\1\2", self.address()))
        return (*found, *_service_lines(self.service))

    @property
    def place(self) -> Place:
        """Place of the database, since each query may be of the same people."""
        if self.secret is None:
            return Place(("service", self.service))
        if self.secret.path is None:
            return Place(("variable", self.secret.variable))
        return Place(resolve(str(self.secret.path)))


@dataclass(frozen=True, slots=True)
class SQLiteLocation(DatabaseLocation):
    """A table or a query of a file of SQLite, ``database``."""

    database: Path = Path()
    module: ClassVar[str] = "adbc_driver_sqlite"
    dialect: ClassVar[Dialect] = SQLITE
    options: ClassVar[dict[str, str]] = {"adbc.sqlite.query.batch_rows": str(_BATCH_ROWS)}

    def address(self) -> str:
        """Address of the file, opened read-only."""
        if not os.path.isfile(self.database):  # noqa: PTH113 - False in a closed folder, too
            raise DataError(f"the database file of {self.title} does not exist: correct its path")
        if not os.access(self.database, os.R_OK):
            raise DataError(f"this user may not read the database file of {self.title}")
        return f"{self.database.absolute().as_uri()}?mode=ro"

    @property
    def place(self) -> Place:
        """Place of the database, since each query may be of the same people."""
        return Place(resolve(str(self.database)))

    def name_columns(self, connection: Any, query: str) -> list[str]:
        """Names of a query's columns, which SQLite repeats only where the query stands alone."""
        with translated_errors(self.title), closing(connection.cursor()) as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": "1"})
            cursor.execute(query)
            with closing(cursor.fetch_record_batch()) as batches:
                return list(batches.schema.names)

    def prepare(self, connection: Any) -> None:
        """Put temporary views before the file's, in which a quoted name is never a text."""
        stored = (
            "SELECT sql FROM main.sqlite_master WHERE type = 'view' AND sql LIKE 'CREATE VIEW %'"
        )
        with translated_errors(self.title), closing(connection.cursor()) as cursor:
            cursor.execute(stored)
            for (sql,) in cursor.fetchall():
                strict = require_one_statement(sql, self.dialect)
                cursor.execute(f"CREATE TEMP VIEW {strict.removeprefix('CREATE VIEW ')}")

    def ask_about_role(self, found: DatabaseSource) -> tuple[list[str], list[str]]:
        """Return that the file is opened read-only."""
        del found
        return ["its file is opened read-only"], []


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSource(Source):
    """A query of a database, made safe by `require_one_statement`.

    ``fields`` are its columns, as the database names them; ``connection`` has an open
    transaction; None to open one for each reading.
    """

    place: DatabaseLocation
    query: str
    fields: tuple[pa.Field, ...]
    connection: Any = None
    is_live: ClassVar[bool] = True
    is_numbered: ClassVar[bool] = False
    mend: ClassVar[str] = "check the query and the rights of the role"
    uncut: ClassVar[str] = (
        "is read by this machine alone, in one transaction: workers would read rows of several "
        "moments. Leave out --engine, or export the rows to Parquet"
    )

    @property
    def is_pinned(self) -> bool:
        """False, in one transaction, too: a scan or a sort may give other rows each time."""
        return False

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Read rows (`Rows.read`); their number must equal the count in the same transaction."""
        if self.connection is None:
            with self.latest() as source:
                yield from source.read(wanted)
            return
        gone = [name for name in wanted.names if name not in self.names]
        if gone:
            raise DataError(f"{self.title} lacks the columns {', '.join(gone)} now")
        fields = [self.fields[self.names.index(name)] for name in wanted.names]
        n_read = 0
        for cells in _cells(self, fields, wanted.key):
            n_read += len(cells[0])
            for start in range(0, len(cells[0]), wanted.batch_rows):
                yield [array.slice(start, wanted.batch_rows) for array in cells]
        if n_read != self.n_rows:
            raise DataError(
                f"{self.title} counted {self.n_rows} rows and gave {n_read} in one "
                "transaction: the query must give the same rows each time it is run"
            )

    def key_cells(self, key: str, cells: Any) -> Any:
        """Cells of a key (`Source.key_cells`); a driver may give numbers as text."""
        return self.place.dialect.keys(self.fields[self.names.index(key)], cells)

    def latest(self) -> AbstractContextManager[DatabaseSource]:
        """The same rows as they are now, counted and read in one transaction."""
        return _counting(
            self.place, DigestedQuery(self.query, self.query_sha256, self.facts.relation)
        )


def _statement(table: str, query: str) -> DigestedQuery:
    return DigestedQuery(query, hashlib.sha256(table.encode()).hexdigest(), table)


@contextmanager
def _counting(place: DatabaseLocation, statement: DigestedQuery) -> Iterator[DatabaseSource]:
    """Open a transaction and count a query in it."""
    query = statement.text
    with _transaction(place) as connection:
        place.prepare(connection)
        fields = _fields(place, connection, query)
        counts = _rows(place, connection, count_query(query))
        yield DatabaseSource(
            title=place.title,
            names=tuple(field.name.strip() for field in fields),
            n_rows=sum(batch.column(0)[0].as_py() for batch in counts),
            query_sha256=statement.sha256,
            facts=SourceFacts(relation=statement.table),
            place=place,
            query=query,
            fields=fields,
            connection=connection,
        )


def _fields(place: DatabaseLocation, connection: Any, query: str) -> tuple[pa.Field, ...]:
    """Columns of a query; `DataError` if one occurs twice, and another has a number added to it."""
    with translated_errors(place.title), closing(connection.cursor()) as cursor:
        cursor.execute(no_rows(query))
        with closing(cursor.fetch_record_batch()) as batches:
            fields = tuple(batches.schema)
    if any(field.name.rpartition(":")[2].isdecimal() for field in fields):
        given = place.name_columns(connection, query)
        twice = [name for name, field in zip(given, fields, strict=False) if name != field.name]
        if twice:
            raise DataError(
                f"{place.title} has the column {twice[0]} twice: name each column in a query"
            )
    return fields


def _cells(
    source: DatabaseSource, fields: Sequence[pa.Field], key: str = ""
) -> Iterator[list[Any]]:
    """Cells of each column, batch by batch; of ``key`` each must be one person."""
    place, dialect = source.place, source.place.dialect
    shares = share_columns(fields, dialect)
    n_parts, n_each = len(shares), len(dialect.expressions("", fields[0]))
    statement = read_columns(source.query, fields, dialect)
    is_marked = bool(dialect.first(1))
    n_before = n_parts if is_marked else 0  # rows of fixed types that are still to come
    for batch in _rows(place, source.connection, statement):
        arrays = list(batch.columns)
        if is_marked:
            marks = arrays.pop(0).to_numpy()
            expected = np.resize(np.arange(1, n_parts + 1), len(marks))
            expected[:n_before] = 0
            if not np.array_equal(marks, expected):
                raise DataError(f"{source.title} gives rows in another order than asked for")
            arrays, n_before = [array[n_before:] for array in arrays], 0
        yield [
            (dialect.exact if field.name.strip() == key else dialect.joined)(
                field, [a[part::n_parts] for a in arrays[at : at + n_each]]
            )
            for part, share in enumerate(shares)
            for field, at in zip(share, range(0, len(arrays), n_each), strict=False)
        ]


def _is_refused(found: DatabaseSource, setting: str, state: str) -> bool:
    """Whether a query is refused with an SQLSTATE after a setting; this ends the transaction."""
    import adbc_driver_manager

    found.connection.rollback()  # after an error the driver does not go back to a savepoint
    with closing(found.connection.cursor()) as cursor:
        try:
            cursor.execute(setting)
            cursor.execute(no_rows(found.query))
        except adbc_driver_manager.Error as error:
            return error.sqlstate == state
    return False


def _rows(place: DatabaseLocation, connection: Any, statement: str) -> Generator[Any, None, None]:
    """Batches that are not empty."""
    with translated_errors(place.title), closing(connection.cursor()) as cursor:
        cursor.adbc_statement.set_options(**place.options)
        cursor.execute(statement)
        with closing(cursor.fetch_record_batch()) as batches:
            for batch in batches:
                if batch.num_rows:
                    yield batch


@contextmanager
def _transaction(place: DatabaseLocation) -> Iterator[Any]:
    """Connection of a read-only transaction, closed in every case."""
    dbapi = require_package(f"{place.module}.dbapi", purpose=place.title)
    address = place.address()
    with translated_errors(place.title):
        connection = dbapi.connect(address)
    with closing(connection):
        with translated_errors(place.title):
            _begin(place, connection)
        yield connection


def _begin(place: DatabaseLocation, connection: Any) -> None:
    with closing(connection.cursor()) as cursor:
        for statement in place.dialect.begin:
            cursor.execute(statement)
        if not place.dialect.encoding:
            return
        cursor.adbc_statement.set_options(**place.asked)
        cursor.execute(place.dialect.encoding)
        if cursor.fetchone()[0] != "UTF8":
            raise DataError(
                f"{place.title} is of a server that does not write texts in UTF-8: make a database "
                "with ENCODING 'UTF8' of it, or export Parquet"
            )
