"""Folders, patterns and object stores: which files they are, and what their folders say."""

import glob
import gzip
import logging
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.feather as feather
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dppca.common.kernel.errors import DataError
from dppca.owner.records.file_locations import FileLocation, local_files
from dppca.owner.records.sources import Wanted
from dppca.owner.records.stored_files import _matches
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.object_store import BUCKET, object_store, upload
from tests.support.studies import categorical_of, make_schema, numeric_of

SCHEMA = make_schema(
    [
        numeric_of("age", 0, 100),
        categorical_of("town", ["Ulm", "Bern", "01"]),
        numeric_of("year", 2000, 2030),
    ]
)
COLUMNS = {
    "age": ["1", "2", "", "200", "x", "7", "8", "9"],
    "town": ["Ulm", "Bern", "01", "1", "", "Ulm", "Ulm", "Bern"],
    "year": ["2020", "2020", "2020", "2021", "2021", None, None, "2030"],
}


@pytest.fixture(scope="module")
def store() -> Iterator[pyarrow.fs.FileSystem]:
    with pytest.MonkeyPatch.context() as patch, object_store(patch) as system:
        yield system


def _flat(folder: Path) -> Path:
    """All rows in one file."""
    path = folder / "all.parquet"
    pq.write_table(pa.table(COLUMNS), path)
    return path


def _folder(folder: Path) -> Path:
    """The same rows by year, in files of every format, with what a writer leaves beside them."""
    root = folder / "by year"
    table = pa.table(COLUMNS).drop(["year"])
    (root / "_temporary").mkdir(parents=True)
    (root / "_SUCCESS").touch()
    (root / "_temporary" / "half.parquet").write_bytes(b"PAR1")
    (root / ".part.crc").write_bytes(b"x")
    for name in ("2020", "2021", "__HIVE_DEFAULT_PARTITION__", "20%330"):
        (root / f"year={name}").mkdir()
    pq.write_table(table.slice(0, 3), root / "year=2020" / "part-0.parquet", row_group_size=2)
    lines = "town,more,age\n1,?,200\n,?,x\n"
    (root / "year=2021" / "part-0.csv.gz").write_bytes(gzip.compress(lines.encode()))
    null = root / "year=__HIVE_DEFAULT_PARTITION__"
    feather.write_feather(table.slice(5, 1), str(null / "part-0.arrow"))
    (null / "part-1.csv").write_text("age,town\n8,Ulm\n")
    pq.write_table(table.slice(7, 1), root / "year=20%330" / "part-0.pq")
    return root


def test_a_folder_gives_the_integers_of_one_file_and_its_names_are_cells(tmp_path: Path) -> None:
    expected = moments_of_table(open_table(_flat(tmp_path), SCHEMA), SCHEMA)
    table = open_table(_folder(tmp_path), SCHEMA)
    assert [part.n_rows for part in table.source.parts] == [1, 3, 2, 1, 1]
    assert table.extra_columns == ("more",)
    found = moments_of_table(table, SCHEMA, batch_rows=2)
    np.testing.assert_array_equal(found.packed, expected.packed)


def test_an_object_store_gives_the_same_integers(
    tmp_path: Path, store: pyarrow.fs.FileSystem
) -> None:
    expected = moments_of_table(open_table(_flat(tmp_path), SCHEMA), SCHEMA)
    uri = upload(store, _folder(tmp_path), below="by year")
    for address in (uri, f"{uri}/**", f"{uri}/year=*/part-*"):
        table = open_table(FileLocation("survey (object store)", address), SCHEMA)
        found = moments_of_table(table, SCHEMA, batch_rows=2)
        np.testing.assert_array_equal(found.packed, expected.packed)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_an_object_that_is_replaced_while_it_is_read_is_refused(
    tmp_path: Path, store: pyarrow.fs.FileSystem, suffix: str
) -> None:
    rows = pa.table({"age": ["1"] * 1000, "town": ["Ulm"] * 1000, "year": ["2020"] * 1000})

    def put(rows: pa.Table) -> str:
        write = pq.write_table if suffix == "parquet" else pyarrow.csv.write_csv
        write(rows, tmp_path / f"rows.{suffix}")
        return upload(store, tmp_path, below=f"replaced {suffix}")

    place = FileLocation("survey (object store)", put(rows))
    table = open_table(place, SCHEMA)
    assert moments_of_table(table, SCHEMA).n_rows == 1000
    read = table.batches(100)
    next(read)
    ages = pa.array([f"{row / 8}" for row in range(1000)])
    put(rows.set_column(0, "age", ages))  # of another size, whatever the time
    with pytest.raises(DataError, match=r"survey \(object store\)") as refused:
        list(read)
    assert "replaced" in str(refused.value)


