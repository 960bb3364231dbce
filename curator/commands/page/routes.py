"""Routes of the operator's page, and the content of each answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dppca.common.analysis.loadings import KeptComponent
from dppca.common.kernel.attestation.documents import Verification
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import (
    BusyError,
    DppcaError,
    IdentityError,
    NotReadyError,
    UnreachableError,
)
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study, study_from_canonical
from dppca.common.pages.guard import LocalSessionMiddleware
from dppca.common.pages.server import PageApp
from dppca.common.shell.study_header import StudyHeader
from dppca.common.verification.components import kept_components, nothing_in
from dppca.common.verification.dossier.writing import ANSWERS, dossier_archive
from dppca.common.verification.estimate_form import PageQuestion, csv_headers, csv_text, form_values
from dppca.common.verification.files import check_file, verify_file
from dppca.curator.operator.client import OperatorClient
from dppca.curator.operator.responses import ListedStudy, OwnerStatus, StudyDetails

TEMPLATES = Path(__file__).parent / "templates"
_ENDED = (StudyState.DECOMPOSED, StudyState.CLOSED)
_GROUPS = {
    "Waits for owners": (StudyState.OPEN,),
    "Waits for openers": (StudyState.SEALED,),
    "Results": _ENDED,
    "Ended": (StudyState.ABORTED,),
}
_BADGES = {
    StudyState.OPEN: {"words": "waits for owners", "kind": "wait"},
    StudyState.SEALED: {"words": "waits for openers", "kind": "wait"},
    StudyState.DECOMPOSED: {"words": "result ready", "kind": "idle"},
    StudyState.CLOSED: {"words": "closed", "kind": "idle"},
    StudyState.ABORTED: {"words": "ended", "kind": "bad"},
}
"""Words of each state, and how they are meant, as on the steward's page. A list opens no result."""
_NOTHING = {"words": "nothing above the noise", "kind": "wait"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Components of a study, verified here; ``nothing`` is said where all may be noise."""

    values: list[float]
    nothing: str | None
    components: Sequence[KeptComponent]
    claims: Verification
    published: Published


def _badge(state: StudyState, outcome: Outcome | None) -> dict[str, str]:
    if outcome is None:
        return _BADGES[state]
    return _NOTHING if outcome.nothing else {**_BADGES[state], "kind": "good"}


class OperatorApp(PageApp):
    """Pages of a curator's operator.

    Parameters
    ----------
    address
        Address of the curator.
    ca
        PEM of the authority that certified the parties.
    answers
        File of what a dossier asks for.
    """

    def __init__(
        self,
        client: OperatorClient,
        address: str,
        *,
        ca: bytes,
        answers: Path = Path(ANSWERS),
    ) -> None:
        super().__init__(TEMPLATES, who=f"Curator {address}", links={"Refusals": "/refusals"})
        self._client = client
        self._ca = ca
        self._answers = answers
        self._outcomes: dict[str, Outcome] = {}
        self._firsts: dict[str, Study] = {}
        self._seen: tuple[Sequence[ListedStudy], datetime | None] = (), None

    def application(self) -> LocalSessionMiddleware:
        """Return all routes, guarded."""
        routes = [
            Route("/", self._index),
            Route("/refusals", self._all_refusals),
            Route("/study/{name}", self._study),
            Route("/study/{name}/estimates", self._estimates),
            Route("/study/{name}/estimates.csv", self._estimates_csv),
            Route("/study/{name}/dossier", self._dossier),
        ]
        return self.guarded(routes)

    def _index(self, request: Request) -> Response:
        """Show all studies; as last seen while the curator, or a certificate, fails."""
        del request
        lost: DppcaError | None = None
        try:
            self._seen = self._client.studies(), utc_now()
        except (UnreachableError, BusyError, IdentityError) as error:
            lost = error
        studies, since = self._seen
        groups = [
            (name, [each for each in studies if each.state in states])
            for name, states in _GROUPS.items()
        ]
        return self.answer(
            "operator_studies.html",
            groups=groups,
            badges=_BADGES,
            lost=lost,
            lost_since=since,
            remarks=self._client.greeting.remarks() if self._client.greeting else [],
        )

    def _all_refusals(self, request: Request) -> Response:
        del request
        return self.answer(
            "operator_refusals.html", tab="/refusals", refused=self._client.refusals()
        )

    def _study(self, request: Request) -> Response:
        details = self._client.show(request.path_params["name"])
        study, state = study_from_canonical(details.document), details.summary.state
        now, outcome = utc_now(), self._outcome(study) if state in _ENDED else None
        missing = [each.name for each in details.owners if each.received is None]
        return self.answer(
            "operator_study.html",
            study=study,
            face=StudyHeader(study, state, self._find_first(study)).rows(),
            cost=decimal_text(calibrate(study).epsilon),
            badge=_badge(state, outcome),
            details=details,
            missing=details.missing_openers if state is StudyState.SEALED else missing,
            owners=[
                (each, describe_owner(each, study, details, now), describe_opening(each))
                for each in details.owners
            ],
            refused=self._client.refusals(study.name),
            outcome=outcome,
        )

    def _estimates(self, request: Request) -> Response:
        published, fields = self._published(request), request.query_params.multi_items()
        values = form_values(published, PageQuestion.read(fields))
        return self.answer(
            "estimates.html", study=published.study, query=request.url.query, **values
        )

    def _estimates_csv(self, request: Request) -> Response:
        published, fields = self._published(request), request.query_params.multi_items()
        text = csv_text(published, PageQuestion.read(fields))
        return Response(text, headers=csv_headers(published))

    def _dossier(self, request: Request) -> Response:
        """Give the dossier of the components, as an archive."""
        study = self._published(request).study
        with TemporaryDirectory() as folder:
            path = Path(folder) / "components.npz"
            self._client.download_components(study.name, path)
            content = dossier_archive(check_file(path, ca=self._ca), self._answers)
        headers = {"content-disposition": f'attachment; filename="dossier-{study.name}.zip"'}
        return Response(content, headers=headers, media_type="application/zip")

    def _published(self, request: Request) -> Published:
        """Return a study and its verified result; `NotReadyError` before there is one."""
        details = self._client.show(request.path_params["name"])
        study = study_from_canonical(details.document)
        if details.summary.state not in _ENDED:
            raise NotReadyError(f"study {study.name} has no result yet")
        return self._outcome(study).published

    def _find_first(self, study: Study) -> Study | None:
        """Return the study that a study continues; None without one."""
        if study.continues is None:
            return None
        digest = study.continues.study
        if digest not in self._firsts:
            name = next(
                (each.name for each in self._client.studies() if each.digest == digest), None
            )
            if name is None:
                return None
            self._firsts[digest] = study_from_canonical(self._client.show(name).document)
        return self._firsts[digest]

    def _outcome(self, study: Study) -> Outcome:
        """Return the result, fetched and verified once: it does not change any longer."""
        if study.digest not in self._outcomes:
            with TemporaryDirectory() as folder:
                path = Path(folder) / "components.npz"
                result = self._client.download_components(study.name, path)
                claims = verify_file(path, ca=self._ca)
            self._outcomes[study.digest] = Outcome(
                values=result.eigenvalues.tolist(),
                nothing=nothing_in(result),
                components=kept_components(result, study),
                claims=claims,
                published=Published(study, result),
            )
        return self._outcomes[study.digest]


def describe_owner(owner: OwnerStatus, study: Study, details: StudyDetails, now: datetime) -> str:
    """Return the state of an owner's contribution: came, awaited, late or did not take part."""
    if owner.received is not None:
        return "came"
    if details.summary.state is not StudyState.OPEN:
        return "did not take part"
    late = study.deadline is not None and now >= study.deadline
    return "late" if late else "awaited"


def describe_opening(owner: OwnerStatus) -> list[tuple[str, datetime | None]]:
    """Return the steps of an opener, each with its time; none for other owners."""
    if not owner.opener:
        return []
    steps = [("voted", owner.voted), ("opened", owner.opened)]
    return [each for each in steps if each[1] is not None] or [("awaited", None)]
