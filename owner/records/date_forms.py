"""Forms of a date in a text file: tokens such as ``DD.MM.YYYY``, or ``days since 1960-01-01``.

``YYYY`` is the year, ``MM`` and ``DD`` have two digits, ``M`` and ``D`` one or two, ``MON`` is an
English name's first three letters. Point, slash, hyphen or blank may stand between them. A count is
of ``days``, ``seconds`` or ``milliseconds`` since a day; SPSS counts seconds since 1582-10-14.

A form gives each text one meaning at most, whatever other texts there are.
"""

import re
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache

Day = Callable[[str], str | None]
"""Function from a text without outer blanks to its day, as ``2020-01-31`` and what follows it."""

ISO = "YYYY-MM-DD"
_TOKENS = {
    "YYYY": r"(?P<year>[0-9]{4})",
    "MON": r"(?P<name>[A-Za-z]{3})",
    "MM": r"(?P<month>[0-9]{2})",
    "M": r"(?P<month>[0-9]{1,2})",
    "DD": r"(?P<day>[0-9]{2})",
    "D": r"(?P<day>[0-9]{1,2})",
}
_FORM = re.compile(rf"({'|'.join(_TOKENS)})([./ -]?)" * 3)
_COUNT = re.compile(r"(DAYS|SECONDS|MILLISECONDS) SINCE ([0-9]{4}-[0-9]{2}-[0-9]{2})")
_PER_DAY = {"DAYS": 1, "SECONDS": 86_400, "MILLISECONDS": 86_400_000}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_TIME = r"(?P<rest>(?:[T :].*)?)"
_LONGEST = 64  # characters of a number; longer text is none


@lru_cache(maxsize=64)
def read_form(form: str) -> Day:
    """Return the function that reads dates of a form; raise `ValueError` if it is none."""
    plain = form.strip().upper()
    if count := _COUNT.fullmatch(plain):
        return _counted(_PER_DAY[count[1]], date.fromisoformat(count[2]))
    if "YY" in plain.replace("YYYY", ""):
        raise ValueError(
            "a year of two digits has two meanings: export the dates with four, as YYYY"
        )
    found = _FORM.fullmatch(plain)
    parts = [] if found is None else [*found.groups()]
    names, between = parts[::2], parts[1::2]
    kinds = {name[0] if name != "MON" else "M" for name in names}
    if kinds != {"Y", "M", "D"} or between[-1]:
        raise ValueError(
            "dates have one form of YYYY, MM, DD (M, D without a leading zero, MON for a name), "
            "such as DD.MM.YYYY, or are counted, such as `days since 1960-01-01`"
        )
    for one, mark, other in zip(names, between, names[1:], strict=False):
        if not mark and "MON" not in (one, other) and {one, other} & {"M", "D"}:
            raise ValueError("M and D need a mark beside them: 1112020 would have two meanings")
    pattern = "".join(
        _TOKENS[name] + re.escape(mark) for name, mark in zip(names, between, strict=True)
    )
    return _written(re.compile(pattern + _TIME, re.DOTALL))


def is_count(form: str) -> bool:
    """Return True if a form counts days, seconds or milliseconds."""
    return _COUNT.fullmatch(form.strip().upper()) is not None


def _written(pattern: re.Pattern[str]) -> Day:
    def day(text: str) -> str | None:
        found = pattern.fullmatch(text)
        if found is None:
            return None
        part = found.groupdict()
        name = (part.get("name") or "").lower()
        if name and name not in _MONTHS:
            return None
        month = _MONTHS.index(name) + 1 if name else int(part["month"])
        try:
            written = date(int(part["year"]), month, int(part["day"])).isoformat()
        except ValueError:
            return None
        return written + part["rest"].replace(":", " ", part["rest"][:1] == ":")

    return day


def _counted(per_day: int, first: date) -> Day:
    def day(text: str) -> str | None:
        try:
            number = Decimal(text) if len(text) <= _LONGEST else Decimal("NaN")
            whole = number // per_day if number.is_finite() else Decimal("NaN")
            if whole * per_day > number:  # Decimal's // rounds towards 0, and days begin below
                whole -= 1
            return (first + timedelta(days=int(whole))).isoformat()
        except (InvalidOperation, OverflowError, ValueError):
            return None

    return day
