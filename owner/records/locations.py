"""Where a data set's rows lie, as a policy names it. Nothing is opened here.

A location has a *title*, which is all that messages say of it: a path of this machine as it is
written, and for everything else the data set's name, since an address may say more than a reader
of logs should know. Credentials are never part of an address: object stores take them from the
environment or the machine's role.

Two locations have rows in common where one lies in the other, or both are one file by its inode. A
pattern counts as its folder, up to the first wild card, so some are tied that name no file twice.

Limits: links within a folder, and addresses of one store that `_place` does not make equal, are not
followed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, takewhile
from pathlib import Path
from posixpath import normpath
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from dppca.common.errors import DataError, SettingError
from dppca.common.files import HAS_MODES
from dppca.owner.records.queries import require_one_statement, table_query
from dppca.owner.records.stored_files import WILD

_OPTIONS: Final = {
    "s3": {"region", "scheme", "endpoint_override"},
    "gs": {"scheme", "endpoint_override", "project_id", "retry_limit_seconds"},
    "abfs": {"enable_tls"},
    "abfss": {"enable_tls"},
    "hdfs": {"user"},
}
"""Schemes of object stores, and what may stand after the ``?`` of an address: no credentials."""

Steps = tuple[str, ...]
"""Where something lies, from the outside in; of a path of this machine, its parts."""


class Place(NamedTuple):
    """Where rows lie: a file or a folder, and names below it of which the first has a wild card."""

    fixed: Steps
    pattern: Steps = ()


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

    @property
    def place(self) -> Place:
        """Where it lies, without links and detours."""
        return _place(self.address)


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

    @property
    def place(self) -> Place:
        """As `FileLocation.place`: the database, since each query may be of the same people."""
        path = self.database or (self.secret and self.secret.path)
        if path is not None:
            return Place(_resolve(str(path)))
        if self.secret is not None:
            return Place(("variable", self.secret.variable))
        return Place(("service", self.service))


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

    @property
    def place(self) -> Place:
        """As `FileLocation.place`: the table, whatever its version."""
        return _place(self.folder)


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

    @property
    def place(self) -> Place:
        """As `FileLocation.place`: the table, whatever its version."""
        return Place(("spark", *(part.casefold() for part in self.table)))


Location = FileLocation | DatabaseLocation | LakeLocation | SparkLocation
"""A place that rows can be read from."""


@dataclass(frozen=True, slots=True)
class LocationDigests:
    """How a ledger knows where rows lie: SHA-256, hexadecimal, of steps.

    Attributes
    ----------
    address
        The location's own.
    within
        That, its folder's if it is a pattern, and those of all that lies in it on this machine.
    folders
        Digests of all folders that hold it.
    """

    address: str
    within: frozenset[str]
    folders: frozenset[str]


def digest_location(location: Location, *, folder: Path) -> LocationDigests:
    """The digests of a location; a path below the site's ``folder`` counts from there.

    So a site may be moved as a whole.
    """
    root = Path(os.path.realpath(folder)).parts

    def digest(steps: Steps) -> str:
        counted = (".", *steps[len(root) :]) if steps[: len(root)] == root else steps
        return hashlib.sha256(os.fsencode("\0".join(counted))).hexdigest()

    fixed, pattern = location.place
    address = digest((*fixed, *pattern))
    within = {address, digest(fixed), *map(digest, _walk(fixed))}
    folders = frozenset(digest(fixed[:end]) for end in range(1, len(fixed)))
    return LocationDigests(address, frozenset(within), folders)


def find_shared_rows(sources: Mapping[str, Location]) -> Iterator[tuple[str, str]]:
    """Pairs of data sets with rows in common, as far as their places show it."""
    places = {name: each.place.fixed for name, each in sources.items()}
    inodes = {name: _find_inode(steps) for name, steps in places.items()}
    for one, other in combinations(sources, 2):
        is_inside = all(a == b for a, b in zip(places[one], places[other], strict=False))
        if is_inside or (inodes[one] is not None and inodes[one] == inodes[other]):
            yield one, other


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


def _place(address: str) -> Place:
    """The place of a path of this machine, or of a store's address."""
    if "://" not in address:
        names = Path(address).parts
        fixed = [*takewhile(_is_plain, names)]
        return Place(_resolve(os.path.join("", *fixed)), names[len(fixed) :])  # noqa: PTH118
    uri = urlsplit(address)
    names = tuple(unquote(uri.path).split("/"))
    fixed = [*takewhile(_is_plain, names)]
    inner = [name for name in normpath("/".join(fixed)).split("/") if name not in ("", ".")]
    scheme = "abfs" if uri.scheme == "abfss" else uri.scheme
    return Place((scheme, uri.netloc.lower(), *inner), names[len(fixed) :])


def _is_plain(name: str) -> bool:
    return not WILD & {*name}


def _resolve(path: str) -> Steps:
    return Path(os.path.realpath(path)).parts


def _walk(steps: Steps) -> Iterator[Steps]:
    """All that lies in a folder of this machine; links in it are not followed."""
    path = Path(*steps)
    for folder, folders, files in os.walk(path) if path.is_absolute() else ():
        yield from ((*Path(folder).parts, name) for name in (*folders, *files))


def _find_inode(steps: Steps) -> tuple[int, int] | None:
    """Device and inode of what lies on this machine; None where nothing does."""
    path = Path(*steps)
    try:
        status = path.stat() if path.is_absolute() else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status else None
