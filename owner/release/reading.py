"""One reading of rows for a release: what is released is what was counted.

The rows of each person are counted of the very batches that are added (`Table.key`), for any kind
of release and any source. Two readings would not do, even of one snapshot: a query with LIMIT
begins where another session's scan is, and gives other rows the second time. Whoever reads again
counts again.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from dppca.common.kernel.study import Study
from dppca.common.shell.console import Progress
from dppca.owner.engines.addresses import ledger_name
from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.table import Table

RowsT = TypeVar("RowsT")
ReadT = TypeVar("ReadT", covariant=True)


class ShowProgress(Protocol):
    """Callable that shows the progress of a piece of work while the block runs."""

    def __call__(
        self, description: str, total: int, *, unit: str
    ) -> AbstractContextManager[Progress]:
        """Show the progress; see `dppca.common.shell.console.progress`."""


class Reader(Protocol[ReadT]):
    """What makes of a table's rows what a release needs of them, such as `Engine.sum_table`."""

    def __call__(
        self, table: Table, *, tally: FaultCounts, progress: Callable[[int], None]
    ) -> ReadT:
        """Read each row once; each row that counts goes to ``tally``, with its key."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[RowsT]):
    """What was read in one pass: private ``rows``, and ``counted``, which is site-only.

    ``n_rows`` is their number, which a table that others write to may have at this moment alone.
    """

    rows: RowsT
    n_rows: int
    counted: CheckReport


def read_once(
    table: Table, study: Study, key: str, read: Reader[RowsT], *, progress: ShowProgress
) -> Reading[RowsT]:
    """Read the current rows, and count the values coded by rule and the rows of each ``key``.

    ``key`` is the data set's column of people; empty if it has none. Raise `DataError` if the rows
    cannot be read, or not be counted by the key, and what ``read`` raises.
    """
    tally = FaultCounts(table.schema)
    with table.latest(key) as latest, progress("Reading rows", latest.n_rows, unit="rows") as bar:
        rows = read(latest, tally=tally, progress=bar.advance)
        counted = tally.report(latest)
    # Too many rows of one person are refused by the run; a preview has to show them.
    return Reading(rows, latest.n_rows, counted.under(study.faults))


def request_of_rows(request: ReleaseRequest, table: Table, engine: str) -> ReleaseRequest:
    """Return a request of any kind with what the ledger keeps of where its rows come from.

    ``engine`` is the address of what reads them.
    """
    return replace(
        request,
        query_sha256=table.source.query_sha256,
        reading_sha256=table.reading_sha256,
        engine=ledger_name(engine),
    )
