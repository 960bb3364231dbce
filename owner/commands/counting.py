"""Count what coding has to mend, in commands that do not read the rows for anything else."""

from __future__ import annotations

from dppca.owner.commands.consent import ShowProgress
from dppca.owner.engines.engine import Engine
from dppca.owner.records import CheckReport, Table


def counted_faults(table: Table, engine: Engine, *, progress: ShowProgress) -> CheckReport:
    """Read a table once and count its faults; site-only, without row numbers."""
    with progress("Counting", table.n_rows, unit="rows") as bar:
        return engine.count_faults(table, limit=0, progress=bar.advance)
