"""Tables of text that fit into a terminal, and tables of HTML for reports and notebooks.

A table of text is drawn in aligned columns where these fit; else each row becomes a few lines, its
first cell and then the others with the names of their columns. Only tables are folded: a command in
a sentence is to be copied in one piece. What does not go to a terminal is never folded. In HTML
every cell is text: nothing in it is markup, and what cannot be seen is written as an escape.
"""

import re
import textwrap
from collections.abc import Collection, Sequence
from html import escape

from dppca.common.kernel.documents.names import one_line

_DEEPER = "    "
_BETWEEN_CELLS = re.compile(r"(?<!\\) \| ")
_MARKDOWN_TABLE = re.compile(r"(?:^\| .* \|$\n?)+", re.MULTILINE)


def html_text(text: str) -> str:
    """Text of a page, or of an attribute in quotes."""
    return escape(one_line(text))


def html_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str | None = None
) -> str:
    """A table; ``names`` are of its columns, none for a table without a head."""
    above = "" if caption is None else f"<caption>{html_text(caption)}</caption>"
    head = "".join(f"<th>{html_text(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html_text(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if names else ""
    return f"<table>{above}{top}<tbody>{body}</tbody></table>"


def text_table(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None,
    right: Collection[int] = (),
) -> list[str]:
    """The lines of a table.

    ``names`` are those of the columns; ``right`` are columns of numbers, which are aligned to the
    right; ``width`` is the terminal's, None where there is none.
    """
    sizes = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(size) if place in right else cell.ljust(size)
            for place, (cell, size) in enumerate(zip(row, sizes, strict=True))
        ).rstrip()
        for row in (names, *rows)
    ]
    if width is None or max(map(len, lines)) <= width:
        return lines
    return [line for row in rows for line in _block(names, row, width)]


def fit_markdown(text: str, *, width: int | None) -> str:
    """Markdown with each of its tables as `text_table` draws it; as it is where there is no width.

    Tables have a line of names, a line of rules and at least one row.
    """
    if width is None:
        return text

    def draw(found: re.Match[str]) -> str:
        names, _, *rows = (
            [cell.replace("\\|", "|") for cell in _BETWEEN_CELLS.split(line[2:-2])]
            for line in found[0].splitlines()
        )
        return "".join(f"{line}\n" for line in text_table(names, rows, width=width))

    return _MARKDOWN_TABLE.sub(draw, text)


def _block(names: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """A row as its first cell, and the others under it with their names."""
    pairs = zip(names[1:], row[1:], strict=True)
    beside = ", ".join(f"{name} {cell}".strip() for name, cell in pairs if cell)
    indent = row[0][: len(row[0]) - len(row[0].lstrip())]
    return [
        line
        for words, before in ((row[0].strip(), indent), (beside, _DEEPER))
        for line in textwrap.wrap(
            words,
            width,
            initial_indent=before,
            subsequent_indent=_DEEPER,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
