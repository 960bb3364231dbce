"""Raking: weights of rows drawn from a field, so that they meet noised counts of partitions.

A field knows pairs of attributes. Where a release also counts rows in tables and trees, rows drawn
from the field are weighted by the law nearest to it (of least relative entropy) among ::

    q(x) ~ p(x) exp( sum_k theta_k[cell of x in partition k] )                             (1)

that meets the released shares y as far as their noise allows. For counts without noise this is
raking, which iterative proportional fitting solves. With m the shares under q, s^2 the variance of
the noise on a share and m0 the shares under the field, a coefficient has the prior ``N(0, t_k^2)``,
and as ``dm/dtheta`` is near m0, at the most probable coefficients ::

    y - m = s^2 theta / (t_k^2 m0)                                                         (2)

t_k of each partition maximises the likelihood of its shares, ``y - m0 ~ N(0, s^2 + (t_k m0)^2)``,
over cells that the field reaches; the others cannot be met by weights. The shares of each single
attribute take part as further partitions, because weights would otherwise change them. Where they
are a guess, they hold no better than that, and the numeric's mean and mean square take part beside
them: equation (1) then has a term that is linear in each, in units of its deviation. (2) is the
stationary point of a convex function of theta, which L-BFGS minimises.

The expectations are over a pool of rows, whose weights say how many rows it is worth:
``(sum w)^2 / sum w^2``. All work uses one thread, in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

_WIDTHS = np.geomspace(0.01, 3.0, 25)  # t_k that are tried
_MARGINAL_WIDTH = 3.0  # t_k of single attributes
_MARGINAL_NOISE = 1e-3
"""Deviation within which single attributes are met: quotas of the rows correct the rest."""
_LEAST_DEVIATION = 1e-9  # of a number's values, for one that is the same everywhere
_STEPS = 120  # of the solver at most

Vector = NDArray[np.float64]
Codes = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Counted:
    """The released share of the rows in each cell of a partition, shape (n_cells,), and its noise.

    ``noise`` is the standard deviation of each share, or of all; ``width`` is that of the prior, or
    None if the shares decide it.
    """

    shares: Vector
    noise: float | Vector
    width: float | None = None

    @classmethod
    def marginal(cls, shares: Vector, deviation: Vector | float = 0.0) -> Counted:
        """Return the shares of a single attribute; without their deviation they are known well."""
        return cls(shares, np.maximum(deviation, _MARGINAL_NOISE), _MARGINAL_WIDTH)


@dataclass(frozen=True, slots=True)
class KnownMean:
    """A number of each row, shape (n_rows,), whose mean is released, with its noise's deviation."""

    values: Vector
    mean: float
    noise: float


@dataclass(frozen=True, slots=True)
class TiltQuality:
    """Agreement of weighted rows with the released counts, and what weights leave of the rows."""

    worth: Annotated[
        float, "rows without weights that the weighted rows are worth, as a share of all of them"
    ]
    missed: Annotated[
        float,
        "root mean square of what is missed, in standard deviations of the noise; 1 is as far off "
        "as the noise",
    ]


@dataclass(frozen=True, slots=True)
class Tilt:
    """Coefficients of equation (1), shape (cells of all partitions,), and what follows from them.

    ``theta`` also has the coefficients of known means. ``weights``, of sum 1, are those of the
    pool's rows, shape (n_rows,); ``shares`` are the weighted rows' in each partition.
    """

    theta: Vector
    weights: Vector
    shares: tuple[Vector, ...]
    quality: TiltQuality


