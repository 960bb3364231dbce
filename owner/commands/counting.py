"""Read all rows once, for what a command tells of them or releases."""

from __future__ import annotations

from dppca.common.numerics.moments.moments import Moments
from dppca.owner.commands.consent import ShowProgress
from dppca.owner.engines.engine import Engine
from dppca.owner.records import CheckReport, FaultCounts, Table


def read_rows(
    table: Table, engine: Engine, *, progress: ShowProgress
) -> tuple[Moments, CheckReport]:
    """The rows as they are now: their exact sums, and what was coded by rule; both site-only."""
    tally = FaultCounts(table.schema)
    with table.latest() as latest, progress("Reading rows", latest.n_rows, unit="rows") as bar:
        moments = engine.sum_table(latest, tally=tally, progress=bar.advance)
    return moments, tally.report(latest)


def counted_faults(table: Table, engine: Engine, *, progress: ShowProgress) -> CheckReport:
    """Read a table once and count its faults; site-only, without row numbers."""
    with progress("Counting", table.n_rows, unit="rows") as bar:
        return engine.count_faults(table, limit=0, progress=bar.advance)
