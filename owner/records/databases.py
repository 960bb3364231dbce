"""Rows of a database, by its ADBC driver, counted and read in one read-only transaction.

Every message of a driver is left out: it may quote a row, a query or an address. Its SQLSTATE, a
code of five characters, is translated instead.

Memory stays flat: drivers give batches, PostgreSQL's of `_BATCH_BYTES` at most.
"""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

import pyarrow as pa

from dppca.common.errors import DataError, SettingError
from dppca.common.shell.packages import require_package
from dppca.owner.records.locations import Location, Place, Remark, Secret, resolve
from dppca.owner.records.queries import (
    POSTGRESQL,
    SQLITE,
    Dialect,
    count_rows,
    no_rows,
    read_columns,
    require_one_statement,
    table_query,
)
from dppca.owner.records.sources import Source, Wanted

_BATCH_BYTES: Final = 1 << 20

_STATES: Final = {
    "42501": "its role may not read them: grant it SELECT on the table, or on what the query reads",
    "42P01": (
        "the table does not exist, or the role may not see it: correct policy.yaml or the query"
    ),
    "42703": "a column that the query names does not exist: correct the query or the view",
    "42601": "the query is no SQL that the database takes as one statement: run it in a client",
    "25006": "the query would write, and only reading is allowed",
    "57014": "it was cancelled, or took longer than the role's statement_timeout",
    "28": "it refuses the role: check its name, and its password where the driver looks for it",
    "3D": "the database does not exist: correct the service or the address",
    "22": "the query itself fails on a row: let it give the column as it is, without a conversion",
    "40": "it ended the transaction because others were writing: run the command again",
    "53": "it has no room or connection left: try again later, or ask its administrator",
    "55P03": "another session holds the table locked: run the command again once that has ended",
    "55000": "it is not ready, as a materialized view without rows: ask its administrator",
    "57": "the server or its administrator ended the connection: try again later",
}
"""Explanations of errors by SQLSTATE or its class."""
_WORDS: Final = (
    ("no such table", _STATES["42P01"]),
    ("no such column", _STATES["42703"]),
    ("syntax error", _STATES["42601"]),
    ("database is locked", "another program writes to it: run the command again once it has ended"),
    ("malformed|not a database", "its file is damaged, or is not an SQLite database"),
    ("readonly database", _STATES["25006"]),
    (r"statement timeout|canceling statement", _STATES["57014"]),
    (
        r"password|not permitted to log in|FATAL: +role |pg_hba\.conf|authentication",
        _STATES["28"],
    ),
    (r"FATAL: +database ", _STATES["3D"]),
    (r"too many connections|connection slots", _STATES["53"]),
    (r"definition of service|service file", "~/.pg_service.conf does not name the service"),
    (r"certificate|SSL|TLS", "it does not speak TLS as asked: check sslmode and the certificates"),
    (r"starting up|shutting down|terminating connection", _STATES["57"]),
    (r"read-only transaction", _STATES["25006"]),
)
"""Explanations if the driver gives no SQLSTATE, by words of SQLite and of servers in English.

The words only choose an explanation and are not shown; another language gets a general one.
"""
_STOPPED: Final = (
    "it stopped in the middle of the rows: the connection was lost, it took too long, the query "
    "would write, or it fails on a row (let it give columns as they are, without a conversion)"
)
_NO_STATE: Final = (
    "it cannot be reached, or it gave no reason that may be shown: try the query in a client on "
    "this machine"
)


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

    def require_columns(self, fields: Sequence[pa.Field]) -> None:
        """Refuse the driver's columns of a query if two of them can no longer be distinguished."""

    def read_query(self) -> tuple[str, str]:
        """Query, and the SHA-256 of its file or of the table's name, in hexadecimal.

        Raise `SettingError` if the file cannot be read or is not one statement.
        """
        if self.query is None:
            return table_query(self.table), hashlib.sha256(self.table.encode()).hexdigest()
        try:
            content = self.query.read_bytes()
            text = content.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"the query {self.query} of {self.title} cannot be read") from error
        try:
            return require_one_statement(text), hashlib.sha256(content).hexdigest()
        except SettingError as error:
            raise SettingError(f"{self.query}: {error}") from None

    def open(self) -> DatabaseSource:
        """Read the query's columns and count its rows; no row leaves the database."""
        with _counting(self, *self.read_query()) as source:
            return replace(source, connection=None)

    def examine(self) -> list[Remark]:
        """Remarks on the connection and on the role, from the database."""
        with _counting(self, *self.read_query()) as found:
            in_clear, n_writable = self.ask_about_role(found.connection)
        text = f"{found.n_rows} rows and {len(found.names)} columns in the database"
        if in_clear is None:
            text += "; this command cannot see what its role may do, or whether TLS is used"
        elif not in_clear and not n_writable:
            text += ", on a safe connection; its role may change nothing"
        remarks = [Remark(text)]
        if in_clear:
            text = (
                "rows come from the database without TLS: set sslmode=verify-full in its service "
                "or address, and TLS on the server"
            )
            remarks.append(Remark(text, is_warning=True))
        if n_writable:
            text = (
                f"the role may change rows of tables or views ({n_writable}): "
                "use one that may only read (docs/how-to/use-postgresql.md)"
            )
            remarks.append(Remark(text, is_warning=True))
        return remarks

    def ask_about_role(self, connection: Any) -> tuple[bool | None, int | None]:
        """True if rows arrive unencrypted, and the number of tables and views the role may change.

        Each is None if the database does not report it.
        """
        # A database that is only compatible with PostgreSQL may lack parts of its catalogue.
        with suppress(DataError):
            (batch,) = _rows(self, connection, self.dialect.examination)
            is_remote, encrypted, n_writable = (column[0].as_py() for column in batch.columns)
            return bool(is_remote and not encrypted), n_writable
        return None, None


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

    def address(self) -> str:
        """Address for the driver, from the secret or the service."""
        if self.secret is not None:
            return self.secret.read(f"the address of {self.title}")
        return f"postgresql:///?service={quote(self.service, safe='')}"

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

    def address(self) -> str:
        """Address of the file, opened read-only."""
        if not self.database.is_file():
            raise DataError(f"the database file of {self.title} does not exist: correct its path")
        return f"{self.database.absolute().as_uri()}?mode=ro"

    @property
    def place(self) -> Place:
        """Place of the database, since each query may be of the same people."""
        return Place(resolve(str(self.database)))

    def require_columns(self, fields: Sequence[pa.Field]) -> None:
        """Refuse a repeated column, which SQLite numbers."""
        given = {field.name.lower() for field in fields}
        for field in fields:
            plain = re.sub(r":[0-9]+$", "", field.name)
            if plain != field.name and plain.lower() in given:
                raise DataError(
                    f"{self.title} has the column {plain} twice: name each column in a query"
                )

    def ask_about_role(self, connection: Any) -> tuple[bool, int]:  # noqa: ARG002 - it is a file
        """Return False and 0: the file is opened read-only."""
        return False, 0


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
    is_numbered: ClassVar[bool] = False
    mend: ClassVar[str] = "check the query and the rights of the role"
    uncut: ClassVar[str] = (
        "is read by this machine alone, in one transaction: workers would read rows of several "
        "moments. Leave out --engine, or export the rows to Parquet"
    )

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Read rows (`Rows.read`); their number must equal the count in the same transaction."""
        if self.connection is None:
            with self.latest() as source:
                yield from source.read(wanted)
            return
        dialect = self.place.dialect
        gone = [name for name in wanted.names if name not in self.names]
        if gone:
            raise DataError(f"{self.title} lacks the columns {', '.join(gone)} now")
        fields = [self.fields[self.names.index(name)] for name in wanted.names]
        n_each = len(dialect.expressions("", fields[0]))
        n_read = 0
        for batch in _rows(self.place, self.connection, read_columns(self.query, fields, dialect)):
            arrays = batch.columns
            if dialect.first(1):
                marked, *arrays = arrays
                if not n_read and marked[0].as_py() != 1:
                    raise DataError(f"{self.title} gives rows in another order than asked for")
                arrays = arrays if n_read else [array[1:] for array in arrays]
                n_read = n_read or 1
            groups = [arrays[at : at + n_each] for at in range(0, len(arrays), n_each)]
            cells = [dialect.joined(group) for group in groups]
            n_read += len(cells[0])
            for start in range(0, len(cells[0]), wanted.batch_rows):
                yield [array.slice(start, wanted.batch_rows) for array in cells]
        n_read -= bool(dialect.first(1))
        if n_read != self.n_rows:
            raise DataError(
                f"{self.title} counted {self.n_rows} rows and gave {n_read} in one "
                "transaction: the query must give the same rows each time it is run"
            )

    def latest(self) -> AbstractContextManager[DatabaseSource]:
        """The same rows as they are now, counted and read in one transaction."""
        return _counting(self.place, self.query, self.query_sha256)


@contextmanager
def _counting(place: DatabaseLocation, query: str, digest: str) -> Iterator[DatabaseSource]:
    """Open a transaction and count a query in it."""
    with _transaction(place) as connection:
        fields = _fields(place, connection, query)
        counts = _rows(place, connection, count_rows(query))
        yield DatabaseSource(
            title=place.title,
            names=tuple(field.name.strip() for field in fields),
            n_rows=sum(batch.column(0)[0].as_py() for batch in counts),
            query_sha256=digest,
            place=place,
            query=query,
            fields=fields,
            connection=connection,
        )


def _fields(place: DatabaseLocation, connection: Any, query: str) -> tuple[pa.Field, ...]:
    with _translated_errors(place), closing(connection.cursor()) as cursor:
        cursor.execute(no_rows(query))
        with closing(cursor.fetch_record_batch()) as batches:
            fields = tuple(batches.schema)
    place.require_columns(fields)
    return fields


def _rows(place: DatabaseLocation, connection: Any, statement: str) -> Generator[Any, None, None]:
    """Batches that are not empty."""
    with _translated_errors(place), closing(connection.cursor()) as cursor:
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
    with _translated_errors(place):
        connection = dbapi.connect(address)
    with closing(connection):
        with _translated_errors(place):
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


@contextmanager
def _translated_errors(place: DatabaseLocation) -> Iterator[None]:
    """Translate a driver's errors into a `DataError` in this project's words."""
    import adbc_driver_manager

    try:
        yield
    except (adbc_driver_manager.Error, pa.ArrowException, OSError) as error:
        state = str(getattr(error, "sqlstate", None) or "")
        # An error in the middle of the rows comes through Arrow, without a code.
        unknown = _NO_STATE if isinstance(error, adbc_driver_manager.Error) else _STOPPED
        message = "" if state else str(error)
        worded = next((reason for words, reason in _WORDS if re.search(words, message)), unknown)
        reason = _STATES.get(state) or _STATES.get(state[:2]) or worded
    else:
        return
    raise DataError(f"{place.title} cannot be read: {reason}") from None
