"""Files of a data set: one file, all in a folder and below it, or those that match a pattern.

They are on this machine or in an object store that pyarrow reaches, and are ordered by name. Names
that begin with ``_`` or ``.`` are skipped, as by the software that writes such folders, but
everything else must be data: rows of a file that was silently left out would go unnoticed.

Folders below the given one may be named ``COLUMN=VALUE``, as Hive does: each is a column whose
cells are the text after the equals sign.
"""

import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs

from dppca.common.kernel.errors import DataError
from dppca.owner.records.table_columns import TableColumn
from dppca.owner.records.table_folders import require_no_table
from dppca.owner.records.text_format import USUAL, TextFormat
from dppca.owner.records.wild_cards import WILD

_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_OF_A_URI: Final = ":/@%!$&'()+,;=~"  # characters not escaped in one; a % already begins an escape


Cells = tuple[tuple[str, str | None], ...]
"""Names of columns, each with the text of all its cells."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file.

    Attributes
    ----------
    path
        Within its file system.
    title
        Name in messages.
    system
        A file system of pyarrow; None for this machine.
    store
        The address that opens this file system elsewhere; empty for this machine.
    cells
        Columns from its folders' names, each with the text of all its cells.
    columns
        Columns of the lake's table that it belongs to; none if it belongs to none.
    text_format
        How it is written, if it is a text.
    """

    path: str
    title: str
    system: Any = None
    store: str = ""
    cells: Cells = ()
    columns: tuple[TableColumn, ...] = ()
    text_format: TextFormat = USUAL

    def stamp(self) -> tuple[int, int]:
        """Bytes and time of the last change, in ns; they show if the file is still the same."""
        if self.system is None:
            status = os.stat(self.path)  # noqa: PTH116 - a path as pyarrow lists it
            return status.st_size, status.st_mtime_ns
        info = self.system.get_file_info(self.path)
        if info.type is not pa.fs.FileType.File:
            raise FileNotFoundError
        return info.size, info.mtime_ns or 0

    def open_stream(self) -> BinaryIO:
        """Open it to be read from its beginning; text of a ``.gz`` file is unpacked."""
        unpack = self.path.lower().endswith(".gz")
        if self.system is None:
            path = Path(self.path)
            return cast("BinaryIO", gzip.open(path, "rb")) if unpack else path.open("rb")
        stream = self.system.open_input_stream(self.path, compression=None)
        return cast("BinaryIO", gzip.GzipFile(fileobj=stream, mode="rb") if unpack else stream)

    def open_file(self, *, mapped: bool = False) -> Any:
        """Open it for random access by a reader of pyarrow."""
        if self.system is not None:
            return self.system.open_input_file(self.path)
        return pa.memory_map(self.path) if mapped else pa.OSFile(self.path)


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or some of its rows, for other machines to read.

    ``path``, which is absolute, ``store``, ``cells``, ``columns`` and ``text_format`` are as in
    `StoredFile`. ``groups`` are numbers of the row groups, None for a file that is read whole;
    ``n_rows`` are rows of the piece; ``n_bytes`` is its size before compression, used only to cut
    parts; ``size`` and ``changed_ns`` are the file's bytes and the time of its last change.
    """

    path: str
    store: str
    cells: Cells
    columns: tuple[TableColumn, ...]
    text_format: TextFormat
    groups: tuple[int, ...] | None
    n_rows: int
    n_bytes: int
    size: int
    changed_ns: int

    def find(self, title: str) -> StoredFile:
        """The file, as another machine reaches it."""
        system = open_system(self.store)[0] if self.store else None
        cells, columns = self.cells, self.columns
        return StoredFile(self.path, title, system, self.store, cells, columns, self.text_format)


def find_files(address: str, title: str, suffixes: tuple[str, ...]) -> list[StoredFile]:
    """Files of an address, in the order of their names.

    ``address`` is a path of this machine, or a URI without credentials; ``title`` is its name in
    messages; ``suffixes`` are those of data files. Raise `DataError` if there is no file, one is of
    no known format, or the store cannot be reached.
    """
    with translated_errors(title):
        if "://" not in address and Path(address).is_file():
            whole = os.path.abspath(address)  # noqa: PTH100 - links stay as they are
            require_no_table(title, whole, [whole])
            return [StoredFile(address, title)]
        stem, pattern = _split(address)
        system, root = open_system(stem)
        kind = system.get_file_info(root).type
        stored, store = (system, stem) if "://" in address else (None, "")
        if kind is pa.fs.FileType.File and not pattern:
            require_no_table(title, root, [root], stored)
            return [StoredFile(root, title, stored, store)]
        if kind is pa.fs.FileType.NotFound:
            raise FileNotFoundError
        listed = [
            (each.path[len(root) :].strip("/").split("/"), each.path, each.type)
            for each in system.get_file_info(pa.fs.FileSelector(root, recursive=True))
            if each.type is not pa.fs.FileType.Directory
        ]
        links = [each for each in Path(root).rglob("*") if each.is_symlink()] if not store else []
        listed += _links_to_nowhere(Path(root), links)
    chosen = sorted(
        (names, path, kind)
        for names, path, kind in listed
        if not any(map(_is_hidden, names)) and (not pattern or _matches(names, pattern))
    )
    paths = [(names, path) for names, path, _ in chosen]
    found = [path for _, path in paths]
    inside = [path for _, path, _ in listed]
    require_no_table(title, root, found, stored, inside, has_links=bool(links))
    _require_data(title, found, suffixes)
    if stored is None:
        _require_once(title, {path: kind for _, path, kind in chosen})
    return [StoredFile(path, title, stored, store, tuple(_partition(n))) for n, path in paths]


def count_repeats(title: str, paths: Sequence[str], system: Any = None) -> int:
    """Number of paths that lead to the same file as an earlier path.

    On this machine (``system`` None) files are compared by inode: links and linked folders give one
    file many names. In a store the paths are compared. Raise `DataError` if a file is missing.
    """
    if system is not None:
        return len(paths) - len({*paths})
    with translated_errors(title):
        files = {(status.st_dev, status.st_ino) for status in map(os.stat, paths)}
    return len(paths) - len(files)


@contextmanager
def _telling(
    title: str, kinds: tuple[type[Exception], ...], say: Callable[[Exception], str]
) -> Iterator[None]:
    """Translate errors into a `DataError`; their own messages may quote a row or an address."""
    try:
        yield
    except FileNotFoundError:
        message = f"the data file {title} does not exist: correct its path"
    except PermissionError:
        message = f"the data file {title} may not be read: ask for read permission on it"
    except kinds as error:
        message = say(error)
    else:
        return
    raise DataError(message) from None


def translated_errors(title: str) -> AbstractContextManager[None]:
    """Translate a file system's errors into a `DataError`."""

    def say(error: Exception) -> str:
        denied = any(word in str(error) for word in ("ACCESS_DENIED", "403", "Forbidden"))
        reason = (
            "the store refuses it: check this machine's credentials and their rights"
            if denied
            else "the store does not answer, or its address is wrong: check both"
        )
        return f"{title} cannot be reached: {reason}"

    return _telling(title, (pa.ArrowException, OSError), say)


