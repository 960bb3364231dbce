"""Matrix Laplace noise: sums and products of a release noised at once, for a pure epsilon.

**Mechanism.** u = (w, x) is a coded row with the weight w of the sums in front, each block of
indicators less its mean 1/K, and the columns of a target times the weight s of targets. The owner's
matrix is A = sum of u u': what is released of moments are w, 1/K and s away from entries of A. With
d the dimension of the space V in which all u lie (blocks add up to 0 there), G and H are
independent matrices of m >= d + 1 columns of standard normals in V, c is a positive number, and

    R = A + Z,    Z = c (G G' - H H').                                                          (1)

**Claim.** If A moves by at most N in the nuclear norm, the sum of absolute eigenvalues, the density
of R changes by a factor of at most exp(N / (2c)). For one replaced row N is the largest
``|u u' - v v'|_*``, for an added one the largest ``|u u'|_* = |u|^2``; for k rows it is k N, by the
triangle inequality. A person of any number of rows adds min(k, c) times an *average* of matrices
u u' (`dppca.common.kernel.moments.people`). Norms are convex, so what a person moves is at most
what a row does (c = 1), c times an added row, or where people of weights from 1 to c are replaced
the larger of c times a replaced row and a replaced row beside c - 1 added ones.

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
nothing more. Where rows are replaced, their number n is public, and with it the entry (0, 0) and
the squares of binaries. The number of rows with label a of a block shows in A twice, in its sum and
inside of the block, where it is all that there is. Least squares, in which all entries of Z (in an
orthonormal basis) count alike, gives the noise of what is above or below n/K of it,

    (2 w Z_0a + s^2 (Z_aa - mean over the block)) / (2 w^2 + s^2 (1 - 2/K)),                     (3)

because the direction of a change e of these numbers, which add up to 0, is w e in the sums (twice)
and diag(e) - (e 1' + 1 e')/K in the block, of squared length ``(2 w^2 + 1 - 2/K) |e|^2`` (s = 1;
Z is that of the unscaled columns). For a column of missing values, 1/2 where a value is missing,
m^2 = m/2, and the noise of its sum is

    (2 w Z_0m + s^2 Z_mm / 2) / (2 w^2 + s^2 / 4).                                               (4)

Where rows are added, n is secret: every entry of A is noised, (0, 0) too, and n shows in three
places, as w^2 n in (0, 0), s^2 n/4 in the square of each binary, and s^2 n (I - 1 1'/K)/K in each
block. The direction of n is orthogonal to those of (3) and (4), so least squares gives n the noise

    n_0 = (w^2 Z_00 + sum over binaries s^2 Z_ii / 4 + sum over blocks s^2 tr Z_block / K) / q,
    q   = w^4 + sum over binaries s^4 / 16 + sum over blocks s^4 (K - 1) / K^2,                 (5)

which is released as n's own, times its weight; n_0 = 0 where n is public. In the ball q is w^4.

With n_i the noise of column i's sum over w by (3) or (4), a sum has the noise w (n_i + n_0/K_i), a
product Z_ij + n_i/K_j + n_j/K_i + n_0/(K_i K_j), the terms in 1/K for indicators alone. So the
labels of a block add up to n, and every product with them to the other column's sum.

**Integers.** Each of h owners makes a Z of ceil(m / h) columns; together they have m columns or
more. Each rounds the noise of the D released entries to whole steps of 4^-g, and adds noise that
makes, with the others', discrete Laplace noise of scale b: the *blanket*. What is released then
costs

    epsilon = k N / (2c) + D h / b + k L / b_c                                                   (6)

where L is the L1 change of the counts of cells, which have discrete Laplace noise of scale b_c. For
sums over people, which are divided once more, h + 1 takes the place of h, and L is larger by one
step for each cell.

*Proof.* Let r be what is released of A + sum Z, a real vector, and S the integers before the
blanket. Every rounding is off by at most 1/2 + t, t < 1/(4h), as is shown below: S lies within h
(1/2 + t) of r in each entry, by whatever kernel. Two integers there differ by at most h, as they
differ by less than h + 1. So two such S differ by at most D h in L1, and the probability p(y - S)
of the blanket lies between some l(y, r) and exp(D h / b) l(y, r) for all S that r allows. With P
and P' the laws under neighbours and q = exp(k N / (2c)),

    P(y) <= integral of exp(D h / b) l(y, r) P(dr) <= q exp(D h / b) integral of l(y, r) P'(dr)
         <= q exp(D h / b) P'(y).

Counts are noised independently, and factors multiply. More honest owners add independent noise.
Fewer than h are not covered at all.

Sums over people are divided by M and rounded down once. Let r be what is released of the sums
*before* that rounding: there the labels of a block add up, A lies in the space of Z, and the claim
holds. Rounding down moves an entry by less than 1, always down, so S lies above r - 1 - h (1/2 + t)
and not above r + h (1/2 + t): two integers there differ by less than h + 2, so by h + 1 at most,
whatever the remainders are. The rest of the proof is as before. Without this, remainders would
break what R keeps exactly, and no N would mend it. A count of a cell, rounded down, moves by less
than 1 more. QED.

*The bound on t.* Let F be `largest_factor`. Digits of Z that are not drawn move an entry by less
than F 2^-48 steps (`wishart`). Each division rounds by less than one unit, 2^-52. An entry of the
centred matrix takes two at most, and is off by less than 2 units; n_0 by less than 1; n_i by less
than E = 2 + 1/w + 2/w^2; a sum by less than 1 + w (E + 2), as w n_0/K is one more division; a
product by less than 7 + 2 E, times its weight; n itself by less than 1 + its weight. All are below
3 F, and t < 2 F 2^-48. `matrix_space` refuses F > 2^30, and h is 2^15 at most: t < 2^-17 <= 1/(4h).

Without the blanket, rounded shares have no proof: the curator sees their sum on the grid, and its
probabilities near the border of what is possible are another matter than densities.

**Sensitivity.** For all rows u and v, ``|u u' - v v'|_* = sqrt((|u|^2 + |v|^2)^2 - 4 (u.v)^2)``, so

    box:     N <= 2 (w^2 + Q/4 + sum over blocks (1 - 1/K)),                                     (7)
             the parts of targets times s^2; numbers with a column for missing values as others;
    ball:    N <= 2 (1 + w^2) for w <= 1,   4 w for w >= 1,   2 without sums;                    (8)
    added:   N  = half of (7); 1 + w^2 in the ball.                                              (9)

(7) holds because a number has ``|x|^2 + |m|^2 <= 1/4`` and a block 1 - 1/K, and is met where u.v
can be 0. (8): for w <= 1 likewise; for w >= 1, with a and b the lengths of x and y, w^2 + x.y is at
least w^2 - a b >= 0, so the square is at most (4 w^2 + (a - b)^2) (a + b)^2, which grows with a and
b up to a = b = 1, as 2 (a - b) / (4 w^2 + (a - b)^2) is at least -1/2 and 2 / (a + b) at least 1.
(9) is ``|u|^2`` at its largest, met by every row with its numbers at bounds, or of length 1.

**Range.** An entry's noise is <Z, Y> for a symmetric Y with eigenvalues y_i: c times the sum of y_i
times differences of two chi-squares of m degrees. Its variance is V = 4 m c^2 ``|Y|_F^2``, and

    log E exp(s <Z, Y>) = -(m/2) sum log(1 - (2 c s y_i)^2) <= V s^2 / (2 (1 - 2 c s ``|Y|_F``)),

as -log(1 - x) <= x / (1 - x): so ``|<Z, Y>|`` is above sqrt(2 V t) + 2 c t ``|Y|_F`` with
probability at most 2 exp(-t) (Boucheron, Lugosi and Massart 2013, section 2.4). `largest_form` is
the largest ``|Y|_F^2``, as the parts of (3) to (5) and Z_ij between are orthogonal.

Limits: (7) is ``|u|^2 + |v|^2`` at its largest, a bound for any w, however small; among rows of
many attributes some come within parts of a thousand, but one column alone stays far below. Rows
must lie on the grid, as for the other laws. A count of cells costs what it changes, whatever the
matrix does for the same two rows.

Source: derived for this project. That one Wishart matrix could give a pure epsilon was claimed by
Jiang, Xie and Zhang (2016), "Wishart mechanism for differentially private principal components
analysis", AAAI; it does not, and the difference is what mends it. d'Orsi and Novikov (2025),
arXiv 2510.26717, have the nuclear norm's rate by exp(-epsilon ``|Z|_*`` / N), which (1) comes near.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from math import ceil, isqrt, lcm
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
from dppca.common.kernel.privacy.noise_law import Noised
from dppca.common.kernel.schema.layout import ColumnKind, Layout

_BITS = 40  # of approximated roots: their errors move the noise, never the cost
_LARGEST_FACTOR = 2**30  # so that divisions round by less than (6) allows


@dataclass(frozen=True, slots=True)
class MatrixSpace:
    """Where the rows of a layout lie, and how far one row or person moves a release.

    ``side`` is the number of coordinates of u, p or p + 1; ``rank`` is d; ``nuclear`` is N, in real
    units; ``counts`` is L, in real units, without ``cells``, in steps, which sums over people move
    more; ``entries`` is D, all that is released of the matrix; ``divided`` is 1 for sums over
    people, else 0.
    """

    side: int
    rank: int
    nuclear: Fraction
    counts: Fraction
    entries: int
    cells: int = 0
    divided: int = 0

    @property
    def columns(self) -> int:
        """Number m of columns of each matrix, the least that is private."""
        return self.rank + 1

    def changes(self, resolution_bits: int) -> tuple[int, int]:
        """Return what a row or person moves: N and L, in steps, rounded up."""
        step = 4**resolution_bits
        return ceil(self.nuclear * step), ceil(self.counts * step) + self.cells


def matrix_space(
    layout: Layout, *, rows_counted: int | None = None, replaced: bool = False
) -> MatrixSpace:
    """Return the space of a layout.

    ``rows_counted`` is c where people are protected, None for rows. ``replaced`` asks for what a
    replaced row or person moves where the number of rows, or the people's total weight, is secret;
    a person's weight is from 1 to c. Raise `SettingError` if it has no products, a secret number of
    rows without sums, too many columns, or weights whose noise has too few digits.
    """
    if not layout.with_products:
        raise SettingError("matrix-laplace noise needs products of columns")
    if layout.with_count and not layout.with_sums:
        raise SettingError("matrix-laplace noise of a secret number of rows needs column sums")
    weight = _sum_weight(layout)
    if layout.unit_ball:
        both, blocks = _ball(weight) if layout.with_sums else Fraction(2), 0
        one = 1 + weight**2
    else:
        squares = [_square(layout, start, stop) for start, stop in layout.groups]
        one = weight**2 + sum(squares, Fraction(0))
        both, blocks = 2 * one, len(_blocks(layout))
    side = layout.n_columns + layout.with_sums
    if side > LARGEST_SIDE:
        raise SettingError(
            f"matrix-laplace noise is drawn for {LARGEST_SIDE - layout.with_sums} columns at most, "
            f"not {layout.n_columns}: the time of a draw grows with their cube"
        )
    if largest_factor(layout) > _LARGEST_FACTOR:
        raise SettingError("the weights of this release leave too few digits of its noise")
    counted = [layout.table_weight] * len(layout.tables)
    counted += [layout.histogram_weight] * len(layout.histograms)
    once, c = sum(counted, Fraction(0)), rows_counted or 1
    if not layout.with_count:
        nuclear, counts = both, 2 * once
    elif replaced:
        nuclear = max(c * both, (c - 1) * one + both, c * one)
        counts = max(2 * c, c + 1) * once
    else:
        nuclear, counts = c * one, c * once
    return MatrixSpace(
        side=side,
        rank=side - blocks,
        nuclear=nuclear,
        counts=counts,
        entries=layout.n_moments + layout.with_count,
        cells=0 if rows_counted is None else layout.n_cells,
        divided=int(rows_counted is not None),
    )


@dataclass(frozen=True, slots=True)
class MatrixScales:
    """Integers of the noise, in steps of 4^-g: c, b, and b_c, 0 where no cells are counted."""

    scale: int
    blanket: int
    counts_scale: int

    def cost(self, change: int, cells: int, *, rounded: int) -> Fraction:
        """Return the epsilon of (6), exactly.

        ``change`` is k N and ``cells`` k L, in steps; ``rounded`` is D h, or D (h + 1).
        """
        counts = Fraction(cells, self.counts_scale) if cells else Fraction(0)
        return Fraction(change, 2 * self.scale) + Fraction(rounded, self.blanket) + counts


def matrix_scales(
    space: MatrixSpace, *, epsilon: Fraction, rows: int, honest: int, resolution_bits: int
) -> MatrixScales:
    """Return noise that costs epsilon at most, by (6); ``rows`` is k, ``honest`` is h.

    The blanket takes the share of epsilon that makes ``m c^2 + b^2`` least, up to roots: with
    shares 1 - s and s these are ``m C^2 / (1 - s)^2 + B^2 / s^2``, so s is r / (1 + r) for the cube
    root r of ``B^2 / (m C^2)``. C counts the cells, too: one of weight 1 has the deviation of a
    product. Raise `SettingError` if an argument is out of range, or a scale is too large to draw.
    """
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise SettingError(f"epsilon must be a fraction above 0, not {epsilon!r}")
    rows = require_integer(rows, name="rows", least=1, largest=LARGEST_SCALE)
    honest = require_integer(honest, name="honest", least=1, largest=MOST_HONEST)
    change, cells = (rows * each for each in space.changes(resolution_bits))
    root = Fraction(_root(Fraction(space.columns), 2), 1 << _BITS)
    width = (Fraction(change, 2) + cells / root) / epsilon
    blanket = space.entries * (honest + space.divided) / epsilon
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
    change, cells = (rows * each for each in space.changes(resolution_bits))
    return scales.cost(change, cells, rounded=space.entries * (honest + space.divided))


def released_noise(layout: Layout, drawn: NDArray[Any]) -> NDArray[Any]:
    """Return the noise of each sum and product, and of a secret number of rows, for a drawn Z.

    The result, (D,), has the number of rows last. ``drawn`` is a symmetric matrix of normals'
    products in all coordinates, (side, side), as Python integers in units of 2^-`FRACTION_BITS`; it
    need not lie in V, as blocks are centred here. The result has the same units, and every division
    in it is rounded down: `draw_matrix` bounds what that is worth. For simulations, ``drawn`` may
    be of float64.
    """
    noise, number = _centred(layout, drawn), _number_noise(layout, drawn)
    last = [_weigh([(layout.count_weight, number)])] if layout.with_count else []
    i, j = layout.product_index
    if layout.unit_ball:
        first = int(layout.with_sums)
        sums = noise[0, 1:] if layout.with_sums else noise[0, :0]
        return np.concatenate([sums, noise[i + first, j + first], np.array(last, drawn.dtype)])
    weight, scales = _sum_weight(layout), _column_scales(layout).astype(drawn.dtype)
    rows = _rows_noise(layout, noise)  # of each column's sum over w, n's part apart
    labels = _labels(layout).astype(drawn.dtype)
    own = labels > 0
    sums = _over(rows * weight.numerator, weight.denominator)
    products = _over(noise[i + 1, j + 1], scales[i] * scales[j])
    for one, other in ((i, j), (j, i)):
        block = own[other]
        products[block] += _over(rows[one[block]], labels[other[block]])
    if layout.with_count:
        parts = number * weight.numerator
        sums[own] += _over(parts, labels[own] * weight.denominator)
        both = own[i] & own[j]
        products[both] += _over(number, labels[i[both]] * labels[j[both]])
    products = products * layout.packed_product_weights.astype(drawn.dtype)
    return np.concatenate([sums, products, np.array(last, drawn.dtype)])


def draw_matrix(
    layout: Layout, scale: int, columns: int, *, honest: int, entropy: EntropySource
) -> NDArray[np.int64]:
    """Draw the noise of `released_noise`, or one owner's part, in whole steps modulo 2^64.

    ``columns`` is m, or ceil(m / h) for one of h owners; the result has shape (D,). Raise
    `SettingError` if divisions could round by more than (6) allows, 1 / (4 h) of a step.
    """
    space = matrix_space(layout)
    if 8 * honest * largest_factor(layout) >= 1 << KEPT_BITS:
        raise SettingError("the weights of this release leave too few digits of its noise")
    drawn = wishart_difference(scale, space.side, columns, entropy=entropy)
    return round_noise(released_noise(layout, drawn))


def in_place(layout: Layout, noise: NDArray[Any]) -> NDArray[Any]:
    """Return noise of the matrix and then of cells, (D,), in the order of a release."""
    if not layout.with_count:
        return noise
    n = layout.n_moments
    return np.concatenate([noise[:n], noise[n + 1 :], noise[n : n + 1]])


def simulated_matrix(layout: Layout, columns: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw `released_noise` for c = 1 in floating point, (D,): it protects nothing."""
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
    """Return a bound on the noise of an entry over the largest entry of Z: F, for its digits."""
    weight = _sum_weight(layout)
    number = Fraction(0)
    if layout.with_count:
        parts = (count * size for count, _, size in _number_parts(layout))
        number = (weight**2 + sum(parts, Fraction(0))) / _number_square(layout)
    if layout.unit_ball:
        return max(Fraction(1), layout.count_weight * number)
    factor = Fraction(4)  # of centring: each entry less the means of a row, a column and a block
    of_rows = factor * (2 + 2 / weight) / weight  # denominators of (3), (4) are 2 w^2 or more
    products = factor + 2 * of_rows + number
    return max(
        weight * (of_rows + number),
        products * layout.largest_weight,
        layout.count_weight * number,
    )


