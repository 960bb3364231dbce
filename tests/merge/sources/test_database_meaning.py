"""A query gives what it gives in a client, and what is digested is what runs."""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import MISSING, UNKNOWN
from dppca.common.kernel.schema.columns import NOT_A_NUMBER
from dppca.owner.records.check import check_table
from dppca.owner.records.databases import DatabaseLocation, SQLiteLocation
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.keys import KeyRows, key_texts
from dppca.owner.records.queries import SQLITE
from dppca.owner.records.sources import Wanted
from dppca.owner.records.table import open_table
from tests.support.examples import examples
from tests.support.postgres import PostgresServer
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

SCHEMA = make_schema([numeric_of("age", 0, 100), numeric_of("id", 0, 10_000)])
ABROAD = {
    "timezone": "'America/St_Johns'",
    "datestyle": "'SQL, DMY'",
    "intervalstyle": "'sql_standard'",
    "extra_float_digits": "'-3'",
    "bytea_output": "'escape'",
}


@pytest.fixture
def abroad(postgres: PostgresServer) -> Iterator[str]:
    """A role whose every setting differs from the usual."""
    postgres.run(
        "DROP SCHEMA IF EXISTS elsewhere CASCADE",
        "DROP VIEW IF EXISTS computed",
        "CREATE ROLE traveller LOGIN",
        "CREATE SCHEMA elsewhere",
        "GRANT USAGE ON SCHEMA elsewhere TO traveller",
        *(f"ALTER ROLE traveller SET {name} = {value}" for name, value in ABROAD.items()),
    )
    yield "traveller"
    postgres.run("DROP OWNED BY traveller CASCADE", "DROP ROLE traveller")
    postgres.run("DROP SCHEMA elsewhere CASCADE")


def _texts(place: DatabaseLocation) -> list[str]:
    """Cells of the only row, as they come from the database."""
    with open_table(place, SCHEMA).source.latest() as source:
        names = [name for name in source.names if name not in ("age", "id")]

        ((*cells,),) = source.read(Wanted(names, 10))
    return [str(cell[0]) for cell in cells]


def _ask(postgres: PostgresServer, role: str, folder: Path, query: str) -> DatabaseLocation:
    (folder / "query.sql").write_text(query)
    return postgres.place(query=folder / "query.sql", role=role)


INNER = [
    ("extract(day FROM '2020-06-30 23:00:00+00'::timestamptz)::int", "30"),
    ("('2020-06-30 23:00:00+00'::timestamptz)::date", "2020-06-30"),
    ("date_trunc('day', '2020-06-30 01:00:00+00'::timestamptz)::date", "2020-06-29"),
    ("concat('03.04.', '05')::date", "2005-04-03"),
    ("to_char('2020-01-31'::date::timestamp, 'DD')", "31"),
    ("substr('2020-01-31'::date::text, 7, 4)", "2020"),
    ("('1 day 02:00:00'::interval)::text", "1 2:00:00"),
    ("(0.1::float8 + 0.2::float8)::text", "0.3"),
    ("('\\x41'::bytea)::text", "A"),
    ("current_setting('timezone')", "America/St_Johns"),
]


@pytest.mark.parametrize(("expression", "text"), INNER)
def test_a_query_computes_what_it_computes_in_a_client(
    postgres: PostgresServer, abroad: str, tmp_path: Path, expression: str, text: str
) -> None:
    """The text is what psql shows for the role; a view of the same expression gives it, too."""
    query = f"SELECT 1 AS age, 2 AS id, {expression} AS found"
    postgres.run(f"CREATE VIEW elsewhere.computed AS {query}")
    postgres.run(f"GRANT SELECT ON elsewhere.computed TO {abroad}")
    for place in (
        _ask(postgres, abroad, tmp_path, query),
        postgres.place(table="elsewhere.computed", role=abroad),
    ):
        assert _texts(place) == [text]


