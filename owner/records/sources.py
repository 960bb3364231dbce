"""Sources of rows, and their interface.

A `Source` gives some of its columns, by name, in batches of bounded size, any number of times.
Callers do not ask for its kind: a method or an attribute here expresses each difference between
kinds, and the defaults are right for files. `dppca.owner.records.locations.Location` opens a
source; each file format has its own `Rows` (docs/how-to/add-a-data-source.md).

Every error of a reader becomes a `DataError` that says what to do; its own message is left out,
since it may quote a cell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from dppca.common.kernel.errors import DataError, SettingError
from dppca.owner.records.source_facts import SourceFacts

if TYPE_CHECKING:
    from dppca.common.kernel.schema import Attribute
    from dppca.owner.records.keys import KeyRows
    from dppca.owner.records.stored_files import Piece


class RowGroup(NamedTuple):
    """Rows of a file that can be read alone: number, rows, and bytes before compression."""

    number: int
    n_rows: int
    n_bytes: int


class Wanted(NamedTuple):
    """Columns to read: those called ``names``, at most ``batch_rows`` rows at a time.

    ``labels`` are those of them that the format may give as dictionaries; ``attributes`` are the
    schema's, by column. ``key`` is the one that tells people apart where each needs a key of its
    own: a reader refuses cells that it cannot tell apart (`DataError`).
    """

    names: Sequence[str]
    batch_rows: int
    labels: Collection[str] = ()
    attributes: Mapping[str, Attribute] = MappingProxyType({})
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(ABC):
    """Rows that were opened and found sound, as far as possible without reading all of them.

    Attributes
    ----------
    names
        Column names in the source's order, outer blanks dropped; they may repeat.
    n_rows
        Number of rows, 0 for a file of a header alone.
    facts
        What else the reader found.
    is_named_by_a_line
        True if the names are a line of a text, which may be a row.
    groups
        Groups that can be read alone; none if all of it is read.
    """

    names: tuple[str, ...]
    n_rows: int
    facts: SourceFacts = field(default_factory=SourceFacts)
    is_named_by_a_line: bool = False
    groups: tuple[RowGroup, ...] = ()

    @abstractmethod
    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Arrays of the columns that are wanted, batch by batch."""

    def only(self, numbers: Collection[int]) -> Self:
        """Rows of the groups with these numbers."""
        groups = tuple(group for group in self.groups if group.number in numbers)
        return replace(self, groups=groups, n_rows=sum(group.n_rows for group in groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Rows):
    """Rows of a data set, with the properties of their kind that readers need.

    Attributes
    ----------
    title
        Name in messages.
    query_sha256
        The ledger's digest of a query, in hexadecimal; empty if there is no query. A query is run
        again: others may write to its rows meanwhile.
    in_steps
        True if rows are moved to make a `frame`: its progress is unknown before its end.
    is_numbered
        True if rows come in one order each time, so that a number finds a row again.
    mend
        Advice if there are no rows.
    in_folders
        Columns that the names of folders give.
    is_live
        True if `latest` reads the rows of its own moment, since others may write meanwhile.
    uncut
        Reason why there are no pieces for others to read, with advice.
    """

    title: str
    query_sha256: str = ""
    in_steps: bool = False
    in_folders: frozenset[str] = frozenset()
    is_live: ClassVar[bool] = False
    is_numbered: ClassVar[bool] = True
    mend: ClassVar[str] = "export it again"
    uncut: ClassVar[str] = (
        "is read by this machine alone: leave out --engine, or export the rows to Parquet"
    )

    @property
    def parts(self) -> Sequence[Source]:
        """Sources that it consists of, one after the other."""
        return (self,)

    @property
    def is_pinned(self) -> bool:
        """True if every reading gives the rows that were opened, or fails."""
        return True

    def latest(self) -> AbstractContextManager[Source]:
        """Current rows, all at one time; a file is as it was when it was opened."""
        return nullcontext(self)

    def pieces(self) -> list[Piece]:
        """Files, or some rows of each, for others to read; `SettingError` if there are none."""
        raise SettingError(f"{self.title} {self.uncut}")

    def count_keys(self, key: str, batch_rows: int) -> KeyRows:
        """Most rows that have one value of the column ``key``; it is read ``batch_rows`` at a time.

        Memory grows with the number of values.
        """
        from dppca.owner.records.keys import count_rows_of_keys

        batches = self.read(Wanted((key,), batch_rows))
        return count_rows_of_keys(self.key_cells(key, cells) for (cells,) in batches)

    def key_cells(self, key: str, cells: Any) -> Any:  # noqa: ARG002 - files have each its type
        """Cells of the column ``key``, each as its column's own type compares it."""
        return cells

    def frame(self, names: Sequence[str], batch_rows: int) -> Any:  # noqa: ARG002 - there is none
        """DataFrame of these columns, if Spark itself has the rows; otherwise None."""
        return None

    def require_known(self, names: Sequence[str]) -> None:
        """Raise `DataError` if pyarrow does not know the type of one of these columns."""
        unknown = [name for name in names if name.strip() in self.facts.unknown]
        if unknown:
            raise DataError(
                f"{self.title} has columns of a type that pyarrow does not know, such as whole "
                f"numbers of 128 bits ({', '.join(unknown)}): write them as another type, or as "
                "text"
            )

    def require_rows(self, n_read: int) -> None:
        """Raise `DataError` unless the counted rows were read."""
        if n_read != self.n_rows:
            raise DataError(
                f"{self.title} had {self.n_rows} rows when it was opened and {n_read} when it was "
                "read: do not write to it meanwhile"
            )
