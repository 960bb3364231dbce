"""Read all rows once, for what a command tells of them or releases."""

from __future__ import annotations

from dppca.common.numerics.moments.moments import Moments
from dppca.common.study import FaultRule
from dppca.owner.commands.consent import ShowProgress
from dppca.owner.engines.engine import Engine
from dppca.owner.records import CheckReport, FaultCounts, Table


def read_rows(
    table: Table, engine: Engine, rule: FaultRule | None, *, progress: ShowProgress
) -> tuple[Moments, CheckReport]:
    """Exact sums of the rows as they are now, and values coded by rule; both site-only."""
    tally = FaultCounts(table.schema)
    with table.latest() as latest, progress("Reading rows", latest.n_rows, unit="rows") as bar:
        moments = engine.sum_table(latest, tally=tally, progress=bar.advance)
    return moments, tally.report(latest).under(rule)
