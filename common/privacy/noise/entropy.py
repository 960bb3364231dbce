"""Where random bytes come from.

A sampler takes its bytes from an `EntropySource` that its caller passes in; nothing in this package
draws from a generator of its own. There are two sources:

- `OperatingSystemEntropy`, the kernel's cryptographic generator. **A release uses no other.** It
  has no seed and no state in this process, so a fork of the process cannot make it repeat itself.
- `SeededEntropy`, a key stream anyone who knows the seed can repeat. Tests and benchmarks need
  repeatable draws; noise that can be repeated can be subtracted, so it protects nobody.

A third source is any object with the one method; tests use that to feed chosen bits.
"""

from __future__ import annotations

import builtins
import hashlib
import os
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


class EntropySource(Protocol):
    """A supply of independent, uniformly distributed bytes."""

    def bytes(self, count: int) -> builtins.bytes:
        """Return the next `count` bytes; never fewer, and never the same bytes twice."""


class OperatingSystemEntropy:
    """The operating system's cryptographic generator: the only source a release uses."""

    __slots__ = ()

    def bytes(self, count: int) -> builtins.bytes:
        """Return `count` fresh bytes; blocks until the kernel's generator has been seeded."""
        return os.urandom(count)


class SeededEntropy:
    """A repeatable stream for tests and benchmarks. A release never uses it.

    The stream is AES-256 in counter mode, keyed with the SHA-256 digest of the seed's decimal
    digits. It depends on the seed and on nothing else: neither on the platform nor on how the
    bytes are divided over calls.

    Parameters
    ----------
    seed
        Any integer; different seeds give streams that behave as independent.
    """

    __slots__ = ("_stream",)

    def __init__(self, seed: int) -> None:
        key = hashlib.sha256(str(int(seed)).encode("ascii")).digest()
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(builtins.bytes(16))).encryptor()

    def bytes(self, count: int) -> builtins.bytes:
        """Return the next `count` bytes of the stream."""
        return self._stream.update(builtins.bytes(count))
