"""Certificates: identity of a party, and a check of its credentials.

A party *is* the name and role in its certificate: a URI subject alternative name
``urn:dppca:ROLE:NAME``, signed by the study's own authority. A curator's certificate also carries
the host names and addresses that owners dial. No message is ever trusted about its sender.

The TLS library decides whether a certificate is trusted; `check_credentials` checks beforehand,
locally, for reasons to reject it, because a failed handshake gives its victim almost no
information.
"""

from __future__ import annotations

import hashlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.errors import IdentityError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

URI_PREFIX = "urn:dppca:"
_EXPIRY_WARNING = timedelta(days=30)  # before the end; a third of a term below 90 days
_PARSED_KEPT = 256
"""Number of parsed certificates kept, because a call reads its certificate several times."""


class Role(StrEnum):
    """Role of a party, which decides its permissions."""

    OWNER = "owner"
    OPERATOR = "operator"
    CURATOR = "curator"
    AUDITOR = "auditor"
    """Reads at the curator what an operator reads of studies and owners, and changes nothing."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Name and role of a party in its certificate."""

    name: str
    role: Role

    @property
    def uri(self) -> str:
        """Subject alternative name of this identity."""
        return f"{URI_PREFIX}{self.role.value}:{self.name}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """PEM bytes of one party. ``key`` is secret: it is not shown and never leaves its host."""

    ca: bytes
    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Credentials(...)"


def load_credentials(folder: CredentialFolder) -> Credentials:
    """Read three PEM files, byte order marks aside.

    `IdentityError` names one that is missing or damaged, and how to get another.
    """
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    origins: dict[Path, tuple[str, Callable[[bytes], object]]] = {
        folder.ca: ("the curator's operator hands out ca.pem", parse_certificate),
        folder.certificate: (folder.certificate_advice, parse_certificate),
        folder.key: (folder.key_advice, partial(load_pem_private_key, password=None)),
    }
    contents = []
    if not folder.folder.is_dir():
        raise IdentityError(f"no folder {folder.folder}: name the one with your certificate.pem")
    for path, (origin, _) in origins.items():
        try:
            contents.append(path.read_bytes().removeprefix(BOM_UTF8))  # gRPC takes none
        except OSError as error:
            reason = error.strerror or "unreadable"
            if (folder.folder / "ca-key.pem").exists():
                origin = (
                    "this is an authority's folder, whose key stays apart: "
                    "`dppca-curator pki issue` makes a folder for a curator or an operator"
                )
            raise IdentityError(f"cannot read {path} ({reason}): {origin}") from error
    for (path, (origin, parse)), content in zip(origins.items(), contents, strict=True):
        try:
            parse(content)
        except x509_faults() as error:
            fault = "is damaged, locked by a password or not PEM"
            raise IdentityError(f"{path} {fault}: {origin}") from error
    return Credentials(*contents)


def x509_faults() -> tuple[type[Exception], ...]:
    """Return the errors of `cryptography` on altered certificates, requests and lists."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.utils import CryptographyDeprecationWarning

    return (
        CryptographyDeprecationWarning,  # where warnings are errors
        ValueError,
        TypeError,
        InvalidSignature,
        UnsupportedAlgorithm,
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.InvalidVersion,
        x509.UnsupportedGeneralNameType,
    )


@lru_cache(maxsize=_PARSED_KEPT)
def parse_identity(certificate: x509.Certificate | x509.CertificateSigningRequest) -> Identity:
    """Return the one party that a document names; `IdentityError` if it names none or several."""
    from cryptography import x509

    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = extension.value.get_values_for_type(x509.UniformResourceIdentifier)
    except x509_faults() as error:
        raise IdentityError("the certificate carries no subject alternative names") from error
    return _identity(names)


def peer_identity(auth_context: Mapping[str, Iterable[bytes]]) -> Identity:
    """Return the party at the other end of a gRPC call that passed mutual TLS.

    ``auth_context`` comes from gRPC's ``ServicerContext.auth_context()``.
    """
    return parse_identity(peer_certificate(auth_context))


