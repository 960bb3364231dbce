"""Tests of noise against its exact law, with bounded false alarms; all functions are pure.

* `dkw`: largest distance of an empirical distribution from the exact one; Massart (1990) bounds
  ``P(sup |F_n - F| > t)`` by ``2 exp(-2 n t^2)`` for every F, discrete ones too.
* `bins`: counts in bins of known probability; binomial tails, exact, by the union bound.
* `correlations`: products of two independent variables in [-1/2, 1/2] of mean 0; Hoeffding (1963)
  bounds ``P(|mean| > t)`` by ``2 exp(-8 n t^2)``.
* `bits`: bits of information in a sampler's output. A run that has used c fair bits has
  probability ``2^-c``, so an output of probability P cannot come from fewer than ``-log2 P`` bits.
"""

from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dppca.common.privacy.laws import NoiseLaw

_N_BINS = 16


def bits(law: NoiseLaw, noise: NDArray[np.int64]) -> float:
    """Return ``-log2`` of the probability of noise of any shape."""
    return float(law.nats(noise).sum() / log(2))


def centred(law: NoiseLaw, x: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the midpoint of the distribution function's step at x, less 1/2; its mean is 0."""
    return (law.below(x) + law.below(x - 1)) / 2 - 0.5


def dkw(noise: NDArray[np.int64], law: NoiseLaw) -> float:
    """Return ``sup |F_n - F|`` of a sample, shape (n,)."""
    ordered = np.sort(noise)
    n = len(ordered)
    values, counts = np.unique(ordered, return_counts=True)
    upto = np.cumsum(counts) / n
    at = np.abs(upto - law.below(values))
    before = np.abs(np.concatenate([[0.0], upto[:-1]]) - law.below(values - 1))
    return float(max(at.max(), before.max()))


def dkw_limit(n: int, level: float) -> float:
    """Return the limit that `dkw` exceeds with probability at most ``level``."""
    return sqrt(log(2 / level) / (2 * n))


def bins(noise: NDArray[np.int64], law: NoiseLaw) -> float:
    """Return the smallest binomial tail of counts in bins, times the number of tails; shape (n,).

    Under the law the result is at most x with probability at most x.
    """
    reach = int(np.abs(noise).max()) + 1
    edges = np.unique([_quantile(law, i / _N_BINS, reach) for i in range(1, _N_BINS)])
    steps = np.concatenate([[0.0], law.below(edges), [1.0]])
    counts = np.bincount(np.searchsorted(edges, noise, side="left"), minlength=len(edges) + 1)
    n, chances = len(noise), np.diff(steps)
    tails = np.minimum(binom.cdf(counts, n, chances), binom.sf(counts - 1, n, chances))
    return float(min(1.0, tails.min() * 2 * len(chances)))


def correlations(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return mean products of columns, shape (d, d), of two samples (n, d) in [-1/2, 1/2]."""
    products: NDArray[np.float64] = first.T @ second / len(first)
    return products


def correlation_limit(n: int, level: float) -> float:
    """Return the limit that one mean product exceeds with probability at most ``level``."""
    return sqrt(log(2 / level) / (8 * n))


def _quantile(law: NoiseLaw, chance: float, reach: int) -> int:
    low, high = -reach, reach
    while low < high:
        middle = (low + high) // 2
        if law.below(np.array([middle]))[0] >= chance:
            high = middle
        else:
            low = middle + 1
    return low
