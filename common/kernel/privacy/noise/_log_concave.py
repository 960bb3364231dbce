"""Decaying laws on 0, 1, 2, ... and their cumulative probabilities, enclosed between integers.

A law is ``P(m) ~ exp(-phi(m))`` with the quadratic ``phi`` of `LogConcaveLaw`: the one-sided
discrete Laplace law for ``m / b``, the one-sided discrete Gaussian for ``m^2 / (2 sigma^2)``. A
sampler compares its uniform number with the cumulative probabilities of

    P(cell k) = exp(-phi(k h)) / (sum over j >= 0 of exp(-phi(j h))),

which must be available to any precision. The weights follow from two exponentials:

    exp(-phi((k + 1) h)) / exp(-phi(k h)) = exp(-phi(h)) * exp(-2 q h^2 / d)^k.

These ratios do not grow with ``k``, so that the weights from cell ``K`` on sum to at most a
geometric series, ``exp(-phi(K h)) / (1 - ratio_K)``. Once that is far below the required precision,
the other cells can be left out.
"""

from dataclasses import dataclass
from functools import lru_cache

from dppca.common.kernel.privacy.noise._exact import Enclosure, ceil_divide, enclose_exp, multiply

# Bits beyond the asked precision: some for rounding, fewer for the cells that are left out.
_GUARD_BITS = 64
_TAIL_BITS = 16

# A law needs two lists as a rule: 32 bits for the tables, 64 for what those leave open.
_LISTS_KEPT = 16


@dataclass(frozen=True, slots=True)
class LogConcaveLaw:
    """Exponent ``phi(m) = (linear * m + quadratic * m^2) / denominator``, not constant."""

    linear: int
    quadratic: int
    denominator: int

    def increase(self, start: int, offset: int) -> int:
        """Return the numerator of ``phi(start + offset) - phi(start)``."""
        return offset * (self.linear + self.quadratic * (2 * start + offset))


@lru_cache(maxsize=_LISTS_KEPT)
def enclose_cell_ends(
    law: LogConcaveLaw, shift: int, bits: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Enclose the cumulative probability of each cell, in units of ``2^-bits``.

    The cells are ``2^shift`` integers wide, ``h`` above. Return non-decreasing lower bounds and
    non-decreasing upper bounds, (n_cells,) each. As `bits` grows, bounds tighten and more cells are
    listed.
    """
    precision = bits + _GUARD_BITS
    one = 1 << precision
    width = 1 << shift
    ratio = enclose_exp(law.increase(0, width), law.denominator, bits=precision)
    shrinkage = enclose_exp(2 * law.quadratic * width * width, law.denominator, bits=precision)
    weight = Enclosure(one, one)  # exp(-phi(0)); each turn multiplies by the ratio of its cell
    total = Enclosure(0, 0)
    totals = []
    while weight.upper >> (_GUARD_BITS - _TAIL_BITS):
        total = Enclosure(total.lower + weight.lower, total.upper + weight.upper)
        totals.append(total)
        weight = multiply(weight, ratio, precision=precision)
        ratio = multiply(ratio, shrinkage, precision=precision)
    # The geometric series of all cells from here on, rounded up.
    left_out = ceil_divide(weight.upper << precision, one - ratio.upper)
    # Outwards: a lower bound divides by the largest possible sum of weights, an upper by the least.
    largest = total.upper + left_out
    smallest = total.lower
    return (
        tuple((end.lower << bits) // largest for end in totals),
        tuple(min(1 << bits, ceil_divide(end.upper << bits, smallest)) for end in totals),
    )
