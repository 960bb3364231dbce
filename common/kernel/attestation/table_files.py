"""Tables as files: written batch by batch, labelled inside, and signed if they leave.

A cell of a CSV file is written exactly as it is, for programs read CSV too and a quote in front
would be another label. A study cannot have labels or names that a spreadsheet may run as formulas
(`dppca.common.kernel.documents.names`); a file from elsewhere may: its table is refused as CSV and
can be written as Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from dppca.common.kernel.attestation.envelopes import Claim, signing
from dppca.common.kernel.attestation.signatures import Signer
from dppca.common.kernel.attestation.tables import label_inside
from dppca.common.kernel.documents.messages import METADATA_KEY
from dppca.common.kernel.documents.names import is_formula
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.durable.files import open_new
from dppca.common.kernel.errors import SettingError


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
    ``claims`` come from `dppca.common.kernel.attestation.tables.make_claims`, with the form;
    ``mode`` has the permissions of the files, before the process's mask. Raise as
    `labelled_writer`.
    """
    schema = with_metadata(fields, label_inside(claims))
    with (
        signing(path, Claim.ROWS, claims, signer, mode=mode) as draft,
        labelled_writer(draft, path.suffix, schema, mode=mode) as writer,
    ):
        yield writer


class CsvWriter:
    """Writer of record batches to a CSV file; a context manager.

    It raises `SettingError` if a spreadsheet might run a column's name or a cell of text.
    """

    def __init__(self, sink: Any, schema: Any) -> None:
        for name in schema.names:
            _require_harmless(name)
        self._writer = pa.csv.CSVWriter(sink, schema)

    def __enter__(self) -> CsvWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def write_batch(self, batch: Any) -> None:
        """Append rows; none of the batch if one is refused."""
        for column in batch.columns:
            if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
                for text in pa.compute.unique(column).to_pylist():
                    _require_harmless(str(text))
        self._writer.write_batch(batch)


def _require_harmless(text: str) -> None:
    if is_formula(text):
        raise SettingError(
            f"the table has {text!r}, which a spreadsheet would run as a formula: choose an output "
            "that ends in .parquet"
        )
