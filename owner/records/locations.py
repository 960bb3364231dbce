"""Locations of a data set's rows, as a policy names them. Nothing is opened before it is needed.

Messages identify a location only by its *title*: a path of this machine as it is written, and for
everything else the data set's name, since an address may reveal more than a reader of logs should
know. Credentials are never part of an address: object stores take them from the environment or the
machine's role.

Two locations have rows in common if one contains the other, or both are one file by its inode. A
pattern counts as its folder, up to the first wild card, so some locations without a common file are
linked too.

Limits: links within a folder, and addresses of one store that `locate` does not make equal, are not
followed.
"""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, takewhile
from pathlib import Path
from posixpath import normpath
from typing import ClassVar, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from dppca.common.kernel.durable.files import HAS_MODES
from dppca.common.kernel.errors import SettingError
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.sources import Source
from dppca.owner.records.text_format import TextFormat
from dppca.owner.records.wild_cards import WILD

_LEADING = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ENDPOINT",
    "STORAGE_EMULATOR_HOST",
    "PGHOST",
    "PGHOSTADDR",
    "PGPORT",
    "PGDATABASE",
    "PGUSER",
    "PGOPTIONS",
    "SPARK_REMOTE",
    "SPARK_CONF_DIR",
    "DATABRICKS_HOST",
    "DATABRICKS_CLUSTER_ID",
)
"""Variables by which stores, libpq and Spark find what an address only names."""
Steps = tuple[str, ...]
"""Steps to a place, from the outside in; for a path of this machine, its parts."""


class Place(NamedTuple):
    """Place of rows: a file or a folder, and names below it of which the first has a wild card."""

    fixed: Steps
    pattern: Steps = ()


class Remark(NamedTuple):
    """Notice to the steward about a readable source; a warning asks for a correction."""

    text: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Location(ABC):
    """A place that rows can be read from, of any kind.

    ``title`` is its name in messages; ``engine`` reads it unless the policy names one, and is empty
    for this process. ``mapping`` says where it is stated how its columns become a study's
    attributes; it does not change where the rows are.
    """

    title: str
    engine: ClassVar[str] = ""
    mapping: MappingPlace | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def place(self) -> Place:
        """Place without links and detours. It shows if two locations have rows in common."""

    def leads_to(self) -> tuple[str, ...]:
        """Where it leads when names are followed: parts of a text, without a password.

        Of a store that is everything in the environment that says which one it is. It may differ
        where `place` is the same. Raise `SettingError` if a secret with the address is missing.
        """
        fixed, pattern = self.place
        here = bool(fixed) and Path(fixed[0]).is_absolute()
        named = () if here else (f"{name}={os.environ.get(name, '')}" for name in _LEADING)
        return (*fixed, *pattern, *named)

    @abstractmethod
    def open(self) -> Source:
        """Open the rows; their content is not checked.

        Raise `DataError` if there are none, they are damaged, or their store does not answer or
        refuses; raise `SettingError` if a file or package that the policy needs is missing.
        """

    @property
    def text_format(self) -> TextFormat | None:
        """How its text files are written; None if it can have none."""
        return None

    def written(self, text_format: TextFormat) -> Self:  # noqa: ARG002 - it has no text
        """Location of the same rows, with text files read in another format."""
        return self

    def mapped(self, mapping: MappingPlace | None) -> Self:
        """Location of the same rows, with columns that a mapping turns into attributes."""
        return replace(self, mapping=mapping)

    def examine(self) -> Sequence[Remark]:
        """Remarks on it before a row is read; raises as `open` does."""
        self.open()
        return ()


@dataclass(frozen=True, slots=True)
class Secret:
    """Reference to a secret, such as a password: an environment variable, or a private file."""

    variable: str = ""
    path: Path | None = None

    def read(self, what: str) -> str:
        """Read the secret; raise `SettingError` if it is missing or if others may read the file.

        ``what`` is its name in a message, such as "the address of survey".
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
            raise SettingError(f"{where}, with {what}, does not exist or is empty")
        return text.strip()


@dataclass(frozen=True, slots=True)
class LocationDigests:
    """A ledger's digests of a location: SHA-256, hexadecimal, of steps.

    ``address`` is the location's own digest. ``within`` adds its folder's if it is a pattern, and
    those of everything inside on this machine; ``folders`` are those of all folders that contain
    it.
    """

    address: str
    within: frozenset[str]
    folders: frozenset[str]


def digest_location(location: Location, *, folder: Path) -> LocationDigests:
    """Digests of a location; a path below the site's ``folder`` is taken relative to it.

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
    """Yield pairs of data sets with rows in common, as far as their places show it."""
    places = {name: each.place.fixed for name, each in sources.items()}
    inodes = {name: _find_inode(steps) for name, steps in places.items()}
    for one, other in combinations(sources, 2):
        is_inside = all(a == b for a, b in zip(places[one], places[other], strict=False))
        if is_inside or (inodes[one] is not None and inodes[one] == inodes[other]):
            yield one, other


def locate(address: str) -> Place:
    """Place of a path of this machine, or of a store's address."""
    if "://" not in address:
        names = Path(address).parts
        fixed = [*takewhile(_is_plain, names)]
        return Place(resolve(os.path.join("", *fixed)), names[len(fixed) :])  # noqa: PTH118
    uri = urlsplit(address)
    names = tuple(unquote(uri.path).split("/"))
    fixed = [*takewhile(_is_plain, names)]
    inner = [name for name in normpath("/".join(fixed)).split("/") if name not in ("", ".")]
    scheme = "abfs" if uri.scheme == "abfss" else uri.scheme
    return Place((scheme, uri.netloc.lower(), *inner), names[len(fixed) :])


def _is_plain(name: str) -> bool:
    return not WILD & {*name}


def resolve(path: str) -> Steps:
    """Parts of a path of this machine, without links and detours."""
    return Path(os.path.realpath(path)).parts


def _walk(steps: Steps) -> Iterator[Steps]:
    """Everything in a folder of this machine; links in it are not followed."""
    path = Path(*steps)
    for folder, folders, files in os.walk(path) if path.is_absolute() else ():
        yield from ((*Path(folder).parts, name) for name in (*folders, *files))


def _find_inode(steps: Steps) -> tuple[int, int] | None:
    """Device and inode of a file on this machine; None if there is none."""
    path = Path(*steps)
    try:
        status = path.stat() if path.is_absolute() else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status else None
