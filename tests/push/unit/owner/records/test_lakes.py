"""Versions of Delta and Iceberg tables give the integers of their rows in one file."""

import os
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.table import DataScan
from pyiceberg.table.update import RemoveSchemasUpdate
from pyiceberg.types import DateType, DecimalType, DoubleType, LongType

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Schema
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.files import open_files
from dppca.owner.records.lake_files import LakeLocation
from dppca.owner.records.lakes import DeltaLocation, IcebergLocation
from dppca.owner.records.locations import Location
from dppca.owner.records.sources import Wanted
from dppca.owner.records.stored_files import StoredFile
from dppca.owner.records.table import moments_of_table, open_table
from dppca.owner.records.table_columns import TableColumn
from tests.support.delta import field, make_delta
from tests.support.iceberg import FolderCatalog, add_file, make_iceberg
from tests.support.object_store import BUCKET, object_store, upload
from tests.support.studies import categorical_of, make_schema, numeric_of

AGE = numeric_of("age", 0, 100)
SCHEMA = make_schema(
    [
        AGE,
        categorical_of("town", ["Ulm", "Bern", "a b/c"]),
        numeric_of("year", 2000, 2030),
    ]
)
FIRST = pa.table(
    {"age": [1, 2, 3, 4], "town": ["Ulm", "Bern", "a b/c", None], "year": [2020, 2021, 2021, 2020]}
)
SECOND = pa.table({"age": [5, 6], "town": ["Ulm", "Ulm"], "year": [2020, 2022]})
TITLE = "survey (lake)"
DAY = {"name": "x", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"}


def _require_equal(folder: Path, place: LakeLocation, rows: pa.Table) -> None:
    table = open_table(place, SCHEMA)
    assert table.n_rows == len(rows)
    expected = moments_of_table(open_table(_saved(folder, rows), SCHEMA), SCHEMA)
    np.testing.assert_array_equal(moments_of_table(table, SCHEMA).packed, expected.packed)


def _saved(folder: Path, rows: pa.Table) -> Location:
    pq.write_table(rows, folder / "all.parquet")
    return local_files(folder / "all.parquet")


def _coded(place: Location, schema: Schema) -> list[list[float]]:
    """Values of each attribute, in the order of the rows; a missing one is -2."""
    batches = zip(*open_table(place, schema).batches(), strict=True)
    return [np.nan_to_num(np.concatenate(parts), nan=-2.0).tolist() for parts in batches]


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


DELETED = {"storageType": "u", "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA", "offset": 1}
VECTORS = {"deletionVector": {**DELETED, "sizeInBytes": 36, "cardinality": 1}}
WIDENED = {"delta.typeChanges": [{"toType": "long", "fromType": "integer"}]}


def test_a_feature_of_delta_that_is_allowed_and_unused_is_no_reason_to_refuse(
    tmp_path: Path,
) -> None:
    address = str(tmp_path / "delta")
    write_deltalake(address, FIRST, configuration={"delta.enableDeletionVectors": "true"})
    _require_equal(tmp_path, DeltaLocation(TITLE, address), FIRST)
    fields = [field("age", "long"), field("town", "string"), field("year", "long")]
    features = ["typeWidening", "typeWidening-preview", "columnMapping"]
    address = make_delta(tmp_path / "hand", FIRST, fields=fields, features=features)
    _require_equal(tmp_path, DeltaLocation(TITLE, address), FIRST)


@pytest.mark.parametrize(
    ("features", "file", "metadata", "message"),
    [
        (["deletionVectors"], VECTORS, {}, r"deleted inside its files .* \(PURGE\)"),
        (["typeWidening"], {}, WIDENED, "uses typeWidening, .* DROP FEATURE"),
        (["typeWidening-preview"], {}, WIDENED, "uses typeWidening-preview, "),
        (["not-thought-of-yet"], {}, {}, "installed deltalake does not read, or"),
    ],
)
def test_a_delta_table_that_is_more_than_a_list_of_files_is_refused_for_what_it_is(
    tmp_path: Path,
    features: list[str],
    file: dict[str, object],
    metadata: dict[str, object],
    message: str,
) -> None:
    fields = [field("age", "long", **metadata)]
    rows = FIRST.select(["age"])
    address = make_delta(tmp_path / "delta", rows, file, fields=fields, features=features)
    with pytest.raises(DataError, match=message) as refused:
        open_table(DeltaLocation(TITLE, address), SCHEMA)
    assert ("PURGE" in str(refused.value)) == (features == ["deletionVectors"])


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_of_delta_are_found_by_what_they_are_mapped_to(tmp_path: Path, mode: str) -> None:
    address = tmp_path / "delta"
    settings = {"delta.columnMapping.mode": mode}
    write_deltalake(str(address), FIRST, partition_by=["town"], configuration=settings)
    log = address / "_delta_log" / f"{0:020}.json"
    renamed = log.read_text().replace('\\"name\\":\\"year\\"', '\\"name\\":\\"a b/c\\"')
    log.write_text(renamed)
    place = DeltaLocation(TITLE, str(address))
    schema = make_schema([numeric_of("age", 0, 100), numeric_of("a b/c", 2000, 2030)])
    rows = FIRST.rename_columns(["age", "town", "a b/c"])
    found, expected = _coded(place, schema), _coded(_saved(tmp_path, rows), schema)
    assert sorted(zip(*found, strict=True)) == sorted(zip(*expected, strict=True))
    with pytest.raises(DataError, match="lacks the columns year"):
        open_table(place, SCHEMA)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_mapping_that_says_nothing_of_a_column_is_refused_for_that(
    tmp_path: Path, mode: str
) -> None:
    settings = {"delta.columnMapping.mode": mode}
    features = ["columnMapping"]
    rows = FIRST.select(["age"])
    address = make_delta(tmp_path / "delta", rows, features=features, configuration=settings)
    with pytest.raises(DataError, match="breaks the rules of its format"):
        open_table(DeltaLocation(TITLE, address), SCHEMA)


def test_a_version_whose_files_are_gone_says_so(tmp_path: Path) -> None:
    address = _delta(tmp_path)
    DeltaTable(address).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(DataError, match="lists 4 files in this version, and 1 of them are gone"):
        open_table(DeltaLocation(TITLE, address, 0), SCHEMA)
    _require_equal(tmp_path, DeltaLocation(TITLE, address), pa.concat_tables([FIRST, SECOND])[1:])


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


def test_a_column_of_iceberg_is_its_number_whatever_it_is_called(tmp_path: Path) -> None:
    first = FIRST.rename_columns(["age", "year", "a b/c"])
    catalog = make_iceberg(tmp_path / "iceberg", first.schema)
    catalog.table.append(first)
    version = catalog.table.metadata.current_snapshot_id
    for old, new in (("year", "x"), ("a b/c", "year"), ("x", "town")):
        with catalog.table.update_schema() as schema:
            schema.rename_column((old,), new)
    catalog.table.append(SECOND)
    with catalog.table.update_spec() as spec:
        spec.add_identity("town")
    catalog.table.append(SECOND)
    _require_equal(tmp_path, _iceberg(catalog), pa.concat_tables([FIRST, SECOND, SECOND]))
    with pytest.raises(DataError, match=r"lacks the columns town: .* has the columns .*a b/c"):
        open_table(_iceberg(catalog, version), SCHEMA)


def test_a_column_that_was_made_again_has_nothing_of_the_one_before(tmp_path: Path) -> None:
    catalog = make_iceberg(tmp_path / "iceberg", FIRST.schema)
    catalog.table.append(FIRST)
    with catalog.table.update_schema() as schema:
        schema.delete_column("year")
    with catalog.table.update_schema() as schema:
        schema.add_column("year", LongType())
    with catalog.table.update_schema() as schema:
        for name in ("more", "again"):
            schema.add_column(name, DateType(), default_value=date(2020, 1, 31))
    rows = FIRST.set_column(2, "year", pa.nulls(4, pa.int64()))
    _require_equal(tmp_path, _iceberg(catalog), rows)
    later = make_schema([{**DAY, "name": "more"}, {**DAY, "name": "again"}])
    assert _coded(_iceberg(catalog), later) == [[18_292.0] * 4] * 2
    with catalog.table.update_schema() as schema:
        for name in FIRST.column_names:
            schema.delete_column(name)
    assert _coded(_iceberg(catalog), later) == [[18_292.0] * 4] * 2, (
        "its files have no column of it"
    )


FLOATS = pa.array([0.1, 0.5, None], pa.float32())
DAYS = pa.array([date(2020, 1, 31), date(1400, 1, 1), None])
SUMS = pa.array([Decimal("1.50"), Decimal("7.00"), None], pa.decimal128(9, 2))
PROMOTED = [
    (FLOATS, DoubleType(), pa.array([0.1], pa.float64()), ["0.1", "0.10000000149011612", "0.5"]),
    (pa.array([7, -1, None], pa.int32()), LongType(), pa.array([7], pa.int64()), ["7", "-1"]),
    (SUMS, DecimalType(12, 2), pa.array([Decimal("1.50")], pa.decimal128(12, 2)), ["1.50", "7.00"]),
]


@pytest.mark.parametrize(
    ("cells", "wide", "later", "labels"), PROMOTED, ids=lambda each: str(each)[:9]
)
def test_a_promoted_column_has_the_cells_that_a_copy_of_the_table_has(
    tmp_path: Path, cells: pa.Array, wide: Any, later: pa.Array, labels: list[str]
) -> None:
    catalog = make_iceberg(
        tmp_path / "iceberg", pa.schema([("x", cells.type), ("age", pa.int64())])
    )
    catalog.table.append(pa.table({"x": cells, "age": [1, 2, 3]}))
    with catalog.table.update_schema() as schema:
        schema.update_column("x", wide)
    catalog.table.append(pa.table({"x": later, "age": [4]}))
    copy = catalog.table.scan().to_arrow()
    for attribute in (categorical_of("x", labels, unknown="other"), numeric_of("x", 0, 10)):
        own = make_schema([attribute, AGE])
        found = sorted(_coded(_iceberg(catalog), own)[0])
        assert found == sorted(_coded(_saved(tmp_path, copy), own)[0])


def test_a_date_that_became_a_timestamp_has_its_time(tmp_path: Path) -> None:
    """The third version of Iceberg's format promotes it; pyiceberg writes no such table."""
    path, own = tmp_path / "rows.parquet", pa.schema([pa.field("x", DAYS.type)])
    pq.write_table(pa.table({"x": DAYS}, own), path)
    column = TableColumn("x", ("x",), kind="timestamp[us]")
    source = open_files(TITLE, [StoredFile(str(path), TITLE, columns=(column,))])
    ((found,),) = source.read(Wanted(["x"], 9))
    assert found.equals(DAYS.cast(pa.timestamp("us")))


PARTITIONS = [
    (pa.date32(), 18_292, date(2020, 1, 31)),
    (pa.timestamp("us"), 1_580_428_800_000_000, datetime(2020, 1, 31)),  # noqa: DTZ001
    (pa.timestamp("us", "UTC"), 1_580_428_800_000_000, datetime(2020, 1, 31, tzinfo=UTC)),
    (pa.time64("us"), 3_600_000_000, time(1)),
    (pa.decimal128(9, 2), Decimal("1.50"), Decimal("1.50")),
    (pa.float32(), 0.1, 0.1),
    (pa.float64(), 0.25, 0.25),
    (pa.bool_(), True, True),
    (pa.int32(), 5, 5),
    (pa.int64(), 1, 1),
    (pa.string(), "a b/c", "a b/c"),
    (pa.binary(), b"ab", b"ab"),
    (pa.uuid(), UUID(int=7), UUID(int=7).bytes),
    (pa.date32(), None, None),
]


@pytest.mark.parametrize(("kind", "value", "cell"), PARTITIONS, ids=lambda each: str(each))
def test_a_partition_that_no_file_has_is_as_if_each_row_had_it(
    tmp_path: Path, kind: pa.DataType, value: object, cell: object
) -> None:
    schema = pa.schema([("age", pa.int64()), ("x", kind)])
    catalog = make_iceberg(tmp_path / "iceberg", schema)
    with catalog.table.update_spec() as spec:
        spec.add_identity("x")
    path = tmp_path / "iceberg" / "x=1" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(FIRST.select(["age"]), path)
    add_file(catalog, f"file:{path}", value)
    rows = pa.table({"age": FIRST["age"], "x": pa.array([cell] * 4, schema.field("x").type)})
    labels = ["1", "5", "0.1", "1.50", "true", "2020-01-31", "a b/c", "ab"]
    for attribute in (
        numeric_of("x", 0, 10),
        DAY,
        categorical_of("x", labels, unknown="other"),
    ):
        own = make_schema([attribute, AGE])
        assert _coded(_iceberg(catalog), own) == _coded(_saved(tmp_path, rows), own)


def test_a_promoted_partition_has_the_cell_that_a_copy_of_the_table_has(tmp_path: Path) -> None:
    catalog = make_iceberg(
        tmp_path / "iceberg", pa.schema([("age", pa.int64()), ("x", pa.float32())])
    )
    with catalog.table.update_spec() as spec:
        spec.add_identity("x")
    path = tmp_path / "iceberg" / "a.parquet"
    pq.write_table(FIRST.select(["age"]), path)
    add_file(catalog, path.as_uri(), 0.1)
    with catalog.table.update_schema() as schema:
        schema.update_column("x", DoubleType())
    labels = make_schema([categorical_of("x", ["0.1", "0.10000000149011612"], unknown="other")])
    copy = pa.table({"x": pa.array([0.1] * 4, pa.float32()).cast(pa.float64())})
    assert _coded(_iceberg(catalog), labels) == _coded(_saved(tmp_path, copy), labels) == [[1] * 4]


def test_values_of_delta_partitions_keep_their_type(tmp_path: Path) -> None:
    for kind, _, cell in PARTITIONS:
        if cell is None or pa.types.is_time(kind) or isinstance(kind, pa.BaseExtensionType):
            continue
        address = str(tmp_path / "delta")
        rows = pa.table({"age": FIRST["age"], "x": pa.array([cell] * 4, kind)})
        write_deltalake(address, rows, mode="overwrite", schema_mode="overwrite", partition_by="x")
        for attribute in (numeric_of("x", 0, 10), DAY):
            own = make_schema([attribute, AGE])
            found = _coded(DeltaLocation(TITLE, address), own)
            assert found == _coded(_saved(tmp_path, rows), own), kind


@pytest.mark.parametrize(
    ("address", "folder"), [("file:", ""), ("file://", ""), ("file://localhost", "x=a+b%2Fc/")]
)
def test_an_address_of_iceberg_is_taken_as_it_stands(
    tmp_path: Path, address: str, folder: str
) -> None:
    catalog = make_iceberg(tmp_path / "iceberg", FIRST.schema)
    path = tmp_path / "iceberg" / f"{folder}a.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(FIRST, path)
    add_file(catalog, f"{address}{path}")
    _require_equal(tmp_path, _iceberg(catalog), FIRST)


def test_an_iceberg_table_of_an_object_store_is_the_same(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, object_store(patch):
        settings = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"}
        catalog = make_iceberg(f"s3://{BUCKET}/lake", FIRST.schema, **settings)
        with catalog.table.update_spec() as spec:
            spec.add_identity("town")
        catalog.table.append(FIRST)
        place = IcebergLocation(TITLE, catalog.table.metadata_location)
        _require_equal(tmp_path, place, FIRST)


def _numbered(rows: pa.Table, *numbers: int | None) -> pa.Table:
    fields = [
        each if number is None else each.with_metadata({"PARQUET:field_id": str(number)})
        for each, number in zip(rows.schema, numbers, strict=True)
    ]
    return rows.cast(pa.schema(fields))


@pytest.mark.parametrize(
    ("numbers", "names", "message"),
    [
        ((None, None, None), False, "columns without a number"),
        ((1, 2, None), True, "columns without a number"),
        ((1, 2, 2), True, "two columns of one number"),
    ],
)
def test_a_file_whose_columns_cannot_be_told_is_refused(
    tmp_path: Path, numbers: tuple[int | None, ...], names: bool, message: str
) -> None:
    catalog = make_iceberg(tmp_path / "iceberg", FIRST.schema)
    path = tmp_path / "iceberg" / "a.parquet"
    pq.write_table(_numbered(FIRST, *numbers), path)
    add_file(catalog, path.as_uri(), names=names)
    with pytest.raises(DataError, match=message):
        open_table(_iceberg(catalog), SCHEMA)


def test_files_of_iceberg_in_another_format_are_refused(tmp_path: Path) -> None:
    catalog = make_iceberg(tmp_path / "iceberg", FIRST.schema)
    add_file(catalog, (tmp_path / "iceberg" / "a.orc").as_uri(), kind="ORC")
    with pytest.raises(DataError, match="has files of ORC"):
        open_table(_iceberg(catalog), SCHEMA)


def test_a_snapshot_whose_list_of_columns_is_gone_is_refused(tmp_path: Path) -> None:
    catalog = make_iceberg(tmp_path / "iceberg", FIRST.schema)
    catalog.table.append(FIRST)
    version = catalog.table.metadata.current_snapshot_id
    with catalog.table.update_schema() as schema:
        schema.add_column("more", LongType())
    with catalog.table.transaction() as change:
        change._apply((RemoveSchemasUpdate.model_validate({"schema-ids": [0]}),))
    with pytest.raises(DataError, match="no list of columns any more for version"):
        open_table(_iceberg(catalog, version), SCHEMA)
    _require_equal(tmp_path, _iceberg(catalog), FIRST)


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

    def by_values(_: DataScan) -> list[Any]:
        raise ValueError("PyIceberg does not yet support equality deletes: https://...")

    for plan in (with_deletes, by_values):
        monkeypatch.setattr(DataScan, "plan_files", plan)
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
