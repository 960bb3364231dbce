"""Discrete Laplace and discrete Gaussian noise, drawn exactly.

For an integer ``x`` and a public integer scale, the laws are

    discrete Laplace    P(x) ~ exp(-|x| / b)                                                    (1)
    discrete Gaussian   P(x) ~ exp(-x^2 / (2 sigma^2))                                          (2)

Given independent uniform bytes, the samples have these laws and not approximations to them. Privacy
rests on that: rounding in a sampler of real numbers leaves patterns in the low bits of the noise
that give the hidden value away (Mironov 2012), and a proof for (1) or (2) does not cover the law of
a sampler that is only nearly right.

**Construction.** A sign, ``+`` or ``-`` with probability 1/2, and a magnitude ``m`` with the
one-sided law ``exp(-m / b)`` or ``exp(-m^2 / (2 sigma^2))`` on 0, 1, 2, ...; the pair ``(-, 0)`` is
drawn again, as it would otherwise count zero twice (Canonne, Kamath and Steinke 2020, algorithm
2). The magnitude comes from the histogram in `_rejection`, whose cells are single integers for a
small scale and at most 1/32 of the scale wide for a large one. Canonne, Kamath and Steinke reach
(1) by repeated Bernoulli trials and (2) by rejection from (1). The histogram serves both: it
settles nearly every draw with one table look-up and one comparison, and rejects some two in a
hundred.

**Range.** A sample is the exact one modulo 2^64, read as a signed 64-bit integer. It is neither
clamped nor drawn again: both would change the law, whereas reduction modulo 2^64 is a function of
the exact sample and so costs no privacy. The study's limits, not this module, ensure that the sums
stay in range (`mechanisms`). Scales stop at 2^62, and sigma^2 at 2^124: noise beyond that fills the
whole range.

**Entropy.** A draw takes twelve to sixteen bytes, fetched some hundred kilobytes at a time. A
release passes `OperatingSystemEntropy`; there is no default, and no seed anywhere in this module.

References
----------
C. L. Canonne, G. Kamath, T. Steinke. "The discrete Gaussian for differential privacy." NeurIPS
2020.
I. Mironov. "On significance of the least significant bits for differential privacy." CCS 2012.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.noise._log_concave import LogConcaveLaw
from dppca.common.kernel.privacy.noise._rejection import RejectionEnvelope, build_envelope
from dppca.common.kernel.privacy.noise.entropy import EntropySource, read_words

LARGEST_SCALE = 2**62  # int64 sums would hold no wider noise
LARGEST_SIGMA_SQUARED = LARGEST_SCALE**2  # the same for Gaussian noise

# Cells per scale: 2^5 to 2^6. More would reject fewer draws and leave more to the slower searches.
_CELLS_LOG2 = 5

# Draws at a time: the data of one pass stay in a core's cache.
_BLOCK = 1 << 15

_WORD_BITS = 64  # binary digits drawn at once


class Magnitudes(NamedTuple):
    """Proposed draws from a law on 0, 1, 2, ..., (count,) each; the sampler's part without a sign.

    The proposed value is ``cells * 2^shift + offsets``, with the histogram's `shift`; ``accepted``
    is True for each draw to keep; ``digits`` are uniform words of which the last 7 bits have not
    been used.
    """

    cells: NDArray[np.int64]
    offsets: NDArray[np.uint64]
    accepted: NDArray[np.bool_]
    digits: NDArray[np.uint64]


def discrete_laplace(scale: int, size: int, *, entropy: EntropySource) -> NDArray[np.int64]:
    """Draw from the discrete Laplace law, ``P(x) ~ exp(-|x| / scale)``.

    Return samples modulo 2^64, (size,), a new array. Raise `SettingError` if `scale` or `size` is
    not an integer or is out of range. ``scale`` is ``b`` of equation (1), an integer in 1 ... 2^62;
    ``size`` the number of independent draws. A release passes `OperatingSystemEntropy`.
    """
    scale = require_integer(scale, name="scale", least=1, largest=LARGEST_SCALE)
    return _draw(laplace_histogram(scale), size=size, entropy=entropy)


def discrete_gaussian(
    sigma_squared: int, size: int, *, entropy: EntropySource
) -> NDArray[np.int64]:
    """Draw from the discrete Gaussian law, ``P(x) ~ exp(-x^2 / (2 sigma_squared))``.

    Return samples modulo 2^64, (size,), a new array. Raise `SettingError` if `sigma_squared` or
    `size` is not an integer or is out of range. ``sigma_squared`` is ``sigma^2`` of equation (2),
    an integer in 1 ... 2^124: the variance of the law is at most this, and equal to it for all
    practical purposes from about 4 on. ``size`` is the number of independent draws. A release
    passes `OperatingSystemEntropy`.
    """
    sigma_squared = require_integer(
        sigma_squared, name="sigma_squared", least=1, largest=LARGEST_SIGMA_SQUARED
    )
    law = LogConcaveLaw(linear=0, quadratic=1, denominator=2 * sigma_squared)
    histogram = _histogram(law, width=math.isqrt(sigma_squared))
    return _draw(histogram, size=size, entropy=entropy)


def laplace_histogram(scale: int) -> RejectionEnvelope:
    """Return the histogram above ``exp(-m / scale)`` on 0, 1, 2, ..., a geometric law."""
    return _histogram(LogConcaveLaw(linear=1, quadratic=0, denominator=scale), width=scale)


def propose_magnitudes(
    histogram: RejectionEnvelope, count: int, *, entropy: EntropySource
) -> Magnitudes:
    """Propose `count` draws from a histogram's law; the accepted ones follow it exactly."""
    digits = read_words(np.uint64, count, entropy=entropy)
    cells = histogram.cells(read_words(np.uint32, count, entropy=entropy), entropy=entropy)
    # The offset is the leading bits of a word: at most 57.
    if histogram.shift == 0:
        return Magnitudes(cells, np.zeros_like(digits), np.ones(count, dtype=np.bool_), digits)
    offsets = digits >> np.uint64(_WORD_BITS - histogram.shift)
    accepted = histogram.accept(
        read_words(np.uint32, count, entropy=entropy),
        cells=cells,
        offsets=offsets,
        entropy=entropy,
    )
    return Magnitudes(cells, offsets, accepted, digits)


