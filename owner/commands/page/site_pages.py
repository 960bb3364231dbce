"""What all pages of a site share: the site, the work under way, the head of a study's pages."""

import hashlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.common.pages.server import PageApp
from dppca.common.shell.study_header import StudyHeader
from dppca.owner.commands.page.jobs import Job, Jobs
from dppca.owner.commands.page.views import contribution_steps, job_steps
from dppca.owner.commands.studies import find_policy, find_standing
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.file import read_history
from dppca.owner.render.studies import Badge, Group, Standing
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import find_continued, kept_study
from dppca.owner.synthesis.report.page import TEMPLATES as REPORT_TEMPLATES

TEMPLATES = Path(__file__).parent / "templates"
_TABS = {"Keys": "/keys", "Budget and ledger": "/ledger"}


class SitePages(PageApp):
    """Pages of a site; each subject has its own module, and asks here for what they share."""

    def __init__(self, site: Site) -> None:
        super().__init__(TEMPLATES, REPORT_TEMPLATES, who=site.name, links=_TABS)
        self.site = site
        self.jobs = Jobs()

    def head(self, study: Study, state: StudyState, history: History) -> dict[str, Any]:
        """Return the values of a study that each of its pages shows.

        ``live`` names where it stands: an open page whose name is no longer that is loaded again.
        """
        standing = self.stand(study, state, history)
        code = hashlib.sha256(repr(standing).encode()).hexdigest()[:16]
        return {
            "study": study,
            "site": self.site.name,
            "face": StudyHeader(study, state, find_continued(self.site, study)).rows(),
            "cost": decimal_text(calibrate(study).epsilon),
            "standing": standing,
            "badge": standing.badge,
            "live": f"live-{code}",
        }

    def stand(self, study: Study, state: StudyState, history: History) -> Standing:
        """Return where a study stands for this site."""
        return find_standing(
            self.site,
            study,
            state,
            history,
            find_policy(self.site),
            contributed=history.is_held(study.digest),
        )

    def show_progress(self, job: Job) -> Response:
        """Show the work under way for a study."""
        study, history = kept_study(self.site, job.study), read_history(self.site.ledger)
        return self.answer(
            "progress.html",
            job=job,
            steps=contribution_steps(history, study.digest, job)
            if job.consents
            else job_steps(job),
            **self.head(study, StudyState.OPEN, history)
            | {"badge": Badge(Group.YOU, "under way", "wait")},
        )

    def begin(self, job: Job, work: Callable[[Job], None]) -> Response:
        """Begin work that a form asks for, if it is not under way: a form may be sent twice."""
        under_way = self.jobs.of(job.study)
        if under_way is None or not under_way.runs or under_way.title != job.title:
            self.jobs.start(job, work)
        return self.to(job.study)

    def to(self, name: str) -> Response:
        """Lead to the page of a study."""
        return RedirectResponse(self.place(name), status_code=HTTPStatus.SEE_OTHER)

    def place(
        self, name: str, page: str = "", data_set: str | None = None, digest: str | None = None
    ) -> str:
        """Return the address of a page of a study."""
        asked = {"data-set": data_set, "digest": digest}
        query = urlencode({field: value for field, value in asked.items() if value})
        place = f"{self.session.place}/study/{quote(name, safe='')}{page}"
        return f"{place}?{query}" if query else place


def said_in_the_list(_: str) -> None:
    """Leave out what is unusual about the curator, which the list of studies tells."""


def study_name(request: Request) -> str:
    """Return the name of the study that an address is for."""
    name: str = request.path_params["name"]
    return name


def typed_digest(form: Mapping[str, str]) -> str | None:
    """Return the digest that was typed, perhaps in groups; None without one."""
    return "".join(form.get("digest", "").split()) or None
