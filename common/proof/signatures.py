"""Signatures with the keys of the parties' certificates.

ECDSA with SHA-256 (FIPS 186-5), deterministic (RFC 6979): the same content signed again gives the
same bytes, so files can be made again. What is signed begins with a line that says what it is, so
no signature can be used for another purpose.

Limits: whether a certificate was in date when it signed is not known, since nothing here holds a
trusted time; the authority, the role and the name are checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from common.errors import IdentityError, SignatureError
from common.transport.tls import Credentials, Identity, certificate_in, identity_in


class Purpose(StrEnum):
    """What a signature is for; the first line of what is signed."""

    RELEASE = "release"
    """An owner's receipt of its release."""
    COMPONENTS = "components"
    """The curator's receipt of a study's components."""
    FILE = "file"
    """The SHA-256 of a file, its seal left blank."""


@dataclass(frozen=True, slots=True)
class Signer:
    """A party that can sign. The key is secret and not shown.

    Attributes
    ----------
    certificate
        PEM.
    """

    certificate: bytes
    key: ec.EllipticCurvePrivateKey

    def __repr__(self) -> str:
        return "Signer(...)"

    def sign(self, purpose: Purpose, content: bytes) -> bytes:
        """Signature in DER; the same each time."""
        algorithm = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
        return self.key.sign(signed_bytes(purpose, content), algorithm)


def signer_of(credentials: Credentials) -> Signer:
    """The party of some credentials; `IdentityError` where its key cannot sign."""
    try:
        key = load_pem_private_key(credentials.key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        message = "key.pem is not a private key in PEM: fetch it again from where it was made"
        raise IdentityError(message) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        message = "key.pem is not on an elliptic curve: make it with `dppca-owner init`"
        raise IdentityError(message)
    return Signer(credentials.certificate, key)


def signed_bytes(purpose: Purpose, content: bytes) -> bytes:
    """What is in fact signed: a line that says what it is, then the content."""
    return f"dppca {purpose.value} 1\n".encode() + content


def require_signed(
    purpose: Purpose, content: bytes, signature: bytes, certificate: bytes, *, what: str
) -> Identity:
    """The party that signed a content.

    Parameters
    ----------
    signature
        DER.
    certificate
        PEM.
    what
        Named in messages, such as "the release of owner-1".

    Raises
    ------
    SignatureError
        No signature, a certificate that cannot be read, or one whose key did not sign this.
    """
    if not signature:
        message = f"{what} is not signed"
        raise SignatureError(message)
    document = _certificate(certificate, what)
    key = document.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        message = f"the certificate of {what} holds no key on an elliptic curve"
        raise SignatureError(message)
    try:
        key.verify(signature, signed_bytes(purpose, content), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature as error:
        message = f"{what} was changed, or not signed by the key of its certificate"
        raise SignatureError(message) from error
    try:
        return identity_in(document)
    except IdentityError as error:
        message = f"the certificate of {what} names no party of a study"
        raise SignatureError(message) from error


def require_issued(certificate: bytes, ca: bytes, *, what: str) -> None:
    """Raise `SignatureError` unless a certificate was signed by an authority (both PEM)."""
    document = _certificate(certificate, what)
    try:
        authority = x509.load_pem_x509_certificate(ca)
    except ValueError as error:
        message = "the authority's certificate is not PEM: take ca.pem from the operator"
        raise SignatureError(message) from error
    try:
        document.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        message = f"the certificate of {what} was not signed by the authority that was given"
        raise SignatureError(message) from error


def _certificate(pem: bytes, what: str) -> x509.Certificate:
    try:
        document = certificate_in(pem)
        document.public_key()
        _ = document.extensions  # parsed lazily; damaged ones are found here
    except (ValueError, UnsupportedAlgorithm) as error:
        message = f"the certificate of {what} cannot be read"
        raise SignatureError(message) from error
    return document
