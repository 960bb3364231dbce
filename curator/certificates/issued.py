"""Records in an authority's folder: certificates that it signed, and which are revoked."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from cryptography import x509
from filelock import lock_descriptor

from dppca.common.kernel.durable.files import HAS_MODES, REVOKED, read_content
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.identity.revoked import RevocationList, parse_list
from dppca.common.kernel.identity.tls import Identity, parse_identity, x509_faults

ISSUED = "issued"


def valid_certificates(
    folder: Path, authority: x509.Certificate, party: Identity, *, now: datetime
) -> list[x509.Certificate]:
    """Return a party's certificates that have not ended and are not revoked."""
    revoked = read_current_list(folder, authority).serials
    return [
        each
        for each in read_issued(folder)
        if parse_identity(each) == party
        and now < each.not_valid_after_utc
        and each.serial_number not in revoked
    ]


def read_issued(folder: Path) -> Iterator[x509.Certificate]:
    """Yield every certificate that was signed; `SettingError` if one cannot be read."""
    for path in sorted((folder / ISSUED).glob("*.pem")):
        content = read_content(path)
        try:
            yield x509.load_pem_x509_certificate(content)
        except x509_faults() as error:
            raise SettingError(
                f"cannot read {path}: restore the authority's folder from a copy"
            ) from error


def read_current_list(folder: Path, authority: x509.Certificate) -> RevocationList:
    """Return the authority's newest list; an empty one before the first."""
    path = folder / REVOKED
    if not path.exists():
        return RevocationList()
    return parse_list(read_content(path), authority)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Admit one operator at a time: two concurrent writers would lose entries of one of them."""
    if not HAS_MODES:  # Windows opens no folder
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock_descriptor(handle)
        yield
    finally:
        os.close(handle)
