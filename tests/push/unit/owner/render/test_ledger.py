"""What would be recovered fits into a narrow terminal, whatever the names."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from dppca.owner.render.ledger import (
    ChargedRelease,
    LedgerRecovery,
    LedgerState,
    RecoveredRelease,
    SiteBudgets,
    budget_text,
    recovery_text,
)

COST: dict[str, Any] = {
    "epsilon": Decimal(1),
    "delta": Decimal("1e-9"),
    "charged_epsilon": Decimal("0.99999"),
    "charged_rho": Decimal(0),
}
RECOVERED = RecoveredRelease(
    study="blood-pressure-and-weight-2026",
    data_set="survey",
    population="patients-of-the-hospital",
    release_id=bytes(16),
    received=datetime(2026, 11, 22, 18, 54, 20, tzinfo=UTC),
    rows=12_345,
    charged_before=True,
    unproved="the certificate is not one of this site",
    **COST,
)


@pytest.mark.parametrize("width", [60, 40])
def test_charges_that_would_be_entered_fit(width: int) -> None:
    document = LedgerRecovery(
        owner="hospital",
        recovered=(RECOVERED,),
        disowned=(),
        populations=(),
        entries=1,
        entries_known=0,
    )
    wide, narrow = recovery_text(document), recovery_text(document, width=width)
    assert len(wide.splitlines()[-1]) > width
    table = narrow.splitlines()[2:]
    # A single word stays in one piece, to be copied.
    assert [line for line in table if len(line) > width and len(line.split()) > 1] == []
    for said in ("received 2026", "evidence", "charged before", "12345"):
        assert said in " ".join(" ".join(table).split())


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
