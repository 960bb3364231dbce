"""What is printed before a file that may leave is made: all that it holds, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.release.contribution import BudgetStatus, NextStep
from dppca.owner.render.texts import standing_text


@dataclass(frozen=True, slots=True)
class Offer:
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
    offer: Offer, request: ReleaseRequest, n_rows: int, status: BudgetStatus, step: NextStep
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
        f"  {standing_text(request.data_set, status)}",
        "The guarantee holds if:",
        f"  no person has more than {person} row{'s' if person > 1 else ''} in this data set",
        f"Next: {offer.work}, charge, draw the noise, and store the {offer.noun}{again}",
    ]
    return "\n".join(lines)


def charge_text(document: Mapping[str, Any]) -> str:
    """A charge, which may be of both kinds."""
    parts = [f"epsilon {document['charged_epsilon']}", f"rho {document['charged_rho']} (zCDP)"]
    amounts = (document["charged_epsilon"], document["charged_rho"])
    return " and ".join(part for part, amount in zip(parts, amounts, strict=True) if amount != "0")
