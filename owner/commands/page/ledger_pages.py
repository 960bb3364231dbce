"""Pages on the site's budget, ledger and keys."""

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.errors import SettingError
from dppca.common.pages.guard import read_form
from dppca.owner.commands.budget_totals import site_budgets
from dppca.owner.commands.identity import RENEWING, identity_lines, make_identity
from dppca.owner.commands.page.site_pages import SitePages, study_name
from dppca.owner.commands.page.views import budget_segments, find_used_up
from dppca.owner.ledger.file import read_history
from dppca.owner.render.ledger import adds_up_to_less
from dppca.owner.site.config import Site


def budget_values(site: Site) -> dict[str, Any]:
    """Return the budgets of a site, as pages show them."""
    budgets = site_budgets(site.folder, None)
    return {
        "budget": to_document(budgets),
        "segments": budget_segments(budgets),
        "adds_up_to_less": adds_up_to_less(budgets),
        "used_up": find_used_up(budgets),
    }


class LedgerPages:
    """Budget and ledger, and the keys that this site gives."""

    def __init__(self, pages: SitePages) -> None:
        self._pages = pages

    def ledger(self, request: Request) -> Response:
        """Show the budget and the ledger."""
        del request
        return self._pages.answer("ledger.html", tab="/ledger", **budget_values(self._pages.site))

    def keys(self, request: Request) -> Response:
        """Ask for which study this site gives its key, and whether it would open."""
        del request
        return self._ask_for_keys("")

    def _ask_for_keys(self, typed: str, wrong: str | None = None) -> Response:
        return self._pages.answer(
            "keys.html",
            status=HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY,
            tab="/keys",
            typed=typed,
            wrong=wrong,
            renewing=RENEWING if self._pages.site.next.exists() else None,
        )

    def give_keys(self, request: Request) -> Response:
        """Make the keys that the form asks for, if the name is a study's."""
        form = read_form(request)
        name = form.get("study", "").strip()
        try:
            make_identity(self._pages.site, name, opener="opener" in form)
        except SettingError as error:
            return self._ask_for_keys(name, f"{error}. No key was made.")
        place = f"{self._pages.session.place}/keys/{quote(name, safe='')}"
        return RedirectResponse(place, status_code=HTTPStatus.SEE_OTHER)

    def given_keys(self, request: Request) -> Response:
        """Show the lines for a study file, or give them as a file; no key is made by looking."""
        name, openers = study_name(request), read_history(self._pages.site.ledger).openers.values()
        offered = any(each.offer.study == name and each.bound is None for each in openers)
        lines = identity_lines(make_identity(self._pages.site, name, opener=offered))
        if "file" in request.query_params:
            sent = {"Content-Disposition": f'attachment; filename="{self._pages.site.name}.yaml"'}
            return Response(f"{lines}\n", media_type="application/yaml", headers=sent)
        return self._pages.answer(
            "given_keys.html", tab="/keys", name=name, lines=lines, opens=offered
        )
