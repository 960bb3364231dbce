"""Files of one version of a Delta or Iceberg table, by the library of its format.

The library only lists the files of a version: they are read like any Parquet files. Each must be in
the table's folder, because the folder is used to detect another data set with the same rows
(`LakeLocation.place`); and each must be listed once. A column that a file does not have yet is
missing in it, or has the value of its partition. A table that needs more than a list of files is
refused: rows that are marked as deleted inside a file, and columns that were renamed.
"""

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path, PurePath
from posixpath import normpath
from typing import Any, ClassVar, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from dppca.common.errors import DataError
from dppca.common.shell.packages import require_package
from dppca.owner.records.files import open_files
from dppca.owner.records.locations import Location, Place, locate
from dppca.owner.records.sources import Source
from dppca.owner.records.stored_files import StoredFile, count_repeats, open_system

_DELTA_FEATURES: Final = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Reader features of a table that is still no more than a list of files."""


@dataclass(frozen=True, slots=True)
class LakeLocation(Location):
    """A version of a table; ``package`` is the library of its format.

    ``address`` is the table's folder, or Iceberg's metadata file. ``version`` is the version of
    Delta, or the snapshot of Iceberg; None for the newest.
    """

    address: str
    version: int | None = None
    package: ClassVar[str]

    @property
    def folder(self) -> str:
        """The table's folder."""
        return self.address

    @property
    def place(self) -> Place:
        """Place of the table, independent of its version."""
        return locate(self.folder)

    @abstractmethod
    def list_files(self) -> list[StoredFile]:
        """Files of the version, from the library."""

    def open(self) -> Source:
        """Open the files of a version, in the order of their names (`Location.open`).

        Raise `DataError` if it is more than a list of files, or if a file is outside its folder or
        is listed twice.
        """
        require_package(self.package, purpose=self.title)
        with _translated_errors(self):
            files = self.list_files()
            system, _, root = _find_store(self.folder)
        _require_in_folder(self, files, system, root)
        n_repeats = count_repeats(self.title, [file.path for file in files], system)
        if n_repeats:
            raise DataError(
                f"{self.title} lists {n_repeats} files a second time, and their rows would count "
                "twice: write the table again with each file once"
            )
        if not files:
            raise DataError(f"{self.title} has no rows in this version")
        return open_files(self.title, sorted(files, key=attrgetter("path")))


@dataclass(frozen=True, slots=True)
class DeltaLocation(LakeLocation):
    """A version of a Delta table."""

    package: ClassVar[str] = "deltalake"

    def list_files(self) -> list[StoredFile]:
        """Files of the version, from its add actions."""
        from deltalake import DeltaTable

        table = DeltaTable(self.address, version=self.version)
        protocol, settings = table.protocol(), table.metadata().configuration
        features = {*(protocol.reader_features or ())} - _DELTA_FEATURES
        if features or settings.get("delta.columnMapping.mode", "none") != "none":
            raise DataError(
                f"{self.title} uses deletion vectors, column mapping or another feature that is "
                "more than a list of files: rewrite it without (such as by REORG TABLE ... APPLY "
                "(PURGE))"
            )
        columns: dict[str, str | None] = {field.name: None for field in table.schema().fields}
        partitions = table.metadata().partition_columns
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        system, store, root = _find_store(self.address)
        files = []
        for action in actions:
            path = unquote(action["path"])
            if "://" in path or path.startswith("/"):
                raise DataError(f"{self.title} has files of another table: rewrite it as one table")
            values = {name: _text(action[f"partition.{name}"]) for name in partitions}
            filled = tuple({**columns, **values}.items())
            path = f"{root}/{path}" if system is None else normpath(f"{root}/{path}")
            files.append(StoredFile(path, self.title, system, store, filled=filled))
        return files


@dataclass(frozen=True, slots=True)
class IcebergLocation(LakeLocation):
    """A snapshot of an Iceberg table."""

    package: ClassVar[str] = "pyiceberg"

    @property
    def folder(self) -> str:
        """Folder that holds ``metadata``."""
        return self.address.split("/metadata/")[0]

    def list_files(self) -> list[StoredFile]:
        """Files of the snapshot, from its scan plan."""
        from pyiceberg.table import StaticTable
        from pyiceberg.transforms import IdentityTransform

        table = StaticTable.from_metadata(self.address)
        if self.version is not None and table.snapshot_by_id(self.version) is None:
            raise DataError(f"{self.title} has no version {self.version}")
        _require_same_names(self, table.metadata.schemas)
        names = {f.field_id: f.name for schema in table.metadata.schemas for f in schema.fields}
        columns: dict[str, str | None] = dict.fromkeys(names.values())
        files = []
        for task in table.scan(snapshot_id=self.version).plan_files():
            if task.delete_files:
                raise DataError(
                    f"{self.title} has rows marked as deleted beside its files: compact it first "
                    "(such as by rewrite_data_files)"
                )
            spec = table.specs()[task.file.spec_id]
            values = {
                names[part.source_id]: _text(task.file.partition[place_of])
                for place_of, part in enumerate(spec.fields)
                if isinstance(part.transform, IdentityTransform)
            }
            system, store, path = _find_store(task.file.file_path)
            filled = tuple({**columns, **values}.items())
            files.append(StoredFile(path, self.title, system, store, filled=filled))
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
    place: LakeLocation, files: Sequence[StoredFile], root_system: Any, root: str
) -> None:
    """Refuse rows that may be another data set's, which `LakeLocation.place` would not show."""

    def resolved(path: str) -> PurePath:
        return PurePath(os.path.realpath(path) if root_system is None else path)

    folder = resolved(root)
    n_outside = sum(
        file.system != root_system or folder not in resolved(file.path).parents for file in files
    )
    if n_outside:
        raise DataError(
            f"{place.title} lists {n_outside} files that are outside of its folder, such as files "
            "of another table or of a folder that was added to it: copy their rows into the table"
        )


def _find_store(address: str) -> tuple[Any, str, str]:
    """File system of an address, its store and the path; None and empty for this machine."""
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
def _translated_errors(place: LakeLocation) -> Iterator[None]:
    """Translate the libraries' errors into a `DataError`; their messages quote addresses."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        # Each library has its own error classes, and lets others through.
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
