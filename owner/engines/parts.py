"""Parts of a data set, and the manifest: which rows are in which part, before any charge.

A part is some row groups of some Parquet files, or whole files of other formats. Together the parts
hold every row once, in the data set's order: part k begins at the row after the last of part k - 1.
A part says how large each of its files is and when it was last changed, so that a worker that finds
another file under that name says so instead of adding it up.

Parts are few and large: each answer is a whole packed vector, 8 bytes for each of its entries, so
that more parts cost the site's machine time and no worker any.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Final, Self

from dppca.common.errors import SettingError
from dppca.owner.records.databases import DatabaseSource
from dppca.owner.records.delimited import CsvSource
from dppca.owner.records.joined import FolderColumns, JoinedFiles, SameObject
from dppca.owner.records.sources import ArrowSource, ParquetSource, Source
from dppca.owner.records.spark_tables import SparkTable
from dppca.owner.records.stored_files import StoredFile, reaching
from dppca.owner.records.table import Table

PARTS_PER_SLOT: Final = 4
"""So that workers that are faster, or one that is lost, leave little waiting at the end."""
LEAST_BYTES: Final = 16 << 20
MOST_BYTES: Final = 4 << 30
"""Size of a part, before compression, where files and row groups can be cut so."""
_ASKED_AT_ONCE: Final = 8

Cells = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or some row groups of it.

    Attributes
    ----------
    path, store, cells, filled
        As of `dppca.owner.records.stored_files.StoredFile`; the path is absolute.
    groups
        Numbers of the row groups; None for a file that is read whole.
    n_rows
        Rows of the piece.
    n_bytes
        Size of the piece, before compression; it decides nothing but how parts are cut.
    size, changed_ns
        The file's bytes, and when it was last changed.
    """

    path: str
    store: str
    cells: Cells
    filled: Cells
    groups: tuple[int, ...] | None
    n_rows: int
    n_bytes: int
    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Part:
    """What one task adds up.

    Attributes
    ----------
    index
        From 0.
    first_row
        Rows of the data set before it.
    n_rows
        Rows that its answer has to be of.
    """

    index: int
    first_row: int
    n_rows: int
    pieces: tuple[Piece, ...]

    def to_json(self) -> str:
        """One line of JSON; it holds paths, and so is for the cluster alone."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` has written."""
        document = json.loads(text)
        pieces = tuple(
            Piece(
                **piece
                | {
                    "cells": tuple(map(tuple, piece["cells"])),
                    "filled": tuple(map(tuple, piece["filled"])),
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

    Parameters
    ----------
    slots
        Tasks that run at once.
    least_bytes, most_bytes
        Size of a part, where row groups allow it.

    Raises
    ------
    SettingError
        The rows are in a database, whose parts would be of several moments, or in a Spark table.
    DataError
        A file has gone.
    """
    if isinstance(table.source, DatabaseSource):
        raise SettingError(
            f"{table.title} is read by this machine alone, in one transaction: parts of a database "
            "would be rows of several moments. Leave out --engine, or export the rows to Parquet"
        )
    if isinstance(table.source, SparkTable):
        raise SettingError(
            f"{table.title} has no files for others to read: --engine spark adds it up"
        )
    with reaching(table.title), ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        pieces = [
            piece
            for split in pool.map(_pieces, _files(table.source))
            for piece in split
            if piece.n_rows
        ]
    total = sum(piece.n_bytes for piece in pieces)
    wanted = -(-total // (PARTS_PER_SLOT * slots))
    return tuple(_pack(pieces, min(most_bytes, max(least_bytes, wanted))))


def _files(source: Source) -> Sequence[Source]:
    return source.files if isinstance(source, JoinedFiles) else (source,)


def _pieces(source: Source) -> list[Piece]:
    """A file's row groups, or the file."""
    held = source.file if isinstance(source, SameObject) else source
    held = held.file if isinstance(held, FolderColumns) else held
    if not isinstance(source, SameObject) or not isinstance(
        held, ParquetSource | CsvSource | ArrowSource
    ):
        raise SettingError("an engine reads files alone: leave out --engine")
    source.require_same()
    file, (size, changed_ns) = held.file, source.stamp
    whole = Piece(
        path=file.path if file.store else os.path.abspath(file.path),  # noqa: PTH100 - as listed
        store=file.store,
        cells=file.cells,
        filled=file.filled,
        groups=None,
        n_rows=held.n_rows,
        n_bytes=size,
        size=size,
        changed_ns=changed_ns,
    )
    if not isinstance(held, ParquetSource):
        return [whole]
    return [
        replace(whole, groups=(g.number,), n_rows=g.n_rows, n_bytes=g.n_bytes) for g in held.groups
    ]


def _pack(pieces: Sequence[Piece], part_bytes: int) -> Iterator[Part]:
    """Parts of about so many bytes, each of pieces that follow each other."""
    index = first_row = held_bytes = 0
    held: list[Piece] = []
    for number, piece in enumerate(pieces, start=1):
        held.append(piece)
        held_bytes += piece.n_bytes
        following = pieces[number].n_bytes if number < len(pieces) else 0
        # A part ends where it is nearer to its size without the next piece than with it.
        if number == len(pieces) or held_bytes + following / 2 > part_bytes:
            n_rows = sum(each.n_rows for each in held)
            yield Part(index, first_row, n_rows, tuple(_joined(held)))
            index, first_row, held_bytes, held = index + 1, first_row + n_rows, 0, []


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Row groups of one file as one piece."""
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


def stored_file(piece: Piece, title: str, system: object) -> StoredFile:
    """The file of a piece, for a reader."""
    return StoredFile(piece.path, title, system, piece.store, piece.cells, piece.filled)
