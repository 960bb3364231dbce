"""Sensitivity: the largest change of the released sums by one row.

A site releases, once, the sums over its rows of: every coded column (times a weight w), the
product of every pair of columns of *different* attributes, and the square of numeric columns.
Under the second coding, ``row_norm``, it releases one triangle of the second-moment matrix with
its diagonal and, if asked, the sums. Two tables are neighbours when they hold equally many rows
and differ in one of them, so the sensitivity is the largest change that x -> y can make to one
row's contribution.

Box rows. Numeric scalars lie in [-1/2, 1/2], binary ones at either end; Q counts both, q the
numeric ones; each of c categoricals is a block of indicators. For a scalar x -> y put
u = |x + y| and v = |x - y|, so u + v <= 1. Its sum moves by v, its square by uv, its product with
another scalar by at most (u v' + v u')/2, with an unchanged categorical by v, with a changed one by
max(u, v); a pair of categoricals moves by 2 if either of them changes. All of these bounds are met
at once and grow with u, so u = 1 - v. With beta_i = v_i, B = sum beta_i and t changed categoricals

    L1 = w (B + 2t) + B (Q - B)/2 + sum_numeric beta_i (1 - beta_i)/2
       + (c - t) B + t sum max(beta_i, 1 - beta_i) + 2 [C(c,2) - C(c-t,2)]                     (1)

and, at the corners beta in {0, 1} where r = B scalars flip,

    L1   = r (Q - r)/2 + t Q + (c - t) r + 2 [C(c,2) - C(c-t,2)] + w (r + 2t)                  (2)
    L2^2 = r (Q - r)/4 + t Q/2 + (c - t) r + 2 [C(c,2) - C(c-t,2)] + w^2 (r + 2t)              (3)

With c >= 1 some t >= 1 is best, and then a coin of mean beta_i in place of beta_i loses
beta_i (1 - beta_i) and gains t min(beta_i, 1 - beta_i), never less: corners suffice. With c = 0,
(1) is concave: s binary scalars flip and all numeric ones take the same beta,

    L1 = B (Q + 2w - B)/2 + (q/2) beta (1 - beta),   B = s + q beta,
    beta = clip((Q + 2w + 1 - 2s) / (2 (q + 1)), 0, 1).                                        (4)

For L2, corners suffice unless the row is a single numeric column with w < 1/2, which gets
(1 - 4 w^2)/16 on top: see ``docs/decisions/0002-l2-at-small-sum-weights.md``.

Targets. Where products of some attributes, the targets, with others carry a weight omega, each term
of a pair in (1) is multiplied by its weight W (and by W^2 for L2): with counts of flipped scalars
r = (r_0, r_1) and of changed categoricals t = (t_0, t_1), others and targets apart, the corners are

    sum over pairs of scalars of which one flips       W/2   (L2: W^2/4)
    + changed categoricals beside scalars              W     (L2: W^2/2)                        (5)
    + unchanged categoricals beside flipped scalars    W     (L2: W^2)
    + pairs of categoricals of which one changes       2 W   (L2: 2 W^2)
    + w (r_0 + r_1 + 2 t_0 + 2 t_1)                    (L2: w^2 (...))

with W = 1 between two others and omega >= 2, a whole number, otherwise. Corners suffice as before:
with c >= 1 a coin gains at least min(beta_i, 1 - beta_i) from one changed categorical, for all
W >= 1; for L2 a coin loses p^2, p = beta_i (1 - beta_i) <= 1/4, and gains w^2 p, which is no less
where w >= 1/2 (required of a schema with targets), while no other term goes down. With c = 0,
L1 is for s_0, s_1 flipped binaries, the q_0 other numerics at one beta_0 (along a difference of
two of them it is concave) and the target numerics at 0 or 1, except one at most, at beta_1 (along
a difference of two of them its second derivative is 2 omega - 4 >= 0): a quadratic in
(beta_0, beta_1) with the second derivatives -q_0 (q_0 + 1), -2 and, mixed, -omega q_0. Their
determinant q_0 (2 - (omega^2 - 2) q_0) is never above 0, so no point inside of the square is above
all of its border: the maximum is at a critical point of a side, or at a corner.

Missing numbers. Each of I numerics has one column more, m: 1/2 where the value is missing, and 0
elsewhere. Where it is missing, x is 0. So ``x m`` is 0 and m^2 is m/2: neither is sent. Products of
m have the weights of those of x. ``|x| + |m|`` is at most 1/2, as ``|x|`` is alone. Such a numeric
can move as others do; it can stay missing, which acts on the rest as x = 1/2 does; or it *changes*:
x becomes 0 and m 1/2, or back, the most where ``|x| = 1/2``. A change moves, in L1,

    its sums together by w; its square by 1/4; products with a categorical by 1;
    with a scalar a -> a' by (|a| + |a'|)/2 = max(beta, 1 - beta)/2; with another change by 1/2 (10)

(times W), each no less than anything that x can do there, by the triangle inequality. So all I
change at once, and L1 is the sum of (10), with beta 0 or 1, and of (2) or (5) for the rest. Corners
suffice: a coin loses beta (1 - beta) and gains half of the changes' weights W times
min(beta, 1 - beta), enough if these W add up to 2. They do not where c = 0, I = 1 and that one is
no target. There, with s of the Q_0 other scalars flipped, s_1 of the Q_1 targets, q_0 of the others
numeric, and ``C = w + Q_0/2 + omega (Q_1/2 - s_1)``, numerics may share a beta inside: l that do
not flip one below 1/2 if s <= C, else l of the flipped ones one above (second derivatives forbid
two that differ on one side, first ones a pair on both). At its summit, ``|C - s|/(l + 1)``
away from the corner, it adds

    l (C - s)^2 / (2 (l + 1)),   l = min(q_0, Q_0 - s) for s <= C, min(q_0, s) for s > C.      (11)

The best s is next to C: from s to s + 1 <= C, (2) and (11) together gain (C - s - 1/2)/(l + 1) or,
where l falls by one, ((C - s)^2/(l + 1) - (C - s - 1)^2/l)/2, neither below 0 for
``1 <= C - s <= (l + 1)/2``; for s > C by symmetry.

In L2, a change moves the sums by w^2/2, the square by 1/16, and products by W^2/8 with a scalar or
a change and W^2/2 with a categorical: a fair coin's mean in (3) and (5), and 1/16. With k coins
among the others, k_1 among the targets and r_0 and r_1 the means of the flipped, the mean of (5) is
its value at the means less (k + omega^2 k_1)/16. So the changes' 1/16 make up for k, and

    L2^2 is the maximum of (3), or (5), also over halves r_0 if any of the I is no target, and
    over halves r_1 if one is a target, then less (omega^2 - 1)/16.                           (12)

Corners suffice: beside a change a coin of another numeric gains W^2 p/4 >= p^2. So there is no
excess for a single numeric column: w^2 beta^2 + p^2 <= max(w^2, w^2/2 + 1/16), because
beta^2 (1 - beta)/(1 + beta) < 1/8. Rows attain (10) and (12). L2^2 is thus at most 1/16 above that
without m; in L1 pairs of scalars of which both flip or none does no longer count 0.

Histograms. Each of H numerics may have the number of rows in each of its cells released, times h. A
replaced row leaves one cell and enters another, or stays in its cell:

    L1 <= box + 2 h H,          L2^2 <= box + 2 h^2 H.                                          (6)

That is attained where H numerics are among the flipped scalars of a best corner. It is also
approached where they are not but have an edge next to a bound (as ``spikes: [0]`` is for money):
x and y on either side of it then move the products by as little as one likes, and u is still 1.
Corners alone, at which a scalar that does not flip keeps its cell, would be too few: a row of seven
scalars with six histograms has one unit less of L1 at its best corner than such rows attain.

Tables. Each of K partitions of all possible rows (`dppca.common.kernel.schema.partitions`) has the
number of rows in each of its cells released, times t. A replaced row leaves one cell and enters
another, or stays in its cell, independently of its other changes:

    L1 <= (6) + 2 t K,          L2^2 <= (6) + 2 t^2 K.                                          (9)

These are upper bounds that need not be met: rows that move the products most may lie in one cell of
a table. Two binaries with w = 1/4, each with a table of its own, have L1 = 4.5, where (9) is 4.75.

A release of tables alone has 2 t K and 2 t^2 K, which two rows attain that differ in the cell of
every partition.

Heavy squares. Where squares of numerics have a weight a > 1, a whole number, a square moves by
a p, p = beta (1 - beta) <= 1/4, in L1 and by a^2 p^2 in L2; that of a missing number's change by
a/4 and a^2/16. No corner moves a square, so only what corners lose to the inside is new.

L1. Let T be the weight of all changes beside a scalar: t_0 + omega t_1 and half of the changing
numbers' weights. A coin for a target numeric loses a p and gains T min(beta, 1 - beta), so it loses
at most max(a - T, 0)^2 / (4 a). The rest is exact: of the others let n binaries flip, k numerics
move by 1 - y' and l by y. With B = n + k (1 - y') + l y and C, the slope of (2) or (5) in r_0,

    C B - B^2/2 + l e(y) + k e(y'),    e(y) = (a - 1/2) y (1 - y) - T y,    0 <= y, y' <= 1/2   (13)

takes the place of the part of r_0. Numerics of one side share their y, because (13) is concave in
theirs; it is so in n and all y together. Its summit has e'(y) = -D and e'(y') = D with D = C - B,
clipped to 0 and 1/2. With T = 0 nothing is special at 1/2, and k is 0 or all. Coins lose at most
max(a - T, 0)^2 / (4 a) each, and those that keep B within 1 of its mean, whose variance is at most
1/4, 1/8 + max(a - 1/2 - T, 0)^2 / (4 a - 2) each: most t need no search, nor do many numerics, of
which this is the bound.

L2. A coin for each numeric loses, with p = 0 for binaries and E = w^2 and the categoricals' W^2,

    X = sum over numerics of a^2 p^2 - E p - sum over pairs of scalars of W^2 ((p + p')/4 - p p')

in all, which is convex in each p: it is largest where all numerics of a class have p = 0, or all
1/4. Coins of the others that keep B within 1 of its mean lose at most 1/16 more than X less
a quarter of their p, because the mean of a corner has -1/4 times the variance of B. So

    L2^2 <= (3), (5) or (12) + max(0, min(max X, 1/16 + max (X - sum of the others' p/4))).     (14)

With missing numbers, each change of another adds a^2 - 1 sixteenths, one of a target as many, and
each more of these max(a^2 - omega^2, 0).

Products of bins. A numeric with ``products: bins`` has an indicator for each of its cells, and one
of them is set, by its value alone: it counts as a categorical here, and not as a scalar. The
results above hold for any number of indicators, even if some of them can never be set.

Rows in the unit ball. D = xx' - yy' has at most one positive and one negative eigenvalue. The sum
of |D_ij| over all entries is <S, D> for a symmetric sign matrix S, so at most sqrt(2) |S|_F =
sqrt(2) d; the diagonal holds at most 2; a triangle is half of each. By Cauchy-Schwarz it is also at
most sqrt(d (d+3)/2). With sums, append the constant a to the rows and apply Cauchy-Schwarz to the
larger matrix, with any s = a^2 > 0; and |D|_F^2 + w^2 |x - y|^2 is largest for unit x, y, where it
is 2 - 2 z^2 + 2 w^2 (1 - z) with z = <x, y>, so at z = -min(w^2/2, 1):

    L1 <= min(d / sqrt(2) + 1, sqrt(d (d + 3)/2)),          L2^2 <= 2                          (7)
    L1 <= sqrt(2) (1 + s) sqrt(d (d + 3)/4 + w^2 d/(2 s)),  L2^2 <= 2 - 2 z^2 + 2 w^2 (1 - z)  (8)

and the latter is 9/2 for w = 1.

Limits: rows attain (2), (3) and the bounds on L2 (a single numeric column with w < 1/2 stays below
its own), and (4) up to the grid. (14) is an upper bound, of which rows may attain but half where
squares cost something. The bounds on L1 in (7) and (8) are upper ones, of which search finds nine
tenths or more for d >= 2. Rows must be integers on the grid of 2^-g: numerics within
-2^(g-1) to 2^(g-1), ``row_norm`` rows with a sum of squares of at most 4^g. This module knows rows
and not people: a person with k rows costs k times as much, and ``mechanisms`` multiplies by k.

Source: derived for this project; the discrete mechanisms that use the integers are from Canonne,
Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache, partial
from itertools import product, takewhile
from math import ceil, comb, floor, isqrt
from typing import Annotated

from dppca.common.kernel.errors import SettingError

MAX_RESOLUTION_BITS = 14  # of a coded value: its square has 28, and sums of rows fit 62
SEARCHED = 32  # numerics of which (13) is searched; of more, a bound is taken
ROOT_BITS = 96  # irrational bounds are rounded up to multiples of 2^-96


class Relation(StrEnum):
    """Relation between neighbouring tables."""

    REPLACE_ONE = "replace-one"
    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    REPLACE_PERSON = "replace-person"
    ADD_OR_REMOVE_PERSON = "add-or-remove-person"


@dataclass(frozen=True, slots=True)
class BoxShape:
    """Counts of a schema that codes each attribute by its own bounds."""

    n_scalars: Annotated[int, "Q, numeric and binary attributes together"]
    n_numeric: Annotated[int, "q, numeric ones among them"]
    n_categoricals: Annotated[
        int,
        "c, attributes coded as a block of indicators: categoricals, and numerics with "
        "`products: bins`",
    ]
    sum_weight: Annotated[Fraction, "w > 0, weight of the released column sums"] = Fraction(1)
    n_histograms: Annotated[int, "H, numerics whose histogram is released"] = 0
    histogram_weight: Annotated[Fraction, "h > 0, weight of histograms"] = Fraction(1)
    target_counts: Annotated[
        tuple[int, int, int],
        "scalars, numerics among them, and categoricals that are targets; counted above, too",
    ] = (0, 0, 0)
    target_weight: Annotated[
        int, "omega, weight of products with targets: at least 2 where there are any"
    ] = 1
    n_tables: Annotated[int, "K, tables and trees in whose cells rows are counted"] = 0
    table_weight: Annotated[Fraction, "t > 0, weight of these counts"] = Fraction(1)

    def __post_init__(self) -> None:
        if not 0 <= self.n_numeric <= self.n_scalars or self.n_categoricals < 0:
            raise SettingError(
                f"a schema cannot have {self.n_numeric} numeric of {self.n_scalars} scalar and "
                f"{self.n_categoricals} categorical attributes; counts must be 0 or more"
            )
        if self.n_scalars + self.n_categoricals == 0:
            raise SettingError("a schema needs at least one attribute")
        _require_weight(self.sum_weight)
        _require_weight(self.histogram_weight)
        _require_weight(self.table_weight)
        if self.n_tables < 0:
            raise SettingError(f"{self.n_tables} tables are given; give 0 or more")
        if not 0 <= self.n_histograms <= self.n_numeric:
            raise SettingError(
                f"{self.n_histograms} histograms for {self.n_numeric} numeric attributes"
            )
        scalars, numeric, categoricals = self.target_counts
        others = (self.n_scalars - scalars, self.n_numeric - numeric)
        if not (
            0 <= numeric <= scalars
            and 0 <= others[1] <= others[0]
            and 0 <= categoricals <= self.n_categoricals
        ):
            raise SettingError("the targets are not among the attributes")
        if any(self.target_counts) and (self.target_weight < 2 or self.sum_weight < Fraction(1, 2)):
            raise SettingError(
                "targets need a weight of at least 2, and the sums one of at least 1/2"
            )

    @property
    def other_counts(self) -> tuple[int, int, int]:
        """Counts like `target_counts`, for the attributes that are no targets."""
        scalars, numeric, categoricals = self.target_counts
        return (
            self.n_scalars - scalars,
            self.n_numeric - numeric,
            self.n_categoricals - categoricals,
        )


@dataclass(frozen=True, slots=True)
class MissingBoxShape(BoxShape):
    """Counts of a box schema in which some numerics have a column for missing values.

    It is a class of its own, so that the claims about other schemas have the keys of 0.1.0.
    """

    indicator_counts: Annotated[
        tuple[int, int],
        "numerics with a column for missing values: others, and targets; counted above, too",
    ] = (0, 0)

    def __post_init__(self) -> None:
        BoxShape.__post_init__(self)
        numerics = (self.other_counts[1], self.target_counts[1])
        if not all(0 <= m <= q for m, q in zip(self.indicator_counts, numerics, strict=True)):
            raise SettingError("columns for missing values belong to numerics")


@dataclass(frozen=True, slots=True)
class HeavySquaresShape(MissingBoxShape):
    """Counts of a box schema in which squares of numerics have a weight above 1."""

    square_weight: Annotated[int, "a, weight of the squares of numerics"] = 1

    def __post_init__(self) -> None:
        MissingBoxShape.__post_init__(self)
        if self.square_weight < 1 or self.n_numeric == 0:
            raise SettingError("squares need numerics, and a weight of 1 or more")


@dataclass(frozen=True, slots=True)
class BallShape:
    """Counts of a schema whose rows are scaled into the unit ball."""

    n_columns: Annotated[int, "d, numeric columns"]
    with_sums: Annotated[bool, "whether the column sums are released beside the triangle"]
    sum_weight: Annotated[
        Fraction, "w > 0, weight of the released column sums; without effect if there are none"
    ] = Fraction(1)

    def __post_init__(self) -> None:
        if self.n_columns < 1:
            raise SettingError(f"a schema needs at least one column, not {self.n_columns}")
        _require_weight(self.sum_weight)


@dataclass(frozen=True, slots=True)
class TablesShape:
    """Counts of a schema that releases tables alone."""

    n_tables: Annotated[int, "K, tables and trees in whose cells rows are counted"]
    table_weight: Annotated[Fraction, "t > 0, weight of these counts"] = Fraction(1)

    def __post_init__(self) -> None:
        _require_weight(self.table_weight)
        if self.n_tables < 1:
            raise SettingError(f"{self.n_tables} tables are given; give 1 or more")


Shape = BoxShape | MissingBoxShape | HeavySquaresShape | BallShape | TablesShape


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Largest change by one replaced or added row, in exact integers.

    ``l1`` is Delta_1, the sum of absolute changes, in units of 4^-g, and ``l2_squared`` Delta_2^2,
    the sum of squared changes, in units of 16^-g, both rounded up; ``resolution_bits`` is g: one
    step of a coded column is 2^-g. ``relation`` is that between neighbouring tables.
    """

    l1: int
    l2_squared: int
    resolution_bits: int
    relation: Relation


