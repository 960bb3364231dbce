"""A separate PostgreSQL server in a temporary folder."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi
import pyarrow as pa

from benchmarks.local_postgres import find_programs, server_address, start_server
from dppca.owner.records.databases import DatabaseLocation, PostgreSQLLocation
from dppca.owner.records.locations import Secret
from tests.support.requirements import miss


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A running server that trusts every user who can open its socket."""

    folder: Path

    def address(self, role: str = "postgres", database: str = "postgres") -> str:
        """Connection string for libpq."""
        return server_address(self.folder, role, database)

    def place(
        self, *, table: str = "", query: Path | None = None, role: str = "postgres"
    ) -> DatabaseLocation:
        """Policy location of a table or a query; its address is in a private file."""
        kept = self.folder / f"{role}.dsn"
        kept.write_text(self.address(role))
        kept.chmod(0o600)
        secret = Secret(path=kept)
        return PostgreSQLLocation("survey (database)", secret=secret, table=table, query=query)

    @contextmanager
    def connection(self, database: str = "postgres") -> Iterator[Any]:
        """Open a connection of the superuser that commits each statement."""
        address = self.address(database=database)
        with closing(adbc_driver_postgresql.dbapi.connect(address, autocommit=True)) as connection:
            yield connection

    def run(self, *statements: str) -> None:
        self.run_in("postgres", *statements)

    def run_in(self, database: str, *statements: str) -> None:
        with self.connection(database) as connection, closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)

    def value(self, query: str) -> Any:
        with self.connection() as connection, closing(connection.cursor()) as cursor:
            cursor.execute(query)
            return cursor.fetchone()[0]

    def load(self, table: str, rows: pa.Table) -> None:
        with self.connection() as connection, closing(connection.cursor()) as cursor:
            cursor.adbc_ingest(table, rows, mode="append")

    def kill(self) -> None:
        """Kill every process of the server at once, like a crash of its machine."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        for process in (first, *map(int, children)):
            os.kill(process, signal.SIGKILL)


@contextmanager
def postgres_server(*, tls: tuple[int, bytes, bytes] | None = None) -> Iterator[PostgresServer]:
    """Start a server; without one, skip the test, or fail in CI. For ``tls`` see `start_server`."""
    programs = find_programs()
    if programs is None:
        miss("a PostgreSQL server", "apt-get install postgresql")
    with start_server(programs, tls=tls) as folder:
        yield PostgresServer(folder)
