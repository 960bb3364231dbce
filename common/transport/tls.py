"""Certificates: who a party is, and whether its credentials will be accepted.

A party *is* the name and role in its certificate: a URI subject alternative name
``urn:dppca:ROLE:NAME``, signed by the study's own authority. A curator's certificate also carries
the host names and addresses that owners dial. Nothing in a message is ever believed about its
sender.

The TLS library decides whether a certificate is trusted; `check_credentials` finds out beforehand,
at home, why it would not be, because a failed handshake tells its victim next to nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from common.errors import IdentityError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

URI_PREFIX = "urn:dppca:"
EXPIRY_WARNING = timedelta(days=30)
_PARSED_KEPT = 256
"""Certificates whose reading is remembered: a call's is asked for what is in it several times."""


class Role(StrEnum):
    """What a party may do."""

    OWNER = "owner"
    OPERATOR = "operator"
    CURATOR = "curator"


@dataclass(frozen=True, slots=True)
class Identity:
    """A party, as its certificate names it."""

    name: str
    role: Role

    @property
    def uri(self) -> str:
        """The subject alternative name that says so."""
        return f"{URI_PREFIX}{self.role.value}:{self.name}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """PEM bytes of one party. ``key`` is secret: it is not shown and never leaves its host."""

    ca: bytes
    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Credentials(...)"


def load_credentials(*, ca: Path, certificate: Path, key: Path) -> Credentials:
    """Read three PEM files; `IdentityError` names the one that is missing and where it is from."""
    origins = {
        ca: "the curator's operator hands out ca.pem",
        certificate: "the operator makes it from your request: dppca-curator pki sign",
        key: "`dppca-owner init` or `dppca-curator pki issue` makes it",
    }
    contents = []
    for path in (ca, certificate, key):
        try:
            contents.append(path.read_bytes())
        except OSError as error:
            reason = error.strerror or "unreadable"
            message = f"cannot read {path} ({reason}): {origins[path]}"
            raise IdentityError(message) from error
    return Credentials(*contents)


def x509_faults() -> tuple[type[Exception], ...]:
    """What `cryptography` raises on certificates, requests and lists that somebody has changed."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    return (
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
def identity_in(certificate: x509.Certificate | x509.CertificateSigningRequest) -> Identity:
    """The one party a document names; `IdentityError` where it names none, or several."""
    from cryptography import x509

    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = extension.value.get_values_for_type(x509.UniformResourceIdentifier)
    except x509_faults() as error:
        message = "the certificate carries no subject alternative names"
        raise IdentityError(message) from error
    return _identity(names)


def identity_of(auth_context: Mapping[str, Iterable[bytes]]) -> Identity:
    """The party at the other end of a gRPC call that passed mutual TLS.

    Parameters
    ----------
    auth_context
        As gRPC's ``ServicerContext.auth_context()`` gives it.
    """
    return identity_in(certificate_of(auth_context))


@lru_cache(maxsize=_PARSED_KEPT)
def certificate_in(pem: bytes) -> x509.Certificate:
    """The certificate in PEM bytes; one of `x509_faults` where there is none."""
    from cryptography import x509

    return x509.load_pem_x509_certificate(pem)


def certificate_of(auth_context: Mapping[str, Iterable[bytes]]) -> x509.Certificate:
    """The certificate at the other end of such a call; `IdentityError` where there is none."""
    pem = next(iter(auth_context.get("x509_pem_cert", ())), None)
    if pem is None:
        message = "the call carries no certificate"
        raise IdentityError(message)
    try:
        return certificate_in(pem)
    except x509_faults() as error:
        message = "the caller's certificate cannot be read"
        raise IdentityError(message) from error


def fingerprint_of(key: ec.EllipticCurvePublicKey) -> str:
    """SHA-256 of a public key (DER), hexadecimal: what two people compare by telephone."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def check_credentials(
    credentials: Credentials, *, role: Role, name: str | None, now: datetime
) -> datetime:
    """Find out whether credentials will be accepted.

    Parameters
    ----------
    role, name
        Who the holder takes itself for; any name where None.
    now
        Aware.

    Returns
    -------
    datetime
        When the certificate expires; warn from `EXPIRY_WARNING` before.

    Raises
    ------
    IdentityError
        Not PEM; expired or not yet valid; of another authority; another name or role; or the key
        is not the certificate's. The message says what to do.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        certificate = x509.load_pem_x509_certificate(credentials.certificate)
        authority = x509.load_pem_x509_certificate(credentials.ca)
        key = load_pem_private_key(credentials.key, password=None)
    except x509_faults() as error:
        message = "a certificate or key file is not PEM: fetch it again from where it was made"
        raise IdentityError(message) from error
    try:
        certificate.verify_directly_issued_by(authority)
    except x509_faults() as error:
        message = "the certificate was not signed by this ca.pem: take both from the same operator"
        raise IdentityError(message) from error
    if certificate.public_key() != key.public_key():
        message = "key.pem is not the certificate's: sign the request that was made with this key"
        raise IdentityError(message)
    found = identity_in(certificate)
    if found.role is not role or (name is not None and found.name != name):
        message = (
            f"the certificate is for {found.role.value} {found.name}, not for "
            f"{role.value} {name or ''}".rstrip()
            + ": ask the operator for the right one"
        )
        raise IdentityError(message)
    for what, document in (("certificate", certificate), ("authority's certificate", authority)):
        if now < document.not_valid_before_utc:
            message = (
                f"the {what} is not valid before {document.not_valid_before_utc:%Y-%m-%d %H:%M} "
                "UTC: check this machine's clock"
            )
            raise IdentityError(message)
        if now >= document.not_valid_after_utc:
            message = (
                f"the {what} expired on {document.not_valid_after_utc:%Y-%m-%d}: run `dppca-owner "
                "renew`, or send the operator your request.pem to sign again"
            )
            raise IdentityError(message)
    return certificate.not_valid_after_utc


def authority_expires(credentials: Credentials) -> datetime:
    """When the authority's own certificate ends, and with it all that it has signed."""
    from cryptography import x509

    return x509.load_pem_x509_certificate(credentials.ca).not_valid_after_utc


def _identity(names: Iterable[str]) -> Identity:
    ours = [name.removeprefix(URI_PREFIX) for name in names if name.startswith(URI_PREFIX)]
    if len(ours) != 1:
        message = "the certificate does not name exactly one party of a study"
        raise IdentityError(message)
    role, _, name = ours[0].partition(":")
    if role not in set(Role) or not name:
        message = "the certificate names no known role"
        raise IdentityError(message)
    return Identity(name, Role(role))
