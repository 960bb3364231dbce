"""Where a data set's rows lie, as a policy names it. Nothing is opened here.

A location has a *title*, which is all that messages say of it: a path of this machine as it is
written, and for everything else the data set's name, since an address may say more than a reader
of logs should know. Credentials are never part of an address: object stores take them from the
environment or the machine's role.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from posixpath import normpath
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from dppca.common.errors import DataError, SettingError
from dppca.common.files import HAS_MODES
from dppca.owner.records.queries import require_one_statement, table_query
from dppca.owner.records.stored_files import WILD, find_files

_OPTIONS: Final = {
    "s3": {"region", "scheme", "endpoint_override"},
    "gs": {"scheme", "endpoint_override", "project_id", "retry_limit_seconds"},
    "abfs": {"enable_tls"},
    "abfss": {"enable_tls"},
    "hdfs": {"user"},
}
"""Schemes of object stores, and what may stand after the ``?`` of an address: no credentials."""
_AZURE: Final = ".core.windows.net"

Steps = tuple[str, ...]
"""An address of a store, from the outside in."""


@dataclass(frozen=True, slots=True)
class FileLocation:
    """One file, a folder of them, or those that a pattern names.

    Attributes
    ----------
    address
        A path of this machine, or the URI of an object store.
    """

    address: str
    title: str

    @property
    def is_remote(self) -> bool:
        """Whether it is the address of an object store."""
        return "://" in self.address

    def marks(self) -> Iterator[object]:
        """What tells it from others: two locations with one mark have rows in common.

        Its path without links and detours, and the inodes of its files.
        """
        if self.is_remote:
            yield _steps(self.address)
            return
        yield os.path.realpath(self.address)
        try:
            files = find_files(self.address, self.title)
        except DataError:
            return  # not there, or not to be seen: nothing can be released from it now
        yield from _marks_of_files(file.path for file in files)

    def inside(self) -> Iterator[object]:
        """Marks of what holds it, such as the folders above a file."""
        if self.is_remote:
            steps = _steps(self.address)
            yield from (steps[:end] for end in range(2, len(steps)))


@dataclass(frozen=True, slots=True)
class Secret:
    """Where something is kept that may hold a password: an environment variable, or a file."""

    variable: str = ""
    path: Path | None = None

    def read(self, what: str) -> str:
        """What is kept; `SettingError` where it is not there, or others may read the file.

        Parameters
        ----------
        what
            Its name in a message, such as "the address of survey".
        """
        if self.path is None:
            text = os.environ.get(self.variable, "")
            where = f"the environment variable {self.variable}"
        else:
            where = f"the file {self.path}"
            if not HAS_MODES:
                raise SettingError(
                    f"{where}, with {what}, cannot be shown to be yours alone on "
                    "this system: keep it in an environment variable ({env: NAME})"
                )
            try:
                if self.path.stat().st_mode & 0o077:
                    raise SettingError(
                        f"{where}, with {what}, may be read by others: make it "
                        "yours alone (chmod 600), and change the password"
                    )
                text = self.path.read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError):
                text = ""
        if not text.strip():
            raise SettingError(f"{where}, with {what}, is not there or is empty")
        return text.strip()


@dataclass(frozen=True, slots=True)
class DatabaseLocation:
    """A table or a query of a database.

    Attributes
    ----------
    driver
        One of the drivers of `dppca.owner.records.databases`.
    service, database, secret
        How it is reached, one of them: a service of libpq, a file, or where the address is kept.
    table, query
        What is read, one of them: a name, or the file of a query.
    """

    driver: str
    title: str
    service: str = ""
    database: Path | None = None
    secret: Secret | None = None
    table: str = ""
    query: Path | None = None

    def address(self) -> str:
        """What the driver takes; it may hold a password."""
        if self.database is not None:
            if not self.database.is_file():
                raise DataError(f"there is no database file for {self.title}: correct its path")
            return f"{self.database.absolute().as_uri()}?mode=ro"
        if self.secret is not None:
            return self.secret.read(f"the address of {self.title}")
        return f"postgresql:///?service={quote(self.service, safe='')}"

    def read_query(self) -> tuple[str, str]:
        """The query, and the SHA-256 of its file or of the table's name, in hexadecimal.

        Raises
        ------
        SettingError
            The file cannot be read, or is not one statement.
        """
        if self.query is None:
            return table_query(self.table), hashlib.sha256(self.table.encode()).hexdigest()
        try:
            content = self.query.read_bytes()
            text = content.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"the query {self.query} of {self.title} cannot be read") from error
        try:
            return require_one_statement(text), hashlib.sha256(content).hexdigest()
        except SettingError as error:
            raise SettingError(f"{self.query}: {error}") from None

    def marks(self) -> Iterator[object]:
        """As `FileLocation.marks`: the database, whatever is read of it.

        Each query of one database may be of the same people.
        """
        if self.database is not None:
            yield from local_files(self.database).marks()
        elif self.secret is None:
            yield "service", self.service
        elif self.secret.path is not None:
            yield from local_files(self.secret.path).marks()
        else:
            yield "variable", self.secret.variable

    def inside(self) -> Iterator[object]:
        """As `FileLocation.inside`."""
        yield from ()


@dataclass(frozen=True, slots=True)
class LakeLocation:
    """A version of a Delta or Iceberg table.

    Attributes
    ----------
    kind
        ``delta`` or ``iceberg``.
    address
        The table's folder; of Iceberg, its metadata file.
    version
        Of Delta, or the snapshot of Iceberg; None for the newest.
    """

    kind: str
    address: str
    version: int | None
    title: str

    @property
    def folder(self) -> str:
        """The table's folder."""
        return self.address.split("/metadata/")[0] if self.kind == "iceberg" else self.address

    def marks(self) -> Iterator[object]:
        """As `FileLocation.marks`: the table and its files, whatever its version."""
        if "://" in self.folder:
            yield _steps(self.folder)
            return
        yield os.path.realpath(self.folder)
        # All that are there, since a version's own are not known before it is read.
        files = (each for each in Path(self.folder).rglob("*") if each.is_file())
        yield from _marks_of_files(map(str, files))

    def inside(self) -> Iterator[object]:
        """As `FileLocation.inside`."""
        yield from FileLocation(self.address, self.title).inside()


