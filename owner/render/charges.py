"""What a release costs and what is left of a budget, in words for people."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from dppca.common.documents.amounts import decimal_text, left_text, spent_text
from dppca.common.privacy.receipts import CostFields
from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.release.contribution import BudgetStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedCost:
    """A claim and a charge."""

    epsilon: Annotated[Decimal, "epsilon of the guarantee"]
    delta: Annotated[Decimal, "delta of the guarantee"]
    charged_epsilon: Annotated[Decimal, "charge in pure epsilon"]
    charged_rho: Annotated[Decimal, "charge in rho (zCDP)"]


def charged_cost(request: ReleaseRequest) -> dict[str, Any]:
    """The fields of `ChargedCost`."""
    return {
        "epsilon": request.epsilon,
        "delta": request.delta,
        "charged_epsilon": request.charge.epsilon,
        "charged_rho": request.charge.rho,
    }


def charge_text(cost: CostFields) -> str:
    """A charge, which may be of both kinds."""
    parts = (("epsilon {}", cost["charged_epsilon"]), ("rho {} (zCDP)", cost["charged_rho"]))
    return " and ".join(words.format(spent_text(each)) for words, each in parts if each != "0")


def standing_lines(status: BudgetStatus) -> list[str]:
    """What is left of a population's lifetime budget."""
    whole = f"epsilon {decimal_text(status.epsilon)} at delta {decimal_text(status.delta)}"
    lines = [
        f"  it counts for population {name} too, which has charges in common"
        for name in status.tied_to
    ]
    if not status.admitted:
        return [
            *lines,
            f"  NOT COVERED by the lifetime budget of population {status.population}"
            f"{' or of one of these' if lines else ''}, {whole}: it would be refused",
        ]
    left = [left_text(each) for each in (status.remaining_before, status.remaining_after)]
    named = f"{status.population} ({status.who})" if status.who else status.population
    return [
        f"  budget of population {named}, {whole}: {left[0]} left before, {left[1]} after",
        *lines,
    ]


def charged_text(population: str, left: Decimal | str | None) -> str:
    """Whom a release was charged to, and what is left."""
    known = (
        "policy.yaml does not state its budget now"
        if left is None
        else f"{left_text(left)} is left"
    )
    return f"charged once to population {population} ({known})"


def other_owners(count: int) -> str:
    """Such as "1 other owner" and "2 other owners"."""
    return f"{count} other owner{'s' if count > 1 else ''}"