def test_malformed_lines_count_on_from_file_to_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("age,town,year\n1,Ulm,2020\n1,Ulm\n")
    table = open_table(tmp_path, SCHEMA)
    assert [found.rows for found in table.source.facts.malformed.values()] == [(2, 4)]


NOON = datetime(2020, 1, 31, 12)  # noqa: DTZ001 - as polars names it
SAID = [
    ("2020", pa.array([2020] * 2), True),
    ("2020", pa.array([2020] * 2, pa.int16()), True),
    ("02020", pa.array([2020] * 2), False),
    ("2020", pa.array([2020, 2021]), False),
    ("2020", pa.array([2020, None]), False),
    ("2020.0", pa.array([2020.0] * 2), True),
    ("2020", pa.array([2020.0] * 2), True),
    ("1.50", pa.array([Decimal("1.50")] * 2), True),
    ("true", pa.array([True] * 2), True),
    ("true", pa.array([True, False]), False),
    ("2020-01-31", pa.array([date(2020, 1, 31)] * 2), True),
    ("2020-01-31%2012%3A00%3A00.000000", pa.array([NOON] * 2), True),
    ("Bern", pa.array(["Bern"] * 2), True),
    ("Bern", pa.array(["Bern"] * 2).dictionary_encode(), True),
    ("Bern", pa.array(["Bern"] * 2, pa.large_binary()), True),
    ("Bern", pa.array(["Bern", "bern"]), False),
    ("Bern", pa.array([["Bern"]] * 2), False),
    ("__HIVE_DEFAULT_PARTITION__", pa.nulls(2, pa.int64()), True),
    ("__HIVE_DEFAULT_PARTITION__", pa.array([None, 1]), False),
]


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize(("named", "cells", "same"), SAID, ids=lambda each: str(each)[:20])
def test_a_column_that_stands_in_the_file_too_counts_if_both_say_the_same(
    tmp_path: Path, named: str, cells: pa.Array, same: bool, suffix: str
) -> None:
    """Polars writes a folder's key into its files, too, unless it is told not to."""
    place = tmp_path / "rows" / f"x={named}"
    place.mkdir(parents=True)
    rows = pa.table({"x": cells, "age": [1, 2]})
    write: Any = pq.write_table if suffix == "parquet" else feather.write_feather
    write(rows, str(place / f"part.{suffix}"))
    write(rows, str(tmp_path / f"alone.{suffix}"))
    if not same:
        with pytest.raises(DataError, match="and the two differ") as refused:
            local_files(tmp_path / "rows").open()
        assert named not in str(refused.value), "a folder's name may be a value"
        return
    source = local_files(tmp_path / "rows").open()
    assert source.names == ("x", "age")
    alone = local_files(tmp_path / f"alone.{suffix}").open()
    wanted = Wanted(["x", "age"], 9)
    for found, expected in zip(source.read(wanted), alone.read(wanted), strict=True):
        assert all(a.equals(b) for a, b in zip(found, expected, strict=True))