def reading(title: str) -> AbstractContextManager[None]:
    """Translate the errors of a format's reader into a `DataError`."""

    def say(error: Exception) -> str:
        reason = "is damaged or not what its name says: copy or export it again, then run check"
        if isinstance(error, pa.ArrowNotImplementedError):
            reason = (
                "is damaged, or has a type or a compression that pyarrow does not know, such as "
                "whole numbers of 128 bits: export it again without"
            )
        return f"the data file {title} {reason}"

    kinds = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, zlib.error)
    return _telling(title, kinds, say)


def open_system(stem: str) -> tuple[Any, str]:
    """File system of an address, by pyarrow, and the path in it."""
    if "://" in stem:
        system, root = pa.fs.FileSystem.from_uri(stem)
        return system, root.rstrip("/")
    return pa.fs.LocalFileSystem(), os.path.abspath(stem)  # noqa: PTH100 - links stay as they are


def _split(address: str) -> tuple[str, list[str]]:
    """An address up to its first name with a wild card, and the names from there on."""
    scheme, mark, rest = address.rpartition("://")
    start = rest.find("?") if mark else -1
    path, query = (rest, "") if start < 0 else (rest[:start], rest[start:])
    names = path.split("/")
    first = next((i for i, name in enumerate(names) if WILD & {*name}), len(names))
    stem = scheme + mark + ("/".join(names[:first]) or ("" if mark else "/"))
    if not mark:
        return stem, names[first:]
    return quote(stem, _OF_A_URI) + query, [unquote(name) for name in names[first:]]


def _matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """True if a path matches a pattern name by name; ``**`` is any number of folders."""
    if not pattern:
        return not names
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(names)
        return any(_matches(names[skipped:], pattern[1:]) for skipped in range(len(names)))
    return bool(names and fnmatchcase(names[0], pattern[0]) and _matches(names[1:], pattern[1:]))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _require_data(title: str, found: list[str], suffixes: tuple[str, ...]) -> None:
    if not found:
        raise DataError(
            f"{title} holds no data file: name a file, a folder of files, or a pattern of files "
            f"({' '.join(suffixes)})"
        )
    unknown = sum(not path.lower().endswith(suffixes) for path in found)
    if unknown:
        raise DataError(
            f"{title} holds {unknown} files whose format is not known by their suffix, of "
            f"{len(found)}: remove them, or name the data files by a pattern such as "
            "FOLDER/*.parquet"
        )


def _links_to_nowhere(
    root: Path, links: Sequence[Path]
) -> list[tuple[list[str], str, pa.fs.FileType]]:
    """Broken links, which pyarrow does not list: their rows would be missed."""
    return [
        ([*each.relative_to(root).parts], str(each), pa.fs.FileType.NotFound)
        for each in links
        if not each.exists()
    ]


def _require_once(title: str, kinds: Mapping[str, pa.fs.FileType]) -> None:
    """Refuse names that are no file, and a file that occurs twice: its rows would count twice."""
    odd = sum(kind is not pa.fs.FileType.File for kind in kinds.values())
    if odd:
        raise DataError(
            f"{title} holds {odd} names that lead to no file, such as links to what is gone: "
            "remove them"
        )
    n_repeats = count_repeats(title, [*kinds])
    if n_repeats:
        raise DataError(
            f"{title} holds {n_repeats} links to files that it holds already, and their rows would "
            "count twice: remove the links, or name the files by a pattern"
        )


def _partition(names: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    for name in names[:-1]:
        column, equals, text = name.partition("=")
        if equals and column:
            yield unquote(column).strip(), None if text == _HIVE_NULL else unquote(text)
