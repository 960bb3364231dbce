"""Shared parts of both sides' commands that serve a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click

from dppca.common.shell.console import say

if TYPE_CHECKING:
    from dppca.common.pages.guard import Session

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class PageDocument:
    """A page that was served, and has ended."""

    port: Annotated[int, "port of 127.0.0.1 that it was served on"]


def port_option(command: _Command) -> _Command:
    """Add ``--port``."""
    text = "Port of 127.0.0.1; by default any free one."
    return click.option("--port", type=click.IntRange(0, 65_535), default=0, help=text)(command)


def serve_page(app: Any, session: Session, *, port: int) -> PageDocument:
    """Serve until Ctrl-C and print the address once; see `dppca.common.pages.server.serve`."""
    from dppca.common.pages.server import serve

    opened: list[int] = []

    def tell(port: int) -> None:
        opened.append(port)
        say(
            f"Open this address, once, in a browser on this machine:\n\n  {session.address(port)}\n"
            "\nCtrl-C ends the page.",
            err=True,
        )

    serve(app, port=port, opened=tell)
    return PageDocument(opened[0])
