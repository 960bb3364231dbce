"""Files of a data set as one source: the reader of each format, and extra columns.

A file is read in pieces and must stay unchanged from its opening to the last of them. Otherwise
rows of two exports could be in one sum, and a person twice. Limit: if a file of an object store is
replaced within one second by one of the same size, the store's times do not show it.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, Self

import pyarrow as pa

from dppca.common.kernel.errors import DataError
from dppca.common.shell.file_kinds import kind_of
from dppca.owner.records.delimited import open_csv
from dppca.owner.records.folder_names import without_repeated
from dppca.owner.records.source_facts import SourceFacts
from dppca.owner.records.sources import Rows, Source, Wanted
from dppca.owner.records.stored_files import Piece, StoredFile, translated_errors
from dppca.owner.records.table_columns import list_lacking
from dppca.owner.records.text_format import (
    TEXT_SUFFIXES,
    USUAL,
    UTF_8,
    WORKBOOK_SUFFIXES,
    TextFormat,
)

Constant = tuple[str, str | pa.Array | None]
"""Name of a column, and the cell of all rows: a text, an array of one cell, or None for null."""
Reader = Callable[[StoredFile], Rows]
"""Function that opens the rows of a file."""


def _open_parquet(stored: StoredFile) -> Rows:
    from dppca.owner.records.columnar import open_parquet

    return open_parquet(stored)


def _open_arrow(stored: StoredFile) -> Rows:
    from dppca.owner.records.columnar import open_arrow

    return open_arrow(stored)


def _open_statistical(stored: StoredFile) -> Rows:
    from dppca.owner.records.statistical import open_statistical

    return open_statistical(stored)


def _open_workbook(stored: StoredFile) -> Rows:
    from dppca.owner.records.workbooks import open_workbook

    return open_workbook(stored)


FORMATS: Final[Mapping[str, Reader]] = {
    **dict.fromkeys(TEXT_SUFFIXES, open_csv),
    ".parquet": _open_parquet,
    ".pq": _open_parquet,
    ".arrow": _open_arrow,
    ".feather": _open_arrow,
    ".ipc": _open_arrow,
    ".sav": _open_statistical,
    ".zsav": _open_statistical,
    ".dta": _open_statistical,
    ".sas7bdat": _open_statistical,
    ".xpt": _open_statistical,
    **dict.fromkeys(WORKBOOK_SUFFIXES, _open_workbook),
}
"""Reader of a file by its suffix."""
_AT_ONCE: Final = 8  # an object store answers slowly, and each file is asked for several times


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Source):
    """A file as it was opened: the rows from it, and its stamp.

    ``constants`` are columns of one cell each before its own, from folders or a lake's table.
    """

    stored: StoredFile
    rows: Rows
    constants: tuple[Constant, ...]
    stamp: tuple[int, int]

    @classmethod
    def open(cls, stored: StoredFile) -> Self:
        """Open a file by the reader of its suffix."""
        with translated_errors(stored.title):
            stamp = stored.stamp()
        rows = read_by_suffix(stored)
        stored = replace(stored, cells=without_repeated(stored, rows))
        constants: tuple[Constant, ...] = stored.cells
        if stored.columns:
            constants += tuple(list_lacking(stored.columns, rows.names))
        return cls(
            title=stored.title,
            names=(*(name for name, _ in constants), *rows.names),
            n_rows=rows.n_rows,
            facts=rows.facts,
            is_named_by_a_line=rows.is_named_by_a_line,
            groups=rows.groups,
            in_folders=frozenset(dict(stored.cells)),
            stored=stored,
            rows=rows,
            constants=constants,
            stamp=stamp,
        )

    def only(self, numbers: Collection[int]) -> Self:
        """File limited to the groups with these numbers (`Rows.only`)."""
        rows = self.rows.only(numbers)
        return replace(self, rows=rows, groups=rows.groups, n_rows=rows.n_rows)

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Read columns (`Rows.read`), and require an unchanged file at the end."""
        constants = dict(self.constants)
        own = [name for name in wanted.names if name not in constants]
        # If none of its own columns is read, its rows must still be counted.
        read, labels = own or self.rows.names[:1], [n for n in wanted.labels if n in own]
        batches = (
            self.rows.read(wanted._replace(names=read, labels=labels))
            if read
            else _nulls(self.n_rows, wanted.batch_rows)
        )
        for arrays in batches:
            n_batch, columns = len(arrays[0]), dict(zip(own, arrays, strict=False))
            yield [
                columns[name] if name in columns else _repeated(constants[name], n_batch)
                for name in wanted.names
            ]
        self.require_same()

    def require_same(self) -> None:
        """Raise `DataError` if the file has changed since it was opened."""
        with translated_errors(self.title):
            stamp = self.stored.stamp()
        if stamp != self.stamp:
            raise DataError(
                f"{self.title} was replaced while it was read: run the command again once "
                "nobody writes to it"
            )

    def pieces(self) -> list[Piece]:
        """Its row groups, or the file."""
        self.require_same()
        file, (size, changed_ns) = self.stored, self.stamp
        whole = Piece(
            path=file.path if file.store else os.path.abspath(file.path),  # noqa: PTH100 - as listed
            store=file.store,
            cells=file.cells,
            columns=file.columns,
            text_format=file.text_format,
            groups=None,
            n_rows=self.n_rows,
            n_bytes=size,
            size=size,
            changed_ns=changed_ns,
        )
        return [
            replace(whole, groups=(g.number,), n_rows=g.n_rows, n_bytes=g.n_bytes)
            for g in self.groups
        ] or [whole]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedFiles(Source):
    """Files one after the other. Their columns may be in any order."""

    files: tuple[File, ...]

    @property
    def parts(self) -> Sequence[File]:
        """The files."""
        return self.files

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Read one file after the other (`Rows.read`)."""
        for file in self.files:
            yield from file.read(wanted)

    def pieces(self) -> list[Piece]:
        """Pieces of each file, in the order of the files."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [piece for found in pool.map(File.pieces, self.files) for piece in found]


