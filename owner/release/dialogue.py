"""What a steward is asked, of any kind of release: its outline, then the offer.

An `Outline` is known before a row is read, an `ReleaseOffer` once the rows were read and counted. A
`Dialogue` asks: a terminal, a page, a program. It knows no kind of release.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.study import Study
from dppca.common.shell.console import Progress
from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.release.contribution import BudgetStatus
from dppca.owner.release.next_step import NextStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What is known of a release before a row is read; facts have names, and are JSON.

    Attributes
    ----------
    look
        First step of a steward who cannot be asked, such as "look at `dppca-owner review X`".
    data_set
        Name of the data set.
    may_leave
        Facts that others may be told: what is released, its claim and its charge.
    site_only
        Facts for this site's own people: rows, query, budget.
    live_rows
        Number of rows when they were opened, if others may write to them; else None. It is no fact
        then: consent is to the query, whatever rows it gives.
    """

    look: str
    data_set: str
    may_leave: Mapping[str, object]
    site_only: Mapping[str, object]
    live_rows: int | None


class ReleaseOffer(Protocol):
    """What a steward agrees to. Texts may take seconds, so they are made where they are shown."""

    @property
    def outline(self) -> Outline:
        """Outline of the release, of the rows that were read."""

    @property
    def alarms(self) -> Sequence[str]:
        """Faults that make a whole column or file unreadable; they are told to everybody."""

    def private(self) -> bytes:
        """Return what tells these rows from others, for this process alone: no file, no hash."""

    def text(self) -> str:
        """Return content, cost and counts, for a steward who is asked."""

    def question(self) -> str:
        """Return the question below the text."""

    def brief(self) -> str:
        """Return what is told to a steward who agreed beforehand."""


class Dialogue(Protocol):
    """Interface through which a release asks its steward and shows its progress."""

    def begin(self, outline: Outline) -> None:
        """Start before a row is read; raise `ConsentError` if no consent can be given."""

    def require_consent(self, offer: ReleaseOffer) -> bool:
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


def outline_release(
    study: Study,
    request: ReleaseRequest,
    budget: BudgetStatus,
    step: NextStep,
    *,
    look: str,
    numbers: int,
    n_rows: int,
    is_live: bool,
) -> Outline:
    """Return the outline of any kind of release.

    ``numbers`` counts the noised numbers that would leave; ``is_live`` says that others may write
    to the ``n_rows`` rows.
    """
    may_leave: dict[str, Any] = {
        "kind": request.kind.value,
        "study": study.name,
        "study_digest": study.digest,
        "request_digest": request.request_digest,
        "numbers": numbers,
        "mechanism": request.mechanism,
        **request.price.fields(),
        "colluders": request.colluders,
        "honest": request.honest,
    }
    site_only: dict[str, Any] = {
        "data_set": request.data_set,
        "query_sha256": request.query_sha256,
        "reading_sha256": request.reading_sha256,
        "rows": None if is_live else n_rows,
        "budget": budget,
        "step": step.value,
    }
    return Outline(
        look=look,
        data_set=request.data_set,
        may_leave=to_document(may_leave),
        site_only=to_document(site_only),
        live_rows=n_rows if is_live else None,
    )
