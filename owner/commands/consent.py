"""Asking the steward, before any noise is drawn."""

from __future__ import annotations

import sys

import click

from common.errors import ConsentError


def ask(text: str, question: str, *, look: str) -> None:
    """Show what would be released and get a yes.

    Parameters
    ----------
    look
        What to do first where there is nobody to ask, such as "look at `dppca-owner review X`".

    Raises
    ------
    ConsentError
        The steward declined, or standard input is no terminal.
    """
    if not sys.stdin.isatty():
        message = (
            f"there is nobody to ask (standard input is no terminal): {look}, then use --yes. "
            "Nothing was drawn or charged"
        )
        raise ConsentError(message)
    click.echo(text, err=True)
    if not click.confirm(question, default=False, err=True):
        message = "declined: nothing was drawn, charged or sent"
        raise ConsentError(message)
