"""What people of a site with roles sign of the rows: keyed digests that never leave the site.

``fingerprint.key``, 32 random bytes, is made with the first statement. Without the key a digest
says nothing of the rows; with it, one changed cell makes another digest. Rows to which others may
write have none: they are bound by their place, their query and their number.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterator
from dataclasses import astuple, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dppca.common.kernel.durable.files import create_file, sync
from dppca.common.kernel.errors import SettingError
from dppca.owner.ledger.entries import Evidence
from dppca.owner.records.locations import Location
from dppca.owner.site.config import Site

KEY_BYTES = 32  # of a key of HMAC with SHA-256


def gather_evidence(
    site: Site, location: Location, rows: object, *, n_rows: int, is_live: bool
) -> Evidence:
    """Return what a release is bound to: ``rows`` as they were read, and where they lie.

    Raise `SettingError` if the key cannot be read or made, or a secret with an address is missing.
    """
    key = _read_key(site.fingerprint)
    place = hmac.new(key, b"place\0", "sha256")
    for part in location.leads_to():
        place.update(_framed(part.encode(errors="surrogateescape")))
    found = hmac.new(key, b"rows\0", "sha256")
    for content in _contents(rows):
        found.update(_framed(content))
    digest = "" if is_live else found.hexdigest()
    return Evidence(rows=digest, n_rows=n_rows, place=place.hexdigest())


def _contents(rows: object) -> Iterator[bytes]:
    """Every number of private values, with the form of each array."""
    if isinstance(rows, np.ndarray):
        yield f"{rows.dtype.str} {rows.shape}".encode()
        yield np.ascontiguousarray(rows).tobytes()
    elif isinstance(rows, tuple) or (is_dataclass(rows) and not isinstance(rows, type)):
        parts: tuple[Any, ...] = rows if isinstance(rows, tuple) else astuple(rows)
        for each in parts:
            yield from _contents(each)
    elif rows is None or isinstance(rows, int | str):
        yield repr(rows).encode()
    else:
        raise TypeError(type(rows).__name__)  # a new kind of rows says here how it is digested


def _framed(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _read_key(path: Path) -> bytes:
    try:
        if not path.exists():
            create_file(path, secrets.token_bytes(KEY_BYTES))
            sync(path.parent)
        key = path.read_bytes()
    except OSError as error:
        raise SettingError(f"cannot keep {path}: {error.strerror}") from error
    if len(key) != KEY_BYTES:
        raise SettingError(f"{path} is damaged: remove it, and have open statements signed again")
    return key
