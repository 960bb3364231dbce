"""What a schema accepts, what it refuses by name, and where its columns stand."""

import json
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.documents.yaml_text import load_yaml
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.release import sensitivity_shape
from dppca.common.kernel.schema import ColumnKind, Schema, encode, find_cells, label_text
from dppca.common.kernel.schema.attributes import count_days

AGE = {"name": "age", "type": "numeric", "lower": 17, "upper": 90}
SEX = {"name": "sex", "type": "binary", "values": ["Female", "Male"]}
BINNED = {**AGE, "bins": [30, 65], "products": "bins"}
WORK = {"name": "work", "type": "categorical", "categories": ["Private", "State", "Other"]}
DAY = {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"}
PAIN = {"name": "pain", "type": "ordinal", "levels": ["none", "mild", "severe"]}
BALL = {"name": "x", "type": "numeric", "centre": 0, "scale": 1}


def schema(*attributes: dict[str, Any], **settings: Any) -> Schema:
    return Schema.from_document({"attributes": list(attributes), **settings})


def changed(attribute: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {**attribute, **values}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1", "1"),
        (1, "1"),
        (1.0, "1"),
        (-0.0, "0"),
        (2.5, "2.5"),
        (True, "true"),
        (" a b ", "a b"),
        (float("inf"), "inf"),
        (1e20, "100000000000000000000"),
    ],
)
def test_one_label_has_one_text(value: object, text: str) -> None:
    assert label_text(value) == text


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        ("1.10, 1.2, 2", ("1.10", "1.2", "2")),
        ("1.1, 1.10, 1.100", ("1.1", "1.10", "1.100")),
        ("0.50, 1.00, 2.50", ("0.50", "1.00", "2.50")),
        ("1.0, .5, +3", ("1", "0.5", "3")),  # one number however it is written
        ("0.12345678901234567891, 1, 2", ("0.12345678901234567891", "1", "2")),
        ("010, 1e5, true", ("010", "1e5", "true")),
    ],
)
def test_a_label_in_yaml_is_what_was_written(written: str, labels: tuple[str, ...]) -> None:
    read = load_yaml(f"{{name: c, type: categorical, categories: [{written}]}}")
    assert isinstance(read, dict)
    made = schema(read, SEX)
    assert made.attributes[0].labels == labels  # type: ignore[union-attr]
    assert Schema.from_document(json.loads(made.canonical_bytes())).digest == made.digest


def test_a_number_keeps_its_value_where_no_label_is_meant() -> None:
    age = load_yaml("{name: age, type: numeric, lower: 1.10, upper: 90.50}")
    assert isinstance(age, dict)
    plain = changed(AGE, lower=1.1, upper=90.5)
    assert schema(age, SEX).canonical_bytes() == schema(plain, SEX).canonical_bytes()


