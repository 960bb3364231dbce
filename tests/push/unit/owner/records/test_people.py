"""People are counted in one pass and found in another, from every source; what is unclear stops."""

import math
import sqlite3
from collections import Counter
from contextlib import closing, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.types import DoubleType

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.moments.people import PeopleMoments, PeopleSums
from dppca.common.kernel.schema import Schema
from dppca.owner.records.check import FaultCounts, check_table
from dppca.owner.records.databases import SQLiteLocation
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.lakes import DeltaLocation, IcebergLocation
from dppca.owner.records.locations import Location
from dppca.owner.records.people import count_people
from dppca.owner.records.table import moments_of_table, open_table
from tests.push.unit.owner.records.test_keys import SOURCES
from tests.support.engines import InProcess
from tests.support.examples import examples
from tests.support.iceberg import make_iceberg
from tests.support.studies import make_schema, numeric_of
from tests.support.workbooks import write_workbook

SCHEMA = make_schema(
    [numeric_of("age", 0, 100), numeric_of("more", 0, 1)], unit="person", resolution_bits=5
)

_MOMENT = datetime(2020, 1, 1)  # noqa: DTZ001 - a column's type says which zone it has


def rows_of(people: list[str], seed: int = 0) -> pa.Table:
    """A row for each name; numbers follow from a seed."""
    rng = np.random.default_rng(seed)
    n = len(people)
    ages, more = rng.integers(0, 101, n).tolist(), rng.integers(0, 2, n).tolist()
    return pa.table({"person": people, "age": ages, "more": more})


def expected(rows: pa.Table, schema: Schema = SCHEMA) -> PeopleMoments:
    counts = Counter(rows["person"].to_pylist())
    ks = np.array([counts[name] for name in rows["person"].to_pylist()])
    sums = PeopleSums(schema)
    sums.add([rows[name].to_numpy().astype(float) for name in ("age", "more")], ks)
    return sums.total(Counter(counts.values()))


PEOPLE = [f"P-{n}" for n in range(40) for _ in range(1 + n % 9)] + ["a" * 30] * 4 + ["a" * 31]


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_every_source_gives_the_same_integers_in_any_order(source: str, tmp_path: Path) -> None:
    rows = rows_of(PEOPLE)
    order = np.random.default_rng(7).permutation(len(PEOPLE))
    place = SOURCES[source](tmp_path, rows.take(pa.array(order)))
    with open_table(place, SCHEMA).latest("person") as table:
        tally = FaultCounts(SCHEMA)
        found = moments_of_table(table, SCHEMA, tally=tally, batch_rows=17, workers=2)
        report = tally.report(table)
        again = check_table(table, SCHEMA)
    assert found.packed.tolist() == expected(rows).packed.tolist()
    assert found.n_rows == 42
    for key in (report.key, again.key):
        assert key is not None
        assert (key.people, key.most, key.allowed, key.is_kept) == (42, 9, None, True)


def _iceberg(folder: Path, rows: pa.Table) -> Location:
    catalog = make_iceberg(folder / "iceberg", rows.schema)
    return IcebergLocation("lake", catalog.table.metadata_location.removeprefix("file://"))


def _workbook(folder: Path, rows: pa.Table) -> Location:
    return local_files(write_workbook(folder / "rows.xlsx", {"rows": [rows.column_names]}))


def _emptied(folder: Path, rows: pa.Table) -> Location:
    """A Delta table that had a row."""
    place = SOURCES["delta"](folder, pa.concat_tables([rows, rows_of(["a"])]))
    DeltaTable(folder / "lake").delete()
    return place


WITHOUT_ROWS = SOURCES | {"emptied": _emptied, "iceberg": _iceberg, "workbook": _workbook}


@pytest.mark.parametrize("source", sorted(WITHOUT_ROWS))
def test_a_source_without_a_row_has_no_people_where_their_number_is_secret(
    source: str, tmp_path: Path
) -> None:
    place = WITHOUT_ROWS[source](tmp_path, rows_of(["a"]).slice(0, 0))
    attributes = [numeric_of("age", 0, 100), numeric_of("more", 0, 1)]
    for secret in ({"unit": "person"}, {"max_rows_per_person": 1}):
        schema = make_schema(attributes, neighbours="added", **secret)
        with open_table(place, schema).latest("person") as table:
            tally = FaultCounts(schema)
            found = [moments_of_table(table, schema, tally=tally)]
            if source != "sqlite":  # which workers do not read
                engine, told = InProcess(), FaultCounts(schema)
                found.append(engine.sum_table(table, tally=told, progress=lambda _: None))
                assert told.report(table) == tally.report(table)
            assert check_table(table, schema).rows == tally.report(table).rows == 0
        assert not any(each.n_rows or each.packed.any() for each in found)
    public = make_schema(attributes, max_rows_per_person=1)
    with pytest.raises(DataError, match="has columns but no rows: "):
        open_table(place, public)


