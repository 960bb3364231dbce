"""Routes of the steward's page, and the content of each answer."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from dppca.common.kernel.aggregation.sum_messages import SealedSet
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import (
    BusyError,
    ConsentError,
    NotReadyError,
    SchemaMismatchError,
    SettingError,
    UnreachableError,
)
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study, Trust
from dppca.common.pages.guard import LocalSessionMiddleware, read_form
from dppca.common.pages.server import PageApp
from dppca.common.pages.study_header import study_header
from dppca.common.shell.console import say
from dppca.common.verification.components import kept_components
from dppca.owner.client.calls import agreed_study, connect
from dppca.owner.commands.budget_totals import site_budgets
from dppca.owner.commands.components import fetch
from dppca.owner.commands.contribute import contribute
from dppca.owner.commands.coverage import find_refusals
from dppca.owner.commands.identity import RENEWING, identity_lines, make_identity
from dppca.owner.commands.interrupt import charges_text, known_history
from dppca.owner.commands.opening import look_at_opening, open_sum
from dppca.owner.commands.page.artefacts import Artefacts, stamp
from dppca.owner.commands.page.jobs import Job, Jobs, PageDialogue, fingerprint
from dppca.owner.commands.page.views import (
    budget_segments,
    contribution_steps,
    find_sent,
    find_used_up,
    spectrum,
    sum_steps,
)
from dppca.owner.commands.preview import ContributionOptions, preview_contribution
from dppca.owner.commands.report import compare_kept
from dppca.owner.commands.studies import find_policy, find_standing, list_studies
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.openers import record_for
from dppca.owner.render.faults import alarm_lines
from dppca.owner.render.review import ContributionPreview
from dppca.owner.render.studies import Badge, Group, OwnStudy, Standing
from dppca.owner.site.agreement import knows_all_keys, require_digest
from dppca.owner.site.answers import AnswerKind, keep_answer, kept_answer
from dppca.owner.site.config import POLICY_FILE, SITE_FILE, Site, load_site
from dppca.owner.site.kept_studies import components_path, find_continued, kept_result, kept_study
from dppca.owner.site.opener_keys import list_opener_keys
from dppca.owner.site.policy import load_policy
from dppca.owner.synthesis.report.page import TEMPLATES as REPORT_TEMPLATES
from dppca.owner.synthesis.report.page import Compared

TEMPLATES = Path(__file__).parent / "templates"
_TABS = {"Keys": "/keys", "Budget and ledger": "/ledger"}
_SOON_S = 1.0
"""Reviews of small tables are ready within this time and are shown without their progress."""


class StewardApp(PageApp):
    """Pages of a site."""

    def __init__(self, site: Site) -> None:
        super().__init__(TEMPLATES, REPORT_TEMPLATES, who=site.name, links=_TABS)
        self._site = site
        self._before = known_history(site)
        self._jobs = Jobs()
        self._previews: dict[ContributionOptions, ContributionPreview] = {}
        self._artefacts = Artefacts(site)
        self._known: dict[str, Study] = {}
        self._looked = self._settings()
        self._seen: tuple[Sequence[OwnStudy], datetime | None] = (), None
        self._comparisons: dict[str, Compared] = {}

    def application(self) -> LocalSessionMiddleware:
        """Return all routes, guarded."""
        routes = [
            Route("/", self._index),
            Route("/ledger", self._ledger),
            Route("/keys", self._keys),
            Route("/keys", self._give_keys, methods=["POST"]),
            Route("/keys/{name}", self._given_keys),
            Route("/study/{name}", self._study),
            Route("/study/{name}/review", self._review),
            Route("/study/{name}/consent", self._consent, methods=["POST"]),
            Route("/study/{name}/answer", self._answer, methods=["POST"]),
            Route("/study/{name}/stop", self._stop, methods=["POST"]),
            Route("/study/{name}/opening", self._opening),
            Route("/study/{name}/open", self._open, methods=["POST"]),
            Route("/study/{name}/components", self._components, methods=["POST"]),
            Route("/study/{name}/compare", self._compare, methods=["POST"]),
            Route("/study/{name}/comparison", self._comparison),
            Route("/study/{name}/file/{file}", self._file),
        ]
        return self.guarded(routes)

    def finish(self) -> str:
        """Stop work that has changed nothing yet, wait for other work, and return the charges."""
        job, job_text = self._jobs.running(), ""
        if job is not None:
            if not job.stop():
                say(f"{job.title} is being finished. Ctrl-C again leaves it as it is.", err=True)
            try:
                job.wait()
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"interrupted: {self._charges()}") from None
            job_text = f"{job.title}: {job.error or 'done'}. "
        charges = self._charges()
        return f"{job_text}{charges[0].upper()}{charges[1:]}."

    def _charges(self) -> str:
        return charges_text(self._before, known_history(self._site))

    def _index(self, request: Request) -> Response:
        """Show the budgets and all studies; the studies as last seen while the curator is away."""
        del request
        lost = None
        try:
            with connect(self._site) as client:
                self._seen = list_studies(self._site, client, self._known).studies, utc_now()
        except (UnreachableError, BusyError) as error:
            lost = str(error)
        studies, since = self._seen
        first = next((each.name for each in studies if each.badge.kind == "wait"), None)
        return self.answer(
            "studies.html",
            **self._budgets(),
            lost=lost,
            lost_since=since,
            curator=self._site.curator,
            studies=to_document(studies),
            first=first,
        )

    def _ledger(self, request: Request) -> Response:
        del request
        return self.answer("ledger.html", tab="/ledger", **self._budgets())

    def _budgets(self) -> dict[str, Any]:
        budgets = site_budgets(self._site.folder, None)
        return {
            "budget": to_document(budgets),
            "segments": budget_segments(budgets),
            "used_up": find_used_up(budgets),
        }

    def _keys(self, request: Request) -> Response:
        """Ask for which study this site gives its key, and whether it would open."""
        del request
        return self._ask_for_keys("")

    def _ask_for_keys(self, typed: str, wrong: str | None = None) -> Response:
        return self.answer(
            "keys.html",
            status=HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY,
            tab="/keys",
            typed=typed,
            wrong=wrong,
            renewing=RENEWING if self._site.next.exists() else None,
        )

    def _give_keys(self, request: Request) -> Response:
        """Make the keys that the form asks for, if the name is a study's."""
        form = read_form(request)
        name = form.get("study", "").strip()
        try:
            make_identity(self._site, name, opener="opener" in form)
        except SettingError as error:
            return self._ask_for_keys(name, f"{error}. No key was made.")
        place = f"{self.session.place}/keys/{quote(name, safe='')}"
        return RedirectResponse(place, status_code=HTTPStatus.SEE_OTHER)

    def _given_keys(self, request: Request) -> Response:
        """Show the lines for a study file, or give them as a file; no key is made by looking."""
        name, openers = _name(request), read_history(self._site.ledger).openers.values()
        offered = any(each.offer.study == name and each.bound is None for each in openers)
        lines = identity_lines(make_identity(self._site, name, opener=offered))
        if "file" in request.query_params:
            sent = {"Content-Disposition": f'attachment; filename="{self._site.name}.yaml"'}
            return Response(f"{lines}\n", media_type="application/yaml", headers=sent)
        return self.answer("given_keys.html", tab="/keys", name=name, lines=lines, opens=offered)

    def _study(self, request: Request) -> Response:
        """Show the state of a study: work under way, its review, its owners, its result."""
        name = _name(request)
        job = self._jobs.of(name)
        if job is not None and job.runs:
            return self._progress(job)
        with connect(self._site) as client:
            study, _ = agreed_study(self._site, client, name, study_file=None)
            progress = client.progress(study.digest)
        history = read_history(self._site.ledger)
        opener = record_for(history.openers, study, self._site.name)
        shown: dict[str, Any] = {
            **self._head(study, progress.state, history),
            "found": progress,
            "job": job,
            "sent": find_sent(history, study.digest, find_policy(self._site)),
            "answer": kept_answer(self._site, name),
            "artefacts": self._artefacts.list(study.name),
            "opener": opener,
            "key_left": opener is not None
            and opener.offer.key_id in list_opener_keys(self._site.openers),
            "compared": name in self._comparisons,
            "sum_steps": (),
        }
        if study.trust is Trust.AGGREGATE:
            verified = knows_all_keys(self._site, study)
            steps = sum_steps(study, shown["standing"], opener, verified=verified)
            shown["sum_steps"] = steps
        if not components_path(self._site, name).exists():
            return self.answer("study.html", **shown)
        result, _ = kept_result(self._site, study)
        return self.answer(
            "components.html",
            header=result.header,
            values=result.eigenvalues.tolist(),
            components=kept_components(result, study),
            **shown,
        )

    def _head(self, study: Study, state: StudyState, history: History) -> dict[str, Any]:
        """Return the values of a study that each of its pages shows.

        ``live`` names where it stands: an open page whose name is no longer that is loaded again.
        """
        standing = self._stand(study, state, history)
        code = hashlib.sha256(repr(standing).encode()).hexdigest()[:16]
        return {
            "study": study,
            "site": self._site.name,
            "face": study_header(study, state, first=find_continued(self._site, study)),
            "cost": decimal_text(calibrate(study).epsilon),
            "standing": standing,
            "badge": standing.badge,
            "live": f"live-{code}",
        }

    def _stand(self, study: Study, state: StudyState, history: History) -> Standing:
        return find_standing(
            self._site,
            study,
            state,
            history,
            find_policy(self._site),
            contributed=history.is_held(study.digest),
        )

    def _progress(self, job: Job) -> Response:
        study, history = kept_study(self._site, job.study), read_history(self._site.ledger)
        return self.answer(
            "progress.html",
            job=job,
            steps=contribution_steps(history, study.digest, job),
            **self._head(study, StudyState.OPEN, history)
            | {"badge": Badge(Group.YOU, "under way", "wait")},
        )

    def _review(self, request: Request) -> Response:
        """Show a review, or the progress of the reading that it needs."""
        name, asked = _name(request), request.query_params
        data_set, digest = asked.get("data-set") or None, asked.get("digest", "").strip() or None
        key, job, again = (
            ContributionOptions(name, data_set, digest),
            self._jobs.of(name),
            "again" in asked,
        )
        address = self._place(name, "/review", data_set, digest)
        if job is not None and job.runs and job.consents:
            return self._to(name)
        if job is not None and job.review == address and not again:
            if job.runs:
                return self._progress(job)
            if job.error is not None:
                return self._to(name)  # that page says how it ended
        with connect(self._site) as client:
            study, state = agreed_study(self._site, client, name, study_file=None)
        history = read_history(self._site.ledger)
        if not self._stand(study, state, history).may_contribute:
            return self._to(name)
        settings = self._settings()
        if settings != self._looked:  # what was counted under other settings is forgotten
            self._site, self._looked = load_site(self._site.folder), settings
            self._previews.clear()
        if key in self._previews and not again:
            return self._show_review(key)
        policy = load_policy(self._site)
        charged = any(each.request.study == name for each in history.reservations)
        if data_set is None and len(policy.data_sets) > 1 and not charged:
            data_sets = policy.data_sets
            return self.answer("data_sets.html", name=name, data_sets=data_sets, again=again)

        def work(job: Job) -> None:
            preview = preview_contribution(self._site, key, progress=job.progress)
            job.check_cancelled()
            if self._looked == settings:
                self._previews[key] = preview

        job = self._jobs.start(Job(name, f"The review of {name}", review=address), work)
        job.wait(_SOON_S)
        return RedirectResponse(address, status_code=HTTPStatus.SEE_OTHER)

    def _settings(self) -> tuple[object, ...]:
        """Return values that change when a review made before is no longer true."""
        files = (stamp(self._site.folder / name) for name in (SITE_FILE, POLICY_FILE))
        return (*files, read_history(self._site.ledger).head)

    def _show_review(
        self,
        key: ContributionOptions,
        *,
        wrong: str | None = None,
        wrong_field: str = "",
        typed_digest: str | None = None,
    ) -> Response:
        seen = self._previews[key]
        history = read_history(self._site.ledger)
        return self.answer(
            "review.html",
            status=HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY,
            review=to_document(seen.document()),
            live_rows=seen.review.is_live,
            alarms=alarm_lines(seen.counted),
            spectrum=spectrum(seen),
            refusals=find_refusals(seen.review, seen.state, seen.data_set, history, seen.counted),
            data_set=key.data_set_name,
            digest=key.digest,
            agreed=fingerprint(seen.review, seen.moments),
            wrong=wrong,
            wrong_field=wrong_field,
            typed_digest=typed_digest,
            **self._head(seen.study, seen.state, history),
        )

    def _consent(self, request: Request) -> Response:
        """Begin a contribution, if the steward has asserted what the page asks."""
        name, form = _name(request), read_form(request)
        data_set, digest = form.get("data-set") or None, _digest(form)
        key = ContributionOptions(name, data_set, form.get("looked-digest") or None)
        if key not in self._previews:
            return self._to(name)
        seen = self._previews[key]
        wrong, field = _find_wrong(form, seen, digest)
        if wrong is not None:
            return self._show_review(key, wrong=wrong, wrong_field=field, typed_digest=digest)
        agreed = form.get("agreed", "")

        def work(job: Job) -> None:
            contribute(
                self._site, ContributionOptions(name, data_set, digest), PageDialogue(job, agreed)
            )

        begun = self._begin(Job(name, f"The contribution to {name}", consents=True), work)
        kept = self._previews.items()
        self._previews = {key: seen for key, seen in kept if key.study_name != name}
        return begun

    def _answer(self, request: Request) -> Response:
        """Keep the answer that the steward gives in place of contributing, or take it back."""
        name, said = _name(request), read_form(request).get("answer", "")
        kept_study(self._site, name)
        answers: dict[str, AnswerKind] = {"declined": "declined", "later": "later"}
        keep_answer(self._site, name, answers.get(said), now=utc_now())
        return self._to(name)

    def _begin(self, job: Job, work: Callable[[Job], None]) -> Response:
        """Begin work that a form asks for, if it is not under way: a form may be sent twice."""
        under_way = self._jobs.of(job.study)
        if under_way is None or not under_way.runs or under_way.title != job.title:
            self._jobs.start(job, work)
        return self._to(job.study)

    def _stop(self, request: Request) -> Response:
        """Stop the work for a study, if it can be stopped; its page shows the outcome."""
        name = _name(request)
        job = self._jobs.of(name)
        if job is not None and not job.stop() and job.runs:
            job.notes.append("It cannot be stopped any more: it is being finished.")
        return self._to(name)

    def _opening(self, request: Request) -> Response:
        """Show the set that this site, an opener, would open."""
        digest = request.query_params.get("digest", "").strip() or None
        return self._show_opening(_name(request), digest)

    def _show_opening(
        self,
        name: str,
        digest: str | None,
        *,
        wrong: str | None = None,
        typed_digest: str | None = None,
    ) -> Response:
        seen = look_at_opening(self._site, name, digest=digest)
        return self.answer(
            "opening.html",
            status=HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY,
            seen=seen,
            **self._head(seen.study, seen.found.state, read_history(self._site.ledger)),
            spares=Terms.from_study(seen.study).votes_needed,
            unverified=() if seen.agreement is None else seen.agreement.unknown,
            wrong=wrong,
            typed_digest=typed_digest,
        )

    def _open(self, request: Request) -> Response:
        """Begin to open, if the steward has ticked what the page asks."""
        name, form = _name(request), read_form(request)
        digest, agreed = _digest(form), form.get("agreed", "")
        if not form.get("tick-1"):
            wrong = "To agree, tick the sentence. Nothing was opened or sent."
            return self._show_opening(name, None, wrong=wrong, typed_digest=digest)

        def work(job: Job) -> None:
            def agree_to(shown: SealedSet | None) -> None:
                if shown is not None and shown.digest != agreed:
                    raise ConsentError(
                        "the set of uploads is not the one that the page showed: look at it again "
                        "and agree again. Nothing was opened or sent"
                    )
                job.commit_point()

            job.step = "Fetching the set, checking and opening it"
            try:
                open_sum(self._site, name, digest=digest, wait_s=0.0, agree_to=agree_to)
            except NotReadyError:
                if not self._has_voted(name):
                    raise
                job.title = f"The vote of this site for {name}"
                job.notes.append(
                    "Nothing is opened before enough openers have voted for the same set. Open it "
                    "here once those that are named below have voted."
                )

        return self._begin(Job(name, f"The opening of {name}"), work)

    def _has_voted(self, name: str) -> bool:
        study, openers = kept_study(self._site, name), read_history(self._site.ledger).openers
        record = record_for(openers, study, self._site.name)
        return record is not None and record.bound is not None

    def _components(self, request: Request) -> Response:
        name = _name(request)
        fetch(self._site, name, wait_s=0.0, quiet=True)
        return self._to(name)

    def _compare(self, request: Request) -> Response:
        """Begin to draw synthetic rows and compare them with the site's own."""
        name = _name(request)

        def work(job: Job) -> None:
            job.step = "Drawing synthetic rows"
            compared = compare_kept(self._site, name, progress=job.progress)
            job.check_cancelled()
            self._comparisons[name] = compared

        return self._begin(Job(name, f"The comparison for {name}"), work)

    def _comparison(self, request: Request) -> Response:
        name = _name(request)
        if name not in self._comparisons:
            raise NotReadyError(f"nothing was compared for study {name} since this page began")
        study = kept_study(self._site, name)
        return self.answer(
            "comparison.html",
            study=study,
            face=study_header(study, first=find_continued(self._site, study)),
            **self._comparisons[name].values(),
        )

    def _file(self, request: Request) -> Response:
        """Give a file of a study that may go anywhere; no other one has an address."""
        file = request.path_params["file"]
        for each in self._artefacts.list(_name(request)):
            if each.path.name == file and each.may_leave:
                return FileResponse(each.path, filename=file)
        raise HTTPException(HTTPStatus.NOT_FOUND)

    def _to(self, name: str) -> Response:
        return RedirectResponse(self._place(name), status_code=HTTPStatus.SEE_OTHER)

    def _place(
        self, name: str, page: str = "", data_set: str | None = None, digest: str | None = None
    ) -> str:
        """Return the address of a page of a study."""
        asked = {"data-set": data_set, "digest": digest}
        query = urlencode({field: value for field, value in asked.items() if value})
        place = f"{self.session.place}/study/{quote(name, safe='')}{page}"
        return f"{place}?{query}" if query else place


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return name


def _digest(form: Mapping[str, str]) -> str | None:
    """Return the digest that was typed, perhaps in groups; None without one."""
    return "".join(form.get("digest", "").split()) or None


def _find_wrong(
    form: Mapping[str, str], seen: ContributionPreview, digest: str | None
) -> tuple[str | None, str]:
    """Return what is wrong with an answer, and the field; None if all is asserted."""
    try:
        require_digest(seen.study, digest)
    except SettingError:
        return (
            f"The digest has 64 digits, 0 to 9 and a to f. This has {len(digest or '')} "
            "characters. Nothing was drawn or charged.",
            "digest",
        )
    except SchemaMismatchError:
        return (
            "This is the digest of another document than the one that this site was sent. Do not "
            "contribute; tell the other owners' stewards. Nothing was drawn or charged.",
            "digest",
        )
    if seen.agreement is not None and digest is None and not seen.agreement.is_verified:
        missing = "Type the digest that another owner's steward has. Nothing was drawn or charged."
        return missing, "digest"
    asserted = seen.document(with_forecast=False).asserted
    if not all(form.get(f"tick-{place}") for place in range(1, len(asserted) + 1)):
        return "To agree, tick what you assert. Nothing was drawn or charged.", "ticks"
    return None, ""
