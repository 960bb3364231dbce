"""Meaning of one cell's text: a number, a day, the number that a label is, or nothing.

Each function's work grows with the length of the text, and none raises.
"""

import math
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Final

MAX_LABEL_LENGTH = 256  # characters of a label
DAY_0: Final = date(1970, 1, 1).toordinal()
INFINITE: Final = math.inf
"""Value in a numeric column for a number that is not finite, of either sign."""
NOT_A_NUMBER: Final = -math.inf
"""Value in a numeric column for text, a truth value, a date, or any other non-number."""

MISSING_WORDS: Final = MappingProxyType(
    {
        "NA": "R",
        ".": "SAS and Stata",
        "<NA>": "pandas",
        "NaT": "pandas",
        "None": "Python",
        "NULL": "a database's client",
        "null": "a database's client",
        "\\N": "MySQL, Hive and PostgreSQL's COPY",
        "#N/A": "a spreadsheet",
        "#NULL!": "SPSS",
    }
)
"""Words for a missing value, and who writes them. A label of the schema is no such word."""
_LONGEST_NUMBER = 4 * MAX_LABEL_LENGTH  # of a label, in any spelling
_EXPONENT_DIGITS = 3  # of a number in a label
_TRUTHS = (("true", "false"), ("t", "f"))


def count_days(day: date) -> int:
    """Days since 1 January 1970, the number that represents a date here."""
    return day.toordinal() - DAY_0


def is_missing(word: str) -> bool:
    """Return True for a word, without outer blanks, that says that there is no value."""
    return not word or word in MISSING_WORDS or _is_nan(word)


def number_of_text(text: object) -> float:
    """Return the number of a text in ASCII decimals; NaN, `INFINITE` or `NOT_A_NUMBER` for others.

    It may have an exponent, a sign and outer blanks.
    """
    word = str(text).strip()
    if is_missing(word):
        return math.nan
    if not word.isascii() or "_" in word:
        return NOT_A_NUMBER
    try:
        number = float(word)
    except ValueError:
        return NOT_A_NUMBER
    return number if math.isfinite(number) else INFINITE


def day_of_text(text: object) -> float:
    """Return the days since 1970 of a text that begins with a date; NaN or `NOT_A_NUMBER`."""
    word = "" if text is None else str(text).strip()
    if is_missing(word):
        return math.nan
    day, then = word[:10], word[10:11]  # a time of the day may follow
    digits = day[:4] + day[5:7] + day[8:]
    written = len(digits) == 8 and digits.isascii() and digits.isdigit()
    if not written or day[4] != "-" or day[7] != "-" or then not in ("", "T", " "):
        return NOT_A_NUMBER
    if word.endswith(" BC"):  # PostgreSQL's form of the years before 1
        return NOT_A_NUMBER
    try:
        return float(count_days(date.fromisoformat(day)))
    except ValueError:
        return NOT_A_NUMBER


def seconds_of_text(text: str) -> int | None:
    """Return the seconds of the day of a text with a day and a time; None without a time."""
    word = text.strip()
    time = word[11:19]
    if math.isinf(day_of_text(word)) or word[13:14] != ":" or not time.isascii():
        return None
    parts = [time[:2], time[3:5], time[6:8] if time[5:6] == ":" else "00"]
    if not all(len(part) == 2 and part.isdigit() for part in parts):
        return None
    hours, minutes, seconds = map(int, parts)
    return 3600 * hours + 60 * minutes + seconds


def label_number(text: str) -> Decimal | None:
    """Return the number that a label's text spells, exactly: ``.5000``, ``-0``, ``1E+05``, ``2.``.

    None for any other text, and for a code such as ``010``, whose zero says something.
    """
    if len(text) > _LONGEST_NUMBER or not text.isascii():
        return None
    mantissa, letter, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.removeprefix("-" if text[:1] == "-" else "+").partition(".")
    if not (whole + fraction).isdigit() or (len(whole) > 1 and whole.startswith("0")):
        return None
    power = exponent.removeprefix("-" if exponent[:1] == "-" else "+")
    if letter and not (power.isdigit() and len(power) <= _EXPONENT_DIGITS):
        return None
    return Decimal(text)


def is_number_label(label: str) -> bool:
    """Return True for a label that is a number, as numbers are written in full or by ``repr``.

    ``1.10`` and ``1E50`` are codes: a number would lose what tells them from ``1.1`` and ``1e+50``.
    """
    number = label_number(label)
    if number is None or label.startswith("+") or (not number and number.is_signed()):
        return False
    if "e" in label.lower():
        return repr(float(label)) == label
    whole, point, fraction = label.removeprefix("-").partition(".")
    return bool(whole) and (bool(fraction) and not fraction.endswith("0") if point else True)


@lru_cache(maxsize=256)
def label_finder(labels: tuple[str, ...]) -> Callable[[str], int | None]:
    """Return the function that finds the place of the label that a canonical text spells."""
    place_of = {label: place for place, label in enumerate(labels)}
    numbers: dict[Decimal | None, int] = {}
    for label, place in place_of.items():
        if is_number_label(label):
            numbers.setdefault(label_number(label), place)

    truths = {word: place_of[word] for word in _TRUTHS[0] if word in place_of}
    # PostgreSQL writes a truth value as t or f, and everybody else as true or false.
    for known, written in _TRUTHS, _TRUTHS[::-1]:
        if all(word in place_of for word in known):
            truths |= {word: place_of[k] for word, k in zip(written, known, strict=True)}

    def find(text: str) -> int | None:
        found = place_of.get(text)
        if found is None and numbers:
            found = numbers.get(label_number(text))
        return truths.get(text.lower() if len(text) > 1 else text) if found is None else found

    return find


def labels_of_one_number(labels: Sequence[str]) -> list[list[str]]:
    """Return groups of labels that differ as texts, and are one number."""
    groups: dict[Decimal, list[str]] = {}
    for label in labels:
        if (number := label_number(label)) is not None:
            groups.setdefault(number, []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def _is_nan(word: str) -> bool:
    """Return True for a NaN as written in C: ``nan``, ``-NaN``, ``nan(some_1)``."""
    word = word.removeprefix("-") if word.startswith("-") else word.removeprefix("+")
    if not word.isascii() or word[:3].lower() != "nan":
        return False
    rest = word[3:]
    inner = rest[1:-1].replace("_", "")
    return not rest or (rest[0] == "(" and rest[-1] == ")" and (not inner or inner.isalnum()))
