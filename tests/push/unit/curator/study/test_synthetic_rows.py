"""Dates, ordinals and missing levels among rows that are published: what is taken."""

import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dppca.common.documents.messages import Form
from dppca.common.errors import UploadError
from dppca.curator.study.synthetic_rows import check_rows, join_rows, table_schema
from tests.support.studies import make_schema, numeric_of

SCHEMA = make_schema(
    [
        {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
        {"name": "pain", "type": "ordinal", "levels": ["none", "mild", "severe"]},
        numeric_of("bmi", 10, 60, histogram=True, missing="level"),
        numeric_of("age", 0, 110),
    ]
)
SOUND: dict[str, Any] = {
    "day": pa.array([date(2020, 1, 1), date(2020, 12, 31)]),
    "pain": pa.array(["severe", "none"]),
    "bmi": pa.array([math.nan, 22.5]),
    "age": pa.array([40.0, 41.0]),
}


def upload(folder: Path, **columns: Any) -> Path:
    path, table = folder / "rows", pa.table({**SOUND, **columns})
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


def test_sound_rows_are_taken_and_joined_with_the_types_of_the_study(tmp_path: Path) -> None:
    path = upload(tmp_path)
    check_rows(path, SCHEMA, Form.DECODED, n_rows=2)
    joined = b"".join(join_rows([path, path], SCHEMA, Form.DECODED))
    with pa.ipc.open_stream(joined) as stream:
        table = stream.read_all()
    assert table.schema.remove_metadata() == table_schema(SCHEMA, Form.DECODED)
    assert table["day"].to_pylist() == SOUND["day"].to_pylist() * 2
    assert table["pain"].to_pylist() == ["severe", "none"] * 2
    assert np.isnan(table["bmi"].to_numpy()[[0, 2]]).all()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"day": pa.array([date(2019, 12, 31)] * 2)}, "day has values outside its bounds"),
        ({"day": pa.array([18262.0, 18263.0])}, "day is double, not date32"),
        ({"day": pa.array([None, date(2020, 1, 1)])}, "day has missing values"),
        ({"pain": pa.array(["none", "unbearable"])}, "pain has labels that are not"),
        ({"bmi": pa.array([math.inf, 20.0])}, "bmi has values that are not finite"),
        ({"bmi": pa.array([math.nan, 9.0])}, "bmi has values outside its bounds"),
        ({"bmi": pa.array([None, 20.0])}, "bmi has missing values"),
        ({"age": pa.array([math.nan, 20.0])}, "age has values that are not finite"),
        ({"more": pa.array([1.0, 2.0])}, "5 columns that are not the study's 4"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_values_that_the_study_does_not_have_are_refused(
    tmp_path: Path, columns: dict[str, Any], says: str
) -> None:
    with pytest.raises(UploadError, match=says):
        check_rows(upload(tmp_path, **columns), SCHEMA, Form.DECODED, n_rows=2)
