"""Tables of text that fit into a terminal.

A table is drawn in aligned columns where these fit; else each row becomes a few lines, its first
cell and then the others with the names of their columns. Only tables are folded: a command in a
sentence is to be copied in one piece. What does not go to a terminal is never folded.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

_DEEPER = "    "


def text_table(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None,
    right: Collection[int] = (),
) -> list[str]:
    """The lines of a table.

    Parameters
    ----------
    names
        Of the columns.
    width
        Of the terminal; None where there is none.
    right
        Columns of numbers, which are aligned to the right.
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


def _block(names: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """A row as its first cell, and the others under it with their names."""
    pairs = zip(names[1:], row[1:], strict=True)
    beside = ", ".join(f"{name.strip()} {cell}" for name, cell in pairs if cell)
    deeper = textwrap.wrap(
        beside,
        width,
        initial_indent=_DEEPER,
        subsequent_indent=_DEEPER,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [row[0], *deeper]
