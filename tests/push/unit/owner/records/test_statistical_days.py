"""Formats of statistical programs that are days, and those that are none."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dppca.common.kernel.schema.attributes import Date, count_days
from dppca.common.kernel.schema.columns import parse_column
from dppca.common.kernel.schema.texts import NOT_A_NUMBER
from dppca.owner.records.statistical_days import day_format

DAY = Date(name="day", type="date", lower=date(1900, 1, 1), upper=date(2030, 1, 1))
SPSS, OTHERS = datetime(1582, 10, 14, tzinfo=UTC), datetime(1960, 1, 1, tzinfo=UTC)
DAYS = {
    "sav": ("DATE11", "ADATE10", "EDATE10", "JDATE7", "SDATE10"),
    "dta": ("%td", "%d", "%tdD_m_Y", "%-td"),
    "xpt": ("DATE9", "date9.", "DDMMYY10", "MMDDYYS10", "YYMMDD10", "E8601DA10", "B8601DA"),
}
TIMES = {
    "sav": ("DATETIME20", "YMDHMS19.2"),
    "dta": ("%tc", "%tcCCYY-NN-DD"),
    "xpt": ("DATETIME20", "E8601DT19", "DTDATE9", "DATEAMPM"),
}
NONE = {
    "sav": ("F8.2", "MOYR8", "QYR6", "WKYR8", "TIME8", "DTIME10", "A8", "WKDAY3"),
    "dta": ("%tm", "%tq", "%ty", "%tw", "%th", "%tb", "%9.0g", "%8.0f", "%-9s"),
    "sas7bdat": ("MONYY7", "YYQ6", "QTR", "YEAR4", "TIME8", "BEST12", "DTMONYY7", "E8601TM", ""),
}
FIRST, LAST = datetime(1583, 1, 1), datetime(9999, 12, 31)  # noqa: DTZ001
moments = st.datetimes(FIRST, LAST, timezones=st.just(UTC))


def converted(kind: str, written: str, *numbers: float | None) -> list[Any]:
    form = day_format(kind, written)
    assert form is not None, written
    return list(form.days(np.array(numbers, np.float64)).to_pylist())


@given(moment=moments)
@example(moment=datetime(4000, 2, 28, 23, tzinfo=UTC))
@example(moment=datetime(4000, 3, 1, tzinfo=UTC))
@example(moment=datetime(8000, 2, 28, tzinfo=UTC))
@example(moment=datetime(8000, 3, 1, 23, tzinfo=UTC))
@pytest.mark.parametrize("kind", ["sav", "dta", "xpt"])
def test_a_number_of_each_format_is_the_day_that_it_counts_to(kind: str, moment: datetime) -> None:
    since = (moment - (SPSS if kind == "sav" else OTHERS)).total_seconds()
    if kind == "xpt":  # which has no 29 February in 4000 and 8000
        leaps = [datetime(year, 2, 29, tzinfo=UTC) for year in (4000, 8000)]
        assume(moment.date() not in {each.date() for each in leaps})
        since -= 86_400 * sum(moment > each for each in leaps)
    per_day = 86_400 if kind == "sav" else 1
    for written in DAYS[kind]:
        assert converted(kind, written, since // 86_400 * per_day) == [moment.date()]
    for written in TIMES[kind]:
        (found,) = converted(kind, written, since * (1000 if kind == "dta" else 1))
        assert abs(found - moment.replace(tzinfo=None)) <= timedelta(seconds=1)
        assert found.date() == moment.date() or moment.microsecond > 999_000


def test_the_last_day_of_sas_is_that_of_9999() -> None:
    assert converted("sas7bdat", "DATE9", 2_936_547) == [date(9999, 12, 31)]
    assert converted("xpt", "DATETIME20", 253_717_747_199)[0].date() == date(9999, 12, 31)


@pytest.mark.parametrize(
    ("kind", "first"),
    [("sav", date(1582, 10, 14)), ("dta", date(100, 1, 1)), ("xpt", date(1582, 1, 1))],
)
def test_a_number_before_a_programs_calendar_is_no_day(kind: str, first: date) -> None:
    since = (
        datetime(*first.timetuple()[:3], tzinfo=UTC) - (SPSS if kind == "sav" else OTHERS)
    ).days
    for written in (*DAYS[kind], *TIMES[kind]):
        form = day_format(kind, written)
        assert form is not None
        numbers = np.array([since, since - 1], np.float64) * form.per_day
        cells = form.days(numbers)
        begins, before = parse_column(DAY, cells).tolist()
        assert (begins, before) == (count_days(first), NOT_A_NUMBER), written


def test_leap_seconds_are_no_part_of_a_day() -> None:
    milliseconds = (datetime(2020, 1, 1, tzinfo=UTC) - OTHERS).total_seconds() * 1000
    assert converted("dta", "%tC", milliseconds + 27_000 - 1, milliseconds + 27_000) == [
        datetime(2019, 12, 31, 23, 59, 59),  # noqa: DTZ001 - a time of no zone
        datetime(2020, 1, 1),  # noqa: DTZ001
    ]
    assert converted("dta", "%tC", 0.0) == [datetime(1960, 1, 1)]  # noqa: DTZ001


@pytest.mark.parametrize("kind", NONE)
def test_what_has_no_day_stays_a_number(kind: str) -> None:
    assert [day_format(kind, written) for written in NONE[kind]] == [None] * len(NONE[kind])


def test_missing_numbers_are_no_days_and_far_ones_are_in_no_calendar() -> None:
    cells = converted("sav", "DATE11", None, float("nan"), 0.0)
    assert cells == [None, None, date(1582, 10, 14)]
    for kind, written in (("sav", "DATE11"), ("dta", "%tc"), ("xpt", "DATETIME20")):
        form = day_format(kind, written)
        assert form is not None
        far = form.days(np.array([1e300, -1e300, np.inf]))
        assert far.null_count == 0
        values = far.view(pa.int32() if form.timed is False else pa.int64()).to_pylist()
        per_day = 86_400 if form.timed else 1
        assert all(abs(value) > 4_000_000 * per_day for value in values)
