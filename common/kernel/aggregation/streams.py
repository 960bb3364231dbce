"""Masks: uniform 64-bit words from a seed, added to a vector modulo 2^64.

The words come from AES-256 in counter mode from counter 0 (NIST SP 800-38A), with a key that
HKDF-SHA256 (RFC 5869) derives from the seed, for one owner and one stream of one study. Words are
little-endian. A seed is fresh for each owner, stream and study, so no two masks share a key stream.
"""

from typing import Final

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from dppca.common.kernel.aggregation.framing import frame
from dppca.common.kernel.aggregation.terms import Terms

SEED_BYTES = 32  # of a stream of masks
Words = NDArray[np.uint64]
_CHUNK: Final = 1 << 15  # words; fits a core's cache
_ZEROS: Final = memoryview(bytes(8 * _CHUNK))


def add_stream(total: Words, terms: Terms, seed: bytes, *, owner: str, stream: int) -> None:
    """Add an owner's mask to a vector in place, modulo 2^64."""
    _combine(np.add, total, _key(terms, seed, owner, stream))


def subtract_stream(total: Words, terms: Terms, seed: bytes, *, owner: str, stream: int) -> None:
    """Subtract an owner's mask from a vector in place, modulo 2^64."""
    _combine(np.subtract, total, _key(terms, seed, owner, stream))


def _key(terms: Terms, seed: bytes, owner: str, stream: int) -> bytes:
    info = frame("mask", bytes.fromhex(terms.digest), owner.encode(), str(stream).encode())
    return HKDF(hashes.SHA256(), 32, None, info).derive(seed)


def _combine(operation: np.ufunc, total: Words, key: bytes) -> None:
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    words = np.empty(_CHUNK + 2, "<u8")  # update_into needs room for one more block
    into = words.view(np.uint8).data
    for begin in range(0, total.size, _CHUNK):
        part = total[begin : begin + _CHUNK]
        encryptor.update_into(_ZEROS[: 8 * part.size], into)
        operation(part, words[: part.size], out=part)
