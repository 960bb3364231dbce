"""A type that pyarrow does not know, in a column that is not read, is nobody's business."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dppca.common.kernel.attestation.file_headers import read_arrow_schema
from dppca.common.kernel.errors import DataError
from dppca.owner.records.columnar import open_parquet
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.sources import Wanted
from dppca.owner.records.stored_files import StoredFile
from dppca.owner.records.table import open_table
from dppca.owner.records.unknown_types import hide_unknown_types
from tests.support.studies import binary_of, make_schema, numeric_of

LARGE = [2**64 + 1, 5]
TIME = datetime(2020, 1, 1, 23, tzinfo=UTC)
KNOWN = {
    "age": pl.Series([1.0, 2.0]),
    "time": pl.Series([TIME, None]).dt.convert_time_zone("Europe/Vienna"),
    "stay": pl.Series([timedelta(1), None]),
    "town": pl.Series(["Ulm", "Bern"], dtype=pl.Categorical),
}
UNKNOWN = {
    "id": pl.Series(LARGE, dtype=pl.Int128),
    "é": pl.Series([[1], LARGE], dtype=pl.List(pl.Int128)),
    "s": pl.Series([{"a": 1}, {"a": 2}], dtype=pl.Struct({"a": pl.Int128})),
}


def _write(path: Path, *names: str) -> StoredFile:
    pl.DataFrame({name: (KNOWN | UNKNOWN)[name] for name in names}).write_parquet(path)
    return StoredFile(str(path), "survey")


@pytest.mark.parametrize(
    "names",
    [("id", *KNOWN), ("age", "é", "time", "stay", "s", "town", "id"), ("age", "town", "s")],
)
def test_other_columns_keep_their_cells_and_types(tmp_path: Path, names: tuple[str, ...]) -> None:
    rows = open_parquet(_write(tmp_path / "wide.parquet", *names))
    assert rows.names == names
    assert rows.facts.unknown == {*names} - {*KNOWN}
    known = [name for name in names if name in KNOWN]
    plain = open_parquet(_write(tmp_path / "plain.parquet", *known))
    (found,), (expected,) = (each.read(Wanted(known, 9, ["town"])) for each in (rows, plain))
    assert [array.type for array in found] == [array.type for array in expected]
    assert found == expected


def test_a_column_of_such_a_type_is_named_if_it_is_wanted(tmp_path: Path) -> None:
    _write(tmp_path / "wide.parquet", *KNOWN, *UNKNOWN)
    place = local_files(tmp_path / "wide.parquet")
    age = numeric_of("age", 0, 9)
    table = open_table(place, make_schema([age, binary_of("town", ["Ulm", "Bern"])]))
    assert [column.tolist() for column in next(table.batches())] == [[1.0, 2.0], [0, 1]]
    with pytest.raises(DataError, match=r"type that pyarrow does not know.*128 bits \(id\)"):
        open_table(place, make_schema([age, numeric_of("id", 0, 9)]))
    with pytest.raises(DataError, match=r"128 bits \(id, s\)"):
        open_table(place.mapped(MappingPlace(one_hot={"x": {"id": "a", "s": "b"}})), table.schema)
    with pytest.raises(DataError, match=r"128 bits \(id\)"):
        next(table.cells(9, key="id"))


def test_an_arrow_file_with_such_a_column_is_not_called_damaged_alone(tmp_path: Path) -> None:
    pl.DataFrame({name: UNKNOWN[name] for name in UNKNOWN}).write_ipc(tmp_path / "wide.arrow")
    with pytest.raises(DataError, match="pyarrow does not know, such as whole numbers of 128"):
        open_table(tmp_path / "wide.arrow", make_schema([numeric_of(n, 0, 9) for n in "ab"]))


@pytest.mark.parametrize(
    "message", [b"", b"\xff" * 40, bytes(200), b"\xff\xff\xff\xff" + bytes(99)]
)
def test_a_damaged_schema_is_left_to_pyarrow(tmp_path: Path, message: bytes) -> None:
    file = _write(tmp_path / "wide.parquet", *KNOWN, "id")
    content = Path(file.path).read_bytes()
    kept = read_arrow_schema(content)
    damaged = content.replace(kept, b64encode(message).ljust(len(kept), b"=")[: len(kept)])
    assert hide_unknown_types(damaged) == (damaged, frozenset())


def test_a_file_without_a_schema_of_arrow_has_no_such_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"age": [1]}), tmp_path / "a.parquet", store_schema=False)
    content = (tmp_path / "a.parquet").read_bytes()
    assert hide_unknown_types(content) == (content, frozenset())
