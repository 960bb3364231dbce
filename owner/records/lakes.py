"""Delta and Iceberg tables: which files a version has, by the library of each format.

Columns are those of the version's schema, found as the format says
(`dppca.owner.records.table_columns`). A table that needs more than a list of files is refused, such
as rows that are marked as deleted inside or beside a file.

Addresses of an Iceberg table are taken as they stand, as by Iceberg's own readers: ``%2F`` in one
is three characters of a name. Those of a Delta table are URIs, in which it is a slash.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import pyarrow as pa

from dppca.common.kernel.errors import DataError
from dppca.owner.records.lake_files import Address, LakeLocation, ListedFile, ListedVersion
from dppca.owner.records.table_columns import TableColumn

_READ_FEATURES: Final = {
    *("columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"),
    *("variantType", "variantType-preview"),
}
"""Reader features of a Delta table that may still be no more than a list of files."""
_WIDENED: Final = "delta.typeChanges"


@dataclass(frozen=True, slots=True)
class DeltaLocation(LakeLocation):
    """A version of a Delta table."""

    package: ClassVar[str] = "deltalake"

    @property
    def root(self) -> Address:
        """Address of the table's folder, whose escapes are those of a URI."""
        scheme, host, path = Address.parse(self.address)
        return Address(scheme, host, unquote(path.partition("?")[0]) if scheme else path)

    def list_version(self) -> ListedVersion:
        """Columns of the version, and its files from its add actions."""
        from deltalake import DeltaTable

        table = DeltaTable(self.address, version=self.version)
        self._require_plain(table)
        mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
        columns = [_delta_column(f, mode) for f in table.schema().fields]
        partitions = table.metadata().partition_columns
        actions = pa.table(table.get_add_actions(flatten=True))
        values = {
            name.strip(): actions[f"partition.{name}"].combine_chunks() for name in partitions
        }
        root, files = self.root, []
        for row, path in enumerate(map(unquote, actions["path"].to_pylist())):
            cells = {name: _known(value.slice(row, 1)) for name, value in values.items()}
            filled = (c._replace(value=cells[c.name]) if c.name in cells else c for c in columns)
            whole = path if path.startswith("/") else f"{root.path}/{path}"
            address = Address.parse(path) if Address.is_whole(path) else root.at(whole)
            files.append(ListedFile(address, tuple(filled)))
        return ListedVersion(tuple(column.name for column in columns), files)

    def _require_plain(self, table: Any) -> None:
        """Raise `DataError` if a version is more than a list of files."""
        features = {*(table.protocol().reader_features or ())}
        if _WIDENED not in table.schema().to_json():  # it is allowed and was never done
            features -= {"typeWidening", "typeWidening-preview"}
        if others := sorted(features - _READ_FEATURES):
            raise DataError(
                f"{self.title} uses {', '.join(others)}, and so is more than a list of files: "
                "write its rows to a new table, or remove that (such as by ALTER TABLE ... DROP "
                "FEATURE)"
            )
        if "deletionVectors" in features and _marks_rows(table):
            raise DataError(
                f"{self.title} has rows marked as deleted inside its files (deletion vectors): "
                "rewrite these files (such as by REORG TABLE ... APPLY (PURGE))"
            )


