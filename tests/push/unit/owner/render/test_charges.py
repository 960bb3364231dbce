"""Amounts for people have three digits, never too little of what is spent."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dppca.common.privacy.accounting import PrivacyCost
from dppca.owner.render.charges import charge_text


@pytest.mark.parametrize(
    ("epsilon", "rho", "said"),
    [
        ("1", "0", "epsilon 1"),
        ("0", "0.024355970359", "rho 0.0244 (zCDP)"),
        ("1.000000000011", "0.5", "epsilon 1.01 and rho 0.5 (zCDP)"),
    ],
)
def test_a_charge_names_what_is_charged_rounded_up(epsilon: str, rho: str, said: str) -> None:
    assert charge_text(PrivacyCost(Decimal(epsilon), Decimal(rho))) == said
