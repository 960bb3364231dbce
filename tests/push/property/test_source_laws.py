"""The same rows give the same integers and the same counts of faults from every source.

What rows mean is drawn first, and then each column in one of the ways in which tools write it
(`tests.support.writers`). PostgreSQL needs a server: `tests/merge/sources/test_database_laws.py`.
"""

import csv
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.moments.accumulation import MomentSums
from dppca.common.kernel.schema import Column
from dppca.common.kernel.schema.frames import read_frame
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.databases import SQLiteLocation
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.lakes import DeltaLocation, IcebergLocation
from dppca.owner.records.locations import Location
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.examples import examples
from tests.support.iceberg import make_iceberg
from tests.support.writers import SCHEMA, Values, require_same, values_of_rows, written

NUMBERS = frozenset({"text", "float32", "float64", "decimal", "int", "bool"})
TYPED = NUMBERS | {"date", "naive", "zoned", "utc", "dictionary"}
KEPT_IN_UTC = NUMBERS | {"date", "naive", "utc"}


def write_csv(rows: pa.Table, folder: Path) -> Location:
    path = folder / "rows.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows.column_names)
        writer.writerows(zip(*rows.to_pydict().values(), strict=True))
    return local_files(path)


def write_parquet(rows: pa.Table, folder: Path) -> Location:
    pq.write_table(rows, folder / "rows.parquet", row_group_size=2)
    return local_files(folder / "rows.parquet")


def write_int96(rows: pa.Table, folder: Path) -> Location:
    pq.write_table(rows, folder / "rows.parquet", use_deprecated_int96_timestamps=True)
    return local_files(folder / "rows.parquet")


def write_arrow(rows: pa.Table, folder: Path) -> Location:
    feather.write_feather(rows, str(folder / "rows.arrow"), chunksize=3)
    return local_files(folder / "rows.arrow")


def write_sqlite(rows: pa.Table, folder: Path) -> Location:
    path = folder / "rows.db"
    names = ", ".join(rows.column_names)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE rows ({names})")
        cells = zip(*rows.to_pydict().values(), strict=True)
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", cells)
    return SQLiteLocation("rows", database=path, table="rows")


def write_delta(rows: pa.Table, folder: Path) -> Location:
    write_deltalake(str(folder / "delta"), rows)
    return DeltaLocation("rows", str(folder / "delta"))


def write_iceberg(rows: pa.Table, folder: Path) -> Location:
    catalog = make_iceberg(folder, rows.schema)
    catalog.table.append(rows)
    return IcebergLocation("rows", catalog.table.metadata_location)


FILES: dict[str, tuple[Callable[[pa.Table, Path], Location], frozenset[str]]] = {
    "CSV": (write_csv, frozenset({"text"})),
    "Parquet": (write_parquet, TYPED),
    "Parquet with INT96": (write_int96, TYPED - {"zoned"}),
    "Arrow": (write_arrow, TYPED),
    "SQLite": (write_sqlite, frozenset({"text", "float64", "int"})),
    "Delta": (write_delta, KEPT_IN_UTC),
    "Iceberg": (write_iceberg, KEPT_IN_UTC),
}
FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "Arrow": lambda rows: rows,
    "pandas": lambda rows: rows.to_pandas(),
    "polars": pl.from_arrow,
    "a mapping": lambda rows: rows.to_pydict(),
}


def table_of(data: st.DataObject, values: Values, ways: frozenset[str]) -> pa.Table:
    draw: Any = data.draw
    return pa.table({name: written(draw, name, each, ways) for name, each in values.items()})


@pytest.mark.parametrize("source", FILES)
@settings(max_examples=examples(30))
@given(values=values_of_rows(), data=st.data())
def test_the_same_rows_give_the_same_integers_and_faults_from_every_source(
    source: str, values: Values, data: st.DataObject
) -> None:
    write, ways = FILES[source]
    rows = table_of(data, values, ways)
    with tempfile.TemporaryDirectory() as name:
        table = open_table(write(rows, Path(name)), SCHEMA)
        counts = FaultCounts(SCHEMA)
        moments = moments_of_table(table, SCHEMA, tally=counts)
    require_same(values, moments.packed, counts)


@pytest.mark.parametrize("library", FRAMES)
@settings(max_examples=examples(30))
@given(values=values_of_rows(), data=st.data())
def test_frames_in_memory_are_read_as_files_are(
    library: str, values: Values, data: st.DataObject
) -> None:
    ways = TYPED - {"float32"} if library == "a mapping" else TYPED  # Python's numbers have 64 bits
    columns: list[Column] = read_frame(FRAMES[library](table_of(data, values, ways)), SCHEMA)
    sums, counts = MomentSums(SCHEMA), FaultCounts(SCHEMA)
    sums.add(columns)
    counts.add(columns)
    require_same(values, sums.total().packed, counts)
