"""Dates and labels come back as dates and labels, and rows code alike again."""

from datetime import date

import numpy as np
import pyarrow as pa

from dppca.common.schema import encode
from dppca.common.schema.arrow import decoded_array, decoded_fields
from dppca.common.schema.columns import parse_column
from dppca.common.schema.decoding import decode_columns
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
    days = {"day": pa.date32(), "age": pa.float64()}
    labels = pa.dictionary(pa.int32(), pa.string())
    assert decoded_fields(SCHEMA) == pa.schema(
        [(name, days.get(name, labels)) for name in ("day", "pain", "age", "sex")]
    )


def test_what_is_decoded_is_whole_within_bounds_and_decodes_to_itself() -> None:
    places = np.linspace(-0.6, 0.6, 41)
    columns = [places, places, places, np.zeros(41, np.int32)]
    values = decode_columns(SCHEMA, columns)
    arrays = [decoded_array(a, v) for a, v in zip(SCHEMA.attributes, values, strict=True)]
    assert arrays[0][0].as_py() == date(2020, 1, 1)
    assert arrays[0][-1].as_py() == date(2024, 12, 31)
    assert arrays[1].to_pylist()[::20] == ["none", "moderate", "severe"]
    assert all(value == round(value) for value in arrays[2].to_pylist())
    read = [parse_column(a, v) for a, v in zip(SCHEMA.attributes, arrays, strict=True)]
    np.testing.assert_array_equal(encode(SCHEMA, read), encode(SCHEMA, values))
    for attribute, array in zip(SCHEMA.attributes, arrays, strict=True):
        text = array.cast(pa.string()) if attribute.name != "age" else array
        again = parse_column(attribute, text)
        np.testing.assert_array_equal(again, parse_column(attribute, array))
