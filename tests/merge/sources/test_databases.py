"""Tables and queries of real databases: one moment, columns that are asked for, our words."""

import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.identity.tls import Role
from dppca.owner.records import databases
from dppca.owner.records.databases import DatabaseLocation, PostgreSQLLocation, SQLiteLocation
from dppca.owner.records.locations import Remark, Secret
from dppca.owner.records.queries import POSTGRESQL, count_query
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.certificates import new_authority
from tests.support.ports import reserved_port
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.studies import categorical_of, make_schema, numeric_of

SCHEMA = make_schema([numeric_of("age", 0, 100), categorical_of("town", ["Ulm", "Bern", "01"])])
N_ROWS = 5000
MARKED = "marked-4711"


@pytest.fixture
def rows(postgres: PostgresServer) -> str:
    """Name of a table with `N_ROWS` rows and a column that nobody may see."""
    name = "rows of a test"
    postgres.run(
        f'DROP TABLE IF EXISTS "{name}" CASCADE',
        f'CREATE TABLE "{name}" (age bigint, town text, secret text)',
    )
    numbers = np.arange(N_ROWS)
    towns = np.array(["Ulm", "Bern", "01"])[numbers % 3]
    columns = {"age": numbers % 101, "town": towns, "secret": [MARKED] * N_ROWS}
    postgres.load(name, pa.table(columns))
    return name


@pytest.fixture
def ask(postgres: PostgresServer, tmp_path: Path) -> Callable[[str], DatabaseLocation]:
    """The place of a query."""

    def place(text: str) -> DatabaseLocation:
        (tmp_path / "query.sql").write_text(text)
        return postgres.place(query=tmp_path / "query.sql")

    return place


def _reads(place: DatabaseLocation) -> int:
    """Rows that are read, in small batches."""
    return sum(len(columns[0]) for columns in open_table(place, SCHEMA).batches(64))


def _refusal(place: DatabaseLocation, reads: Callable[[DatabaseLocation], Any] = _reads) -> str:
    """The message of a `DataError`, in whose whole chain nothing is quoted."""
    with pytest.raises(DataError) as refused:
        reads(place)
    shown = "".join(traceback.format_exception(refused.value))
    assert MARKED not in shown
    assert "SELECT age" not in shown.split("DataError")[-1]
    return str(refused.value)


def test_count_and_rows_are_of_one_moment(postgres: PostgresServer, rows: str) -> None:
    table = open_table(postgres.place(table=rows), SCHEMA)
    with table.latest() as latest:
        postgres.run(f"INSERT INTO \"{rows}\" SELECT 1, 'Ulm', '' FROM generate_series(1, 1000)")
        assert moments_of_table(latest, SCHEMA).n_rows == N_ROWS
        assert moments_of_table(latest, SCHEMA).n_rows == N_ROWS
    with table.latest() as latest:
        assert moments_of_table(latest, SCHEMA).n_rows == latest.n_rows == N_ROWS + 1000
    with pytest.raises(
        DataError, match=f"had {N_ROWS} rows when it was opened and {N_ROWS + 1000}"
    ):
        list(table.batches())


def test_columns_that_the_schema_does_not_name_stay_in_the_database(
    postgres: PostgresServer, rows: str, ask: Callable[[str], DatabaseLocation]
) -> None:
    place = ask(f'SELECT age, town, 1 / (age - age) AS unread FROM "{rows}"; -- its end\n')
    table = open_table(place, SCHEMA)
    assert table.extra_columns == ("unread",)
    assert moments_of_table(table, SCHEMA).n_rows == N_ROWS, "it would end in a division by zero"


