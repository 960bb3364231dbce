"""Folders of tables that a list of files does not describe.

A table of a lake keeps files of rows that were removed from it, or rewritten. So its folder, any
part of it, or a pattern of its files is no data set, and the program that wrote the table marks its
folder by names beside the data. Such names are looked for in every folder above a file, up to the
root of the machine or of the store.

Limits: files that were copied from a table, and a table that keeps its metadata elsewhere, bear no
mark. In a store, folders above the given one count as unmarked where this machine may not list
them.
"""

import os
import posixpath
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.fs

from dppca.common.kernel.errors import DataError


class TableMark(NamedTuple):
    """Names that all stand in a table's folder; what it is, and what to read it by."""

    names: tuple[str, ...]
    kind: str
    mend: str


_METADATA: Final = "metadata"
_BY_SPARK: Final = (
    "read it by Spark (source: {spark: {table: ...}}), or export its rows to another folder"
)
_MARKS: Final = (
    TableMark(
        ("_delta_log",), "a Delta table", "name it in policy.yaml by source: {delta: {path: ...}}"
    ),
    TableMark(
        (_METADATA,),
        "an Iceberg table",
        "name it in policy.yaml by source: {iceberg: {path: .../metadata/NAME.metadata.json}}",
    ),
    TableMark(("snapshot", "manifest"), "a Paimon table", _BY_SPARK),
    TableMark((".hoodie",), "a Hudi table", _BY_SPARK),
    TableMark(("_spark_metadata",), "a table that Spark writes from a stream", _BY_SPARK),
)
_NAMES: Final = tuple(name for mark in _MARKS for name in mark.names)
_DUCKLAKE: Final = TableMark(
    ("ducklake-",),
    "a DuckLake table",
    "export its rows to another folder (such as by DuckDB's COPY ... TO)",
)


def require_no_table(
    title: str,
    root: str,
    files: Collection[str],
    system: Any = None,
    listed: Collection[str] = (),
    *,
    has_links: bool = True,
) -> None:
    """Raise `DataError` if files, or the folder that holds them, are of a table.

    Parameters
    ----------
    root
        The file or folder that a data set names.
    files
        Paths of the data set's files.
    system
        A file system of pyarrow; None for this machine.
    listed
        Paths of all files in a folder and below it.
    has_links
        False if none of these, nor a folder in between, is a link.
    """
    places = {*files, f"{root}/"}
    folders = _above(places)
    if system is None and (has_links or os.path.realpath(root) != root):
        folders |= _above(map(os.path.realpath, places))
    mark = next(_find_marks(folders, root, listed, system), None)
    if mark is None:
        ducks = {p for p in (*files, *listed) if f"/{_DUCKLAKE.names[0]}" in p}
        if any(posixpath.basename(path).startswith(_DUCKLAKE.names) for path in ducks) and (
            {*map(posixpath.dirname, ducks)} & {*map(posixpath.dirname, files)}
        ):
            mark = _DUCKLAKE
    if mark is not None:
        raise DataError(
            f"{title} has files of {mark.kind}, whose folder also holds rows that were removed "
            f"from it or written again: {mark.mend}"
        )


def _above(places: Iterable[str]) -> set[str]:
    """All folders above some places."""
    found: set[str] = set()
    for place in places:
        folder = os.path.dirname(place)  # noqa: PTH120 - of any system, or of a store
        while folder not in found:
            found.add(folder)
            folder = os.path.dirname(folder)  # noqa: PTH120
    return found


def _find_marks(
    folders: Collection[str], root: str, listed: Collection[str], system: Any
) -> Iterator[TableMark]:
    inside = _above(listed)
    for folder in sorted(folders):
        asked = [f"{folder}/{name}" for name in _NAMES]
        is_listed = listed and (folder == root or folder.startswith(f"{root}/"))
        found = inside.intersection(asked) if is_listed else _existing(asked, system)
        names = {path.rpartition("/")[2] for path in found}
        if _METADATA in names:
            inner = _list_folder(f"{folder}/{_METADATA}", system)
            if not any(".metadata.json" in name for name in inner):
                names.remove(_METADATA)
        yield from (mark for mark in _MARKS if names.issuperset(mark.names))


def _existing(paths: Sequence[str], system: Any) -> list[str]:
    if system is None:
        return [path for path in paths if os.path.lexists(path)]
    with suppress(OSError, pa.ArrowException):  # a right to one folder is none to those above it
        found = system.get_file_info(paths)
        return [info.path for info in found if info.type is not pa.fs.FileType.NotFound]
    return []


def _list_folder(path: str, system: Any) -> list[str]:
    with suppress(OSError, pa.ArrowException):
        if system is None:
            return os.listdir(path)  # noqa: PTH208 - a path as pyarrow lists it
        return [info.base_name for info in system.get_file_info(pa.fs.FileSelector(path))]
    return []
