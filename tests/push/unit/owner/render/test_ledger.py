"""What would be recovered fits into a narrow terminal, whatever the names."""

from __future__ import annotations

from typing import Any

import pytest

from dppca.owner.render.ledger import budget_text, recovery_text

RECOVERED: dict[str, Any] = {
    "study": "blood-pressure-and-weight-2026",
    "data_set": "survey",
    "population": "patients-of-the-hospital",
    "release_id": "00" * 16,
    "received": "2026-11-22T18:54:20+00:00",
    "rows": 12_345,
    "charged_epsilon": "0.99999",
    "charged_rho": "0",
    "charged_before": True,
    "signed": False,
    "unproved": "the certificate is not one of this site",
}


@pytest.mark.parametrize("width", [60, 40])
def test_charges_that_would_be_entered_fit(width: int) -> None:
    document: Any = {
        "owner": "hospital",
        "recovered": [RECOVERED],
        "disowned": [],
        "populations": [],
        "entries": 1,
        "entries_known": 0,
    }
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
    release = {
        **RECOVERED,
        "time": RECOVERED["received"],
        "model": None,
        "epsilon": "1",
        "delta": "1e-9",
        "state": "sent",
        "colluders": colluders,
        "honest": 3,
    }
    document: Any = {
        "ledger": {"entries": 2},
        "populations": [],
        "releases": [release],
        "disowned": [],
        "openings": [],
    }
    assert said in budget_text(document)
