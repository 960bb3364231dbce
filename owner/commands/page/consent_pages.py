"""Pages on which a steward agrees: to a contribution, and to the opening of a sealed set."""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dppca.common.kernel.aggregation.sum_messages import SealedSet
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.errors import (
    ConsentError,
    NotReadyError,
    SchemaMismatchError,
    SettingError,
)
from dppca.common.pages.guard import read_form
from dppca.owner.client.calls import agreed_study, connect
from dppca.owner.commands.contribute import ContributionOptions, contribute
from dppca.owner.commands.coverage import find_refusals
from dppca.owner.commands.interrupt import report_charges
from dppca.owner.commands.opening import open_sum, preview_opening
from dppca.owner.commands.page.artefacts import stamp
from dppca.owner.commands.page.jobs import Job, PageDialogue, fingerprint
from dppca.owner.commands.page.site_pages import (
    SitePages,
    said_in_the_list,
    study_name,
    typed_digest,
)
from dppca.owner.commands.page.views import spectrum
from dppca.owner.commands.preview import preview_contribution
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.openers import record_for
from dppca.owner.records.faults import alike_line
from dppca.owner.render.review import ContributionPreview
from dppca.owner.site import POLICY_FILE, SITE_FILE
from dppca.owner.site.agreement import require_digest
from dppca.owner.site.config import load_site
from dppca.owner.site.kept_studies import kept_study
from dppca.owner.site.policy import load_policy

_SOON_S = 1.0
"""Reviews of small tables are ready within this time and are shown without their progress."""


