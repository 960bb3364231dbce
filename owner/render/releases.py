"""What is printed before a file that may leave is made: all that it holds, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from dppca.common.documents import CodedByRule, DecimalText, DigestText
from dppca.common.privacy.labels import Label
from dppca.common.privacy.receipts import CostFields
from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.release.contribution import BudgetStatus, NextStep
from dppca.owner.render.charges import charge_text, standing_lines


class ReleasedFile(CostFields):
    """A file that may leave, as the ledger stores it."""

    study: Annotated[str, "name of the study"]
    data_set: Annotated[str, "data set that it was computed from"]
    population: Annotated[str, "population that was charged"]
    remaining: Annotated[
        DecimalText | None, "epsilon that is left to it; null if policy.yaml does not state it now"
    ]
    label: Annotated[Label, "where the file may go"]
    rows: Annotated[int, "rows that it was computed from"]
    mechanism: Annotated[str, "noise: `laplace` or `gaussian`"]
    release_id: Annotated[DigestText, "identifier of the release"]
    bytes: Annotated[int, "size of the file without its seal"]
    receipt: Annotated[Mapping[str, object], "the receipt that the file holds"]
    already_stored: Annotated[bool, "whether it was made and charged before"]
    coded_by_rule: Annotated[
        CodedByRule | None, "values that coding replaced (site-only); null if no row was read"
    ]


@dataclass(frozen=True, slots=True)
class LeavingFile:
    """A file that may leave, in words.

    Attributes
    ----------
    title, noun
        ``A classifier of sex`` and ``model``.
    leaves
        What could leave, in a phrase.
    beside
        What else was charged, in a phrase.
    work
        What is done with rows before the charge.
    split
        How epsilon is divided; empty if it is not.
    n_more
        Public rows that are read besides the table's.
    """

    title: str
    noun: str
    leaves: str
    beside: str
    work: str
    max_rows_per_person: int
    split: str = ""
    n_more: int = 0


def offer_text(
    offer: LeavingFile, request: ReleaseRequest, n_rows: int, status: BudgetStatus, step: NextStep
) -> str:
    """What a file that may leave would hold, and what it costs."""
    person = offer.max_rows_per_person
    again = "" if step is NextStep.RESERVE else ", at no further charge: it was charged before"
    cost = request.cost_fields()
    lines = [
        f"{offer.title} that may leave, study {request.study}, data set {request.data_set}, "
        f"{n_rows} rows",
        "",
        "What could leave this site, once:",
        f"  {offer.leaves}",
        f"  the number of rows, {n_rows}, exactly, and a receipt of the guarantee",
        f"What that costs, {offer.beside}:",
        f"  {request.mechanism} noise: epsilon {cost['epsilon']}, delta {cost['delta']}; "
        f"charged: {charge_text(cost)}",
        *([f"  epsilon is split: {offer.split}"] if offer.split else []),
        *standing_lines(status),
        "The guarantee holds if:",
        f"  no person has more than {person} row{'s' if person > 1 else ''} in this data set",
        f"Next: {offer.work}, charge, draw the noise, and store the {offer.noun}{again}",
    ]
    return "\n".join(lines)