def test_what_would_write_is_refused(
    postgres: PostgresServer, rows: str, ask: Callable[[str], DatabaseLocation]
) -> None:
    postgres.run(
        "CREATE OR REPLACE FUNCTION write_a_row() RETURNS bigint LANGUAGE sql AS "
        f"$$ INSERT INTO \"{rows}\" VALUES (1, '', '') RETURNING age $$"
    )
    place = ask(f'SELECT write_a_row() AS age, town FROM "{rows}"')
    assert "the query would write" in _refusal(place)
    assert postgres.value(f'SELECT count(*) FROM "{rows}"') == N_ROWS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT age, town FROM nowhere", "the table does not exist"),
        ("SELECT years AS age, town FROM {rows}", "a column that the query names does not exist"),
        ("SELECT age town FROM FROM {rows}", "no SQL that the database takes"),
        ("DELETE FROM {rows}", "no SQL that the database takes"),
        ("SELECT secret::int AS age, town FROM {rows}", "it stopped in the middle"),
        (
            "SELECT 1 AS age, 'Ulm' AS town FROM "
            "generate_series(1, 1 + (1e5 * extract(epoch FROM clock_timestamp() - now()))::int)",
            "the same rows each time",
        ),
        ("SELECT age FROM {rows}", "lacks the columns town"),
        ("SELECT age, town FROM {rows} WHERE false", "no rows"),
        (
            "SELECT age, CASE WHEN age = 99 THEN pg_terminate_backend(pg_backend_pid())::text "
            "ELSE town END AS town FROM {rows}",
            "ended the connection",
        ),
    ],
)
def test_what_a_database_refuses_is_said_without_quoting_it(
    rows: str, ask: Callable[[str], DatabaseLocation], text: str, message: str
) -> None:
    assert message in _refusal(ask(text.format(rows=f'"{rows}"')))


def test_a_role_that_sees_nothing_is_told_what_it_needs(
    postgres: PostgresServer, rows: str
) -> None:
    postgres.run("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN")
    place = postgres.place(table=rows, role="reader")
    assert "grant it SELECT" in _refusal(place)
    postgres.run(f'GRANT SELECT ON "{rows}" TO reader')
    assert _reads(place) == N_ROWS
    postgres.run("DROP OWNED BY reader", "DROP ROLE reader")
    assert "cannot be read" in _refusal(place)
    postgres.run("DROP TABLE IF EXISTS nobody", "CREATE TABLE nobody (age int, town text)")
    assert "the rights of the role" in _refusal(postgres.place(table="nobody"))


@pytest.mark.parametrize("kind", ["numeric(9, 2)", "real", "text", "money", "date", "json"])
def test_a_view_that_changes_type_is_coded_by_the_same_rules(
    postgres: PostgresServer, kind: str
) -> None:
    postgres.run(
        "DROP VIEW IF EXISTS changing", "CREATE VIEW changing AS SELECT 7 AS age, 'Ulm' AS town"
    )
    table = open_table(postgres.place(table="changing"), SCHEMA)
    value = {"date": "'2020-01-01'::date", "json": "'[7]'::json"}.get(kind, f"7::{kind}")
    postgres.run(
        "DROP VIEW changing", f"CREATE VIEW changing AS SELECT {value} AS age, 'Ulm' AS town"
    )
    with table.latest() as latest:
        ((age, town),) = latest.batches()
    is_number = kind in {"numeric(9, 2)", "real", "text"}
    assert (age[0] == 7) == is_number, "money is no number, though its driver has one for it"
    assert town.tolist() == [0]


