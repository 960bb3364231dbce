"""Locations of files, as a policy names them: paths of this machine, and object stores.

What reads the files is imported when a location is opened.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qsl, urlsplit

from dppca.common.kernel.errors import SettingError
from dppca.owner.records.locations import Location, Place, locate
from dppca.owner.records.sources import Source
from dppca.owner.records.text_format import USUAL, TextFormat

_OPTIONS: Final = {
    "s3": {"region", "scheme", "endpoint_override"},
    "gs": {"scheme", "endpoint_override", "project_id", "retry_limit_seconds"},
    "abfs": {"enable_tls"},
    "abfss": {"enable_tls"},
    "hdfs": {"user"},
}
"""Schemes of object stores, and allowed options after the ``?`` of an address: no credentials."""


@dataclass(frozen=True, slots=True)
class FileLocation(Location):
    """One file, a folder of files, or those that match a pattern.

    ``address`` is a path of this machine, or the URI of an object store; ``text_format`` is that of
    its text files. How they are written does not change where their rows are.
    """

    address: str
    text_format: TextFormat = USUAL

    @property
    def place(self) -> Place:
        """Place of the address (`Location.place`)."""
        return locate(self.address)

    def open(self) -> Source:
        """Find and open the files (`Location.open`)."""
        from dppca.owner.records.files import FORMATS, open_files, require_written
        from dppca.owner.records.stored_files import find_files

        files = find_files(self.address, self.title, tuple(FORMATS))
        if self.text_format != USUAL:
            require_written(self.title, files, self.text_format)
            files = [replace(file, text_format=self.text_format) for file in files]
        return open_files(self.title, files)

    def written(self, text_format: TextFormat) -> Self:
        """Location of the same files, read in another format (`Location.written`)."""
        return replace(self, text_format=text_format)


def local_files(path: Path, text_format: TextFormat = USUAL) -> FileLocation:
    """Location of a path of this machine."""
    return FileLocation(str(path), str(path), text_format)


def locate_files(text: str, *, folder: Path, data_set: str) -> FileLocation:
    """Location that a policy names: a path relative to the site's folder, or a URI.

    Raise `SettingError` if the address is of no known store or holds more than the files' place.
    The message does not repeat it: it may hold a credential.
    """
    if "://" not in text and not text.startswith("file:"):
        return local_files(folder / text)
    scheme = text.partition(":")[0]
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
    # Only in Azure's addresses the text before the @ is the container's name.
    has_credentials = at and (":" in user or not scheme.startswith("abfs"))
    if has_credentials or parts.fragment or not options <= _OPTIONS[scheme]:
        raise SettingError(
            f"the address of data set {data_set} may hold no user, password, key or token, and "
            f"after a ? only {', '.join(sorted(_OPTIONS[scheme]))}: give credentials by the "
            "environment or by the machine's role"
        )
    return FileLocation(f"{data_set} (object store)", text)
