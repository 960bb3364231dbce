"""Shares of one mechanism's noise: several owners draw them apart, and they add up to its noise.

Each of `honest` owners, ``h`` below, adds one share to its own sums.

**Laplace, exactly.** Let ``q = exp(-1/b)``. Discrete Laplace noise of scale ``b`` is the difference
of two geometric variables, and so has the generating function

    E z^X = ((1 - q) / (1 - q z)) ((1 - q) / (1 - q / z)),                                      (1)

and a share is a variable of which (1) is the h-th power: a difference of two negative binomials
(Polya variables) of shape 1/h. It is drawn from one geometric variable, ``P(g) = (1 - q) q^g``:

    n = g, X = 0
    while n > 0:   draw a length L uniformly from 1 ... n, and an owner uniformly from 1 ... h
                   owner 1: X += L;   owner 2: X -= L;   n -= L                                 (2)

*Proof.* The L are the lengths of the cycles of a uniformly random permutation of g things: the
cycle of the first has a length uniform on 1 ... g, and the others are permuted uniformly. By the
exponential formula for permutations (Stanley 1999, corollary 5.1.9), with r = 1/h,

    sum over g of u^g E[z^X | g]  =  exp(sum over L >= 1 of (1 - 2r + r z^L + r z^-L) u^L / L)
                                  =  (1 - u)^-(1 - 2r)  (1 - u z)^-r  (1 - u / z)^-r.

At u = q, times 1 - q, the h-th power of this is (1). So h is at least 2, and nothing but uniform
integers is needed beside the geometric variable that `sampler` draws exactly: no gamma function.

A length is ``n - (w mod n)`` for a random word w. Words of the last, incomplete round of n are
refused, and so are 16-bit words for the owner beyond the last multiple of h; a refused pair leaves
n and X as they were. Some ``ln b + 0.6`` pairs are needed, in words of 64, 32 or 16 bits as n asks
for. A g beyond 64 bits begins in Python integers; X is the exact one modulo 2^64, as in `sampler`.

**Gaussian, with an error far below any charge.** A share is discrete Gaussian noise of variance
``v = ceil(sigma^2 / h) + 1``. The sum S of h shares is *not* discrete Gaussian. Let G be discrete
Gaussian with variance ``h v`` in each entry. One share more on k shares multiplies the bounds of
the ratio of probabilities S : G by the bounds of a theta function, a constant times ``1 - a`` and
``1 + a`` for ``a = 2 sum over j >= 1 of exp(-2 pi^2 v j^2 k/(k + 1))``. So for h shares in one
entry

    log of (largest ratio / least ratio)  <=  tau,
    tau = 10 sum over k = 1 ... h - 1 of exp(-2 pi^2 v k/(k + 1))  <=  10 h exp(-pi^2 v).       (3)

Two vectors of D sums that differ by Delta in L2, noised by S, have the Renyi divergence

    D_alpha  <=  alpha Delta^2 / (2 h v)  +  tau D     for every alpha > 1                      (4)

(Kairouz, Liu and Steinke 2021): ratios of probabilities of S and of G agree up to a factor of
e^tau, and the exponential moments of S stay below the moments of the normal law of variance h v.

From v = 64 on tau is below h 10^-273, and a smaller v is refused. The + 1 pays for it: h v is at
least ``sigma^2 + h``, so (4) is at most ``alpha rho`` for the mechanism's
``rho = Delta^2 / (2 sigma^2)`` if ``tau D <= rho h / (sigma^2 + h)``. For h <= 2^15 and D <= 10^12
that is so whenever rho is above 10^-250. The charge is rho, without a supplement.

**More honest owners than h** add further independent noise. That is post-processing of a sum that
is private already: more noise, never a weaker guarantee. Fewer than h are not covered: alone, a
Gaussian share has variance v, and a Laplace share protects nothing, as it is often exactly 0.

**Limits.** Time depends on the draws, as in `sampler`: here it reveals roughly the largest of some
ten thousand. Laplace shares come from a `StreamEntropy` keyed by the caller's source.

References
----------
S. Goryczka, L. Xiong. "A comprehensive comparison of multiparty secure additions with differential
privacy." IEEE TDSC, 2017.
P. Kairouz, Z. Liu, T. Steinke. "The distributed discrete Gaussian mechanism for federated learning
with secure aggregation." ICML 2021, theorem 1 and proposition 14.
R. P. Stanley. *Enumerative Combinatorics*, volume 2. Cambridge University Press, 1999.
"""

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.noise._rejection import RejectionEnvelope
from dppca.common.kernel.privacy.noise.entropy import (
    EntropySource,
    StreamEntropy,
    WordT,
    read_words,
)
from dppca.common.kernel.privacy.noise.sampler import (
    LARGEST_SCALE,
    LARGEST_SIGMA_SQUARED,
    discrete_gaussian,
    laplace_histogram,
    propose_magnitudes,
    require_integer,
)

