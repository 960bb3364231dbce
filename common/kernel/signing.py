"""Signatures by the parties' keys: ECDSA on P-256 with SHA-256, deterministic.

FIPS 186-5, RFC 6979: the same content signed again gives the same bytes, so files can be made
again. What is signed begins with a line that says what it is, so no signature can be used for
another purpose. A signature of ECDSA can be changed into a second valid one for the same content
by anybody: never identify a content by its signature.
"""

from enum import StrEnum

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec


class Purpose(StrEnum):
    """Purpose of a signature, which is in the first line of what is signed."""

    OPENER = "opener"
    """The key to which owners seal seeds, by the opener whose key it is."""
    UPLOAD = "masked upload"
    """An owner's statement of its masked vector and its seals."""
    VOTE = "vote"
    """An opener's word that it opens one set and no other."""
    OPENING = "opening"
    """An opener's sum of key streams over one set."""


def sign(key: ec.EllipticCurvePrivateKey, purpose: Purpose, content: bytes) -> bytes:
    """Signature in DER; the same each time."""
    algorithm = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
    return key.sign(signed_bytes(purpose, content), algorithm)


def is_signed(
    key: ec.EllipticCurvePublicKey, purpose: Purpose, content: bytes, signature: bytes
) -> bool:
    """Whether a signature (DER) is this key's, for this purpose, over this content."""
    try:
        key.verify(signature, signed_bytes(purpose, content), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def signed_bytes(purpose: Purpose, content: bytes) -> bytes:
    """Bytes that are signed: a line that names the purpose, then the content."""
    return f"dppca {purpose.value} 1\n".encode() + content
