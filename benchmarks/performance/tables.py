"""Schemas, rows and files that several benchmarks measure on."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.releases import BITS, numeric_attributes
from dppca.common.kernel.schema import Schema

BOUND = 4.0
"""Rows are standard normal; their public bounds are -4 and 4."""
_GROUP_ROWS = 100_000


def numeric_schema(n_columns: int, *, resolution_bits: int = BITS) -> Schema:
    """Numerics x0, x1, ... between -4 and 4."""
    attributes = numeric_attributes(n_columns, -BOUND, BOUND)
    return Schema.from_document({"resolution_bits": resolution_bits, "attributes": attributes})


def normal_rows(n_rows: int, n_columns: int) -> NDArray[np.float64]:
    """Standard normal, always the same."""
    return np.random.default_rng(20).standard_normal((n_rows, n_columns))


def write_rows(path: Path, d: int, n: int, *, decimals: int | None = None) -> None:
    """One group of rows again and again, with Parquet's own defaults, or CSV as pyarrow has it."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    numbers = np.random.default_rng(22).standard_normal((d, min(n, _GROUP_ROWS)))
    if decimals is not None:
        numbers = numbers.round(decimals)
    group = pa.table({f"x{i}": numbers[i] for i in range(d)})
    kind = pq.ParquetWriter if path.suffix == ".parquet" else pa.csv.CSVWriter
    with kind(path, group.schema) as writer:
        for start in range(0, n, group.num_rows):
            writer.write_table(group.slice(0, min(group.num_rows, n - start)))


def write_folder(folder: Path, d: int, n: int, *, files: int) -> None:
    """Parquet files of equally many rows, in a new folder."""
    folder.mkdir()
    for number in range(files):
        write_rows(folder / f"{number:02}.parquet", d, n // files)


def scan_parquet(path: str | Path, *, texts: Sequence[str] = (), use_threads: bool = True) -> int:
    """Read a Parquet file into NumPy arrays and do nothing with them; returns its rows.

    Parameters
    ----------
    texts
        Columns that are read as places in the file's own list of them.
    """
    parquet: Any = import_module("pyarrow.parquet")
    n_rows = 0
    with parquet.ParquetFile(path, read_dictionary=list(texts)) as file:
        for batch in file.iter_batches(use_threads=use_threads):
            n_rows += batch.num_rows
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                numbers = column.indices if name in texts else column
                numbers.to_numpy(zero_copy_only=False)
    return n_rows