def sensitivity(shape: Shape, *, resolution_bits: int) -> Sensitivity:
    """Return the sensitivity of the packed vector of integer sums to one replaced row.

    Raise `SettingError` if g is not within 1 to 14, or the weighted sums would leave the grid.
    """
    if not 1 <= resolution_bits <= MAX_RESOLUTION_BITS:
        raise SettingError(
            f"resolution_bits must be within 1 to {MAX_RESOLUTION_BITS}, not {resolution_bits}"
        )
    weight = Fraction(1) if isinstance(shape, TablesShape) else shape.sum_weight
    if (weight * 2**resolution_bits).denominator != 1:
        raise SettingError(
            f"the weight of the sums, {weight}, must be a multiple of "
            f"2^-{resolution_bits}; choose a nearby multiple or raise resolution_bits"
        )
    return Sensitivity(
        l1=ceil(real_l1(shape) * 4**resolution_bits),
        l2_squared=ceil(real_l2_squared(shape) * 16**resolution_bits),
        resolution_bits=resolution_bits,
        relation=Relation.REPLACE_ONE,
    )


@lru_cache(maxsize=64)
def real_l1(shape: Shape) -> Fraction:
    """Return the L1 sensitivity in real units; (7) and (8) are rounded up."""
    if isinstance(shape, TablesShape):
        return 2 * shape.table_weight * shape.n_tables
    if isinstance(shape, BallShape):
        return _ball_l1_with_sums(shape) if shape.with_sums else _ball_l1(shape.n_columns)
    missing = _indicator_counts(shape)
    if _square_weight(shape) > 1:
        box = _all_missing_change(shape) + _largest_with_heavy_squares(shape)
    elif shape.n_categoricals == 0 and shape.n_numeric > 0 and not any(missing):
        box = _largest_of_scalars(shape)  # c = 0: corners are too few
    else:
        lone = shape.n_categoricals == 0 and missing == (1, 0)
        box = _all_missing_change(shape) + _largest_corner(shape, 1, lone=lone)
    return box + 2 * _count_weights(shape, power=1)


