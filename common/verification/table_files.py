"""Tables as files: written batch by batch, labelled inside, and signed if they leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from dppca.common.attestation.envelopes import Claim, signing
from dppca.common.attestation.signatures import Signer
from dppca.common.attestation.tables import label_inside
from dppca.common.documents.messages import METADATA_KEY
from dppca.common.schema.document import canonical_json
from dppca.common.shell.csv_tables import CsvWriter
from dppca.common.shell.files import open_new


def with_metadata(fields: Any, metadata: Mapping[str, object]) -> Any:
    """Return an Arrow schema with ``metadata``, which has a ``label``, under our key."""
    return fields.with_metadata({METADATA_KEY: canonical_json(dict(metadata))})


class TableWriter:
    """Writer of record batches with the labelled ``pyarrow.Schema`` in ``schema``."""

    def __init__(self, schema: Any, writer: Any) -> None:
        self.schema = schema
        self._writer = writer

    def write(self, batch: Any) -> None:
        """Append rows."""
        self._writer.write_batch(batch.replace_schema_metadata(self.schema.metadata))


@contextmanager
def labelled_writer(path: Path, suffix: str, schema: Any, *, mode: int) -> Iterator[TableWriter]:
    """Write a new file of the format that a suffix names: Parquet, Arrow or CSV.

    Raise `OSError` if it cannot be written and `SettingError` if a spreadsheet would run a cell of
    the CSV file as a formula.
    """
    makers = {".parquet": pa.parquet.ParquetWriter, ".arrow": pa.ipc.new_file, ".csv": CsvWriter}
    with open_new(path, mode=mode) as file, makers[suffix](file, schema) as writer:
        yield TableWriter(schema, writer)


@contextmanager
def signed_writer(
    path: Path, fields: Any, claims: Mapping[str, object], signer: Signer, *, mode: int
) -> Iterator[TableWriter]:
    """Write a table that leaves; it gets its name and its envelope once the block ends well.

    The suffix of ``path`` decides the format; ``fields`` is the Arrow schema without metadata;
    ``claims`` come from `dppca.common.attestation.tables.make_claims`, with the form; ``mode`` has
    the permissions of the files, before the process's mask. Raise as `labelled_writer`.
    """
    schema = with_metadata(fields, label_inside(claims))
    with (
        signing(path, Claim.ROWS, claims, signer, mode=mode) as draft,
        labelled_writer(draft, path.suffix, schema, mode=mode) as writer,
    ):
        yield writer
