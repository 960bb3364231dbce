"""Tests of noise against its exact law, with bounded false alarms; all functions are pure.

* `dkw`: largest distance of an empirical distribution from the exact one; Massart (1990) bounds
  ``P(sup |F_n - F| > t)`` by ``2 exp(-2 n t^2)`` for every F, discrete ones too.
* `bins`: counts in bins of known probability; binomial tails, exact, by the union bound. `extremes`
  does the same for the largest and smallest magnitudes, where a cut tail or a bare entry shows.
* `magnitudes`: centred variables in [-1/2, 1/2] of variance at most 1/12; Bernstein's inequality
  bounds ``P(|mean| > t)`` by ``2 exp(-n t^2 / (1/6 + t/3))``. It sees a scale that is off by less
  than the distance does.
* `digits`: a law whose probabilities rise and fall once, none above p, has each bit j within
  ``2^(j - 1) p`` of a fair coin; Hoeffding bounds the rest. And the noise has no common grid.
* `repeats`: pairs of equal magnitudes. If ``L`` pairs are expected, k disjoint ones are there with
  probability at most ``L^k / k!``, as disjoint pairs are independent.
* `correlations`: products of two independent variables in [-1/2, 1/2] of mean 0; Hoeffding (1963)
  bounds ``P(|mean| > t)`` by ``2 exp(-8 n t^2)``. `echoes` takes the products of a sequence with
  itself at every lag: their partial sums are a martingale, to which Azuma's same bound applies.
* `bits`: bits of information in a sampler's output. A run that has used c fair bits has
  probability ``2^-c``, so an output of probability P cannot come from fewer than ``-log2 P`` bits.
"""

from math import exp, lgamma, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.stats import binom

from dppca.common.kernel.privacy.noise_law import IndependentLaw

_N_BINS = 16  # of equal probability
_RARE = 20  # expected draws beyond the outermost place that `extremes` looks at
_FLAT = 1e-4  # largest bias of a bit that `digits` looks at
_LOW_BITS = 16  # of a draw, which are judged one by one
_FIRST = 1 << 14  # draws at a time
_CHUNK = 1 << 18  # entries that `echoes` compares with each other


def likeliest(law: IndependentLaw) -> float:
    """Return the largest probability of the law: that of 0."""
    return exp(-float(law.neg_log_pmf(np.zeros(1, np.int64))[0]))


def bits(law: IndependentLaw, noise: NDArray[np.int64]) -> float:
    """Return ``-log2`` of the probability of noise of any shape."""
    return float(law.neg_log_pmf(noise).sum() / log(2))