OUTER = [
    ("'2020-01-31'::date", "2020-01-31"),
    ("'0044-03-15 BC'::date", "0044-03-15 BC"),
    ("'-infinity'::date", "-infinity"),
    ("'12020-01-31'::date", "12020-01-31"),
    ("'2020-01-31 12:00:00.5'::timestamp", "2020-01-31 12:00:00.5"),
    ("'infinity'::timestamp", "infinity"),
    ("'2020-01-31 12:00:00+00'::timestamptz", "2020-01-31 08:30:00-03:30"),
    ("'1 mon -2 days'::interval", "1 mon -2 days"),
    ("'10.0.0.1'::inet", "10.0.0.1"),
    ("'10.0.0.0/8'::cidr", "10.0.0.0/8"),
    ("1.50::numeric", "1.50"),
    ("'ab'::char(4)", "ab  "),
    ("'{1,2}'::int[]", "{1,2}"),
    ("(0.1::float8 + 0.2::float8)", "0.30000000000000004"),
    ("'\\x41'::bytea", "b'A'"),
    ("2 > 1", "True"),
]


@pytest.mark.parametrize(("expression", "text"), OUTER)
def test_a_cell_has_one_form_under_every_setting(
    postgres: PostgresServer, abroad: str, tmp_path: Path, expression: str, text: str
) -> None:
    query = f"SELECT 1 AS age, 2 AS id, {expression} AS found"
    assert [t.rstrip() for t in _texts(_ask(postgres, abroad, tmp_path, query))] == [text.rstrip()]


def test_moments_are_written_as_copy_writes_them(
    postgres: PostgresServer, abroad: str, tmp_path: Path
) -> None:
    postgres.run(f"ALTER ROLE {abroad} SET timezone = 'Europe/Vienna'")
    moments = ("1940-01-01", "1800-01-01", "0044-03-15 BC")
    cells = ", ".join(f"'{moment}'::timestamptz AS c{n}" for n, moment in enumerate(moments))
    assert _texts(_ask(postgres, abroad, tmp_path, f"SELECT 1 AS age, 2 AS id, {cells}")) == [
        "1940-01-01 00:00:00+01",
        "1800-01-01 00:00:00+01:05:21",
        "0044-03-15 00:00:00+01:05:21 BC",
    ]


