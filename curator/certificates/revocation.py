"""Revocation of certificates: a list signed by the authority.

The list is a CRL in PEM, ``crl.pem``, that only grows; its number counts the versions. The
authority writes it beside its key. The daemon reads it from its credentials folder
(`dppca.curator.service.authenticator`), and any verifier of a file may read it too
(`dppca.common.kernel.identity.revoked`). It does not tell readers when to fetch it again:
``nextUpdate`` is the day on which the authority's own certificate expires.

gRPC's Python interface cannot be given a CRL. A revoked party's handshake therefore succeeds, and
the curator refuses every call that it makes, on connections that were open before too.

Reference: RFC 5280, 5 (lists), 5.2.3 (their number).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.durable.files import REVOKED, SHARED, write_file, writing
from dppca.common.kernel.errors import IdentityError, SettingError
from dppca.common.kernel.identity.revoked import RevocationList
from dppca.common.kernel.identity.tls import Identity, Role, parse_identity, x509_faults
from dppca.curator.certificates.issued import ISSUED, lock_folder, read_current_list, read_issued
from dppca.curator.certificates.pki import load_authority


@dataclass(frozen=True, slots=True)
class ListedCertificate:
    """A certificate that the authority has signed."""

    role: Annotated[Role, "role of the party"]
    name: Annotated[str, "name of the party"]
    serial: Annotated[DigestText, "serial number of the certificate"]
    expires: Annotated[datetime, "when the certificate expires"]
    revoked: Annotated[bool, "whether it is revoked"]


@dataclass(frozen=True, slots=True)
class Certificates:
    """All certificates that an authority has signed."""

    certificates: Annotated[tuple[ListedCertificate, ...], "by role, name and end"]


@dataclass(frozen=True, slots=True)
class Revocation:
    """Certificates that were revoked."""

    revoked: Annotated[tuple[str, ...], "serial numbers that were not revoked before"]
    list_number: Annotated[int, "number of the revocation list"]
    list_length: Annotated[int, "certificates on the list"]
    paths: Annotated[tuple[Path, ...], "files that hold the list"]


def list_certificates(folder: Path) -> Certificates:
    """Return all certificates that the authority's folder stores."""
    authority, _ = load_authority(folder)
    serials = read_current_list(folder, authority).serials
    issued = [
        ListedCertificate(
            role=party.role,
            name=party.name,
            serial=f"{certificate.serial_number:x}",
            expires=certificate.not_valid_after_utc,
            revoked=certificate.serial_number in serials,
        )
        for certificate, party in ((each, parse_identity(each)) for each in read_issued(folder))
    ]
    return Certificates(tuple(sorted(issued, key=lambda i: (i.role, i.name, i.expires))))


def revoke(
    folder: Path,
    *,
    now: datetime,
    party: Identity | None = None,
    serial: str | None = None,
    certificate: bytes | None = None,
    outputs: Sequence[Path] = (),
) -> Revocation:
    """Revoke certificates and write the list; give one of party, serial and certificate.

    Raise `SettingError` if there is no such certificate, or a file cannot be written, and
    `IdentityError` if the certificate is not this authority's. All certificates of ``party`` that
    have not expired are revoked, or the issued one with the ``serial`` number, in hexadecimal, or
    ``certificate``, one of the authority's, in PEM. ``outputs`` are further files that receive the
    list, besides the one in the authority's folder.
    """
    authority, key = load_authority(folder)
    with lock_folder(folder):
        certificates = _select_certificates(folder, authority, now, party, serial, certificate)
        before = read_current_list(folder, authority)
        new = {each.serial_number for each in certificates} - before.serials
        dates = {**before.dates, **dict.fromkeys(new, now.replace(microsecond=0))}
        after = RevocationList(before.number + 1, dates) if new else before
        content = _encode_list(after, authority, key, now)
        paths = (folder / REVOKED, *outputs)
        for path in paths:
            with writing(path):
                write_file(path, content, mode=SHARED)
    serials = tuple(sorted(f"{number:x}" for number in new))
    return Revocation(serials, after.number, len(after.serials), paths)


def _select_certificates(
    folder: Path,
    authority: x509.Certificate,
    now: datetime,
    party: Identity | None,
    serial: str | None,
    certificate: bytes | None,
) -> list[x509.Certificate]:
    if certificate is not None:
        try:
            loaded = x509.load_pem_x509_certificate(certificate)
            loaded.verify_directly_issued_by(authority)
        except x509_faults() as error:
            raise IdentityError(
                "the file is not a certificate of this authority: nothing was revoked"
            ) from error
        return [loaded]
    remembered = list(read_issued(folder))
    if serial is not None:
        chosen = [each for each in remembered if f"{each.serial_number:x}" == serial.lower()]
        criterion = f"with serial number {serial}"
    elif party is not None:
        chosen = [
            each
            for each in remembered
            if parse_identity(each) == party and now < each.not_valid_after_utc
        ]
        criterion = f"of {party.role.value} {party.name} that has not ended"
    else:
        raise SettingError("say what to revoke: a party, a serial number or a certificate")
    if not chosen:
        raise SettingError(
            f"{folder / ISSUED} remembers no certificate {criterion}: see "
            "`dppca-curator pki list`, or give the certificate itself with --certificate"
        )
    return chosen


def _encode_list(
    revoked: RevocationList,
    authority: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
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
    for serial, date in sorted(revoked.dates.items()):
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(date).build()
        )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
