"""Dates, ordinals and missing levels among rows that are published: what is taken."""

import math
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import UploadError
from dppca.curator.study.synthetic_rows import check_rows, join_rows, table_schema
from tests.support.studies import make_schema, numeric_of

SCHEMA = make_schema(
    [
        {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
        {"name": "pain", "type": "ordinal", "levels": ["none", "mild", "severe"]},
        numeric_of("bmi", 10, 60, histogram=True, missing="level"),
        numeric_of("age", 0, 110),
        numeric_of("visits", 0, 50, histogram=True, missing="level", integer=True),
        numeric_of("children", 0, 12, integer=True),
    ]
)
SOUND: dict[str, Any] = {
    "day": pa.array([date(2020, 1, 1), date(2020, 12, 31)]),
    "pain": pa.array(["severe", "none"]),
    "bmi": pa.array([None, 22.5]),
    "age": pa.array([40.0, 41.0]),
    "visits": pa.array([None, 50]),
    "children": pa.array([0, 12]),
}
BEFORE: dict[str, Any] = {
    "pain": SOUND["pain"].dictionary_encode(),
    "bmi": pa.array([math.nan, 22.5]),
    "visits": pa.array([math.nan, 50.0]),
    "children": pa.array([0.0, 12.0]),
}
"""What 0.1.0 published: NaN for missing, float64 for whole numbers."""


def upload(folder: Path, name: str = "rows", **columns: Any) -> Path:
    path, table = folder / name, pa.table({**SOUND, **columns})
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


def test_sound_rows_also_of_before_are_joined_with_the_types_of_the_study(tmp_path: Path) -> None:
    paths = [upload(tmp_path), upload(tmp_path, name="before", **BEFORE)]
    for path in paths:
        check_rows(path, SCHEMA, Form.DECODED, n_rows=2)
    joined = b"".join(join_rows(paths, SCHEMA, Form.DECODED))
    with pa.ipc.open_stream(joined) as stream:
        table = stream.read_all()
    assert table.schema.remove_metadata() == table_schema(SCHEMA, Form.DECODED)
    assert table.schema.field("pain").type.ordered
    assert table.schema.field("visits").type == pa.int64()
    assert table.to_pydict() == {name: column.to_pylist() * 2 for name, column in SOUND.items()}


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"day": pa.array([date(2019, 12, 31)] * 2)}, "day has values outside its bounds"),
        ({"day": pa.array([18262.0, 18263.0])}, "day is double, not date32"),
        ({"day": pa.array([None, date(2020, 1, 1)])}, "day has missing values"),
        ({"pain": pa.array(["none", "unbearable"])}, "pain has labels that are not"),
        ({"bmi": pa.array([math.inf, 20.0])}, "bmi has values that are not finite"),
        ({"bmi": pa.array([math.nan, 9.0])}, "bmi has values outside its bounds"),
        ({"age": pa.array([None, 20.0])}, "age has missing values"),
        ({"children": pa.array([None, 2])}, "children has missing values"),
        ({"children": pa.array([-1, 2])}, "children has values outside its bounds"),
        ({"children": pa.array([1.5, 2.0])}, "children has values that are not whole"),
        ({"children": pa.array([math.nan, 2.0])}, "children has values that are not finite"),
        ({"children": pa.array(["1", "2"])}, "children is string, not int64"),
        ({"visits": pa.array([None, 51])}, "visits has values outside its bounds"),
        ({"visits": pa.array([math.nan, 0.5])}, "visits has values that are not whole"),
        ({"age": pa.array([40, 41])}, "age is int64, not double"),
        ({"age": pa.array([math.nan, 20.0])}, "age has values that are not finite"),
        ({"more": pa.array([1.0, 2.0])}, "7 columns that are not the study's 6"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_values_that_the_study_does_not_have_are_refused(
    tmp_path: Path, columns: dict[str, Any], says: str
) -> None:
    with pytest.raises(UploadError, match=says):
        check_rows(upload(tmp_path, **columns), SCHEMA, Form.DECODED, n_rows=2)