def test_years_of_midnights_are_those_of_the_database(postgres: PostgresServer) -> None:
    """A plain column of times is of the same days as a view that makes dates of them."""
    kind = {"type": "date", "lower": "1940-01-01", "upper": "1999-12-31"}
    schema = make_schema([{"name": "born", **kind}, {"name": "day", **kind}])
    name = "of_vienna"
    postgres.run(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    postgres.run(f"ALTER DATABASE {name} SET timezone = 'Europe/Vienna'")
    postgres.run_in(
        name,
        "CREATE TABLE people AS SELECT make_timestamptz(1940 + i % 60, 1, 1, 0, 0, 0, "
        "'Europe/Vienna') AS born FROM generate_series(0, 119) i",
        "CREATE VIEW births AS SELECT born, born::date AS day FROM people",
    )
    place = postgres.place(table="public.births")
    kept = place.secret.path  # type: ignore[attr-defined]
    kept.write_text(postgres.address(database=name))
    table = open_table(place, schema)
    report = check_table(table, schema)
    assert report.faultless
    for born, day in table.batches():
        np.testing.assert_array_equal(born, day)
    postgres.run(f"DROP DATABASE {name}")


def test_truth_values_are_labels_however_they_are_written(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    postgres.run("DROP TABLE IF EXISTS truths", "CREATE TABLE truths (a boolean, b text)")
    postgres.run("INSERT INTO truths VALUES (true, 't'), (false, 'f'), (null, null)")
    for labels in (["f", "t"], ["false", "true"]):
        schema = make_schema([binary_of("a", labels), binary_of("b", labels)])
        (found,) = open_table(postgres.place(table="truths"), schema).batches()
        assert [column.tolist() for column in found] == [[1, 0, MISSING]] * 2
    other = make_schema([categorical_of("a", ["f", "m", "x"]), binary_of("b", ["f", "m"])])
    (found,) = open_table(postgres.place(table="truths"), other).batches()
    assert [column.tolist() for column in found] == [
        [UNKNOWN, UNKNOWN, MISSING],
        [UNKNOWN, 0, MISSING],
    ]


def test_a_real_number_comes_as_it_is_stored(postgres: PostgresServer) -> None:
    """So that coding knows that it is a float32, whose shortest decimal it reads."""
    postgres.run("CREATE DOMAIN share AS float4", "DROP TABLE IF EXISTS reals")
    postgres.run("CREATE TABLE reals AS SELECT 0.1::float4 AS age, 0.1::share AS id")
    with open_table(postgres.place(table="reals"), SCHEMA).source.latest() as source:
        ((age, share),) = source.read(Wanted(["age", "id"], 10))
    assert [age.type, share.type] == [pa.float32()] * 2
    (columns,) = open_table(postgres.place(table="reals"), SCHEMA).batches()
    assert [column[0] for column in columns] == [0.1, 0.1]
    postgres.run("DROP TABLE reals", "DROP DOMAIN share")


def test_a_table_is_the_one_that_was_found_digested_and_shown(
    postgres: PostgresServer, abroad: str
) -> None:
    name = "it's\\ one"
    postgres.run(
        f'DROP TABLE IF EXISTS "{name}"',
        f'CREATE TABLE "{name}" AS SELECT i AS age, i AS id FROM generate_series(1, 30) i',
        f'CREATE TABLE elsewhere."{name}" AS SELECT 1 AS age, 2 AS id',
        f'GRANT SELECT ON "{name}", elsewhere."{name}" TO {abroad}',
    )
    place = postgres.place(table=name, role=abroad)
    first = open_table(place, SCHEMA)
    assert first.source.facts.relation == f"public.{name}"
    assert first.source.query_sha256 == hashlib.sha256(f"public.{name}".encode()).hexdigest()
    assert first.source.query_sha256 == _open(postgres, f"public.{name}", abroad).query_sha256
    postgres.run(f"ALTER ROLE {abroad} SET search_path = elsewhere, public")
    with first.latest() as latest:
        assert latest.n_rows == 30, "a table that is open stays the same one"
    second = open_table(place, SCHEMA)
    assert (second.n_rows, second.source.facts.relation) == (1, f"elsewhere.{name}")
    assert second.source.query_sha256 != first.source.query_sha256
    said, *_ = place.examine()
    assert f"of elsewhere.{name}" in said.text
    assert check_table(second, SCHEMA).relation == f"elsewhere.{name}"
    postgres.run(f"ALTER ROLE {abroad} SET standard_conforming_strings = off")
    assert _open(postgres, name, abroad).facts.relation == f"elsewhere.{name}"
    for gone in ("nowhere", "no where.people"):
        with pytest.raises(DataError, match="the table does not exist"):
            _open(postgres, gone, abroad)


def _open(postgres: PostgresServer, table: str, role: str) -> Any:
    return postgres.place(table=table, role=role).open()


@pytest.mark.parametrize(
    ("query", "n_rows"),
    [
        ("SELECT age, id FROM part /* off: /* for now */ WHERE age < 60 -- */\n", 500),
        ("SELECT age, id FROM part /* /* a */ /* b */ */ WHERE age < 60", 300),
        ("SELECT age, id FROM part -- all\rWHERE age < 60", 300),
        ("SELECT age, id FROM part WHERE 'a /*' <> 'b */' AND age < 60", 300),
        ("SELECT age, id FROM part WHERE $x$ -- $$ /* $x$ <> '' AND age < 60;", 300),
    ],
)
def test_what_runs_is_what_stands_in_the_file(
    postgres: PostgresServer, tmp_path: Path, query: str, n_rows: int
) -> None:
    postgres.run(
        "CREATE TABLE IF NOT EXISTS part AS "
        "SELECT i AS id, i % 100 AS age FROM generate_series(0, 499) i"
    )
    assert postgres.value(f"SELECT count(*) FROM ({query.rstrip(';')}\n) q") == n_rows, "psql"
    (tmp_path / "query.sql").write_bytes(query.encode())
    assert open_table(postgres.place(query=tmp_path / "query.sql"), SCHEMA).n_rows == n_rows


@pytest.mark.parametrize("kind", ["int", "text", "char(6)", "numeric", "uuid", "json", "float8"])
def test_the_rows_of_each_key_of_a_database_are_counted(
    postgres: PostgresServer, kind: str
) -> None:
    key = "md5(i::text)::uuid" if kind == "uuid" else f"(i::text || ' ')::{kind}"
    postgres.run(
        "DROP TABLE IF EXISTS keyed",
        f"CREATE TABLE keyed AS SELECT i AS age, i AS id, {key} AS person "
        "FROM generate_series(1, 9) i, generate_series(1, i)",
        "INSERT INTO keyed SELECT 1, 1, NULL FROM generate_series(1, 20)",
    )
    table = open_table(postgres.place(table="keyed"), SCHEMA)
    assert table.source.count_keys("person", 100) == KeyRows(9, 20)
    with table.latest("person") as latest:
        postgres.run("INSERT INTO keyed SELECT * FROM keyed WHERE age = 9")
        assert latest.count_keys("person", allowed=8).most == 9, "of the moment of the rows"
    assert table.count_keys("person", allowed=18).most == 18
    if kind == "text":
        postgres.run("UPDATE keyed SET person = ' 7' WHERE person = '9 '", "ANALYZE keyed")
        assert table.count_keys("person", allowed=1).most == 25
        postgres.run("UPDATE keyed SET person = ' '")
        assert table.source.count_keys("person", 100).most == 0


@pytest.mark.parametrize("kind", ["text", "varchar", "bpchar", "citext"])
def test_the_same_cells_are_the_same_people_in_a_database_as_in_its_export(
    postgres: PostgresServer, tmp_path: Path, kind: str
) -> None:
    """A key is a function of one cell: no type or collation of a database changes it."""
    cells = {
        3: ["7", "7.0", " 7", "1e3", "1000", "01"],
        2: ["8\u00a0", "8", "NA", "NULL", ".", "nan", ""],
        1: ["A", "a", "1.1", "1.10"],
    }
    postgres.run("CREATE EXTENSION IF NOT EXISTS citext")
    for most, found in cells.items():
        listed = ", ".join(f"(U&'{each}')".replace("\u00a0", "\\00a0") for each in found)
        postgres.run(
            "DROP TABLE IF EXISTS spelled",
            f"CREATE TABLE spelled (person {kind}, age int DEFAULT 1, id int DEFAULT 1)",
            f"INSERT INTO spelled (person) VALUES {listed}",
        )
        rows = pa.table({"person": found, "age": [1] * len(found), "id": [1] * len(found)})
        pa.csv.write_csv(rows, tmp_path / "rows.csv")
        for place in (postgres.place(table="spelled"), local_files(tmp_path / "rows.csv")):
            assert open_table(place, SCHEMA).count_keys("person", allowed=1).most == most


def test_equal_numbers_of_type_numeric_are_one_person(postgres: PostgresServer) -> None:
    postgres.run(
        "DROP TABLE IF EXISTS spelled",
        "CREATE TABLE spelled AS SELECT k::numeric AS person, 1 AS age, 1 AS id "
        "FROM unnest(ARRAY['7.5', '7.50', '7.500', '7', '7.0', '700']) k",
    )
    table = open_table(postgres.place(table="spelled"), SCHEMA)
    assert table.count_keys("person", allowed=1).most == 3
    with table.latest("person") as latest:
        keys = [k for each in latest.cells(9) for k in key_texts(each.keys).to_pylist()]
    assert sorted(keys) == [b"7", b"7", b"7.5", b"7.5", b"7.5", b"700"]


def _sqlite(path: Path, *statements: str, table: str = "", query: str = "") -> SQLiteLocation:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    if not query:
        return SQLiteLocation("survey", database=path, table=table)
    path.with_suffix(".sql").write_text(query)
    return SQLiteLocation("survey", database=path, query=path.with_suffix(".sql"))


PEOPLE = (
    'CREATE TABLE p (age, id, withdrawn, "say ""so""")',
    "INSERT INTO p WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) "
    "SELECT 50 + i, i, i <= 4, 0 FROM n",
)
VIEWS = (
    'CREATE VIEW wrong AS SELECT age, id FROM p WHERE NOT "withdrwan"',
    "CREATE VIEW of_wrong AS SELECT * FROM wrong",
    'CREATE VIEW "AS it is" ("age", id) AS SELECT "age", "id" FROM p WHERE NOT "withdrawn"',
)


@pytest.mark.parametrize(
    "query",
    [
        'SELECT age, id FROM p WHERE NOT "withdrwan"',
        'SELECT "aeg" AS age, id FROM p',
        'SELECT age, id FROM p WHERE id IN (SELECT id FROM p AS o WHERE o.id > "midd")',
        'SELECT age, id FROM p ORDER BY "aeg"',
        'SELECT age, id FROM p WHERE "say so" = 0',
        "SELECT * FROM wrong",
        "SELECT age, id FROM of_wrong",
    ],
)
def test_a_quoted_name_that_is_no_column_is_refused(tmp_path: Path, query: str) -> None:
    place = _sqlite(tmp_path / "rows.db", *PEOPLE, *VIEWS, query=query)
    with pytest.raises(DataError, match="a column that the query names does not exist") as refused:
        open_table(place, SCHEMA)
    assert "withdrwan" not in str(refused.value)


@pytest.mark.parametrize(
    "query",
    [
        'SELECT "age", "id" FROM p WHERE NOT "withdrawn"',
        'SELECT p."age" AS "age", id FROM "p" WHERE "say ""so""" = 0 AND NOT withdrawn;',
        'SELECT * FROM "AS it is"',
        "SELECT age, id FROM p WHERE NOT withdrawn AND 'it''s \"x\"' <> ''",
        'WITH "q" AS (SELECT age, id, withdrawn AS "w" FROM p) SELECT age, id FROM q WHERE "w" = 0',
    ],
)
def test_a_quoted_name_that_is_a_column_is_read(tmp_path: Path, query: str) -> None:
    place = _sqlite(tmp_path / "rows.db", *PEOPLE, *VIEWS, query=query)
    (columns,) = open_table(place, SCHEMA).batches()
    assert columns[0].tolist() == [54 + i for i in range(1, 7)]


def test_a_view_of_sqlite_with_a_slip_is_refused_by_its_name(tmp_path: Path) -> None:
    _sqlite(tmp_path / "rows.db", *PEOPLE, *VIEWS)
    with pytest.raises(DataError, match="does not exist"):
        open_table(SQLiteLocation("s", database=tmp_path / "rows.db", table="of_wrong"), SCHEMA)


@pytest.mark.parametrize("n_columns", [999, 1000, 2000])
def test_as_many_attributes_as_sqlite_has_columns_are_read(tmp_path: Path, n_columns: int) -> None:
    """A cell of each type in each place, over more than one batch, against the rows themselves."""
    n_rows = 400
    kinds = [float, int, str, lambda _: None]
    rows = [
        [kinds[(i + j) % 4](0.5 * ((i * j) % 19)) for j in range(n_columns)] for i in range(n_rows)
    ]
    path = tmp_path / "rows.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        # "column1" and "n" are names that the statement might have for itself.
        names = ["column1", "n", "part", "q", *(f"c{i}" for i in range(4, n_columns))]
        connection.execute(f"CREATE TABLE w ({', '.join(names)})")
        connection.executemany(f"INSERT INTO w VALUES ({', '.join('?' * n_columns)})", rows)
    schema = make_schema([numeric_of(name, 0, 9) for name in names])
    table = open_table(SQLiteLocation("survey", database=path, table="w"), schema)
    found = np.concatenate([np.column_stack(columns) for columns in table.batches(97)])
    expected = [[np.nan if cell is None else float(cell) for cell in row] for row in rows]
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=examples(15))
@given(data=st.data(), n_parts=st.integers(1, 4))
def test_a_row_in_parts_is_the_row(data: Any, n_parts: int) -> None:
    """Any rows of a table and of a query that joins and orders, in one part and in several."""
    cells = st.none() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("ab", max_size=2)
    rows = data.draw(st.lists(st.tuples(cells, cells, cells, cells), min_size=1, max_size=9))
    schema = make_schema([numeric_of(name, -9, 9) for name in "abcd"])
    query = data.draw(
        st.sampled_from(
            [
                "SELECT * FROM w",
                "SELECT w.* FROM w JOIN (VALUES (1), (2)) AS two ORDER BY b DESC, a",
                "SELECT a, b, c, d FROM w UNION ALL SELECT d, c, b, a FROM w WHERE a > 0",
                "SELECT DISTINCT * FROM w",
            ]
        )
    )
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "rows.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE w (a, b, c, d)")
            connection.execute("CREATE INDEX of_b ON w (b, a)")
            connection.executemany("INSERT INTO w VALUES (?, ?, ?, ?)", rows)
        place = _sqlite(path, query=query)
        (whole,) = open_table(place, schema).batches()
        patch.setattr(SQLiteLocation, "dialect", replace(SQLITE, most_columns=-(-4 // n_parts)))
        (parts,) = open_table(place, schema).batches()
    for ours, theirs in zip(_sorted(parts), _sorted(whole), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _sorted(columns: list[Any]) -> Any:
    rows = np.column_stack(columns)
    return rows[np.lexsort(rows.T)]


def test_parts_that_come_in_another_order_are_refused(tmp_path: Path) -> None:

    place = _sqlite(tmp_path / "rows.db", *PEOPLE, table="p")
    swapped = replace(
        SQLITE, most_columns=1, first=lambda n: "SELECT 1" + ", 0.0, ''" * n + " UNION ALL "
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SQLiteLocation, "dialect", swapped)
        with pytest.raises(DataError, match="in another order"):
            list(open_table(place, SCHEMA).batches())


@pytest.mark.parametrize(
    ("columns", "query"),
    [
        ('hba1c, "hba1c:1"', ""),
        ('"x:1", "x:2", x', ""),
        ('"x:7", y', 'SELECT "x:7", y FROM t'),
        ("x, y", 'SELECT x AS "a:1", y AS "a:2" FROM t'),
    ],
)
def test_names_that_look_numbered_are_names(tmp_path: Path, columns: str, query: str) -> None:
    n_columns = columns.count(",") + 1
    place = _sqlite(
        tmp_path / "rows.db",
        f"CREATE TABLE t ({columns})",
        f"INSERT INTO t VALUES ({', '.join(map(str, range(5, 5 + n_columns)))})",
        table="t",
        query=query,
    )
    names = place.open().names
    schema = make_schema([numeric_of(name, 0, 20) for name in names])
    (found,) = open_table(place, schema).batches()
    assert [column[0] for column in found] == [*range(5, 5 + n_columns)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t JOIN t AS o",
        'SELECT x AS "a:1", y AS "a:1" FROM t',
        "SELECT x, x FROM t",
        'SELECT * FROM (SELECT 1 AS "X:1") JOIN (SELECT 2 AS "x:1") AS o',
    ],
)
def test_a_column_that_occurs_twice_is_refused(tmp_path: Path, query: str) -> None:
    place = _sqlite(tmp_path / "rows.db", "CREATE TABLE t (x, y)", query=query)
    with pytest.raises(DataError, match="twice: name each column in a query"):
        place.open()


@pytest.mark.skipif(os.name == "nt", reason="folders have other rights")
@pytest.mark.parametrize("journal", ["wal", "hot"])
def test_a_file_beside_which_sqlite_must_write_is_said(
    open_folder: Path, journal: str, unprivileged: Callable[[Callable[[], str]], str]
) -> None:
    folder = open_folder / "closed"
    folder.mkdir()
    place = _sqlite(folder / "rows.db", *PEOPLE, table="p")
    assert _refusal(place) == "10 rows", "and everything is imported"
    kept = {}
    with closing(sqlite3.connect(folder / "rows.db", isolation_level=None)) as connection:
        if journal == "wal":
            connection.execute("PRAGMA journal_mode = wal")
        else:  # as after a crash in the middle of a change
            connection.execute("PRAGMA cache_size = 1")
            connection.execute("BEGIN")
            connection.execute("CREATE TABLE many AS SELECT randomblob(900) FROM p, p AS o, p AS n")
            connection.execute("UPDATE p SET age = age + 1")
            kept = {path: path.read_bytes() for path in folder.iterdir()}
    for path, content in kept.items():
        path.write_bytes(content)
    folder.chmod(0o555)
    try:
        said = unprivileged(lambda: _refusal(place))
    finally:
        folder.chmod(0o755)
    assert "let this user write into its folder" in said
    assert "would write" not in said
    with closing(sqlite3.connect(folder / "rows.db")) as writer:
        assert writer.execute("SELECT count(*) FROM p").fetchone() == (10,)
    assert open_table(place, SCHEMA).n_rows == 10


def _refusal(place: DatabaseLocation) -> str:
    try:
        return f"{open_table(place, SCHEMA).n_rows} rows"
    except DataError as error:
        return str(error)


def test_a_file_that_this_user_may_not_read_is_said(
    open_folder: Path, unprivileged: Callable[[Callable[[], str]], str]
) -> None:
    place = _sqlite(open_folder / "rows.db", *PEOPLE, table="p")
    assert _refusal(place) == "10 rows", "and everything is imported"
    (open_folder / "rows.db").chmod(0)
    assert "may not read the database file" in unprivileged(lambda: _refusal(place))
    open_folder.chmod(0)
    assert "the database file of survey does not exist" in unprivileged(lambda: _refusal(place))
    open_folder.chmod(0o755)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may look into, too."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def unprivileged() -> Callable[[Callable[[], str]], str]:
    """Run in a child process for which permissions hold, also if this one is root's."""

    def run(action: Callable[[], str]) -> str:
        reads, writes = os.pipe()
        child = os.fork()
        if not child:
            try:
                if os.geteuid() == 0:
                    os.setresgid(*[65534] * 3)
                    os.setresuid(*[65534] * 3)
                os.write(writes, action().encode())
            finally:
                os._exit(0)
        os.close(writes)
        with os.fdopen(reads, "rb") as pipe:
            said = pipe.read().decode()
        os.waitpid(child, 0)
        return said

    return run


def test_text_in_a_numeric_column_of_a_date_is_none(postgres: PostgresServer) -> None:
    postgres.run(
        "DROP VIEW IF EXISTS dated",
        "CREATE VIEW dated AS SELECT '2020-01-31'::date AS age, 1 AS id",
    )
    (columns,) = open_table(postgres.place(table="dated"), SCHEMA).batches()
    assert columns[0].tolist() == [NOT_A_NUMBER]
