"""Noise laws in floating point, from closed forms and sums that the sampler does not use."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.noise.sampler import discrete_gaussian, discrete_laplace


@dataclass(frozen=True)
class Law:
    """A symmetric law on the integers: its width and P(X >= a), for a = 1, 2, ... ."""

    name: str
    scale: int
    width: float
    upper_tail: Callable[[NDArray[np.int64]], NDArray[np.float64]]

    def __str__(self) -> str:
        return f"{self.name}-{self.scale}"  # names a test, alike in every process

    def draw(self, size: int, *, seed: int) -> NDArray[np.int64]:
        sampler = discrete_laplace if self.name == "Laplace" else discrete_gaussian
        return sampler(self.scale, size, entropy=SeededEntropy(seed))


def laplace(scale: int) -> Law:
    def upper_tail(least: NDArray[np.int64]) -> NDArray[np.float64]:
        tail: NDArray[np.float64] = np.exp(-least / scale) / (1 + math.exp(-1 / scale))
        return tail

    return Law("Laplace", scale, float(scale), upper_tail)


def gaussian(sigma_squared: int) -> Law:
    sigma = math.sqrt(sigma_squared)

    def summed(least: NDArray[np.int64]) -> NDArray[np.float64]:
        weights = np.exp(-(np.arange(int(40 * sigma) + 2) ** 2.0) / (2 * sigma_squared))
        tails = np.cumsum(weights[::-1])[::-1]
        tail: NDArray[np.float64] = tails[np.minimum(least, len(tails) - 1)]
        tail /= 2 * tails[0] - 1
        return tail

    def integrated(least: NDArray[np.int64]) -> NDArray[np.float64]:
        # The midpoint rule is off by less than 1 / (24 sigma^2), below 1e-9 here.
        tail: NDArray[np.float64] = stats.norm.sf((least - 0.5) / sigma)
        return tail

    return Law("Gaussian", sigma_squared, sigma, summed if sigma < 10_000 else integrated)


def share_tail(least: NDArray[np.int64], *, scale: int, shape: float) -> NDArray[np.float64]:
    """P(X - Y >= a) for negative binomials X, Y of ``q = exp(-1 / scale)``, for each a of `least`.

    Y is cut into cells, single integers at first and 1/128 of an octave wide later, and X - Y is
    taken at their middles: off by less than 2e-6.
    """
    p = -math.expm1(-1 / scale)
    reach = 70 * scale + 1024
    wide = np.geomspace(512, reach, num=int(128 * math.log2(reach / 512)) + 2)
    starts = np.concatenate([np.arange(512), np.unique(np.round(wide))])
    beyond = np.append(special.betaincc(shape, starts[1:], p), 0.0)
    chances = np.append(1.0, beyond[:-1]) - beyond
    middles = (starts + np.append(starts[1:], starts[-1] + 1) - 1) / 2
    return np.array([chances @ special.betaincc(shape, a + middles, p) for a in least])


def fit_pvalue(samples: NDArray[np.int64], law: Law, *, n_bins: int) -> float:
    """Return the p-value of Pearson's chi-square, in bins of about equal probability."""
    quantiles = (quantile(law, tail) for tail in np.arange(n_bins // 2, 0, -1) / n_bins * 0.999)
    starts = np.unique([1, *quantiles]).astype(np.int64)
    return bins_pvalue(samples, starts, law.upper_tail(starts))


def bins_pvalue(
    samples: NDArray[np.int64], starts: NDArray[np.int64], tails: NDArray[np.float64]
) -> float:
    """Return the p-value of Pearson's chi-square, in pooled bins symmetric about zero.

    `tails` are P(X >= a) at the `starts` a >= 1 of the bins, which ascend.
    """
    one_side = np.append(tails[:-1] - tails[1:], tails[-1])
    probabilities = np.concatenate([one_side[::-1], [1 - 2 * tails[0]], one_side])

    places = np.searchsorted(starts, np.abs(samples), side="right")
    counts = np.bincount(places * np.sign(samples) + starts.size, minlength=probabilities.size)
    pooled = _pooled(counts, probabilities * samples.size)
    return float(stats.chisquare(*pooled, sum_check=False).pvalue)


def quantile(law: Law, tail: float) -> int:
    """Return approximately the ``a >= 1`` for which P(|X| >= a) is `tail`."""
    standard = -math.log(tail) if law.name == "Laplace" else float(stats.norm.isf(tail / 2))
    return max(1, round(law.width * standard))


def _pooled(
    counts: NDArray[np.int64], expected: NDArray[np.float64], *, least: float = 20.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Join neighbouring bins until each expects `least`; the remainder goes to the last."""
    joined: list[list[float]] = [[0.0, 0.0]]
    for count, expectation in zip(counts, expected, strict=True):
        if joined[-1][1] >= least:
            joined.append([0.0, 0.0])
        joined[-1][0] += count
        joined[-1][1] += expectation
    if joined[-1][1] < least:
        last = joined.pop()
        joined[-1] = [joined[-1][0] + last[0], joined[-1][1] + last[1]]
    observed, expectations = np.array(joined).T
    return observed, expectations


def wrapped_pvalue(samples: NDArray[np.int64]) -> float:
    """Return the p-value of Laplace noise of scale 2^62, which wraps around."""
    edges = np.linspace(-2.0, 2.0, 65)  # in units of 2^62
    turns = 4.0 * np.arange(-10, 11)[:, None]
    probabilities = np.diff(stats.laplace.cdf(edges + turns), axis=1).sum(axis=0)
    counts = np.bincount((samples >> 58) + 32, minlength=64)
    return float(stats.chisquare(counts, probabilities * samples.size).pvalue)


def low_bits_pvalue(samples: NDArray[np.int64]) -> float:
    return float(stats.chisquare(np.bincount(samples & 1023, minlength=1024)).pvalue)


def standard_correlation(series: NDArray[np.float64], *, lag: int) -> float:
    """Correlation of values at a distance, (n,), in standard deviations of independent ones."""
    centred = series - np.mean(series)
    correlation = np.mean(centred[lag:] * centred[:-lag]) / np.mean(centred**2)
    return float(abs(correlation) * math.sqrt(series.size))
