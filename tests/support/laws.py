"""The noise laws in floating point, from closed forms and sums that the sampler does not use."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dppca.common.privacy.noise.entropy import SeededEntropy
from dppca.common.privacy.noise.sampler import discrete_gaussian, discrete_laplace


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