@lru_cache(maxsize=64)
def real_l2_squared(shape: Shape) -> Fraction:
    """Return the squared L2 sensitivity in real units: equations (3), (5) to (9), (12), (14)."""
    if isinstance(shape, TablesShape):
        return 2 * shape.table_weight**2 * shape.n_tables
    weight = shape.sum_weight**2
    if isinstance(shape, BallShape):
        z = -min(weight / 2, Fraction(1))  # (8); without sums (7)
        return 2 - 2 * z**2 + 2 * weight * (1 - z) if shape.with_sums else Fraction(2)
    missing = _indicator_counts(shape)
    parts = (1 + (missing[0] > 0), 1 + (missing[1] > 0))
    box = _largest_corner(shape, 2, parts=parts)
    alone = shape.n_scalars == shape.n_numeric == 1 and shape.n_categoricals == 0
    if _square_weight(shape) > 1:
        box += _l2_of_heavy_squares(shape)
    elif alone and not any(missing):
        box += max(Fraction(0), (1 - 4 * weight) / 16)  # a single numeric column, w < 1/2
    return box + 2 * _count_weights(shape, power=2)


def _count_weights(shape: BoxShape, *, power: int) -> Fraction:
    """Sum of the weights of histograms and tables, to a power: equations (6) and (9)."""
    histograms = shape.histogram_weight**power * shape.n_histograms
    return histograms + shape.table_weight**power * shape.n_tables


