"""A share of a group's rows, by a test that few events do not mislead.

The rows' part of the variance is that of the share that is tested, not of the estimated one: with 0
of 2,000 events the estimate says that nothing varies. With A / B the share of a label in a group,
noise of covariance V and n rows, the set has all r in [0, 1] with ::

    (|A - r B| - 1 / 2n)^2 <= z^2 (V_11 - 2 r V_12 + r^2 V_22 + r (1 - r) B / n)

which is Wilson's set with the correction for counting where there is no noise, and Fieller's where
there are no rows to sample. Both ends are roots of a quadratic equation. A group whose size the
noise hides excludes nothing.

Source: E. B. Wilson, JASA 22 (1927) 209-212; R. G. Newcombe, Statist. Med. 17 (1998) 857-872,
method 4; E. C. Fieller (1954); joined for this project.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np

from dppca.common.analysis.estimates.intervals import quantile
from dppca.common.analysis.estimates.noise import Array


@dataclass(frozen=True, slots=True)
class ShareSet:
    """The set of A / B: ``numbers`` (A, B), ``noise`` their covariance (2, 2), of ``rows`` rows."""

    numbers: tuple[float, float]
    noise: Array
    rows: float
    kurtosis: float = 0.0
    pvalue: None = None
    lowest: float = 0.0
    highest: float = 1.0

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends, between 0 and 1."""
        low, high = self._ends(quantile(alpha, excess=self.kurtosis) ** 2)
        return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)

    def _ends(self, square: float) -> Iterator[float]:
        """Yield the lower end about A, at most B, and the upper one about A, at least 0."""
        (above, below), v = self.numbers, self.noise
        per_row, half = max(below, 0.0) / self.rows, 0.5 / self.rows
        first = below**2 - square * (v[1, 1] - per_row)
        for sign, a in ((-1, min(above, below) - half), (1, max(above, 0.0) + half)):
            second = a * below - square * (v[0, 1] - per_row / 2)
            rest = second**2 - first * (a**2 - square * v[0, 0])
            inside = a > 0 if sign < 0 else a < below
            known = inside and below > 0 and first > 0 and rest >= 0
            yield (second + sign * sqrt(rest)) / first if known else (1 + sign) / 2

    def variance(self) -> tuple[float, float]:
        """Return the parts of noise and of sampling in the variance, at the nearest possible r."""
        above, below = self.numbers
        r = min(max(above / below, 0.0), 1.0) if below else 0.0
        line = np.array([1.0, -r])
        noise = float(line @ self.noise @ line)
        return noise / below**2, r * (1 - r) / (abs(below) * self.rows)
