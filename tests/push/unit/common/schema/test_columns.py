"""Dates and ordinals: what a cell becomes, whatever the file's type."""

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dppca.common.schema import MISSING, UNKNOWN, Numeric, encode, find_attribute_faults
from dppca.common.schema.attributes import count_days
from dppca.common.schema.columns import NOT_A_NUMBER, parse_column
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
        pa.array([MIDNIGHT, None], pa.timestamp("us", tz="Pacific/Auckland")),
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
    assert parse_column(LABELS, pa.array(["-0", "1e+999", "-nan(1)"])).tolist() == [
        UNKNOWN,
        UNKNOWN,
        MISSING,
    ]


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
