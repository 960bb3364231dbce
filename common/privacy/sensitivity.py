"""How far one row can move the released sums.

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

Rows in the unit ball. D = xx' - yy' has at most one positive and one negative eigenvalue. The sum
of |D_ij| over all entries is <S, D> for a symmetric sign matrix S, so at most sqrt(2) |S|_F =
sqrt(2) d; the diagonal holds at most 2; a triangle is half of each. By Cauchy-Schwarz it is also at
most sqrt(d (d+3)/2). With sums, append the constant a to the rows and apply Cauchy-Schwarz to the
larger matrix, with any s = a^2 > 0; and |D|_F^2 + w^2 |x - y|^2 is largest for unit x, y, where it
is 2 - 2 z^2 + 2 w^2 (1 - z) with z = <x, y>, so at z = -min(w^2/2, 1):

    L1 <= min(d / sqrt(2) + 1, sqrt(d (d + 3)/2)),          L2^2 <= 2                          (5)
    L1 <= sqrt(2) (1 + s) sqrt(d (d + 3)/4 + w^2 d/(2 s)),  L2^2 <= 2 - 2 z^2 + 2 w^2 (1 - z)  (6)

and the latter is 9/2 for w = 1.

Limits: rows attain (2), (3) and the bounds on L2 (a single numeric column with w < 1/2 stays below
its own), and (4) up to the grid. The bounds on L1 in (5) and (6) are upper ones, of which search
finds nine tenths or more for d >= 2. Rows must be integers on the grid of 2^-g: numerics within
-2^(g-1) to 2^(g-1), ``row_norm`` rows with a sum of squares of at most 4^g. Nothing is known here
about people: a person with k rows costs k times as much, which ``mechanisms`` multiplies in.

Source: derived for this project; the discrete mechanisms that use the integers are those of
Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil, comb, floor, isqrt

from dppca.common.errors import SettingError

MAX_RESOLUTION_BITS = 14
ROOT_BITS = 96  # irrational bounds are rounded up to multiples of 2^-96


class Relation(StrEnum):
    """Which tables count as neighbours."""

    REPLACE_ONE = "replace-one"


@dataclass(frozen=True, slots=True)
class BoxShape:
    """The counts of a schema that codes each attribute by its own bounds.

    Attributes
    ----------
    n_scalars
        Q, numeric and binary attributes together.
    n_numeric
        q, how many of them are numeric.
    n_categoricals
        c, attributes coded as a block of indicators.
    sum_weight
        w > 0, what the released column sums are multiplied by; public, fixed in the study.
    """

    n_scalars: int
    n_numeric: int
    n_categoricals: int
    sum_weight: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if not 0 <= self.n_numeric <= self.n_scalars or self.n_categoricals < 0:
            raise SettingError(
                f"a schema cannot have {self.n_numeric} numeric of {self.n_scalars} scalar and "
                f"{self.n_categoricals} categorical attributes; counts must be 0 or more"
            )
        if self.n_scalars + self.n_categoricals == 0:
            raise SettingError("a schema needs at least one attribute")
        _require_weight(self.sum_weight)


@dataclass(frozen=True, slots=True)
class BallShape:
    """The counts of a schema whose rows are scaled into the unit ball.

    Attributes
    ----------
    n_columns
        d, numeric columns.
    with_sums
        Whether the column sums are released beside the triangle.
    sum_weight
        w > 0, what the released column sums are multiplied by; without effect if there are none.
    """

    n_columns: int
    with_sums: bool
    sum_weight: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.n_columns < 1:
            raise SettingError(f"a schema needs at least one column, not {self.n_columns}")
        _require_weight(self.sum_weight)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The change one replaced row can make, in exact integers.

    Attributes
    ----------
    l1
        Delta_1, sum of absolute changes, in units of 4^-g, rounded up.
    l2_squared
        Delta_2^2, sum of squared changes, in units of 16^-g, rounded up.
    resolution_bits
        g; one step of a coded column is 2^-g.
    relation
        What a neighbouring table is.
    """

    l1: int
    l2_squared: int
    resolution_bits: int
    relation: Relation


