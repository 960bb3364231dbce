"""Detectability: which relations between attributes a release shows above its noise.

It is found from released values alone.

For columns i, j of two attributes a release leaves a covariance T_ij with noise of variance S_ij
(`dppca.common.analysis.field.targets`, equation (1)). Rows are also a sample of people, and
means are not known exactly, so without any relation ::

    var T_ij = S_ij + var mu_i var mu_j + v_i v_j / n                                     (1)

The chance of an entry at least as large as the observed one follows from the noise's law with this
variance: the normal law, or the sum of m Laplace laws, whose tail is ``2 sum_j C(2m-j-1, m-j)
2^(j-2m) Q(j, x)`` with x in units of one law's scale and Q the tail of a gamma law. (One of two
gamma variables, each of m waiting times, is the larger by j of them: a race of fair coins.) A pair
of attributes has the least chance of its entries times their number (Bonferroni). The procedure of
Benjamini and Hochberg selects the pairs above the noise: on average at most 5 % of the selected
pairs have no relation.

Relations in the synthetic rows are a different question: the field keeps of T_ij the part ``T g /
(g + S)``, with g the prior's variance (`coupling_scales`). If no relation of an attribute is above
the noise and no kept correlation exceeds `FAINT`, the attribute is independent in the rows for
practical purposes. An attribute may be neither: the rows show relations of it, and any one of them
may be noise.

Limits: relations are covariances of coded columns: of a numeric's score, unless its bins have
products. An effect of a numeric on another only through its square is invisible, here and in the
rows.

Reference: Y. Benjamini, Y. Hochberg, Controlling the false discovery rate, 1995.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.field.targets import FieldTargets

FALSE_SHARE = 0.05
"""Largest average share of pairs without a relation among those reported above the noise."""
FAINT = 0.1
"""Largest correlation at which two attributes count as independent in the rows: 1 % of a
variance."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """Visibility of the relations between A attributes above the noise.

    Attributes
    ----------
    above
        Shape (A, A), symmetric: True for pairs whose relation stands above the noise.
    believed
        Shape (A, A), symmetric: the largest correlation, in size, that the field keeps between a
        column of one attribute and one of the other.
    noise
        Shape (A,): standard deviation of the noise of a correlation of the attribute with another,
        for the two columns with the least noise; the median over the other attributes.
    """

    above: NDArray[np.bool_]
    believed: NDArray[np.float64]
    noise: NDArray[np.float64]

    @property
    def alone(self) -> NDArray[np.bool_]:
        """Attributes that are independent in the rows for practical purposes, shape (A,)."""
        alone: NDArray[np.bool_] = ~self.above.any(axis=0) & (self.believed.max(axis=0) <= FAINT)
        return alone


def find_visible(
    targets: FieldTargets,
    scales: NDArray[np.float64],
    groups: Sequence[tuple[int, int]],
    *,
    n_rows: int,
    tail_probability: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Visibility:
    """Judge every pair of attributes.

    ``scales``, shape (p, p), is tau of each pair of columns (`coupling_scales`); ``groups`` has the
    first column of each attribute and the one after its last; ``n_rows >= 1`` are the rows of all
    owners; ``tail_probability`` gives the chance that an entry's noise is at least a number of
    standard deviations from 0, in either direction.
    """
    # (1): the variance of an entry without any relation.
    spread = np.outer(targets.variance, targets.variance)
    variance = (
        targets.noise_variance
        + np.outer(targets.mean_variance, targets.mean_variance)
        + spread / n_rows
    )
    chance = tail_probability(np.abs(targets.products) / np.sqrt(variance))
    # The part that the field keeps, g / (g + S), of each correlation.
    prior = (scales * spread) ** 2
    part = prior / (prior + targets.noise_variance)
    correlation = np.abs(targets.products) * part / np.sqrt(spread)
    of_correlation = np.sqrt(targets.noise_variance / spread)
    starts = [start for start, _ in groups]
    widths = [stop - start for start, stop in groups]
    # Bonferroni: the least chance of a pair's entries, times their number.
    chances = np.outer(widths, widths) * _of_pairs(
        np.minimum, np.where(targets.between, chance, 1.0), starts
    )
    pairs = np.triu_indices(len(groups), 1)
    above = np.zeros(chances.shape, bool)
    above[pairs] = _not_by_chance(np.minimum(chances[pairs], 1.0))
    believed = _of_pairs(np.maximum, np.where(targets.between, correlation, 0.0), starts)
    noise = _of_pairs(np.minimum, np.where(targets.between, of_correlation, np.inf), starts)
    others = ~np.eye(len(groups), dtype=bool)
    return Visibility(
        above | above.T,
        believed,
        np.median(noise[others].reshape(len(groups), -1), axis=1),
    )


def _of_pairs(
    ufunc: np.ufunc, entries: NDArray[np.float64], starts: Sequence[int]
) -> NDArray[np.float64]:
    """Least or largest entry, shape (p, p), of each pair of attributes, shape (A, A)."""
    found: NDArray[np.float64] = ufunc.reduceat(ufunc.reduceat(entries, starts, axis=0), starts, 1)
    return found


def _not_by_chance(chances: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Select chances that are small enough, by Benjamini and Hochberg; shape as given."""
    # All up to the last one, in ascending order, that is below its line: i-th of n, 5 % i / n.
    order = np.argsort(chances, kind="stable")
    bounds = FALSE_SHARE * np.arange(1, len(chances) + 1) / len(chances)
    passed = np.flatnonzero(chances[order] <= bounds)
    called = np.zeros(len(chances), bool)
    if len(passed):
        called[order[: passed[-1] + 1]] = True
    return called