def _indicator_counts(shape: BoxShape) -> tuple[int, int]:
    return shape.indicator_counts if isinstance(shape, MissingBoxShape) else (0, 0)


def _square_weight(shape: BoxShape) -> int:
    return shape.square_weight if isinstance(shape, HeavySquaresShape) else 1


def _apart(shape: BoxShape, power: int) -> tuple[int, int]:
    return _indicator_counts(shape) if power == 1 else (0, 0)


def _all_missing_change(shape: BoxShape) -> Fraction:
    """L1 change where every numeric with a column for missing values changes: (10)."""
    (Q0, _, c0), (Q1, _, c1) = shape.other_counts, shape.target_counts
    (m0, m1), omega = _indicator_counts(shape), shape.target_weight
    pairs = comb(m0, 2) + omega * (comb(m1, 2) + m0 * m1)
    beside = (Q0 - m0 + 2 * c0) * (m0 + omega * m1) + (Q1 - m1 + 2 * c1) * omega * (m0 + m1)
    square = Fraction(_square_weight(shape), 4)
    return (m0 + m1) * (shape.sum_weight + square) + Fraction(pairs + beside, 2)


@dataclass(frozen=True, slots=True)
class _Corner:
    """By r_0, (5) is ``fixed + slope r_0 - pair r_0^2``, for counts of all else that moves."""

    t0: int
    t1: int
    fixed: Fraction
    slope: Fraction
    pair: Fraction

    def value(self, r0: Fraction) -> Fraction:
        """Value of (5)."""
        return self.fixed + self.slope * r0 - self.pair * r0 * r0

    def near_summit(self, most: int, parts: int = 1) -> Iterator[int]:
        """Yield the places beside the summit, up to ``most``, in ``parts`` of one."""
        summit = floor(parts * self.slope / (2 * self.pair))
        yield from {min(max(summit + k, 0), most) for k in (0, 1)}


