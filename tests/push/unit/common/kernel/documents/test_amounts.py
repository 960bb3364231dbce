"""Amounts of privacy: what is one, and in short never less spent, nor more left, than there is."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.documents.amounts import decimal_text, left_text, parse_decimal, spent_text

OTHERS = (
    "0_5",
    "1_0",
    "_1_",
    "1__0",
    "0.5_0",
    "1e-1_0",
    "1e_9",
    "\uff10.\uff15",
    "\u0661",
    "1e\u0661",
)
OTHERS += (
    " 1",
    "1 ",
    "1\n",
    "\ufeff1",
    "1\u00a0",
    "0 5",
    "05",
    "00.5",
    "-01",
    "+1",
    "0x1",
    "0b1",
    "1,5",
)
OTHERS += (
    "1.5.0",
    "",
    ".",
    "-",
    "e5",
    ".e5",
    "1e",
    "1e+",
    "1f",
    "inf",
    "Infinity",
    "nan",
    "sNaN12",
    "\u00bd",
)
OTHERS += ("--1", "1e1.5", "(1)", "1:30", "true", "1e99999999999999999999", "1E-9999999999999")


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


@pytest.mark.parametrize("text", OTHERS)
def test_an_amount_is_digits_one_point_and_an_exponent(text: str) -> None:
    for value in (text, np.str_(text)):
        with pytest.raises(ValueError, match="must be a decimal"):
            parse_decimal(value)


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        *(
            (text, text)
            for text in ("0", "0.5", ".5", "5.", "-1.0", "1e-9", "1E+3", "12.50e2", "0e0")
        ),
        *((number, "0.1") for number in (0.1, np.float64(0.1), np.float32(0.1), Decimal("0.1"))),
        *((number, "3") for number in (3, np.int8(3), np.uint64(3), Decimal(3))),
        (1e-9, "1E-9"),
        (10**30, "1" + "0" * 30),
    ],
)
def test_an_amount_is_read_exactly_from_text_or_a_number(value: Any, amount: str) -> None:
    assert parse_decimal(value) == Decimal(amount)


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        np.True_,
        None,
        b"1",
        [1],
        {1},
        1 + 0j,
        Fraction(1, 2),
        np.array(1),
        np.array([1]),
        np.ma.masked,
        np.datetime64("2020"),
        np.timedelta64(5, "D"),
        *(float(text) for text in ("inf", "-inf", "nan")),
        *(Decimal(text) for text in ("NaN", "-Infinity", "sNaN")),
    ],
    ids=repr,
)
def test_what_only_looks_like_a_number_is_no_amount(value: Any) -> None:
    with pytest.raises(ValueError, match="must be a decimal"):
        parse_decimal(value)


def test_how_numpy_prints_changes_no_amount() -> None:
    with np.printoptions(legacy="1.13", precision=2):
        assert parse_decimal(np.float64(1) / 3) == Decimal(repr(1 / 3))


@given(st.text(st.sampled_from("0159_.eE+- \u0661\uff15"), max_size=7))
def test_a_text_is_an_amount_only_if_every_sign_of_it_counts(text: str) -> None:
    try:
        amount = parse_decimal(text)
    except ValueError:
        return
    assert set(text) <= set("0123456789.eE+-")
    assert amount == Decimal(text) == Fraction(text)
    assert not text.lstrip("-").startswith(("00", "01", "05", "09"))


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


@pytest.mark.parametrize("text", ["1e-999999999", "1e999999999", "0e-999999999", "1e1001"])
def test_an_amount_that_would_fill_the_memory_in_full_is_none(text: str) -> None:
    for value in (text, Decimal(text)):
        with pytest.raises(ValueError, match="more than 1000 places"):
            parse_decimal(value)
    assert parse_decimal("1e-1000") > 0
