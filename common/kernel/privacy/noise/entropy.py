"""Sources of random bytes.

A sampler takes its bytes from an `EntropySource` that its caller passes in; nothing in this package
draws from a generator of its own. There are three sources:

- `OperatingSystemEntropy`, the kernel's cryptographic generator. **A release starts from no
    other.** It has no seed and no state in this process, so a fork of the process cannot make it
  repeat bytes.
- `StreamEntropy`, a key stream whose key comes from another source, for draws that need a hundred
  bytes an entry. It is as good as its key; a release may use it where the kernel gives that.
- `SeededEntropy`, a key stream that can be repeated from its seed. Tests and benchmarks need
  repeatable draws; noise that can be repeated can be subtracted, so it protects no one.

A further source is any object with the one method; tests use that to feed chosen bits.
"""

import builtins
import hashlib
import os
from typing import Protocol, TypeVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

_KEY_BYTES = 32  # of AES-256

WordT = TypeVar("WordT", np.uint16, np.uint32, np.uint64)


class EntropySource(Protocol):
    """Supply of independent, uniformly distributed bytes."""

    def bytes(self, count: int) -> builtins.bytes:
        """Return the next `count` bytes; never fewer, and never the same bytes twice."""


class OperatingSystemEntropy:
    """Cryptographic generator of the operating system: the only source a release starts from."""

    __slots__ = ()

    def bytes(self, count: int) -> builtins.bytes:
        """Return `count` fresh bytes; block until the kernel's generator has been seeded."""
        return os.urandom(count)


class StreamEntropy:
    """AES-256 in counter mode under a key of 32 bytes from another source, for one vector of noise.

    *Why it is enough.* The key is uniform and used for nothing else. A test that distinguishes N
    blocks of 16 bytes from uniform ones with an advantage above N^2 / 2^129 also distinguishes
    AES-256 from a random permutation (Bellare and others 1997). A million Laplace shares take fewer
    than 2^24 blocks, so that is 2^-81. The guarantee becomes computational, as it is anyway where
    vectors are masked by streams of this cipher; the kernel's own generator is a stream cipher,
    too.

    *Limits.* The key is in the memory of the process while the object lives, and a fork or a copy
    of the machine made meanwhile would repeat the stream. So the object is made where a vector is
    drawn and dropped with it.

    ``source`` gives the key; `OperatingSystemEntropy` in a release.

    Reference: M. Bellare, A. Desai, E. Jokipii, P. Rogaway. "A concrete security treatment of
    symmetric encryption." FOCS 1997.
    """

    __slots__ = ("_stream",)

    def __init__(self, source: EntropySource) -> None:
        self._stream = _key_stream(source.bytes(_KEY_BYTES))

    def bytes(self, count: int) -> builtins.bytes:
        """Return the next `count` bytes of the stream."""
        return self._stream.update(builtins.bytes(count))


class SeededEntropy:
    """Repeatable stream for tests and benchmarks. A release never uses it.

    The stream is AES-256 in counter mode, keyed with the SHA-256 digest of the seed's decimal
    digits. It depends on the seed and on nothing else: neither on the platform nor on how the bytes
    are divided over calls. Different seeds give streams that behave as independent.
    """

    __slots__ = ("_stream",)

    def __init__(self, seed: int) -> None:
        self._stream = _key_stream(hashlib.sha256(str(int(seed)).encode("ascii")).digest())

    def bytes(self, count: int) -> builtins.bytes:
        """Return the next `count` bytes of the stream."""
        return self._stream.update(builtins.bytes(count))


def read_words(kind: type[WordT], count: int, *, entropy: EntropySource) -> NDArray[WordT]:
    """Read `count` little-endian words, so that a seeded stream means the same everywhere."""
    word: np.dtype[WordT] = np.dtype(kind).newbyteorder("<")
    return np.frombuffer(entropy.bytes(count * word.itemsize), dtype=word, count=count)


def _key_stream(key: builtins.bytes) -> CipherContext:
    return Cipher(algorithms.AES256(key), modes.CTR(builtins.bytes(16))).encryptor()