def read_by_suffix(stored: StoredFile) -> Rows:
    """Rows of a file, opened by the reader of its suffix; a lake's table has Parquet alone."""
    if stored.columns:
        return _open_parquet(stored)
    name = stored.path.lower()
    read = next((FORMATS[suffix] for suffix in FORMATS if name.endswith(suffix)), None)
    if read is None:
        kind = kind_of(name)
        advice = (
            "name it by the format that it has, or export it"
            if kind is None
            else f"it is {kind.what}, under any name: {kind.advice}"
        )
        raise DataError(
            f"the format of {stored.title} is not known by its suffix: {advice} "
            f"({' '.join(FORMATS)})"
        )
    return read(stored)


def require_written(title: str, files: Sequence[StoredFile], form: TextFormat) -> None:
    """Raise `DataError` if a format says something, and there is no file that it is for."""
    said = (
        (form != USUAL, "a format", (*TEXT_SUFFIXES, *WORKBOOK_SUFFIXES)),
        (form.sheet, "a sheet in its format", WORKBOOK_SUFFIXES),
        (form.encoding != UTF_8, "an encoding in its format", TEXT_SUFFIXES),
        (form.delimiter != USUAL.delimiter, "a delimiter in its format", TEXT_SUFFIXES),
    )
    for is_said, what, suffixes in said:
        if is_said and not any(file.path.lower().endswith(suffixes) for file in files):
            raise DataError(
                f"{title} has {what}, which is for files such as {' '.join(suffixes)}, and holds "
                "none: leave it out"
            )


def open_files(title: str, files: Sequence[StoredFile]) -> Source:
    """Open each file, several at once if they are not on this machine.

    Several files are named by their numbers.
    """
    if len(files) > 1:
        files = [
            replace(file, title=f"{title}, file {number} of {len(files)}")
            for number, file in enumerate(files, start=1)
        ]
    if files[0].system is None:
        return join_files(title, [File.open(file) for file in files])
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return join_files(title, list(pool.map(File.open, files)))


def join_files(title: str, files: Sequence[File]) -> Source:
    """Several files as one source, with continuous row numbers; a single file unchanged."""
    if len(files) == 1:
        return files[0]
    first = files[0].names
    *starts, n_rows = accumulate((file.n_rows for file in files), initial=0)
    return JoinedFiles(
        title=title,
        names=(*first, *dict.fromkeys(n for f in files for n in f.names if n not in first)),
        n_rows=n_rows,
        facts=SourceFacts.joined([file.facts for file in files], starts),
        files=tuple(files),
    )


def open_piece(piece: Piece, title: str) -> File:
    """Open a piece on another machine."""
    file = File.open(piece.find(title))
    return file if piece.groups is None else file.only(piece.groups)


def _nulls(n_rows: int, batch_rows: int) -> Iterator[list[Any]]:
    """Rows of a file that has none of its table's columns any more."""
    for start in range(0, n_rows, batch_rows):
        yield [pa.nulls(min(batch_rows, n_rows - start))]


def _repeated(cell: str | pa.Array | None, n_rows: int) -> pa.Array:
    if cell is None:
        return pa.nulls(n_rows, pa.large_string())
    values = pa.array([cell], pa.large_string()) if isinstance(cell, str) else cell
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), n_rows), values)
