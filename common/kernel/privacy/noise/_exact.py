"""Exact decisions about a uniform number of which only the first bits have been drawn.

Let ``U`` be uniform on [0, 1) and let `prefix` hold its first `bits` binary digits, so that

    prefix / 2^bits  <=  U  <  (prefix + 1) / 2^bits.

Given integers ``lower <= 2^bits * c <= upper``, the event ``U < c`` is certain once
``prefix + 1 <= lower`` and impossible once ``prefix >= upper``. In between, more digits of the same
``U`` are drawn and ``c`` is enclosed more tightly. So the answer is the answer for the infinitely
long ``U``: the probability of ``U < c`` is ``c`` itself, not ``c`` rounded to some precision
(Knuth and Yao 1976). Each further digit halves the probability of being undecided, so the loop ends
with probability one, usually where it began.

All arithmetic here is on Python integers, rounded outwards. No float takes part.

References
----------
D. E. Knuth, A. C. Yao. "The complexity of nonuniform random number generation." In *Algorithms and
Complexity: New Directions and Recent Results*, Academic Press, 1976.
"""

from typing import NamedTuple

from dppca.common.kernel.privacy.noise.entropy import EntropySource

# Undecided comparisons are rare; four bytes more leave the next one undecided once in 2^32 times.
_EXTENSION_BYTES = 4


class Enclosure(NamedTuple):
    """Integers on either side of ``2^bits`` times a real number; equal if it is representable."""

    lower: int
    upper: int


def extend_prefix(prefix: int, *, bits: int, entropy: EntropySource) -> tuple[int, int]:
    """Draw further digits of a uniform number; return the longer prefix and its length in bits."""
    digits = int.from_bytes(entropy.bytes(_EXTENSION_BYTES), "big")
    return prefix << (8 * _EXTENSION_BYTES) | digits, bits + 8 * _EXTENSION_BYTES


def is_below_exp(
    prefix: int, *, bits: int, numerator: int, denominator: int, entropy: EntropySource
) -> bool:
    """Decide ``U < exp(-numerator / denominator)`` for the uniform ``U`` that `prefix` begins.

    ``prefix`` has the first `bits` binary digits of ``U``, read as an integer; ``entropy`` supplies
    the further ones, if they are needed. The exponent is a non-negative fraction, which need not be
    in lowest terms.
    """
    while True:
        bound = enclose_exp(numerator, denominator, bits=bits)
        if prefix + 1 <= bound.lower:  # U lies below (prefix + 1) / 2^bits
            return True
        if prefix >= bound.upper:
            return False
        prefix, bits = extend_prefix(prefix, bits=bits, entropy=entropy)


def enclose_exp(numerator: int, denominator: int, *, bits: int) -> Enclosure:
    """Enclose ``2^bits * exp(-numerator / denominator)`` between two integers.

    The exponent is halved ``h`` times until it is at most one. There the terms of the exponential
    series alternate and do not grow, so the remainder is smaller than the first term left out. The
    sum is then squared ``h`` times. The two bounds are at most two units apart.
    """
    if numerator == 0:
        return Enclosure(1 << bits, 1 << bits)
    # x < 2^(1 + difference of the lengths), so that x / 2^halvings is at most one.
    halvings = max(0, numerator.bit_length() - denominator.bit_length() + 1)
    # A squaring doubles the relative error; the series has fewer terms than it has digits.
    guard = halvings + bits.bit_length() + 16
    precision = bits + guard
    value = _alternating_series(numerator, denominator << halvings, precision=precision)
    for _ in range(halvings):
        value = multiply(value, value, precision=precision)
    return Enclosure(value.lower >> guard, ceil_shift(value.upper, guard))


def multiply(left: Enclosure, right: Enclosure, *, precision: int) -> Enclosure:
    """Enclose the product of two enclosed non-negative numbers, all scaled by ``2^precision``."""
    return Enclosure(
        left.lower * right.lower >> precision, ceil_shift(left.upper * right.upper, precision)
    )


def ceil_shift(value: int, places: int) -> int:
    """Return ``value / 2^places`` rounded up."""
    return -(-value >> places)


def ceil_divide(value: int, divisor: int) -> int:
    """Return ``value / divisor`` rounded up."""
    return -(-value // divisor)


def _alternating_series(numerator: int, denominator: int, *, precision: int) -> Enclosure:
    """Enclose ``2^precision * exp(-x)`` for ``x = numerator / denominator`` in (0, 1]."""
    term = Enclosure(1 << precision, 1 << precision)
    lower = upper = 0
    index = 0
    while term.lower > 0:
        if index % 2 == 0:  # a term that is subtracted swaps its bounds
            lower, upper = lower + term.lower, upper + term.upper
        else:
            lower, upper = lower - term.upper, upper - term.lower
        index += 1
        divisor = denominator * index  # x^i / i! from the term before it
        term = Enclosure(
            term.lower * numerator // divisor, ceil_divide(term.upper * numerator, divisor)
        )
    # The remainder has the sign of the first term left out; either sign is allowed for.
    return Enclosure(lower - term.upper, upper + term.upper)
