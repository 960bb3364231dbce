"""What a steward may ask the page, and what each answer is made of."""

from __future__ import annotations

import hmac
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from dppca.common.clock import utc_now
from dppca.common.errors import CallError, DppcaError, NotReadyError
from dppca.common.loadings import component_figures
from dppca.common.pages.faces import study_face
from dppca.common.pages.guard import Guard, form_of
from dppca.common.pages.server import Pages
from dppca.owner.client.session import agreed_study, connect
from dppca.owner.commands.budget_totals import budget_document
from dppca.owner.commands.components import fetch
from dppca.owner.commands.contribute import contribute
from dppca.owner.commands.interrupt import report_charges_on_interrupt
from dppca.owner.commands.look import Look, look
from dppca.owner.commands.page.artefacts import list_artefacts
from dppca.owner.commands.page.jobs import Job, Jobs, PageDialogue, fingerprint
from dppca.owner.commands.page.views import contribution_steps, next_step, spectrum
from dppca.owner.commands.report import compare_kept
from dppca.owner.ledger.reading import read_history
from dppca.owner.release.contribution import decide_step, require_possible
from dppca.owner.report.page import TEMPLATES as REPORT_TEMPLATES
from dppca.owner.report.page import Compared, fault_rows
from dppca.owner.site.config import Site, load_policy
from dppca.owner.site.kept_studies import components_path, kept_result, kept_study

TEMPLATES = Path(__file__).parent / "templates"


