"""Amounts of privacy in short: never less spent, and never more left, than there is."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.documents.amounts import decimal_text, left_text, spent_text


@pytest.mark.parametrize(
    ("amount", "spent", "left"),
    [
        ("2.999999999989", "3", "2.99"),
        ("0.000000000011", "0.000000000011", "less than 0.001"),
        ("0.0243559703591", "0.0244", "0.0243"),
        ("1234.5678901", "1235", "1234"),
        ("0.000999999999", "0.001", "less than 0.001"),
        ("0.000001", "0.000001", "0.000001"),
        ("1.5", "1.5", "1.5"),
        ("0", "0", "0"),
        (None, "-", "-"),
    ],
)
def test_of_many_digits_people_see_three(amount: str | None, spent: str, left: str) -> None:
    assert (spent_text(amount), left_text(amount)) == (spent, left)


@given(st.decimals(0, 10**9, places=12))
def test_rounding_is_on_the_safe_side(amount: Decimal) -> None:
    assert Decimal(spent_text(amount)) >= amount
    left = left_text(amount)
    assert left == "less than 0.001" or Decimal(left) <= amount
    assert (left == "0") == (amount == 0)
    if len(decimal_text(amount).partition(".")[2]) <= 6:
        assert spent_text(amount) == left == decimal_text(amount)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *(("3.0", "3"), ("0", "0"), ("1E+2", "100"), ("1e-9", "0.000000001"), ("10", "10")),
        ("1." + "1" * 29, "1." + "1" * 29),  # longer than a context: not rounded
    ],
)
def test_decimals_are_written_in_full(number: str, text: str) -> None:
    assert decimal_text(Decimal(number)) == text
