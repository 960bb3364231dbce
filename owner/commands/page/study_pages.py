"""Pages on all studies, and on one: its state, its owners, its result."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import (
    BusyError,
    ChainError,
    DppcaError,
    IdentityError,
    UnreachableError,
)
from dppca.common.kernel.study import Study, Trust
from dppca.common.pages.guard import read_form
from dppca.common.verification.components import kept_components, nothing_in
from dppca.common.verification.estimate_form import PageQuestion, csv_headers, csv_text, form_values
from dppca.owner.client.calls import agreed_study, connect
from dppca.owner.commands.components import fetch
from dppca.owner.commands.page.file_pages import FilePages
from dppca.owner.commands.page.ledger_pages import budget_values
from dppca.owner.commands.page.site_pages import SitePages, said_in_the_list, study_name
from dppca.owner.commands.page.views import find_sent, sum_steps
from dppca.owner.commands.studies import find_policy, list_studies
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.openers import record_for
from dppca.owner.render.asked import describe_attributes
from dppca.owner.render.studies import Badge, Group, OwnStudy
from dppca.owner.site.agreement import knows_all_keys
from dppca.owner.site.consents import kept_consent
from dppca.owner.site.kept_results import kept_result
from dppca.owner.site.kept_studies import components_path, kept_study
from dppca.owner.site.opener_keys import list_opener_keys
from dppca.owner.site.study_answers import AnswerKind, keep_answer, kept_answer


class StudyPages:
    """The list of studies, and the page of each."""

    def __init__(self, pages: SitePages, files: FilePages) -> None:
        self._pages = pages
        self._files = files
        self._known: dict[str, Study] = {}
        self._seen: tuple[Sequence[OwnStudy], datetime | None] = (), None

    def index(self, request: Request) -> Response:
        """Show budgets, and studies: as last seen while the curator or a certificate fails."""
        del request
        lost: DppcaError | None = None
        remarks = list[str]()
        try:
            with connect(self._pages.site, warn=remarks.append) as client:
                self._seen = list_studies(self._pages.site, client, self._known).studies, utc_now()
        except (UnreachableError, BusyError, IdentityError) as error:
            lost = error
        budgets: dict[str, Any] = {"budget": {"populations": ()}}
        try:
            budgets = budget_values(self._pages.site)
        except ChainError as error:
            budgets["budget"]["locked"] = str(error)
        studies, since = self._seen
        first = next((each.name for each in studies if each.badge.kind == "wait"), None)
        return self._pages.answer(
            "studies.html",
            **budgets,
            lost=lost,
            lost_since=since,
            remarks=remarks,
            curator=self._pages.site.curator,
            studies=to_document(studies),
            first=first,
        )

    def study(self, request: Request) -> Response:
        """Show the state of a study: work under way, its review, its owners, its result."""
        name = study_name(request)
        job = self._pages.jobs.of(name)
        if job is not None and job.runs:
            return self._pages.show_progress(job)
        with connect(self._pages.site, warn=said_in_the_list) as client:
            study, _ = agreed_study(self._pages.site, client, name, study_file=None)
            progress = client.progress(study.digest)
        history = read_history(self._pages.site.ledger)
        opener = record_for(history.openers, study, self._pages.site.name)
        shown: dict[str, Any] = {
            **self._pages.head(study, progress.state, history),
            "found": progress,
            "job": job,
            "sent": find_sent(history, study.digest, find_policy(self._pages.site)),
            "answer": kept_answer(self._pages.site, name),
            "agreed": kept_consent(self._pages.site, name, study.digest) is not None,
            "artefacts": self._files.artefacts.list(study.name),
            "opener": opener,
            "key_left": opener is not None
            and opener.offer.key_id in list_opener_keys(self._pages.site.openers),
            "compared": name in self._files.comparisons,
            "sum_steps": (),
        }
        if study.trust is Trust.AGGREGATE:
            verified = knows_all_keys(self._pages.site, study)
            steps = sum_steps(study, shown["standing"], opener, verified=verified)
            shown["sum_steps"] = steps
        if not components_path(self._pages.site, name).exists():
            return self._pages.answer("study.html", **shown)
        result, _ = kept_result(self._pages.site, study)
        nothing = nothing_in(result)
        shown["badge"] = (
            Badge(Group.RESULTS, "result here", "good")
            if nothing is None
            else Badge(Group.RESULTS, "nothing above the noise", "wait")
        )
        return self._pages.answer(
            "components.html",
            header=result.header,
            values=result.eigenvalues.tolist(),
            nothing=nothing,
            components=kept_components(result, study),
            **shown,
        )

    def agreed(self, request: Request) -> Response:
        """Show what was agreed to and when, on one sheet."""
        study = kept_study(self._pages.site, study_name(request))
        consent = kept_consent(self._pages.site, study.name, study.digest)
        history = read_history(self._pages.site.ledger)
        sent = find_sent(history, study.digest, find_policy(self._pages.site))
        if consent is None or sent is None:
            return self._pages.to(study.name)
        attributes, site = describe_attributes(study.table), self._pages.site.name
        return self._pages.answer(
            "agreed.html", study=study, site=site, consent=consent, sent=sent, attributes=attributes
        )

    def estimates(self, request: Request) -> Response:
        """Show the answers to a question of a result, and the form that asks."""
        published, fields = self._published(request), request.query_params.multi_items()
        values = form_values(published, PageQuestion.read(fields))
        return self._pages.answer(
            "estimates.html", study=published.study, query=request.url.query, **values
        )

    def estimates_csv(self, request: Request) -> Response:
        """Give the same answers as a file."""
        published, fields = self._published(request), request.query_params.multi_items()
        text = csv_text(published, PageQuestion.read(fields))
        return Response(text, headers=csv_headers(published))

    def _published(self, request: Request) -> Published:
        study = kept_study(self._pages.site, study_name(request))
        return Published(study, kept_result(self._pages.site, study)[0])

    def answer(self, request: Request) -> Response:
        """Keep the answer that the steward gives in place of contributing, or take it back."""
        name, said = study_name(request), read_form(request).get("answer", "")
        kept_study(self._pages.site, name)
        answers: dict[str, AnswerKind] = {"declined": "declined", "later": "later"}
        keep_answer(self._pages.site, name, answers.get(said), now=utc_now())
        return self._pages.to(name)

    def stop(self, request: Request) -> Response:
        """Stop the work for a study, if it can be stopped; its page shows the outcome."""
        name = study_name(request)
        job = self._pages.jobs.of(name)
        if job is not None and not job.stop() and job.runs:
            job.notes.append("It cannot be stopped any more: it is being finished.")
        return self._pages.to(name)

    def components(self, request: Request) -> Response:
        """Fetch the components of a study."""
        name = study_name(request)
        fetch(self._pages.site, name, wait_s=0.0, quiet=True)
        return self._pages.to(name)
