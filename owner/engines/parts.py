"""Parts of a data set, and their manifest, which fixes before any charge the rows of each part.

A part is some row groups of some Parquet files, or whole files of other formats. Together the parts
hold every row once, in the data set's order: part k begins at the row after the last of part k - 1.
A part records the size and the last change of each of its files, so a worker that finds another
file under that name reports it instead of adding it up.

Parts are few and large: each answer is a whole packed vector, 8 bytes for each of its entries, so
more parts cost time of the site's machine and save none on the workers.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from dppca.owner.records.stored_files import Piece
from dppca.owner.records.table import Table
from dppca.owner.records.table_columns import TableColumn, write_cell
from dppca.owner.records.text_format import TextFormat

PARTS_PER_SLOT: Final = 4
"""Several, so that little waiting is left at the end if workers differ in speed or one is lost."""
LEAST_BYTES: Final = 16 << 20  # of a part, where rows are few
MOST_BYTES: Final = 4 << 30
"""Size of a part, before compression, if files and row groups allow it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that one task adds up.

    ``index`` counts from 0; ``first_row`` is the number of the data set's rows before it; its
    answer must have ``n_rows`` rows. ``rows_of_person`` is k of each row's person, packed, where a
    study protects people; else empty. Keys do not leave this machine.
    """

    index: int
    first_row: int
    n_rows: int
    pieces: tuple[Piece, ...]
    rows_of_person: str = ""

    def with_people(self, rows_of_person: NDArray[np.int64]) -> Self:
        """Return the part with k of each of its rows' person, shape (n_rows,)."""
        packed = zlib.compress(rows_of_person.astype("<i8").tobytes(), 1)
        return replace(self, rows_of_person=base64.b64encode(packed).decode())

    def read_people(self) -> NDArray[np.int64]:
        """Return k of each row's person; `ValueError` if there is not one for each row."""
        try:
            unpacked = zlib.decompress(base64.b64decode(self.rows_of_person))
        except zlib.error as error:
            raise ValueError("the part has no numbers of rows") from error
        found = np.frombuffer(unpacked, "<i8").astype(np.int64)
        if len(found) != self.n_rows or (found < 1).any():
            raise ValueError("the part has not one number for each row")
        return found

    def to_json(self) -> str:
        """One line of JSON; it holds paths, and so is for the cluster only."""
        return json.dumps(asdict(self), default=write_cell)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the output of `to_json`."""
        document = json.loads(text)
        pieces = tuple(
            Piece(
                **piece
                | {
                    "cells": tuple(map(tuple, piece["cells"])),
                    "columns": tuple(TableColumn.from_list(each) for each in piece["columns"]),
                    "text_format": TextFormat.from_document(piece["text_format"]),
                    "groups": None if piece["groups"] is None else tuple(piece["groups"]),
                }
            )
            for piece in document["pieces"]
        )
        return cls(**document | {"pieces": pieces})


def make_manifest(
    table: Table, *, slots: int, least_bytes: int = LEAST_BYTES, most_bytes: int = MOST_BYTES
) -> tuple[Part, ...]:
    """Cut a table into parts, about `PARTS_PER_SLOT` of them for each slot; reads no row.

    ``slots`` is the number of tasks that run at once. Parts are cut to a size between
    ``least_bytes`` and ``most_bytes``, if row groups allow it. Raises as `Source.pieces`.
    """
    pieces = [piece for piece in table.source.pieces() if piece.n_rows]
    total = sum(piece.n_bytes for piece in pieces)
    wanted = -(-total // (PARTS_PER_SLOT * slots))
    return tuple(_pack(pieces, min(most_bytes, max(least_bytes, wanted))))


def _pack(pieces: Sequence[Piece], part_bytes: int) -> Iterator[Part]:
    """Parts of about ``part_bytes``, each of consecutive pieces."""
    index = first_row = held_bytes = 0
    part_pieces: list[Piece] = []
    for number, piece in enumerate(pieces, start=1):
        part_pieces.append(piece)
        held_bytes += piece.n_bytes
        following = pieces[number].n_bytes if number < len(pieces) else 0
        # A part ends if it is nearer to its size without the next piece than with it.
        if number == len(pieces) or held_bytes + following / 2 > part_bytes:
            n_rows = sum(each.n_rows for each in part_pieces)
            yield Part(index, first_row, n_rows, tuple(_joined(part_pieces)))
            index, first_row, held_bytes, part_pieces = index + 1, first_row + n_rows, 0, []


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Pieces in which the row groups of one file are one piece."""
    for _, each in groupby(pieces, key=attrgetter("store", "path")):
        same = list(each)
        if same[0].groups is None:
            yield from same
            continue
        yield replace(
            same[0],
            groups=tuple(number for piece in same for number in piece.groups or ()),
            n_rows=sum(piece.n_rows for piece in same),
            n_bytes=sum(piece.n_bytes for piece in same),
        )
