"""The engine that a pass over all rows runs on: this process, unless a cluster is named.

All engines give the same integers and the same counts. An engine is checked before a row is read,
and a pass is over before anything is charged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dppca.owner.records.check import FaultCounts, check_table
from dppca.owner.records.table import moments_of_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from dppca.common.kernel.moments.moments import Moments
    from dppca.owner.records.faults import CheckReport
    from dppca.owner.records.table import Table


class Engine(Protocol):
    """Source of sums and counts over a table."""

    def check(self) -> None:
        """Refuse what would not give the same sums, before a row is read."""

    def sum_table(
        self, table: Table, *, tally: FaultCounts, progress: Callable[[int], None]
    ) -> Moments:
        """Exact sums over all rows; counts of coding faults go to ``tally``.

        So do the keys of these very rows, if the table has a ``key``.
        ``progress`` is called with the number of rows added since its last call. Raise `DataError`
        if a file cannot be read or has changed, `SettingError` if the engine cannot read such a
        table.
        """

    def count_faults(
        self, table: Table, *, limit: int, target: str | None, progress: Callable[[int], None]
    ) -> CheckReport:
        """Report of coding faults, as from `check_table`; raises as `sum_table` does."""


class LocalEngine:
    """The process itself, with a thread for each core."""

    def check(self) -> None:
        """Accept: there is nothing to compare."""

    def sum_table(
        self, table: Table, *, tally: FaultCounts, progress: Callable[[int], None]
    ) -> Moments:
        """Implement `Engine.sum_table`."""
        return moments_of_table(table, table.schema, tally=tally, progress=progress)

    def count_faults(
        self, table: Table, *, limit: int, target: str | None, progress: Callable[[int], None]
    ) -> CheckReport:
        """Implement `Engine.count_faults`."""
        return check_table(table, table.schema, limit=limit, target=target, progress=progress)
