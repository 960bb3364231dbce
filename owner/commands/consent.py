"""Questions to the steward, before any noise is drawn."""

import sys
from contextlib import AbstractContextManager
from typing import Protocol

import click

from dppca.common.kernel.errors import ConsentError
from dppca.common.shell.console import Progress, progress, say
from dppca.owner.release.contribution import Review
from dppca.owner.render.faults import counts_line, counts_text
from dppca.owner.render.review import ContributionPreview


class Dialogue(Protocol):
    """Interface through which a contribution asks its steward and shows its progress."""

    def begin(self, planned: Review) -> None:
        """Start before a row is read; raise `ConsentError` if no consent can be given."""

    def require_consent(self, preview: ContributionPreview) -> bool:
        """Ask before anything is charged; raise `ConsentError` unless the steward agrees.

        Returns
        -------
        bool
            True if the steward was asked now; False if consent was given before.
        """

    def tell(self, text: str) -> None:
        """Show a text to the steward."""

    def progress(
        self, description: str, total: int, *, unit: str
    ) -> AbstractContextManager[Progress]:
        """Show the progress of a piece of work while the block runs."""


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

    def begin(self, planned: Review) -> None:
        """See `Dialogue`."""
        if not self._yes:
            require_terminal(look=f"look at `dppca-owner review {planned.study.name}`")

    def require_consent(self, preview: ContributionPreview) -> bool:
        """See `Dialogue`."""
        asked = preview.document(with_forecast=not self._yes)
        asserted = f"You assert: {' '.join(asked.asserted)}"
        question = "\n".join((*asked.stated.lines(), asked.question, asserted))
        if self._yes:
            if not self._quiet:
                say(f"{question}\n{counts_line(preview.counted, asked.study)}", err=True)
            return False
        ask(f"{preview.text()}\n{counts_text(preview.counted)}", f"{question}\nContribute this?")
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
