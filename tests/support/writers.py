"""One table as the tools of the field write it: the same values in any type and in any spelling.

`values_of_rows` draws what the rows mean, `written` a column that means it, and `columns_of` is the
obvious reading. Each way is what some program does: numbers of 32 bits, times on a clock of their
own, whole numbers with a point, a word for what is missing.
"""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from dppca.common.kernel.moments.moments import compute_moments
from dppca.common.kernel.schema import MISSING, UNKNOWN, Column, encode, find_cells
from dppca.common.kernel.schema.attributes import count_days
from dppca.common.kernel.schema.texts import MISSING_WORDS, NOT_A_NUMBER
from dppca.owner.records.check import FaultCounts
from tests.support.studies import categorical_of, make_schema, numeric_of

JUNK = "junk"
"""A value that no attribute has; only text can say it."""
LABELS = ("0", "0.5", "1", "100000", "NA", "1.10", "true")
LEVELS = ("0", "0.5", "1", "2", "3")
SCHEMA = make_schema(
    [
        numeric_of("x", 0, 10, bins=[2.5, 5.7], spikes=[0.1, 5.7], histogram=True),
        numeric_of("n", 0, 30, integer=True, spikes=[0], missing="level", histogram=True),
        {
            "name": "d",
            "type": "date",
            "lower": "2020-01-01",
            "upper": "2020-12-31",
            "bins": ["2020-02-01", "2020-07-01"],
            "histogram": True,
        },
        categorical_of("c", LABELS, unknown="?"),
        {"name": "o", "type": "ordinal", "levels": LEVELS},
    ],
    resolution_bits=12,
)
Value = Decimal | dt.date | str | None
Values = dict[str, list[Value]]
"""What rows mean, by attribute: a number, a day, a label, `JUNK`, or None for missing."""

_numbers = st.one_of(
    st.integers(-5, 105).map(lambda k: Decimal(k) / 10),
    st.integers(-50, 1050).map(lambda k: Decimal(k) / 100),
    st.sampled_from([Decimal("0.1"), Decimal("2.5"), Decimal("5.7")]),
)
_whole = st.one_of(
    st.integers(-2, 33).map(Decimal),
    st.integers(-3, 63).map(lambda k: Decimal(k) / 2),
    st.sampled_from([Decimal("1e-7"), Decimal("-1e-7")]),
)
_days = st.integers(-3, 368).map(lambda k: dt.date(2020, 1, 1) + dt.timedelta(k))
_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "x": _numbers,
    "n": _whole,
    "d": _days,
    "c": st.sampled_from([*LABELS, "7", "x"]) | st.sampled_from(["0", "0.5", "1", "100000"]),
    "o": st.sampled_from([*LEVELS, "7"]),
}


@st.composite
def values_of_rows(draw: st.DrawFn) -> Values:
    """Draw the meaning of some rows; some columns have only what a number can say."""
    n_rows = draw(st.integers(1, 6))
    values = {}
    for name, kind in _KINDS.items():
        odd = draw(st.sampled_from([st.none(), st.none() | st.just(JUNK), st.nothing()]))
        if name == "c" and draw(st.booleans()):
            kind = st.sampled_from(["0", "0.5", "1", "100000", "7"])
        values[name] = draw(st.lists(kind | odd, min_size=n_rows, max_size=n_rows))
    return values


def columns_of(values: Values) -> list[Column]:
    """The obvious reading: columns as `dppca.common.kernel.schema.encode` takes them."""
    labels = {"c": LABELS, "o": LEVELS}

    def number(name: str, value: Value) -> float:
        if value is None:
            return np.nan
        if name == "o":
            return LEVELS.index(str(value)) if value in LEVELS else NOT_A_NUMBER
        if value == JUNK:
            return NOT_A_NUMBER
        return count_days(value) if isinstance(value, dt.date) else float(value)

    def code(value: Value) -> int:
        if value is None:
            return MISSING
        return LABELS.index(str(value)) if value in labels["c"] else UNKNOWN

    return [
        np.array([code(each) for each in column], np.int32)
        if name == "c"
        else np.array([number(name, each) for each in column])
        for name, column in values.items()
    ]


def require_same(values: Values, packed: Any, counts: FaultCounts) -> None:
    """Compare sums and counts with those of the obvious reading."""
    columns = columns_of(values)
    expected = compute_moments(
        encode(SCHEMA, columns), SCHEMA.layout, find_cells(SCHEMA, columns)
    ).packed
    slow = FaultCounts(SCHEMA)
    slow.add(columns)
    found, wanted = (
        {name: each.found for name, each in tally.report().attributes.items()}
        for tally in (counts, slow)
    )
    assert found == wanted
    np.testing.assert_array_equal(packed, expected)