def _corners(shape: BoxShape, power: int, parts1: int = 1) -> Iterator[_Corner]:
    """Yield (2) or, by ``power`` 2, (3), with (5), for all t and r_1, in ``parts1`` of one.

    In L1 numerics with a column for missing values are left out: they change, (10).
    """
    (Q0, _, c0), (Q1, _, c1) = shape.other_counts, shape.target_counts
    m0, m1 = _apart(shape, power)
    Q0, Q1 = Q0 - m0, Q1 - m1
    weight, target = shape.sum_weight**power, shape.target_weight**power
    pair = Fraction(1, 2**power)  # of scalars; a scalar beside a changed categorical has twice it
    for places, t1, t0 in product(range(parts1 * Q1 + 1), range(c1 + 1), range(c0 + 1)):
        r1 = Fraction(places, parts1)
        slope = pair * (Q0 + target * (Q1 - 2 * r1)) + (c0 - t0) + target * (c1 - t1) + weight
        # Pairs of categoricals of which one changes: two others, two targets, one of each.
        changed = comb(c0, 2) - comb(c0 - t0, 2)
        changed += target * (comb(c1, 2) - comb(c1 - t1, 2) + c0 * c1 - (c0 - t0) * (c1 - t1))
        # The lines of (5), each without its part in r_0.
        fixed = (
            pair * target * r1 * (Q1 - r1 + Q0)
            + 2 * pair * (t0 * (Q0 + target * Q1) + target * t1 * (Q0 + Q1))
            + target * r1 * (c0 - t0 + c1 - t1)
            + 2 * changed
            + weight * (r1 + 2 * t0 + 2 * t1)
            - Fraction((target - 1) * (places % parts1), 16)
        )
        yield _Corner(t0, t1, fixed, slope, pair)