def largest_form(layout: Layout) -> Fraction:
    """Return the largest ``|Y|_F^2`` of an entry's noise <Z, Y>, as the entry is released."""
    weights = {
        Noised.SUM: _sum_weight(layout),
        Noised.SQUARE: Fraction(layout.square_weight),
        Noised.TARGET_PRODUCT: Fraction(layout.target_weight),
        Noised.ROWS: layout.count_weight,
    }
    found = (weights.get(kind, 1) ** 2 * form for kind, form in largest_forms(layout).items())
    return max(Fraction(layout.unit_ball), *found)


@lru_cache(maxsize=64)
def largest_forms(layout: Layout) -> dict[Noised, Fraction]:
    """Return the largest ``|Y|_F^2`` of an entry over its weight, by kind: it is not changed.

    It is of any such columns as the layout has, or of a pair of their groups. A product of targets
    of weight 1 is a product.
    """
    weight = _sum_weight(layout)
    number = 1 / _number_square(layout) if layout.with_count else Fraction(0)
    rows = {Noised.ROWS: number} if layout.with_count else {}
    if layout.unit_ball:
        half = Fraction(1, 2)
        own = {Noised.SUM: half / weight**2} if layout.with_sums else {}
        return {**own, Noised.SQUARE: Fraction(1), Noised.PRODUCT: half, **rows}
    sorts = Counter(
        (kind, stop - start if kind is ColumnKind.INDICATOR else 0, int(scale))
        for (start, stop), scale in zip(layout.groups, _attribute_scales(layout), strict=True)
        for kind in {*layout.kinds[start:stop]}
    )
    sums = {each: _sum_form(each, weight) for each in sorts}
    shares = {each: Fraction(1, each[1]) if each[1] else Fraction(0) for each in sorts}
    found: dict[Noised, list[Fraction]] = {
        Noised.SUM: [own + shares[each] ** 2 * number for each, own in sums.items()]
    }
    for sort, _, scale in sums:
        if sort is ColumnKind.NUMERIC:
            found.setdefault(Noised.SQUARE, []).append(Fraction(1, scale**4))
    for one, other in combinations_with_replacement(sums, 2):
        if one == other and sorts[one] == 1:  # labels of one attribute have no product
            continue
        a, b = shares[one], shares[other]
        parts = (1 - a) * (1 - b) / (2 * (one[2] * other[2]) ** 2)
        parts += sums[one] * b**2 + sums[other] * a**2 + number * (a * b) ** 2
        # A product with a target has its weight.
        kind = Noised.PRODUCT if max(one[2], other[2]) == 1 else Noised.TARGET_PRODUCT
        found.setdefault(kind, []).append(parts)
    return {kind: max(forms) for kind, forms in found.items()} | rows


