"""Questions to the steward, before any noise is drawn."""

import sys
from contextlib import AbstractContextManager

import click

from dppca.common.kernel.errors import ConsentError
from dppca.common.shell.console import Progress, progress, say
from dppca.owner.release.dialogue import Outline, ReleaseOffer


class Terminal:
    """Implementation of `Dialogue` at a terminal.

    Parameters
    ----------
    yes
        True if consent was given on the command line.
    quiet
        True if standard output is for a program: no progress is shown.
    """

    def __init__(self, *, yes: bool, quiet: bool) -> None:
        self._yes, self._quiet = yes, quiet

    def begin(self, outline: Outline) -> None:
        """See `Dialogue`."""
        if not self._yes:
            require_terminal(look=outline.look)

    def require_consent(self, offer: ReleaseOffer) -> bool:
        """See `Dialogue`."""
        if self._yes:
            if not self._quiet:
                say(offer.brief(), err=True)
            return False
        ask(offer.text(), offer.question())
        return True

    def tell(self, text: str) -> None:
        """See `Dialogue`."""
        say(text, err=True)

    def progress(
        self, description: str, total: int, *, unit: str
    ) -> AbstractContextManager[Progress]:
        """See `Dialogue`."""
        return progress(description, total, enabled=not self._quiet, unit=unit)


def require_terminal(*, look: str) -> None:
    """Refuse to go on without a terminal to ask on, before anything is read.

    Parameters
    ----------
    look
        First step for the steward, such as "look at `dppca-owner review X`".

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
    """Show the release to be made and ask; `ConsentError` if the steward declines."""
    say(text, err=True)
    if not click.confirm(question, default=False, err=True):
        raise ConsentError("declined: nothing was drawn, charged or sent")
