"""Workbooks of Excel (``.xlsx``, ``.xlsm``): one sheet, whose header is one row of it.

Each cell has a value of its own, and no column has a type: a number is the shortest text of its
64 bits, a day or a time is ISO text, and text is read by the data set's `TextFormat` as in a text
file. What a cell shows does not count: 5 % is 0.05. A formula is the value that was stored with it;
an error such as ``#N/A`` is a missing value.

Every row after the header, up to the last one with a value, is a row of the data set, even if it is
blank. Hidden rows and rows that a filter hides count, too. python-calamine reads the sheet at once;
it sets memory aside for the whole rectangle up to the farthest cell, so that one stray cell could
end the process. So the rectangle is measured first.
"""

import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Attribute
from dppca.common.shell.packages import require_package
from dppca.owner.records.sources import Rows, Wanted
from dppca.owner.records.stored_files import StoredFile, reading
from dppca.owner.records.text_cells import usual_cells
from dppca.owner.records.text_format import TextFormat

MOST_CELLS: Final = 1 << 27
"""Largest rectangle of cells of a sheet, some 4 GB in memory: a million rows of 128 columns."""
_SCAN_BYTES: Final = 1 << 20  # read at once
_PLACE: Final = re.compile(rb'<(?:\w+:)?(?:c|row)\s[^>]*?\br="([A-Z]{0,3})([0-9]{1,7})"')
_LONGEST_TAG: Final = 256  # bytes that two parts share, so that no cell is cut
_LEGACY: Final = b"\xd0\xcf\x11\xe0"  # what an encrypted workbook is packed in
_HEADERS_TRIED: Final = 20  # rows among which the header is sought
_LARGEST_WHOLE: Final = 2.0**53  # from which on float64 leaves out whole numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkbookRows(Rows):
    """One sheet of a workbook."""

    file: StoredFile

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Read columns (`Rows.read`)."""
        form = self.file.text_format
        with _opened(self.file) as sheet:
            rows = sheet.rows[form.header :]
            positions = [self.names.index(name) for name in wanted.names]
            for start in range(0, len(rows), wanted.batch_rows):
                batch = rows[start : start + wanted.batch_rows]
                if wanted.key in wanted.names:
                    at = self.names.index(wanted.key)
                    _require_exact((row[at] for row in batch), self.file.title, wanted.key)
                yield [
                    _column(form, [row[at] for row in batch], wanted.attributes.get(name))
                    for name, at in zip(wanted.names, positions, strict=True)
                ]


def open_workbook(file: StoredFile) -> WorkbookRows:
    """Find the sheet and its header row, and count the rows."""
    require_package("python_calamine", purpose=f"a workbook such as {file.title}")
    header = file.text_format.header
    with _opened(file) as sheet:
        filled = [sum(cell != "" for cell in row) for row in sheet.rows[:_HEADERS_TRIED]]
        if len(sheet.rows) < header or not any(cell != "" for cell in sheet.rows[header - 1]):
            found = None
        else:
            found = sheet.rows[header - 1]
        widest = max(filled, default=0)
        if found is None or (header == 1 and filled[0] == 1 and widest > 1):
            advice = (
                f"`header: {filled.index(widest) + 1}` in `format`, if the names are there"
                if widest
                else "the sheet is blank there"
            )
            raise DataError(
                f"row {header} of sheet {sheet.name} of {file.title} does not name the columns: "
                f"{advice}"
            )
        names = tuple((_text(cell) or "").strip() for cell in found)
        return WorkbookRows(
            file=file,
            names=names,
            n_rows=len(sheet.rows) - header,
            is_named_by_a_line=True,
        )


@dataclass(frozen=True, slots=True)
class _Sheet:
    """Cells of a sheet, row by row, each row of the same length; an empty cell is empty text."""

    name: str
    rows: list[list[Any]]


@contextmanager
def _opened(file: StoredFile) -> Iterator[_Sheet]:
    import python_calamine as calamine

    with reading(file.title):
        with file.open_stream() as stream:
            content = stream.read()
        _require_open(file.title, content)
        try:
            _require_size(file.title, content)
            book = calamine.CalamineWorkbook.from_filelike(BytesIO(content))
            name = _chosen(file, book)
            rows = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
        except (calamine.CalamineError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
            raise pa.ArrowInvalid("damaged") from None
        yield _Sheet(one_line(name), rows)


def _require_open(title: str, content: bytes) -> None:
    if content.startswith(_LEGACY):
        raise DataError(
            f"{title} is protected by a password, or of Excel before 2007: save it as .xlsx "
            "without one"
        )


def _require_size(title: str, content: bytes) -> None:
    """Raise `DataError` if the farthest cells of a sheet span too large a rectangle."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        for entry in archive.infolist():
            last_row = last_column = 1
            held = b""
            with archive.open(entry) as part:
                while chunk := part.read(_SCAN_BYTES):
                    held = held[-_LONGEST_TAG:] + chunk
                    for column, row in _PLACE.findall(held):
                        last_row = max(last_row, int(row))
                        last_column = max(last_column, _number_of_column(column))
            if last_row * last_column > MOST_CELLS:
                raise DataError(
                    f"a sheet of {title} reaches to row {last_row} and column {last_column}, more "
                    f"than {MOST_CELLS} cells: delete stray cells far from the table, or save it "
                    "as CSV in UTF-8"
                )


