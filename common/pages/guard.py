"""Access control of a page on this machine: only the one browser that brought the token.

Any user and any program of the machine can reach a port of loopback, and any site that is open in
the same browser can make it send requests there. So every request must pass these rules, in order:

1. **Host** is a name of loopback. A site whose name was rebound to 127.0.0.1 has another one.
2. **Origin**, if present, is the page's own; so is ``Sec-Fetch-Site``, or ``none`` for a typed
   address. Other servers of this machine are "same site", and refused.
3. ``/login`` exchanges the **token** that the command printed, once, for cookies. Styles and the
   script need none, because they reveal nothing. The used token leads back to the page only the
   browser that brought it first: that one has a second cookie, sent to ``/login`` alone, which
   opens nothing without the token.
4. Every other path begins with the session's own random **place**, and needs the **cookie**
   (HttpOnly, SameSite=Strict). Browsers send a cookie of 127.0.0.1 to every port of it, and so to
   servers of other users: this one is sent only to paths below its place, which they do not know.
5. A **POST** carries an Origin, the form's token, and at most 64 KiB.

Answers forbid scripts and styles from elsewhere and within the page, frames, and copies on the
disk. ``Referrer-Policy`` is ``same-origin``: with ``no-referrer`` browsers send ``Origin: null``
with a form, and rule 2 would have to accept that.
"""

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE, BACK = "dppca-page", "dppca-back"
FORM_TOKEN = "form-token"  # noqa: S105 - the name of a field
LOGIN, STATIC = "/login", "/static/"
MOST_BYTES = 1 << 16  # of a form
MOST_FIELDS = 4096  # of a form: one for each word of a mapping
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_AGAIN = "To get a new address, stop the command with Ctrl-C and start it again."
_PASTE = "Paste the address that the command printed into this browser's address line."

Refuse = Callable[[Request, HTTPStatus, str], Response]
"""Function that makes the page with the reason of a refusal."""


def _random() -> str:
    return secrets.token_urlsafe(32)


@dataclass(slots=True)
class Session:
    """Secrets of one browser's session; all are random and end with the process.

    Attributes
    ----------
    place
        First part of every path, with its slash.
    token
        Printed once, accepted once.
    cookie, form_token
        Sent by the browser with every request, and with every form.
    back
        Sent by the browser to ``/login``; with the used token it leads back to the page.
    used
        True once the token was accepted.
    """

    place: str = field(default_factory=lambda: f"/{secrets.token_hex(16)}")
    token: str = field(default_factory=_random)
    cookie: str = field(default_factory=_random)
    back: str = field(default_factory=_random)
    form_token: str = field(default_factory=_random)
    used: bool = False

    def address(self, port: int) -> str:
        """Return the address that the command prints."""
        return f"http://127.0.0.1:{port}{LOGIN}?token={self.token}"


class LocalSessionMiddleware:
    """Filter of requests to an application, for one session; see the module."""

    def __init__(self, app: ASGIApp, session: Session, refuse: Refuse) -> None:
        self._app, self._session, self._refuse = app, session, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI)."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        request = Request(scope, receive)
        app = await self._answer(request) or self._app
        await app(scope, receive, send_guarded)

    async def _answer(self, request: Request) -> Response | None:
        """Return the answer in place of the application's; None to pass the request on."""
        wrong = _find_foreign(request)
        if wrong is not None:
            return self._refuse(request, HTTPStatus.FORBIDDEN, wrong)
        path = request.url.path
        if path == LOGIN:
            return self._log_in(request)
        if path.startswith(STATIC):
            return None
        if not self._is_known(request):
            return self._refuse(
                request,
                HTTPStatus.FORBIDDEN,
                f"This browser has not logged in here. {_PASTE} It works once. {_AGAIN}",
            )
        return await self._take_form(request) if request.method == "POST" else None

    def _log_in(self, request: Request) -> Response:
        session = self._session
        token = request.query_params.get("token", "")
        if not _fits(token, session.token):
            return self._refuse(
                request, HTTPStatus.FORBIDDEN, f"This is not the address that was printed. {_AGAIN}"
            )
        answer = RedirectResponse(f"{session.place}/", status_code=HTTPStatus.SEE_OTHER)
        if session.used:
            if _fits(request.cookies.get(BACK, ""), session.back):
                return answer
            return self._refuse(
                request,
                HTTPStatus.FORBIDDEN,
                "This address was used before, and works in one browser. If that was not you, "
                f"somebody else may have this page open. {_AGAIN}",
            )
        session.used = True
        for name, value, path in (
            (BACK, session.back, LOGIN),
            (COOKIE, session.cookie, f"{session.place}/"),
        ):
            answer.set_cookie(name, value, path=path, httponly=True, samesite="strict")
        return answer

    def _is_known(self, request: Request) -> bool:
        return request.url.path.startswith(f"{self._session.place}/") and _fits(
            request.cookies.get(COOKIE, ""), self._session.cookie
        )

    async def _take_form(self, request: Request) -> Response | None:
        """Read a form into the request's scope, for the application; refuse foreign forms."""
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return self._refuse(
                request, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The form is too large."
            )
        if "origin" not in request.headers:
            return self._refuse(
                request,
                HTTPStatus.FORBIDDEN,
                f"The browser does not say where the form is from: use another browser. {_AGAIN}",
            )
        try:
            fields = dict(parse_qsl((await request.body()).decode(), max_num_fields=MOST_FIELDS))
        except ValueError:
            return self._refuse(request, HTTPStatus.BAD_REQUEST, "The form cannot be read.")
        brought = fields.pop(FORM_TOKEN, "")
        if not _fits(brought, self._session.form_token):
            return self._refuse(
                request, HTTPStatus.FORBIDDEN, "This form is not of this page: load the page again."
            )
        request.scope["form"] = fields
        return None


def _fits(brought: str, secret: str) -> bool:
    return hmac.compare_digest(brought.encode(), secret.encode())


def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that the guard accepted; none for a request without one."""
    fields: dict[str, str] = request.scope.get("form", {})
    return fields


def _find_foreign(request: Request) -> str | None:
    """Return the reason why a request is not from this page's own browser window, or None."""
    host = request.headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name not in _LOOPBACK:
        return f"The address names another machine. {_PASTE} {_AGAIN}"
    origin = request.headers.get("origin")
    sent_from = request.headers.get("sec-fetch-site", "none")
    if origin not in (None, f"http://{host}") or sent_from not in ("none", "same-origin"):
        return f"The request comes from another page. {_PASTE} {_AGAIN}"
    return None