def _largest_corner(
    shape: BoxShape, power: int, *, lone: bool = False, parts: tuple[int, int] = (1, 1)
) -> Fraction:
    """Maximum of `_corners` over r and t; a concave parabola in r_0 for the others fixed.

    ``lone`` adds (11). r_0 and r_1 are taken in as many ``parts`` of one: in halves by (12).
    """
    (Q0, q0, _), (m0, _) = shape.other_counts, _apart(shape, power)
    Q0, q0 = Q0 - m0, q0 - m0
    largest = Fraction(0)
    for corner in _corners(shape, power, parts[1]):
        for place in corner.near_summit(parts[0] * Q0, parts[0]):
            r0 = Fraction(place, parts[0])
            more = corner.value(r0)
            if lone:  # here the slope is C
                shared = min(q0, Q0 - place if r0 <= corner.slope else place)
                more += shared * (corner.slope - r0) ** 2 / (2 * (shared + 1))
            largest = max(largest, more)
    return largest


def _largest_with_heavy_squares(shape: BoxShape) -> Fraction:
    """Maximum of (2) or (5) with (13) in L1, where squares have a weight a > 1."""
    a, omega, (m0, m1) = _square_weight(shape), shape.target_weight, _indicator_counts(shape)
    (Q0, q0, _), (_, q1, _) = shape.other_counts, shape.target_counts
    Q0, q0, q1 = Q0 - m0, q0 - m0, q1 - m1
    sigma, found = a - Fraction(1, 2), list[tuple[Fraction, Fraction, _Corner]]()
    for corner in _corners(shape, 1):
        beside = corner.t0 + omega * corner.t1 + Fraction(m0 + omega * m1, 2)  # T
        beside_target = omega * (corner.t0 + corner.t1 + Fraction(m0 + m1, 2))
        most = q1 * _gain(Fraction(a), beside_target)
        most += min(q0 * _gain(Fraction(a), beside), q0 * _gain(sigma, beside) + Fraction(1, 8))
        most += max(corner.value(Fraction(place)) for place in corner.near_summit(Q0))
        found.append((most, beside, corner))
    largest = Fraction(0)
    for most, beside, corner in sorted(found, key=lambda each: each[0], reverse=True):
        if most <= largest:
            break
        if beside < a and q0 <= SEARCHED:
            inside = _Inside(corner.slope, beside, sigma, binaries=Q0 - q0, numerics=q0)
            beside_target = omega * (corner.t0 + corner.t1 + Fraction(m0 + m1, 2))
            most = corner.fixed + inside.largest() + q1 * _gain(Fraction(a), beside_target)
        largest = max(largest, most)
    return largest