def test_a_partition_without_a_key_is_called_so(tmp_path: Path) -> None:
    """Its cells have no type of their own: the table's is not compared with it."""
    rows = rows_of(["1", "1"]).set_column(0, "person", pa.array([1, None]))
    write_deltalake(str(tmp_path / "lake"), rows, partition_by=["person"])
    opened = open_table(DeltaLocation("lake", str(tmp_path / "lake")), SCHEMA)
    with pytest.raises(DataError, match="lake has no person in 1 row: "), opened.latest("person"):
        pass


def test_a_folder_of_files_is_one_table_of_people(tmp_path: Path) -> None:
    rows, folder = rows_of(PEOPLE), tmp_path / "rows"
    folder.mkdir()
    for number in range(3):
        part = rows.take(pa.array(np.arange(number, len(PEOPLE), 3)))
        pq.write_table(part, folder / f"{number}.parquet")
    with open_table(local_files(folder), SCHEMA).latest("person") as table:
        assert moments_of_table(table, SCHEMA).packed.tolist() == expected(rows).packed.tolist()


@settings(max_examples=examples(60), deadline=None)
@given(
    names=st.lists(st.text(min_size=1, max_size=20).map("x{}".format), min_size=1, max_size=30),
    cuts=st.integers(1, 4),
)
def test_each_row_finds_the_number_of_rows_of_its_person(names: list[str], cuts: int) -> None:
    names = [name.strip() for name in names]
    people = count_people([pa.array(names)], title="rows", key="person")
    counts = Counter(name.strip(" \t\n\v\f\r\x1c\x1d\x1e\x1f\0").strip() for name in names)
    for part in np.array_split(np.arange(len(names)), cuts):
        found = people.find(pa.array([names[i] for i in part], pa.string()))
        keys = [names[i].strip(" \t\n\v\f\r\x1c\x1d\x1e\x1f\0").strip() for i in part]
        assert found.tolist() == [counts[key] for key in keys]
    people.require_all()
    assert people.by_rows() == Counter(counts.values())


def test_a_key_in_several_spellings_is_one_person_within_a_batch_too() -> None:
    cells = pa.array(["7", "8", "7.0", " 7", "8"])
    people = count_people([cells], title="rows", key="person")
    assert people.find(cells).tolist() == [3, 2, 3, 3, 2]
    people.require_all()


@pytest.mark.parametrize(
    "second",
    [
        ["a", "a", "b", "c"],  # another row of a, one of b less: equal totals
        ["a", "b", "b"],
        ["a", "b", "b", "d"],
    ],
)
def test_another_reading_with_other_rows_of_anybody_is_refused(second: list[str]) -> None:
    people = count_people([pa.array(["a", "b", "b", "c"])], title="rows", key="person")

    def read_again() -> None:
        people.find(pa.array(second))
        people.require_all()

    with pytest.raises(DataError, match="gave other rows when it was read again"):
        read_again()


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([pa.array(["a", None])], "rows has no person in 1 row: "),
        ([pa.array([1, 2]), pa.nulls(1)], "rows has no person in 1 row: "),
        ([pa.nulls(1, pa.string()), pa.array([_MOMENT])], "rows has no person in 1 row: "),
        ([pa.array(["a", " NA "])], "rows has no person in 1 row: "),
        ([pa.array([1, 2]), pa.array([1.0])], "the type whole number in some parts"),
        ([pa.array(["1"]), pa.array([1])], "the type text in some parts"),
        ([pa.array([1.0, 2.0**53])], "floating-point numbers of 2\\^53 or more"),
        ([pa.array([-(2.0**24)], pa.float32())], "floating-point numbers of 2\\^24 or more"),
        ([pa.array(np.array([2048], np.float16))], "floating-point numbers of 2\\^11 or more"),
        (
            [pc.run_end_encode(pa.array([1.0, 2.0**53]))],
            "floating-point numbers of 2\\^53 or more",
        ),
        ([pa.array([2.0**53]).dictionary_encode()], "floating-point numbers of 2\\^53 or more"),
        (
            [pa.array([16777216, 16777217]).cast(pa.float32(), safe=False)],
            "floating-point numbers of 2\\^24 or more",
        ),
    ],
)
def test_what_could_make_two_people_of_one_or_nobody_is_refused(
    parts: list[Any], says: str
) -> None:
    with pytest.raises(DataError, match=says):
        count_people(parts, title="rows", key="person")