def test_how_a_role_is_set_up_changes_no_cell_but_the_day_of_a_moment(
    postgres: PostgresServer,
) -> None:
    """A moment is of the day that the role sees, as in a client and in what COPY writes."""
    schema = make_schema(
        [
            {"name": "at", "type": "date", "lower": "1900-01-01", "upper": "2100-12-31"},
            {"name": "on", "type": "date", "lower": "1900-01-01", "upper": "2100-12-31"},
            categorical_of("took", ["1 day", "P1D", "2 days"]),
            numeric_of("raw", 0, 100),
            numeric_of("x", 0, 1),
        ]
    )
    settings = {
        "timezone": "'Asia/Tokyo'",
        "datestyle": "'German'",
        "intervalstyle": "'iso_8601'",
        "bytea_output": "'escape'",
        "extra_float_digits": "'-9'",
    }
    postgres.run(
        "DROP TABLE IF EXISTS moments",
        "DROP ROLE IF EXISTS abroad",
        'CREATE TABLE moments (at timestamptz, "on" date, took interval, raw bytea, x float8)',
        "INSERT INTO moments VALUES "
        "('2020-12-31 23:30+00', '2020-01-31', '1 day', '42', 0.1 + 0.2::float8)",
        "CREATE ROLE abroad LOGIN",
        "ALTER ROLE postgres SET timezone = 'UTC'",
        "GRANT SELECT ON moments TO abroad",
        *(f"ALTER ROLE abroad SET {name} = {value}" for name, value in settings.items()),
    )
    for role, day in (("postgres", "2020-12-31"), ("abroad", "2021-01-01")):
        (cells,) = open_table(postgres.place(table="moments", role=role), schema).batches()
        days = [np.datetime64("1970-01-01") + int(column[0]) for column in cells[:2]]
        assert list(map(str, days)) == [day, "2020-01-31"]
        assert [column[0] for column in cells[2:]] == [0, 42, 0.1 + 0.2]
    postgres.run("DROP OWNED BY abroad", "DROP ROLE abroad", "ALTER ROLE postgres RESET timezone")


def test_a_database_that_does_not_write_utf_8_is_refused(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "written_in_win1252"
    postgres.run(f"DROP DATABASE IF EXISTS {name}")
    postgres.run(f"CREATE DATABASE {name} ENCODING 'WIN1252' TEMPLATE template0 LOCALE 'C'")
    postgres.run_in(name, "CREATE TABLE people (age text, town text)")
    monkeypatch.setenv("WRITTEN", postgres.address(database=name))
    place = replace(postgres.place(table="people"), secret=Secret("WRITTEN"))
    assert "does not write texts in UTF-8" in _refusal(place)
    postgres.run(f"DROP DATABASE {name}")


def test_rows_are_of_the_moment_when_they_are_first_asked_for(postgres: PostgresServer) -> None:
    """Else a table that is emptied and filled after the settings are made would seem empty."""
    postgres.run("DROP TABLE IF EXISTS late", "CREATE TABLE late (age int)")
    place = postgres.place(table="late")
    with databases._transaction(place) as connection:
        postgres.run("INSERT INTO late VALUES (1)")
        (counted,) = databases._rows(place, connection, count_query("SELECT * FROM late"))
        assert counted.column(0).to_pylist() == [1]


def test_a_view_that_loses_a_column_is_an_error(postgres: PostgresServer) -> None:
    postgres.run(
        "DROP VIEW IF EXISTS losing", "CREATE VIEW losing AS SELECT 7 AS age, 'Ulm' AS town"
    )
    table = open_table(postgres.place(table="losing"), SCHEMA)
    postgres.run("DROP VIEW losing", "CREATE VIEW losing AS SELECT 7 AS age")
    with pytest.raises(DataError, match="lacks the columns town now"), table.latest() as latest:
        list(latest.batches())


def test_a_server_that_is_killed_in_the_middle_ends_the_reading() -> None:
    with postgres_server() as server:
        n_rows = 2_000_000  # more than fits into buffers between the two
        rows = f"SELECT i % 100 AS age, 'Ulm' AS town FROM generate_series(1, {n_rows}) i"
        server.run(f"CREATE VIEW rows AS {rows}")
        place = server.place(table="rows")

        def reads_until_it_is_killed(place: DatabaseLocation) -> None:
            n_read = 0
            for columns in open_table(place, SCHEMA).batches(1000):
                if not n_read:
                    server.kill()
                n_read += len(columns[0])
            pytest.fail(f"{n_read} rows of a server that is gone")

        assert "the connection was lost" in _refusal(place, reads_until_it_is_killed)
        assert "cannot be reached" in _refusal(place)


def test_a_query_that_is_cancelled_in_the_middle_says_so(postgres: PostgresServer) -> None:
    postgres.run(
        "DROP TABLE IF EXISTS many",
        "DROP ROLE IF EXISTS slow",
        "CREATE TABLE many AS "
        "SELECT i % 100 AS age, 'Ulm' AS town FROM generate_series(1, 500000) i",
        "CREATE ROLE slow LOGIN",
        "GRANT SELECT ON many TO slow",
    )

    def reads_until_it_is_ended(place: DatabaseLocation) -> None:
        for _ in open_table(place, SCHEMA).batches(20_000):
            postgres.run(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'slow'"
            )

    refused = _refusal(postgres.place(table="many", role="slow"), reads_until_it_is_ended)
    assert "longer than the role's statement_timeout" in refused
    postgres.run("DROP TABLE many", "DROP ROLE slow")


def test_a_table_that_another_session_holds_is_not_waited_for(
    postgres: PostgresServer, rows: str
) -> None:
    # Who waits sees a table that was emptied and filled meanwhile as an empty one.
    with postgres.connection() as other, closing(other.cursor()) as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f'TRUNCATE "{rows}"')
        assert "holds the table locked" in _refusal(postgres.place(table=rows))
        cursor.execute("ROLLBACK")
    assert _reads(postgres.place(table=rows)) == N_ROWS


