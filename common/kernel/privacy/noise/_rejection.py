"""Exact draws from a decaying law on 0, 1, 2, ... by rejection under a histogram.

The law is ``P(m) ~ exp(-phi(m))`` with ``phi(m) = (l m + q m^2) / d`` for integers ``l, q >= 0``
and ``d >= 1``. The line is cut into cells of ``h = 2^shift`` integers. Above each cell stands the
weight of its left end, which is its largest:

    weight
      |##
      |##### ..          #  the law
      |########## ..     .  the envelope that is not the law: a draw falling here is rejected
      |################ ...
      +-----+-----+-----+-----
      0     h     2h    3h

A draw is a cell ``k``, with probability ``exp(-phi(k h)) / (sum over j of exp(-phi(j h)))``, an
offset ``r`` uniform on 0 ... h - 1, and an acceptance with probability

    exp(-(phi(k h + r) - phi(k h)))  =  exp(-r (l + q (2 k h + r)) / d).                        (1)

The product of the three is proportional to ``exp(-phi(k h + r))``. Where ``h`` is at most 1/32 of
the law's width, nearly every draw is accepted; where ``h = 1``, every draw is.

**Exactness.** Offsets are bits. Cell and acceptance each compare one uniform number with constants,
and a comparison is always *decided*, never rounded; `_exact` explains that. Most are decided on few
bits by vectorised shortcuts, each of which answers "certain" or "open":

1. Cell, 16 bits: a table gives the cell if no cell's end lies in this 2^-16 of the unit interval.
2. Cell, 32 bits: binary search among integer bounds of every cell's end.
3. Acceptance, 32 bits: certain if ``U <= 1 - e``, since ``1 - e <= exp(-e)``; here ``e`` is the
   largest exponent in the cell, rounded up.
4. Acceptance, 32 bits: certain, either way, if ``U`` is further than `_MARGIN` from a float64 value
   of ``exp(-e)``, with ``e <= 1/2`` the exponent in (1).
5. An open comparison is settled in Python integers, with further bits of the same uniform number.

**The margin.** Write ``u = 2^-53``. In (1) every operand is non-negative and every operation
rounds by a factor within ``1 +- u``; there are at most ten of them, conversions included, so the
computed exponent is within ``11 u e < 2^-50`` of the true one, and so is its exponential. The
series to degree 8 leaves out less than ``e^9 / 9! < 2^-27.4``. Horner's rule with rounded
coefficients is off by at most ``18 u exp(e) < 2^-48`` (Higham 2002, section 5.1). All together
stay below 2^-27, and that is `_MARGIN`. Only +, -, * and / are used, which IEEE 754 rounds
correctly: no bound rests on the quality of a library's `exp`.

**Limits.** Time and the number of bytes used depend on the values drawn; an observer who can
measure the process finely learns something of the noise.

References
----------
L. Devroye. *Non-Uniform Random Variate Generation*, chapters II.3 and VIII. Springer, 1986.
N. J. Higham. *Accuracy and Stability of Numerical Algorithms*, 2nd ed. SIAM, 2002.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.privacy.noise._exact import extend_prefix, is_below_exp
from dppca.common.kernel.privacy.noise._log_concave import LogConcaveLaw, enclose_cell_ends
from dppca.common.kernel.privacy.noise.entropy import EntropySource

_MARGIN = 2.0**-27  # of a float64 value; the module's head has the bound
_LARGEST_FLOAT_EXPONENT = 0.5  # up to which the series is that exact
_SERIES = tuple((-1) ** k / math.factorial(k) for k in range(8, -1, -1))

_WORD_BITS = 32  # random, for each decision
_TABLE_BITS = 16  # of them, by which the table decides
_OPEN = -1  # mark of what the table leaves open

_TABLES_KEPT = 16  # one for each scale in use


@dataclass(frozen=True, slots=True, eq=False)
class RejectionEnvelope:
    """Histogram above one law, with the tables of its shortcuts; made by `build_envelope`.

    Attributes
    ----------
    shift
        The binary logarithm of the width of a cell.
    table : (2^16,)
        The cell by the first 16 bits of the uniform number, or -1 where they leave it open.
    lower, upper : (n_cells + 1,), (n_cells,)
        Bounds of the right end of each cell, in units of 2^-32; the extra 0 of `lower` leaves
        all numbers beyond the last cell open.
    safe : (n_cells + 1,)
        A 32-bit value below this one is accepted for every offset in the cell.
    """

    law: LogConcaveLaw
    shift: int
    table: NDArray[np.int16]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    safe: NDArray[np.uint32]

    def cells(self, words: NDArray[np.uint32], *, entropy: EntropySource) -> NDArray[np.int64]:
        """Return the cell, (size,), of each uniform number, given its first 32 bits."""
        # Shortcut 1.
        cells: NDArray[np.int64] = self.table[words >> (_WORD_BITS - _TABLE_BITS)].astype(np.int64)
        still_open = np.flatnonzero(cells == _OPEN)
        # Shortcut 2: every end before this place is at or below U; certain if its own is above U.
        places = np.searchsorted(self.upper, words[still_open], side="right")
        certain = words[still_open] < self.lower[places]
        cells[still_open[certain]] = places[certain]
        # Shortcut 5.
        for index in still_open[~certain]:
            cells[index] = self._settle_cell(int(words[index]), entropy=entropy)
        return cells

    def accept(
        self,
        words: NDArray[np.uint32],
        *,
        cells: NDArray[np.int64],
        offsets: NDArray[np.uint64],
        entropy: EntropySource,
    ) -> NDArray[np.bool_]:
        """Return a mask, (size,), of the draws to keep, given 32 bits of a uniform number each."""
        # Shortcut 3; "clip" sends a cell beyond the tables to the extra 0, which leaves it open.
        accepted = words < self.safe.take(cells, mode="clip")
        unsafe = np.flatnonzero(~accepted)
        exponents = self._exponents(cells[unsafe], offsets[unsafe])
        values = _exponentials(np.minimum(exponents, _LARGEST_FLOAT_EXPONENT))
        # Shortcut 4: U lies in [ends, ends + 2^-32); all of it must be on one side of the margin.
        ends = np.ldexp(words[unsafe].astype(np.float64), -_WORD_BITS)
        above = ends >= values + _MARGIN
        below = ends + 2.0**-_WORD_BITS <= values - _MARGIN
        certain = (above | below) & (exponents <= _LARGEST_FLOAT_EXPONENT)
        accepted[unsafe] = below
        # Shortcut 5; is_below_exp draws the further bits.
        for index in unsafe[~certain]:
            accepted[index] = is_below_exp(
                int(words[index]),
                bits=_WORD_BITS,
                numerator=self.law.increase(int(cells[index]) << self.shift, int(offsets[index])),
                denominator=self.law.denominator,
                entropy=entropy,
            )
        return accepted

    def _settle_cell(self, word: int, *, entropy: EntropySource) -> int:
        prefix, bits = word, _WORD_BITS
        while True:
            prefix, bits = extend_prefix(prefix, bits=bits, entropy=entropy)
            lower, upper = enclose_cell_ends(self.law, self.shift, bits)
            cell = bisect_right(upper, prefix)
            if cell < len(lower) and prefix < lower[cell]:
                return cell

    def _exponents(
        self, cells: NDArray[np.int64], offsets: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        """Evaluate the exponent of (1); see "The margin" above for its error."""
        # k h; then l + q (2 k h + r).
        starts = np.ldexp(cells.astype(np.float64), self.shift)
        steps = offsets.astype(np.float64)
        slopes = self.law.linear + self.law.quadratic * (2.0 * starts + steps)
        return steps * slopes / float(self.law.denominator)


@lru_cache(maxsize=_TABLES_KEPT)
def build_envelope(law: LogConcaveLaw, shift: int) -> RejectionEnvelope:
    """Build the histogram with cells of ``2^shift`` integers above a law.

    This takes some milliseconds. It depends on the public scale alone, never on data, so the cache
    of the last few reveals nothing.
    """
    ends = enclose_cell_ends(law, shift, _WORD_BITS)
    lower = np.array([*ends[0], 0], dtype=np.int64)
    upper = np.array(ends[1], dtype=np.int64)

    # Shortcut 1: a bucket holds the words with the same first 16 bits; all must end in one cell.
    buckets = np.arange(1 << _TABLE_BITS, dtype=np.int64) << (_WORD_BITS - _TABLE_BITS)
    places = np.searchsorted(upper, buckets, side="right")
    certain = buckets + (1 << (_WORD_BITS - _TABLE_BITS)) <= lower[places]
    table = np.where(certain, places, _OPEN).astype(np.int16)

    # Shortcut 3: (1) grows with r, so the last offset has the largest exponent of the cell.
    widest = (1 << shift) - 1
    safe = [
        _safe_below(law.increase(cell << shift, widest), law.denominator)
        for cell in range(len(upper))
    ]
    return RejectionEnvelope(
        law=law,
        shift=shift,
        table=table,
        lower=lower,
        upper=upper,
        safe=np.array([*safe, 0], dtype=np.uint32),
    )


def _safe_below(numerator: int, denominator: int) -> int:
    """Return ``2^32 (1 - numerator / denominator)`` rounded down and limited to 32 bits."""
    whole = 1 << _WORD_BITS
    return min(max(0, (denominator - numerator) * whole // denominator), whole - 1)


def _exponentials(exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Evaluate the series of ``exp(-exponent)`` to degree 8 by Horner's rule."""
    values = np.full_like(exponents, _SERIES[0])
    for coefficient in _SERIES[1:]:
        values *= exponents
        values += coefficient
    return values
