"""Iceberg tables in a folder, without a catalogue server."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import Record


class FolderCatalog(MetastoreCatalog):
    """Keeps one table; its metadata files are in the table's folder."""

    table: Table

    def create_table(self, identifier: Any, schema: pa.Schema, location: Any = None) -> Table:
        staged = self._create_staged_table(
            identifier, schema, location, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, {}
        )
        return self._keep(identifier, staged)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        name = self.table.name()
        kept = self._keep(
            name, self._update_and_stage_table(self.table, name, requirements, updates)
        )
        return CommitTableResponse(metadata=kept.metadata, metadata_location=kept.metadata_location)

    def load_table(self, identifier: Any) -> Table:
        return self.table

    def load_namespace_properties(self, namespace: Any) -> dict[str, str]:
        return {}

    def _keep(self, name: Any, staged: Any) -> Table:
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        self.table = Table(name, staged.metadata, staged.metadata_location, staged.io, self)
        return self.table


FolderCatalog.__abstractmethods__ = frozenset()  # the other methods of a catalogue are not needed


def make_iceberg(folder: Path | str, schema: pa.Schema, **properties: str) -> FolderCatalog:
    """Create an empty table; `FolderCatalog.table` is its current state."""
    catalog = FolderCatalog("folder", **properties)
    address = folder if isinstance(folder, str) else folder.as_uri()
    catalog.create_table(("site", "rows"), schema, location=address)
    return catalog


def add_file(
    catalog: FolderCatalog, address: str, *partition: Any, names: bool = True, kind: str = "PARQUET"
) -> None:
    """Add a file as it is, such as one that was there before the table.

    With ``names`` the table gets a list of names for files without numbers of columns.
    """
    fields = catalog.table.schema().fields
    mapping = [{"field-id": each.field_id, "names": [each.name]} for each in fields]
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=address,
        file_format=FileFormat(kind),
        partition=Record(*partition),
        record_count=1,
        file_size_in_bytes=1,
        spec_id=catalog.table.spec().spec_id,
    )
    with catalog.table.transaction() as change:
        if names:
            change.set_properties({"schema.name-mapping.default": json.dumps(mapping)})
        with change.update_snapshot().fast_append() as append:
            append.append_data_file(file)