@lru_cache(maxsize=_PARSED_KEPT)
def parse_certificate(pem: bytes) -> x509.Certificate:
    """Return the certificate in PEM bytes; raise one of `x509_faults` if there is none."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(pem)
    if certificate.serial_number < 1:  # not a certificate by RFC 5280; cryptography only warns
        raise ValueError("a certificate without a positive serial number")
    return certificate


def peer_certificate(auth_context: Mapping[str, Iterable[bytes]]) -> x509.Certificate:
    """Return the certificate at the other end of such a call; `IdentityError` if there is none."""
    pem = next(iter(auth_context.get("x509_pem_cert", ())), None)
    if pem is None:
        raise IdentityError("the call carries no certificate")
    try:
        return parse_certificate(pem)
    except x509_faults() as error:
        raise IdentityError("the caller's certificate cannot be read") from error


def compute_fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    """SHA-256 of a public key (DER), hexadecimal, for comparison by telephone."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def check_credentials(
    credentials: Credentials, *, role: Role, name: str | None, now: datetime
) -> datetime:
    """Check credentials before use and return the expiry time of the certificate.

    ``role`` and ``name`` are the expected identity, None for any name; ``now`` is aware. Raise
    `IdentityError`, which says what to do, if a file is not PEM, the certificate is expired, not
    yet valid, of another authority or for another name or role, or the key is not the
    certificate's.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        certificate = x509.load_pem_x509_certificate(credentials.certificate)
        authority = x509.load_pem_x509_certificate(credentials.ca)
        key = load_pem_private_key(credentials.key, password=None)
    except x509_faults() as error:
        raise IdentityError(
            "a certificate or key file is not PEM: fetch it again from where it was made"
        ) from error
    try:
        certificate.verify_directly_issued_by(authority)
    except x509_faults() as error:
        raise IdentityError(
            "the certificate was not signed by this ca.pem: take both from the same operator"
        ) from error
    if certificate.public_key() != key.public_key():
        raise IdentityError(
            "key.pem does not belong to the certificate: put back the one that was made for it"
        )
    identity = parse_identity(certificate)
    if identity.role is not role or (name is not None and identity.name != name):
        raise IdentityError(
            f"the certificate is for {identity.role.value} {identity.name}, not for "
            f"{role.value} {name or ''}".rstrip()
            + ": "
            + (
                "ask the operator for the right one"
                if role is Role.OWNER
                else "name the folder of another one as --credentials, or make one with "
                f"`dppca-curator pki issue --role {role.value}`"
            )
        )
    for what, document in (("authority's certificate", authority), ("certificate", certificate)):
        if now < document.not_valid_before_utc:
            raise IdentityError(
                f"the {what} is not valid before {document.not_valid_before_utc:%Y-%m-%d %H:%M} "
                "UTC: check this machine's clock"
            )
        if now >= document.not_valid_after_utc:
            holder = None if document is authority else identity
            raise IdentityError(ended_text(holder, document.not_valid_after_utc))
    return certificate.not_valid_after_utc


def ended_text(holder: Identity | None, ends: datetime, *, clock: str = "this machine's") -> str:
    """Say whose certificate has ended, when, by whose clock, and who renews it with what command.

    ``holder`` is None for the authority's own certificate.
    """
    who = f"{holder.role.value} {holder.name}" if holder else "the authority (ca.pem)"
    until = f"{ends:%Y-%m-%d %H:%M} UTC"
    return f"the certificate of {who} expired on {until} by {clock} clock: {renewal(holder)}"


def renewal(holder: Identity | None) -> str:
    """Say who renews a party's certificate with what command; ``holder`` as in `ended_text`."""
    if holder is None:
        made = "the operator makes another authority (`dppca-curator pki init`)"
        return f"{made} and certificates of everybody"
    if holder.role is Role.OWNER:
        return (
            "the operator signs this owner's request.pem again (`dppca-curator pki sign`); for "
            "another key the owner runs `dppca-owner renew` first"
        )
    hosts = ", with the same --host" if holder.role is Role.CURATOR else ""
    return (
        f"the operator makes another one (`dppca-curator pki issue --role {holder.role.value} "
        f"--name {holder.name}`{hosts})"
    )


@dataclass(frozen=True, slots=True)
class Term:
    """End of a certificate's validity, and the time from which a warning is due.

    The warning begins 30 days before the end, or at the last third of a term shorter than 90 days:
    a certificate that was just issued never causes a warning.
    """

    ends: datetime
    warn_from: datetime

    @classmethod
    def from_certificate(cls, certificate: x509.Certificate) -> Term:
        """Read the term of an X.509 certificate."""
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        return cls(ends, ends - min(_EXPIRY_WARNING, (ends - begins) / 3))

    @classmethod
    def from_pem(cls, pem: bytes) -> Term:
        """Read the term of a PEM certificate; `ValueError` if it is none."""
        from cryptography import x509

        return cls.from_certificate(x509.load_pem_x509_certificate(pem))


def _identity(names: Iterable[str]) -> Identity:
    ours = [name.removeprefix(URI_PREFIX) for name in names if name.startswith(URI_PREFIX)]
    if len(ours) != 1:
        raise IdentityError("the certificate does not name exactly one party of a study")
    role, _, name = ours[0].partition(":")
    if role not in set(Role) or not name:
        raise IdentityError("the certificate names no known role")
    return Identity(name, Role(role))