@dataclass(frozen=True, slots=True)
class SparkLocation:
    """A table or view of Spark's catalogue.

    Attributes
    ----------
    table
        Catalogue, schema and name.
    version
        Of Delta, or the snapshot of Iceberg; None for the newest.
    """

    table: tuple[str, str, str]
    version: int | None
    title: str

    @property
    def quoted(self) -> str:
        """Its name in a statement."""
        return ".".join(f"`{part}`" for part in self.table)

    def marks(self) -> Iterator[object]:
        """As `FileLocation.marks`: the table, whatever its version."""
        yield "spark", *(part.casefold() for part in self.table)

    def inside(self) -> Iterator[object]:
        """As `FileLocation.inside`."""
        yield from ()


Location = FileLocation | DatabaseLocation | LakeLocation | SparkLocation
"""A place that rows can be read from."""


@dataclass(frozen=True, slots=True)
class Places:
    """How a ledger knows where rows lie: SHA-256, hexadecimal, of addresses.

    Attributes
    ----------
    address
        The location's own.
    within
        That and its files'.
    folders
        Digests of all folders that hold them.
    """

    address: str
    within: frozenset[str]
    folders: frozenset[str]


def digest_places(location: Location, *, folder: Path) -> Places:
    """The places of a location; a path below the site's ``folder`` counts from there.

    So a site may be moved as a whole.
    """
    root = Path(os.path.realpath(folder)).parts
    places = [place for mark in location.marks() if (place := _place(mark, root))]
    above = {place[:end] for place in places for end in range(1, len(place))}
    return Places(
        _digest(places[0]), frozenset(map(_digest, places)), frozenset(map(_digest, above))
    )


def patterns_meet(one: Location, other: Location) -> bool:
    """Whether two addresses of a store, of which one is a pattern, may name one file.

    Patterns of this machine are told by the files that they name (`FileLocation.marks`).
    """
    first, second = _steps_of_store(one), _steps_of_store(other)
    # What is no pattern may be a folder, with all that is below.
    is_folder, other_is_folder = (
        not any(WILD & {*name} for name in steps) for steps in (first, second)
    )
    if not (first and second) or (is_folder and other_is_folder):
        return False

    def meet(steps: Steps, others: Steps) -> bool:
        if {*steps, *others} <= {"**"}:
            return True
        if not (steps and others):
            return other_is_folder if steps else is_folder
        if "**" in (steps[0], others[0]):
            return meet(steps[1:], others) or meet(steps, others[1:])
        return _names_meet(steps[0], others[0]) and meet(steps[1:], others[1:])

    return meet(first, second)


