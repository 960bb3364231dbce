"""Certificates that are good no longer: a revocation list, signed by the authority.

The list is a CRL in PEM, ``crl.pem``, that grows and never shrinks; its number counts the versions.
The authority makes it where its key is, the daemon reads it from its credentials folder
(`curator.gate`). It says nothing about when it should be fetched anew: ``nextUpdate`` is the day
the authority's own certificate ends.

gRPC's Python interface cannot be given a CRL. A revoked party's handshake succeeds, and every call
it makes is refused, on connections that were open before too.

Reference: RFC 5280, 5 (lists), 5.2.3 (their number).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from common.errors import IdentityError, SettingError
from common.transport.tls import Identity, identity_in, x509_faults
from curator.pki import CA_CERTIFICATE, ISSUED, load_authority, write_whole

REVOKED = "crl.pem"


@dataclass(frozen=True, slots=True)
class RevocationList:
    """Serial numbers of revoked certificates, and how many versions of the list there were."""

    number: int = 0
    serials: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate the authority has signed. ``serial`` in hexadecimal."""

    identity: Identity
    serial: str
    expires: datetime
    revoked: bool


def read_list(content: bytes, *, ca: bytes) -> RevocationList:
    """Read a list in PEM.

    Parameters
    ----------
    ca
        The authority's certificate in PEM.

    Raises
    ------
    IdentityError
        Not a list, or not this authority's.
    """
    return _read(content, x509.load_pem_x509_certificate(ca))


def issued_by(folder: Path) -> tuple[Issued, ...]:
    """What an authority has signed, as its folder remembers, by role, name and end."""
    authority, _ = load_authority(folder)
    serials = _stored(folder, authority).serials
    found = [
        Issued(
            identity_in(certificate),
            f"{certificate.serial_number:x}",
            certificate.not_valid_after_utc,
            certificate.serial_number in serials,
        )
        for certificate in _remembered(folder)
    ]
    return tuple(sorted(found, key=lambda i: (i.identity.role, i.identity.name, i.expires)))


def revoke(
    folder: Path,
    *,
    now: datetime,
    party: Identity | None = None,
    serial: str | None = None,
    certificate: bytes | None = None,
    outputs: Sequence[Path] = (),
) -> tuple[RevocationList, tuple[str, ...]]:
    """Revoke certificates and write the list.

    Parameters
    ----------
    folder
        The authority's.
    party
        All certificates of this party that have not ended.
    serial
        One certificate of those that were signed, in hexadecimal.
    certificate
        One certificate in PEM, of this authority. Give one of the three.
    outputs
        Where the list is written beside the authority's folder.

    Returns
    -------
    tuple
        The list, and the serial numbers (hexadecimal) that are new in it.

    Raises
    ------
    SettingError
        No such certificate, or a file cannot be written.
    IdentityError
        The certificate is not this authority's.
    """
    authority, key = load_authority(folder)
    with _alone(folder):
        wanted = _wanted(folder, authority, now, party, serial, certificate)
        before = _stored(folder, authority)
        new = {each.serial_number for each in wanted} - before.serials
        after = RevocationList(before.number + 1, before.serials | new) if new else before
        content = _write(after, authority, key, now, _dates(folder, authority))
        for path in (folder / REVOKED, *outputs):
            write_whole(path, content)
    return after, tuple(sorted(f"{number:x}" for number in new))


def _wanted(
    folder: Path,
    authority: x509.Certificate,
    now: datetime,
    party: Identity | None,
    serial: str | None,
    certificate: bytes | None,
) -> list[x509.Certificate]:
    if certificate is not None:
        try:
            given = x509.load_pem_x509_certificate(certificate)
            given.verify_directly_issued_by(authority)
        except x509_faults() as error:
            message = "the file is not a certificate of this authority: nothing was revoked"
            raise IdentityError(message) from error
        return [given]
    remembered = list(_remembered(folder))
    if serial is not None:
        chosen = [each for each in remembered if f"{each.serial_number:x}" == serial.lower()]
        what = f"with serial number {serial}"
    elif party is not None:
        chosen = [
            each
            for each in remembered
            if identity_in(each) == party and now < each.not_valid_after_utc
        ]
        what = f"of {party.role.value} {party.name} that has not ended"
    else:
        message = "say what to revoke: a party, a serial number or a certificate"
        raise SettingError(message)
    if not chosen:
        message = (
            f"{folder / ISSUED} remembers no certificate {what}: see `dppca-curator pki list`, or "
            "give the certificate itself with --certificate"
        )
        raise SettingError(message)
    return chosen


def _remembered(folder: Path) -> Iterator[x509.Certificate]:
    for path in sorted((folder / ISSUED).glob("*.pem")):
        content = _content(path)
        try:
            yield x509.load_pem_x509_certificate(content)
        except x509_faults() as error:
            message = f"cannot read {path}: restore the authority's folder from a copy"
            raise SettingError(message) from error


def _stored(folder: Path, authority: x509.Certificate) -> RevocationList:
    path = folder / REVOKED
    if not path.exists():
        return RevocationList()
    return _read(_content(path), authority)


def _read(content: bytes, authority: x509.Certificate) -> RevocationList:
    document = _parse(content, authority)
    number = document.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    return RevocationList(number, frozenset(each.serial_number for each in document))


def _dates(folder: Path, authority: x509.Certificate) -> dict[int, datetime]:
    path = folder / REVOKED
    if not path.exists():
        return {}
    return {
        each.serial_number: each.revocation_date_utc for each in _parse(_content(path), authority)
    }


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise SettingError(message) from error


def _parse(content: bytes, authority: x509.Certificate) -> x509.CertificateRevocationList:
    key = authority.public_key()
    try:
        document = x509.load_pem_x509_crl(content)
        _ = [each.serial_number for each in document]  # parsed lazily; damaged ones are found here
        good = isinstance(key, ec.EllipticCurvePublicKey) and document.is_signature_valid(key)
        document.extensions.get_extension_for_class(x509.CRLNumber)
    except x509_faults() as error:
        message = f"{REVOKED} is not a revocation list: copy it again from the authority's folder"
        raise IdentityError(message) from error
    if not good or document.issuer != authority.subject:
        message = f"{REVOKED} was not signed by this {CA_CERTIFICATE}: take both from one authority"
        raise IdentityError(message)
    return document


def _write(
    revoked: RevocationList,
    authority: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    dates: dict[int, datetime],
) -> bytes:
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now)
        .next_update(authority.not_valid_after_utc)
        .add_extension(x509.CRLNumber(revoked.number), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),  # type: ignore[arg-type] # checked when it was loaded
            critical=False,
        )
    )
    for serial in sorted(revoked.serials):
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder()
            .serial_number(serial)
            .revocation_date(dates.get(serial, now))
            .build()
        )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One operator at a time: a list that two wrote at once would lack one's entries."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
