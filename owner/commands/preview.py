"""A contribution that a steward asks for: its rows, read once, and its preview before consent."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.study import Study, require_continues
from dppca.common.shell.console import Progress
from dppca.owner.client.calls import CuratorClient, agreed_study, connect
from dppca.owner.commands.coverage import find_refusals
from dppca.owner.engines.addresses import ledger_name
from dppca.owner.engines.engine import Engine
from dppca.owner.engines.selection import open_engine
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.file import read_history
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.table import Table, open_table
from dppca.owner.release.contribution import Review, choose_data_set, review
from dppca.owner.release.regrown import compare_grown
from dppca.owner.render.review import ContributionPreview
from dppca.owner.site.agreement import Agreement, agree
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import find_continued, keep_study
from dppca.owner.site.policy import DataSet, load_policy


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


def find_first(site: Site, client: CuratorClient, study: Study) -> Study | None:
    """Return the study that a study continues, kept here or fetched from the curator and kept.

    None if there is none, or the curator does not list it. Raise `StudyError` where the two do not
    belong together, and errors of `CuratorClient.study`.
    """
    first = find_continued(site, study)
    if study.continues is None or first is not None:
        return first
    for each in client.studies():
        if each.digest == study.continues.study:
            found, _ = client.study(each.name)
            require_continues(found, study, result_sha256=None)  # it compares the digest, too
            keep_study(site, found)
            return found
    return None


def plan_contribution(
    study: Study,
    history: History,
    data_set: DataSet,
    agreement: Agreement | None,
    engine: str,
    *,
    first: Study | None,
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
        first=first,
    )
    return table, planned


def read_rows(
    table: Table, engine: Engine, study: Study, *, key: str, progress: ShowProgress
) -> tuple[Moments, CheckReport]:
    """Return exact sums of the current rows, and the values coded by rule; both are site-only.

    If the policy names a ``key``, the rows of each person are counted at the same moment.
    """
    tally, counted = FaultCounts(table.schema), None
    with table.latest() as latest, progress("Reading rows", latest.n_rows, unit="rows") as bar:
        moments = engine.sum_table(latest, tally=tally, progress=bar.advance)
        if key:
            counted = latest.count_keys(key, allowed=study.max_rows_per_person)
    return moments, replace(tally.report(latest), key=counted).under(study.faults)


def preview_contribution(
    site: Site, asked: Asked, *, grown_on: Path | None = None, progress: ShowProgress
) -> ContributionPreview:
    """Review a contribution: the rows are read once, as `contribute` would read them.

    Nothing is drawn, charged or sent. ``grown_on`` is the file of rows that the study's trees were
    grown on. Raise as
    `agreed_study`, `choose_data_set`, `open_table`, `agree`, `review` and `open_engine`.
    """
    policy = load_policy(site)
    with connect(site) as client:
        study, state = agreed_study(site, client, asked.study_name, study_file=asked.study_file)
        first = find_first(site, client, study)
    history = read_history(site.ledger)
    data_set = choose_data_set(study, history, policy, asked.data_set_name)
    agreement = agree(site, study, digest=asked.digest)
    engine = asked.engine or data_set.engine
    table, reviewed = plan_contribution(study, history, data_set, agreement, engine, first=first)
    with open_engine(engine, site.folder) as used:
        moments, counted = read_rows(table, used, study, key=data_set.key, progress=progress)
    reviewed = replace(reviewed, n_rows=moments.n_rows)  # the number shown is the number read
    return ContributionPreview(
        site=site,
        study=study,
        state=state,
        review=reviewed,
        moments=moments,
        agreement=agreement,
        data_set=data_set,
        refusals=find_refusals(reviewed, state, data_set, history, counted),
        counted=counted,
        grown=compare_grown(study, grown_on),
    )