def local_files(path: Path) -> FileLocation:
    """The location of a path of this machine."""
    return FileLocation(str(path), str(path))


def locate_files(text: str, *, folder: Path, data_set: str) -> FileLocation:
    """The location that a policy names: a path from the site's folder on, or a URI.

    Raises
    ------
    SettingError
        The address is of no known store, or holds more than where its files are. What it holds is
        not repeated: it may be a credential.
    """
    if "://" not in text:
        return local_files(folder / text)
    scheme = text.partition("://")[0]
    if scheme not in _OPTIONS:
        raise SettingError(
            f"the address of data set {data_set} is of no known store: begin it with one of "
            f"{', '.join(f'{each}://' for each in _OPTIONS)}, or give a path"
        )
    try:
        parts = urlsplit(text)
        given = parse_qsl(parts.query, keep_blank_values=True)
        options = {name if "@" not in value else "" for name, value in given}
        user, at, _ = parts.netloc.rpartition("@")
    except ValueError as error:
        raise SettingError(f"the address of data set {data_set} is not a URI") from error
    # Of Azure's addresses, and of no other, what stands before the @ is the container's name.
    named = at and (":" in user or not scheme.startswith("abfs"))
    if named or parts.fragment or not options <= _OPTIONS[scheme]:
        raise SettingError(
            f"the address of data set {data_set} may hold no user, password, key or token, and "
            f"after a ? only {', '.join(sorted(_OPTIONS[scheme]))}: give credentials by the "
            "environment or by the machine's role"
        )
    return FileLocation(text, f"{data_set} (object store)")


def _place(mark: object, root: tuple[str, ...]) -> tuple[str, ...]:
    """A mark as steps from the outside in; empty for an inode, which may be used again."""
    if isinstance(mark, str):
        parts = Path(mark).parts
        return (".", *parts[len(root) :]) if parts[: len(root)] == root else parts
    if isinstance(mark, tuple) and all(isinstance(step, str) for step in mark):
        return mark
    return ()


def _digest(place: tuple[str, ...]) -> str:
    return hashlib.sha256(os.fsencode("\0".join(place))).hexdigest()


def _steps_of_store(location: Location) -> Steps:
    """The steps of a store's files or lake; empty for what lies elsewhere."""
    if not isinstance(location, FileLocation | LakeLocation):
        return ()
    address = location.address if isinstance(location, FileLocation) else location.folder
    return _steps(address) if "://" in address else ()


def _names_meet(one: str, other: str) -> bool:
    """Whether two names, which may be patterns, may be one; of two patterns their ends decide."""
    if not (WILD & {*one} and WILD & {*other}):
        return fnmatchcase(one, other) or fnmatchcase(other, one)
    (start, end), (other_start, other_end) = (
        (re.split(r"[*?[]", name)[0], re.split(r"[*?\]]", name)[-1]) for name in (one, other)
    )
    starts_meet = start.startswith(other_start) or other_start.startswith(start)
    return starts_meet and (end.endswith(other_end) or other_end.endswith(end))


def _marks_of_files(paths: Iterable[str]) -> Iterator[object]:
    """Paths without links and detours, and inodes."""
    for path in paths:
        yield os.path.realpath(path)
        try:
            status = os.stat(path)  # noqa: PTH116 - a path as pyarrow lists it
        except OSError:
            continue
        yield status.st_dev, status.st_ino


def _steps(address: str) -> Steps:
    """An address as scheme, authority and the names of its path, in one spelling of several."""
    parts = urlsplit(address)
    scheme, authority = parts.scheme, parts.netloc.lower()
    names = [name for name in normpath(unquote(parts.path)).split("/") if name not in ("", ".")]
    if scheme.startswith("abfs"):
        scheme = "abfs"
        container, at, host = authority.rpartition("@")
        if host.endswith(_AZURE):  # as dfs or blob, with the container before it or in the path
            authority = host.partition(".")[0]
            names = [container, *names] if at else names
    return scheme, authority, *names
