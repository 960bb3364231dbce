"""Codes for missing: one rule for a cell in every format; lists nobody can mean are refused."""

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import MISSING, Attribute, Schema
from dppca.common.kernel.schema.columns import parse_column
from tests.support.studies import categorical_of, make_schema, numeric_of

CODES = {"-99": "refused", "97": "", "0.1": "lost", "1900-01-01": "", "lost": ""}
DAY = {"name": "day", "type": "date", "lower": "1890-01-01", "upper": "2020-12-31"}
STEPS = {"name": "steps", "type": "ordinal", "levels": ["1", "2", "3"]}
ATTRIBUTES = [numeric_of("x", -200, 200), categorical_of("c", ["1", "98", "a"]), DAY, STEPS]
CODED = make_schema(ATTRIBUTES, missing_values=CODES).attributes
PLAIN = make_schema(ATTRIBUTES).attributes

numbers = st.sampled_from(["-99", "97", "0.1", "98", "1", "-98.99", "0.10001", "0"])
words = st.sampled_from(["1900-01-01", "lost", "1900-01-02", "Lost", "a", "lost 97"])


def is_missing(attribute: Attribute, cells: pa.Array) -> list[bool]:
    column = parse_column(attribute, cells)
    return (np.isnan(column) | (column == MISSING)).tolist()


@given(values=st.lists(numbers, min_size=1, max_size=6), data=st.data())
def test_a_number_that_is_a_code_is_missing_in_every_type_and_spelling(
    values: list[str], data: st.DataObject
) -> None:
    exact = [Decimal(value) for value in values]
    spelled = [
        data.draw(st.sampled_from([v, f" {v} ", f"{n:e}", f"{n:.6f}", f"{n:.7E}"]))
        for v, n in zip(values, exact, strict=True)
    ]
    narrow = pa.array(np.array(values, np.float32))
    expected = [value in CODES for value in values]
    for attribute, plain in zip(CODED, PLAIN, strict=True):
        for cells in (
            pa.array(spelled),
            pa.array(spelled).dictionary_encode(),
            pa.array([float(n) for n in exact]),
            narrow,
            pa.array(exact, pa.decimal128(20, 6)),
        ):
            assert is_missing(attribute, cells) == expected
            others = cells.filter(pa.array([not each for each in expected]))
            np.testing.assert_array_equal(
                parse_column(attribute, others), parse_column(plain, others)
            )


@given(values=st.lists(words, min_size=1, max_size=6))
def test_a_text_that_is_a_code_is_missing_and_its_neighbours_do_not_matter(
    values: list[str],
) -> None:
    expected = [value in CODES for value in values]
    for attribute in CODED:
        assert is_missing(attribute, pa.array([f"{each} " for each in values])) == expected
    assert is_missing(CODED[2], pa.array(values)) == expected


def test_a_day_that_is_a_code_is_missing_as_a_date_a_time_and_a_text() -> None:
    days = pa.array(["1900-01-01", "1900-01-02"])
    for cells in (
        days.cast(pa.date32()),
        days.cast(pa.timestamp("s")),
        pa.array(["1900-01-01T07:00", "1900-01-02"]),
    ):
        assert is_missing(CODED[2], cells) == [True, False]
    assert is_missing(CODED[2], pa.array([-99, 5])) == [True, False]  # no date, and a code
    assert is_missing(CODED[1], days.cast(pa.date64())) == [True, False]


def test_a_schema_without_codes_keeps_its_digest_and_codes_are_in_it() -> None:
    plain, coded = make_schema(ATTRIBUTES), make_schema(ATTRIBUTES, missing_values=CODES)
    assert b"missing_values" not in plain.canonical_bytes()
    assert make_schema(ATTRIBUTES, missing_values={}).digest == plain.digest
    assert make_schema(ATTRIBUTES, missing_values=[*CODES]).digest != coded.digest
    assert coded.digest != plain.digest
    assert coded.canonical_bytes().count(b"missing_values") == 1
    assert Schema.from_document(json.loads(coded.canonical_bytes())) == coded


def test_an_attribute_has_its_own_list_in_place_of_the_schemas() -> None:
    own = [numeric_of("x", 0, 9, missing_values=[8]), numeric_of("y", 0, 9, missing_values={})]
    schema = make_schema([*own, numeric_of("z", 0, 9)], missing_values={7: None})
    again = Schema.from_document(json.loads(schema.canonical_bytes()))
    assert again == schema
    found = [is_missing(each, pa.array([7, 8])) for each in again.attributes]
    assert found == [[False, True], [False, False], [True, False]]


@pytest.mark.parametrize(
    ("attribute", "codes", "said"),
    [
        (categorical_of("c", ["a", "b", "-9"]), [-9.0], "c: -9 is also one of its labels"),
        (categorical_of("c", ["a", "b"], unknown="?"), ["?"], "? is also one of its labels"),
        (
            categorical_of("c", ["true", "false", "a"]),
            ["t"],
            "t is also one of its labels or spikes",
        ),
        (numeric_of("x", 0, 9, spikes=[0], histogram=True), ["0.00"], "0.00 is also one of its"),
        (numeric_of("x", 0, 9), {"-9": "refused", "-9.0": "lost"}, "-9 and -9.0 are one number"),
        (numeric_of("x", 0, 9), ["a", " a"], "a code twice"),
        (numeric_of("x", 0, 9), [""], "a label has 1 to"),
        (numeric_of("x", 0, 9), [None], "quote words such as null"),
        (numeric_of("x", 0, 9), -99, "codes with words"),
        (numeric_of("x", 0, 9), {"-9": 3}, "the words for -9"),
        (numeric_of("x", 0, 9), {"-9": "a\u202eb"}, "invisible"),
        (numeric_of("x", 0, 9), [*range(100, 165)], "64 codes at most"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused_by_a_sentence(
    attribute: dict[str, object], codes: object, said: str
) -> None:
    other = numeric_of("other", 0, 9)
    for schema in (
        {"attributes": [{**attribute, "missing_values": codes}, other]},
        {"attributes": [attribute, other], "missing_values": codes},
    ):
        with pytest.raises(SettingError) as refused:
            Schema.from_document({**schema})
        assert said in str(refused.value)
