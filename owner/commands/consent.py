"""Asking the steward, before any noise is drawn."""

from __future__ import annotations

import sys

import click

from dppca.common.console import say
from dppca.common.errors import ConsentError


def require_terminal(*, look: str) -> None:
    """Refuse to go on without a terminal to ask on, before anything is read.

    Parameters
    ----------
    look
        What to do first, such as "look at `dppca-owner review X`".

    Raises
    ------
    ConsentError
        Standard input is no terminal.
    """
    if not sys.stdin.isatty():
        raise ConsentError(
            f"the question cannot be asked (standard input is not a terminal): {look}, then use "
            "--yes. Nothing was drawn or charged"
        )


def ask(text: str, question: str) -> None:
    """Show what would be released and ask; `ConsentError` if the steward declines."""
    say(text, err=True)
    if not click.confirm(question, default=False, err=True):
        raise ConsentError("declined: nothing was drawn, charged or sent")