def test_polars_own_folder_is_read_as_its_one_file(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    rows = polars.from_arrow(pa.table(COLUMNS).filter(pa.compute.field("year").is_valid()))
    rows.write_parquet(tmp_path / "rows", partition_by="year", mkdir=True)
    rows.sort("year").write_parquet(tmp_path / "all.parquet")
    found, expected = (open_table(tmp_path / name, SCHEMA) for name in ("rows", "all.parquet"))
    assert found.n_rows == expected.n_rows == 6
    packed = [moments_of_table(each, SCHEMA).packed for each in (found, expected)]
    np.testing.assert_array_equal(*packed)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.txt", "hello", "holds 1 files whose format is not known by their suffix, of 6"),
        ("part-9.csv", "age,town,year\n", "file 1 of 6 has more than one column called year|^$"),
        ("year=1/part.csv", "town\nUlm\n", "file 1 of 6 lacks the columns age"),
        ("year=1/part.csv", "age,town,year\n1,Ulm,2\n", "in the file, and the two differ"),
        ("year=1/year=2/part.csv", "age,town\n1,Ulm\n", "columns year in the name of a folder"),
        ("part-9.csv", "age,town,year,year\n1,Ulm,1,1\n", "more than one column called year"),
        ("year=1/part.parquet", "PAR1 and no more", "file 1 of 6 is damaged"),
        ("_delta_log/0.json", "{}", "has files of a Delta table"),
    ],
)
def test_a_folder_with_something_else_in_it_is_refused(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    root = _folder(tmp_path)
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(content)
    if "|" in message:  # a file beside the folders has its own column, and is no fault
        assert open_table(root, SCHEMA).n_rows == 8
        return
    with pytest.raises(DataError, match=message) as refused:
        open_table(root, SCHEMA)
    assert "year=1" not in str(refused.value), "a folder's name may be a value"


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("latest.csv", "part.csv", "1 links to files that it holds already"),
        ("again", "..", "links to files that it holds already"),
        ("gone.csv", "nowhere.csv", "1 names that lead to no file"),
    ],
)
def test_a_link_neither_counts_rows_twice_nor_leaves_them_out(
    tmp_path: Path, name: str, target: str, message: str
) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "part.csv").write_text("town,age,year\nUlm,1,2020\n")
    (rows / name).symlink_to(rows if target == ".." else target)
    with pytest.raises(DataError, match=message):
        open_table(rows, SCHEMA)
    part = FileLocation("survey", str(rows / "part*"))
    assert open_table(part, SCHEMA).n_rows == 1
    (rows / name).unlink()
    (tmp_path / "elsewhere.csv").write_text("town,age,year\nUlm,1,2020\n")
    (rows / name).symlink_to(tmp_path / "elsewhere.csv")
    (rows / name).rename(rows / "linked.csv")
    assert open_table(rows, SCHEMA).n_rows == 2, "a link to another file is a file"
    (rows / "hard.csv").hardlink_to(rows / "part.csv")
    with pytest.raises(DataError, match="1 links to files"):
        open_table(rows, SCHEMA)


def test_a_folder_without_data_and_a_pattern_of_nothing_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no data file"):
        open_table(tmp_path, SCHEMA)
    with pytest.raises(DataError, match="holds no data file"):
        open_table(tmp_path / "*.csv", SCHEMA)


def test_a_store_says_nothing_of_its_address(
    store: pyarrow.fs.FileSystem,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.CRITICAL, "werkzeug")  # the server, in this process
    store.create_dir(f"{BUCKET}/hidden-place")
    with store.open_output_stream(f"{BUCKET}/hidden-place/bad.parquet") as file:
        file.write(b"PAR1 and no more")
    capfd.readouterr()
    for path in ("hidden-place/none.csv", "hidden-place/bad.parquet", "hidden-place/*.csv"):
        with pytest.raises(DataError) as refused:
            open_table(FileLocation("survey (object store)", f"s3://{BUCKET}/{path}"), SCHEMA)
        assert "hidden-place" not in repr(refused.value)
        assert BUCKET not in repr(refused.value)
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__ or refused.value.__context__ is None
    assert "hidden-place" not in "".join([*capfd.readouterr(), *caplog.messages])


def test_a_store_that_does_not_answer_is_an_error_without_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    place = FileLocation("survey (object store)", "s3://hidden-place/rows?region=us-east-1")
    with pytest.raises(DataError, match=r"survey \(object store\) cannot be reached") as refused:
        open_table(place, SCHEMA)
    assert "hidden" not in str(refused.value)


names = st.lists(st.sampled_from(["a", "b.csv", "year=1", "ab"]), min_size=1, max_size=4)
wild = st.sampled_from(["a", "*", "**", "?", "*.csv", "[ab]*"])


@given(paths=st.lists(names, max_size=6), pattern=st.lists(wild, min_size=1, max_size=4))
@example([["a", "b.csv"]], ["**"])
@example([["a"]], ["a", "**"])
@example([["a", "a", "b.csv"]], ["**", "*.csv"])
def test_patterns_are_those_of_the_shell(
    tmp_path_factory: pytest.TempPathFactory, paths: list[list[str]], pattern: list[str]
) -> None:
    root = tmp_path_factory.mktemp("files")
    for path in paths:
        file = root.joinpath(*path)
        if not any(parent.is_file() for parent in file.parents) and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    files = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    expected = glob.glob("/".join(pattern), root_dir=root, recursive=True)  # noqa: PTH207
    found = {str(path) for path in files if _matches(path.parts, pattern)}
    # Python gives "a/" for a/** where a is a file, which no shell does.
    assert found == {path for path in expected if path[-1:] != "/" and (root / path).is_file()}


def test_files_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "c/a.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    found = FileLocation("T", str(tmp_path)).open().parts
    assert [Path(file.stored.path).relative_to(tmp_path).as_posix() for file in found] == [
        "a.csv",
        "b.csv",
        "c/a.csv",
    ]
    assert [file.title for file in found] == [f"T, file {n} of 3" for n in (1, 2, 3)]
