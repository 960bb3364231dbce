"""A data file seen through a schema.

Columns are found by name, in any order; columns that the schema does not name are not read, and
are reported. Nothing is kept in memory but one batch: a table may be larger than memory and read
as often as needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import DataError, SettingError
from common.schema import Column, Numeric, Schema
from owner.records.columns import absent_column, column_of
from owner.records.delimited import CSV_SUFFIXES, open_csv
from owner.records.sources import (
    ARROW_SUFFIXES,
    PARQUET_SUFFIXES,
    Malformed,
    Source,
    open_arrow,
    open_parquet,
)

_CODED_VALUES_PER_BATCH = 1 << 22


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one data file, as the columns that `encode` takes.

    Attributes
    ----------
    path
        Stays at the site, as do the column names.
    n_rows
        Rows of the file; every one of them is in the batches. Public once released.
    extra_columns
        Columns of the file that the schema does not name; not read.
    absent
        Attributes allowed to be absent that are; every value of theirs is missing.
    malformed
        Rows of a CSV file with a wrong number of fields.
    """

    path: Path
    schema: Schema
    n_rows: int
    extra_columns: tuple[str, ...]
    absent: tuple[str, ...]
    malformed: Malformed
    source: Source

    def batches(self, batch_rows: int | None = None) -> Iterator[list[Column]]:
        """Read the file once, from its first row to its last.

        Parameters
        ----------
        batch_rows
            Most rows at a time; by default as many as make four million coded values.

        Yields
        ------
        list of ndarray, shape (n_batch,)
            One per attribute in the schema's order, as `column_of` makes them; 1 <= n_batch.

        Raises
        ------
        DataError
            The file is damaged, or no longer has the rows it had.
        """
        if batch_rows is None:
            batch_rows = max(
                1, min(1 << 16, _CODED_VALUES_PER_BATCH // self.schema.layout.n_columns)
            )
        for cells in self.cells(batch_rows):
            yield cells.columns()

    def cells(self, batch_rows: int) -> Generator[Cells, None, None]:
        """Read the file once, without converting what is read; raises as `batches` does."""
        if batch_rows < 1:
            message = f"batch_rows is {batch_rows}; it must be at least 1"
            raise SettingError(message)
        names = self.source.names
        read = [a for a in self.schema.attributes if a.name not in self.absent]
        positions = [names.index(a.name.strip()) for a in read]
        labels = [p for a, p in zip(read, positions, strict=True) if not isinstance(a, Numeric)]
        # Without a column to convert, the rows still have to be counted.
        n_rows = 0
        for arrays in self.source.read(positions or [0], batch_rows, labels=labels):
            n_batch = len(arrays[0])
            if n_batch == 0:
                continue
            n_rows += n_batch
            named = dict(zip((a.name for a in read), arrays, strict=False))
            yield Cells(self.schema, n_batch, named)
        if n_rows != self.n_rows:
            message = (
                f"{self.path} had {self.n_rows} rows when it was opened and {n_rows} when it was "
                "read: do not write to it meanwhile"
            )
            raise DataError(message)


@dataclass(frozen=True, slots=True)
class Cells:
    """A batch as it was read: Arrow arrays by attribute, none for those that are absent."""

    schema: Schema
    n_rows: int
    arrays: Mapping[str, Any]

    def columns(self, *, told_apart: bool = True) -> list[Column]:
        """What `encode` takes: one array of shape (n_rows,) per attribute, as of `column_of`."""
        return [
            column_of(a, self.arrays[a.name], told_apart=told_apart)
            if a.name in self.arrays
            else absent_column(a, self.n_rows)
            for a in self.schema.attributes
        ]


def open_table(path: Path, schema: Schema, *, may_lack: Collection[str] = ()) -> Table:
    """Open a CSV, Parquet or Arrow file by its suffix.

    Parameters
    ----------
    may_lack
        Attributes that the file need not have, such as the target of a prediction.

    Raises
    ------
    DataError
        There is no such file, it is empty, damaged or of another format, has no rows, or lacks or
        repeats columns of the schema (all of them are named).
    """
    source = _open_source(path)
    count = Counter(source.names)
    wanted = [attribute.name for attribute in schema.attributes]
    absent = tuple(n for n in wanted if n in may_lack and not count[n.strip()])
    missing = [n for n in wanted if not count[n.strip()] and n not in absent]
    repeated = [n for n in wanted if count[n.strip()] > 1]
    if missing or repeated:
        raise DataError(_explain_columns(path, source.names, missing, repeated))
    if source.n_rows == 0:
        message = f"{path} has columns but no rows: export it again"
        raise DataError(message)
    known = {n.strip() for n in wanted}
    extra = tuple(name for name in source.names if name not in known)
    return Table(path, schema, source.n_rows, extra, absent, source.malformed, source)


def _open_source(path: Path) -> Source:
    name = path.name.lower()
    if name.endswith(CSV_SUFFIXES):
        return open_csv(path)
    if name.endswith(PARQUET_SUFFIXES):
        return open_parquet(path)
    if name.endswith(ARROW_SUFFIXES):
        return open_arrow(path)
    suffixes = " ".join((*CSV_SUFFIXES, *PARQUET_SUFFIXES, *ARROW_SUFFIXES))
    message = f"the format of {path} is not known by its suffix: rename or export it ({suffixes})"
    raise DataError(message)


def _explain_columns(
    path: Path, names: tuple[str, ...], missing: list[str], repeated: list[str]
) -> str:
    parts = []
    if missing:
        parts.append(f"lacks the columns {', '.join(missing)}")
    if repeated:
        parts.append(f"has more than one column called {', '.join(repeated)}")
    message = f"{path} {' and '.join(parts)}: correct its header, or the study's schema"
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        message += " (cells must be separated by commas)"
    folded = {name.casefold(): name for name in names}
    like = [f"{n} as {folded[n.casefold()]}" for n in missing if n.casefold() in folded]
    if like:
        message += f" (capital letters count; the file has {', '.join(like)})"
    return message
