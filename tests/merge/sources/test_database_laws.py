"""The same rows give the same integers by CSV, Parquet, SQLite and PostgreSQL."""

import csv
import datetime as dt
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dppca.owner.records.check import FaultCounts
from dppca.owner.records.databases import SQLiteLocation
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.locations import Location
from dppca.owner.records.table import moments_of_table, open_table
from tests.support import mapped_tables, writers
from tests.support.examples import examples
from tests.support.postgres import PostgresServer
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

LEVELS = ["0", "1", "2.5", "1000000000000000"]
SCHEMA = make_schema(
    [
        numeric_of("x", -1, 3),
        numeric_of("amount", 0, 100),
        numeric_of("count", 0, 9),
        numeric_of("noted", 0, 9),
        categorical_of('la"bel', ["a b", "1", "é", "1.50"]),
        binary_of("yes", ["false", "true"]),
        categorical_of("day", ["2020-01-31", "1999-12-31", "-"]),
        categorical_of("level", ["0", "1", "2.5", "1000000000000000"]),
        numeric_of("flag", 0, 1),
        numeric_of("born", 1900, 2030),
    ],
    resolution_bits=14,
)
COLUMNS: dict[str, tuple[str, pa.DataType]] = {
    "x": ("double precision", pa.float64()),
    "amount": ("numeric", pa.decimal128(30, 9)),
    "count": ("bigint", pa.int64()),
    "noted": ("text", pa.string()),
    'la"bel': ("text", pa.string()),
    "yes": ("boolean", pa.bool_()),
    "day": ("date", pa.date32()),
    "level": ("double precision", pa.float64()),
    "flag": ("boolean", pa.bool_()),
    "born": ("date", pa.date32()),
}
Row = tuple[Any, ...]

text = st.one_of(
    st.sampled_from(["", " ", "NaN", "-inf", "1e999", "a b", " 1 ", "1.0", "é", "5", "true", "'"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=5),
    st.floats(-5, 15).map(repr),
)
days = st.sampled_from([dt.date(2020, 1, 31), dt.date(1999, 12, 31), dt.date(1, 1, 1)])
row = st.tuples(
    st.none() | st.floats(allow_nan=False) | st.floats(-1, 3),
    st.none() | st.decimals(-1, 101, places=4) | st.decimals(0, 100, places=9),
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9),
    st.none() | text,
    st.none() | text,
    st.none() | st.booleans(),
    st.none() | days,
    st.none() | st.sampled_from([0.0, -0.0, 1e15, 1.0, 2.5, -1.0, 0.1, 0.1 + 0.2]),
    st.none() | st.booleans(),
    st.none() | days,
)
rows_of_a_table = st.lists(row, min_size=1, max_size=8)


@settings(max_examples=examples(60))
@given(rows=rows_of_a_table, order=st.randoms(use_true_random=False), batch=st.integers(1, 9))
@example(
    [(0.1 + 0.2, Decimal("0.3"), 2**62 + 1, "0.30000000000000004", None, *[None] * 5)], None, 1
)
@example([(None,) * 10, (5e-324, Decimal("33.333333333"), 0, "é", "é", *[None] * 5)], None, 1)
def test_rows_of_every_source_give_the_same_integers(
    postgres: PostgresServer, rows: list[Row], order: Any, batch: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writers: list[Callable[[Sequence[Row], Path], Location]] = [
            write_csv,
            write_parquet,
            write_sqlite,
            lambda rows, _: write_postgres(rows, postgres),
        ]
        found = []
        for write in writers:
            if order is not None:
                order.shuffle(rows)
            table = open_table(write(rows, folder), SCHEMA)
            assert table.n_rows == len(rows), "no value changes n"
            counts = FaultCounts(SCHEMA)
            moments = moments_of_table(table, SCHEMA, tally=counts, batch_rows=batch)
            columns = np.array([np.concatenate(c) for c in zip(*table.batches(), strict=True)])
            found.append((moments, counts.report(), np.sort(columns)))
    expected, faults, values = found[0]
    for moments, counted, columns in found[1:]:
        np.testing.assert_array_equal(moments.packed, expected.packed)
        assert counted.attributes == faults.attributes
        np.testing.assert_array_equal(columns, values, "to the last bit before coding, too")


KINDS = {
    "text": "text",
    "float32": "real",
    "float64": "double precision",
    "decimal": "numeric",
    "int": "bigint",
    "bool": "boolean",
    "date": "date",
    "naive": "timestamp",
}


@settings(max_examples=examples(40))
@given(values=writers.values_of_rows(), data=st.data())
def test_postgresql_gives_what_rows_mean_whatever_their_columns_are_of(
    postgres: PostgresServer, values: writers.Values, data: st.DataObject
) -> None:
    draw: Any = data.draw
    rows = pa.table(
        {name: writers.written(draw, name, each, frozenset(KINDS)) for name, each in values.items()}
    )
    columns = ", ".join(f"{field.name} {_kind_of(field.type)}" for field in rows.schema)
    postgres.run("DROP TABLE IF EXISTS law_cells", f"CREATE TABLE law_cells ({columns})")
    postgres.load("law_cells", rows)
    table = open_table(postgres.place(table="law_cells"), writers.SCHEMA)
    counts = FaultCounts(writers.SCHEMA)
    moments = moments_of_table(table, writers.SCHEMA, tally=counts)
    writers.require_same(values, moments.packed, counts)


def _kind_of(kind: pa.DataType) -> str:
    names = {"string": "text", "float": "float32", "double": "float64", "int64": "int"}
    name = str(kind).partition("[")[0].partition("(")[0]
    name = {"decimal128": "decimal", "date32": "date", "timestamp": "naive", **names}.get(
        name, name
    )
    return KINDS[name]


cell = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), text, st.binary(max_size=6)
)


