"""Law of Iceberg: any history of a table gives the rows of the library's own scan, or is refused.

The library reads files through its own code, and DPPCA takes from it the list of files alone.
"""

import tempfile
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.update import RemoveSchemasUpdate
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
)

from dppca.owner.records.lakes import IcebergLocation
from dppca.owner.records.sources import Wanted
from tests.support.examples import examples
from tests.support.iceberg import FolderCatalog, make_iceberg

NAMES = ("a", "b", "a b", "a/b", "é", "1")
TYPES: dict[IcebergType, tuple[Any, IcebergType]] = {
    IntegerType(): (7, LongType()),
    FloatType(): (0.25, DoubleType()),
    DecimalType(5, 2): (Decimal("1.50"), DecimalType(9, 2)),
    StringType(): ("a b/c", StringType()),
    DateType(): (18_292, DateType()),
}
"""Types of columns, each with a value and what it may be promoted to."""
STEPS = (
    *("append", "append", "append", "delete", "add", "drop", "rename", "move", "promote"),
    *("default", "partition", "expire", "forget"),
)
Step = tuple[str, int, int]
steps = st.tuples(
    st.sampled_from(STEPS),
    st.integers(0, 20),
    st.integers(0, 20),
)


class History:
    """A table that goes through steps; one that is not possible changes nothing."""

    def __init__(self, folder: Path) -> None:
        self.catalog: FolderCatalog = make_iceberg(folder, pa.schema([("row", pa.int64())]))
        self.rows: list[int] = []
        self.n_appended = 0

    @property
    def table(self) -> Any:
        return self.catalog.table

    @property
    def columns(self) -> list[Any]:
        """Columns that steps may change: all but the number of each row."""
        return [field for field in self.table.schema().fields if field.name != "row"]

    def take(self, step: Step) -> None:
        name, one, two = step
        methods: dict[str, Callable[[int, int], None]] = {
            "append": self.append,
            "delete": self.delete,
            "expire": self.expire,
            "forget": self.forget,
            "partition": self.partition,
        }
        if name in methods:
            methods[name](one, two)
            return
        columns = self.columns
        free = [each for each in NAMES if each not in {c.name for c in columns}]
        kind, (value, _) = [*TYPES.items()][two % len(TYPES)]
        sources = {part.source_id for part in self.table.spec().fields}
        with self.table.update_schema() as change:
            if name in ("add", "default") and free:
                default = value if name == "default" else None
                change.add_column((free[one % len(free)],), kind, default_value=default)
            elif columns:
                column = columns[one % len(columns)]
                wider = TYPES.get(column.field_type, (None, None))[1]
                if name == "drop" and column.field_id not in sources:
                    change.delete_column((column.name,))
                elif name == "rename" and free:
                    change.rename_column((column.name,), free[two % len(free)])
                elif name == "move":
                    change.move_first((column.name,))
                elif name == "promote" and wider and column.field_id not in sources:
                    change.update_column((column.name,), wider)

    def append(self, count: int, empty: int) -> None:
        """Add up to three rows; each column but one has cells."""
        rows = range(self.n_appended, self.n_appended + 1 + count % 3)
        self.n_appended = rows.stop
        self.rows += rows
        schema = self.table.schema().as_arrow()
        cells = [
            pa.array(rows, field.type)
            if field.name == "row"
            else pa.nulls(len(rows), field.type)
            if place == empty
            else _cells(rows, field.type)
            for place, field in enumerate(schema)
        ]
        self.table.append(pa.Table.from_arrays(cells, schema=schema))

    def delete(self, row: int, _: int) -> None:
        if self.rows:
            self.table.delete(f"row = {self.rows.pop(row % len(self.rows))}")

    def partition(self, one: int, _: int) -> None:
        taken = {part.source_id for part in self.table.spec().fields}
        free = [each for each in self.columns if each.field_id not in taken]
        if free:
            column = free[one % len(free)]
            with self.table.update_spec() as change:
                change.add_identity(column.name)

    def expire(self, _: int, __: int) -> None:
        old = [s for s in self.table.metadata.snapshots if s != self.table.current_snapshot()]
        if old:
            self.table.maintenance.expire_snapshots().by_id(old[0].snapshot_id).commit()

    def forget(self, _: int, __: int) -> None:
        """Remove schemas that no snapshot and no table names."""
        now = self.table.metadata
        used = {snapshot.schema_id for snapshot in now.snapshots} | {now.current_schema_id}
        unused = [s.schema_id for s in now.schemas if s.schema_id not in used]
        if unused:
            with self.table.transaction() as change:
                change._apply((RemoveSchemasUpdate.model_validate({"schema-ids": unused}),))


def _cells(rows: Sequence[int], kind: pa.DataType) -> pa.Array:
    whole = pa.array([row % 5 for row in rows], pa.int32())
    return whole.cast(pa.string()).cast(kind) if pa.types.is_decimal(kind) else whole.cast(kind)


def _read(catalog: FolderCatalog, version: int | None) -> list[tuple[object, ...]]:
    place = catalog.table.metadata_location.removeprefix("file://")
    source = IcebergLocation("T", place, version).open()
    names = sorted(source.names)
    found: list[tuple[object, ...]] = [tuple(names)]
    for arrays in source.read(Wanted(names, 2)):
        found.extend(zip(*(array.to_pylist() for array in arrays), strict=True))
    return found


def _scanned(catalog: FolderCatalog, version: int | None) -> list[tuple[object, ...]]:
    table = catalog.table.scan(snapshot_id=version).to_arrow()
    names = sorted(table.column_names)
    return [tuple(names), *zip(*(table[name].to_pylist() for name in names), strict=True)]


@settings(max_examples=examples(24))
@given(history=st.lists(steps, min_size=3, max_size=9), newest=st.booleans())
def test_any_history_of_an_iceberg_table_gives_the_rows_of_its_own_scan(
    history: list[Step], newest: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        past = History(Path(folder) / "table")
        for step in history:
            past.take(step)
        snapshots = past.table.metadata.snapshots
        version = None if newest or not snapshots else snapshots[0].snapshot_id
        expected = _scanned(past.catalog, version)
        assert sorted(_read(past.catalog, version), key=repr) == sorted(expected, key=repr)