def _gain(weight: Fraction, beside: Fraction) -> Fraction:
    """Maximum of ``weight y (1 - y) - beside y`` for y from 0 to 1/2."""
    return max(weight - beside, Fraction(0)) ** 2 / (4 * weight)


@dataclass(frozen=True, slots=True)
class _Inside:
    """Equation (13), with ``sigma`` for a - 1/2."""

    C: Fraction
    T: Fraction
    sigma: Fraction
    binaries: int
    numerics: int

    def largest(self) -> Fraction:
        """Maximum over n, k, y and y'."""
        sides = range(self.numerics + 1) if self.T else (0, self.numerics)
        of_flips = [partial(self.value, k) for k in sides]
        return max(value(_summit(value, self.binaries)) for value in of_flips)

    def value(self, k: int, n: int) -> Fraction:
        """Maximum over y and y': where D = C - B, which is where straight pieces cross 0."""
        others = self.numerics - k

        def sides(D: Fraction) -> tuple[Fraction, Fraction]:
            low, high = ((1 - (self.T + sign * D) / self.sigma) / 2 for sign in (-1, 1))
            zero, half = Fraction(0), Fraction(1, 2)
            return min(max(low, zero), half), min(max(high, zero), half)

        def above(D: Fraction) -> Fraction:  # rises with D
            low, high = sides(D)
            return D - self.C + n + k * (1 - high) + others * low

        ends = sorted((self.T - self.sigma, self.T, self.sigma - self.T, -self.T))
        heights = [above(end) for end in ends]
        place = sum(height < 0 for height in heights)
        if place in (0, len(ends)):  # from the outermost ends on it rises as D does
            end = max(place - 1, 0)
            D = ends[end] - heights[end]
        else:
            step = (ends[place] - ends[place - 1]) / (heights[place] - heights[place - 1])
            D = ends[place] - heights[place] * step
        low, high = sides(D)
        B = self.C - D
        return self.C * B - B * B / 2 + others * self._gained(low) + k * self._gained(high)

    def _gained(self, y: Fraction) -> Fraction:
        return self.sigma * y * (1 - y) - self.T * y


def _l2_of_heavy_squares(shape: BoxShape) -> Fraction:
    """What (14) and changes of missing numbers add."""
    (_, q0, _), (_, q1, _), (m0, m1) = (
        shape.other_counts, shape.target_counts, _indicator_counts(shape)
    )  # fmt: skip
    a2, omega2 = _square_weight(shape) ** 2, shape.target_weight**2
    lost = {(n0, n1): _lost_by_coins(shape, n0, n1) for n0 in (0, q0) for n1 in (0, q1)}
    together = max(each - n0 for (n0, _), each in lost.items())
    changes = m0 * (a2 - 1) + (a2 - 1 + (m1 - 1) * max(a2 - omega2, 0) if m1 else 0)
    return (max(Fraction(0), min(max(lost.values()), 1 + together)) + changes) / 16


def _lost_by_coins(shape: BoxShape, n0: int, n1: int) -> Fraction:
    """X of (14), in sixteenths, where n_0 others and n_1 targets have p = 1/4."""
    (Q0, _, c0), (Q1, _, c1) = shape.other_counts, shape.target_counts
    a2, w2, omega2 = _square_weight(shape) ** 2, shape.sum_weight**2, shape.target_weight**2
    pairs = comb(n0, 2) + n0 * (Q0 - n0) + omega2 * (n0 * Q1 + n1 * Q0 - n0 * n1)
    pairs += omega2 * (comb(n1, 2) + n1 * (Q1 - n1))
    own = n0 * (a2 - 4 * (w2 + c0 + omega2 * c1)) + n1 * (a2 - 4 * (w2 + omega2 * (c0 + c1)))
    return own - pairs


def _largest_of_scalars(shape: BoxShape) -> Fraction:
    """Maximum of (4), or of its form with targets: scalars alone, some numeric.

    For flipped targets alone it is concave in (s_0, beta_0), and so in s_0. One more target that
    moves by beta_1 adds at most 1/4 to the larger of its ends, beta_1 = 0 and 1: it is computed
    only where one of these comes that near to the largest.
    """
    (Q0, q0, _), (Q1, q1, _) = shape.other_counts, shape.target_counts
    last = Q0 - q0  # s_0 counts the binaries among the others
    ends = [_Scalars(shape, flipped_targets=flipped, free=0).largest for flipped in range(Q1 + 1)]
    summits = [_summit(values, last) for values in ends]
    largest = max(values(summit) for values, summit in zip(ends, summits, strict=True))
    enough = largest - Fraction(1, 4)
    for flipped in range(Q1 if q1 else 0):
        free = _Scalars(shape, flipped_targets=flipped, free=1)
        for k in (flipped, flipped + 1):
            near = _places_above(ends[k], enough, summit=summits[k], last=last)
            largest = max([largest, *map(free.largest, near)])
    return largest


