"""Columns that a mapping turns into attributes give the sums of a file converted by hand.

What a rule makes of one row is written once more, as plainly as can be
(`tests.support.mapped_tables`), and the file that it gives is read without a mapping. So is the
same file read from every source, in batches of any size, by a worker of a cluster, and as a table
in memory.
"""

import csv
import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pyreadstat
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca import encode, read_mapping
from dppca.common.kernel.schema import encode as encode_columns
from dppca.owner.engines.kernel import Work, answer_part, take_fingerprint
from dppca.owner.engines.parts import make_manifest
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.databases import SQLiteLocation
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.lakes import DeltaLocation, IcebergLocation
from dppca.owner.records.locations import Location
from dppca.owner.records.mapping_files import mapping_wire
from dppca.owner.records.table import moments_of_table, open_table
from dppca.owner.records.text_format import TextFormat
from tests.support.examples import examples
from tests.support.iceberg import make_iceberg
from tests.support.mapped_tables import SCHEMA, MappedCase, arrow
from tests.support.workbooks import write_workbook


def write_csv(rows: list[dict[str, Any]], folder: Path) -> Location:
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0])
        writer.writerows(row.values() for row in rows)
    return local_files(folder / "rows.csv")


def write_german(rows: list[dict[str, Any]], folder: Path) -> Location:
    def text(cell: Any) -> str:
        if isinstance(cell, date):
            return cell.strftime("%d.%m.%Y")
        return "" if cell is None else str(cell).replace(".", ",")

    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(rows[0])
        writer.writerows(map(text, row.values()) for row in rows)
    form = TextFormat(delimiter=";", decimal=",", dates="DD.MM.YYYY")
    return local_files(folder / "rows.csv", form)


def write_parquet(rows: list[dict[str, Any]], folder: Path) -> Location:
    pq.write_table(arrow(rows), folder / "rows.parquet", row_group_size=4)
    return local_files(folder / "rows.parquet")


def write_listed(rows: list[dict[str, Any]], folder: Path) -> Location:
    table = arrow(rows)
    table = table.set_column(0, "s", table["s"].dictionary_encode())
    feather.write_feather(table, str(folder / "rows.arrow"), chunksize=5)
    return local_files(folder / "rows.arrow")


def write_sqlite(rows: list[dict[str, Any]], folder: Path) -> Location:
    with closing(sqlite3.connect(folder / "rows.db")) as base, base:
        base.execute("CREATE TABLE rows (s TEXT, k INTEGER, x REAL, z REAL, b TEXT, v TEXT)")
        for row in rows:
            cells = [c.isoformat() if isinstance(c, date) else c for c in row.values()]
            base.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", cells)
    return SQLiteLocation("rows", database=folder / "rows.db", table="rows")


def write_delta(rows: list[dict[str, Any]], folder: Path) -> Location:
    write_deltalake(str(folder / "delta"), arrow(rows))
    return DeltaLocation("rows", str(folder / "delta"))


def write_spss(rows: list[dict[str, Any]], folder: Path) -> Location:
    pyreadstat.write_sav(pl.DataFrame(arrow(rows)), str(folder / "rows.sav"))
    return local_files(folder / "rows.sav")


def write_iceberg(rows: list[dict[str, Any]], folder: Path) -> Location:
    table = arrow(rows)
    catalog = make_iceberg(folder, table.schema)
    catalog.table.append(table)
    return IcebergLocation("rows", catalog.table.metadata_location)


def write_book(rows: list[dict[str, Any]], folder: Path) -> Location:
    cells = [["Export of today"], [], [*rows[0]], *([*row.values()] for row in rows)]
    write_workbook(folder / "rows.xlsx", {"Export": cells})
    return local_files(folder / "rows.xlsx", TextFormat(header=3))


SOURCES = {
    "a workbook": write_book,
    "CSV": write_csv,
    "a German CSV": write_german,
    "Parquet": write_parquet,
    "Arrow with dictionaries": write_listed,
    "SQLite": write_sqlite,
    "Delta": write_delta,
    "Iceberg": write_iceberg,
    "SPSS": write_spss,
}


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=examples(40))
@given(seed=st.integers(0, 1 << 32))
def test_mapped_columns_give_the_sums_of_a_file_converted_by_hand(source: str, seed: int) -> None:
    case = MappedCase.of(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hand = case.by_hand(folder)
        wanted = moments_of_table(hand, SCHEMA).packed
        place = SOURCES[source](case.rows, folder).mapped(case.mapping(folder))
        table, tally = open_table(place, SCHEMA), FaultCounts(SCHEMA)
        batch = case.random.choice([3, 50, None])
        found = moments_of_table(table, SCHEMA, batch_rows=batch, tally=tally).packed
        assert (found == wanted).all()
        for one, other in zip(
            np.concatenate([*map(_rows, table.batches(5))]),
            np.concatenate([*map(_rows, hand.batches(60))]),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)
        if source in ("Parquet", "a German CSV"):
            assert (_sum_by_worker(table) == wanted).all()


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 1 << 32), library=st.sampled_from(["arrow", "pandas", "polars", "lists"])
)
@pytest.mark.filterwarnings("ignore::dppca.CodingWarning")
def test_a_table_in_memory_is_coded_as_the_file_converted_by_hand(seed: int, library: str) -> None:
    case = MappedCase.of(seed)
    made: dict[str, Callable[[pa.Table], Any]] = {
        "arrow": lambda table: table,
        "pandas": lambda table: table.to_pandas(date_as_object=True),
        "polars": pl.from_arrow,
        "lists": lambda table: table.to_pydict(),
    }
    with tempfile.TemporaryDirectory() as name:
        mapping = read_mapping(case.mapping(Path(name)).path or "")
        coded = encode(made[library](arrow(case.rows)), SCHEMA, mapping=mapping)
        (columns,) = case.by_hand(Path(name)).batches()
    wanted = encode_columns(SCHEMA, columns) / float(1 << SCHEMA.resolution_bits)
    np.testing.assert_array_equal(coded, wanted)


def _rows(columns: Any) -> Any:
    return np.column_stack([np.asarray(each, np.float64) for each in columns])


def _sum_by_worker(table: Any) -> Any:
    schema = SCHEMA.canonical_bytes().decode()
    work = Work(schema, take_fingerprint(), mapping_json=json.dumps(mapping_wire(table.mapped)))
    answers = [
        answer_part(part.to_json(), work.to_json()) for part in make_manifest(table, slots=2)
    ]
    assert not any(answer.failure for answer in answers)
    return sum(np.frombuffer(answer.packed, np.int64) for answer in answers)