def _sum_form(sort: tuple[ColumnKind, int, int], weight: Fraction) -> Fraction:
    """Return ``|Y|_F^2`` of the noise of a column's sum over w, by (3) or (4)."""
    kind, labels, scale = sort
    below = 2 * (weight * scale) ** 2
    if kind is ColumnKind.INDICATOR:
        return (1 - Fraction(1, labels)) / (below + scale**4 * (1 - Fraction(2, max(labels, 2))))
    return 1 / (below + (Fraction(scale**4, 4) if kind is ColumnKind.MISSING else 0))


def _number_parts(layout: Layout) -> list[tuple[Fraction, int, Fraction]]:
    """Return for binaries and blocks what a part of (5) takes, its first column, and its size.

    What it takes is s^2 / 4, or s^2 / K; its size the sum of magnitudes of what is taken of Z: 1
    of a square, 2 (K - 1) of the trace of a centred block.
    """
    if layout.unit_ball:
        return []
    parts = []
    for (start, stop), scale in zip(layout.groups, _attribute_scales(layout), strict=True):
        square = Fraction(scale**2)
        if layout.kinds[start] is ColumnKind.INDICATOR:
            parts.append((square / (stop - start), start, Fraction(2 * (stop - start - 1))))
        elif layout.kinds[start] is ColumnKind.BINARY:
            parts.append((square / 4, start, Fraction(1)))
    return parts


