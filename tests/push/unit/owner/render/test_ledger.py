"""What is said of a release that the ledger holds, and of its charge."""

from decimal import Decimal

from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.owner.render.charges import charge_text


def test_a_charge_names_what_is_charged_rounded_up() -> None:
    both = PrivacyCost(Decimal("1.000000000011"), Decimal("0.5"))
    assert charge_text(both) == "epsilon 1.01 and rho 0.5 (zCDP)"
    assert charge_text(PrivacyCost(Decimal(1), Decimal(0))) == "epsilon 1"