@pytest.mark.parametrize(
    ("attributes", "settings", "says"),
    [
        ([], {}, "attributes: must not be empty"),
        ([AGE], {}, "1 coded columns; 2 to 8192"),
        ([AGE, AGE], {}, "attribute names must differ: age"),
        ([WORK, changed(AGE, name="work=Other")], {}, "coded columns must differ: work=Other"),
        ([changed(AGE, name=" age"), SEX], {}, "nor ends with spaces"),
        ([changed(AGE, name=""), SEX], {}, "name: must not be empty"),
        ([changed(AGE, lower=90), SEX], {}, "lower must be below upper"),
        ([changed(AGE, lower=float("nan")), SEX], {}, "finite"),
        ([changed(AGE, lower=-1.7e308, upper=1.7e308), SEX], {}, "must be finite"),
        ([changed(AGE, lower=None), SEX], {}, "needs lower and upper"),
        ([AGE, changed(SEX, values=["a"])], {}, "attribute sex, values: entry 2 is missing"),
        ([AGE, changed(SEX, values=["a", "a "])], {}, "labels must differ"),
        ([AGE, changed(SEX, values=["a", None])], {}, "quote words such as null"),
        ([AGE, changed(SEX, values=["a", "  "])], {}, "1 to 256 characters"),
        ([AGE, changed(SEX, missing="x")], {}, "missing must be one of the labels"),
        ([AGE, changed(WORK, categories=["a", "b"])], {}, "three labels at least"),
        ([AGE, changed(WORK, categories=["a"], unknown="?")], {}, "must have 2 entries or more"),
        ([AGE, changed(WORK, unknown="State")], {}, "a label of its own"),
        ([AGE, changed(WORK, unknown="?", missing="State")], {}, "missing .* or unknown"),
        ([AGE, changed(WORK, type="text")], {}, "numeric"),
        ([changed(AGE, products="bins"), SEX], {}, "products: bins needs bins"),
        ([changed(BINNED, histogram=True), SEX], {}, "leave histogram out"),
        ([changed(BALL, products="bins", bins=3), BALL], {"row_norm": {}}, "bins, products"),
        (
            [changed(BINNED, lower=0.9, upper=2.1, integer=True, score="log", bins=2), SEX],
            {},
            "two bins at least: age",
        ),
        ([AGE, SEX], {"resolution_bits": 0}, "resolution_bits"),
        ([AGE, SEX], {"resolution_bits": 15}, "resolution_bits"),
        ([AGE, SEX], {"max_rows_per_person": 0}, "max_rows_per_person"),
        ([AGE, SEX], {"sum_weight": 0}, "sum_weight"),
        ([AGE, SEX], {"sum_weight": 0.3}, "must be an integer"),
        ([BALL, changed(BALL, name="y")], {}, "centre and scale need row_norm: x"),
        ([BALL, AGE], {"row_norm": {}}, "centre and scale only: age"),
        ([BALL, SEX], {"row_norm": {}}, "centre and scale only: sex"),
        ([changed(BALL, scale=0), BALL], {"row_norm": {}}, "scale must be above 0"),
        (
            [{**AGE, "missing": "level"}, WORK],
            {},
            "missing: level needs histogram: true or products: bins",
        ),
        ([{**DAY, "missing": "level"}, WORK], {}, "missing is for type: numeric"),
        ([{**DAY, "lower": "2020-1-1"}, WORK], {}, "must be a date such as 2020-01-31"),
        ([{**DAY, "lower": datetime(2020, 1, 1, tzinfo=UTC)}, WORK], {}, "must be a date such as"),
        ([{**DAY, "integer": False}, WORK], {}, "integer is for type: numeric"),
        ([{**PAIN, "levels": ["no", "yes"]}, WORK], {}, "must have 3 entries or more"),
        ([{**PAIN, "levels": ["a", "b", "a"]}, WORK], {}, "labels must differ"),
        ([{**PAIN, "lower": 0}, WORK], {}, "lower is for type: numeric"),
    ],
)
def test_what_is_refused_is_named(
    attributes: list[dict[str, Any]], settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(SettingError, match=says):
        schema(*attributes, **settings)


def test_defaults_are_written_out_so_that_leaving_them_out_changes_nothing() -> None:
    short = schema(AGE, SEX)
    long = schema(
        changed(AGE, lower="17", upper=90.0),
        changed(SEX, missing=None),
        resolution_bits=10,
        max_rows_per_person=None,
        sum_weight=1,
        row_norm=None,
    )
    assert short.canonical_bytes() == long.canonical_bytes()
    assert short.digest == long.digest


@pytest.mark.parametrize(
    "other",
    [
        schema(SEX, AGE),
        schema(changed(AGE, upper=91), SEX),
        schema(AGE, changed(SEX, values=["Male", "Female"])),
        schema(AGE, changed(SEX, missing="Male")),
        schema(BINNED, SEX),
        schema(AGE, SEX, resolution_bits=9),
        schema(AGE, SEX, max_rows_per_person=2),
        schema(AGE, SEX, sum_weight=2),
    ],
)
def test_whatever_changes_the_code_of_a_row_changes_the_digest(other: Schema) -> None:
    assert other.digest != schema(AGE, SEX).digest


def test_columns_stand_in_the_order_of_the_attributes() -> None:
    made = schema(AGE, WORK, SEX)
    assert made.column_names == ("age", "work=Private", "work=State", "work=Other", "sex")
    assert made.layout.kinds == (
        ColumnKind.NUMERIC,
        *[ColumnKind.INDICATOR] * 3,
        ColumnKind.BINARY,
    )
    assert made.layout.groups == ((0, 1), (1, 4), (4, 5))
    assert made.find_index("sex") == 2
    with pytest.raises(KeyError):
        made.find_index("age ")


def test_bins_in_products_have_the_columns_of_a_categorical() -> None:
    made = schema(SEX, changed(BINNED, lower=-1, spikes=[0]), WORK)
    assert made.column_names[1:5] == ("age=bin 1", "age=bin 2", "age=bin 3", "age=0")
    assert made.layout.attribute_kinds == (
        ColumnKind.BINARY,
        ColumnKind.INDICATOR,
        ColumnKind.INDICATOR,
    )
    labels = ["young", "grown", "old", "none"]
    alike = schema(SEX, changed(WORK, name="age", categories=labels), WORK)
    assert made.layout == alike.layout
    assert made.products_of_bins == ("age",)
    assert made.largest_norm(without="sex") == alike.largest_norm(without="sex") == 2**0.5
    assert made.largest_norm(without="age") == alike.largest_norm(without="age")


def test_thousands_of_attributes_are_read_in_moments() -> None:
    made = schema(*[changed(SEX, name=f"b{i}") for i in range(8192)])
    assert made.layout.n_columns == 8192
    assert made.layout.n_entries == 8192 + 8192 * 8191 // 2
    with pytest.raises(SettingError, match="8193 coded columns"):
        schema(*[changed(SEX, name=f"b{i}") for i in range(8193)])


def test_dates_and_ordinals_stand_in_the_document_as_they_were_written() -> None:
    schema = Schema.from_document({"attributes": [DAY, {**PAIN, "histogram": True}]})
    document = json.loads(schema.canonical_bytes())
    assert document["attributes"] == [DAY, {**PAIN, "histogram": True}]
    assert Schema.from_document(document).digest == schema.digest
    written = load_yaml(
        "attributes: [{name: day, type: date, lower: 2020-01-01, upper: 2020-12-31}]"
    )
    assert isinstance(written, dict)
    written["attributes"].append(dict(PAIN))
    assert Schema.from_document(written).attributes[0] == schema.attributes[0]


@given(st.lists(st.integers(-400, 800), min_size=1, max_size=20))
def test_a_date_and_an_ordinal_are_coded_as_the_whole_numbers_that_they_are(
    places: list[int],
) -> None:
    first, last = count_days(date(2020, 1, 1)), count_days(date(2020, 12, 31))
    number = {"type": "numeric", "integer": True, "histogram": True}
    named = Schema.from_document(
        {"attributes": [{**DAY, "histogram": True}, {**PAIN, "histogram": True}]}
    )
    plain = Schema.from_document(
        {
            "attributes": [
                {"name": "day", "lower": first, "upper": last, **number},
                {"name": "pain", "lower": 0, "upper": 2, **number},
            ]
        }
    )
    columns = [np.array(places, float) + first, np.mod(places, 4).astype(float)]
    np.testing.assert_array_equal(encode(named, columns), encode(plain, columns))
    for ours, theirs in zip(find_cells(named, columns), find_cells(plain, columns), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert sensitivity_shape(named) == sensitivity_shape(plain)


def test_a_missing_level_is_said_only_where_it_is_meant() -> None:
    shape = {**AGE, "bins": 4, "histogram": True}
    without, level = (
        Schema.from_document({"attributes": [{**shape, **more}, WORK]})
        for more in ({}, {"missing": "level"})
    )
    assert b"missing" not in canonical_json(json.loads(without.canonical_bytes())["attributes"][0])
    assert level.digest != without.digest
    assert level.layout.n_entries == without.layout.n_entries + 1
    cells = level.cells[0]
    assert cells is not None
    assert cells.names[-1] == "missing"
    assert cells.index(np.array([np.nan, np.inf, 0.0])).tolist() == [4, 4, 0]