def _number_square(layout: Layout) -> Fraction:
    """Return q of (5)."""
    parts = (
        each**2 * (size / 2 if layout.kinds[start] is ColumnKind.INDICATOR else 1)
        for each, start, size in _number_parts(layout)
    )
    return _sum_weight(layout) ** 4 + sum(parts, Fraction(0))


def _number_noise(layout: Layout, drawn: NDArray[Any]) -> Any:
    """Return the noise of a secret number of rows, (5), of an uncentred Z; 0 of a public one."""
    if not layout.with_count:
        return 0
    taken = [(_sum_weight(layout) ** 2, drawn[0, 0])]
    ends = dict(layout.groups)
    for each, start, _ in _number_parts(layout):
        block = drawn[start + 1 : ends[start] + 1, start + 1 : ends[start] + 1]
        n = len(block)
        if layout.kinds[start] is ColumnKind.INDICATOR:  # the trace of the centred block
            taken.append((each / n, n * np.trace(block) - block.sum()))
        else:
            taken.append((each, block[0, 0]))
    square = _number_square(layout)
    return _weigh((each / square, value) for each, value in taken)


def _weigh(terms: Iterable[tuple[Fraction, Any]]) -> Any:
    """Return the weighted sum of exact integers, rounded down once, or of floats."""
    known = [(weight, value) for weight, value in terms]
    if any(isinstance(value, float) for _, value in known):
        return sum(float(weight) * value for weight, value in known)
    below = lcm(*(weight.denominator for weight, _ in known))
    return sum(weight.numerator * (below // weight.denominator) * v for weight, v in known) // below


def _sum_weight(layout: Layout) -> Fraction:
    return Fraction(layout.scaled_weight, 2**layout.resolution_bits)


def _ball(weight: Fraction) -> Fraction:
    """Return (8) for a release with sums."""
    return 2 * (1 + weight**2) if weight <= 1 else 4 * weight


def _square(layout: Layout, start: int, stop: int) -> Fraction:
    """Return the largest part of ``|u|^2`` that an attribute's columns have."""
    scale = _attribute_scales(layout)[layout.attribute_of[start]]
    indicator = layout.kinds[start] is ColumnKind.INDICATOR
    return scale**2 * (1 - Fraction(1, stop - start) if indicator else Fraction(1, 4))


def _attribute_scales(layout: Layout) -> list[int]:
    """Return the scale s of each attribute's columns, 1 for all but targets."""
    return [
        layout.target_weight if place in layout.targets else 1
        for place in range(len(layout.groups))
    ]


def _column_scales(layout: Layout) -> NDArray[np.object_]:
    """Return the scale s of each column: (p,)."""
    return np.array(_attribute_scales(layout), dtype=object)[list(layout.attribute_of)]


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