class ConsentPages:
    """What a steward is shown before consent, and the forms by which it is given."""

    def __init__(self, pages: SitePages) -> None:
        self._pages = pages
        self._previews: dict[ContributionOptions, ContributionPreview] = {}
        self._looked = self._settings()

    def review(self, request: Request) -> Response:
        """Show a review, or the progress of the reading that it needs."""
        name, asked = study_name(request), request.query_params
        data_set, digest = asked.get("data-set") or None, asked.get("digest", "").strip() or None
        key = ContributionOptions(name, data_set, digest)
        job, again = self._pages.jobs.of(name), "again" in asked
        address = self._pages.place(name, "/review", data_set, digest)
        if job is not None and job.runs and job.consents:
            return self._pages.to(name)
        if job is not None and job.review == address and not again:
            if job.runs:
                return self._pages.show_progress(job)
            if job.error is not None and not kept_study(self._pages.site, name).shows_rows:
                # The study's page would ask the curator, who would see how long rows were read.
                title = f"{job.title} ended without a result"
                status = HTTPStatus.CONFLICT
                return self._pages.answer(
                    "failure.html", status=status, heading=title, message=job.error
                )
            if job.error is not None:
                return self._pages.to(name)  # that page says how it ended
        settings = self._settings()
        if settings != self._looked:  # what was counted under other settings is forgotten
            self._pages.site, self._looked = load_site(self._pages.site.folder), settings
            self._previews.clear()
        seen = self._previews.get(key)
        if seen is not None and not again and not seen.study.shows_rows:
            return self._show_review(key)  # a call now would tell how long rows were read
        with connect(self._pages.site, warn=said_in_the_list) as client:
            study, state = agreed_study(self._pages.site, client, name, study_file=None)
        history = read_history(self._pages.site.ledger)
        if not self._pages.stand(study, state, history).may_contribute:
            return self._pages.to(name)
        if seen is not None and not again:
            return self._show_review(key)
        policy = load_policy(self._pages.site)
        charged = any(each.request.study == name for each in history.reservations)
        if data_set is None and len(policy.data_sets) > 1 and not charged:
            data_sets = policy.data_sets
            return self._pages.answer("data_sets.html", name=name, data_sets=data_sets, again=again)

        def work(job: Job) -> None:
            preview = preview_contribution(self._pages.site, key, progress=job.progress)
            job.check_cancelled()
            if self._looked == settings:
                self._previews[key] = preview

        job = self._pages.jobs.start(Job(name, f"The review of {name}", review=address), work)
        job.wait(_SOON_S)
        return RedirectResponse(address, status_code=HTTPStatus.SEE_OTHER)

    def _settings(self) -> tuple[object, ...]:
        """Return values that change when a review made before is no longer true."""
        files = (stamp(self._pages.site.folder / name) for name in (SITE_FILE, POLICY_FILE))
        return (*files, read_history(self._pages.site.ledger).head)

    def _show_review(
        self,
        key: ContributionOptions,
        *,
        wrong: str | None = None,
        wrong_field: str = "",
        typed: str | None = None,
    ) -> Response:
        seen = self._previews[key]
        history = read_history(self._pages.site.ledger)
        return self._pages.answer(
            "review.html",
            status=HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY,
            review=to_document(seen.document()),
            attributes=seen.without_forecast.attributes,
            live_rows=seen.is_live,
            alarms=seen.alarms,
            alike="" if seen.counted.key is None else alike_line(seen.counted.key),
            spectrum=spectrum(seen),
            refusals=find_refusals(
                seen.review,
                seen.state,
                seen.data_set,
                history,
                seen.counted,
                owner=seen.site.name,
            ),
            data_set=key.data_set_name,
            policy=str(self._pages.site.folder.resolve() / POLICY_FILE),
            digest=key.digest,
            agreed=fingerprint(seen.outline, seen.private()),
            wrong=wrong,
            wrong_field=wrong_field,
            typed_digest=typed,
            **self._pages.head(seen.study, seen.state, history),
        )

    def consent(self, request: Request) -> Response:
        """Begin a contribution, if the steward has asserted what the page asks."""
        name, form = study_name(request), read_form(request)
        data_set, digest = form.get("data-set") or None, typed_digest(form)
        key = ContributionOptions(name, data_set, form.get("looked-digest") or None)
        if key not in self._previews:
            return self._pages.to(name)
        seen = self._previews[key]
        wrong, field = _find_wrong(form, seen, digest)
        if wrong is not None:
            return self._show_review(key, wrong=wrong, wrong_field=field, typed=digest)
        agreed = form.get("agreed", "")

        def work(job: Job) -> None:
            options = ContributionOptions(name, data_set, digest)
            with report_charges(self._pages.site, options.study_name):
                contribute(self._pages.site, options, PageDialogue(job, agreed))

        begun = self._pages.begin(Job(name, f"The contribution to {name}", consents=True), work)
        kept = self._previews.items()
        self._previews = {key: seen for key, seen in kept if key.study_name != name}
        return begun

    def opening(self, request: Request) -> Response:
        """Show the set that this site, an opener, would open."""
        digest = request.query_params.get("digest", "").strip() or None
        return self._show_opening(study_name(request), digest)

    def _show_opening(
        self,
        name: str,
        digest: str | None,
        *,
        wrong: str | None = None,
        typed: str | None = None,
    ) -> Response:
        seen = preview_opening(self._pages.site, name, digest=digest)
        return self._pages.answer(
            "opening.html",
            status=HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY,
            seen=seen,
            **self._pages.head(seen.study, seen.found.state, read_history(self._pages.site.ledger)),
            spares=Terms.from_study(seen.study).votes_needed,
            unverified=() if seen.agreement is None else seen.agreement.unknown,
            wrong=wrong,
            typed_digest=typed,
        )

    def open(self, request: Request) -> Response:
        """Begin to open, if the steward has ticked what the page asks."""
        name, form = study_name(request), read_form(request)
        digest, agreed = typed_digest(form), form.get("agreed", "")
        if not form.get("tick-1"):
            wrong = "To agree, tick the sentence. Nothing was opened or sent."
            return self._show_opening(name, None, wrong=wrong, typed=digest)

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
                open_sum(self._pages.site, name, digest=digest, wait_s=0.0, agree_to=agree_to)
            except NotReadyError:
                if not self._has_voted(name):
                    raise
                job.title = f"The vote of this site for {name}"
                job.notes.append(
                    "Nothing is opened before enough openers have voted for the same set. Open it "
                    "here once those that are named below have voted."
                )

        return self._pages.begin(Job(name, f"The opening of {name}"), work)

    def _has_voted(self, name: str) -> bool:
        site = self._pages.site
        openers = read_history(site.ledger).openers
        record = record_for(openers, kept_study(site, name), site.name)
        return record is not None and record.bound is not None


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
    asserted = seen.without_forecast.asserted
    if not all(form.get(f"tick-{place}") for place in range(1, len(asserted) + 1)):
        return "To agree, tick what you assert. Nothing was drawn or charged.", "ticks"
    return None, ""
