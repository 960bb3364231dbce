"""Texts on the cost of a release and the remaining budget."""

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

from dppca.common.kernel.documents.amounts import decimal_text, left_text, spent_text

if TYPE_CHECKING:
    from dppca.owner.release.contribution import BudgetStatus

GAUSSIAN_SUM = "costs of Gaussian noise add up to less than their sum"
_ROUNDING = Decimal("1e-9")  # of costs that are computed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedCost:
    """Claim and charge of a release."""

    epsilon: Annotated[Decimal, "epsilon of the guarantee"]
    delta: Annotated[Decimal, "delta of the guarantee"]
    charged_epsilon: Annotated[Decimal, "charge in pure epsilon"]
    charged_rho: Annotated[Decimal, "charge in rho (zCDP)"]


def explain_fall(status: "BudgetStatus", epsilon: Decimal) -> str | None:
    """Say why a budget falls by another amount than a release's epsilon; None where it does not."""
    before, after = status.remaining_before, status.remaining_after
    if not status.admitted or before is None or after is None or before == after:
        return None
    fall = before - after
    if abs(fall - epsilon) <= _ROUNDING:
        return None
    why = GAUSSIAN_SUM
    if fall > epsilon:
        why = f"the same noise costs more at the budget's delta, {decimal_text(status.delta)}"
    return f"The budget falls by {spent_text(fall)}, not by {decimal_text(epsilon)}: {why}."


def standing_lines(status: "BudgetStatus", epsilon: Decimal) -> list[str]:
    """Return lines on a population's lifetime budget before and after a release of this epsilon."""
    whole = f"epsilon {decimal_text(status.epsilon)} at delta {decimal_text(status.delta)}"
    lines = [
        f"  it counts for population {name} too, which shares charges" for name in status.tied_to
    ]
    if not status.admitted:
        return [
            *lines,
            f"  NOT COVERED by the lifetime budget of population {status.population}"
            f"{' or of one of these' if lines else ''}, {whole}: it would be refused",
        ]
    left = [left_text(each) for each in (status.remaining_before, status.remaining_after)]
    population = f"{status.population} ({status.who})" if status.who else status.population
    return [
        f"  budget of population {population}, {whole}: {left[0]} left before, {left[1]} after",
        *([] if (why := explain_fall(status, epsilon)) is None else [f"  {why}"]),
        *lines,
    ]
