"""Workbooks of Excel (``.xlsx``): what is refused before one is read, small ones as text, written.

python-calamine reads a sheet at once and sets memory aside for the whole rectangle up to the
farthest cell, so that one stray cell could end the process. So the rectangle is measured first.

It does not write, and no package that a site has does. Two sheets of plain cells are the few parts
of XML below, with equal bytes for equal sheets; openpyxl or XlsxWriter would be one more package at
every site for these lines. Tests read them back with python-calamine.
"""

import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from io import BytesIO
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from dppca.common.kernel.errors import DataError
from dppca.common.shell.packages import require_package

MOST_TEXT_CELLS: Final = 1 << 21
"""Largest rectangle of a sheet that is read as text, some 0.2 GB in memory."""
LARGEST_WHOLE: Final = 2.0**53
"""Largest number that a sheet may hold unrounded."""
Cell = str | int | float | None
Sheets = Mapping[str, Sequence[Sequence[Cell]]]
"""Rows of cells by the name of their sheet."""

_SCAN_BYTES: Final = 1 << 20  # read at once
_PLACE: Final = re.compile(rb'<(?:\w+:)?(?:c|row)\s[^>]*?\br="([A-Z]{0,3})([0-9]{1,7})"')
_LONGEST_TAG: Final = 256  # bytes that two parts share, so that no cell is cut
_LEGACY: Final = b"\xd0\xcf\x11\xe0"  # what an encrypted workbook is packed in
_MAIN: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_LINKS: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKED: Final = "http://schemas.openxmlformats.org/package/2006"
_KIND: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_NO_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def require_readable(title: str, content: bytes, *, most_cells: int) -> None:
    """Raise `DataError` for a protected workbook, or one with a larger rectangle of cells."""
    if content.startswith(_LEGACY):
        raise DataError(
            f"{title} is protected by a password, or of Excel before 2007: save it as .xlsx "
            "without one"
        )
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
            if last_row * last_column > most_cells:
                raise DataError(
                    f"a sheet of {title} reaches to row {last_row} and column {last_column}, more "
                    f"than {most_cells} cells: delete stray cells far from the table, or save it "
                    "as CSV in UTF-8"
                )


def cell_text(cell: Any) -> str | None:
    """Return the text of a cell's value; None for an empty cell."""
    if cell is None or isinstance(cell, str):
        return cell or None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and cell.is_integer() and abs(cell) <= LARGEST_WHOLE:
        return str(int(cell))
    if isinstance(cell, (date, datetime)):
        return cell.isoformat()
    return str(cell)


def read_sheets(title: str, content: bytes) -> dict[str, list[list[str]]]:
    """Return the cells of all sheets as text without outer blanks, by the sheet's name.

    Raise `DataError` if it is no workbook, or too large.
    """
    calamine = require_package("python_calamine", purpose=f"a workbook such as {title}")
    try:
        require_readable(title, content, most_cells=MOST_TEXT_CELLS)
        book = calamine.CalamineWorkbook.from_filelike(BytesIO(content))
        return {
            name: [
                [(cell_text(cell) or "").strip() for cell in row]
                for row in book.get_sheet_by_name(name).to_python(skip_empty_area=False)
            ]
            for name in book.sheet_names
        }
    except (calamine.CalamineError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
        raise DataError(f"{title} is no workbook that can be read: save it as .xlsx") from None


def write_sheets(sheets: Sheets) -> bytes:
    """Return a workbook; a text is never a formula, and a character that XML lacks is a blank."""
    names = range(1, len(sheets) + 1)
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKED}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_KIND}.sheet.main+xml"/>'
        + "".join(
            f'<Override PartName="/xl/worksheets/sheet{n}.xml" '
            f'ContentType="{_KIND}.worksheet+xml"/>'
            for n in names
        )
        + "</Types>",
        "_rels/.rels": _relations([(f"{_LINKS}/officeDocument", "xl/workbook.xml")]),
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_LINKS}"><sheets>'
        + "".join(
            f'<sheet name={quoteattr(_plain(name))} sheetId="{n}" r:id="r{n}"/>'
            for n, name in zip(names, sheets, strict=True)
        )
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": _relations(
            [(f"{_LINKS}/worksheet", f"worksheets/sheet{n}.xml") for n in names]
        ),
    }
    for n, rows in zip(names, sheets.values(), strict=True):
        lines = "".join(f"<row>{''.join(map(_written, cells))}</row>" for cells in rows)
        parts[f"xl/worksheets/sheet{n}.xml"] = (
            f'<worksheet xmlns="{_MAIN}"><sheetData>{lines}</sheetData></worksheet>'
        )
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            entry = zipfile.ZipInfo(name)  # of a fixed time: equal sheets are equal bytes
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, '<?xml version="1.0" encoding="UTF-8"?>' + text)
    return packed.getvalue()


def _relations(links: Iterable[tuple[str, str]]) -> str:
    said = "".join(
        f'<Relationship Id="r{n}" Type="{kind}" Target="{place}"/>'
        for n, (kind, place) in enumerate(links, start=1)
    )
    return f'<Relationships xmlns="{_PACKED}/relationships">{said}</Relationships>'


def _written(cell: Cell) -> str:
    if cell is None or cell == "":
        return "<c/>"
    if isinstance(cell, str):
        return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(_plain(cell))}</t></is></c>'
    return f"<c><v>{cell!r}</v></c>"


def _plain(text: str) -> str:
    return _NO_XML.sub(" ", text)


def _number_of_column(letters: bytes) -> int:
    """Return 1 for ``A``, 27 for ``AA``; 0 without letters."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number
