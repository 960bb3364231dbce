"""What a release costs and what is left of a budget, in words for people."""

from __future__ import annotations

from decimal import Decimal

from dppca.common.amounts import decimal_text, left_text, spent_text
from dppca.common.privacy.receipts import CostFields
from dppca.owner.release.contribution import BudgetStatus


def optional_text(number: Decimal | None) -> str | None:
    """A decimal in full, or None."""
    return None if number is None else decimal_text(number)


def charge_text(cost: CostFields) -> str:
    """A charge, which may be of both kinds."""
    parts = (("epsilon {}", cost["charged_epsilon"]), ("rho {} (zCDP)", cost["charged_rho"]))
    return " and ".join(words.format(spent_text(each)) for words, each in parts if each != "0")


def standing_lines(status: BudgetStatus) -> list[str]:
    """What is left of a population's lifetime budget."""
    people, budget = status.population, status.population.budget
    whole = f"epsilon {decimal_text(budget.epsilon)} at delta {decimal_text(budget.delta)}"
    lines = [
        f"  it counts for population {each.name} too, which has charges in common"
        for each in status.tied
    ]
    if not status.admitted:
        return [
            *lines,
            f"  NOT COVERED by the lifetime budget of population {people.name}"
            f"{' or of one of these' if lines else ''}, {whole}: it would be refused",
        ]
    left = [left_text(each) for each in (status.remaining_before, status.remaining_after)]
    named = f"{people.name} ({people.who})" if people.who else people.name
    return [
        f"  budget of population {named}, {whole}: {left[0]} left before, {left[1]} after",
        *lines,
    ]


def charged_text(population: str, left: str | None) -> str:
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
