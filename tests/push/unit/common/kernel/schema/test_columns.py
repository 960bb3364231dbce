"""Dates and ordinals: what a cell becomes, whatever the file's type."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dppca.common.kernel.schema import (
    MISSING,
    UNKNOWN,
    Numeric,
    encode,
    find_attribute_faults,
    label_text,
)
from dppca.common.kernel.schema.attributes import count_days
from dppca.common.kernel.schema.columns import KnownLists, parse_column
from dppca.common.kernel.schema.texts import INFINITE, NOT_A_NUMBER
from tests.support.studies import categorical_of, make_schema

SCHEMA = make_schema(
    [
        {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
        {"name": "pain", "type": "ordinal", "levels": ["1", "2", "3"]},
    ]
)
DAY, PAIN = SCHEMA.attributes
LEAP = date(2020, 2, 29)
BEFORE_DATES, AFTER_DATES = count_days(date.min) - 1, count_days(date.max) + 1
MIDNIGHT = datetime(2020, 2, 29, 23, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([LEAP, None]),
        pa.array([LEAP, None], pa.date64()),
        *(
            pa.array([MIDNIGHT.replace(tzinfo=None), None], pa.timestamp(unit))
            for unit in ("s", "ms", "us", "ns")
        ),
        pa.array([MIDNIGHT, None], pa.timestamp("us", tz="UTC")),
        pa.array([" 2020-02-29 ", ""]),
        pa.array(["2020-02-29T23:59:00+02:00", "nan"]).dictionary_encode(),
        pa.array([b"2020-02-29 10:00", None]),
    ],
    ids=str,
)
def test_a_date_is_its_day_whatever_the_column_is_of(cells: Any) -> None:
    days = parse_column(DAY, cells)
    assert days[0] == count_days(LEAP)
    assert np.isnan(days[1])


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["2020-02-30", "29.02.2020", "20200229", "2020-W09-6", "soon"]),
        pa.array([b"\xff\xfe"]),
        pa.array([18321, 20200229]),
        pa.array([True]),
    ],
    ids=str,
)
def test_what_is_no_date_is_coded_as_the_middle_and_counted(cells: Any) -> None:
    days = parse_column(DAY, cells)
    assert (days == NOT_A_NUMBER).all()
    assert find_attribute_faults(DAY, days).invalid.all()
    coded = encode(SCHEMA, [days, np.zeros(len(days))])
    assert (coded[:, 0] == 0).all()


def test_days_outside_the_bounds_are_clipped_to_them() -> None:
    days = parse_column(DAY, pa.array(["0001-01-01", "9999-12-31"]))
    assert find_attribute_faults(DAY, days).out.all()
    coded = encode(SCHEMA, [days, np.zeros(2)])[:, 0]
    assert coded.tolist() == [-512, 512]


def test_levels_are_places_and_other_labels_are_the_middle() -> None:
    found = parse_column(PAIN, pa.array(["1", " 2", "3.0", "4", "", None]))
    np.testing.assert_array_equal(found, [0, 1, 2, NOT_A_NUMBER, np.nan, np.nan])
    np.testing.assert_array_equal(parse_column(PAIN, pa.array([1.0, 2.0, 3.0])), [0, 1, 2])
    coded = encode(SCHEMA, [np.zeros(6), found])[:, 1]
    assert coded.tolist() == [-512, 0, 512, 0, 0, 0]


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([count_days(date.min) - 1, count_days(date.max) + 1], pa.int32()).view(
            pa.date32()
        ),
        pa.array([-(2**62), 2**62], pa.timestamp("us")),
        pa.array(["0044-03-15 BC", "10000-01-01"]),
        pa.array(["-infinity", "infinity"]),
    ],
    ids=str,
)
def test_a_date_that_text_cannot_say_is_none_of_any_type(cells: Any) -> None:
    assert (parse_column(DAY, cells) == NOT_A_NUMBER).all()


LABELS = make_schema([categorical_of("x", ["0", "100000", "1e-07", "2.5"])]).attributes[0]


def test_a_float_is_one_label_as_number_and_as_writers_of_csv_write_it() -> None:
    numbers = [0.0, -0.0, 1e5, 1e-7, 2.5, np.nan, np.inf, 1e300]
    written = ["0.0", "-0.0", "1e+05", "1e-07", "2.50", "nan", "inf", "1e+300"]
    expected = [0, 0, 1, 2, 3, MISSING, UNKNOWN, UNKNOWN]
    assert parse_column(LABELS, pa.array(numbers)).tolist() == expected
    assert parse_column(LABELS, pa.array(written)).tolist() == expected
    odd = pa.array(["-0", "1E5", "2.5e0", ".0000001", "+2.5", "1e+999", "-nan(1)", "02.5", "NULL"])
    codes = [0, 1, 3, 2, 3, UNKNOWN, MISSING, UNKNOWN, MISSING]
    assert parse_column(LABELS, odd).tolist() == codes


CODES = make_schema([categorical_of("x", ["1.1", "1.10", "NA", "1E50"])]).attributes[0]


def test_a_label_that_is_a_code_or_a_word_is_itself_alone() -> None:
    written = ["1.1", "1.10", "1.100", "11e-1", "NA", " NA ", "N/A", "1E50", "1e+50", "."]
    codes = [0, 1, 0, 0, 2, 2, UNKNOWN, 3, UNKNOWN, MISSING]
    assert parse_column(CODES, pa.array(written)).tolist() == codes
    assert parse_column(CODES, pa.array([1.1, 1e50])).tolist() == [0, UNKNOWN]


def _neighbour(digits: int, places: int, steps: int) -> float:
    """A float32 next to a decimal, or the nearest to it."""
    nearest = np.float32(digits / 10.0**places)
    return float(np.nextafter(nearest, np.float32(steps * np.inf)) if steps else nearest)


NUMBER = Numeric(name="x", type="numeric", lower=5.7, upper=9.1)
floats = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.integers(-(10**7), 10**7).map(lambda n: float(np.float32(n / 100))),
    st.integers(-149, 127).map(lambda power: float(np.float32(2.0) ** power)),
    st.integers(2**21, 2**26).map(lambda n: float(np.float32(n + 0.25))),
    # Halves of the last place: the two nearest decimals are as near as each other.
    st.builds(math.ldexp, st.integers(-(2**24), 2**24), st.integers(-40, 0)),
    st.builds(_neighbour, st.integers(-(10**7), 10**7), st.integers(0, 13), st.integers(-1, 1)),
)


@given(st.lists(floats, max_size=8))
@example([2097152.25, 123456792.0, 0.1, 5.7, 3.4028234663852886e38, 1e-45, -0.0])
def test_a_float32_is_its_shortest_decimal_as_number_and_as_label(values: list[float]) -> None:
    narrow = np.array(values, np.float32)
    slow = [float(str(value)) for value in narrow]
    assert parse_column(NUMBER, pa.array(narrow)).tolist() == slow
    texts = sorted({label_text(value) for value in slow} | {"0", "a", "b"})
    labels = make_schema([categorical_of("x", texts)]).attributes[0]
    found = parse_column(labels, pa.array(narrow))
    assert found.tolist() == [texts.index(label_text(value + 0.0)) for value in slow]


def test_floats_of_all_widths_mean_what_a_writer_of_csv_writes() -> None:
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        cells = pa.array([5.7, np.nan, None, np.inf, -np.inf], kind)
        np.testing.assert_array_equal(
            parse_column(NUMBER, cells), [5.7, np.nan, np.nan, INFINITE, INFINITE]
        )
    encoded = pa.array([5.7, 5.7, None], pa.float32()).dictionary_encode()
    np.testing.assert_array_equal(parse_column(NUMBER, encoded), [5.7, 5.7, np.nan])
    signalling = np.array([0x7F800001, 0xFFC00000], np.uint32).view(np.float32)
    assert np.isnan(parse_column(NUMBER, pa.array(signalling))).all()


@given(
    seconds=st.integers(-(10**10), 10**10),
    zone=st.sampled_from(["Europe/Berlin", "Asia/Kolkata", "Pacific/Apia", "-03:30", "UTC"]),
    unit=st.sampled_from(["s", "ms", "us"]),
)
def test_a_time_with_a_zone_is_the_day_that_its_text_with_an_offset_says(
    seconds: int, zone: str, unit: str
) -> None:
    there = UTC if zone == "UTC" else None
    if zone.startswith("-"):
        there = timezone(-timedelta(hours=3, minutes=30))
    local = datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
    text = local.astimezone(there or ZoneInfo(zone)).isoformat(" ")
    typed = pa.array([seconds, None]).view(pa.timestamp("s", zone)).cast(pa.timestamp(unit, zone))
    expected = parse_column(DAY, pa.array([text, None]))
    np.testing.assert_array_equal(parse_column(DAY, typed), expected)


def test_times_of_a_zone_that_is_not_known_or_beyond_all_days_are_no_dates() -> None:
    ends = pa.array([-(2**63), 2**63 - 1], pa.int64())
    for zone in ("Pacific/Auckland", "-11:00", "No/Where"):
        for unit in ("s", "us"):
            assert (parse_column(DAY, ends.view(pa.timestamp(unit, zone))) == NOT_A_NUMBER).all()
    near = parse_column(DAY, ends.view(pa.timestamp("ns", "Pacific/Auckland"))).tolist()
    assert near == [count_days(date(1677, 9, 21)), count_days(date(2262, 4, 12))]
    unknown = pa.array([0, None], pa.int64()).view(pa.timestamp("s", "No/Where"))
    np.testing.assert_array_equal(parse_column(DAY, unknown), [NOT_A_NUMBER, np.nan])


def test_nothing_is_raised_while_an_error_that_quotes_a_cell_is_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run_out(_: object) -> None:
        raise MemoryError

    number = Numeric(name="age", type="numeric", lower=0, upper=110)
    monkeypatch.setattr(pc, "ascii_trim_whitespace", run_out)
    with pytest.raises(MemoryError) as raised:
        parse_column(number, pa.array(["Smith"]))
    assert raised.value.__context__ is None


LISTED = make_schema([categorical_of("label", ["a", "b", "1"])]).attributes[0]
lists = st.lists(st.sampled_from(["a", "b", "1", "1.0", " a ", "", "?"]), min_size=1, max_size=4)
codes_of_lists = st.lists(st.none() | st.integers(0, 3), max_size=6)


@given(st.lists(st.tuples(lists, codes_of_lists), max_size=4), st.sampled_from(["i1", "i4", "u8"]))
def test_a_known_list_of_labels_changes_no_value(
    batches: list[tuple[list[str], list[int | None]]], width: str
) -> None:
    known = KnownLists()
    for texts, codes in batches:
        places = [None if code is None else code % len(texts) for code in codes]
        indices = pa.array(places, pa.from_numpy_dtype(np.dtype(width)))
        for listed in (pa.array(texts), pa.array(texts[::-1] + texts)):
            cells = pa.DictionaryArray.from_arrays(indices, listed)
            plain = listed.take(indices)
            for attribute in (LISTED, NUMBER):
                np.testing.assert_array_equal(
                    parse_column(attribute, cells, known=known), parse_column(attribute, plain)
                )
