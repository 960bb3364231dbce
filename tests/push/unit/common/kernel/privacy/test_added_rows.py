"""Sensitivity to an added row: figures, rounding, and what is refused."""

from fractions import Fraction

import pytest

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.added_rows import (
    AddedShape,
    added_l1,
    added_l2_squared,
    added_sensitivity,
)
from dppca.common.kernel.privacy.sensitivity import BallShape, BoxShape, Relation, TablesShape

ONE = Fraction(1)


def test_adult_moves_as_computed_by_hand() -> None:
    """8 scalars, of which 6 numeric, and 7 categoricals, one of each a target of weight 2."""
    shape = AddedShape(
        BoxShape(8, 6, 7, target_counts=(1, 1, 1), target_weight=2), count_weight=Fraction(3)
    )
    # Sums 4 + 7; pairs: 28/4 + 56/2 + 21, and again those with a target: 7/4 + 1/2 * (7 + 7) + 6.
    assert added_l1(shape) == 11 + 56 + Fraction(7, 4) + 7 + 6 + Fraction(6, 4) + 3
    pairs = Fraction(28, 16) + Fraction(56, 4) + 21
    targets = Fraction(7, 16) + Fraction(14, 4) + 6
    assert added_l2_squared(shape) == 2 + 7 + pairs + 3 * targets + Fraction(6, 16) + 9


def test_tables_alone_have_one_cell_each_and_no_number_of_rows() -> None:
    tables = TablesShape(4, Fraction(3, 2))
    shape = AddedShape(tables, Fraction(0))
    assert (added_l1(shape), added_l2_squared(shape)) == (6, 9)
    with pytest.raises(SettingError, match="beside all but tables alone"):
        AddedShape(tables, ONE)
    with pytest.raises(SettingError, match="beside all but tables alone"):
        AddedShape(BoxShape(2, 0, 0), Fraction(0))


@pytest.mark.parametrize("bits", [1, 6, 14])
def test_integers_are_rounded_up_by_less_than_one(bits: int) -> None:
    shape = AddedShape(BallShape(3, with_sums=True), ONE)
    found = added_sensitivity(shape, resolution_bits=bits)
    assert 0 <= found.l1 - added_l1(shape) * 4**bits < 1
    assert found.l2_squared == 3 * 16**bits
    assert (found.relation, found.resolution_bits) == (Relation.ADD_OR_REMOVE_ONE, bits)


def test_weights_off_the_grid_are_refused() -> None:
    shape = AddedShape(BoxShape(2, 0, 0, sum_weight=Fraction(1, 32)), ONE)
    with pytest.raises(SettingError, match="must be a multiple of 2\\^-4"):
        added_sensitivity(shape, resolution_bits=4)
