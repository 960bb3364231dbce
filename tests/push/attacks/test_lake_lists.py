"""A table of a lake lists files that are not its own, or one file several times.

Both are ordinary tables to the libraries. Read as listed, rows of one budget would be released
under another, or a person would have more rows than `max_rows_per_person` says.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dppca.common.kernel.errors import DataError
from dppca.owner.records.lake_files import LakeLocation
from dppca.owner.records.lakes import DeltaLocation, IcebergLocation
from dppca.owner.records.table import open_table
from tests.support.delta import PART, make_delta
from tests.support.iceberg import make_iceberg
from tests.support.object_store import object_store, upload
from tests.support.studies import make_schema, numeric_of

SCHEMA = make_schema([numeric_of(name, 0, 100) for name in ("age", "bmi")])
ROWS = pa.table({"age": [1.0, 2.0, 3.0], "bmi": [20.0, 30.0, 40.0]})
FOREIGN = "outside of its folder"
TWICE = "a second time"


def _delta(folder: Path, *paths: str) -> LakeLocation:
    """A table whose log lists these paths; its own folder has one file, of three rows."""
    files = [{"path": path} for path in paths]
    return DeltaLocation("survey (lake)", make_delta(folder, ROWS, *files))


def _iceberg(folder: Path, *files: Path) -> LakeLocation:
    """A table of files that were there before it."""
    catalog = make_iceberg(folder, ROWS.schema)
    for file in files:
        catalog.table.add_files([file.as_uri()], check_duplicate_files=False)
    return _newest(folder)


def _newest(folder: Path) -> LakeLocation:
    address = max((folder / "metadata").glob("*.metadata.json"))
    return IcebergLocation("survey (lake)", str(address))


def _foreign(folder: Path) -> Path:
    """A file of another data set."""
    path = folder / "other" / PART
    path.parent.mkdir()
    pq.write_table(ROWS, path)
    return path


def _linked(folder: Path) -> LakeLocation:
    table = _delta(folder / "table", "years/part.parquet")
    (folder / "table" / "years").symlink_to(_foreign(folder).parent)
    return table


def _linked_file(folder: Path) -> LakeLocation:
    table = _delta(folder / "table", "link.parquet")
    (folder / "table" / "link.parquet").symlink_to(_foreign(folder))
    return table


def _listed(path: str) -> Callable[[Path], LakeLocation]:
    def make(folder: Path) -> LakeLocation:
        _foreign(folder)
        return _delta(folder / "table", PART, path)

    return make


def _added(folder: Path) -> LakeLocation:
    return _iceberg(folder / "table", _foreign(folder))


def _below_another_metadata(folder: Path) -> LakeLocation:
    _foreign(folder)
    return _iceberg(folder / "metadata" / "table", folder / "other" / PART)


def _copied(folder: Path) -> LakeLocation:
    catalog = make_iceberg(folder / "first", ROWS.schema)
    catalog.table.append(ROWS)
    shutil.copytree(folder / "first", folder / "table")
    return _newest(folder / "table")


@pytest.mark.parametrize(
    "make",
    [
        _listed("../other/part.parquet"),
        _listed("%2e%2e/other/part.parquet"),
        _listed("_delta_log/../../table/../other/part.parquet"),
        _listed("file:/other/part.parquet"),
        _linked,
        _linked_file,
        _added,
        _below_another_metadata,
        _copied,
    ],
    ids=[
        "above",
        "escaped",
        "detour",
        "whole",
        "linked folder",
        "linked file",
        "added",
        "metadata",
        "copied",
    ],
)
def test_files_of_another_data_set_are_refused(
    tmp_path: Path, make: Callable[[Path], LakeLocation]
) -> None:
    with pytest.raises(DataError, match=FOREIGN):
        open_table(make(tmp_path), SCHEMA)


def _hard_linked(folder: Path) -> LakeLocation:
    table = _delta(folder / "table", PART, "hard.parquet")
    os.link(folder / "table" / PART, folder / "table" / "hard.parquet")
    return table


def _added_twice(folder: Path) -> LakeLocation:
    path = folder / "table" / "data" / PART
    path.parent.mkdir(parents=True)
    pq.write_table(ROWS, path)
    return _iceberg(folder / "table", path, path)


@pytest.mark.parametrize(
    "make",
    [
        _listed(f"./{PART}"),
        _listed(f"_delta_log/../{PART}"),
        _listed("../table/part.parquet"),
        _hard_linked,
        _added_twice,
    ],
    ids=["here", "down and up", "up and down", "hard link", "added twice"],
)
def test_a_file_that_is_listed_twice_is_refused(
    tmp_path: Path, make: Callable[[Path], LakeLocation]
) -> None:
    with pytest.raises(DataError, match=TWICE):
        open_table(make(tmp_path), SCHEMA)


@pytest.mark.parametrize(
    ("path", "message"), [("../other/part.parquet", FOREIGN), (f"./{PART}", TWICE)]
)
def test_an_object_store_is_no_way_around(tmp_path: Path, path: str, message: str) -> None:
    _listed(path)(tmp_path)
    with pytest.MonkeyPatch.context() as patch, object_store(patch) as system:
        patch.setenv("AWS_ALLOW_HTTP", "true")
        address = upload(system, tmp_path, below="lake")
        with pytest.raises(DataError, match=message):
            open_table(DeltaLocation("survey (lake)", f"{address}/table"), SCHEMA)


def test_files_of_the_table_are_read_by_any_of_its_names(tmp_path: Path) -> None:
    _delta(tmp_path / "table", f"_delta_log/../{PART}")
    _delta(tmp_path / "whole", (tmp_path / "whole" / PART).as_uri().replace("///", "/"))
    (tmp_path / "link").symlink_to(tmp_path / "table")
    for name in ("table", "link", "table/../link", "whole"):
        place = DeltaLocation("survey (lake)", str(tmp_path / name))
        assert open_table(place, SCHEMA).n_rows == 3
    inside = tmp_path / "ice" / "data" / PART
    inside.parent.mkdir(parents=True)
    pq.write_table(ROWS, inside)
    assert open_table(_iceberg(tmp_path / "ice", inside), SCHEMA).n_rows == 3
