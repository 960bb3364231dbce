"""How a column was written is remarked: words for missing, zones, and midnights of elsewhere."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dppca.common.kernel.schema import find_attribute_faults
from dppca.common.kernel.schema.columns import parse_column
from dppca.owner.records.faults import CodeCount
from dppca.owner.records.remarks import Remarks
from tests.support.studies import categorical_of, make_schema, numeric_of

AGE, WARD, DAY = make_schema(
    [
        numeric_of("age", 0, 9),
        categorical_of("ward", ["NA", "north", "south"]),
        {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
    ]
).attributes


def remarks(attribute: Any, *batches: pa.Array) -> Remarks:
    total = Remarks(attribute)
    for cells in batches:
        column = parse_column(attribute, cells)
        missing = find_attribute_faults(attribute, column).missing
        found = total.of(cells, column, missing if missing.any() else None)
        total.merge(found.to_document())
    return total


CELLS = pa.array(["NA", " . ", "7", "", None, "x", "NA"])


@pytest.mark.parametrize(
    "cells", [CELLS, CELLS.dictionary_encode(), pc.run_end_encode(CELLS), CELLS.cast(pa.binary())]
)
def test_words_for_missing_are_counted_by_word(cells: pa.Array) -> None:
    found = remarks(AGE, cells[:3], cells[3:])
    assert (found.words, found.listed) == ({"NA": 2, ".": 1}, {})


CODED = make_schema(
    [numeric_of("age", 0, 9), categorical_of("ward", ["NA", "north", "south"])],
    missing_values={"-9.5": "refused", "8": "", "x": "lost"},
).attributes


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["-9.50", " 8", "-9.5", "x", "8.0", "", "7", None, "-95e-1"]),
        pa.array(["-9.50", " 8", "-9.5", "x", "8.0", "", "7", None, "-95e-1"]).dictionary_encode(),
        pc.run_end_encode(pa.array(["-9.50", " 8", "-9.5", "x", "8.0", "", "7", "-9.5"])),
        pa.array(["-9.50", "8", "-9.5", "x", "8.0", "", "7", "-9.5"], pa.large_binary()),
    ],
)
def test_codes_of_the_study_are_counted_apart_with_its_words(cells: pa.Array) -> None:
    for attribute in CODED:
        assert remarks(attribute, cells[:3], cells[3:]).report()["missing_values"] == {
            "-9.5": CodeCount("refused", 3),
            "8": CodeCount("", 2),
            "x": CodeCount("lost", 1),
        }


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16(), pa.decimal128(9, 3)])
def test_codes_in_columns_of_numbers_are_counted_too(kind: pa.DataType) -> None:
    cells = pa.array([-9.5, 8.0, 3.0, None, -9.5]).cast(kind)
    for attribute in CODED:
        counts = remarks(attribute, cells).report()["missing_values"]
        assert [each.count for each in counts.values()] == [2, 1, 0]


def test_a_word_that_is_a_label_is_counted_as_one() -> None:
    found = remarks(WARD, CELLS)
    assert (found.words, found.listed) == ({".": 1}, {"NA": 2})


def times(*texts: str) -> pa.Array:
    return pa.array(texts)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["2020-01-31T23:00:00Z", "2020-06-30T22:00:00Z", None, ""], ("22:00", "23:00")),
        (["2020-01-31 23:00", "2020-07-01 00:00:00.000"], ("00:00", "23:00")),  # London's
        (["2020-01-31 18:30:00"], ("18:30",)),  # Kolkata's
        (["2020-01-31 11:00:00", "2020-07-01 12:00:00"], ("11:00", "12:00")),  # Auckland's
        (["2020-01-31 00:00:00", "2020-02-01"], ()),
        (["2020-01-31", "2020-02-01"], ()),
        (["2020-01-31 12:00:00"], ()),  # noon is nobody's midnight but in winter
        (["2020-01-31 04:00:00", "2020-02-01 05:00:00"], ()),  # New York's: the day is right
        (["2020-01-31 23:59:59"], ()),
        (["2020-01-31 22:00:00", "2020-02-01 14:00:00"], ()),
        ([f"2020-01-31 {hour}:00:00" for hour in (20, 21, 22, 23)], ()),
    ],
)
def test_midnights_of_a_zone_in_the_east_are_remarked(
    texts: list[str | None], said: tuple[str, ...]
) -> None:
    cells = pa.array(texts, pa.string())
    assert remarks(DAY, cells).report()["midnights"] == said
    assert (
        remarks(DAY, *(cells[i : i + 1] for i in range(len(cells)))).report()["midnights"] == said
    )
    if None not in texts and all(len(text or "") > 18 for text in texts):
        typed = pa.array([(text or "")[:19].replace("T", " ") for text in texts])
        assert remarks(DAY, typed.cast(pa.timestamp("us"))).report()["midnights"] == said


def test_zones_of_typed_times_are_named_and_times_are_those_of_the_zone() -> None:
    midnight = pa.array([1_580_511_600], pa.int64())  # of 1 February 2020 in Berlin
    report = remarks(DAY, midnight.view(pa.timestamp("s", "Europe/Berlin"))).report()
    zones, late = report["zones"], report["midnights"]
    assert (zones, late) == (("Europe/Berlin",), ())
    report = remarks(DAY, midnight.view(pa.timestamp("s", "UTC"))).report()
    zones, late = report["zones"], report["midnights"]
    assert (zones, late) == (("UTC",), ("23:00",))
    assert remarks(DAY, midnight.view(pa.timestamp("s", "No/Where"))).report()["midnights"] == ()


def test_a_column_of_many_times_is_not_looked_at_again() -> None:
    many = times(*(f"2020-01-01 22:{minute:02}:00" for minute in range(0, 60, 15)))
    late = times("2020-01-01 22:00:00")
    assert remarks(DAY, many, late).times is remarks(DAY, late, many).times is None


SEX, LETTERS, LEVELS, STEP = make_schema(
    [
        categorical_of("sex", ["männlich", "weiblich", "other"]),
        categorical_of("letters", ["A", "a", "b"]),
        {"name": "level", "type": "ordinal", "levels": ["low", "mid", "high"]},
        categorical_of("step", ["1", "2", "3"]),
    ]
).attributes


def test_labels_that_differ_only_by_capitals_accents_width_or_blanks_are_counted() -> None:
    cells = pa.array(["MÄNNLICH", "mannlich", "Ｗeiblich", "männlich", "man", "", None])
    found = remarks(SEX, cells, cells.dictionary_encode())
    assert found.near == {"männlich": 4, "weiblich": 2}
    assert found.report()["near_labels"] == found.near
    assert remarks(LEVELS, pa.array(["LOW", "low", "x"])).near == {"low": 1}
    assert not remarks(LETTERS, pa.array(["Á", "A", "a"])).near, "two labels have this form"
    assert not remarks(AGE, pa.array(["X"])).near
    assert not remarks(STEP, pa.array(["-1", "+2"])).near, "a sign is no mark of a word"
