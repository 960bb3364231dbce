"""Rows of a database, by its ADBC driver: one transaction that only reads, for count and rows.

Every message of a driver is left out: it may quote a row, a query or an address. What it says is
translated by its SQLSTATE, which is a code of five characters.

Memory stays flat: drivers give batches, PostgreSQL's of `_BATCH_BYTES` at most.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from dppca.common.errors import DataError
from dppca.common.packages import require_package
from dppca.owner.records.locations import DatabaseLocation
from dppca.owner.records.queries import (
    POSTGRESQL,
    SQLITE,
    Dialect,
    count_rows,
    no_rows,
    read_columns,
)
from dppca.owner.records.sources import Malformed

_BATCH_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Driver:
    """An ADBC driver.

    Attributes
    ----------
    module
        Package that brings it.
    options
        Options of each statement that reads.
    asked
        Options of a question about the session, which is no query.
    """

    module: str
    dialect: Dialect
    options: tuple[tuple[str, str], ...] = ()
    asked: tuple[tuple[str, str], ...] = ()


DRIVERS: Final = {
    "postgresql": Driver(
        "adbc_driver_postgresql",
        POSTGRESQL,
        (("adbc.postgresql.batch_size_hint_bytes", str(_BATCH_BYTES)),),
        (("adbc.postgresql.use_copy", "false"),),
    ),
    "sqlite": Driver("adbc_driver_sqlite", SQLITE),
}

_STATES: Final = {
    "42501": "its role may not read them: grant it SELECT on the table, or on what the query reads",
    "42P01": "there is no such table, or the role may not see it: correct policy.yaml or the query",
    "42703": "a column that the query names is not there: correct the query or the view",
    "42601": "the query is no SQL that the database takes as one statement: run it in a client",
    "25006": "the query would write, and only reading is allowed",
    "57014": "it was cancelled, or took longer than the role's statement_timeout",
    "28": "it refuses the role: check its name, and its password where the driver looks for it",
    "3D": "there is no such database: correct the service or the address",
    "22": "the query itself fails on a row: let it give the column as it is, without a conversion",
    "40": "it ended the transaction because others were writing: run the command again",
    "53": "it has no room or connection left: try again later, or ask its administrator",
    "55P03": "another session holds the table locked: run the command again once that has ended",
    "55000": "it is not ready, as a materialized view without rows: ask its administrator",
    "57": "the server or its administrator ended the connection: try again later",
}
"""What went wrong, by SQLSTATE or by its class, in words of ours."""
_WORDS: Final = (
    ("no such table", _STATES["42P01"]),
    ("no such column", _STATES["42703"]),
    ("syntax error", _STATES["42601"]),
    ("database is locked", "another program writes to it: run the command again once it has ended"),
    ("malformed|not a database", "its file is damaged, or is no database of SQLite"),
    ("readonly database", _STATES["25006"]),
    (r"statement timeout|canceling statement", _STATES["57014"]),
    (
        r"password|not permitted to log in|FATAL: +role |pg_hba\.conf|authentication",
        _STATES["28"],
    ),
    (r"FATAL: +database ", _STATES["3D"]),
    (r"too many connections|connection slots", _STATES["53"]),
    (r"definition of service|service file", "there is no such service in ~/.pg_service.conf"),
    (r"certificate|SSL|TLS", "it does not speak TLS as asked: check sslmode and the certificates"),
    (r"starting up|shutting down|terminating connection", _STATES["57"]),
    (r"read-only transaction", _STATES["25006"]),
)
"""The same where the driver gives no SQLSTATE: what SQLite says, and servers say in English.

A sentence is chosen by them and nothing of them is shown; in another language it is a general one.
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
class ReadingSession:
    """A transaction that is open, and how is asked in it."""

    connection: Any
    dialect: Dialect


@dataclass(frozen=True, slots=True)
class DatabaseSource:
    """A query of a database.

    Attributes
    ----------
    query
        Made safe by `require_one_statement`.
    fields
        Its columns, as the database names them.
    query_sha256
        What the ledger holds of it.
    session
        Of a transaction that is open; None to open one for each reading.
    """

    place: DatabaseLocation
    query: str
    query_sha256: str
    fields: tuple[pa.Field, ...]
    n_rows: int
    session: ReadingSession | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """As `Source.names`."""
        return tuple(field.name.strip() for field in self.fields)

    @property
    def malformed(self) -> Malformed:
        """None: a database has no lines."""
        return Malformed()

    def read(
        self,
        names: Sequence[str],
        batch_rows: int,
        *,
        labels: Collection[str] = (),  # noqa: ARG002 - drivers list no texts
    ) -> Iterator[list[Any]]:
        """As `Source.read`; the rows are as many as are counted in the same transaction."""
        if self.session is None:
            with self.latest() as source:
                yield from source.read(names, batch_rows)
            return
        dialect = self.session.dialect
        gone = [name for name in names if name not in self.names]
        if gone:
            raise DataError(f"{self.place.title} lacks the columns {', '.join(gone)} now")
        fields = [self.fields[self.names.index(name)] for name in names]
        n_each = len(dialect.expressions("", fields[0]))
        n_read = 0
        for batch in _rows(self.place, self.session, read_columns(self.query, fields, dialect)):
            arrays = batch.columns
            if dialect.first(1):
                marked, *arrays = arrays
                if not n_read and marked[0].as_py() != 1:
                    raise DataError(
                        f"{self.place.title} gives rows in another order than asked for"
                    )
                arrays = arrays if n_read else [array[1:] for array in arrays]
                n_read = n_read or 1
            groups = [arrays[at : at + n_each] for at in range(0, len(arrays), n_each)]
            cells = [dialect.joined(group) for group in groups]
            n_read += len(cells[0])
            for start in range(0, len(cells[0]), batch_rows):
                yield [array.slice(start, batch_rows) for array in cells]
        n_read -= bool(dialect.first(1))
        if n_read != self.n_rows:
            raise DataError(
                f"{self.place.title} counted {self.n_rows} rows and gave {n_read} in one "
                "transaction: the query must give the same rows each time it is run"
            )

    @contextmanager
    def latest(self) -> Iterator[DatabaseSource]:
        """The same rows as they are now, counted and read in one transaction."""
        with _transaction(self.place) as session:
            fields = _fields(self.place, session, no_rows(self.query))
            n_rows = _count(self.place, session, self.query)
            yield replace(self, fields=fields, n_rows=n_rows, session=session)


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """What can be said of a table or query of a database without reading a row.

    Attributes
    ----------
    in_clear
        Whether what is read leaves the server's machine without encryption; None where the driver
        cannot say.
    n_writable
        Tables and views that the role may change rows of; None where the driver cannot say. What
        is opened for reading alone has none.
    """

    n_rows: int
    n_columns: int
    in_clear: bool | None
    n_writable: int | None


