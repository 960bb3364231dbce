"""Files of a study that may leave, and synthetic rows beside the site's own."""

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from dppca.common.kernel.attestation.verify import read_authority, read_revoked
from dppca.common.kernel.errors import NotReadyError
from dppca.common.shell.study_header import StudyHeader
from dppca.common.verification.dossier.writing import ANSWERS, dossier_archive
from dppca.common.verification.files import check_file
from dppca.owner.commands.page.artefacts import Artefacts
from dppca.owner.commands.page.jobs import Job
from dppca.owner.commands.page.site_pages import SitePages, study_name
from dppca.owner.commands.report import COMPARING, READING, compare_kept
from dppca.owner.commands.synthesize import DRAWING
from dppca.owner.site.kept_studies import components_path, find_continued, kept_study
from dppca.owner.synthesis.report.page import Compared


class FilePages:
    """Files of a study, and the comparison of its synthetic rows."""

    def __init__(self, pages: SitePages) -> None:
        self._pages = pages
        self.artefacts = Artefacts(pages.site)
        self.comparisons: dict[str, Compared] = {}

    def compare(self, request: Request) -> Response:
        """Begin to draw synthetic rows and compare them with the site's own."""
        name = study_name(request)

        def work(job: Job) -> None:
            compared = compare_kept(self._pages.site, name, progress=job.progress)
            job.check_cancelled()
            self.comparisons[name] = compared

        steps = (DRAWING, READING, COMPARING)
        return self._pages.begin(Job(name, f"The comparison for {name}", steps=steps), work)

    def comparison(self, request: Request) -> Response:
        """Show the last comparison for a study."""
        name = study_name(request)
        if name not in self.comparisons:
            raise NotReadyError(f"nothing was compared for study {name} since this page began")
        study = kept_study(self._pages.site, name)
        return self._pages.answer(
            "comparison.html",
            study=study,
            face=StudyHeader(study, first=find_continued(self._pages.site, study)).rows(),
            **self.comparisons[name].values(),
        )

    def dossier(self, request: Request) -> Response:
        """Give the dossier of the components, as an archive; answers are in the site's folder."""
        name, site = study_name(request), self._pages.site
        authority = read_authority(site.ca)
        revoked = read_revoked(site.crl, ca=authority)
        checked = check_file(components_path(site, name), ca=authority, revoked=revoked)
        headers = {"content-disposition": f'attachment; filename="dossier-{name}.zip"'}
        content = dossier_archive(checked, site.folder / ANSWERS)
        return Response(content, headers=headers, media_type="application/zip")

    def file(self, request: Request) -> Response:
        """Give a file of a study that may go anywhere; no other one has an address."""
        file = request.path_params["file"]
        for each in self.artefacts.list(study_name(request)):
            if each.path.name == file and each.may_leave:
                return FileResponse(each.path, filename=file)
        raise HTTPException(HTTPStatus.NOT_FOUND)
