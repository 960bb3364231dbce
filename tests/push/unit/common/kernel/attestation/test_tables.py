"""Rows as files, of this version and of 0.1.0: what is read of them, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dppca.common.kernel.attestation.table_files import labelled_writer, with_metadata
from dppca.common.kernel.attestation.tables import SUFFIXES, read_rows
from dppca.common.kernel.errors import AlteredError
from dppca.common.kernel.schema.arrow import decoded_array, decoded_fields
from tests.support.studies import make_schema, numeric_of

SCHEMA = make_schema(
    [
        numeric_of("income", 0, 1e6, integer=True, histogram=True, missing="level"),
        numeric_of("dose", 0, 5, histogram=True, missing="level"),
        numeric_of("age", 0, 110, integer=True),
        {"name": "stage", "type": "ordinal", "levels": ["low", "middle", "high"]},
        {"name": "born", "type": "date", "lower": "1900-01-01", "upper": "2030-01-01"},
    ]
)
VALUES = [
    np.array([np.nan, 300_000.0, 1e6]),
    np.array([0.25, np.nan, 5.0]),
    np.array([0.0, 50.0, 110.0]),
    np.array([2.0, 0.0, 1.0]),
    np.array([-25567.0, 0.0, 1.0]),
]
NOW = {
    attribute.name: decoded_array(attribute, column)
    for attribute, column in zip(SCHEMA.attributes, VALUES, strict=True)
}
BEFORE = {
    **{name: pa.array(column) for name, column in zip(NOW, VALUES[:3], strict=False)},
    "stage": NOW["stage"].cast(pa.string()).dictionary_encode(),
    "born": NOW["born"],
}
"""The same rows in the types of 0.1.0."""


def write(path: Path, columns: dict[str, Any]) -> Path:
    batch = pa.record_batch(columns)
    fields = with_metadata(batch.schema, {"label": "released"})
    with labelled_writer(path, path.suffix, fields, mode=0o600) as writer:
        writer.write(batch)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("columns", [NOW, BEFORE], ids=["now", "before"])
def test_rows_of_both_forms_are_read_alike_from_every_format(
    tmp_path: Path, suffix: str, columns: dict[str, Any]
) -> None:
    read = read_rows(write(tmp_path / f"rows{suffix}", columns), SCHEMA, n_rows=3)
    for found, expected in zip(read, VALUES, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_file_keeps_the_types(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"rows{suffix}", NOW)
    table = pa.parquet.read_table(path) if suffix == ".parquet" else pa.ipc.open_file(path)
    assert table.schema.remove_metadata() == decoded_fields(SCHEMA)


def test_a_missing_value_is_an_empty_cell(tmp_path: Path) -> None:
    lines = write(tmp_path / "rows.csv", NOW).read_text().splitlines()
    assert lines[1:3] == [',0.25,0,"high",1900-01-01', '300000,,50,"low",1970-01-01']


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", ["age", "stage", "born"])
def test_a_missing_value_where_none_can_be_is_refused(
    tmp_path: Path, suffix: str, name: str
) -> None:
    absent = pa.nulls(3, NOW[name].type)
    path = write(tmp_path / f"rows{suffix}", {**NOW, name: absent})
    with pytest.raises(AlteredError, match=f"column {name}: values are missing"):
        read_rows(path, SCHEMA, n_rows=3)


@pytest.mark.parametrize(
    ("name", "column", "says"),
    [
        ("dose", pa.array([1, 2, 3]), "int64, not double"),
        ("age", pa.array([1, 2, 3], pa.int32()), "int32, not int64"),
        ("born", pa.array([1.0, 2.0, 3.0]), r"double, not date32\[day\]"),
        ("income", pa.array(["a", "b", "c"]), "string, not int64"),
    ],
)
def test_other_types_are_refused(tmp_path: Path, name: str, column: pa.Array, says: str) -> None:
    path = write(tmp_path / "rows.arrow", {**NOW, name: column})
    with pytest.raises(AlteredError, match=f"column {name}: {says}"):
        read_rows(path, SCHEMA, n_rows=3)
