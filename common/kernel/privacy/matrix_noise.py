"""Matrix Laplace noise: sums and products of a release noised at once, for a pure epsilon.

**Mechanism.** u = (w, x) is a coded row with the weight w of the sums in front, each block of
indicators less its mean 1/K, and the columns of a target times the weight s of targets. The owner's
matrix is A = sum of u u': what is released of moments are w, 1/K and s away from entries of A. With
d the dimension of the space V in which all u lie (blocks add up to 0 there), G and H are
independent matrices of m >= d + 1 columns of standard normals in V, c is a positive number, and

    R = A + Z,    Z = c (G G' - H H').                                                          (1)

**Claim.** If one row of the owner is replaced, the density of R changes by a factor of at most
exp(N / (2c)), where N is the largest ``|u u' - v v'|_*``, the sum of absolute eigenvalues. For k
rows it is k N, by the triangle inequality.

**Proof.** Choose an orthonormal basis of V. W = c G G' has, on positive definite matrices X of side
d, the density K det(X)^a exp(-tr X / (2c)), with a = (m - d - 1) / 2 >= 0, and none elsewhere. For
P positive semidefinite, W + P has at X the density of W at X - P, if X - P is positive definite,
and 0 otherwise. Where it is not 0, X is positive definite, too, and det(X - P) <= det(X), since the
eigenvalues of X - P are at most those of X, one by one. As a >= 0,

    density of W + P at X  <=  exp(tr P / (2c)) * density of W at X,    for all X.               (2)

Let A' be the matrix of a neighbour, and A' - A = P - M with P and M the positive part and the
negative part, whose traces add up to ``|A' - A|_*``. With W1 and W2 independent, both like W,

    A' + W1 - W2 = A + (W1 + P) - (W2 + M).

By (2), used for both, the density of the pair (W1 + P, W2 + M) is at most exp(``|A' - A|_*`` /
(2c)) times that of the pair (W1, W2), everywhere. The same factor holds for every event, so for
every function of the pair, and A + X1 - X2 is one. A and A' change places by P and M. QED.

m = d is not enough: a is -1/2, (2) is false, and the density has a pole. A single W is not private
at all, because supports differ. More columns than m are as good: (2) needs a >= 0 only.

**What is released** is an affine function of R that is A's own entry for the noise 0, so it costs
nothing more. The number of rows is public here, and with it the entry (0, 0) and the squares of
binaries: a layout with a secret number is refused, as labels would add up to it exactly. The number
of rows with label a of a block shows in A twice, in its sum and inside of the block, where it is
all that there is. Least squares, in which all entries of Z (in an orthonormal basis) count alike,
gives its noise,

    (2 w Z_0a + s^2 (Z_aa - mean over the block)) / (2 w^2 + s^2 (1 - 2/K)),                     (3)

because the direction of a change e of these numbers, which add up to 0, is w e in the sums (twice)
and diag(e) - (e 1' + 1 e')/K in the block, of squared length ``(2 w^2 + 1 - 2/K) |e|^2`` (s = 1;
Z is that of the unscaled columns). For a column of missing values, 1/2 where a value is missing,
m^2 = m/2, and the noise of its sum is

    (2 w Z_0m + s^2 Z_mm / 2) / (2 w^2 + s^2 / 4).                                               (4)

With n_i the noise of column i's sum over w, a product has the noise Z_ij + n_i/K_j + n_j/K_i, the
terms in 1/K for indicators alone. So the labels of a block add up to what they must, and every
product with them to the other column's sum.

**Integers.** Each of h owners makes a Z of ceil(m / h) columns; together they have m columns or
more. Each rounds the noise of the D released entries to whole steps of 4^-g, and adds noise that
makes, with the others', discrete Laplace noise of scale b: the *blanket*. What is released then
costs

    epsilon = k N / (2c) + D h / b + k L / b_c                                                   (5)

where L is the L1 change of the counts of cells, which have discrete Laplace noise of scale b_c.

*Proof.* Let r be what is released of A + sum Z, a real vector, and S the integers before the
blanket. Every rounding is off by at most 1/2 + t, t < 1/(4h), as is shown below: S lies within h
(1/2 + t) of r in each entry, by whatever kernel. Two integers there differ by at most h, as they
differ by less than h + 1. So two such S differ by at most D h in L1, and the probability p(y - S)
of the blanket lies between some l(y, r) and exp(D h / b) l(y, r) for all S that r allows. With P
and P' the laws under neighbours and q = exp(k N / (2c)),

    P(y) <= integral of exp(D h / b) l(y, r) P(dr) <= q exp(D h / b) integral of l(y, r) P'(dr)
         <= q exp(D h / b) P'(y).

Counts are noised independently, and factors multiply. More honest owners add independent noise.
Fewer than h are not covered at all. QED.

*The bound on t.* Let F be `largest_factor`. Digits of Z that are not drawn move an entry by less
than F 2^-48 steps (`wishart`). Each division rounds by less than one unit, 2^-52. An entry of the
centred matrix takes two at most, and is off by less than 2 units; n_i by less than E = 2 + 1/w +
2/w^2; a sum by less than 1 + w E; a product by less than 5 + 2 E, times its weight. Both are below
3 F, and t < 2 F 2^-48. `matrix_space` refuses F > 2^30, and h is 2^15 at most: t < 2^-17 <= 1/(4h).

Without the blanket, rounded shares have no proof: the curator sees their sum on the grid, and its
probabilities near the border of what is possible are another matter than densities.

**Sensitivity.** For all rows u and v, ``|u u' - v v'|_* = sqrt((|u|^2 + |v|^2)^2 - 4 (u.v)^2)``, so

    box:     N <= 2 (w^2 + Q/4 + sum over blocks (1 - 1/K)),                                     (6)
             the parts of targets times s^2; numbers with a column for missing values as others;
    ball:    N <= 2 (1 + w^2) for w <= 1,   4 w for w >= 1,   2 without sums.                    (7)

(6) holds because a number has ``|x|^2 + |m|^2 <= 1/4`` and a block 1 - 1/K, and is met where u.v
can be 0. (7): for w <= 1 likewise; for w >= 1, with a and b the lengths of x and y, w^2 + x.y is at
least w^2 - a b >= 0, so the square is at most (4 w^2 + (a - b)^2) (a + b)^2, which grows with a and
b up to a = b = 1, as 2 (a - b) / (4 w^2 + (a - b)^2) is at least -1/2 and 2 / (a + b) at least 1.

Limits: (6) is ``|u|^2 + |v|^2`` at its largest, a bound for any w, however small; among rows of
many attributes some come within parts of a thousand, but one column alone stays far below. Rows
must lie on the grid, as for the other laws.

Source: derived for this project. That one Wishart matrix could give a pure epsilon was claimed by
Jiang, Xie and Zhang (2016), "Wishart mechanism for differentially private principal components
analysis", AAAI; it does not, and the difference is what mends it. d'Orsi and Novikov (2025),
arXiv 2510.26717, have the nuclear norm's rate by exp(-epsilon ``|Z|_*`` / N), which (1) comes near.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.noise.sampler import LARGEST_SCALE, require_integer
from dppca.common.kernel.privacy.noise.shares import MOST_HONEST
from dppca.common.kernel.privacy.noise.wishart import (
    FRACTION_BITS,
    KEPT_BITS,
    LARGEST_SIDE,
    wishart_difference,
)
from dppca.common.kernel.schema.layout import ColumnKind, Layout

_BITS = 40  # of approximated roots: their errors move the noise, never the cost
_LARGEST_FACTOR = 2**30  # so that divisions round by less than (5) allows


@dataclass(frozen=True, slots=True)
class MatrixSpace:
    """Where the rows of a layout lie, and how far one of them moves a release.

    ``side`` is the number of coordinates of u, p or p + 1; ``rank`` is d; ``nuclear`` is N, in real
    units; ``counts`` is L, in real units; ``entries`` is D, sums and products.
    """

    side: int
    rank: int
    nuclear: Fraction
    counts: Fraction
    entries: int

    @property
    def columns(self) -> int:
        """Number m of columns of each matrix, the least that is private."""
        return self.rank + 1


def matrix_space(layout: Layout) -> MatrixSpace:
    """Return the space of a layout.

    Raise `SettingError` if it has no products, a secret number of rows, too many columns, or
    weights whose noise has too few digits.
    """
    if not layout.with_products:
        raise SettingError("matrix-laplace noise needs products of columns")
    if layout.with_count:
        raise SettingError("matrix-laplace noise would give a secret number of rows away")
    weight = _sum_weight(layout)
    if layout.unit_ball:
        nuclear = _ball(weight) if layout.with_sums else Fraction(2)
        blocks = 0
    else:
        squares = [_square(layout, start, stop) for start, stop in layout.groups]
        nuclear = 2 * (weight**2 + sum(squares, Fraction(0)))
        blocks = sum(kind is ColumnKind.INDICATOR for kind in layout.attribute_kinds)
    side = layout.n_columns + layout.with_sums
    if side > LARGEST_SIDE:
        raise SettingError(
            f"matrix-laplace noise is drawn for {LARGEST_SIDE - layout.with_sums} columns at most, "
            f"not {layout.n_columns}: the time of a draw grows with their cube"
        )
    if largest_factor(layout) > _LARGEST_FACTOR:
        raise SettingError("the weights of this release leave too few digits of its noise")
    tables = layout.table_weight * len(layout.tables) if layout.tables else Fraction(0)
    histograms = layout.histogram_weight * len(layout.histograms)
    return MatrixSpace(
        side=side,
        rank=side - blocks,
        nuclear=nuclear,
        counts=2 * (tables + histograms),
        entries=layout.n_moments,
    )


@dataclass(frozen=True, slots=True)
class MatrixScales:
    """Integers of the noise, in steps of 4^-g: c, b, and b_c, 0 where no cells are counted."""

    scale: int
    blanket: int
    counts_scale: int

    def cost(self, change: int, cells: int, *, rounded: int) -> Fraction:
        """Return the epsilon of (5), exactly.

        ``change`` is k N and ``cells`` k L, in steps; ``rounded`` is D h.
        """
        counts = Fraction(cells, self.counts_scale) if cells else Fraction(0)
        return Fraction(change, 2 * self.scale) + Fraction(rounded, self.blanket) + counts


def matrix_scales(
    space: MatrixSpace, *, epsilon: Fraction, rows: int, honest: int, resolution_bits: int
) -> MatrixScales:
    """Return noise that costs epsilon at most, by (5); ``rows`` is k, ``honest`` is h.

    The blanket takes the share of epsilon that makes ``m c^2 + b^2`` least, up to roots: with
    shares 1 - s and s these are ``m C^2 / (1 - s)^2 + B^2 / s^2``, so s is r / (1 + r) for the cube
    root r of ``B^2 / (m C^2)``. C counts the cells, too: one of weight 1 has the deviation of a
    product. Raise `SettingError` if an argument is out of range, or a scale is too large to draw.
    """
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise SettingError(f"epsilon must be a fraction above 0, not {epsilon!r}")
    rows = require_integer(rows, name="rows", least=1, largest=LARGEST_SCALE)
    honest = require_integer(honest, name="honest", least=1, largest=MOST_HONEST)
    step = 4**resolution_bits
    change, cells = rows * ceil(space.nuclear * step), rows * ceil(space.counts * step)
    root = Fraction(_root(Fraction(space.columns), 2), 1 << _BITS)
    width = (Fraction(change, 2) + cells / root) / epsilon
    blanket = space.entries * honest / epsilon
    ratio = max(_root(blanket**2 / (space.columns * width**2), 3), 1)
    share = Fraction(ratio, ratio + (1 << _BITS))
    scale = ceil(width / (1 - share))
    scales = MatrixScales(
        scale=scale,
        blanket=ceil(blanket / share),
        counts_scale=ceil(scale * root) if cells else 0,
    )
    largest = max(scales.scale, scales.blanket, scales.counts_scale)
    if largest > LARGEST_SCALE:
        raise SettingError(
            f"matrix-laplace noise of scale {largest} cannot be drawn, as {LARGEST_SCALE} is the "
            "largest: take a larger epsilon, or a coarser grid"
        )
    return scales


def matrix_cost(
    space: MatrixSpace, scales: MatrixScales, *, rows: int, honest: int, resolution_bits: int
) -> Fraction:
    """Return the epsilon of noise in a space, exactly (`MatrixScales.cost`)."""
    step = 4**resolution_bits
    change, cells = rows * ceil(space.nuclear * step), rows * ceil(space.counts * step)
    return scales.cost(change, cells, rounded=space.entries * honest)


def released_noise(layout: Layout, drawn: NDArray[Any]) -> NDArray[Any]:
    """Return the noise of each sum and product of a release, (D,), for a drawn Z.

    ``drawn`` is a symmetric matrix of normals' products in all coordinates, (side, side), as
    Python integers in units of 2^-`FRACTION_BITS`; it need not lie in V, as blocks are centred
    here. The result has the same units, and every division in it is rounded down: `draw_matrix`
    bounds what that is worth. For simulations, ``drawn`` may be of float64.
    """
    noise = _centred(layout, drawn)
    if layout.unit_ball:
        i, j = layout.product_index
        first = int(layout.with_sums)
        return np.concatenate(
            [noise[0, 1:] if layout.with_sums else noise[0, :0], noise[i + first, j + first]]
        )
    weight, scales = _sum_weight(layout), _column_scales(layout).astype(drawn.dtype)
    rows = _rows_noise(layout, noise)  # of each column's sum over w
    sums = _over(rows * weight.numerator, weight.denominator)
    i, j = layout.product_index
    labels = _labels(layout).astype(drawn.dtype)
    products = _over(noise[i + 1, j + 1], scales[i] * scales[j])
    for one, other in ((i, j), (j, i)):
        block = labels[other] > 0
        products[block] += _over(rows[one[block]], labels[other[block]])
    return np.concatenate([sums, products * layout.packed_product_weights.astype(drawn.dtype)])


def draw_matrix(
    layout: Layout, scale: int, columns: int, *, honest: int, entropy: EntropySource
) -> NDArray[np.int64]:
    """Draw the noise of all sums and products, or one owner's part, in whole steps modulo 2^64.

    ``columns`` is m, or ceil(m / h) for one of h owners; the result has shape (D,). Raise
    `SettingError` if divisions could round by more than (5) allows, 1 / (4 h) of a step.
    """
    space = matrix_space(layout)
    if 8 * honest * largest_factor(layout) >= 1 << KEPT_BITS:
        raise SettingError("the weights of this release leave too few digits of its noise")
    drawn = wishart_difference(scale, space.side, columns, entropy=entropy)
    return round_noise(released_noise(layout, drawn))


def simulated_matrix(layout: Layout, columns: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw noise of sums and products for c = 1 in floating point, (D,): it protects nothing."""
    side = matrix_space(layout).side
    drawn = _wishart(side, columns, rng) - _wishart(side, columns, rng)
    noise: NDArray[np.float64] = released_noise(layout, drawn)
    return noise


