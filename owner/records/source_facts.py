"""Facts that a source tells of its rows, beside the rows themselves.

Each field says in its metadata how files that are read one after the other join it. So a new fact
is a field here, and the reader that finds it; readers of texts and pages pass the facts on whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any, Self, TypeAlias


class LineFault(StrEnum):
    """Kind of fault of a line of a CSV file; one kind per line."""

    FIELDS = "fields"
    """More or fewer fields than the header."""
    OPEN_QUOTE = "open-quote"
    """A quote that the line does not close, such as by a line break inside quotes."""
    TOO_LONG = "too-long"
    """More bytes than are read of a line."""
    ENCODING = "encoding"
    """Bytes that are not UTF-8."""


@dataclass(frozen=True, slots=True)
class FaultCount:
    """Values or rows of one kind of fault."""

    count: Annotated[int, "how many"] = 0
    rows: Annotated[
        tuple[int, ...], "numbers of the first rows; the first row after the header is 1"
    ] = ()

    def extended(self, rows: Collection[int], limit: int) -> FaultCount:
        """Count with more rows; at most ``limit`` numbers are kept."""
        room = max(0, limit - len(self.rows))
        return FaultCount(self.count + len(rows), (*self.rows, *islice(rows, room)))

    def followed(self, by: FaultCount, first_row: int) -> FaultCount:
        """Count with that of rows that follow ``first_row``."""
        rows = (first_row + row for row in by.rows)
        return FaultCount(self.count + by.count, (*self.rows, *rows))


Malformed: TypeAlias = Mapping[LineFault, FaultCount]
"""Rows of a text that do not match its header, by kind of fault; one kind per row. Site-only."""
Labels: TypeAlias = Mapping[str, Mapping[str, str]]
"""Labels that a file gives to codes, and their codes, by column."""


def _first_said(texts: Sequence[str], starts: Sequence[int]) -> str:
    """Return the first text that is not empty."""
    del starts
    return next(filter(None, texts), "")


def _union(names: Sequence[frozenset[str]], starts: Sequence[int]) -> frozenset[str]:
    """Return the names of all files."""
    del starts
    return frozenset[str]().union(*names)


def _by_column(labels: Sequence[Labels], starts: Sequence[int]) -> Labels:
    """Return the labels of all files; a label with other codes in another file has all of them."""
    del starts
    joined: dict[str, dict[str, str]] = {}
    for each in labels:
        for name, codes in each.items():
            known = joined.setdefault(name, {})
            for label, code in codes.items():
                earlier = known.get(label, code)
                again = code in earlier.split(" or ")
                known[label] = earlier if again else f"{earlier} or {code}"
    return joined


def _by_row(counts: Sequence[Malformed], starts: Sequence[int]) -> Malformed:
    """Return the counts of all files, with the numbers that rows have in all of them."""
    joined: dict[LineFault, FaultCount] = {}
    for each, start in zip(counts, starts, strict=True):
        for kind, count in each.items():
            joined[kind] = joined.get(kind, FaultCount()).followed(count, start)
    return joined


def _joined_by(join: Callable[[Sequence[Any], Sequence[int]], Any]) -> dict[str, Any]:
    return {"join": join}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFacts:
    """Facts that `check` shows as they are: keys of its document, and lines of its text."""

    relation: Annotated[
        str, "table of a database that was read, with its schema; empty for a query or files"
    ] = field(default="", metadata=_joined_by(_first_said))
    weight: Annotated[
        str, "variable by which SPSS weights the rows of its file, which count once; else empty"
    ] = field(default="", metadata=_joined_by(_first_said))

    def fact_lines(self) -> list[str]:
        """Return lines on what is known."""
        said = {
            f"of the table {self.relation}": self.relation,
            f"SPSS weights the rows of this file by {self.weight}; here every row counts once": (
                self.weight
            ),
        }
        return [line for line, fact in said.items() if fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts(ShownFacts):
    """Facts of a source, as its reader found them.

    Attributes
    ----------
    malformed
        Rows that do not match the header.
    unknown
        Columns of types that pyarrow does not know; they cannot be read.
    value_labels
        Labels that the file gives to codes; the cells are codes.
    """

    malformed: Malformed = field(default_factory=dict, metadata=_joined_by(_by_row))
    unknown: frozenset[str] = field(default=frozenset(), metadata=_joined_by(_union))
    value_labels: Labels = field(default_factory=dict, metadata=_joined_by(_by_column))

    @classmethod
    def joined(cls, parts: Sequence[Self], starts: Sequence[int]) -> Self:
        """Join the facts of files; ``starts`` are the numbers of rows before each of them."""
        return cls(
            **{
                each.name: each.metadata["join"]([getattr(p, each.name) for p in parts], starts)
                for each in fields(cls)
            }
        )

    def shown(self) -> dict[str, Any]:
        """Return the facts that are shown, by their names."""
        return {each.name: getattr(self, each.name) for each in fields(ShownFacts)}
