"""A contribution before consent: what was asked for, its data set, its rows and their preview."""

from dataclasses import dataclass, replace
from pathlib import Path

from dppca.common.kernel.attestation.envelopes import digest_file
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import Study, require_continues
from dppca.owner.client.calls import CuratorClient, agreed_study, connect
from dppca.owner.commands.coverage import find_refusals
from dppca.owner.engines.engine import Engine
from dppca.owner.engines.selection import open_engine
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.database import require_newest
from dppca.owner.ledger.file import read_history
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.table import Table, open_table
from dppca.owner.release.contribution import Review, choose_data_set, review
from dppca.owner.release.dialogue import Outline
from dppca.owner.release.reading import ShowProgress, read_once, request_of_rows
from dppca.owner.render.review import ContributionPreview, Regrown, outline_contribution
from dppca.owner.site.agreement import Agreement, agree
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import find_continued, keep_study
from dppca.owner.site.policy import DataSet, load_policy


@dataclass(frozen=True, slots=True)
class ContributionOptions:
    """What a steward asks to contribute; None for what was left out.

    ``digest`` is the study's, from another owner's steward; ``study_file`` the steward's own copy;
    ``engine`` replaces the policy's engine.
    """

    study_name: str
    data_set_name: str | None = None
    digest: str | None = None
    study_file: Path | None = None
    engine: str | None = None


@dataclass(frozen=True, slots=True)
class OpenedContribution:
    """A contribution whose data set is open, and of which no row was read.

    ``agreement`` is None for a study with ``trust: owner``; ``engine`` is the address of what
    reads the rows.
    """

    data_set: DataSet
    agreement: Agreement | None
    engine: str
    table: Table
    review: Review

    @property
    def outline(self) -> Outline:
        """Outline of the contribution, with the number of rows as they were opened."""
        return outline_contribution(self.review, is_live=self.table.source.is_live)

    def read_rows(self, engine: Engine, *, progress: ShowProgress) -> tuple[Moments, CheckReport]:
        """Return exact sums of the current rows, and the values coded by rule; both are site-only.

        If the policy names a key, the rows of each person are counted of the same batches.
        """
        study, key = self.review.study, self.data_set.key
        reading = read_once(self.table, study, key, engine.sum_table, progress=progress)
        return reading.rows, reading.counted

    def preview(
        self, site: Site, state: StudyState, moments: Moments, counted: CheckReport
    ) -> ContributionPreview:
        """Return what the steward is shown; the number of rows is that of the rows read."""
        return ContributionPreview(
            site=site,
            study=self.review.study,
            state=state,
            review=replace(self.review, n_rows=moments.n_rows),
            moments=moments,
            data_set=self.data_set,
            counted=counted,
            agreement=self.agreement,
            is_live=self.table.source.is_live,
        )


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


def open_contribution(
    study: Study,
    history: History,
    data_set: DataSet,
    agreement: Agreement | None,
    engine: str | None,
    *,
    first: Study | None,
) -> OpenedContribution:
    """Open a data set, and review its contribution before a row is read.

    ``engine`` replaces the data set's; ``first`` is the study that this one continues.
    """
    engine, table = engine or data_set.engine, open_table(data_set.source, study.table)
    planned = review(
        study,
        history,
        n_rows=table.n_rows,
        account=data_set.account,
        terms=None if agreement is None else agreement.terms,
        first=first,
    )
    planned = replace(planned, request=request_of_rows(planned.request, table, engine))
    return OpenedContribution(data_set, agreement, engine, table, planned)


def preview_contribution(
    site: Site,
    options: ContributionOptions,
    *,
    grown_on: Path | None = None,
    progress: ShowProgress,
) -> ContributionPreview:
    """Review a contribution: the rows are read once, as `contribute` would read them.

    Nothing is drawn, charged or sent. ``grown_on`` is the file of rows that the study's trees were
    grown on. Raise `ChainError` if the site is locked, and as `agreed_study`, `choose_data_set`,
    `open_table`, `agree`, `review` and `open_engine`.
    """
    policy, name, file = load_policy(site), options.study_name, options.study_file
    require_newest(site.ledger)
    with connect(site) as client:
        study, state = agreed_study(site, client, name, study_file=file)
        first = find_first(site, client, study)
    history = read_history(site.ledger)
    data_set = choose_data_set(study, history, policy, options.data_set_name)
    agreement = agree(site, study, digest=options.digest)
    opened = open_contribution(study, history, data_set, agreement, options.engine, first=first)
    with open_engine(opened.engine, site.folder) as engine:
        moments, counted = opened.read_rows(engine, progress=progress)
    seen = opened.preview(site, state, moments, counted)
    return replace(
        seen,
        refusals=find_refusals(seen.review, state, data_set, history, counted),
        grown=compare_grown(study, grown_on),
    )


def compare_grown(study: Study, path: Path | None) -> Regrown | None:
    """Grow the trees of a study again, from the file of the rows; None if none were grown."""
    grown = None if study.continues is None else study.continues.grown
    if grown is None:
        return None
    if path is None:
        return Regrown.UNCHECKED
    if digest_file(path) != grown.rows:
        return Regrown.DIFFERENT
    from dppca.common.analysis.rows.refinement import grow_again  # a contribution needs none of it

    trees = grow_again(path, study.table, grown)
    again = Schema.from_document({**study.table.model_dump(mode="json"), "tables": trees})
    return Regrown.SAME if again.digest == study.table.digest else Regrown.DIFFERENT
