"""A part of a table is no folder of files: rows that were removed would be counted unseen."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dppca.common.kernel.errors import DataError
from dppca.owner.cli import cli
from dppca.owner.records.file_locations import FileLocation, local_files
from dppca.owner.records.table import open_table
from dppca.owner.records.table_folders import require_no_table
from tests.support.commands import run_here
from tests.support.iceberg import make_iceberg
from tests.support.object_store import object_store, upload
from tests.support.studies import make_schema, numeric_of, study_document

FIELDS = [numeric_of("age", 0, 100), numeric_of("dose", 0, 100)]
SCHEMA = make_schema(FIELDS)
ROWS = pa.table({"age": [1.0, 2.0], "dose": [5.0, 6.0]})
MARKS = {
    "_delta_log/0.json": ("Delta", r"source: \{delta: "),
    "metadata/v1.metadata.json": ("Iceberg", r"source: \{iceberg: "),
    "metadata/00001-x.gz.metadata.json": ("Iceberg", r"source: \{iceberg: "),
    "snapshot/LATEST manifest/m-0": ("Paimon", r"source: \{spark: "),
    ".hoodie/hoodie.properties": ("Hudi", r"source: \{spark: "),
    "_spark_metadata/0": ("that Spark writes from a stream", r"source: \{spark: "),
    "ducklake-1.parquet": ("DuckLake", "export its rows to another folder"),
}
NO_MARKS = [
    "metadata/notes.json",
    "metadata.json",
    "snapshot/LATEST",
    "_delta_log.bak/0.json",
]


def _mark(folder: Path, names: str) -> None:
    for name in names.split():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".parquet"):
            pq.write_table(ROWS, folder / name)
        else:
            (folder / name).touch()


def _table(folder: Path, names: str) -> Path:
    """A marked folder with a file in a partition of a partition."""
    part = folder / "lake" / "table" / "year=2024" / "bucket-0"
    part.mkdir(parents=True)
    pq.write_table(ROWS, part / "part.parquet")
    _mark(part if "ducklake" in names else folder / "lake" / "table", names)
    return part


PLACES: dict[str, Callable[[Path], str]] = {
    "above": lambda part: str(part.parents[2]),
    "table": lambda part: str(part.parents[1]),
    "partition": lambda part: str(part.parent),
    "pattern": lambda part: f"{part.parents[1]}/year=*/*/*.parquet",
    "pattern above": lambda part: f"{part.parents[3]}/**/*.parquet",
    "file": lambda part: str(next(part.iterdir())),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("names", MARKS)
def test_files_of_a_table_are_refused_wherever_they_are_named_from(
    tmp_path: Path, names: str, place: str
) -> None:
    kind, mend = MARKS[names]
    part = _table(tmp_path, names)
    if "ducklake" in names:
        (part / "part.parquet").unlink()
    address = PLACES[place](part)
    with pytest.raises(DataError, match=f"has files of a.* {kind}.*: .*{mend}") as refused:
        open_table(FileLocation("survey", address), SCHEMA)
    assert "pattern" not in str(refused.value)


@pytest.mark.parametrize("names", NO_MARKS)
def test_what_only_looks_like_a_table_is_read(tmp_path: Path, names: str) -> None:
    part = _table(tmp_path, names)
    for place in ("partition", "pattern", "file"):
        assert open_table(FileLocation("survey", PLACES[place](part)), SCHEMA).n_rows == 2


def test_a_table_beside_the_files_is_none_of_their_business(tmp_path: Path) -> None:
    _table(tmp_path, "_delta_log/0.json")
    (tmp_path / "visits").mkdir()
    pq.write_table(ROWS, tmp_path / "visits" / "a.parquet")
    for address in ("visits", "visits/*.parquet", "v*/*.parquet", "visits/a.parquet"):
        assert open_table(FileLocation("survey", f"{tmp_path}/{address}"), SCHEMA).n_rows == 2


def test_a_link_does_not_hide_a_table(tmp_path: Path) -> None:
    part = _table(tmp_path, "_delta_log/0.json")
    (tmp_path / "folder").symlink_to(part)
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.parquet").symlink_to(part / "part.parquet")
    for address in ("folder", "folder/*.parquet", "rows", "rows/a.parquet"):
        with pytest.raises(DataError, match="has files of a Delta table"):
            open_table(FileLocation("survey", f"{tmp_path}/{address}"), SCHEMA)


def test_an_object_store_hides_no_table(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, object_store(patch) as system:
        for number, names in enumerate([*MARKS][::2]):
            folder = tmp_path / str(number)
            part = _table(folder, names)
            if "ducklake" in names:
                (part / "part.parquet").unlink()
            address = upload(system, folder, below=str(number))
            for place in ("pattern above", "partition", "file"):
                inner = PLACES[place](part).removeprefix(str(folder))
                with pytest.raises(DataError, match=f"has files of a.* {MARKS[names][0]}"):
                    open_table(FileLocation("survey (object store)", f"{address}{inner}"), SCHEMA)
        part = _table(tmp_path / "plain", "metadata/notes.json")
        address = upload(system, part.parents[1], below="plain/table")
        assert open_table(FileLocation("survey", f"{address}/year=2024"), SCHEMA).n_rows == 2


class OneFolder:
    """A store in which one folder may be listed."""

    def get_file_info(self, asked: Sequence[str]) -> list[pyarrow.fs.FileInfo]:
        if any(not path.startswith("bucket/mine/") for path in asked):
            raise OSError("AWS Error ACCESS_DENIED during HeadObject operation")
        return [pyarrow.fs.FileInfo(path, pyarrow.fs.FileType.NotFound) for path in asked]


def test_a_key_to_one_folder_of_a_store_is_enough() -> None:
    rows = ["bucket/mine/a.parquet"]
    require_no_table("survey", "bucket/mine", rows, OneFolder(), rows)
    listed = [*rows, "bucket/mine/_delta_log/0.json"]
    with pytest.raises(DataError, match="a Delta table"):
        require_no_table("survey", "bucket/mine", rows, OneFolder(), listed)


def test_check_says_what_to_name_instead(tmp_path: Path) -> None:
    part = _table(tmp_path, "_delta_log/0.json")
    study = tmp_path / "study.yaml"
    study.write_text(json.dumps(study_document(FIELDS)))
    file = part / "part.parquet"
    code, printed, said = run_here(cli, "check", "--data", file, "--study-file", study)
    assert (code, printed) == (13, ""), said
    assert "has files of a Delta table" in said


def test_rows_that_were_removed_are_never_counted(tmp_path: Path) -> None:
    """The tables of the libraries themselves."""
    delta = tmp_path / "delta"
    write_deltalake(str(delta), ROWS, partition_by=["dose"])
    DeltaTable(str(delta)).delete("age = 1")
    catalog = make_iceberg(tmp_path / "iceberg", ROWS.schema)
    catalog.table.append(ROWS)
    catalog.table.delete("age = 1")
    for path in (delta, *delta.glob("dose=*"), *(tmp_path / "iceberg").glob("**/*.parquet")):
        with pytest.raises(DataError, match="rows that were removed"):
            open_table(local_files(path), SCHEMA)