@settings(max_examples=examples(60))
@given(rows=st.lists(st.tuples(*[cell] * 10), min_size=1, max_size=6), place=st.integers(0, 5))
@example([(1,) * 10] * 5 + [("x",) * 10], 5)
@example([(1.0,) * 10, (b"\xff\0",) * 10, (None,) * 10], 1)
@example([(-0.0,) * 10, ("x",) * 10], 0)
@example([(1e15,) * 10, (1e-7,) * 10, (7,) * 10], 0)
def test_a_cell_of_sqlite_ends_no_release_and_changes_no_other_row(
    rows: list[Row], place: int
) -> None:
    place %= len(rows)
    with tempfile.TemporaryDirectory() as name:
        batches = list(open_table(write_sqlite(rows, Path(name)), SCHEMA).batches(2))
        whole = np.array([np.concatenate(c) for c in zip(*batches, strict=True)], np.float64)
        (alone,) = open_table(write_sqlite([rows[place]], Path(name)), SCHEMA).batches()
    assert whole.shape == (10, len(rows))
    np.testing.assert_array_equal(whole[:, place], np.array(alone, np.float64)[:, 0])


def write_csv(rows: Sequence[Row], folder: Path) -> Location:
    path = folder / "rows.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    return local_files(path)


def arrow_table(rows: Sequence[Row]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        {
            name: pa.array(column, kind)
            for (name, (_, kind)), column in zip(COLUMNS.items(), columns, strict=True)
        }
    )


def write_parquet(rows: Sequence[Row], folder: Path) -> Location:
    pq.write_table(arrow_table(rows), folder / "rows.parquet")
    return local_files(folder / "rows.parquet")


def write_sqlite(rows: Sequence[Row], folder: Path) -> Location:
    """A table without types, so that each cell has its own."""

    def stored(value: object) -> object:
        if isinstance(value, Decimal | dt.date):
            return str(value)
        return str(value).lower() if isinstance(value, bool) else value

    path = folder / "rows.db"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE rows ({', '.join(map(quoted, COLUMNS))})")
        connection.executemany(
            f"INSERT INTO rows VALUES ({', '.join('?' * len(COLUMNS))})",
            [tuple(map(stored, each)) for each in rows],
        )
    return SQLiteLocation("rows", database=path, table="rows")


def write_postgres(rows: Sequence[Row], server: PostgresServer) -> Location:
    columns = ", ".join(f"{quoted(name)} {kind}" for name, (kind, _) in COLUMNS.items())
    server.run("DROP TABLE IF EXISTS law_rows", f"CREATE TABLE law_rows ({columns})")
    server.load("law_rows", arrow_table(rows))
    return server.place(table="law_rows")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 1 << 32))
def test_columns_of_postgresql_are_mapped_to_the_sums_of_the_file_converted_by_hand(
    postgres: PostgresServer, seed: int
) -> None:
    case = mapped_tables.MappedCase.of(seed)
    schema, rows = mapped_tables.SCHEMA, mapped_tables.arrow(case.rows)
    columns = ", ".join(f"{field.name} {_kind_of(field.type)}" for field in rows.schema)
    postgres.run("DROP TABLE IF EXISTS mapped_rows", f"CREATE TABLE mapped_rows ({columns})")
    postgres.load("mapped_rows", rows)
    with tempfile.TemporaryDirectory() as name:
        place = postgres.place(table="mapped_rows").mapped(case.mapping(Path(name)))
        found = moments_of_table(open_table(place, schema), schema)
        wanted = moments_of_table(case.by_hand(Path(name)), schema)
    np.testing.assert_array_equal(found.packed, wanted.packed)
