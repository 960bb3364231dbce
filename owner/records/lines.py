"""Lines of a text file, and the fields of one line.

Every line feed, carriage return, or both together ends a line, even inside quotes. So the number of
lines follows from the line ends alone, and the fields of a line from the bytes of that line alone.
docs/decisions/0099 proves that no other rule keeps one row from changing how the others are read.

Within a line, a field that begins with a quote ends at the next single quote, two quotes are one,
and a quote that is not closed reaches to the end of the line. A quote elsewhere is a character.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

LINE_BYTES = 16 << 20
"""Limit of a line; later bytes of a longer line are ignored."""

_QUOTE, _FEED, _RETURN = b'"\n\r'


def blocks_of_lines(file: BinaryIO, block_bytes: int) -> Iterator[bytes]:
    """Cut a file into blocks of whole lines, in linear time.

    ``file`` is read from its current position, ``block_bytes`` at a time. Each block has one or
    more lines with their line ends, which the last line of the file may lack: at most ``LINE_BYTES
    + 2 * block_bytes`` bytes, of a line longer than `LINE_BYTES` more than `LINE_BYTES` of its
    first bytes and not all that follow.
    """
    held: list[bytes] = []  # the beginning of a line
    n_held = 0
    after_return = False
    while chunk := file.read(block_bytes):
        # A line feed that belongs to the carriage return at the end of the chunk before.
        if after_return and chunk[0] == _FEED:
            chunk = chunk[1:]
        after_return = chunk.endswith(b"\r")
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        if end:
            yield b"".join([*held, chunk[:end]])
            held, n_held = [], 0
        if n_held <= LINE_BYTES:
            held.append(chunk[end:])
            n_held += len(held[-1])
    if n_held:
        yield b"".join(held)


@dataclass(frozen=True, slots=True)
class Lines:
    """Properties of a block of whole lines.

    ``strictly_quoted`` is True if all quotes are placed as RFC 4180 requires. Then any parser of
    CSV ends each row at the end of its line.
    """

    count: int
    any_blank: bool
    strictly_quoted: bool


def split_lines(block: bytes, delimiter: bytes = b",") -> Lines:
    """Properties of a non-empty block of whole lines; one byte separates fields."""
    cells = np.frombuffer(block, np.uint8)
    ending = cells == _FEED
    if b"\r" in block:
        ending |= cells == _RETURN
    ends = np.flatnonzero(ending)
    adjacent = np.diff(ends) == 1
    pairs = adjacent & (cells[ends[:-1]] == _RETURN) & (cells[ends[1:]] == _FEED)
    unfinished = not len(ends) or int(ends[-1]) != len(cells) - 1
    return Lines(
        count=len(ends) - int(np.count_nonzero(pairs)) + unfinished,
        any_blank=bool(ending[0] or (adjacent & ~pairs).any()),
        strictly_quoted=b'"' not in block or _is_strictly_quoted(cells, ends, delimiter),
    )


def _is_strictly_quoted(found: NDArray[np.uint8], ends: NDArray[np.intp], delimiter: bytes) -> bool:
    """True if the quotes of a piece of text can be read one line at a time.

    With the quotes numbered from 1, each odd one begins a field or doubles the quote before it,
    each even one ends a field or is doubled by the quote after it, and no line ends between an odd
    one and the next.
    """
    quotes = np.flatnonzero(found == _QUOTE)
    if len(quotes) % 2:
        return False
    edges = np.zeros(256, np.bool_)
    edges[list(delimiter + b'"\n\r')] = True
    # A quote at the first or last byte has no neighbour: it is its own edge.
    if not edges[found[np.maximum(quotes[0::2] - 1, 0)]].all():
        return False
    if not edges[found[np.minimum(quotes[1::2] + 1, len(found) - 1)]].all():
        return False
    return not (np.searchsorted(quotes, ends) % 2).any()


def split_fields(line: bytes, n_fields: int, delimiter: bytes = b",") -> tuple[list[bytes], bool]:
    """Fields of one line without its end, and True if its quotes are closed.

    A line with more than ``n_fields`` fields returns at least one more than that. A blank line has
    one empty field.
    """
    if b'"' not in line:
        return line.split(delimiter, n_fields), True
    csv.field_size_limit(LINE_BYTES)
    # Latin-1 maps bytes to characters one to one. A quote left open takes the second line, too.
    parser = csv.reader((line.decode("latin-1"), ""), delimiter=delimiter.decode())
    fields = next(parser)
    return [field.encode("latin-1") for field in fields[: n_fields + 1]], parser.line_num == 1
