"""CSV and other text files (also compressed), with one header line.

Their `TextFormat` says which line that is, what separates cells, and how letters, numbers and dates
are written. Of an encoding other than UTF-8 each byte is a letter: whole lines are brought into
UTF-8, and a byte that stands for none stays as it is, which is then not UTF-8.

Each line after the header is one row, even if it is malformed (`dppca.owner.records.lines`): blank
lines, and lines that leave a quote open, are rows too. No line changes how another one is read, and
the number of rows does not depend on their content. Missing fields of a row are missing values,
surplus fields are ignored, a line is read up to `LINE_BYTES`. `check` reports such rows.

Every cell is read as bytes and brought into the usual form (`text_cells`); only
`dppca.common.kernel.schema.columns` interprets it. The file is
read in blocks of whole lines. pyarrow parses the blocks that allow only one reading, and refuses
those with a wrong number of fields; the others are parsed line by line, with the same result for
lines that both can parse.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv

from dppca.common.kernel.errors import DataError
from dppca.owner.records.lines import LINE_BYTES, Lines, blocks_of_lines, split_fields, split_lines
from dppca.owner.records.source_facts import FaultCount, LineFault, SourceFacts
from dppca.owner.records.sources import Rows, Wanted
from dppca.owner.records.stored_files import StoredFile, reading
from dppca.owner.records.text_cells import usual_cells
from dppca.owner.records.text_format import HEADER_LINE, UTF_8

_BLOCK_BYTES = 2 << 20  # parsed at once
_NAMED_ROWS = 1000  # numbers of rows kept for each fault
_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|[\r\n]")
_OTHERS = {
    b"\x1f\x8b": "packed by gzip: name it .csv.gz",
    b"PK\x03\x04": "a workbook or another packed file: name it .xlsx, or unpack it",
    b"PAR1\x15": "Parquet: name it .parquet",
    b"$FL2@(#)": "a file of SPSS: name it .sav",
}
"""First bytes of files that are no text, whatever their names say: no line of them is a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvRows(Rows):
    """A CSV file.

    ``by_line`` are numbers of the blocks, from 0, that pyarrow must not parse.
    """

    file: StoredFile
    by_line: frozenset[int]

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Read columns block by block (`Rows.read`)."""
        width, positions = len(self.names), [self.names.index(name) for name in wanted.names]
        with _opened(self.file) as (_, blocks):
            form = self.file.text_format
            mark = form.delimiter.encode()
            for index, block in enumerate(blocks):
                arrays = None
                if index not in self.by_line:
                    arrays = _parsed(block, width, positions, mark)
                if arrays is None:
                    arrays = _parsed_by_line(block, positions, mark)
                arrays = [
                    usual_cells(form, array, wanted.attributes.get(name))
                    for name, array in zip(wanted.names, arrays, strict=True)
                ]
                for start in range(0, len(arrays[0]), wanted.batch_rows):
                    yield [array.slice(start, wanted.batch_rows) for array in arrays]


def open_csv(file: StoredFile) -> CsvRows:
    """Read the header, count the rows, and find those that are malformed."""
    n_rows, mark = 0, file.text_format.delimiter.encode()
    by_line: set[int] = set()
    faults: dict[LineFault, FaultCount] = {}
    with _opened(file) as (header, blocks):
        names = _names(file.title, header, mark)
        for index, block in enumerate(blocks):
            lines = split_lines(block, mark)
            sound = _is_sound(block, lines, len(names), mark)
            if not sound:
                by_line.add(index)
            if not sound or not _is_utf8(block):
                for number, line in enumerate(block.splitlines(), start=n_rows + 1):
                    fault = _fault(line, len(names), mark)
                    if fault is not None:
                        faults[fault] = faults.get(fault, FaultCount()).extended(
                            (number,), _NAMED_ROWS
                        )
            n_rows += lines.count
    return CsvRows(
        file=file,
        names=names,
        n_rows=n_rows,
        facts=SourceFacts(malformed=faults),
        is_named_by_a_line=True,
        by_line=frozenset(by_line),
    )


def _is_sound(block: bytes, lines: Lines, n_columns: int, mark: bytes) -> bool:
    """True if pyarrow has only one way to parse the block, and each line has all fields."""
    if len(block) > LINE_BYTES or block.startswith(_MARK) or not lines.strictly_quoted:
        return False
    if lines.any_blank and n_columns > 1:  # which pyarrow takes for a line of empty fields
        return False
    parsed = _parsed(block, n_columns, [0], mark)
    return parsed is not None and len(parsed[0]) == lines.count


def _names(title: str, header: bytes, mark: bytes) -> tuple[str, ...]:
    fields, closed = split_fields(header, header.count(mark) + 1, mark)
    if b"\0" in header:
        raise DataError(f"{title} is not text in UTF-8: save it so, as CSV")
    if not closed:
        raise DataError(
            f"the first line of {title} leaves a quote open: name the columns in one line"
        )
    names = tuple(name.decode("utf-8", "replace").strip() for name in fields)
    if not any(names):
        raise DataError(
            f"the first line of {title} is blank: it must name the columns. If a line below does, "
            f"say which by `header` in the format, such as {HEADER_LINE}"
        )
    return names


def _parsed(
    block: bytes, n_columns: int, positions: Sequence[int], mark: bytes
) -> list[Any] | None:
    """Cells by pyarrow; None if it refuses the block."""
    names = [str(position) for position in positions]
    quoted = b'"' in block
    try:
        batches = pa.csv.read_csv(
            pa.py_buffer(block),
            read_options=pa.csv.ReadOptions(
                block_size=len(block) + 1,
                column_names=[str(position) for position in range(n_columns)],
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=mark.decode(),
                quote_char='"' if quoted else False,
                double_quote=quoted,
                ignore_empty_lines=False,
            ),
            convert_options=pa.csv.ConvertOptions(
                include_columns=names, column_types=dict.fromkeys(names, pa.large_binary())
            ),
        ).to_batches()
    except pa.ArrowException:
        return None
    return batches[0].columns if len(batches) == 1 else None


def _parsed_by_line(block: bytes, positions: Sequence[int], mark: bytes) -> list[Any]:
    n_fields = max(positions) + 1
    cells: list[list[bytes | None]] = [[] for _ in positions]
    for line in block.splitlines():
        fields, _ = split_fields(line[:LINE_BYTES], n_fields, mark)
        for column, position in zip(cells, positions, strict=True):
            column.append(fields[position] if position < len(fields) else None)
    return [pa.array(column, pa.large_binary()) for column in cells]


def _fault(line: bytes, n_columns: int, mark: bytes) -> LineFault | None:
    if len(line) > LINE_BYTES:
        return LineFault.TOO_LONG
    fields, closed = split_fields(line, n_columns, mark)
    if not closed:
        return LineFault.OPEN_QUOTE
    if len(fields) != n_columns:
        return LineFault.FIELDS
    return None if _is_utf8(line) else LineFault.ENCODING


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


@contextmanager
def _opened(stored: StoredFile) -> Iterator[tuple[bytes, Iterator[bytes]]]:
    """Yield the header line, and the lines after it in blocks."""
    title = stored.title
    with reading(title), stored.open_stream() as file:
        blocks = _after_titles(blocks_of_lines(file, _BLOCK_BYTES), stored)
        first = next(blocks, b"").removeprefix(_MARK)
        if not first:
            raise DataError(f"the data file {title} is empty: export it again, with a header line")
        end = _LINE_END.search(first)
        header, rest = (first[: end.start()], first[end.end() :]) if end else (first, b"")
        if len(header) > LINE_BYTES:
            raise DataError(
                f"the first line of {title} is longer than {LINE_BYTES} bytes: is this CSV?"
            )
        yield header, (block for part in ([rest], blocks) for block in part if block)


def _after_titles(blocks: Iterator[bytes], stored: StoredFile) -> Iterator[bytes]:
    """Blocks from the header on, in UTF-8."""
    form, n_skipped = stored.text_format, 0
    for number, block in enumerate(blocks):
        for start, cure in _OTHERS.items():
            if number == 0 and block.startswith(start):
                raise DataError(f"{stored.title} is {cure}")
        if number == 0 and form.encoding != UTF_8 and block.startswith(_MARK):
            raise DataError(
                f"{stored.title} begins as a file in UTF-8 does: leave `encoding` out of its format"
            )
        while n_skipped < form.header - 1:
            end = _LINE_END.search(block)
            if end is None:
                block = b""
                break
            block, n_skipped = block[end.end() :], n_skipped + 1
        if block and form.encoding != UTF_8:
            text = block.decode(form.encoding, "surrogateescape")
            block = text.encode("utf-8", "surrogateescape")
        if block:
            yield block