def test_why_a_connection_is_refused_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = new_authority().issue(Role.CURATOR, "warehouse")
    with (
        reserved_port() as port,
        postgres_server(tls=(port, credentials.certificate, credentials.key)) as server,
    ):
        monkeypatch.setenv("PGPORT", str(port))
        server.run(
            "CREATE ROLE known LOGIN PASSWORD 'right'",
            "CREATE ROLE closed NOLOGIN",
            "CREATE ROLE full_up LOGIN CONNECTION LIMIT 0",
        )
        rules = "local all all trust\nhost all known 127.0.0.1/32 scram-sha-256\n"
        (server.folder / "data" / "pg_hba.conf").write_text(rules)
        server.run("SELECT pg_reload_conf()")
        tcp = f"127.0.0.1:{port}/postgres"
        for address, message in (
            (server.address("nobody"), "it refuses the role"),
            (server.address("closed"), "it refuses the role"),
            (server.address("full_up"), "no room or connection left"),
            (server.address(database="nowhere"), "the database does not exist"),
            (f"postgresql://known:{MARKED}@{tcp}", "it refuses the role"),
            (f"postgresql://known@{tcp}?passfile=/dev/null", "it refuses the role"),
            (f"postgresql://postgres:{MARKED}@{tcp}", "it refuses the role"),
            (f"postgresql://known:{MARKED}@{tcp}?sslmode=verify-full", "speak TLS as asked"),
            ("postgresql:///?service=nowhere", "does not name the service"),
            (f"postgresql://known:{MARKED}@127.0.0.1:1/x", "cannot be reached"),
        ):
            monkeypatch.setenv("DSN", address)
            place = PostgreSQLLocation("survey", secret=Secret("DSN"), table="t")
            assert message in _refusal(place)


def test_a_name_that_the_database_would_cut_off_is_not_taken_for_another(
    postgres: PostgresServer,
) -> None:
    long = "x" * 63
    names = [long, f"{long}yz"]
    schema = make_schema([numeric_of(n, 0, 9) for n in names])
    postgres.run("DROP TABLE IF EXISTS long_name", f"CREATE TABLE long_name ({long} int)")
    with pytest.raises(DataError, match=f"lacks the columns {names[1]}"):
        open_table(postgres.place(table="long_name"), schema)