def _number_of_column(letters: bytes) -> int:
    """Return 1 for ``A``, 27 for ``AA``; 0 without letters."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


def _chosen(file: StoredFile, book: Any) -> str:
    """Return the name of the sheet: the stated one, or the only one with values that is shown."""
    stated = file.text_format.sheet
    if stated:
        if stated not in book.sheet_names:
            raise DataError(
                f"{file.title} has no sheet {one_line(stated)}; its sheets: "
                f"{', '.join(map(one_line, book.sheet_names))}"
            )
        return stated
    import python_calamine as calamine

    shown = [
        each.name
        for each in book.sheets_metadata
        if each.visible == calamine.SheetVisibleEnum.Visible
        and each.typ == calamine.SheetTypeEnum.WorkSheet
    ]
    filled = [name for name in shown if book.get_sheet_by_name(name).height]
    if len(filled) == 1:
        return str(filled[0])
    if not filled:
        raise DataError(f"{file.title} has no sheet with values: save the table in it")
    raise DataError(
        f"{file.title} has several sheets ({', '.join(map(one_line, filled))}): name one as "
        "`sheet` in `format`"
    )


def _column(form: TextFormat, cells: list[Any], attribute: Attribute | None) -> pa.Array:
    """Return cells as a text file in the usual form has them; shape (n_rows,), large binary."""
    texts = _array([cell if isinstance(cell, str) and cell else None for cell in cells])
    numbers = _array([_text(cell) if _is_number(cell) else None for cell in cells])
    others = [None if isinstance(cell, str) or _is_number(cell) else cell for cell in cells]
    # A number may be one of days, whose count the format states; it has no other marks.
    counts = replace(form, decimal=".", thousands="", missing=())
    return pc.coalesce(
        _array([*map(_text, others)]),
        usual_cells(counts, numbers, attribute),
        usual_cells(form, texts, attribute),
    )


def _array(texts: list[str | None]) -> pa.Array:
    return pa.array([None if each is None else each.encode() for each in texts], pa.large_binary())


def _require_exact(cells: Iterable[Any], title: str, key: str) -> None:
    """Raise `DataError` for a number of a key that a sheet may have rounded to another's."""
    if any(_is_number(cell) and abs(cell) >= _LARGEST_WHOLE for cell in cells):
        raise DataError(
            f"{key} of {title} has numbers of 2^53 or more, which a sheet rounds, so that some "
            "stand for several people: write it as text in the system that it comes from"
        )


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _text(cell: Any) -> str | None:
    """Return the text of a cell's value; None for an empty cell."""
    if cell is None or isinstance(cell, str):
        return cell or None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and cell.is_integer() and abs(cell) <= _LARGEST_WHOLE:
        return str(int(cell))
    if isinstance(cell, (date, datetime)):
        return cell.isoformat()
    return str(cell)