def sum_precisions(layout: Layout) -> NDArray[np.float64]:
    """Return the variance of a product's noise over that of each column's mean, (p,).

    A label's is that of 1 - 1/K of such a variance, as the labels of a block add up to 0.
    """
    weight, scales = float(_sum_weight(layout)), _column_scales(layout).astype(np.float64)
    kinds = np.array([str(each.value) for each in layout.kinds])
    labels = np.maximum(_labels(layout).astype(np.float64), 2)
    inside = np.where(kinds == ColumnKind.INDICATOR, (1 - 2 / labels) / 2, 0)
    inside = np.where(kinds == ColumnKind.MISSING, 1 / 8, inside)
    return np.asarray((weight * scales) ** 2 + scales**4 * inside)


def _wishart(side: int, columns: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw G G', by Bartlett's triangle where there are more columns than rows."""
    if columns <= side:
        g = rng.standard_normal((side, columns))
    else:
        g = np.tril(rng.standard_normal((side, side)), -1)
        g[np.diag_indices(side)] = np.sqrt(rng.chisquare(columns - np.arange(side)))
    product: NDArray[np.float64] = g @ g.T
    return product


def round_noise(noise: NDArray[np.object_]) -> NDArray[np.int64]:
    """Round to whole steps, halves upwards, modulo 2^64."""
    half = 1 << (FRACTION_BITS - 1)
    whole = [(int(each) + half) >> FRACTION_BITS for each in noise]
    return np.asarray([each & (2**64 - 1) for each in whole], np.uint64).view(np.int64)


def largest_factor(layout: Layout) -> Fraction:
    """Return a bound on the noise of an entry over the largest entry of Z."""
    if layout.unit_ball:
        return Fraction(1)
    weight = _sum_weight(layout)
    factor = Fraction(4)  # of centring: each entry less the means of a row, a column and a block
    of_rows = (
        factor * (2 + 2 / weight) / weight
    )  # (3) and (4), whose denominators are 2 w^2 or more
    products = factor + 2 * of_rows
    return max(weight * of_rows, products * layout.largest_weight)


def _sum_weight(layout: Layout) -> Fraction:
    return Fraction(layout.scaled_weight, 2**layout.resolution_bits)


def _ball(weight: Fraction) -> Fraction:
    """Return (7) for a release with sums."""
    return 2 * (1 + weight**2) if weight <= 1 else 4 * weight


def _square(layout: Layout, start: int, stop: int) -> Fraction:
    """Return the largest part of ``|u|^2`` that an attribute's columns have."""
    scale = layout.target_weight if layout.attribute_of[start] in layout.targets else 1
    indicator = layout.kinds[start] is ColumnKind.INDICATOR
    return scale**2 * (1 - Fraction(1, stop - start) if indicator else Fraction(1, 4))


def _column_scales(layout: Layout) -> NDArray[np.object_]:
    """Return the scale s of each column, 1 for all but targets: (p,)."""
    target = np.isin(np.asarray(layout.attribute_of), layout.targets)
    return np.where(target, layout.target_weight, 1).astype(object)


def _labels(layout: Layout) -> NDArray[np.object_]:
    """Return K for an indicator, 0 for any other column: (p,)."""
    sizes = np.zeros(layout.n_columns, dtype=object)
    for start, stop in _blocks(layout):
        sizes[start:stop] = stop - start
    return sizes


def _blocks(layout: Layout) -> list[tuple[int, int]]:
    return [each for each in layout.groups if layout.kinds[each[0]] is ColumnKind.INDICATOR]


def _over(value: Any, divisor: Any) -> Any:
    """Divide exact integers, rounding down, or floating-point numbers."""
    exact = isinstance(value, int) or (isinstance(value, np.ndarray) and value.dtype == object)
    return value // divisor if exact else value / divisor


def _centred(layout: Layout, drawn: NDArray[Any]) -> NDArray[Any]:
    """Return the matrix with each block less its means: the noise in V."""
    noise = drawn.copy()
    first = int(layout.with_sums)
    for start, stop in _blocks(layout):
        block = slice(start + first, stop + first)
        noise[block] -= _over(noise[block].sum(axis=0), stop - start)
        noise[:, block] -= _over(noise[:, block].sum(axis=1)[:, None], stop - start)
    return noise


def _rows_noise(layout: Layout, noise: NDArray[Any]) -> NDArray[Any]:
    """Return the noise of each column's sum over w, by (3) and (4): (p,).

    ``noise`` is of the scaled columns: Z_0i is its entry over s, and ``s^2 Z_ii`` its own.
    """
    weight, scales = _sum_weight(layout), _column_scales(layout)
    rows = np.empty(layout.n_columns, dtype=noise.dtype)
    for start, stop in layout.groups:
        own = np.arange(start, stop)
        diagonal = noise[own + 1, own + 1]
        mean = _over(diagonal.sum(), stop - start)
        for column in own:
            scale = scales[column]
            half = 2 * weight / scale
            if layout.kinds[column] is ColumnKind.INDICATOR:
                square = diagonal[column - start] - mean
                below = 2 * weight**2 + scale**2 * (1 - Fraction(2, max(stop - start, 2)))
            elif layout.kinds[column] is ColumnKind.MISSING:
                square = _over(diagonal[column - start], 2)
                below = 2 * weight**2 + Fraction(scale**2, 4)
            else:
                square, below = 0, 2 * weight**2
            # (half Z + square) / below, over a common denominator
            factor = Fraction(1) / below
            by_sums = half * factor
            rows[column] = _over(
                noise[0, column + 1] * by_sums.numerator, by_sums.denominator
            ) + _over(square * factor.numerator, factor.denominator)
    return rows


def _root(value: Fraction, power: int) -> int:
    """Return the square or cube root of a number, times 2^`_BITS`, rounded down."""
    scaled = int(value * (1 << _BITS * power))
    if power == 2:
        return isqrt(scaled)
    low, high = 0, 1 << (scaled.bit_length() // 3 + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**3 <= scaled else (low, middle)
    return low