def _sqlite(path: Path, *rows: tuple[object, ...]) -> DatabaseLocation:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE rows (age, town, more)")
        connection.executemany("INSERT INTO rows VALUES (?, ?, 1)", rows)
    return SQLiteLocation("survey (database)", database=path, table="rows")


def test_sqlite_may_change_type_from_cell_to_cell(tmp_path: Path) -> None:
    cells = [1, 2.5, "3", b"4", None, "x", 0.1 + 0.2, 2**62, " 7 "]
    place = _sqlite(tmp_path / "odd name?.db", *[(1, "Ulm")] * 3000, *((c, c) for c in cells))
    columns = [np.concatenate(c) for c in zip(*open_table(place, SCHEMA).batches(100), strict=True)]
    found = columns[0][3000:].tolist()
    expected = [1, 2.5, 3, 4, np.nan, -np.inf, 0.1 + 0.2, 2.0**62, 7]
    np.testing.assert_array_equal(found, expected)


def test_a_query_of_sqlite_that_gives_a_column_twice_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "rows.db")) as connection, connection:
        connection.execute("CREATE TABLE people (age, town)")
        connection.execute("INSERT INTO people VALUES (30, 'Ulm')")
    query = tmp_path / "query.sql"
    place = SQLiteLocation("survey", database=tmp_path / "rows.db", query=query)
    for statement in (
        "SELECT * FROM people JOIN people AS others ON true",
        "SELECT age + 1 AS Age, people.* FROM people",
    ):
        query.write_text(statement)
        assert "twice: name each column in a query" in _refusal(place)
    query.write_text("SELECT people.*, 'x' AS \"age:1\" FROM people")
    assert open_table(place, SCHEMA).extra_columns == ("age:1",)


def test_sqlite_is_read_at_one_moment_and_never_written(tmp_path: Path) -> None:
    place = _sqlite(tmp_path / "rows.db", (1, "Ulm"), (2, "Bern"))
    said = "2 rows and 3 columns in the database, of rows; its file is opened read-only"
    assert place.examine() == [Remark(said)]
    with closing(sqlite3.connect(tmp_path / "rows.db")) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        with open_table(place, SCHEMA).latest() as latest:
            writer.execute("INSERT INTO rows VALUES (3, 'Ulm', 1)")
            writer.commit()
            assert sum(len(columns[0]) for columns in latest.batches()) == 2
    (tmp_path / "write.sql").write_text("DELETE FROM rows RETURNING age, town")
    wrong = SQLiteLocation("s", database=tmp_path / "rows.db", query=tmp_path / "write.sql")
    _refusal(wrong)
    assert _reads(place) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT age, town FROM nowhere", "the table does not exist"),
        ("SELECT password AS age, town FROM rows", "a column that the query names does not exist"),
        ("SELECT age town FRM rows", "no SQL that the database takes"),
    ],
)
def test_what_sqlite_refuses_is_said_without_quoting_it(
    tmp_path: Path, text: str, message: str
) -> None:
    place = _sqlite(tmp_path / "rows.db", (1, "Ulm"))
    (tmp_path / "query.sql").write_text(text)
    asked = replace(place, table="", query=tmp_path / "query.sql")
    assert message in _refusal(asked)