@dataclass(frozen=True, slots=True)
class IcebergLocation(LakeLocation):
    """A snapshot of an Iceberg table."""

    package: ClassVar[str] = "pyiceberg"

    @property
    def folder(self) -> str:
        """Folder that holds ``metadata``."""
        folder, found, _ = self.address.rpartition("/metadata/")
        return folder if found else self.address

    def list_version(self) -> ListedVersion:
        """Columns of the snapshot, and its files from its scan plan."""
        from pyiceberg.table import StaticTable
        from pyiceberg.transforms import IdentityTransform

        logging.getLogger("pyiceberg.io.pyarrow").disabled = True  # it names buckets
        table = StaticTable.from_metadata(self.address, _store_properties(os.environ))
        fields = {field.field_id: field for field in self._find_schema(table).fields}
        mapping = table.metadata.name_mapping()
        names = {each.field_id: (*each.names,) for each in (mapping.root if mapping else ())}
        columns = [
            TableColumn(
                f.name.strip(), names.get(number, ()), number, _cell(f, f.initial_default), _kind(f)
            )
            for number, f in fields.items()
        ]
        files = []
        for task in self._plan(table):
            if task.file.file_format != "PARQUET":
                raise DataError(
                    f"{self.title} has files of {task.file.file_format.value}, of which only "
                    "Parquet is read: rewrite them (such as by rewrite_data_files)"
                )
            parts = table.specs()[task.file.spec_id].fields
            values = {
                part.source_id: task.file.partition[place]
                for place, part in enumerate(parts)
                if isinstance(part.transform, IdentityTransform)
                and part.source_id in fields
                and task.file.partition[place] is not None
            }
            cells = {n: _cell(fields[n], v) for n, v in values.items()}
            known = zip(fields, columns, strict=True)
            filled = (column._replace(value=cells.get(n, column.value)) for n, column in known)
            files.append(ListedFile(Address.parse(task.file.file_path), tuple(filled)))
        return ListedVersion(tuple(column.name for column in columns), files)

    def _find_schema(self, table: Any) -> Any:
        """Schema of the snapshot, or the table's own for the newest."""
        if self.version is None:
            return table.schema()
        snapshot = table.snapshot_by_id(self.version)
        if snapshot is None:
            raise DataError(f"{self.title} has no version {self.version}")
        if snapshot.schema_id is None:
            return table.schema()
        schema = table.schemas().get(snapshot.schema_id)
        if schema is None:
            raise DataError(
                f"{self.title} has no list of columns any more for version {self.version}: read "
                "another version"
            )
        return schema

    def _plan(self, table: Any) -> list[Any]:
        """Files to scan; raise `DataError` if rows are marked as deleted beside them."""
        try:
            tasks = [*table.scan(snapshot_id=self.version).plan_files()]
            is_marked = any(task.delete_files for task in tasks)
        except (ValueError, NotImplementedError) as error:
            is_marked = "equality delete" in str(error)
            if not is_marked:
                raise
        if is_marked:
            raise DataError(
                f"{self.title} has rows marked as deleted beside its files: compact it first "
                "(such as by rewrite_data_files)"
            )
        return tasks


def _delta_column(field: Any, mode: str) -> TableColumn:
    """A column of Delta, which maps columns to numbers or names of files, or to none (``mode``)."""
    name = field.name.strip()
    if mode == "id":
        return TableColumn(name, number=int(field.metadata["delta.columnMapping.id"]))
    own = field.metadata["delta.columnMapping.physicalName"] if mode == "name" else field.name
    return TableColumn(name, (own,))


def _known(cell: pa.Array) -> pa.Array | None:
    return None if cell.null_count else cell


def _marks_rows(table: Any) -> bool:
    """Return True if a file has a deletion vector, or one that cannot be read."""
    from deltalake.exceptions import DeltaError

    try:
        return any(batch.num_rows for batch in table.deletion_vectors())
    except (DeltaError, OSError):
        return True


def _store_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings from the environment that pyarrow and the Delta library take, and pyiceberg not."""
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION", "")
    found = {"s3.endpoint": environment.get("AWS_ENDPOINT_URL", ""), "s3.region": region}
    return {name: value for name, value in found.items() if value}


def _kind(field: Any) -> str:
    """Type of a column in which cells of a narrower type are another value, or another text."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    kind = schema_to_pyarrow(field.field_type)
    is_local = pa.types.is_timestamp(kind) and kind.tz is None
    return str(kind) if pa.types.is_float64(kind) or is_local else ""


def _cell(field: Any, value: Any) -> pa.Array | None:
    """A partition's value or a default as an array of one cell, in the type of its column."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    if value is None:
        return None
    kind = schema_to_pyarrow(field.field_type)
    if isinstance(kind, pa.BaseExtensionType):  # a UUID
        kind, value = kind.storage_type, getattr(value, "bytes", value)
    return pa.array([value], kind)