def examine_database(place: DatabaseLocation) -> DatabaseFacts:
    """Reach a database and ask it about the connection and the role; as `open_database`."""
    query, _ = place.read_query()
    statement = DRIVERS[place.driver].dialect.examination
    in_clear, n_writable = (False, 0) if place.database is not None else (None, None)
    with _transaction(place) as session:
        n_columns = len(_fields(place, session, no_rows(query)))
        n_rows = _count(place, session, query)
        if statement:
            # What speaks PostgreSQL's language need not have all of its catalogue.
            with suppress(DataError):
                (batch,) = _rows(place, session, statement)
                is_remote, encrypted, n_writable = (column[0].as_py() for column in batch.columns)
                in_clear = bool(is_remote and not encrypted)
    return DatabaseFacts(n_rows, n_columns, in_clear, n_writable)


def open_database(place: DatabaseLocation) -> DatabaseSource:
    """Ask for the query's columns and count its rows; no row leaves the database.

    Raises
    ------
    DataError
        It cannot be reached, refuses, or has no such table or column.
    SettingError
        The driver is not installed, or what the policy names for it is not there.
    """
    query, digest = place.read_query()
    with _transaction(place) as session:
        fields = _fields(place, session, no_rows(query))
        return DatabaseSource(place, query, digest, fields, _count(place, session, query))


def _fields(
    place: DatabaseLocation, session: ReadingSession, statement: str
) -> tuple[pa.Field, ...]:
    with _asking(place), closing(session.connection.cursor()) as cursor:
        cursor.execute(statement)
        with closing(cursor.fetch_record_batch()) as batches:
            fields = tuple(batches.schema)
    given = {field.name.lower() for field in fields}
    for field in fields if place.driver == "sqlite" else ():
        plain = re.sub(r":[0-9]+$", "", field.name)  # SQLite numbers a column that it gives twice
        if plain != field.name and plain.lower() in given:
            raise DataError(
                f"{place.title} has the column {plain} twice: name each column in a query"
            )
    return fields


def _count(place: DatabaseLocation, session: ReadingSession, query: str) -> int:
    return sum(batch.column(0)[0].as_py() for batch in _rows(place, session, count_rows(query)))


def _rows(
    place: DatabaseLocation, session: ReadingSession, statement: str
) -> Generator[Any, None, None]:
    """Batches that are not empty."""
    with _asking(place), closing(session.connection.cursor()) as cursor:
        cursor.adbc_statement.set_options(**dict(DRIVERS[place.driver].options))
        cursor.execute(statement)
        with closing(cursor.fetch_record_batch()) as batches:
            for batch in batches:
                if batch.num_rows:
                    yield batch


@contextmanager
def _transaction(place: DatabaseLocation) -> Iterator[ReadingSession]:
    """A transaction that only reads; its connection is closed whatever becomes of it."""
    driver = DRIVERS[place.driver]
    dbapi = require_package(f"{driver.module}.dbapi", purpose=place.title)
    address = place.address()
    with _asking(place):
        connection = dbapi.connect(address)
    with closing(connection):
        with _asking(place):
            dialect = _begin(place, driver, connection)
        yield ReadingSession(connection, dialect)


def _begin(place: DatabaseLocation, driver: Driver, connection: Any) -> Dialect:
    with closing(connection.cursor()) as cursor:
        for statement in driver.dialect.begin:
            cursor.execute(statement)
        if not driver.dialect.encoding:
            return driver.dialect
        cursor.adbc_statement.set_options(**dict(driver.asked))
        cursor.execute(driver.dialect.encoding)
        if cursor.fetchone()[0] != "UTF8":
            raise DataError(
                f"{place.title} is of a server that does not write texts in UTF-8: make a database "
                "with ENCODING 'UTF8' of it, or export Parquet"
            )
    return driver.dialect


@contextmanager
def _asking(place: DatabaseLocation) -> Iterator[None]:
    """Turn what a driver raises into a `DataError` in our own words."""
    import adbc_driver_manager

    try:
        yield
    except (adbc_driver_manager.Error, pa.ArrowException, OSError) as error:
        state = str(getattr(error, "sqlstate", None) or "")
        # An error in the middle of the rows comes through Arrow, without a code.
        unknown = _NO_STATE if isinstance(error, adbc_driver_manager.Error) else _STOPPED
        said = "" if state else str(error)
        worded = next((reason for words, reason in _WORDS if re.search(words, said)), unknown)
        reason = _STATES.get(state) or _STATES.get(state[:2]) or worded
    else:
        return
    raise DataError(f"{place.title} cannot be read: {reason}") from None
