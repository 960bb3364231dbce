"""Clocks of zones: as Python's zoneinfo has them, in any year, and by the last rule for ever."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dppca.common.kernel.schema.columns import parse_column
from dppca.common.kernel.schema.zones import on_clock
from tests.support.studies import make_schema

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = (
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Gaza"),
    *("Africa/Casablanca", "Africa/Freetown", "America/Scoresbysund", "Europe/Dublin"),
)
FIRST, LAST = datetime(1, 1, 3), datetime(9999, 12, 29)  # noqa: DTZ001 - of any zone
DAY = make_schema(
    [
        {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2100-12-31"},
        {"name": "sex", "type": "binary", "values": ["m", "f"]},
    ]
).attributes[0]


def seconds_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(seconds=1)


@given(
    zone=st.sampled_from(ZONES),
    moments=st.lists(st.datetimes(FIRST, LAST, timezones=st.just(UTC)), min_size=1, max_size=4),
)
@example("Europe/Berlin", [datetime(2036, 1, 1, 12, tzinfo=UTC), datetime(2037, 1, 1, tzinfo=UTC)])
@example("Africa/Freetown", [datetime(1939, 9, 5, 0, 40, tzinfo=UTC)])
def test_a_clock_shows_what_zoneinfo_says_in_any_year(zone: str, moments: list[datetime]) -> None:
    shown = on_clock(zone, np.array([seconds_of(each) for each in moments]))
    assert shown is not None
    expected = [each.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC) for each in moments]
    assert shown.tolist() == [seconds_of(each) for each in expected]


@pytest.mark.parametrize("zone", ZONES)
def test_midnights_are_their_days_in_winter_and_summer_of_the_years_after_2037(zone: str) -> None:
    days = [datetime(y, m, d, tzinfo=ZoneInfo(zone)) for y in (2036, 2038, 2061, 2999) for m, d in
            ((1, 15), (4, 2), (7, 1), (10, 28), (11, 5))]  # fmt: skip
    cells = pa.array([seconds_of(each) for each in days]).view(pa.timestamp("s", zone))
    texts = pa.array([f"{each:%Y-%m-%d}" for each in days])
    assert parse_column(DAY, cells).tolist() == parse_column(DAY, texts).tolist()


def test_a_change_is_found_to_the_second() -> None:
    seconds = np.array([seconds_of(datetime(y, 3, 26, 1, tzinfo=UTC)) for y in (2045, 2800)])
    for step, hours in ((-1, 1), (0, 2), (1, 2)):
        shown = on_clock("Europe/Berlin", seconds + step)
        assert shown is not None
        assert (shown - seconds - step).tolist() == [3600 * hours] * 2


@pytest.mark.parametrize(("zone", "minutes"), [("+01:00", 60), ("-0730", -450), ("+23:59", 1439)])
def test_an_offset_is_a_clock(zone: str, minutes: int) -> None:
    assert on_clock(zone, np.array([0, 10**11])) is not None
    assert (on_clock(zone, np.array([0, 10**11])) == np.array([0, 10**11]) + 60 * minutes).all()


@pytest.mark.parametrize(
    "zone",
    [
        "No/Where",
        "+25:00",
        "+01",
        "Europe",
        "../zone",
        "/etc/zone",
        "a\0b",
        "right/UTC",
        "x" * 5000,
    ],
)
def test_a_name_of_no_zone_has_no_clock(zone: str) -> None:
    assert on_clock(zone, np.array([0])) is None
