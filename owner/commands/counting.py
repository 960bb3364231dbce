"""Reading of all rows, once, for a command that describes or releases them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from dppca.common.numerics.moments.moments import Moments
from dppca.common.shell.console import Progress
from dppca.common.study import FaultRule
from dppca.owner.engines.engine import Engine
from dppca.owner.records import CheckReport, FaultCounts, Table


class ShowProgress(Protocol):
    """Callable that shows the progress of a piece of work while the block runs."""

    def __call__(
        self, description: str, total: int, *, unit: str
    ) -> AbstractContextManager[Progress]:
        """Show the progress; see `dppca.common.shell.console.progress`."""


def read_rows(
    table: Table, engine: Engine, rule: FaultRule | None, *, progress: ShowProgress
) -> tuple[Moments, CheckReport]:
    """Return exact sums of the current rows, and the values coded by rule; both are site-only."""
    tally = FaultCounts(table.schema)
    with table.latest() as latest, progress("Reading rows", latest.n_rows, unit="rows") as bar:
        moments = engine.sum_table(latest, tally=tally, progress=bar.advance)
    return moments, tally.report(latest).under(rule)