def _places_above(
    values: Callable[[int], Fraction], least: Fraction, *, summit: int, last: int
) -> Iterator[int]:
    """Yield places where values, which fall on both sides of their summit, are above the least."""
    for places in (range(summit, -1, -1), range(summit + 1, last + 1)):
        yield from takewhile(lambda place: values(place) > least, places)


def _summit(values: Callable[[int], Fraction], last: int) -> int:
    """Place of the largest of ``values(0)`` to ``values(last)``, whose differences never rise."""
    first = 0
    while first < last:
        middle = (first + last) // 2
        if values(middle + 1) > values(middle):
            first = middle + 1
        else:
            last = middle
    return first


@dataclass(frozen=True, slots=True)
class _Scalars:
    """L1 change of scalars alone, c = 0, as a function of s_0, beta_0 and beta_1.

    ``flipped_targets`` targets move by 1. ``free`` is 1 if one more, a numeric, moves by beta_1;
    else 0.
    """

    shape: BoxShape
    flipped_targets: int
    free: int

    def value(self, s0: int, b0: Fraction, b1: Fraction) -> Fraction:
        """Sum of absolute changes."""
        # (1) with t = c = 0, over others and targets apart, and omega on pairs with a target.
        (Q0, q0, _), (Q1, _, _) = self.shape.other_counts, self.shape.target_counts
        B0, B1 = s0 + q0 * b0, self.flipped_targets + self.free * b1
        squares0, squares1 = q0 * b0 * (1 - b0), self.free * b1 * (1 - b1)
        others = B0 * (Q0 - B0) - squares0
        targets = B1 * (Q1 - B1) - squares1 + B0 * (Q1 - B1) + B1 * (Q0 - B0)
        pairs = (others + self.shape.target_weight * targets) / 2
        return self.shape.sum_weight * (B0 + B1) + pairs + squares0 + squares1

    def largest(self, s0: int) -> Fraction:
        """Maximum over beta_0 and beta_1 within 0 to 1, of the quadratic with A, B, C, D, E and G.

        It is on the border: the module's docstring proves it.
        """
        zero, half, one = Fraction(0), Fraction(1, 2), Fraction(1)
        # A b0^2 + B b1^2 + C b0 b1 + D b0 + E b1 + G from six of its values, exactly.
        G, D1, E1 = (self.value(s0, *at) for at in ((zero, zero), (one, zero), (zero, one)))
        A = 2 * (G + D1) - 4 * self.value(s0, half, zero)
        B = 2 * (G + E1) - 4 * self.value(s0, zero, half)
        D, E = D1 - G - A, E1 - G - B
        C = self.value(s0, one, one) - A - B - D - E - G
        points = [(b0, b1) for b0 in (zero, one) for b1 in (zero, one)]
        # On a side the quadratic has one variable, and its summit is where the derivative is 0.
        if A < 0:
            points += [(-(D + C * b1) / (2 * A), b1) for b1 in (zero, one)]
        if B < 0:
            points += [(b0, -(E + C * b0) / (2 * B)) for b0 in (zero, one)]
        return max(
            A * b0 * b0 + B * b1 * b1 + C * b0 * b1 + D * b0 + E * b1 + G
            for b0, b1 in points
            if 0 <= b0 <= 1 and 0 <= b1 <= 1
        )


def _ball_l1(d: int) -> Fraction:
    """Equation (7)."""
    return min(square_root_up(Fraction(d * d, 2)) + 1, square_root_up(Fraction(d * (d + 3), 2)))


def _ball_l1_with_sums(shape: BallShape) -> Fraction:
    """Equation (8); any s is valid, this one is the minimiser up to rounding."""
    d = shape.n_columns
    a, b = Fraction(d * (d + 3), 4), shape.sum_weight**2 * d / 2
    # The derivative of (1 + s)^2 (a + b/s) is 0 where 2 a s^2 + b s - b = 0.
    s = (square_root_up(b * b + 8 * a * b) - b) / (4 * a)
    return square_root_up(2 * (1 + s) ** 2 * (a + b / s))


def _require_weight(weight: Fraction) -> None:
    if weight <= 0:
        raise SettingError(f"the weight of the sums must be above 0, not {weight}")


def square_root_up(value: Fraction) -> Fraction:
    """Square root, rounded up to a multiple of 2^-96."""
    scaled = value * 4**ROOT_BITS
    root = isqrt(ceil(scaled))
    return Fraction(root if root * root >= scaled else root + 1, 2**ROOT_BITS)
