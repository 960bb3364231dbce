"""Dates and labels come back as dates and labels, and rows code alike again."""

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dppca.common.kernel.schema import encode
from dppca.common.kernel.schema.arrow import conform, decoded_array, decoded_fields
from dppca.common.kernel.schema.columns import parse_column
from dppca.common.kernel.schema.decoding import decode_columns
from tests.support.studies import binary_of, make_schema, numeric_of

SCHEMA = make_schema(
    [
        {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2024-12-31"},
        {"name": "pain", "type": "ordinal", "levels": ["none", "mild", "moderate", "severe"]},
        numeric_of("age", 0, 100, integer=True),
        binary_of("sex", ["f", "m"]),
    ]
)


def test_decoded_values_have_the_types_of_their_attributes() -> None:
    labels = pa.dictionary(pa.int32(), pa.string())
    ordered = pa.dictionary(pa.int32(), pa.string(), ordered=True)
    assert decoded_fields(SCHEMA) == pa.schema(
        {"day": pa.date32(), "pain": ordered, "age": pa.int64(), "sex": labels}
    )


@pytest.mark.parametrize(
    ("bounds", "kind"),
    [
        ({"lower": -(2.0**62), "upper": 2.0**62, "integer": True}, pa.int64()),
        ({"lower": 0, "upper": 2.0**63, "integer": True}, pa.float64()),
        ({"lower": -1e19, "upper": 5, "integer": True}, pa.float64()),
        ({"lower": 0, "upper": 5}, pa.float64()),
    ],
)
def test_whole_numbers_are_int64_where_their_bounds_fit(
    bounds: dict[str, Any], kind: pa.DataType
) -> None:
    document = {"name": "n", "type": "numeric", **bounds}
    attribute = make_schema([document, binary_of("sex", ["f", "m"])]).attributes[0]
    values = np.array([bounds["lower"], bounds["upper"]], np.float64)
    array = decoded_array(attribute, values)
    assert array.type == kind
    np.testing.assert_array_equal(parse_column(attribute, array), values)


@pytest.mark.parametrize("integer", [True, False])
def test_a_missing_number_is_null_and_reads_as_missing(integer: bool) -> None:
    level = numeric_of("n", -9, 9, integer=integer, histogram=True, missing="level")
    attribute = make_schema([level, binary_of("sex", ["f", "m"])]).attributes[0]
    values = np.array([np.nan, -9.0, 4.0, np.nan])
    array = decoded_array(attribute, values)
    assert array.to_pylist() == [None, -9, 4, None]
    assert conform(attribute, array).equals(array)
    assert conform(attribute, pa.array(values)).equals(array), "0.1.0 wrote NaN in float64"
    np.testing.assert_array_equal(parse_column(attribute, array), values)


def test_what_is_decoded_is_whole_within_bounds_and_decodes_to_itself() -> None:
    places = np.linspace(-0.6, 0.6, 41)
    columns = [places, places, places, np.zeros(41, np.int32)]
    values = decode_columns(SCHEMA, columns)
    arrays = [decoded_array(a, v) for a, v in zip(SCHEMA.attributes, values, strict=True)]
    assert arrays[0][0].as_py() == date(2020, 1, 1)
    assert arrays[0][-1].as_py() == date(2024, 12, 31)
    assert arrays[1].to_pylist()[::20] == ["none", "moderate", "severe"]
    assert arrays[2].to_pylist()[::20] == [0, 50, 100]
    read = [parse_column(a, v) for a, v in zip(SCHEMA.attributes, arrays, strict=True)]
    np.testing.assert_array_equal(encode(SCHEMA, read), encode(SCHEMA, values))
    for attribute, array in zip(SCHEMA.attributes, arrays, strict=True):
        text = array.cast(pa.string()) if attribute.name != "age" else array
        again = parse_column(attribute, text)
        np.testing.assert_array_equal(again, parse_column(attribute, array))
