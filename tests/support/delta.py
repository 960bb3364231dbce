"""Delta tables whose log is written by hand, as other software may write it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PART = "part.parquet"


def field(name: str, kind: str = "double", **metadata: object) -> dict[str, object]:
    """A column of a table's schema."""
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def make_delta(
    folder: Path,
    rows: pa.Table,
    *files: Mapping[str, object],
    fields: Sequence[Mapping[str, object]] = (),
    features: Sequence[str] = (),
    configuration: Mapping[str, str] = {},
) -> str:
    """Write rows as one file, and a log that adds ``files``, by default that one."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    pq.write_table(rows, folder / PART)
    schema = {"type": "struct", "fields": [*(fields or map(field, rows.column_names))]}
    said = {
        "id": folder.name,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": configuration,
    }
    protocol: dict[str, object] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        named = {"readerFeatures": features, "writerFeatures": features}
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **named}
    size = (folder / PART).stat().st_size
    common = {"partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
    adds = [{"add": {"path": PART, **common, **file}} for file in files or ({},)]
    lines = [{"protocol": protocol}, {"metaData": said}, *adds]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)))
    return str(folder)
