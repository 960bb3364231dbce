"""Tables of HTML: for the pages of reports, and for what notebooks show of values.

Every cell is text: nothing in it is markup, and what cannot be seen is written as an escape.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dppca.common.names import one_line


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
