"""Files of one version of a Delta or Iceberg table, by the library of its format.

The library says which files a version is made of, and nothing more: they are read as any Parquet
files are. Each has to lie in the table's folder, because the folder is what tells that another data
set has the same rows (`LakeLocation.marks`); and each is listed once. A column that a file does not
have yet is missing in it, or has the value of its partition. What would need more than a list of
files is refused: rows that are marked as deleted inside of a file, and columns that were renamed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from posixpath import normpath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from dppca.common.errors import DataError
from dppca.common.packages import require_package
from dppca.owner.records.locations import LakeLocation
from dppca.owner.records.stored_files import StoredFile, count_repeats, open_system

_DELTA_FEATURES: Final = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""What a table may ask of its readers and a list of files still is."""


def list_lake_files(place: LakeLocation) -> list[StoredFile]:
    """The files of a version, in the order of their names.

    Raises
    ------
    DataError
        There is no such table or version, it is more than a list of files, or a file of it lies
        outside of its folder or is listed twice.
    SettingError
        The library is not installed.
    """
    require_package("deltalake" if place.kind == "delta" else "pyiceberg", purpose=place.title)
    with _asking(place):
        files = _delta_files(place) if place.kind == "delta" else _iceberg_files(place)
        system, _, root = _find_store(place.folder)
    _require_in_folder(place, files, system, root)
    n_repeats = count_repeats(place.title, [path for path, _, _, _ in files], system)
    if n_repeats:
        raise DataError(
            f"{place.title} lists {n_repeats} files a second time, so their rows would count "
            "twice: write the table again with each file once"
        )
    if not files:
        raise DataError(f"{place.title} has no rows in this version")
    many = len(files) > 1
    return [
        StoredFile(
            path,
            f"{place.title}, file {number} of {len(files)}" if many else place.title,
            system,
            store,
            filled=filled,
        )
        for number, (path, system, store, filled) in enumerate(sorted(files, key=_by_name), start=1)
    ]


_Found = tuple[str, Any, str, tuple[tuple[str, str | None], ...]]
"""Path, file system and its address (of this machine none), and columns that the file may lack."""


def _by_name(found: _Found) -> str:
    return found[0]


def _delta_files(place: LakeLocation) -> list[_Found]:
    from deltalake import DeltaTable

    table = DeltaTable(place.address, version=place.version)
    protocol, settings = table.protocol(), table.metadata().configuration
    features = {*(protocol.reader_features or ())} - _DELTA_FEATURES
    if features or settings.get("delta.columnMapping.mode", "none") != "none":
        raise DataError(
            f"{place.title} uses deletion vectors, column mapping or another feature that is more "
            "than a list of files: rewrite it without (such as by REORG TABLE ... APPLY (PURGE))"
        )
    columns: dict[str, str | None] = {field.name: None for field in table.schema().fields}
    partitions = table.metadata().partition_columns
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    system, store, root = _find_store(place.address)
    files = []
    for action in actions:
        path = unquote(action["path"])
        if "://" in path or path.startswith("/"):
            raise DataError(f"{place.title} has files of another table: rewrite it as one table")
        values = {name: _text(action[f"partition.{name}"]) for name in partitions}
        filled = tuple({**columns, **values}.items())
        path = f"{root}/{path}" if system is None else normpath(f"{root}/{path}")
        files.append((path, system, store, filled))
    return files


def _iceberg_files(place: LakeLocation) -> list[_Found]:
    from pyiceberg.table import StaticTable
    from pyiceberg.transforms import IdentityTransform

    table = StaticTable.from_metadata(place.address)
    if place.version is not None and table.snapshot_by_id(place.version) is None:
        raise DataError(f"{place.title} has no version {place.version}")
    _require_same_names(place, table.metadata.schemas)
    names = {f.field_id: f.name for schema in table.metadata.schemas for f in schema.fields}
    columns: dict[str, str | None] = dict.fromkeys(names.values())
    files = []
    for task in table.scan(snapshot_id=place.version).plan_files():
        if task.delete_files:
            raise DataError(
                f"{place.title} has rows marked as deleted beside its files: compact it first "
                "(such as by rewrite_data_files)"
            )
        spec = table.specs()[task.file.spec_id]
        values = {
            names[part.source_id]: _text(task.file.partition[place_of])
            for place_of, part in enumerate(spec.fields)
            if isinstance(part.transform, IdentityTransform)
        }
        system, store, path = _find_store(task.file.file_path)
        files.append((path, system, store, tuple({**columns, **values}.items())))
    return files


def _require_same_names(place: LakeLocation, schemas: Sequence[Any]) -> None:
    """Refuse a table in which a name has ever meant another column."""
    pairs = {(field.field_id, field.name) for schema in schemas for field in schema.fields}
    if len({number for number, _ in pairs}) < len(pairs) or (
        len({name for _, name in pairs}) < len(pairs)
    ):
        raise DataError(
            f"{place.title} has columns that were renamed, or dropped and made again: rewrite it "
            "as a new table"
        )


def _require_in_folder(
    place: LakeLocation, files: Sequence[_Found], root_system: Any, root: str
) -> None:
    """Refuse rows that may be another data set's, which `LakeLocation.marks` would not show."""

    def resolved(path: str) -> PurePath:
        return PurePath(os.path.realpath(path) if root_system is None else path)

    folder = resolved(root)
    n_outside = sum(
        system != root_system or folder not in resolved(path).parents
        for path, system, _, _ in files
    )
    if n_outside:
        raise DataError(
            f"{place.title} lists {n_outside} files that are outside of its folder, such as files "
            "of another table or of a folder that was added to it: copy their rows into the table"
        )


def _find_store(address: str) -> tuple[Any, str, str]:
    """The file system of an address and what opens it (None, empty: this machine), and the path."""
    if "://" not in address:
        return None, "", str(Path(address).absolute())
    if urlsplit(address).scheme == "file":
        return None, "", unquote(urlsplit(address).path)
    system, path = open_system(address)
    return system, address, normpath(path)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _asking(place: LakeLocation) -> Iterator[None]:
    """Turn what the libraries raise into a `DataError`; their messages quote addresses."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        # Each library has a tree of errors of its own, and lets others through.
        if not type(error).__module__.startswith(("deltalake", "_internal", "pyiceberg")) and (
            not isinstance(error, OSError | ValueError | KeyError | pa.ArrowException)
        ):
            raise
    else:
        return
    raise DataError(
        f"{place.title} cannot be read: there is no such table or version, or its store does not "
        "answer; check the address, the version and this machine's credentials"
    ) from None