def centred(law: IndependentLaw, x: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the midpoint of the distribution function's step at x, less 1/2; its mean is 0."""
    return (law.cdf(x) + law.cdf(x - 1)) / 2 - 0.5


def magnitudes(law: IndependentLaw, x: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the midpoint of the step of ``P(|noise| <= |x|)``, less 1/2; its mean is 0."""
    m = np.abs(x)
    below: NDArray[np.float64] = np.maximum(1.0 - 2.0 * law.cdf(-m), 0.0)
    return (below + 1.0 - _beyond(law, m)) / 2 - 0.5


def dkw(noise: NDArray[np.int64], law: IndependentLaw) -> float:
    """Return ``sup |F_n - F|`` of a sample, shape (n,)."""
    ordered = np.sort(noise)
    n = len(ordered)
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), n - 1)
    values, upto = ordered[ends], (ends + 1) / n
    at = np.abs(upto - law.cdf(values))
    before = np.abs(np.concatenate([[0.0], upto[:-1]]) - law.cdf(values - 1))
    return float(max(at.max(), before.max()))


def dkw_limit(n: int, level: float) -> float:
    """Return the limit that `dkw` exceeds with probability at most ``level``."""
    return sqrt(log(2 / level) / (2 * n))


def mean_limit(n: int, level: float) -> float:
    """Return the limit that a mean of n `magnitudes` exceeds with probability at most ``level``."""
    nats = log(2 / level)
    return (nats / 3 + sqrt(nats**2 / 9 + 2 * n * nats / 3)) / (2 * n)


def bins(noise: NDArray[np.int64], law: IndependentLaw) -> float:
    """Return the smallest binomial tail of counts in bins, times the number of tails; shape (n,).

    Under the law the result is at most x with probability at most x.
    """
    reach = int(np.abs(noise).max()) + 1
    edges = np.unique([_quantile(law, i / _N_BINS, reach) for i in range(1, _N_BINS)])
    steps = np.concatenate([[0.0], law.cdf(edges), [1.0]])
    counts = np.bincount(np.searchsorted(edges, noise, side="left"), minlength=len(edges) + 1)
    return _smallest_tail(counts, len(noise), np.diff(steps))


def extremes(noise: NDArray[np.int64], law: IndependentLaw) -> tuple[float, float]:
    """Return `bins` of the smallest magnitudes, 0 among them, and of the largest; shape (n,)."""
    ordered = np.sort(np.abs(noise))
    n, largest = len(ordered), law.largest(len(ordered))
    if ordered[-1] > largest:
        return 1.0, 0.0
    rare = [_RARE * 4**i / n for i in range(n.bit_length()) if _RARE * 4**i < n / 4]
    small = np.unique([0, *(-_quantile(law, (1 - chance) / 2, largest) for chance in rare)])
    large = np.unique([-_quantile(law, chance / 2, largest) for chance in rare])
    upto = np.searchsorted(ordered, small, side="right")
    beyond = n - np.searchsorted(ordered, large, side="right")
    return (
        _smallest_tail(upto, n, 1.0 - _beyond(law, small)),
        _smallest_tail(beyond, n, _beyond(law, large)) if len(large) else 1.0,
    )


def digits(noise: NDArray[np.int64], law: IndependentLaw, level: float) -> list[str]:
    """Return what is wrong with the low bits of a sample, shape (n,); empty if nothing is."""
    steps = noise - noise[0]
    grid = int(np.gcd.reduce(steps[:_FIRST]))  # a sample's grid divides that of its first draws
    grid = grid if grid == 1 else int(np.gcd.reduce(steps))
    faults = [f"all draws lie on a grid of {grid}"] if grid != 1 else []
    n, ones = len(noise), np.zeros(_LOW_BITS, np.int64)
    for begin in range(0, n, _FIRST):
        words = noise[begin : begin + _FIRST].astype("<i8").view("<u2")[::4, None]
        coins = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        ones += coins.sum(axis=0, dtype=np.int64)
    biases = 2.0 ** np.arange(-1, _LOW_BITS - 1) * likeliest(law)
    limits = biases + sqrt(log(2 * _LOW_BITS / level) / (2 * n))
    wrong = np.flatnonzero((biases <= _FLAT) & (np.abs(ones / n - 0.5) > limits))
    return faults + [f"bit {bit} is 1 in {ones[bit]} of {n} draws" for bit in wrong]


def repeats(noise: NDArray[np.int64], law: IndependentLaw, level: float) -> tuple[int, int]:
    """Return how often a magnitude came again, in noise of any shape, and how often it may.

    It exceeds that with probability at most ``level``. A narrow law may repeat without limit.
    """
    n = noise.size
    ordered = np.sort(np.abs(noise), axis=None)
    again = int((ordered[1:] == ordered[:-1]).sum())
    expected = n * (n - 1) * likeliest(law)  # pairs, n (n - 1)/2, times at most 2 p
    if expected > n / 4:
        return again, n
    pairs = 1
    while pairs * log(expected) - lgamma(pairs + 1) > log(level):
        pairs += 1 + pairs // 64
    return again, 2 * pairs - 1


def correlations(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return mean products of columns, shape (d, d), of two samples (n, d) in [-1/2, 1/2]."""
    products: NDArray[np.float64] = first.T @ second / len(first)
    return products


def correlation_limit(n: int, level: float) -> float:
    """Return the limit that one mean product exceeds with probability at most ``level``."""
    return sqrt(log(2 / level) / (8 * n))


def echoes(
    signed: NDArray[np.float64], unsigned: NDArray[np.float64], level: float
) -> tuple[float, int]:
    """Return the largest mean product at any lag as a share of its limit, and its lag.

    The sequences, shape (n,), are `centred` and `magnitudes` of the same draws, in the order in
    which they were drawn; each is compared with itself and with the other one. The share exceeds 1
    with probability at most ``level``. Entries further apart than 2^17 are not compared.
    """
    chunk = min(len(signed), _CHUNK)
    n_lags = max(chunk // 2, 1)
    sums, counts = np.zeros((4, n_lags)), np.zeros(n_lags)
    for begin in range(0, len(signed), chunk):
        a, b = signed[begin : begin + chunk], unsigned[begin : begin + chunk]
        first, second = rfft(a, 2 * chunk), rfft(b, 2 * chunk)
        crossed = irfft(np.conj(first) * second, 2 * chunk)
        sums += [
            irfft(np.abs(first) ** 2, 2 * chunk)[:n_lags],
            irfft(np.abs(second) ** 2, 2 * chunk)[:n_lags],
            crossed[:n_lags],
            np.concatenate([crossed[:1], crossed[:-n_lags:-1]]),
        ]
        counts += np.maximum(len(a) - np.arange(n_lags), 0)
    sums[:2, 0] = 0.0  # each draw with itself
    limits = np.sqrt(log(2 * sums.size / level) * counts / 8)
    shares = np.abs(sums).max(axis=0) / limits
    return float(shares.max()), int(shares.argmax())


def _beyond(law: IndependentLaw, m: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ``P(|noise| > m)``, by the left tail, which loses no digits."""
    return 2.0 * law.cdf(-m - 1)


def _smallest_tail(counts: NDArray[np.int64], n: int, chances: NDArray[np.float64]) -> float:
    tails = np.minimum(binom.cdf(counts, n, chances), binom.sf(counts - 1, n, chances))
    return float(min(1.0, tails.min() * 2 * len(chances)))


def _quantile(law: IndependentLaw, chance: float, reach: int) -> int:
    low, high = -reach, reach
    while low < high:
        middle = (low + high) // 2
        if law.cdf(np.array([middle]))[0] >= chance:
            high = middle
        else:
            low = middle + 1
    return low
