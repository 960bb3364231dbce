"""Amounts of privacy as text and back: exact decimals, which no binary fraction has rounded.

Every epsilon, delta and scale that a person or a file states is read by `parse_decimal`, whether it
stands in a study, a policy, an option or a receipt. The reader decides what else it must be.
`is_numeral` alone decides which text is a number: Python would take ``0_5`` for 5. Large whole
numbers are text, too (`whole`).
"""

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Real
from typing import TypeGuard

Whole = int | str
"""A whole number in JSON, as `whole` writes it."""
DECIMALS = 12  # of an epsilon or rho that is computed
POINTED = ": use a point for decimals and no mark for thousands, such as 1.5 or 1500"
_NUMERAL = re.compile(r"-?(?=\.?[0-9])(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]{1,9})?")
_MAX_DIGITS, _MOST_PLACES = 30, 1000  # of a privacy parameter; places of any amount
_LEAST_TEXT = 1 << 53  # from here on a reader of JSON may round a whole number
_MOST_DECIMALS = 6  # that people are shown


def is_numeral(value: object) -> TypeGuard[str]:
    """Whether it is text of digits 0-9 with at most one point and an exponent, and nothing else.

    A zero before another digit is refused, too: ``05`` may be meant as 5 or as 0.5.
    """
    return isinstance(value, str) and _NUMERAL.fullmatch(value) is not None


def parse_decimal(value: object) -> Decimal:
    """The exact decimal that text or a number states; 0.1 is 1/10, through its text.

    Raise `ValueError` if it is no finite number, or far larger or smaller than any amount. True and
    false are none.
    """
    # Its own text: that of NumPy's scalars may be made shorter.
    text = repr(float(value)) if isinstance(value, float) else value
    text = str(text) if isinstance(text, Real | Decimal) else text
    if not is_numeral(text):
        raise ValueError('must be a decimal, such as "1.0"' + _cure(value))
    number = Decimal(text)
    if abs(number.adjusted()) > _MOST_PLACES:  # in full it would fill the memory
        raise ValueError(f"has more than {_MOST_PLACES} places, as no amount has")
    return number


def parse_positive(value: object) -> Decimal:
    """An epsilon, delta or scale of noise, as `parse_decimal` reads it.

    Raise `ValueError` if it is not above 0, or has more than 30 digits.
    """
    try:
        number = parse_decimal(value)
    except ValueError:
        number = Decimal(0)
    if number <= 0:
        raise ValueError('must be a decimal above 0, such as "1.0"' + _cure(value))
    if len(number.as_tuple().digits) > _MAX_DIGITS or abs(number.adjusted()) > _MAX_DIGITS:
        raise ValueError(f"has more digits than a privacy parameter needs ({_MAX_DIGITS})")
    return number


def pointed(value: object) -> str:
    """What to do about a decimal comma; empty for a text without one."""
    return POINTED if isinstance(value, str) and re.fullmatch(r"[-+]?[\d.]+,\d+", value) else ""


def _cure(value: object) -> str:
    other = isinstance(value, str) and not is_numeral(value) and re.search(r"\d", value)
    return pointed(value) or (": write digits 0-9 and one point alone" if other else "")


def whole(number: int) -> Whole:
    """A whole number in JSON; from 2^53 on as text, as many readers take numbers for doubles.

    Reference: RFC 7493, section 2.2.
    """
    return number if abs(number) < _LEAST_TEXT else str(number)


def decimal_text(number: Decimal) -> str:
    """A decimal in full: no exponent, no trailing zeros, and no context that could round it."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def spent_text(amount: Decimal | str | None) -> str:
    """Spent amount for people: three of many digits, never too little; "-" for nothing."""
    return _rounded(amount, ROUND_CEILING)


def left_text(amount: Decimal | str | None) -> str:
    """Amount left, for people: three of many digits, never too much; "-" for nothing."""
    least = Decimal("0.001")
    if amount is not None and 0 < Decimal(amount) < least and _has_many_digits(Decimal(amount)):
        return f"less than {least}"
    return _rounded(amount, ROUND_FLOOR)


def _rounded(amount: Decimal | str | None, rounding: str) -> str:
    if amount is None:
        return "-"
    number = Decimal(amount)
    if _has_many_digits(number):
        last = min(0, number.adjusted() - 2)
        number = number.quantize(Decimal((0, (1,), last)), rounding, Context(prec=_MAX_DIGITS * 2))
    return decimal_text(number)


def _has_many_digits(number: Decimal) -> bool:
    return len(decimal_text(number).partition(".")[2]) > _MOST_DECIMALS


def round_up(cost: float | Fraction) -> Decimal:
    """The least decimal with 12 decimals that is not below a cost."""
    # From text, which no decimal context rounds.
    return Decimal(f"{math.ceil(Fraction(cost) * 10**DECIMALS)}E-{DECIMALS}")