LEAST_SHARE_VARIANCE = 64  # below it a sum of shares is not close enough to the law
MOST_HONEST = 2**15  # owners on whose shares a guarantee may rest

# Entries at a time, and cycles before entries that are done are put away: both by measurement.
_BLOCK = 1 << 15
_CYCLES_AT_ONCE = 2

_OWNER_BITS = 16  # of a random word that gives a cycle to an owner


def laplace_share(
    scale: int, honest: int, size: int, *, entropy: EntropySource
) -> NDArray[np.int64]:
    """Draw shares of which `honest` independent ones add up to discrete Laplace noise.

    Return shares modulo 2^64, (size,), a new array. Raise `SettingError` if an argument is not an
    integer or is out of range. ``scale`` is ``b`` of the sum, an integer in 1 ... 2^62; ``honest``
    is ``h``, the number of shares that make one mechanism, an integer in 2 ... 2^15; ``size`` the
    number of entries, each with a share of its own. ``entropy`` gives the stream's key; a release
    passes `OperatingSystemEntropy`.
    """
    scale = require_integer(scale, name="scale", least=1, largest=LARGEST_SCALE)
    honest = _require_honest(honest)
    size = require_integer(size, name="size", least=0, largest=np.iinfo(np.intp).max)
    histogram = laplace_histogram(scale)
    stream = StreamEntropy(entropy)
    shares = np.empty(size, dtype=np.uint64)
    for begin in range(0, size, _BLOCK):
        block = shares[begin : begin + _BLOCK]
        block[:] = _draw_block(histogram, honest, block.size, entropy=stream)
    return shares.view(np.int64)


def gaussian_share(
    sigma_squared: int, honest: int, size: int, *, entropy: EntropySource
) -> NDArray[np.int64]:
    """Draw shares of which `honest` independent ones add up to noise that satisfies equation (4).

    Return shares modulo 2^64, (size,), a new array. Raise `SettingError` if an argument is not an
    integer or is out of range, or a share's variance is below 64. ``sigma_squared`` is ``sigma^2``
    of the mechanism that is charged, an integer in 1 ... 2^124; ``honest`` and ``size`` are as in
    `laplace_share`. A release passes `OperatingSystemEntropy`.
    """
    variance = gaussian_share_variance(sigma_squared, honest)
    return discrete_gaussian(variance, size, entropy=entropy)


