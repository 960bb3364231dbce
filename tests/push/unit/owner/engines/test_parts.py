"""Which rows are in which part."""

import sqlite3
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from pyiceberg.types import DateType

from dppca.common.kernel.errors import DataError, SettingError
from dppca.owner.engines.parts import Part, make_manifest
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.databases import SQLiteLocation
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.lakes import IcebergLocation
from dppca.owner.records.table import Table, moments_of_table, open_table
from tests.support.engines import MIXED, InProcess, mixed_rows, write_files
from tests.support.iceberg import make_iceberg
from tests.support.studies import make_schema, numeric_of


def opened(folder: Path) -> Table:
    return open_table(local_files(folder), MIXED)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return opened(write_files(mixed_rows(2000), tmp_path / "rows", 7))


def test_small_tables_are_one_part_and_large_ones_no_larger_than_asked(table: Table) -> None:
    assert len(make_manifest(table, slots=8)) == 1
    parts = make_manifest(table, slots=1, least_bytes=1, most_bytes=1)
    assert len(parts) == sum(len(piece.groups or ()) for part in parts for piece in part.pieces)


def test_files_of_other_formats_are_whole_and_empty_ones_left_out(tmp_path: Path) -> None:
    rows = mixed_rows(100)
    folder = write_files(rows, tmp_path / "rows", 1)
    plain = rows.set_column(3, "c", rows["c"].cast(pa.string()))
    pa.csv.write_csv(plain, folder / "more.csv")
    (folder / "none.csv").write_text("x,y,b,c\n")
    parts = make_manifest(opened(folder), slots=4, least_bytes=1)
    whole = [piece for part in parts for piece in part.pieces if piece.groups is None]
    assert [Path(piece.path).name for piece in whole] == ["more.csv"]
    assert sum(part.n_rows for part in parts) == 200


def test_columns_of_folders_and_absolute_paths_travel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = mixed_rows(50).drop_columns(["b"])
    write_files(rows, tmp_path / "rows" / "b=no", 1)
    monkeypatch.chdir(tmp_path)
    (part,) = make_manifest(opened(Path("rows")), slots=1)
    (piece,) = part.pieces
    assert piece.cells == (("b", "no"),)
    assert Path(piece.path).is_absolute()
    assert (piece.size, piece.changed_ns) == (
        Path(piece.path).stat().st_size,
        Path(piece.path).stat().st_mtime_ns,
    )


def test_a_database_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE rows (x, y, b, c)")
        connection.execute("INSERT INTO rows VALUES (1, 2, 'yes', '1')")
    connection.close()
    place = SQLiteLocation("survey (database)", database=path, table="rows")
    with pytest.raises(SettingError, match="several moments"):
        make_manifest(open_table(place, MIXED), slots=2)


def test_parts_are_of_the_files_that_were_opened(tmp_path: Path) -> None:
    """Otherwise rows of another export could be added up than those that the steward was shown."""
    folder = write_files(mixed_rows(100), tmp_path / "rows", 2)
    table = opened(folder)
    first = min(folder.iterdir())
    content = first.read_bytes()
    first.unlink()
    first.write_bytes(content)
    with pytest.raises(DataError, match="was replaced while it was read"):
        make_manifest(table, slots=2)


def test_a_file_that_has_gone_is_said_without_its_name(tmp_path: Path) -> None:
    folder = write_files(mixed_rows(50), tmp_path / "rows", 2)
    table = opened(folder)
    (folder / "rows-001.parquet").unlink()
    with pytest.raises(DataError, match="does not exist: correct its path") as caught:
        make_manifest(table, slots=1)
    assert "rows-001" not in str(caught.value)


def test_columns_of_a_lake_travel_with_their_numbers_and_values(tmp_path: Path) -> None:
    catalog = make_iceberg(tmp_path / "ice", pa.schema([("x", pa.float32()), ("c", pa.string())]))
    catalog.table.append(pa.table({"x": pa.array([0.5], pa.float32()), "c": ["a b"]}))
    with catalog.table.update_schema() as change:
        change.rename_column("x", "y")
        change.add_column("day", DateType(), default_value=date(2020, 1, 31))
    address = catalog.table.metadata_location.removeprefix("file://")
    day = {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"}
    schema = make_schema([numeric_of("y", 0, 1), day])
    table = open_table(IcebergLocation("T", address), schema)
    (part,) = make_manifest(table, slots=1)
    assert Part.from_json(part.to_json()) == part
    found = InProcess(threads=1, seed=0).sum_table(
        table, tally=FaultCounts(schema), progress=lambda _: None
    )
    np.testing.assert_array_equal(found.packed, moments_of_table(table, schema).packed)