def fit_tilt(
    cells: Sequence[Codes],
    counted: Sequence[Counted],
    means: Sequence[KnownMean] = (),
    *,
    like: Tilt | None = None,
) -> Tilt:
    """Fit the coefficients on a pool of rows, by the cell of each in every partition.

    The search begins from the coefficients of ``like``, a fit on another pool.
    """
    from scipy.optimize import minimize
    from scipy.sparse import csr_array, hstack

    n_rows = len(cells[0])
    sizes = [len(each.shares) for each in counted]
    starts = np.cumsum([0, *sizes[:-1]])
    # member has a row for each row of the pool, with a 1 for its cell in each partition.
    index = np.stack([start + each for start, each in zip(starts, cells, strict=True)], axis=1)
    member = csr_array(
        (np.ones(index.size), index.ravel(), np.arange(n_rows + 1) * len(counted)),
        shape=(n_rows, sum(sizes)),
    )
    first = np.bincount(index.ravel(), minlength=sum(sizes)) / n_rows
    shares = np.concatenate([each.shares for each in counted])
    noise = np.concatenate(
        [np.broadcast_to(each.noise, size) for each, size in zip(counted, sizes, strict=True)]
    )
    widths = [
        _width(each, first[start : start + size])
        for each, start, size in zip(counted, starts, sizes, strict=True)
    ]
    # s^2 / (t_k^2 m0) of (2); a cell that no row reaches counts as one row's.
    precision = noise**2 / (np.repeat(widths, sizes) ** 2 * np.maximum(first, 1 / n_rows))
    if means:  # in units of their deviation from what is released, which is 0 then
        values = np.stack([each.values - each.mean for each in means], axis=1)
        scale = np.maximum(values.std(axis=0), _LEAST_DEVIATION)
        member = csr_array(hstack([member, csr_array(values / scale)]))
        shares = np.concatenate([shares, np.zeros(len(means))])
        of_means = (np.array([each.noise for each in means]) / scale / _MARGINAL_WIDTH) ** 2
        precision = np.concatenate([precision, of_means])
    transposed = csr_array(member.T)

    # ln sum exp(scores) - y theta + prior: convex, and its gradient is 0 where (2) holds.
    def objective(theta: Vector) -> tuple[float, Vector]:
        scores = member @ theta
        top = scores.max()  # taken out, so that no exponential overflows
        weights = np.exp(scores - top)
        total = weights.sum()
        moved = transposed @ (weights / total) - shares + precision * theta
        value = top + np.log(total) - shares @ theta + 0.5 * precision @ theta**2
        return float(value), moved

    found = minimize(
        objective,
        np.zeros(len(shares)) if like is None else like.theta,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _STEPS},
    )
    weights = _normalised(member @ found.x)
    found_shares = (transposed @ weights)[: sum(sizes)]
    of_tables = np.repeat([each.width is None for each in counted], sizes) & (first > 0)
    misses = ((shares[: sum(sizes)] - found_shares) / noise)[of_tables]
    worth, missed = 1 / np.square(weights).sum() / n_rows, np.sqrt(np.mean(misses**2))
    return Tilt(
        found.x,
        weights,
        tuple(np.split(found_shares, starts[1:])),
        TiltQuality(float(worth), float(missed)),
    )


def sample_by_weight(
    weights: Vector, n_rows: int, rng: np.random.Generator, *, order: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Choose rows in proportion to their weights, by systematic sampling, in a random order.

    Each row is chosen ``n_rows`` times its weight, rounded up or down; so are the rows of each cell
    together if those of one cell follow each other in ``order``, a permutation of all rows.
    """
    places = (rng.random() + np.arange(n_rows)) / n_rows
    chosen = np.searchsorted(np.cumsum(weights[order]), places).clip(max=len(weights) - 1)
    return rng.permutation(order[chosen])


def _normalised(scores: Vector) -> Vector:
    weights: Vector = np.exp(scores - scores.max())
    weights /= weights.sum()
    return weights


def _width(counted: Counted, first: Vector) -> float:
    """Width of a partition's prior: the most likely of a grid."""
    if counted.width is not None:
        return counted.width
    # The normal log-likelihood of y - m0, of variance s^2 + (t m0)^2, without its constant.
    reached = first > 0
    miss = np.square(counted.shares - first)[reached, None]
    variance = counted.noise**2 + np.square(first[reached, None] * _WIDTHS)
    likelihood = -0.5 * (np.log(variance) + miss / variance).sum(axis=0)
    return float(_WIDTHS[likelihood.argmax()])