def written(draw: st.DrawFn, name: str, values: Sequence[Value], ways: frozenset[str]) -> pa.Array:
    """Draw a column that means the values, in one of the ways that are possible for all of them."""
    possible = {"text"} if JUNK in values else {"text", *_typed_ways(name, values)}
    way = draw(st.sampled_from(sorted(possible & ways)))
    if way == "text":
        spell = _spelled_day if name == "d" else _spelled
        return pa.array([spell(draw, name, value) for value in values], pa.string())
    if way == "dictionary":
        return written(draw, name, values, frozenset({"text"})).dictionary_encode()
    if name == "d":
        return _times(draw, values, way)
    if way == "bool":
        return pa.array([None if each is None else True for each in values], pa.bool_())
    numbers = [None if each is None else Decimal(str(each)) for each in values]
    if way == "decimal":
        return pa.array(numbers, pa.decimal128(20, 8))
    if way == "int":
        return pa.array([None if each is None else int(each) for each in numbers], pa.int64())
    kind = np.float32 if way == "float32" else np.float64
    cells = np.array([np.nan if each is None else float(each) for each in numbers], kind)
    return pa.array(cells, from_pandas=draw(st.booleans()))  # NaN is missing, as null is


def _typed_ways(name: str, values: Sequence[Value]) -> set[str]:
    if name == "d":
        return {"date", "naive", "zoned", "utc", "dictionary"}
    if all(value in (None, "true") for value in values) and name == "c":
        return {"bool", "dictionary"}
    plain = [each for each in values if each is not None]
    try:
        numbers = [Decimal(str(each)) for each in plain]
    except ArithmeticError:
        return {"dictionary"}
    if any(each == "1.10" for each in plain):  # a code: no number says it
        return {"dictionary"}
    whole = {"int"} if all(each == int(each) for each in numbers) else set()
    return {"float32", "float64", "decimal", "dictionary", *whole}


def _spelled(draw: st.DrawFn, name: str, value: Value) -> str | None:
    if value is None:
        words = [word for word in MISSING_WORDS if name != "c" or word not in LABELS]
        return draw(st.sampled_from([None, "", " ", "nan", *words]))
    text = str(value)
    if text in (JUNK, "x", "NA", "1.10"):
        return draw(st.sampled_from([text, f" {text} "]))
    if text == "true":
        return draw(st.sampled_from(["true", "True", "TRUE"]))
    number = Decimal(text)
    plain = f"{number.normalize() + 0:f}"
    dotted = plain if "." in plain else f"{plain}."
    sign, digits = ("-", plain[1:]) if plain.startswith("-") else ("", plain)
    spellings = [plain, f"{dotted}0", f"{dotted}0000", f"{number:e}", f"{number:E}", f" {plain}"]
    spellings += [repr(float(number)), str(np.float32(float(number))), f"{float(number):.9e}"]
    spellings += [f"+{plain}"] if not sign else []
    spellings += [f"{sign}{digits[1:]}"] if digits.startswith("0.") else []
    spellings += ["-0", "-0.0"] if not number else []
    return draw(st.sampled_from(spellings))


def _spelled_day(draw: st.DrawFn, _: str, value: Value) -> str | None:
    if not isinstance(value, dt.date):
        return _spelled(draw, "d", value)
    time = draw(st.sampled_from(["", "T23:59:59", " 00:00:00", " 07:05"]))
    zone = draw(st.sampled_from(["", "Z", "+02:00", ".123456-11:30"])) if len(time) > 6 else ""
    return f"{value.isoformat()}{time}{zone}"


def _times(draw: st.DrawFn, values: Sequence[Value], way: str) -> pa.Array:
    if way == "date":
        return pa.array(values, pa.date32())
    zone = {"naive": None, "utc": "UTC"}.get(way, "")
    if zone == "":
        zone = draw(st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata"]))
    there = None if zone is None else ZoneInfo(zone)
    time = draw(st.times(max_value=dt.time(23, 59, 59)))
    moments = [
        None if each is None else dt.datetime.combine(each, time.replace(microsecond=0), there)
        for each in values
        if each is None or isinstance(each, dt.date)
    ]
    return pa.array(moments, pa.timestamp("us", zone))
