"""Server of a page on loopback, until Ctrl-C."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import BusyError, DppcaError, SettingError, UnreachableError
from dppca.common.pages.guard import STATIC, LocalSessionMiddleware, Session
from dppca.common.pages.rendering import STATIC as STATIC_FOLDER
from dppca.common.pages.rendering import render
from dppca.common.shell.console import defect_text, say, terminable
from dppca.common.shell.glossary import WORDS
from dppca.common.shell.pasting import pasted_page

HOST = "127.0.0.1"
_WORDS = "/words"
_DEFECT = "This is a defect in this software. Please report it with the lines in the terminal."


class PageApp:
    """The pages of one side.

    ``folders`` hold its templates; ``who`` heads every page, such as ``Site hospital``; ``links``
    has names and paths of pages that every page links to, beside the studies.
    """

    def __init__(self, *folders: Path, who: str, links: Mapping[str, str]) -> None:
        self._folders = folders
        self._who = who
        self._links = links
        self.session = Session()

    def answer(self, template: str, *, status: int = HTTPStatus.OK, **values: Any) -> HTMLResponse:
        """Return a page as an answer."""
        return HTMLResponse(self._render(template, **values), status_code=status)

    def guarded(self, routes: Sequence[BaseRoute]) -> LocalSessionMiddleware:
        """Return routes below the session's place, guarded, with errors as pages."""
        app = Starlette(
            routes=[
                Mount(STATIC.rstrip("/"), StaticFiles(directory=STATIC_FOLDER)),
                Mount(self.session.place, routes=[*routes, Route(_WORDS, self._words)]),
            ],
            exception_handlers={
                DppcaError: self._explain,
                HTTPException: self._explain_status,
                Exception: self._confess,
            },
        )
        return LocalSessionMiddleware(app, self.session, self._refuse)

    def _render(self, template: str, **values: Any) -> str:
        page = render(
            self._folders,
            template,
            who=self._who,
            links=[("Studies", "/"), *self._links.items(), ("Words", _WORDS)],
            tab=values.pop("tab", "/"),
            place=self.session.place,
            form_token=self.session.form_token,
            now=utc_now(),
            **values,
        )
        return pasted_page(page)

    def _words(self, request: Request) -> Response:
        """Show the meaning of words of art."""
        del request
        return self.answer("words.html", tab=_WORDS, words=WORDS)

    def _refuse(self, request: Request, status: HTTPStatus, message: str) -> Response:
        del request
        return self._error(status, "This page was not shown, and nothing was done", message)

    def _error(self, status: int, title: str, message: str) -> Response:
        # A visitor without a login learns nothing, not even the party of this page.
        text = render(self._folders, "error.html", who="", heading=title, message=message)
        return HTMLResponse(text, status_code=status)

    def _explain(self, request: Request, error: Exception) -> Response:
        del request
        assert isinstance(error, DppcaError)  # noqa: S101 - the handler of that class
        if isinstance(error, UnreachableError | BusyError):
            status = HTTPStatus.SERVICE_UNAVAILABLE
            return self.answer("unreachable.html", status=status, message=str(error))
        return self.answer(
            "failure.html",
            status=HTTPStatus.CONFLICT,
            heading=error.public,
            message=str(error),
        )

    def _explain_status(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - the handler of that class
        status, words = HTTPStatus(error.status_code), "This page does not exist."
        if not request.url.path.startswith(f"{self.session.place}/"):
            return self._error(status, status.phrase, words)
        return self.answer("failure.html", status=status, heading=status.phrase, message=words)

    def _confess(self, request: Request, error: Exception) -> Response:
        del request
        say(defect_text(error), err=True)
        return self._error(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error", _DEFECT)


def serve(app: Any, *, port: int, opened: Callable[[int], None]) -> None:
    """Serve until Ctrl-C, SIGTERM or a closed terminal; running requests are answered first.

    ``port`` 0 is any free port of loopback. ``opened`` is called with the port once requests are
    answered. Raise `SettingError` if the port is taken.
    """
    config = uvicorn.Config(
        app,
        host=HOST,
        port=port,
        access_log=False,
        date_header=False,
        http="h11",
        lifespan="off",
        log_config=None,
        log_level="critical",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=5,
        ws="none",
    )
    server = _Server(config, opened)
    try:
        with terminable():
            server.run()
    except KeyboardInterrupt:
        return
    except (SystemExit, asyncio.CancelledError) as error:
        if server.started:
            raise
        raise SettingError(f"port {port} is taken: choose another with --port") from error


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, opened: Callable[[int], None]) -> None:
        super().__init__(config)
        self._opened = opened

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._opened(self.servers[0].sockets[0].getsockname()[1])