def test_widths_of_numbers_and_lists_of_labels_are_one_type() -> None:
    parts = [pa.array([7], pa.int8()), pa.array([7, 8], pa.int64())]
    assert count_people(parts, title="rows", key="person").n_people == 2
    texts = [pa.array(["a"]), pa.array(["a"], pa.large_string()).dictionary_encode()]
    assert count_people(texts, title="rows", key="person").by_rows() == {2: 1}
    runs = [pc.run_end_encode(pa.array([7.0, 7.0, 8.0])), pa.array([7.0])]
    assert count_people(runs, title="rows", key="person").by_rows() == {3: 1, 1: 1}


@pytest.mark.parametrize(("bits", "digits"), [(16, 11), (32, 24), (64, 53)])
def test_whole_numbers_that_a_type_holds_apart_are_people(bits: int, digits: int) -> None:
    whole = np.array([2**digits - 1, 2**digits - 2], f"f{bits // 8}")
    assert count_people([pa.array(whole)], title="rows", key="person").n_people == 2


@pytest.mark.parametrize(
    ("largest", "says"),
    [(2**24 - 1, ""), (0.1, ""), (2**24 + 1, "floating-point numbers of 2\\^24 or more")],
    ids=["exact", "fraction", "rounded"],
)
def test_short_floats_of_a_key_that_a_lake_promotes_are_refused_where_they_were_rounded(
    largest: float, says: str, tmp_path: Path
) -> None:
    rows = rows_of(["a", "b"])
    keys = pa.array([largest, largest - 1]).cast(pa.float32(), safe=False)
    rows = rows.set_column(0, "person", keys)
    catalog = make_iceberg(tmp_path / "iceberg", rows.schema)
    catalog.table.append(rows)
    with catalog.table.update_schema() as change:
        change.update_column(("person",), DoubleType())
    address = catalog.table.metadata_location.removeprefix("file://")
    opened = open_table(IcebergLocation("lake", address), SCHEMA)
    refused = pytest.raises(DataError, match=says) if says else nullcontext()
    with refused, opened.latest("person") as table:
        assert moments_of_table(table, SCHEMA).n_rows == 2


@pytest.mark.parametrize("number", [9007199254740993, -9007199254740992, 1e300])
def test_numbers_of_a_key_that_a_sheet_rounds_are_refused(number: float, tmp_path: Path) -> None:
    def latest(key: list[object]) -> int:
        rows: list[list[Any]] = [["person", "age", "more"], *([each, 1, 0] for each in key)]
        path = write_workbook(tmp_path / "rows.xlsx", {"A": rows})
        with open_table(local_files(path), SCHEMA).latest("person") as table:
            return moments_of_table(table, SCHEMA).n_rows

    assert latest(["A-1", 9007199254740991, 9007199254740990, "9007199254740993"]) == 4
    with pytest.raises(DataError, match=r"person of .*rows.xlsx has numbers of 2\^53 or more"):
        latest(["A-1", 7, number])


@pytest.mark.parametrize("beside", ["A-1", 7, b"x", 1.5])
@pytest.mark.parametrize("number", [2.0**53, -(2.0**60), math.inf])
def test_real_numbers_of_a_key_in_sqlite_are_one_person_each_whatever_stands_beside(
    beside: object, number: float, tmp_path: Path
) -> None:
    def latest(key: list[object]) -> int:
        with closing(sqlite3.connect(tmp_path / "rows.db")) as file, file:
            file.execute("DROP TABLE IF EXISTS people")
            file.execute("CREATE TABLE people (person, age, more)")
            file.executemany("INSERT INTO people VALUES (?, 1, 0)", [(each,) for each in key])
        place = SQLiteLocation("rows", database=tmp_path / "rows.db", table="people")
        with open_table(place, SCHEMA).latest("person") as table:
            return moments_of_table(table, SCHEMA).n_rows

    exact = [beside] * 2 + [2.0**53 - 1, "9007199254740993", 9007199254740993]
    assert latest([*exact, *(float(n) + 0.25 for n in range(2000))]) == 2000 + len(exact) - 2
    with pytest.raises(DataError, match=r"column person has floating-point numbers of 2\^53"):
        latest([beside, number])


def test_people_without_a_key_or_with_a_line_that_has_none_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("person,age,more\na,1,0\nb,2\n")
    table = open_table(path, SCHEMA)
    with pytest.raises(SettingError, match=r"name the column of .* that tells people apart"):
        table.latest().__enter__()
    with pytest.raises(DataError, match="rows that do not fit its header"):
        table.latest("person").__enter__()
    with pytest.raises(SettingError, match="have to be counted before they are added"):
        moments_of_table(table, SCHEMA)
