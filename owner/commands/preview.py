"""Preview of a contribution, before consent: for `review`, and for the page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from dppca.common.documents.messages import StudyState
from dppca.common.errors import DppcaError
from dppca.common.numerics.moments.moments import Moments
from dppca.common.study import Study
from dppca.common.synthesis.refinement import Regrown, compare_grown
from dppca.owner.client.session import agreed_study, connect
from dppca.owner.commands.counting import Asked, ShowProgress, plan_contribution, read_rows
from dppca.owner.commands.coverage import find_refusals
from dppca.owner.engines.selection import open_engine
from dppca.owner.ledger.reading import read_history
from dppca.owner.records.faults import CheckReport
from dppca.owner.release.contribution import Forecast, Review, choose_data_set, forecast
from dppca.owner.render.review import ReviewDocument, review_document, review_text
from dppca.owner.site.agreement import Agreement, agree
from dppca.owner.site.config import Site
from dppca.owner.site.policy import DataSet, load_policy


@dataclass(frozen=True)
class ContributionPreview:
    """Information for a steward before consent.

    Attributes
    ----------
    agreement
        Agreement on the keys of a study with ``trust: aggregate``; else None.
    refusals
        All reasons why `contribute` would refuse it.
    grown
        Whether the study's trees are those of its file of rows; None if none were grown.
    moments, counted
        Sums and counts of the rows that were read; site-only.
    """

    site: Site
    study: Study
    state: StudyState
    review: Review
    moments: Moments
    agreement: Agreement | None
    refusals: tuple[DppcaError, ...]
    data_set: DataSet
    counted: CheckReport
    grown: Regrown | None

    @cached_property
    def forecast(self) -> Forecast | None:
        """What may be found: from the study and the number of rows alone."""
        return forecast(self.study, self.review.calibration, n_rows=self.review.n_rows)

    def document(self, *, with_forecast: bool = True) -> ReviewDocument:
        """Return the document that ``review --json`` prints."""
        return review_document(
            self.site,
            self.review,
            self.state,
            self.counted,
            agreement=self.agreement,
            expected=self.forecast if with_forecast else None,
            refused=[*map(str, self.refusals)],
            grown=self.grown,
        )

    def text(self, *, with_forecast: bool = True) -> str:
        """Return the document as text."""
        document = self.document(with_forecast=with_forecast)
        return review_text(document, refusals=[*map(str, self.refusals)])


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
    history = read_history(site.ledger)
    data_set = choose_data_set(study, history, policy, asked.data_set_name)
    agreement = agree(site, study, digest=asked.digest)
    engine = asked.engine or data_set.engine
    table, reviewed = plan_contribution(study, history, data_set, agreement, engine)
    with open_engine(engine, site.folder) as used:
        moments, counted = read_rows(table, used, study.faults, progress=progress)
    reviewed = replace(reviewed, n_rows=moments.n_rows)  # the number shown is the number read
    return ContributionPreview(
        site=site,
        study=study,
        state=state,
        review=reviewed,
        moments=moments,
        agreement=agreement,
        data_set=data_set,
        refusals=find_refusals(reviewed, state, data_set, history),
        counted=counted,
        grown=compare_grown(study, grown_on),
    )
