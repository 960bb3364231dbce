"""CSV files (also compressed as ``.csv.gz``), comma-separated, in UTF-8, with one header line.

Every cell is read as bytes; what it means is decided by `owner.records.columns` alone, not by
guesses from the first rows. pyarrow parses the file. It can skip or refuse a row with a wrong
number of fields, but not keep it, and on the release path no row may be dropped. So opening a
file parses it once to count its rows, converting none of its cells; where pyarrow refuses, the
whole file is read by Python's `csv` instead (slower, in the same bounded memory), under a public
rule: fields that a row lacks are missing, fields it has too many are ignored. `check` names such
rows.

Where a file has no quote at all no cell holds a line break: blocks are then cut at line ends
instead of being parsed to find where rows end.

Blank lines are not rows, save in a file of one column, where they are missing values. A quote
that is never closed makes rows unrecognisable and is damage to the file: `DataError`.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from common.errors import DataError
from owner.records.sources import Malformed, reading

CSV_SUFFIXES = (".csv", ".csv.gz")
# pyarrow keeps 32 of them read ahead. A longer row is read by Python's parser.
_BLOCK_BYTES = 2 << 20
_COUNTED_BYTES = 256 << 10  # at a time: what stays in the cache
_QUOTE = ord('"')
_CELL_BYTES = 64 << 20  # more is taken for a quote that is never closed
_NAMED_ROWS = 1000
_END = ["end\0of\0file"]


@dataclass(frozen=True, slots=True)
class CsvSource:
    """A CSV file.

    Attributes
    ----------
    plain
        Whether it has no quote.
    row_by_row
        Where pyarrow cannot parse it.
    """

    path: Path
    names: tuple[str, ...]
    n_rows: int
    malformed: Malformed
    plain: bool
    row_by_row: bool

    def read(
        self,
        positions: Sequence[int],
        batch_rows: int,
        *,
        labels: Collection[int] = (),  # noqa: ARG002 - the format lists no texts
    ) -> Iterator[list[Any]]:
        """Arrays of the columns at ``positions``, at most ``batch_rows`` rows at a time."""
        if self.row_by_row:
            yield from self._read_row_by_row(positions, batch_rows)
            return
        # Opening found every row well-formed: if one is not, the file has changed since.
        with (
            reading(self.path),
            _parsing(self.path, len(self.names), positions, plain=self.plain) as stream,
        ):
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
        return CsvSource(path, names, 0, Malformed(), plain=True, row_by_row=False)
    for plain in (True, False):
        n_rows = _count_well_formed(path, len(names), plain=plain)
        if n_rows is not None:
            return CsvSource(path, names, n_rows, Malformed(), plain=plain, row_by_row=False)
    n_rows, malformed = _count_row_by_row(path, len(names))
    return CsvSource(path, names, n_rows, malformed, plain=False, row_by_row=True)


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
def _parsing(path: Path, n_columns: int, positions: Sequence[int], *, plain: bool) -> Iterator[Any]:
    compression = "gzip" if _is_compressed(path) else None
    with (
        pa.input_stream(str(path), compression=compression) as file,
        _parsed(file, n_columns, positions, plain=plain) as stream,
    ):
        yield stream


def _parsed(file: Any, n_columns: int, positions: Sequence[int], *, plain: bool) -> Any:
    """pyarrow's streaming parser; columns are called by their positions."""
    wanted = [str(position) for position in positions]
    return pa.csv.open_csv(
        file,
        read_options=pa.csv.ReadOptions(
            block_size=_BLOCK_BYTES,
            column_names=[str(position) for position in range(n_columns)],
            skip_rows_after_names=1,
        ),
        parse_options=pa.csv.ParseOptions(
            newlines_in_values=not plain,
            quote_char=False if plain else '"',
            double_quote=not plain,
            ignore_empty_lines=n_columns > 1,
        ),
        convert_options=pa.csv.ConvertOptions(
            include_columns=wanted, column_types=dict.fromkeys(wanted, pa.large_binary())
        ),
    )


def _count_well_formed(path: Path, n_columns: int, *, plain: bool) -> int | None:
    """Rows by pyarrow's count; None where it cannot parse the file, or it is not ``plain``."""
    n_rows = 0
    try:
        with _bytes(path) as raw, _parsed(raw, n_columns, [0], plain=plain) as stream:
            for batch in stream:
                n_rows += batch.num_rows
                if plain and raw.n_quotes:
                    return None
    except (pa.ArrowException, OSError, EOFError, zlib.error):
        # The slower parser finds out which row is at fault, or that the file is damaged.
        return None
    # An odd number of quotes may be an unclosed one, which pyarrow would take for a long cell.
    refused = raw.n_quotes if plain else raw.n_quotes % 2
    return None if refused else n_rows


class _CountedQuotes(io.RawIOBase):
    """The bytes of a file, read once from its start, and how many quotes were among them."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.n_quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block: bytes = self._file.read(size)
        for start in range(0, len(block), _COUNTED_BYTES):
            part = np.frombuffer(block, np.uint8, min(_COUNTED_BYTES, len(block) - start), start)
            self.n_quotes += int(np.count_nonzero(part == _QUOTE))
        return block

    def close(self) -> None:
        self._file.close()
        super().close()


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


def _bytes(path: Path) -> _CountedQuotes:
    return _CountedQuotes(gzip.open(path, "rb") if _is_compressed(path) else path.open("rb"))


def _is_compressed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"
