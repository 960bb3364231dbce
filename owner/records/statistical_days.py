"""Formats of SPSS, Stata and SAS that say that a number is a day, or a time of one.

What has no day, such as a month (Stata's ``%tm``, SAS' ``MONYY``), stays a number, which is no
date. A number before a program's first day is none, and SAS has no 29 February in 4000 and 8000.
Sources: IBM SPSS Statistics, "Date and Time Formats"; Stata, "Datetime display formats"; SAS,
"Formats by Category", "About SAS Date, Time, and Datetime Values". ``%tC`` counts leap seconds
(IERS, Bulletin C).
"""

import re
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

_DAY_S: Final = 86_400  # in a day
_SINCE_1582, _SINCE_1960 = 141_428, 3653
"""Days from the first days of SPSS, and of Stata and SAS, to 1970."""
_FIRST_SPSS, _FIRST_STATA, _FIRST_SAS = -141_428, -683_003, -141_714
"""First days of their calendars, since 1970: 1582-10-14, 0100-01-01 and 1582-01-01."""
_NOT_IN_SAS: Final = np.array([741_501, 2_202_470])
"""Days since 1970, as SAS counts, of 1 March 4000 and 8000, each a day after 28 February."""
_FAR: Final = 5e6  # days: outside of every calendar that is read
_SPSS: Final = re.compile(r"(?:([AEJS]?DATE)|DATETIME|YMDHMS)\d*(?:\.\d*)?")
_STATA: Final = re.compile(r"%-?(?:(td|d)|tc|(tC)).*", re.DOTALL)
_SAS: Final = re.compile(
    r"(?:(DATE|(?:DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?|WEEKDATX?|WEEKDATE|WORDDATX?|WORDDATE|JULIAN"
    r"|(?:E8601|B8601|IS8601|ND8601)DA|NLDATE|EURDF(?:DE|DD|WKX|WDX))"
    r"|DATETIME|DATEAMPM|MDYAMPM|DTDATE|(?:E8601|B8601|IS8601)D[TN]|NLDATM|EURDFDT)\d*(?:\.\d*)?"
)
_LEAPS: Final = np.array(
    [
        *("1972-07", "1973-01", "1974-01", "1975-01", "1976-01", "1977-01", "1978-01", "1979-01"),
        *("1980-01", "1981-07", "1982-07", "1983-07", "1985-07", "1988-01", "1990-01", "1991-01"),
        *("1992-07", "1993-07", "1994-07", "1996-01", "1997-07", "1999-01", "2006-01", "2009-01"),
        *("2012-07", "2015-07", "2017-01"),
    ],
    "datetime64[s]",
).astype(np.int64) + np.arange(1, 28)
"""Seconds since 1970, leap seconds among them, after each leap second."""


class DayFormat(NamedTuple):
    """How a column's numbers are days: ``per_day`` of them, ``before`` days from zero to 1970.

    ``timed`` ones have a time of the day, and ``leaps`` count leap seconds. The calendar begins
    with the day ``first`` since 1970, and ``skipped`` are days before which it lacks one.
    """

    per_day: int
    before: int
    first: int
    timed: bool
    leaps: bool = False
    skipped: np.ndarray = np.zeros(0, np.int64)

    def days(self, numbers: np.ndarray) -> pa.Array:
        """Convert numbers to dates, or to times in seconds; NaN is null."""
        nulls = np.isnan(numbers)
        days = np.clip(numbers / self.per_day - self.before, -_FAR, _FAR)
        days = np.where(nulls, _FAR, np.where(days < self.first, -_FAR, days))
        lacking = self.skipped.searchsorted(np.floor(days), "right")
        if not self.timed:
            whole = np.floor(days).astype(np.int32) + lacking.astype(np.int32)
            return array_of(whole, pa.date32(), ~nulls)
        per_second = self.per_day // _DAY_S
        inside = np.abs(days) < _FAR
        ticks = np.floor(np.where(inside, numbers, 0) / per_second).astype(np.int64)
        seconds = ticks - self.before * _DAY_S
        if self.leaps:
            seconds -= np.searchsorted(_LEAPS, seconds, side="right")
        seconds = np.where(inside, seconds, (days * _DAY_S).astype(np.int64)) + lacking * _DAY_S
        return array_of(seconds, pa.timestamp("s"), ~nulls)


def array_of(values: np.ndarray, kind: pa.DataType, valid: np.ndarray) -> pa.Array:
    """Values as they lie in memory, null where not valid; `pyarrow.array` would import pandas."""
    mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [mask, pa.py_buffer(values)])


def day_format(kind: str, written: str) -> DayFormat | None:
    """Return what a format of a kind of file says of days; None if nothing.

    ``kind`` is ``sav``, ``dta``, ``sas7bdat`` or ``xpt``; ``written`` is such as ``DATE11``.
    """
    if kind == "sav":
        found = _SPSS.fullmatch(written)
        return found and DayFormat(_DAY_S, _SINCE_1582, _FIRST_SPSS, timed=found[1] is None)
    if kind == "dta":
        found = _STATA.fullmatch(written)
        if found is None:
            return None
        if found[1]:
            return DayFormat(1, _SINCE_1960, _FIRST_STATA, timed=False)
        leaps = found[2] is not None
        return DayFormat(1000 * _DAY_S, _SINCE_1960, _FIRST_STATA, timed=True, leaps=leaps)
    found = _SAS.fullmatch(written.upper())
    if found is None:
        return None
    timed = found[1] is None
    per_day = _DAY_S if timed else 1
    return DayFormat(per_day, _SINCE_1960, _FIRST_SAS, timed=timed, skipped=_NOT_IN_SAS)
