"""Routes of the steward's page, by subject, and its end."""

from starlette.routing import Route

from dppca.common.pages.guard import LocalSessionMiddleware
from dppca.common.shell.console import say
from dppca.owner.commands.interrupt import charges_text, known_history
from dppca.owner.commands.page.consent_pages import ConsentPages
from dppca.owner.commands.page.file_pages import FilePages
from dppca.owner.commands.page.ledger_pages import LedgerPages
from dppca.owner.commands.page.map_pages import MapPages
from dppca.owner.commands.page.site_pages import SitePages
from dppca.owner.commands.page.study_pages import StudyPages
from dppca.owner.site.config import Site


class StewardApp(SitePages):
    """Pages of a site, on all subjects."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._before = known_history(site)

    def application(self) -> LocalSessionMiddleware:
        """Return all routes, guarded."""
        ledger, files, consent = LedgerPages(self), FilePages(self), ConsentPages(self)
        studies, maps = StudyPages(self, files), MapPages(self)
        routes = [
            Route("/", studies.index),
            Route("/ledger", ledger.ledger),
            Route("/keys", ledger.keys),
            Route("/keys", ledger.give_keys, methods=["POST"]),
            Route("/keys/{name}", ledger.given_keys),
            Route("/study/{name}", studies.study),
            Route("/study/{name}/review", consent.review),
            Route("/study/{name}/map", maps.map),
            Route("/study/{name}/map", maps.propose, methods=["POST"]),
            Route("/study/{name}/map/columns", maps.columns, methods=["POST"]),
            Route("/study/{name}/map/words", maps.words),
            Route("/study/{name}/map/write", maps.write, methods=["POST"]),
            Route("/study/{name}/consent", consent.consent, methods=["POST"]),
            Route("/study/{name}/agreed", studies.agreed),
            Route("/study/{name}/answer", studies.answer, methods=["POST"]),
            Route("/study/{name}/stop", studies.stop, methods=["POST"]),
            Route("/study/{name}/opening", consent.opening),
            Route("/study/{name}/open", consent.open, methods=["POST"]),
            Route("/study/{name}/components", studies.components, methods=["POST"]),
            Route("/study/{name}/estimates", studies.estimates),
            Route("/study/{name}/estimates.csv", studies.estimates_csv),
            Route("/study/{name}/compare", files.compare, methods=["POST"]),
            Route("/study/{name}/comparison", files.comparison),
            Route("/study/{name}/dossier", files.dossier),
            Route("/study/{name}/file/{file}", files.file),
        ]
        return self.guarded(routes)

    def finish(self) -> str:
        """Stop work that has changed nothing yet, wait for other work, and return the charges."""
        job, job_text = self.jobs.running(), ""
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
        return charges_text(self._before, known_history(self.site))
