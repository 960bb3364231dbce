"""What a steward asks to contribute, and the reading of all of its rows, once."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dppca.common.numerics.moments.moments import Moments
from dppca.common.shell.console import Progress
from dppca.common.study import FaultRule, Study
from dppca.owner.engines.addresses import ledger_name
from dppca.owner.engines.engine import Engine
from dppca.owner.ledger.chain import History
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.table import Table, open_table
from dppca.owner.release.contribution import Review, review
from dppca.owner.site.agreement import Agreement
from dppca.owner.site.policy import DataSet


@dataclass(frozen=True, slots=True)
class Asked:
    """A contribution that a steward asks for; None for what was left out.

    ``digest`` is the study's, from another owner's steward; ``study_file`` the steward's own copy;
    ``engine`` replaces the policy's engine.
    """

    study_name: str
    data_set_name: str | None = None
    digest: str | None = None
    study_file: Path | None = None
    engine: str | None = None


class ShowProgress(Protocol):
    """Callable that shows the progress of a piece of work while the block runs."""

    def __call__(
        self, description: str, total: int, *, unit: str
    ) -> AbstractContextManager[Progress]:
        """Show the progress; see `dppca.common.shell.console.progress`."""


def plan_contribution(
    study: Study, history: History, data_set: DataSet, agreement: Agreement | None, engine: str
) -> tuple[Table, Review]:
    """Open a data set, and review its contribution before a row is read."""
    table = open_table(data_set.source, study.table)
    planned = review(
        study,
        history,
        n_rows=table.n_rows,
        account=data_set.account,
        terms=None if agreement is None else agreement.terms,
        query_sha256=table.source.query_sha256,
        engine=ledger_name(engine),
    )
    return table, planned


def read_rows(
    table: Table, engine: Engine, rule: FaultRule | None, *, progress: ShowProgress
) -> tuple[Moments, CheckReport]:
    """Return exact sums of the current rows, and the values coded by rule; both are site-only."""
    tally = FaultCounts(table.schema)
    with table.latest() as latest, progress("Reading rows", latest.n_rows, unit="rows") as bar:
        moments = engine.sum_table(latest, tally=tally, progress=bar.advance)
    return moments, tally.report(latest).under(rule)
