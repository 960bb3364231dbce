"""Files as streams of Arrow arrays: Parquet and Arrow here, CSV in `owner.records.delimited`.

A source reads some of a file's columns, by position, in batches of bounded size, as often as it
is asked. Whatever the format's reader raises becomes a `DataError` that says what to do; its own
message is left out, since it may quote a cell.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from common.errors import DataError

PARQUET_SUFFIXES = (".parquet", ".pq")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")
_PARQUET_MAGIC = b"PAR1"
_ARROW_MAGIC = b"ARROW1"
_FEATHER_1_MAGIC = b"FEA1"


@dataclass(frozen=True, slots=True)
class Malformed:
    """Rows of a CSV file with more or fewer fields than its header. Site-only.

    Attributes
    ----------
    count
        How many.
    rows
        Numbers of the first of them, the first data row being 1.
    """

    count: int = 0
    rows: tuple[int, ...] = ()


class Source(Protocol):
    """One data file, opened and found sound as far as can be told without reading all of it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in the file's order, outer blanks dropped; they may repeat."""

    @property
    def n_rows(self) -> int:
        """Rows, 0 for a file of a header alone."""

    @property
    def malformed(self) -> Malformed:
        """Rows with a wrong number of fields."""

    def read(self, positions: Sequence[int], batch_rows: int) -> Iterator[list[Any]]:
        """Arrays of the columns at ``positions``, at most ``batch_rows`` rows at a time."""


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """A Parquet file, read row group by row group."""

    path: Path
    names: tuple[str, ...]
    n_rows: int
    malformed: Malformed = Malformed()

    def read(self, positions: Sequence[int], batch_rows: int) -> Iterator[list[Any]]:
        """Arrays of the columns at ``positions``, at most ``batch_rows`` rows at a time."""
        # Without pre_buffer: it would keep what it has read ahead, up to the whole file. Without
        # threads: whoever adds up the batches is at work on the other cores meanwhile.
        with reading(self.path), pq.ParquetFile(self.path, pre_buffer=False) as file:
            names = file.schema_arrow.names  # made anew each time it is asked for
            fields = [names[position] for position in positions]
            for batch in file.iter_batches(
                batch_size=batch_rows, columns=fields, use_threads=False
            ):
                yield [batch.column(field) for field in fields]


@dataclass(frozen=True, slots=True)
class ArrowSource:
    """An Arrow IPC file (Feather version 2), mapped into memory and validated while read."""

    path: Path
    names: tuple[str, ...]
    n_rows: int
    malformed: Malformed = Malformed()

    def read(self, positions: Sequence[int], batch_rows: int) -> Iterator[list[Any]]:
        """Arrays of the columns at ``positions``, at most ``batch_rows`` rows at a time."""
        with reading(self.path), pa.memory_map(str(self.path)) as mapped:
            file = pa.ipc.open_file(mapped)
            for index in range(file.num_record_batches):
                batch = file.get_batch(index)
                arrays = [batch.column(position) for position in positions]
                for array in arrays:
                    array.validate(full=True)
                for start in range(0, batch.num_rows, batch_rows):
                    yield [array.slice(start, batch_rows) for array in arrays]


def open_parquet(path: Path) -> ParquetSource:
    """Read a Parquet file's footer."""
    _check_magic(path, _PARQUET_MAGIC, "Parquet")
    with reading(path), pq.ParquetFile(path) as file:
        names = tuple(name.strip() for name in file.schema_arrow.names)
        return ParquetSource(path, names, file.metadata.num_rows)


def open_arrow(path: Path) -> ArrowSource:
    """Read an Arrow file's footer and count its rows."""
    _check_magic(path, _ARROW_MAGIC, "Arrow")
    with reading(path), pa.memory_map(str(path)) as mapped:
        file = pa.ipc.open_file(mapped)
        names = tuple(name.strip() for name in file.schema.names)
        n_rows = sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))
        return ArrowSource(path, names, n_rows)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what a format's reader raises into a `DataError`.

    The reader's own message may quote a row, so neither it nor its traceback is kept.
    """
    try:
        yield
    except FileNotFoundError:
        message = f"there is no data file {path}: correct its path"
    except IsADirectoryError:
        message = f"{path} is a folder: give one CSV, Parquet or Arrow file"
    except PermissionError:
        message = f"the data file {path} may not be read: ask for read permission on it"
    except (pa.ArrowException, OSError, EOFError, zlib.error, csv.Error):
        message = (
            f"the data file {path} is damaged or not what its name says: "
            "copy or export it again, then run check"
        )
    else:
        return
    raise DataError(message) from None


def _check_magic(path: Path, magic: bytes, kind: str) -> None:
    with reading(path), path.open("rb") as file:
        first = file.read(len(magic))
    if not first:
        message = f"the data file {path} is empty: export it again"
        raise DataError(message)
    if kind == "Arrow" and first.startswith(_FEATHER_1_MAGIC):
        message = f"{path} is of Feather version 1: write it again as version 2 or Parquet"
        raise DataError(message)
    if first != magic:
        message = f"{path} is not a {kind} file, or is cut off: name it by its format or export it"
        raise DataError(message)
