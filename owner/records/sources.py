"""Files as streams of Arrow arrays: Parquet and Arrow here, CSV in `owner.records.delimited`.

A source reads some of a file's columns, by position, in batches of bounded size, as often as it
is asked. Whatever the format's reader raises becomes a `DataError` that says what to do; its own
message is left out, since it may quote a cell.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from common.errors import DataError

PARQUET_SUFFIXES = (".parquet", ".pq")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")
_LIST_BYTES = 1 << 16
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

    def read(
        self, positions: Sequence[int], batch_rows: int, *, labels: Collection[int] = ()
    ) -> Iterator[list[Any]]:
        """Arrays of the columns at ``positions``, at most ``batch_rows`` rows at a time.

        Parameters
        ----------
        labels
            Positions of columns that the format may give as dictionaries.
        """


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """A Parquet file, read row group by row group."""

    path: Path
    names: tuple[str, ...]
    n_rows: int
    malformed: Malformed = Malformed()

    def read(
        self, positions: Sequence[int], batch_rows: int, *, labels: Collection[int] = ()
    ) -> Iterator[list[Any]]:
        """Arrays of the columns at ``positions``, at most ``batch_rows`` rows at a time.

        Of ``labels`` those whose distinct texts the file lists are given as codes of that list.
        """
        # Without pre_buffer: it would keep what it has read ahead, up to the whole file. Without
        # threads: whoever adds up the batches is at work on the other cores meanwhile.
        with reading(self.path):
            metadata = pq.read_metadata(self.path)
            names = metadata.schema.to_arrow_schema().names
            listed = _listed(metadata, {names[position] for position in labels})
            fields = [names[position] for position in positions]
            with pq.ParquetFile(
                self.path, metadata=metadata, read_dictionary=listed, pre_buffer=False
            ) as file:
                for batch in file.iter_batches(
                    batch_size=batch_rows, columns=fields, use_threads=False
                ):
                    arrays = [batch.column(field) for field in fields]
                    for array in arrays:
                        _check_codes(array)
                    yield arrays


@dataclass(frozen=True, slots=True)
class ArrowSource:
    """An Arrow IPC file (Feather version 2), mapped into memory and validated while read."""

    path: Path
    names: tuple[str, ...]
    n_rows: int
    malformed: Malformed = Malformed()

    def read(
        self,
        positions: Sequence[int],
        batch_rows: int,
        *,
        labels: Collection[int] = (),  # noqa: ARG002 - the format lists no texts
    ) -> Iterator[list[Any]]:
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


def _listed(metadata: pq.FileMetaData, names: Collection[str]) -> list[str]:
    """Columns of text whose distinct values a Parquet file lists, and are few.

    Found in the first row group; it decides nothing but how fast the columns are read.
    """
    if not metadata.num_row_groups or not names:
        return []
    group = metadata.row_group(0)
    chunks = [group.column(index) for index in range(group.num_columns)]
    return [
        chunk.path_in_schema
        for chunk in chunks
        if chunk.path_in_schema in names
        and chunk.physical_type == "BYTE_ARRAY"
        and chunk.has_dictionary_page
        and chunk.data_page_offset - chunk.dictionary_page_offset <= _LIST_BYTES
    ]


def _check_codes(array: pa.Array) -> None:
    """Of a damaged file, codes may be out of range."""
    if pa.types.is_dictionary(array.type):
        found = pc.min_max(array.indices)
        least, most = found["min"].as_py(), found["max"].as_py()
        if most is not None and not 0 <= least <= most < len(array.dictionary):
            message = "codes out of range"
            raise pa.ArrowInvalid(message)


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
