"""A version of a lake's table as a list of files.

The library of the format only lists the files: they are read like any Parquet files. Each must be
in the table's folder, because the folder is used to detect another data set with the same rows
(`LakeLocation.place`); and each must be listed once.
"""

import os
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from posixpath import normpath
from typing import Any, ClassVar, Final, NamedTuple, Self

import pyarrow as pa

from dppca.common.kernel.errors import DataError
from dppca.common.shell.packages import require_package, show_packages
from dppca.owner.records.files import open_files
from dppca.owner.records.locations import Location, Place, locate
from dppca.owner.records.sources import Source, Wanted
from dppca.owner.records.stored_files import Piece, StoredFile, count_repeats, open_system
from dppca.owner.records.table_columns import TableColumn

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://([^/?]*))?([/?].*|$)", re.DOTALL)
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}
"""Other names of the same stores."""


class Address(NamedTuple):
    """Place of a file or folder; ``scheme`` and ``host`` are empty for this machine."""

    scheme: str
    host: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a path of this machine, or an address, whose escapes are left."""
        found = _URI.fullmatch(text)
        if found is None:
            return cls("", "", str(Path(text).absolute()))
        scheme, host, path = found.groups(default="")
        scheme = scheme.lower()
        if scheme == "file":
            return cls("", "", path)
        return cls(_SCHEMES.get(scheme, scheme), host, "/").at(path)

    def at(self, path: str) -> Self:
        """Another path beside this one; in a store without detours."""
        return self._replace(path="/" + normpath(f"/{path}").lstrip("/") if self.scheme else path)

    @staticmethod
    def is_whole(text: str) -> bool:
        """Return True for an address, which begins with a scheme."""
        return _URI.fullmatch(text) is not None

    def resolve(self) -> str:
        """Path without links and detours, its steps parted by ``/``."""
        return self.path if self.scheme else os.path.realpath(self.path).replace(os.sep, "/")


class ListedFile(NamedTuple):
    """A file of a version, and the columns of the table."""

    address: Address
    columns: tuple[TableColumn, ...]


class ListedVersion(NamedTuple):
    """A version: the names of its columns, and its files."""

    names: tuple[str, ...]
    files: list[ListedFile]


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
    def root(self) -> Address:
        """Address of the table's folder."""
        return Address.parse(self.folder)

    @property
    def place(self) -> Place:
        """Place of the table, independent of its version."""
        return locate(self.folder)

    @abstractmethod
    def list_version(self) -> ListedVersion:
        """Columns and files of the version, from the library."""

    def open(self) -> Source:
        """Open the files of a version, in the order of their names (`Location.open`).

        A version without a file has no rows. Raise `DataError` if it is more than a list of files,
        or if a file is outside its folder, is listed twice, or is gone.
        """
        show_packages()
        require_package(self.package, purpose=self.title)
        with _translated_errors(self):
            names, listed = self.list_version()
            system, store, base = self._find_store()
        _require_in_folder(self, [file.address for file in listed])
        files = [
            StoredFile(f"{base}{path}", self.title, system, store, columns=columns)
            for (_, _, path), columns in listed
        ]
        if not files:
            return NoFiles(title=self.title, names=names, n_rows=0)
        try:
            self._require_once(files)
            return open_files(self.title, sorted(files, key=attrgetter("path")))
        except DataError:
            n_gone = sum(map(_is_gone, files))
            if not n_gone:
                raise
        raise DataError(
            f"{self.title} lists {len(files)} files in this version, and {n_gone} of them are "
            "gone, such as by VACUUM or with expired snapshots: read another version, or restore "
            "the table"
        )

    def _find_store(self) -> tuple[Any, str, str]:
        """The table's file system, its address, and what stands before a path in it.

        None and empty for this machine.
        """
        scheme, host, _ = self.root
        if not scheme:
            return None, "", ""
        _, mark, options = self.address.partition("?")
        store = f"{scheme}://{host}/{mark}{options}"
        system, base = open_system(store)
        return system, store, base

    def _require_once(self, files: Sequence[StoredFile]) -> None:
        n_repeats = count_repeats(self.title, [file.path for file in files], files[0].system)
        if n_repeats:
            raise DataError(
                f"{self.title} lists {n_repeats} files a second time, and their rows would count "
                "twice: write the table again with each file once"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoFiles(Source):
    """A version without a file."""

    mend: ClassVar[str] = "write rows to the table, or name another version"

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:  # noqa: ARG002 - there are none
        """Give no batch (`Rows.read`)."""
        yield from ()

    def pieces(self) -> list[Piece]:
        """Give no piece (`Source.pieces`)."""
        return []


def _require_in_folder(place: LakeLocation, files: Sequence[Address]) -> None:
    """Refuse rows that may be another data set's, which `LakeLocation.place` would not show."""
    root = place.root
    folder = root.resolve().rstrip("/") + "/"
    n_outside = sum(file[:2] != root[:2] or not file.resolve().startswith(folder) for file in files)
    if n_outside:
        raise DataError(
            f"{place.title} lists {n_outside} files that are outside of its folder, such as files "
            "of another table or of a folder that was added to it: copy their rows into the table"
        )


def _is_gone(file: StoredFile) -> bool:
    try:
        file.stamp()
    except FileNotFoundError:
        return True
    except (OSError, pa.ArrowException):  # its store does not answer
        return False
    return False


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
            not isinstance(
                error, OSError | ValueError | KeyError | NotImplementedError | pa.ArrowException
            )
        ):
            raise
        reason = (
            "there is no such table or version, or its store does not answer; check the address, "
            "the version and this machine's credentials"
        )
        if re.search("unsupported|not supported|schema error", str(error), re.IGNORECASE):
            reason = (
                f"it needs what the installed {place.package} does not read, or breaks the rules "
                "of its format: install a newer one, or write the rows to a new table"
            )
    else:
        return
    raise DataError(f"{place.title} cannot be read: {reason}") from None
