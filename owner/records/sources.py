"""What a source of rows is, and everything that is asked of one.

A `Source` gives some of its columns, by name, in batches of bounded size, as often as it is asked.
Nobody asks which kind it is: what differs between kinds is a method or an attribute here, and what
is said here is right for files. `dppca.owner.records.locations.Location` opens one; of a file each
format has `Rows` of its own (docs/how-to/add-a-data-source.md).

Every error of a reader becomes a `DataError` that says what to do; its own message is left out,
since it may quote a cell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

from dppca.common.errors import DataError, SettingError
from dppca.owner.records.faults import FaultCount, LineFault
from dppca.owner.records.stored_files import Piece

Malformed = Mapping[LineFault, FaultCount]
"""Rows of a text that are not as its header says, by what is wrong; one kind a row. Site-only."""


class RowGroup(NamedTuple):
    """Rows of a file that can be read alone: number, rows, and bytes before compression."""

    number: int
    n_rows: int
    n_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(ABC):
    """Rows, opened and found sound as far as can be told without reading all of them.

    Attributes
    ----------
    names
        Column names in the source's order, outer blanks dropped; they may repeat.
    n_rows
        How many, 0 for a file of a header alone.
    malformed
        Rows that are not as the header says.
    is_named_by_a_line
        Whether the names are a line of a text, which may be a row.
    groups
        What can be read alone; none where all of it is read.
    """

    names: tuple[str, ...]
    n_rows: int
    malformed: Malformed = field(default_factory=dict)
    is_named_by_a_line: bool = False
    groups: tuple[RowGroup, ...] = ()

    @abstractmethod
    def read(
        self, names: Sequence[str], batch_rows: int, *, labels: Collection[str] = ()
    ) -> Iterator[list[Any]]:
        """Arrays of the columns called ``names``, at most ``batch_rows`` rows at a time.

        Parameters
        ----------
        labels
            Those of them that the format may give as dictionaries.
        """

    def only(self, numbers: Collection[int]) -> Self:
        """The groups of these numbers alone."""
        groups = tuple(group for group in self.groups if group.number in numbers)
        return replace(self, groups=groups, n_rows=sum(group.n_rows for group in groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Rows):
    """Rows of a data set, and what their kind means for those who read them.

    Attributes
    ----------
    title
        What messages call it.
    query_sha256
        What the ledger holds of a query, in hexadecimal; empty where none is asked. A query is
        asked again: others may write to its rows meanwhile.
    in_steps
        Whether rows are moved to make a `frame`: nobody knows how far it is before its end.
    is_numbered
        Whether rows come in one order each time, so that a number finds a row again.
    mend
        What to do where there are no rows.
    uncut
        Why there are no pieces for others to read, and what to do.
    """

    title: str
    query_sha256: str = ""
    in_steps: bool = False
    is_numbered: ClassVar[bool] = True
    mend: ClassVar[str] = "export it again"
    uncut: ClassVar[str] = (
        "is read by this machine alone: leave out --engine, or export the rows to Parquet"
    )

    @property
    def parts(self) -> Sequence[Source]:
        """The sources that it is made of, one after the other."""
        return (self,)

    def latest(self) -> AbstractContextManager[Source]:
        """The rows as they are now, all at one time; a file is as it was when it was opened."""
        return nullcontext(self)

    def pieces(self) -> list[Piece]:
        """Files, or some rows of each, for others to read; `SettingError` where there are none."""
        raise SettingError(f"{self.title} {self.uncut}")

    def frame(self, names: Sequence[str], batch_rows: int) -> Any:  # noqa: ARG002 - there is none
        """A DataFrame of these columns, where Spark itself has the rows; None elsewhere."""
        return None

    def require_rows(self, n_read: int) -> None:
        """Refuse rows that were read if they are not those that were counted; `DataError`."""
        if n_read != self.n_rows:
            raise DataError(
                f"{self.title} had {self.n_rows} rows when it was opened and {n_read} when it was "
                "read: do not write to it meanwhile"
            )
