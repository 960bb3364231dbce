"""Several files as one source, and columns that the names of folders say."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dppca.common.errors import DataError
from dppca.owner.records.delimited import open_csv
from dppca.owner.records.faults import FaultCount, LineFault
from dppca.owner.records.sources import Malformed, Source, open_arrow, open_parquet
from dppca.owner.records.stored_files import (
    ARROW_SUFFIXES,
    CSV_SUFFIXES,
    PARQUET_SUFFIXES,
    SUFFIXES,
    StoredFile,
    reaching,
)

_OPENED_AT_ONCE = 8  # an object store answers slowly, and each file is asked for several times


@dataclass(frozen=True, slots=True)
class FolderColumns:
    """A file, and columns of one text each before its own."""

    file: Source
    cells: tuple[tuple[str, str | None], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The folders' columns, then the file's."""
        return (*(name for name, _ in self.cells), *self.file.names)

    @property
    def n_rows(self) -> int:
        """Rows of the file."""
        return self.file.n_rows

    @property
    def malformed(self) -> Malformed:
        """Malformed lines of the file."""
        return self.file.malformed

    def read(
        self, names: Sequence[str], batch_rows: int, *, labels: Collection[str] = ()
    ) -> Iterator[list[Any]]:
        """As `Source.read`."""
        said = dict(self.cells)
        own = [name for name in names if name not in said]
        # Without a column of its own to read, its rows still have to be counted.
        for arrays in self.file.read(
            own or self.file.names[:1], batch_rows, labels=[n for n in labels if n in own]
        ):
            n_batch, columns = len(arrays[0]), dict(zip(own, arrays, strict=False))
            yield [columns[n] if n in columns else _repeated(said[n], n_batch) for n in names]


@dataclass(frozen=True, slots=True)
class SameObject:
    """A file, which is read in pieces and must be one file from its opening to the last of them.

    Otherwise rows of two exports could be in one sum, and a person twice. Limit: where a file of an
    object store is replaced within one second by one of the same size, the store's times do not
    tell.
    """

    file: Source
    stored: StoredFile
    stamp: tuple[int, int]

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of the file."""
        return self.file.names

    @property
    def n_rows(self) -> int:
        """Rows of the file."""
        return self.file.n_rows

    @property
    def malformed(self) -> Malformed:
        """Malformed lines of the file."""
        return self.file.malformed

    def read(
        self, names: Sequence[str], batch_rows: int, *, labels: Collection[str] = ()
    ) -> Iterator[list[Any]]:
        """As `Source.read`; at the end as `require_same`."""
        yield from self.file.read(names, batch_rows, labels=labels)
        self.require_same()

    def require_same(self) -> None:
        """Raise `DataError` for a file that is not the one that was opened."""
        with reaching(self.stored.title):
            stamp = self.stored.stamp()
        if stamp != self.stamp:
            raise DataError(
                f"{self.stored.title} was replaced while it was read: run the command again once "
                "nobody writes to it"
            )


@dataclass(frozen=True, slots=True)
class JoinedFiles:
    """Files one after the other. Their columns may be in any order."""

    files: tuple[Source, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of the first file, then what others have besides."""
        first = self.files[0].names
        return (*first, *dict.fromkeys(n for f in self.files for n in f.names if n not in first))

    @property
    def n_rows(self) -> int:
        """Rows of all files."""
        return sum(file.n_rows for file in self.files)

    @property
    def malformed(self) -> Malformed:
        """Malformed lines of all files, by row numbers that go on from file to file."""
        counts: dict[LineFault, FaultCount] = {}
        before = 0
        for file in self.files:
            for kind, count in file.malformed.found.items():
                earlier = counts.get(kind, FaultCount())
                rows = (*earlier.rows, *(before + row for row in count.rows))
                counts[kind] = FaultCount(earlier.count + count.count, rows)
            before += file.n_rows
        return Malformed(counts)

    def read(
        self, names: Sequence[str], batch_rows: int, *, labels: Collection[str] = ()
    ) -> Iterator[list[Any]]:
        """As `Source.read`."""
        for file in self.files:
            yield from file.read(names, batch_rows, labels=labels)


def open_files(files: Sequence[StoredFile]) -> list[Source]:
    """Open each file by its suffix, several at once where they are not on this machine."""
    if len(files) == 1 or files[0].system is None:
        return [_open(file) for file in files]
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as pool:
        return list(pool.map(_open, files))


def _open(file: StoredFile) -> Source:
    with reaching(file.title):
        stamp = file.stamp()
    return SameObject(_open_by_suffix(file), file, stamp)


def _open_by_suffix(file: StoredFile) -> Source:
    name = file.path.lower()
    source: Source
    if name.endswith(CSV_SUFFIXES):
        source = open_csv(file)
    elif name.endswith(PARQUET_SUFFIXES):
        source = open_parquet(file)
    elif name.endswith(ARROW_SUFFIXES):
        source = open_arrow(file)
    else:
        raise DataError(
            f"the format of {file.title} is not known by its suffix: rename or export it "
            f"({' '.join(SUFFIXES)})"
        )
    cells = (*file.cells, *(each for each in file.filled if each[0] not in source.names))
    return FolderColumns(source, cells) if cells else source


def _repeated(text: str | None, n_rows: int) -> pa.Array:
    if text is None:
        return pa.nulls(n_rows, pa.large_string())
    return pa.DictionaryArray.from_arrays(
        pa.repeat(pa.scalar(0, pa.int8()), n_rows), pa.array([text], pa.large_string())
    )
