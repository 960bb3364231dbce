"""Workbooks of Excel (``.xlsx``, ``.xlsm``): one sheet, whose header is one row of it.

Each cell has a value of its own, and no column has a type: a number is the shortest text of its
64 bits, a day or a time is ISO text, and text is read by the data set's `TextFormat` as in a text
file. What a cell shows does not count: 5 % is 0.05. A formula is the value that was stored with it;
an error such as ``#N/A`` is a missing value.

Every row after the header, up to the last one with a value, is a row of the data set, even if it is
blank. Hidden rows and rows that a filter hides count, too. python-calamine reads the sheet at once,
after its rectangle of cells was measured (`dppca.common.shell.sheets`).
"""

import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Attribute
from dppca.common.shell.packages import require_package
from dppca.common.shell.sheets import LARGEST_WHOLE, cell_text, require_readable
from dppca.owner.records.sources import Rows, Wanted
from dppca.owner.records.stored_files import StoredFile, reading
from dppca.owner.records.text_cells import usual_cells
from dppca.owner.records.text_format import TextFormat

MOST_CELLS: Final = 1 << 27
"""Largest rectangle of cells of a sheet, some 4 GB in memory: a million rows of 128 columns."""
_HEADERS_TRIED: Final = 20  # rows among which the header is sought


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
        names = tuple((cell_text(cell) or "").strip() for cell in found)
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
        try:
            require_readable(file.title, content, most_cells=MOST_CELLS)
            book = calamine.CalamineWorkbook.from_filelike(BytesIO(content))
            name = _chosen(file, book)
            rows = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
        except (calamine.CalamineError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
            raise pa.ArrowInvalid("damaged") from None
        yield _Sheet(one_line(name), rows)


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
    numbers = _array([cell_text(cell) if _is_number(cell) else None for cell in cells])
    others = [None if isinstance(cell, str) or _is_number(cell) else cell for cell in cells]
    # A number may be one of days, whose count the format states; it has no other marks.
    counts = replace(form, decimal=".", thousands="", missing=())
    return pc.coalesce(
        _array([*map(cell_text, others)]),
        usual_cells(counts, numbers, attribute),
        usual_cells(form, texts, attribute),
    )


def _array(texts: list[str | None]) -> pa.Array:
    return pa.array([None if each is None else each.encode() for each in texts], pa.large_binary())


def _require_exact(cells: Iterable[Any], title: str, key: str) -> None:
    """Raise `DataError` for a number of a key that a sheet may have rounded to another's."""
    if any(_is_number(cell) and abs(cell) >= LARGEST_WHOLE for cell in cells):
        raise DataError(
            f"{key} of {title} has numbers of 2^53 or more, which a sheet rounds, so that some "
            "stand for several people: write it as text in the system that it comes from"
        )


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)