class StewardPages(Pages):
    """The pages of a site."""

    def __init__(self, site: Site) -> None:
        super().__init__(TEMPLATES, REPORT_TEMPLATES, who=f"Site {site.name}")
        self._site = site
        self._jobs = Jobs()
        self._looks: dict[tuple[str, str | None, str | None], Look] = {}
        self._comparisons: dict[str, Compared] = {}

    def application(self) -> Guard:
        """All routes, guarded."""
        routes = [
            Route("/", self._index),
            Route("/ledger", self._ledger),
            Route("/study/{name}", self._study),
            Route("/study/{name}/review", self._review),
            Route("/study/{name}/consent", self._consent, methods=["POST"]),
            Route("/study/{name}/components", self._components, methods=["POST"]),
            Route("/study/{name}/compare", self._compare, methods=["POST"]),
            Route("/study/{name}/comparison", self._comparison),
        ]
        return self.guarded(routes)

    def finish(self) -> str:
        """Wait for work that is under way, and say how it ended."""
        job = self._jobs.running()
        if job is None:
            return "Nothing was under way."
        with report_charges_on_interrupt(self._site, job.study):
            self._jobs.wait()
        return f"{job.title}: {job.error or 'done'}."

    def _index(self, request: Request) -> Response:
        del request
        budget = budget_document(self._site.folder, None)
        history = read_history(self._site.ledger)
        try:
            with connect(self._site) as client:
                studies, lost = client.studies(), None
        except CallError as error:
            studies, lost = (), str(error)
        return self.answer(
            "studies.html",
            budget=budget,
            lost=lost,
            curator=self._site.curator,
            studies=[(each, next_step(each, history)) for each in studies],
        )

    def _ledger(self, request: Request) -> Response:
        del request
        return self.answer("ledger.html", budget=budget_document(self._site.folder, None))

    def _study(self, request: Request) -> Response:
        """Where a study stands: work that is under way, its review, who has come, its result."""
        name = _name(request)
        job = self._jobs.of(name)
        if job is not None and job.runs:
            return self._progress(name, job)
        with connect(self._site) as client:
            study, _ = agreed_study(self._site, client, name, study_file=None)
            found = client.progress(study.digest)
        history = read_history(self._site.ledger)
        shown: dict[str, Any] = {
            "study": study,
            "face": study_face(study, found.state),
            "found": found,
            "job": job,
            "step": decide_step(history, study.digest),
            "held": history.is_held(study.digest),
            "artefacts": list_artefacts(self._site, study),
            "opens": self._site.name in (study.openers or {}),
            "compared": name in self._comparisons,
        }
        if not components_path(self._site, name).exists():
            return self.answer("study.html", **shown)
        result, _ = kept_result(self._site, study)
        header = result.header
        figures = component_figures(
            study.table, result.vectors, result.eigenvalues, header.noise_edge
        )
        return self.answer(
            "components.html",
            header=header,
            values=result.eigenvalues.tolist(),
            components=figures,
            **shown,
        )

    def _progress(self, name: str, job: Job) -> Response:
        study = kept_study(self._site, name)
        return self.answer(
            "progress.html",
            face=study_face(study),
            job=job,
            study=study,
            steps=contribution_steps(read_history(self._site.ledger), study.digest, job),
        )

    def _review(self, request: Request) -> Response:
        return self._show_review(
            _name(request),
            request.query_params.get("data-set") or None,
            (request.query_params.get("digest") or "").strip() or None,
            again="again" in request.query_params,
        )

    def _show_review(
        self,
        name: str,
        data_set: str | None,
        digest: str | None,
        *,
        again: bool,
        wrong: str | None = None,
    ) -> Response:
        policy = load_policy(self._site)
        history = read_history(self._site.ledger)
        charged = any(each.request.study == name for each in history.charges)
        if data_set is None and len(policy.data_sets) > 1 and not charged:
            return self.answer("data_sets.html", name=name, data_sets=policy.data_sets)
        key = name, data_set, digest
        if again or key not in self._looks:
            self._looks[key] = look(
                self._site, name, data_set_name=data_set, digest=digest, quiet=True
            )
        seen = self._looks[key]
        return self.answer(
            "review.html",
            status=HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY,
            study=seen.study,
            face=study_face(seen.study, seen.state),
            seen=seen,
            review=seen.document(),
            faults=fault_rows(seen.counted),
            above=seen.counted.above(seen.study.faults),
            spectrum=spectrum(seen),
            refusal=self._find_refusal(seen),
            data_set=data_set,
            digest=digest,
            agreed=fingerprint(seen.review),
            wrong=wrong,
        )

    def _find_refusal(self, seen: Look) -> str | None:
        """Why `contribute` would refuse; None where it would not."""
        if seen.refusal is not None:
            return seen.refusal
        if seen.agreement is not None and not seen.agreement.is_verified:
            return None  # the form asks for the digest
        try:
            history = read_history(self._site.ledger)
            require_possible(seen.review, history, seen.state, now=utc_now())
        except DppcaError as error:
            return str(error)
        return None

    def _consent(self, request: Request) -> Response:
        """Begin a contribution, if the steward has typed the study's name."""
        name, form = _name(request), form_of(request)
        data_set, digest = form.get("data-set") or None, form.get("digest", "").strip() or None
        typed = form.get("name", "").strip()
        if not hmac.compare_digest(typed.encode(), name.encode()):
            wrong = f"To agree, type {name}, the name of the study. Nothing was drawn or charged."
            return self._show_review(name, data_set, digest, again=False, wrong=wrong)
        agreed = form.get("agreed", "")

        def work(job: Job) -> None:
            contribute(
                self._site,
                name,
                PageDialogue(job, agreed),
                data_set_name=data_set,
                digest=digest,
            )

        self._jobs.start(name, f"The contribution to {name}", work, consents=True)
        self._looks = {key: seen for key, seen in self._looks.items() if key[0] != name}
        return self._to(name)

    def _components(self, request: Request) -> Response:
        name = _name(request)
        fetch(self._site, name, wait_s=0.0, quiet=True)
        return self._to(name)

    def _compare(self, request: Request) -> Response:
        """Begin to draw synthetic rows and compare them with the site's own."""
        name = _name(request)

        def work(job: Job) -> None:
            job.step = "Drawing synthetic rows and comparing them with this site's own"
            self._comparisons[name] = compare_kept(self._site, name)

        self._jobs.start(name, f"The comparison for {name}", work)
        return self._to(name)

    def _comparison(self, request: Request) -> Response:
        name = _name(request)
        if name not in self._comparisons:
            raise NotReadyError(f"nothing was compared for study {name} since this page began")
        study = kept_study(self._site, name)
        return self.answer(
            "comparison.html",
            study=study,
            face=study_face(study),
            **self._comparisons[name].values(),
        )

    def _to(self, name: str) -> Response:
        place = f"{self.session.place}/study/{name}"
        return RedirectResponse(place, status_code=HTTPStatus.SEE_OTHER)


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return name
