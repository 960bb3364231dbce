"""Seeds sealed to an opener: HPKE (RFC 9180) in base mode, with X25519 and ML-KEM-768 together.

The suite is `cryptography`'s: KEM MLKEM768-X25519 (draft-ietf-hpke-pq), HKDF-SHA256,
ChaCha20-Poly1305. A sealed seed stays secret unless both X25519 and ML-KEM-768 (FIPS 203) are
broken. ``info`` names study, owner and opener, so a seal opens for that owner only. A seal does not
identify its maker: the owner's signature covers it.

A public key is ML-KEM's 1184 bytes, then X25519's 32; a secret key is the 64 bytes of ML-KEM's seed
(d, z), then X25519's 32. A seal of n bytes has n + 1136.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

from dppca.common.kernel.errors import ArtefactError, SealError, StudyError
from dppca.common.kernel.privacy.noise.entropy import EntropySource

SEAL_OVERHEAD = 1136  # bytes: 1088 of ML-KEM-768, 32 of X25519, a tag of 16
_LATTICE_SECRET, _SECRET = 64, 96  # bytes; the second with 32 of X25519
_LATTICE_PUBLIC, _PUBLIC = 1184, 1216  # bytes, likewise
_PROBE: Final = X25519PrivateKey.from_private_bytes(bytes(32))
"""Test key that refuses points of small order, to which every seal would fail."""
_SUITE: Final = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


@dataclass(frozen=True)
class OpenerKey:
    """An opener's secret key, 96 bytes, for one study; destroyed once its sums are stored."""

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != _SECRET:
            raise ArtefactError(f"an opener key has {_SECRET} bytes, not {len(self.secret)}")

    @property
    def public(self) -> bytes:
        """Public key, 1216 bytes."""
        lattice, curve = self._halves
        return lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()

    @property
    def key_id(self) -> str:
        """SHA-256 of the public key, hexadecimal."""
        return hashlib.sha256(self.public).hexdigest()

    def unseal(self, seal: bytes, info: bytes) -> bytes:
        """Open a seal; `SealError` if it was not made for this key with this ``info``."""
        try:
            return _SUITE.decrypt(seal, MLKEM768X25519PrivateKey(*self._halves), info=info)
        except InvalidTag as error:
            raise SealError("a seal does not open with this key, for this owner") from error

    @cached_property
    def _halves(self) -> tuple[MLKEM768PrivateKey, X25519PrivateKey]:
        return (
            MLKEM768PrivateKey.from_seed_bytes(self.secret[:_LATTICE_SECRET]),
            X25519PrivateKey.from_private_bytes(self.secret[_LATTICE_SECRET:]),
        )


def make_opener_key(entropy: EntropySource) -> OpenerKey:
    """Return a fresh key."""
    return OpenerKey(entropy.bytes(_SECRET))


def load_public_key(content: bytes, *, what: str) -> MLKEM768X25519PublicKey:
    """Load a public key; `StudyError` if it is invalid."""
    if len(content) != _PUBLIC:
        raise StudyError(f"{what} has {len(content)} bytes, not {_PUBLIC}")
    try:
        lattice = MLKEM768PublicKey.from_public_bytes(content[:_LATTICE_PUBLIC])
        curve = X25519PublicKey.from_public_bytes(content[_LATTICE_PUBLIC:])
        _PROBE.exchange(curve)
    except ValueError as error:
        raise StudyError(f"nothing can be sealed to {what}") from error
    return MLKEM768X25519PublicKey(lattice, curve)


def seal(secret: bytes, public: bytes, info: bytes, *, what: str) -> bytes:
    """Seal to a public key."""
    return _SUITE.encrypt(secret, load_public_key(public, what=what), info=info)