def sensitivity(shape: BoxShape | BallShape, *, resolution_bits: int) -> Sensitivity:
    """Sensitivity of the packed vector of integer sums to one replaced row.

    Raises
    ------
    SettingError
        If g is not within 1 to 14, or the weighted sums would leave the grid.
    """
    if not 1 <= resolution_bits <= MAX_RESOLUTION_BITS:
        raise SettingError(
            f"resolution_bits must be within 1 to {MAX_RESOLUTION_BITS}, not {resolution_bits}"
        )
    if (shape.sum_weight * 2**resolution_bits).denominator != 1:
        raise SettingError(
            f"the weight of the sums, {shape.sum_weight}, must be a multiple of "
            f"2^-{resolution_bits}; choose a nearby multiple or raise resolution_bits"
        )
    return Sensitivity(
        l1=ceil(real_l1(shape) * 4**resolution_bits),
        l2_squared=ceil(real_l2_squared(shape) * 16**resolution_bits),
        resolution_bits=resolution_bits,
        relation=Relation.REPLACE_ONE,
    )


def real_l1(shape: BoxShape | BallShape) -> Fraction:
    """L1 sensitivity in real units: equations (2) and (4) exactly; (5), (6) rounded up."""
    if isinstance(shape, BallShape):
        return _ball_l1_with_sums(shape) if shape.with_sums else _ball_l1(shape.n_columns)
    if shape.n_categoricals == 0 and shape.n_numeric > 0:
        flips = range(shape.n_scalars - shape.n_numeric + 1)
        return max(_scalar_l1(shape, flipped=flipped) for flipped in flips)
    return _largest_corner(
        shape, pair=Fraction(1, 2), beside_changed=Fraction(1), weight=shape.sum_weight
    )


def real_l2_squared(shape: BoxShape | BallShape) -> Fraction:
    """Squared L2 sensitivity in real units: equations (3), (5) and (6), which rows attain."""
    weight = shape.sum_weight**2
    if isinstance(shape, BallShape):
        product = -min(weight / 2, Fraction(1))
        return 2 - 2 * product**2 + 2 * weight * (1 - product) if shape.with_sums else Fraction(2)
    corner = _largest_corner(
        shape, pair=Fraction(1, 4), beside_changed=Fraction(1, 2), weight=weight
    )
    alone = shape.n_scalars == shape.n_numeric == 1 and shape.n_categoricals == 0
    return corner + max(Fraction(0), (1 - 4 * weight) / 16) if alone else corner


def _largest_corner(
    shape: BoxShape, *, pair: Fraction, beside_changed: Fraction, weight: Fraction
) -> Fraction:
    """Maximum of (2) or (3) over r and t; a concave parabola in r for each t."""
    Q, c = shape.n_scalars, shape.n_categoricals
    largest = Fraction(0)
    for t in range(c + 1):
        slope = pair * Q + (c - t) + weight
        summit = floor(slope / (2 * pair))
        fixed = beside_changed * t * Q + 2 * (comb(c, 2) - comb(c - t, 2)) + 2 * weight * t
        for r in {min(summit, Q), min(summit + 1, Q)}:
            largest = max(largest, fixed + slope * r - pair * r * r)
    return largest


def _scalar_l1(shape: BoxShape, *, flipped: int) -> Fraction:
    """Equation (4) for one count s of flipped binary scalars."""
    Q, q, w = shape.n_scalars, shape.n_numeric, shape.sum_weight
    beta = min(max((Q + 2 * w + 1 - 2 * flipped) / (2 * (q + 1)), Fraction(0)), Fraction(1))
    B = flipped + q * beta
    return B * (Q + 2 * w - B) / 2 + q * beta * (1 - beta) / 2


def _ball_l1(d: int) -> Fraction:
    """Equation (5)."""
    return min(_square_root_up(Fraction(d * d, 2)) + 1, _square_root_up(Fraction(d * (d + 3), 2)))


def _ball_l1_with_sums(shape: BallShape) -> Fraction:
    """Equation (6); any s is valid, this one is the minimiser up to rounding."""
    d = shape.n_columns
    a, b = Fraction(d * (d + 3), 4), shape.sum_weight**2 * d / 2
    s = (_square_root_up(b * b + 8 * a * b) - b) / (4 * a)
    return _square_root_up(2 * (1 + s) ** 2 * (a + b / s))


def _require_weight(weight: Fraction) -> None:
    if weight <= 0:
        raise SettingError(f"the weight of the sums must be above 0, not {weight}")


def _square_root_up(value: Fraction) -> Fraction:
    """Square root, rounded up to a multiple of 2^-96."""
    scaled = value * 4**ROOT_BITS
    root = isqrt(ceil(scaled))
    return Fraction(root if root * root >= scaled else root + 1, 2**ROOT_BITS)
