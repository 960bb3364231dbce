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

import numpy as np

from dppca.common.errors import DataError, SettingError
from dppca.common.schema import Column, Numeric, Schema
from dppca.owner.records.columns import absent_column, parse_column
from dppca.owner.records.delimited import CSV_SUFFIXES, open_csv
from dppca.owner.records.sources import (
    ARROW_SUFFIXES,
    PARQUET_SUFFIXES,
    Malformed,
    Source,
    open_arrow,
    open_parquet,
)

_CODED_VALUES_PER_BATCH = 1 << 22
_SHOWN = 20  # columns in a message


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
        Rows of a CSV file that are not as its header says.
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

        A batch has ``batch_rows`` rows, and the last one the rest, however the file's own blocks
        are cut: a row's place follows from its number alone, and not from what other rows hold.

        Parameters
        ----------
        batch_rows
            By default as many as make four million coded values, and 65,536 at most.

        Yields
        ------
        list of ndarray, shape (n_batch,)
            One per attribute in the schema's order, as `parse_column` makes them; 1 <= n_batch.

        Raises
        ------
        DataError
            The file is damaged, or no longer has the rows it had.
        """
        if batch_rows is None:
            batch_rows = max(
                1, min(1 << 16, _CODED_VALUES_PER_BATCH // self.schema.layout.n_columns)
            )
        parts: list[list[Column]] = []
        held = 0
        for cells in self.cells(batch_rows):
            columns, start = cells.columns(), 0
            if held + cells.n_rows >= batch_rows:
                start = batch_rows - held
                yield _joined([*parts, [column[:start] for column in columns]])
                parts, held = [], 0
            if start < cells.n_rows:
                parts.append([column[start:] for column in columns])
                held += cells.n_rows - start
        if parts:
            yield _joined(parts)

    def cells(self, batch_rows: int) -> Generator[CellBatch, None, None]:
        """Read the file once, without converting what is read; raises as `batches` does.

        At most ``batch_rows`` rows at a time, as the file's blocks are cut: only for sums that are
        the same integers for any batches.
        """
        if batch_rows < 1:
            raise SettingError(f"batch_rows is {batch_rows}; it must be at least 1")
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
            yield CellBatch(self.schema, n_batch, named)
        if n_rows != self.n_rows:
            raise DataError(
                f"{self.path} had {self.n_rows} rows when it was opened and {n_rows} when it was "
                "read: do not write to it meanwhile"
            )


@dataclass(frozen=True, slots=True)
class CellBatch:
    """A batch as it was read: Arrow arrays by attribute, none for those that are absent."""

    schema: Schema
    n_rows: int
    arrays: Mapping[str, Any]

    def columns(self, *, told_apart: bool = True) -> list[Column]:
        """What `encode` takes: one array of shape (n_rows,) per attribute, as of `parse_column`."""
        return [
            parse_column(a, self.arrays[a.name], told_apart=told_apart)
            if a.name in self.arrays
            else absent_column(a, self.n_rows)
            for a in self.schema.attributes
        ]


def _joined(parts: list[list[Column]]) -> list[Column]:
    if len(parts) == 1:
        return parts[0]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


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
    names_needed = [attribute.name for attribute in schema.attributes]
    absent = tuple(n for n in names_needed if n in may_lack and not count[n.strip()])
    missing = [n for n in names_needed if not count[n.strip()] and n not in absent]
    repeated = [n for n in names_needed if count[n.strip()] > 1]
    if missing or repeated:
        explained = _explain_columns(path, source.names, missing, repeated)
        raise DataError(f"{explained}. {_describe_columns(path, source.names, names_needed)}")
    if source.n_rows == 0:
        raise DataError(f"{path} has columns but no rows: export it again")
    known = {n.strip() for n in names_needed}
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
    raise DataError(
        f"the format of {path} is not known by its suffix: rename or export it ({suffixes})"
    )


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


def _describe_columns(path: Path, names: tuple[str, ...], wanted: list[str]) -> str:
    """The names of a file's columns; silent about a first line that may be a row, and no header.

    One value of a row may be an attribute's name by chance; half of the names will not be there.
    """
    n_matches = len({n.strip().casefold() for n in wanted} & {n.casefold() for n in names})
    if 2 * n_matches < len(wanted) and path.name.lower().endswith(CSV_SUFFIXES):
        return (
            f"Its first line has {n_matches} of the schema's {len(wanted)} names: is that line a "
            "header?"
        )
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"It has the columns {', '.join(names[:_SHOWN])}{more}"