def gaussian_share_variance(sigma_squared: int, honest: int) -> int:
    """Return ``v = ceil(sigma_squared / honest) + 1``, in the units of `sigma_squared`.

    Raise `SettingError` if an argument is not an integer or is out of range, or v is below 64.
    """
    sigma_squared = require_integer(
        sigma_squared, name="sigma_squared", least=1, largest=LARGEST_SIGMA_SQUARED
    )
    honest = _require_honest(honest)
    variance = -(-sigma_squared // honest) + 1
    if variance < LEAST_SHARE_VARIANCE:
        raise SettingError(
            f"Gaussian noise of variance {sigma_squared} in {honest} shares leaves each a variance "
            f"of {variance}; below {LEAST_SHARE_VARIANCE} their sum is not close enough to "
            "Gaussian noise. Take a smaller epsilon, a finer grid or fewer owners"
        )
    return variance


def _require_honest(honest: object) -> int:
    return require_integer(honest, name="honest", least=2, largest=MOST_HONEST)


def _draw_block(
    histogram: RejectionEnvelope, honest: int, count: int, *, entropy: EntropySource
) -> NDArray[np.uint64]:
    """Draw `count` geometric totals and the share of each, in two's complement."""
    left = np.empty(count, dtype=np.uint64)
    shares = np.zeros(count, dtype=np.uint64)
    filled = 0
    while filled < count:
        cells, offsets, accepted, _ = propose_magnitudes(histogram, count - filled, entropy=entropy)
        cells, offsets = cells[accepted], offsets[accepted]
        # g of (2), modulo 2^64.
        left[filled : filled + cells.size] = (
            cells.astype(np.uint64) << np.uint64(histogram.shift)
        ) + offsets
        for index in np.flatnonzero(cells >> (64 - histogram.shift)):
            # A g beyond 64 bits, in Python integers: what wrapped above is overwritten.
            total = (int(cells[index]) << histogram.shift) + int(offsets[index])
            rest, share = _begin_share(total, honest, entropy=entropy)
            left[filled + index], shares[filled + index] = rest, share % 2**64
        filled += cells.size
    _finish_shares(left, shares, honest, entropy=entropy)
    return shares


def _begin_share(total: int, honest: int, *, entropy: EntropySource) -> tuple[int, int]:
    """Take cycles from any total until the rest fits 64 bits; return the rest and the share."""
    share = 0
    while total >> 64:
        rest = _uniform_below(total, entropy=entropy)  # n - L, uniform on 0 ... n - 1
        owner = _uniform_below(honest, entropy=entropy)
        share += (total - rest) * ((owner == 0) - (owner == 1))
        total = rest
    return total, share


def _uniform_below(bound: int, *, entropy: EntropySource) -> int:
    """Draw an integer uniform on 0 ... bound - 1, of any size."""
    bits = (bound - 1).bit_length()
    while True:
        drawn = int.from_bytes(entropy.bytes(-(-bits // 8)), "little") & ((1 << bits) - 1)
        if drawn < bound:
            return drawn


def _finish_shares(
    left: NDArray[np.uint64],
    shares: NDArray[np.uint64],
    honest: int,
    *,
    entropy: EntropySource,
) -> None:
    """Take all cycles from `left`, (count,), and add what is given to `shares`, (count,)."""
    # The narrowest words that hold n: a length costs as few bytes as n asks for.
    _take_cycles(np.uint64, left, shares, honest, least=2**32, entropy=entropy)
    _take_cycles(np.uint32, left, shares, honest, least=2**16, entropy=entropy)
    _take_cycles(np.uint16, left, shares, honest, least=1, entropy=entropy)


def _take_cycles(
    kind: type[WordT],
    left: NDArray[np.uint64],
    shares: NDArray[np.uint64],
    honest: int,
    *,
    least: int,
    entropy: EntropySource,
) -> None:
    """Take cycles by words of one kind from every total that is `least` or more, until none is."""
    places = np.flatnonzero(left >= least)
    rest = left[places].astype(kind)
    given = np.zeros(places.size, dtype=np.int64)
    while places.size:
        for _ in range(_CYCLES_AT_ONCE):
            words = read_words(kind, places.size, entropy=entropy)
            owners = read_words(np.uint16, places.size, entropy=entropy)
            rest, step = _next_cycle(rest, words, owners, honest=honest)
            given += step
        going = rest >= least
        done = np.flatnonzero(~going)
        left[places[done]] = rest[done]
        shares[places[done]] += given[done].view(np.uint64)
        kept = np.flatnonzero(going)
        places, rest, given = places[kept], rest[kept], given[kept]


def _next_cycle(
    rest: NDArray[WordT], words: NDArray[WordT], owners: NDArray[np.uint16], *, honest: int
) -> tuple[NDArray[WordT], NDArray[np.int64]]:
    """Take one cycle from every rest that is not 0: a word for its length, one for its owner.

    Return the rest that is left, and the growth of the share modulo 2^64, (count,) each; where a
    word is refused the former is unchanged and the latter is 0.
    """
    # A rest of 0 counts as 1 here: both its remainder and its length are 0.
    bound = np.maximum(rest, 1)
    left = words % bound  # n - L
    # The round of n words that w is in begins at w - (w mod n). It is complete up to 2^bits - n.
    refused = np.flatnonzero(words - left > np.negative(bound))
    left[refused] = rest[refused]
    # Owner 1 has the first words_an_owner of the 16-bit words, owner 2 the next as many.
    words_an_owner = (1 << _OWNER_BITS) // honest
    if words_an_owner * honest < 1 << _OWNER_BITS:
        refused = np.flatnonzero(owners >= words_an_owner * honest)
        left[refused] = rest[refused]
    first = owners < words_an_owner
    # Modulo 2^16: words of owner 1 wrap to large numbers.
    second = (owners - np.uint16(words_an_owner)) < words_an_owner
    signs = first.view(np.int8) - second.view(np.int8)
    return left, (rest - left).astype(np.int64) * signs