def require_integer(value: object, *, name: str, least: int, largest: int) -> int:
    """Return an integer in `least` ... `largest` as an int; SettingError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise SettingError(f"{name} must be an integer, not {value!r}")
    if not least <= int(value) <= largest:
        raise SettingError(f"{name} is {value}; it must lie in {least} ... {largest}")
    return int(value)


def _histogram(law: LogConcaveLaw, *, width: int) -> RejectionEnvelope:
    return build_envelope(law, max(0, width.bit_length() - 1 - _CELLS_LOG2))


def _draw(histogram: RejectionEnvelope, *, size: int, entropy: EntropySource) -> NDArray[np.int64]:
    size = require_integer(size, name="size", least=0, largest=np.iinfo(np.intp).max)
    samples = np.empty(size, dtype=np.uint64)
    filled = 0
    while filled < size:
        accepted = _one_pass(histogram, min(size - filled, _BLOCK), entropy=entropy)
        samples[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return samples.view(np.int64)


def _one_pass(
    histogram: RejectionEnvelope, count: int, *, entropy: EntropySource
) -> NDArray[np.uint64]:
    """Propose `count` samples and return those that are accepted, in two's complement."""
    cells, offsets, accepted, digits = propose_magnitudes(histogram, count, entropy=entropy)
    # The sign is the last bit of the word whose leading bits are the offset.
    negative = digits & np.uint64(1)
    accepted &= (negative == 0) | (cells != 0) | (offsets != 0)
    # Unsigned arithmetic on arrays is arithmetic modulo 2^64.
    magnitudes = (cells.astype(np.uint64) << np.uint64(histogram.shift)) + offsets
    samples: NDArray[np.uint64] = (magnitudes ^ (np.uint64(0) - negative)) + negative
    return samples[accepted]
