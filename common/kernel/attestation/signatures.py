"""Signatures with the keys of the parties' certificates.

`dppca.common.kernel.signing` describes their form and their purposes.

Limits: nothing here holds a trusted time; `dppca.common.kernel.attestation.parties` describes the
effect on certificates that have ended or are revoked.
"""

from dataclasses import dataclass
from typing import Annotated

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.errors import IdentityError, SignatureError
from dppca.common.kernel.identity.tls import (
    Credentials,
    Identity,
    compute_fingerprint,
    parse_certificate,
    parse_identity,
    x509_faults,
)


@dataclass(frozen=True, slots=True)
class Signer:
    """Party that can sign. The key is secret and not shown.

    Attributes
    ----------
    certificate
        PEM.
    """

    certificate: bytes
    key: ec.EllipticCurvePrivateKey

    def __repr__(self) -> str:
        return "Signer(...)"


@dataclass(frozen=True, slots=True)
class VouchingAuthority:
    """Authority whose certificate was given, and which certified every party."""

    name: Annotated[str, "its name, as its certificate has it"]
    fingerprint: Annotated[DigestText, "SHA-256 of its public key"]

    def __str__(self) -> str:
        return f"authority {self.name}, SHA-256 {self.fingerprint}"


UNVOUCHED = "CONSISTENT, BUT NOBODY VOUCHES FOR IT"
UNVOUCHED_WHY = (
    "anybody can make such a file under any names: give the authority's certificate with"
)
"""Warning about a file whose certificates were not checked; an option's name follows."""


def make_signer(credentials: Credentials) -> Signer:
    """Return the party of some credentials; `IdentityError` if its key cannot sign."""
    try:
        key = load_pem_private_key(credentials.key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise IdentityError(
            "key.pem is not a private key in PEM: fetch it again from where it was made"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IdentityError("key.pem is not on an elliptic curve: make it with `dppca-owner init`")
    return Signer(credentials.certificate, key)


def party_of(certificate: bytes, *, what: str) -> Identity:
    """Return the party that a certificate (PEM) names; `SignatureError` if it names none."""
    try:
        return parse_identity(load_certificate(certificate, what=what))
    except IdentityError as error:
        raise SignatureError(f"the certificate of {what} names no party of a study") from error


def require_issued(certificate: bytes, ca: bytes, *, what: str) -> None:
    """Raise `SignatureError` unless a certificate was signed by an authority (both PEM)."""
    document = load_certificate(certificate, what=what)
    authority = _load_authority(ca)
    try:
        document.verify_directly_issued_by(authority)
    except x509_faults() as error:
        given = describe_authority(ca)
        raise SignatureError(
            f"the certificate of {what} was not signed by the authority that was given, "
            f"{given.name} (SHA-256 {given.fingerprint}). It says that authority "
            f"{_common_name(document.issuer)} signed it: if that was yours, give its ca.pem (--ca)"
        ) from error


def describe_authority(ca: bytes) -> VouchingAuthority:
    """Return name and fingerprint of an authority (PEM); `SignatureError` if it is unreadable."""
    document = _load_authority(ca)
    key = document.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise SignatureError("the authority's certificate holds no key on an elliptic curve")
    return VouchingAuthority(_common_name(document.subject), compute_fingerprint(key))


def _load_authority(ca: bytes) -> x509.Certificate:
    try:
        document = parse_certificate(ca)
        _ = document.subject
        return document
    except x509_faults() as error:
        raise SignatureError(
            "the authority's certificate is not PEM: take ca.pem from the operator"
        ) from error


def _common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return one_line(str(found[0].value)) if found else "without a name"


def load_certificate(pem: bytes, *, what: str) -> x509.Certificate:
    """Return a certificate that is given in PEM; `SignatureError` if it cannot be read."""
    try:
        document = parse_certificate(pem)
        document.public_key()
        # Parsed lazily; damaged ones are found here.
        _ = document.extensions, document.subject, document.issuer
    except x509_faults() as error:
        raise SignatureError(f"the certificate of {what} cannot be read") from error
    return document
