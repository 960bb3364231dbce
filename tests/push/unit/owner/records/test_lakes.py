"""Versions of Delta and Iceberg tables give the integers of their rows in one file."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.table import DataScan
from pyiceberg.types import StringType

from dppca.common.errors import DataError
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.lakes import DeltaLocation, IcebergLocation, LakeLocation
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.iceberg import FolderCatalog, make_iceberg
from tests.support.object_store import object_store, upload
from tests.support.studies import categorical_of, make_schema, numeric_of

SCHEMA = make_schema(
    [
        numeric_of("age", 0, 100),
        categorical_of("town", ["Ulm", "Bern", "a b/c"]),
        numeric_of("year", 2000, 2030),
    ]
)
FIRST = pa.table(
    {"age": [1, 2, 3, 4], "town": ["Ulm", "Bern", "a b/c", None], "year": [2020, 2021, 2021, 2020]}
)
SECOND = pa.table({"age": [5, 6], "town": ["Ulm", "Ulm"], "year": [2020, 2022]})
TITLE = "survey (lake)"


def _expected(folder: Path, rows: pa.Table) -> Any:
    pq.write_table(rows, folder / "all.parquet")
    return moments_of_table(open_table(local_files(folder / "all.parquet"), SCHEMA), SCHEMA)


def _require_equal(folder: Path, place: LakeLocation, rows: pa.Table) -> None:
    table = open_table(place, SCHEMA)
    assert table.n_rows == len(rows)
    expected = _expected(folder, rows)
    np.testing.assert_array_equal(moments_of_table(table, SCHEMA).packed, expected.packed)


def _delta(folder: Path) -> str:
    """Version 0: four rows by town. 1: two more. 2: a row is deleted, its file written again."""
    address = str(folder / "delta")
    write_deltalake(address, FIRST, partition_by=["town"])
    write_deltalake(address, SECOND, mode="append")
    DeltaTable(address).delete("age = 1")
    return address


def test_each_version_of_a_delta_table_is_its_rows(tmp_path: Path) -> None:
    address = _delta(tmp_path)
    both = pa.concat_tables([FIRST, SECOND])
    for version, rows in ((0, FIRST), (1, both), (2, both.slice(1)), (None, both.slice(1))):
        _require_equal(tmp_path, DeltaLocation(TITLE, address, version), rows)


def test_a_delta_table_of_an_object_store_is_the_same(tmp_path: Path) -> None:
    _delta(tmp_path)
    with pytest.MonkeyPatch.context() as patch, object_store(patch) as system:
        patch.setenv("AWS_ALLOW_HTTP", "true")
        address = upload(system, tmp_path / "delta", below="lake")
        _require_equal(tmp_path, DeltaLocation(TITLE, address, 0), FIRST)


def test_a_column_that_came_later_is_missing_in_older_files(tmp_path: Path) -> None:
    address = str(tmp_path / "delta")
    write_deltalake(address, FIRST.drop(["year"]))
    write_deltalake(address, SECOND, mode="append", schema_mode="merge")
    rows = pa.concat_tables([FIRST.drop(["year"]), SECOND], promote_options="default")
    _require_equal(tmp_path, DeltaLocation(TITLE, address), rows)


def test_rows_that_are_marked_as_deleted_are_not_read_as_rows(tmp_path: Path) -> None:
    address = str(tmp_path / "delta")
    marks = {"delta.enableDeletionVectors": "true"}
    write_deltalake(address, FIRST, configuration=marks)
    with pytest.raises(DataError, match="uses deletion vectors"):
        open_table(DeltaLocation(TITLE, address), SCHEMA)


@pytest.mark.parametrize(("name", "version"), [("hidden-place", None), ("delta", 99)])
def test_no_such_table_or_version_is_an_error_without_its_address(
    tmp_path: Path, name: str, version: int | None
) -> None:
    _delta(tmp_path)
    with pytest.raises(DataError, match="no such table or version") as refused:
        open_table(DeltaLocation(TITLE, str(tmp_path / name), version), SCHEMA)
    assert name not in str(refused.value)
    assert refused.value.__suppress_context__


def test_a_delta_table_is_no_folder_of_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="name it in policy"):
        open_table(Path(_delta(tmp_path)), SCHEMA)


def _iceberg(catalog: FolderCatalog, version: int | None = None) -> LakeLocation:
    location = catalog.table.metadata_location.removeprefix("file://")
    return IcebergLocation(TITLE, location, version)


def test_each_snapshot_of_an_iceberg_table_is_its_rows(tmp_path: Path) -> None:
    catalog = make_iceberg(tmp_path / "iceberg", FIRST.schema)
    catalog.table.append(FIRST)
    first = catalog.table.metadata.current_snapshot_id
    catalog.table.append(SECOND)
    catalog.table.delete("age = 1")
    both = pa.concat_tables([FIRST, SECOND])
    _require_equal(tmp_path, _iceberg(catalog, first), FIRST)
    _require_equal(tmp_path, _iceberg(catalog), both.slice(1))


def test_columns_of_iceberg_come_with_names_and_partitions_that_changed(tmp_path: Path) -> None:
    catalog = make_iceberg(tmp_path / "iceberg", FIRST.schema)
    catalog.table.append(FIRST)
    with catalog.table.update_spec() as spec:
        spec.add_identity("town")
    catalog.table.append(SECOND)
    with catalog.table.update_schema() as schema:
        schema.add_column("more", StringType())
    _require_equal(tmp_path, _iceberg(catalog), pa.concat_tables([FIRST, SECOND]))
    with catalog.table.update_schema() as schema:
        schema.rename_column("more", "other")
    with pytest.raises(DataError, match="columns that were renamed"):
        open_table(_iceberg(catalog), SCHEMA)


def test_rows_of_iceberg_that_are_deleted_beside_their_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = make_iceberg(tmp_path / "iceberg", FIRST.schema)
    catalog.table.append(FIRST)
    planned = DataScan.plan_files

    def with_deletes(scan: DataScan) -> list[Any]:
        tasks = list(planned(scan))
        for task in tasks:
            task.delete_files = {task.file}
        return tasks

    monkeypatch.setattr(DataScan, "plan_files", with_deletes)
    with pytest.raises(DataError, match="marked as deleted beside its files"):
        open_table(_iceberg(catalog), SCHEMA)


def test_no_such_snapshot_or_metadata_is_an_error_without_its_address(tmp_path: Path) -> None:
    catalog = make_iceberg(tmp_path / "hidden-place", FIRST.schema)
    catalog.table.append(FIRST)
    address = str(tmp_path / "hidden-place" / "none.metadata.json")
    for place in (_iceberg(catalog, 1), IcebergLocation(TITLE, address)):
        with pytest.raises(DataError) as refused:
            open_table(place, SCHEMA)
        assert "hidden-place" not in str(refused.value)
