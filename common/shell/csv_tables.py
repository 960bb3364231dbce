"""Tables as CSV, without cells that a spreadsheet would run as formulas.

A cell is written exactly as it is, for programs read CSV too and a quote in front would be another
label. A study cannot have labels or names that a spreadsheet may run
(`dppca.common.documents.names`); a file from elsewhere may: its table is refused as CSV and can be
written as Parquet.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from dppca.common.documents.names import is_formula
from dppca.common.errors import SettingError


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
