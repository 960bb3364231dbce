"""Sensitivity to an added row: the largest norm of what one row adds to the released sums.

Two tables are neighbours when one has all rows of the other and one row more (``neighbours:
added``). The sums then differ by the vector v(r) that the row r adds, and the number of rows by
one, which is an entry of its own with the weight a. So nothing is compared with nothing: the
sensitivity is the largest ``|v(r)|`` over rows r, and not that of a difference of two rows
(`dppca.common.kernel.privacy.sensitivity`, whose letters are used here).

Box rows. With m_i for the largest magnitude of an attribute's columns, 1/2 of a scalar and 1 of a
block of indicators, of which one is set, a row adds at most w m_i to the sums of an attribute, and
W m_i m_j to the products of two, W being omega where one of them is a target and else 1; a square
adds s/4 (s is the weight of squares), a histogram h, a table t and the number of rows a:

    L1   = w (Q/2 + c)   + sum over pairs W m_i m_j        + s q/4    + h H   + t K   + a      (1)
    L2^2 = w^2 (Q/4 + c) + sum over pairs W^2 m_i^2 m_j^2  + s^2 q/16 + h^2 H + t^2 K + a^2    (2)

Each term rises with the magnitudes and depends on nothing else, so the row with all numerics at a
bound attains all of them at once: both are exact. A number that is missing has its indicator at 1/2
and the value 0, or the other way round: together they are one scalar, whose square is then 0.

Rows in the unit ball. With s_1 for the sum of the d magnitudes, s_1 <= sqrt(d) |x| and |x| <= 1,

    L1   = (s_1^2 + |x|^2)/2 + w s_1 + a              <= (d + 1)/2 + w sqrt(d) + a             (3)
    L2^2 = (|x|^4 + sum x_i^4)/2 + w^2 |x|^2 + a^2    <= 1 + w^2 + a^2                         (4)

without the terms in w where no sums are released. Equal values attain (3), a single one (4). With
halved products each product of two columns counts twice: then L2^2 is |x|^4 + w^2 |x|^2 + a^2, and
(4) holds as well.

Tables alone have t K and t^2 K, and no number of rows: the cells of each add up to it.

Neither relation implies the other. A release with this noise tells two tables of equally many rows
apart by twice epsilon; one calibrated for replaced rows publishes their number.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Annotated

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.sensitivity import (
    BallShape,
    BoxShape,
    HeavySquaresShape,
    Relation,
    Sensitivity,
    Shape,
    TablesShape,
    sensitivity,
    square_root_up,
)


@dataclass(frozen=True, slots=True)
class AddedShape:
    """Counts of a schema whose number of rows is secret."""

    rows: Annotated[Shape, "counts of what a row adds, beside the number of rows"]
    count_weight: Annotated[Fraction, "a > 0, weight of the number of rows; 0 of tables alone"]

    def __post_init__(self) -> None:
        if (self.count_weight > 0) is isinstance(self.rows, TablesShape):
            raise SettingError("the number of rows is released beside all but tables alone")


def added_sensitivity(shape: AddedShape, *, resolution_bits: int) -> Sensitivity:
    """Return the sensitivity of the packed vector of integer sums to one added row.

    Errors are those of `sensitivity`.
    """
    checked = sensitivity(shape.rows, resolution_bits=resolution_bits)
    return Sensitivity(
        l1=ceil(added_l1(shape) * 4**checked.resolution_bits),
        l2_squared=ceil(added_l2_squared(shape) * 16**checked.resolution_bits),
        resolution_bits=checked.resolution_bits,
        relation=Relation.ADD_OR_REMOVE_ONE,
    )


def added_l1(shape: AddedShape) -> Fraction:
    """Return the L1 sensitivity in real units, equation (1) or (3), the latter rounded up."""
    rows, a = shape.rows, shape.count_weight
    if isinstance(rows, TablesShape):
        return rows.table_weight * rows.n_tables
    if isinstance(rows, BallShape):
        d = rows.n_columns
        sums = rows.sum_weight * square_root_up(Fraction(d)) if rows.with_sums else Fraction(0)
        return Fraction(d + 1, 2) + sums + a
    return _box(rows, 1) + a


def added_l2_squared(shape: AddedShape) -> Fraction:
    """Return the squared L2 sensitivity in real units, equation (2) or (4)."""
    rows, a = shape.rows, shape.count_weight
    if isinstance(rows, TablesShape):
        return rows.table_weight**2 * rows.n_tables
    if isinstance(rows, BallShape):
        return 1 + (rows.sum_weight**2 if rows.with_sums else 0) + a**2
    return _box(rows, 2) + a**2


def _box(rows: BoxShape, power: int) -> Fraction:
    """Equation (1) or, by ``power`` 2, (2), without the number of rows."""
    scalars, numerics, blocks = rows.n_scalars, rows.n_numeric, rows.n_categoricals
    square = rows.square_weight if isinstance(rows, HeavySquaresShape) else 1
    omega, (others, _, other_blocks) = Fraction(rows.target_weight) ** power, rows.other_counts
    products = omega * _pairs(scalars, blocks, power)
    products -= (omega - 1) * _pairs(others, other_blocks, power)
    return (
        rows.sum_weight**power * (Fraction(scalars, 2**power) + blocks)
        + products
        + Fraction(square, 4) ** power * numerics
        + rows.histogram_weight**power * rows.n_histograms
        + rows.table_weight**power * rows.n_tables
    )


def _pairs(scalars: int, blocks: int, power: int) -> Fraction:
    """Sum of ``(m_i m_j)^power`` over pairs of attributes."""
    once = Fraction(scalars, 2**power) + blocks
    squares = Fraction(scalars, 4**power) + blocks
    return (once**2 - squares) / 2
