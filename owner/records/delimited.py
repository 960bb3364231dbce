"""CSV files (also compressed as ``.csv.gz``), comma-separated, in UTF-8, with one header line.

Every cell is read as bytes; what it means is decided by `owner.records.columns` alone, not by
guesses from the first rows. pyarrow parses the file. It can skip or refuse a row with a wrong
number of fields, but not keep it, and on the release path no row may be dropped. So opening a
file parses it once to count its rows; where pyarrow refuses, the whole file is read by Python's
`csv` instead (slower, in the same bounded memory), under a public rule: fields that a row lacks
are missing, fields it has too many are ignored. `check` names such rows.

Blank lines are not rows, save in a file of one column, where they are missing values. A quote
that is never closed makes rows unrecognisable and is damage to the file: `DataError`.
"""

from __future__ import annotations

import csv
import gzip
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from common.errors import DataError
from owner.records.sources import Malformed, reading

CSV_SUFFIXES = (".csv", ".csv.gz")
_BLOCK_BYTES = 8 << 20
_CELL_BYTES = 64 << 20  # more is taken for a quote that is never closed
_NAMED_ROWS = 1000
_END = ["end\0of\0file"]


@dataclass(frozen=True, slots=True)
class CsvSource:
    """A CSV file; ``row_by_row`` where pyarrow cannot parse it."""

    path: Path
    names: tuple[str, ...]
    n_rows: int
    malformed: Malformed
    row_by_row: bool

    def read(self, positions: Sequence[int], batch_rows: int) -> Iterator[list[Any]]:
        """Arrays of the columns at ``positions``, at most ``batch_rows`` rows at a time."""
        if self.row_by_row:
            yield from self._read_row_by_row(positions, batch_rows)
            return
        # Opening found every row well-formed: if one is not, the file has changed since.
        with reading(self.path), _parsing(self.path, len(self.names), positions) as stream:
            for batch in stream:
                for start in range(0, batch.num_rows, batch_rows):
                    part = batch.slice(start, batch_rows)
                    yield [part.column(str(position)) for position in positions]

    def _read_row_by_row(self, positions: Sequence[int], batch_rows: int) -> Iterator[list[Any]]:
        rows = _rows(self.path, len(self.names))
        while part := list(itertools.islice(rows, batch_rows)):
            yield [
                pa.array(
                    [
                        row[position].encode("utf-8", "surrogateescape")
                        if position < len(row)
                        else None
                        for row in part
                    ],
                    pa.large_binary(),
                )
                for position in positions
            ]


def open_csv(path: Path) -> CsvSource:
    """Read the header, count the rows, and see whether each has as many fields as the header."""
    names, has_rows = _header(path)
    if not has_rows:
        return CsvSource(path, names, 0, Malformed(), row_by_row=False)
    # An odd number of quotes may be an unclosed one, which pyarrow would take for a long cell.
    n_rows = None if _odd_quotes(path) else _count_well_formed(path, len(names))
    if n_rows is not None:
        return CsvSource(path, names, n_rows, Malformed(), row_by_row=False)
    n_rows, malformed = _count_row_by_row(path, len(names))
    return CsvSource(path, names, n_rows, malformed, row_by_row=True)


def _header(path: Path) -> tuple[tuple[str, ...], bool]:
    """Column names, and whether a row follows."""
    with _text(path) as file:
        lines = csv.reader(file)
        header = next(lines, None)
        if header is None:
            message = f"the data file {path} is empty: export it again, with a header line"
            raise DataError(message)
        raw = [name.encode("utf-8", "surrogateescape") for name in header]
        if any(b"\0" in name for name in raw):
            message = f"{path} is not text in UTF-8: save it as CSV in UTF-8"
            raise DataError(message)
        has_rows = any(row or len(raw) == 1 for row in lines)
    names = tuple(name.decode("utf-8", "replace").strip() for name in raw)
    if not any(names):
        message = f"the first line of {path} is blank: it must name the columns"
        raise DataError(message)
    return names, has_rows


@contextmanager
def _parsing(path: Path, n_columns: int, positions: Sequence[int]) -> Iterator[Any]:
    """pyarrow's streaming parser; columns are called by their positions."""
    wanted = [str(position) for position in positions]
    compression = "gzip" if _is_compressed(path) else None
    with pa.input_stream(str(path), compression=compression) as file:
        stream = pa.csv.open_csv(
            file,
            read_options=pa.csv.ReadOptions(
                block_size=_BLOCK_BYTES,
                column_names=[str(position) for position in range(n_columns)],
                skip_rows_after_names=1,
            ),
            parse_options=pa.csv.ParseOptions(
                newlines_in_values=True, ignore_empty_lines=n_columns > 1
            ),
            convert_options=pa.csv.ConvertOptions(
                include_columns=wanted, column_types=dict.fromkeys(wanted, pa.large_binary())
            ),
        )
        with stream:
            yield stream


def _count_well_formed(path: Path, n_columns: int) -> int | None:
    """Rows by pyarrow's count; None where it cannot parse the file."""
    try:
        with _parsing(path, n_columns, [0]) as stream:
            n_rows: int = sum(batch.num_rows for batch in stream)
            return n_rows
    except (pa.ArrowException, OSError):
        # The slower parser finds out which row is at fault, or that the file is damaged.
        return None


def _odd_quotes(path: Path) -> bool:
    count = 0
    with reading(path), _bytes(path) as file:
        while block := file.read(_BLOCK_BYTES):
            count += block.count(b'"')
    return count % 2 == 1


def _count_row_by_row(path: Path, n_columns: int) -> tuple[int, Malformed]:
    n_rows = n_malformed = 0
    named: list[int] = []
    for row in _rows(path, n_columns):
        n_rows += 1
        if len(row) != n_columns:
            n_malformed += 1
            if len(named) < _NAMED_ROWS:
                named.append(n_rows)
    return n_rows, Malformed(n_malformed, tuple(named))


def _rows(path: Path, n_columns: int) -> Iterator[list[str]]:
    """Data rows by Python's parser; bytes that are not UTF-8 are surrogates."""
    with _text(path) as file:
        last = None
        parsed = csv.reader(itertools.chain(file, _END))
        next(parsed)
        for row in parsed:
            if last is not None and (last or n_columns == 1):
                yield last or [""]
            last = row
    if last != _END:
        message = f"a quote is opened in {path} and never closed: export the file again"
        raise DataError(message)


@contextmanager
def _text(path: Path) -> Iterator[Any]:
    csv.field_size_limit(_CELL_BYTES)
    with (
        reading(path),
        (gzip.open if _is_compressed(path) else open)(
            path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline=""
        ) as file,
    ):
        yield file


def _bytes(path: Path) -> Any:
    return gzip.open(path, "rb") if _is_compressed(path) else path.open("rb")


def _is_compressed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"