def test_a_file_of_sqlite_that_another_program_holds_is_said(tmp_path: Path) -> None:
    place = _sqlite(tmp_path / "rows.db", (1, "Ulm"))
    # Of one process locks would not count.
    holds = (
        "import sqlite3, sys; held = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "held.execute('BEGIN EXCLUSIVE'); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holds, tmp_path / "rows.db"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert "another program writes to it" in _refusal(place)
        other.communicate()
    assert _reads(place) == 1


def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    place = SQLiteLocation("survey", database=tmp_path / "rows.db", table="rows")
    assert "the database file of" in _refusal(place)
    (tmp_path / "rows.db").write_text(f"{MARKED}\n" * 100)
    assert "is not an SQLite database" in _refusal(place)


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSN", "postgresql://127.0.0.1:1/x")
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    monkeypatch.delitem(sys.modules, "adbc_driver_postgresql.dbapi", raising=False)
    place = PostgreSQLLocation("survey", secret=Secret("DSN"), table="rows")
    with pytest.raises(SettingError, match="pip install"):
        open_table(place, SCHEMA)


def test_an_address_is_kept_where_others_cannot_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "survey.dsn"
    kept.write_text(f"postgresql://u:{MARKED}@127.0.0.1:9/x\n")
    place = PostgreSQLLocation("survey", secret=Secret(path=kept), table="rows")
    for mode in (0o640, 0o604, 0o644):
        kept.chmod(mode)
        with pytest.raises(SettingError, match="may be read by others"):
            open_table(place, SCHEMA)
    kept.chmod(0o600)
    assert "cannot be reached" in _refusal(place)
    kept.write_text("\n")
    with pytest.raises(SettingError, match="does not exist or is empty"):
        open_table(place, SCHEMA)
    monkeypatch.setenv("DSN", f"postgresql://u:{MARKED}@127.0.0.1:9/x")
    assert "cannot be reached" in _refusal(
        PostgreSQLLocation("survey", secret=Secret("DSN"), table="rows")
    )


def _examined(place: DatabaseLocation) -> tuple[str, list[str]]:
    """What `doctor` says, and what it warns of."""
    said, *warnings = place.examine()
    assert not said.is_warning
    assert all(each.is_warning for each in warnings)
    return said.text, [each.text for each in warnings]


GRANTS = {
    "nothing": (),
    "a_row": ("GRANT DELETE ON {rows} TO {role}",),
    "a_cell": ("GRANT UPDATE (age) ON {rows} TO {role}",),
    "a_cell_of_a_new_row": ("GRANT INSERT (town) ON {rows} TO PUBLIC",),
    "a_member": (
        "CREATE ROLE writers",
        "GRANT UPDATE (secret) ON {rows} TO writers",
        "ALTER ROLE {role} NOINHERIT",
        "GRANT writers TO {role}",
    ),
    "all_data": ("ALTER ROLE {role} NOINHERIT", "GRANT pg_write_all_data TO {role}"),
    "an_owner": ("ALTER TABLE {rows} OWNER TO {role}", "REVOKE ALL ON {rows} FROM {role}"),
}


@pytest.mark.parametrize("granted", GRANTS)
def test_every_way_to_change_rows_is_seen(
    postgres: PostgresServer, rows: str, granted: str
) -> None:
    role = f"role_{granted}"
    statements = [
        f"CREATE ROLE {role} LOGIN",
        *(each.format(rows=f'"{rows}"', role=role) for each in GRANTS[granted]),
        f'GRANT SELECT ON "{rows}" TO {role}',
    ]
    postgres.run(*statements)
    try:
        said, warnings = _examined(postgres.place(table=rows, role=role))
    finally:
        postgres.run(f'DROP TABLE "{rows}"', f"DROP OWNED BY {role}", f"DROP ROLE {role}")
        postgres.run("DROP ROLE IF EXISTS writers")
    assert ("no right to change rows" in said) == (granted == "nothing")
    assert any("may change rows" in text for text in warnings) == (granted != "nothing")


def test_a_query_whose_tables_the_search_path_chooses_is_said(
    rows: str, ask: Callable[[str], DatabaseLocation]
) -> None:
    for table, is_said in (('"{rows}"', True), ('public."{rows}"', False)):
        said, _ = _examined(ask(f"SELECT age, town FROM {table.format(rows=rows)}"))
        assert ("search_path decides which table" in said) == is_said


def test_rows_that_policies_hide_are_said(
    postgres: PostgresServer, rows: str, ask: Callable[[str], DatabaseLocation]
) -> None:
    def says_so(place: DatabaseLocation) -> bool:
        return "row-level security hides rows" in _examined(place)[0]

    postgres.run(
        "DROP ROLE IF EXISTS guest",
        "CREATE ROLE guest LOGIN",
        f'CREATE VIEW of_the_owner AS SELECT * FROM "{rows}"',
        f'CREATE VIEW of_the_guest WITH (security_invoker) AS SELECT * FROM "{rows}"',
        f'GRANT SELECT ON "{rows}", of_the_owner, of_the_guest TO guest',
    )
    places = [postgres.place(table=t, role="guest") for t in (rows, "of_the_owner", "of_the_guest")]
    asked = replace(ask(f'SELECT age, town FROM public."{rows}"'), secret=places[0].secret)  # type: ignore[call-arg, attr-defined]
    assert [*map(says_so, [*places, asked])] == [False] * 4
    postgres.run(
        f'ALTER TABLE "{rows}" ENABLE ROW LEVEL SECURITY',
        f"CREATE POLICY of_ulm ON \"{rows}\" TO guest USING (town = 'Ulm')",
    )
    assert [*map(says_so, [*places, asked])] == [True, False, True, True]
    assert _reads(places[0]) < _reads(places[1]) == N_ROWS
    assert not says_so(postgres.place(table=rows)), "a superuser sees all"
    postgres.run(f'DROP TABLE "{rows}" CASCADE', "DROP OWNED BY guest", "DROP ROLE guest")


def test_what_a_role_may_write_is_counted(postgres: PostgresServer, rows: str) -> None:
    postgres.run(
        "DROP ROLE IF EXISTS only_reader, writer",
        "CREATE ROLE only_reader LOGIN",
        "CREATE ROLE writer LOGIN",
        f'GRANT SELECT ON "{rows}" TO only_reader, writer',
        f'GRANT DELETE ON "{rows}" TO writer',
    )
    found = {
        role: postgres.place(table=rows, role=role).examine()
        for role in ("only_reader", "writer", "postgres")
    }
    count = f"{N_ROWS} rows and 3 columns in the database"
    (said,) = found["only_reader"]
    assert said.text.startswith(f"{count}, of public.{rows}; ")
    assert said.text.endswith("its role has no right to change rows of a table or view")
    said, (warned, is_warning) = found["writer"]
    assert "change" not in said.text
    assert is_warning
    assert "the role may change rows of tables or views (1)" in warned
    assert [each.is_warning for each in found["postgres"]] == [False, True]
    postgres.run("DROP OWNED BY only_reader, writer", "DROP ROLE only_reader, writer")


def test_rows_that_come_without_tls_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # Loopback stands for another machine.
    statement = POSTGRESQL.examination
    assert "'127.0.0.0/8'" in statement
    elsewhere = replace(
        POSTGRESQL, examination=statement.replace("'127.0.0.0/8'", "'203.0.113.0/24'")
    )
    credentials = new_authority().issue(Role.CURATOR, "warehouse")
    with (
        reserved_port() as port,
        postgres_server(tls=(port, credentials.certificate, credentials.key)),
    ):
        for name, mode in (("DSN", "require"), ("BARE", "disable")):
            address = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode={mode}"
            monkeypatch.setenv(name, address)
        by_tls, bare = (
            PostgreSQLLocation("survey", secret=Secret(name), table="pg_class")
            for name in ("DSN", "BARE")
        )

        def warned() -> list[bool]:
            return [
                any("without TLS" in text for text, is_warning in each.examine() if is_warning)
                for each in (by_tls, bare)
            ]

        assert warned() == [False, False]
        monkeypatch.setattr(PostgreSQLLocation, "dialect", elsewhere)
        assert warned() == [False, True]
        less = replace(elsewhere, examination="SELECT ssl FROM no_such_table")
        monkeypatch.setattr(PostgreSQLLocation, "dialect", less)
        (said,) = by_tls.examine()
        assert said.text.endswith(
            "this command cannot see what its role may do, or whether TLS is used"
        )
