"""Workbooks as Excel saves them, written by hand: every cell with its own type and format."""

import datetime as dt
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

_SPACE = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKED = "http://schemas.openxmlformats.org/package/2006"
_KINDS = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_STYLES = f"""<styleSheet {_SPACE}><fonts count="1"><font/></fonts><fills count="1"><fill/></fills>
<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>
<cellXfs count="4"><xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/>
<xf numFmtId="22" applyNumberFormat="1"/><xf numFmtId="9" applyNumberFormat="1"/></cellXfs>
</styleSheet>"""

Rows = Sequence[Sequence[Any]]


class Error(str):
    """A cell that holds an error, such as ``#N/A``."""

    __slots__ = ()


class Percent(float):
    """A number that is shown as percent."""

    __slots__ = ()


def write_workbook(path: Path, sheets: Mapping[str, Rows], *, hidden: Sequence[str] = ()) -> Path:
    """Write sheets of cells: text, numbers, truth values, days, times, `Error`, `Percent`, None."""
    parts = {"xl/styles.xml": _STYLES}
    listed, links, kinds = [], [], []
    for number, (name, rows) in enumerate(sheets.items(), start=1):
        state = ' state="hidden"' if name in hidden else ""
        listed.append(f'<sheet name={quoteattr(name)} sheetId="{number}" r:id="r{number}"{state}/>')
        links.append(
            f'<Relationship Id="r{number}" Type="{_LINKS}/worksheet" '
            f'Target="worksheets/sheet{number}.xml"/>'
        )
        part = f"xl/worksheets/sheet{number}.xml"
        kinds.append(f'<Override PartName="/{part}" ContentType="{_KINDS}.worksheet+xml"/>')
        lines = "".join(_row(number, cells) for number, cells in enumerate(rows, start=1))
        parts[part] = f"<worksheet {_SPACE}><sheetData>{lines}</sheetData></worksheet>"
    links.append(f'<Relationship Id="s" Type="{_LINKS}/styles" Target="styles.xml"/>')
    parts["xl/workbook.xml"] = (
        f'<workbook {_SPACE} xmlns:r="{_LINKS}"><sheets>{"".join(listed)}</sheets></workbook>'
    )
    parts["xl/_rels/workbook.xml.rels"] = _relations("".join(links))
    parts["_rels/.rels"] = _relations(
        f'<Relationship Id="b" Type="{_LINKS}/officeDocument" Target="xl/workbook.xml"/>'
    )
    parts["[Content_Types].xml"] = (
        f'<Types xmlns="{_PACKED}/content-types"><Default Extension="rels" '
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_KINDS}.sheet.main+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{_KINDS}.styles+xml"/>'
        f"{''.join(kinds)}</Types>"
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + text)
    return path


def _relations(links: str) -> str:
    return f'<Relationships xmlns="{_PACKED}/relationships">{links}</Relationships>'


def _row(number: int, cells: Sequence[Any]) -> str:
    found = "".join(_cell(_place(number, at), cell) for at, cell in enumerate(cells))
    return f'<row r="{number}">{found}</row>'


def _place(row: int, at: int) -> str:
    letters = ""
    at += 1
    while at:
        at, letter = divmod(at - 1, 26)
        letters = chr(65 + letter) + letters
    return f"{letters}{row}"


def _cell(place: str, cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, Error):
        return f'<c r="{place}" t="e"><v>{cell}</v></c>'
    if isinstance(cell, bool):
        return f'<c r="{place}" t="b"><v>{int(cell)}</v></c>'
    if isinstance(cell, str):
        text = escape(cell)
        return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
    style = 0
    if isinstance(cell, dt.datetime):
        since = cell - dt.datetime(1899, 12, 30)  # noqa: DTZ001 - a sheet has no zones
        cell, style = since.days + since.seconds / 86400, 2
    elif isinstance(cell, dt.date):
        cell, style = (cell - dt.date(1899, 12, 30)).days, 1
    elif isinstance(cell, Percent):
        style = 3
    return f'<c r="{place}" s="{style}"><v>{float(cell)!r}</v></c>'
