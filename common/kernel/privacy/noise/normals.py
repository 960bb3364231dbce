"""Normal noise, drawn exactly, as many binary digits of it as anyone asks for.

A draw is a sign and a magnitude ``k + u``, with k = 0, 1, 2, ... and u in [0, 1):

1. k has the law ``P(k) ~ exp(-k^2 / 2)``, drawn by the histogram of `_rejection`;
2. u is uniform: its digits are bits, drawn when they are needed;
3. the draw is kept with probability ``exp(-u^2 / 2) exp(-u)^k``, which is
   ``exp(-(k + u)^2 / 2) / exp(-k^2 / 2)``.

So a kept magnitude has the density of the half normal law and no other: nothing is rounded. Some
seven in ten are kept. What is returned are its first digits; the rest exists as bits that are not
drawn yet, and `refine` draws more.

**Exactness.** The third step makes 1 + k comparisons of a fresh uniform V with ``exp(-t)``, where t
is at most 1. Most are decided on 32 bits of V and a float64 value; the others in Python integers
(`_exact`), with more digits of V and, where it takes them, of u.

**The margin.** The series to degree 12 leaves out at most ``1 / 13! < 2^-32``; t is computed within
2^-51, and Horner's rule is off by at most ``26 * 2^-53 e < 2^-46``: together below 2^-31. V lies in
an interval of 2^-32. `_MARGIN` is 2^-27.

Source: the decomposition is that of Karney (2016), "Sampling exactly from the normal distribution",
ACM Transactions on Mathematical Software 42, with another way of deciding.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.privacy.noise._exact import enclose_exp, extend_prefix
from dppca.common.kernel.privacy.noise._log_concave import LogConcaveLaw
from dppca.common.kernel.privacy.noise._rejection import build_envelope
from dppca.common.kernel.privacy.noise.entropy import EntropySource, read_words
from dppca.common.kernel.privacy.noise.sampler import propose_magnitudes

_MARGIN = 2.0**-27  # of a float64 value; the module's head has the bound
_SERIES = tuple((-1) ** k / math.factorial(k) for k in range(12, -1, -1))
_BLOCK = 1 << 15  # numbers proposed at once, for memory
_WORD_BITS = 64  # binary digits drawn at once
_FIRST_WORDS = 1  # of digits; more are drawn where they are needed


class Normals(NamedTuple):
    """Independent standard normal numbers, their first digits: (n,) each but the last.

    ``digits`` has shape (words, n): the binary digits of u, 64 a word, the first word first. The
    magnitude lies in ``[v, v + 2^-(64 words))`` with v = whole + 0.digits.
    """

    negative: NDArray[np.bool_]
    whole: NDArray[np.int64]
    digits: NDArray[np.uint64]


def exact_normals(count: int, *, entropy: EntropySource) -> Normals:
    """Draw independent standard normal numbers, with 64 binary digits or more after the point."""
    parts: list[Normals] = []
    missing = count
    while missing > 0:
        proposed = min(_BLOCK, missing + missing // 2 + 8)
        kept = _one_pass(proposed, entropy=entropy)
        parts.append(
            Normals(kept.negative[:missing], kept.whole[:missing], kept.digits[:, :missing])
        )
        missing -= parts[-1].whole.size
    words = max((each.digits.shape[0] for each in parts), default=_FIRST_WORDS)
    parts = [refine(each, words, entropy=entropy) for each in parts]
    return Normals(
        np.concatenate([np.empty(0, np.bool_), *(each.negative for each in parts)]),
        np.concatenate([np.empty(0, np.int64), *(each.whole for each in parts)]),
        np.concatenate([np.empty((words, 0), np.uint64), *(each.digits for each in parts)], axis=1),
    )


def refine(normals: Normals, words: int, *, entropy: EntropySource) -> Normals:
    """Return the same numbers with ``words`` words of digits at least."""
    more = words - normals.digits.shape[0]
    if more <= 0:
        return normals
    fresh = read_words(np.uint64, more * normals.whole.size, entropy=entropy)
    digits = np.concatenate([normals.digits, fresh.reshape(more, -1).astype(np.uint64)])
    return Normals(normals.negative, normals.whole, digits)


def _one_pass(count: int, *, entropy: EntropySource) -> Normals:
    """Propose ``count`` numbers and return those that are kept."""
    histogram = build_envelope(LogConcaveLaw(linear=0, quadratic=1, denominator=2), 0)
    proposed = propose_magnitudes(histogram, count, entropy=entropy)
    fractions = _Fractions(count, entropy=entropy)
    kept = np.ones(count, np.bool_)
    for trial in range(int(proposed.cells.max(initial=0)) + 1):
        places = np.flatnonzero(kept & (proposed.cells >= trial))
        kept[places] = fractions.is_below(places, squared=trial == 0)
    return Normals(
        (proposed.digits[kept] & np.uint64(1)).astype(np.bool_),
        proposed.cells[kept],
        fractions.digits[:, kept],
    )


class _Fractions:
    """Uniform numbers u on [0, 1), of which the first digits have been drawn."""

    def __init__(self, count: int, *, entropy: EntropySource) -> None:
        self._entropy = entropy
        words = read_words(np.uint64, count * _FIRST_WORDS, entropy=entropy)
        self.digits: NDArray[np.uint64] = words.reshape(_FIRST_WORDS, count).astype(np.uint64)

    def is_below(self, places: NDArray[np.intp], *, squared: bool) -> NDArray[np.bool_]:
        """Decide ``V < exp(-t)`` for a fresh uniform V each; t is ``u^2 / 2``, or u."""
        words = read_words(np.uint32, places.size, entropy=self._entropy)
        u = np.ldexp(self.digits[0, places].astype(np.float64), -_WORD_BITS)
        values = np.full_like(u, _SERIES[0])
        exponents = u * u / 2 if squared else u
        for coefficient in _SERIES[1:]:
            values *= exponents
            values += coefficient
        ends = np.ldexp(words.astype(np.float64), -32)
        below: NDArray[np.bool_] = ends + 2.0**-32 <= values - _MARGIN
        for index in np.flatnonzero(~below & (ends < values + _MARGIN)):
            below[index] = self._settle(int(places[index]), int(words[index]), squared=squared)
        return below

    def _settle(self, place: int, prefix: int, *, squared: bool) -> bool:
        """Decide the comparison of one V, of which 32 bits are known."""
        bits = 32
        while True:
            least, step = self._prefix(place)
            most = least + 1
            if squared:
                least, most, step = least * least, most * most, 2 * step * step
            lower = enclose_exp(most, step, bits=bits).lower
            upper = enclose_exp(least, step, bits=bits).upper
            if prefix + 1 <= lower:
                return True
            if prefix >= upper:
                return False
            prefix, bits = extend_prefix(prefix, bits=bits, entropy=self._entropy)
            if bits > _WORD_BITS * self.digits.shape[0]:
                self._extend()

    def _prefix(self, place: int) -> tuple[int, int]:
        """Return ``2^b u`` rounded down, and ``2^b``, for the b digits that are drawn."""
        value = 0
        for word in self.digits[:, place]:
            value = value << _WORD_BITS | int(word)
        return value, 1 << _WORD_BITS * self.digits.shape[0]

    def _extend(self) -> None:
        """Draw one more word of digits of every number."""
        words = read_words(np.uint64, self.digits.shape[1], entropy=self._entropy)
        self.digits = np.concatenate([self.digits, words[None].astype(np.uint64)])
