"""What is said of a release that the ledger holds, and of its charge."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from dppca.common.privacy.accounting import PrivacyCost
from dppca.owner.render.charges import charge_text
from dppca.owner.render.ledger import ChargedRelease, LedgerState, SiteBudgets, budget_text

COST: dict[str, Any] = {
    "epsilon": Decimal(1),
    "delta": Decimal("1e-9"),
    "charged_epsilon": Decimal("0.99999"),
    "charged_rho": Decimal(0),
}


def test_a_charge_names_what_is_charged_rounded_up() -> None:
    both = PrivacyCost(Decimal("1.000000000011"), Decimal("0.5"))
    assert charge_text(both) == "epsilon 1.01 and rho 0.5 (zCDP)"
    assert charge_text(PrivacyCost(Decimal(1), Decimal(0))) == "epsilon 1"


@pytest.mark.parametrize(
    ("colluders", "said"), [(1, "any 1 other owner,"), (2, "any 2 other owners,")]
)
def test_against_whom_a_masked_release_holds_is_said_for_one_and_for_several(
    colluders: int, said: str
) -> None:
    release = ChargedRelease(
        sequence=1,
        time="2026-11-22T18:54:20+00:00",
        data_set="survey",
        population="patients",
        study="blood-pressure",
        model=None,
        digest="",
        release_id=bytes(16),
        mechanism="laplace",
        rows=None,
        state="sent",
        colluders=colluders,
        honest=3,
        **COST,
    )
    budgets = SiteBudgets(
        ledger=LedgerState(path="ledger.sqlite", entries=2, head=b""),
        populations=(),
        data_sets=(),
        releases=(release,),
        disowned=(),
        openings=(),
    )
    assert said in budget_text(budgets)
