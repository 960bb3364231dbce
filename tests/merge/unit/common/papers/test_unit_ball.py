"""Rows in the unit ball: each keeps its direction, of whatever size its numbers are."""

from math import hypot, inf, log10

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.papers import UnitBall

SIZES = st.floats(-307, 307).map(lambda power: 10.0**power)
NUMBERS = st.floats(-0.999, 0.999)


@given(st.lists(NUMBERS, min_size=2, max_size=5), SIZES, SIZES)
def test_a_row_of_any_size_keeps_its_direction(z: list[float], size: float, scale: float) -> None:
    row = np.array(z) * size
    found = UnitBall(scale=scale).fit_transform(row[None])[0]
    largest = np.abs(row).max()
    power = log10(largest) - log10(scale) if largest else -inf
    if power < -290:  # what lies in the ball may be below all floats
        return
    direction = row / largest
    length = min(10.0 ** min(power, 9.0) * hypot(*direction), 1.0)
    assert found == pytest.approx(direction / hypot(*direction) * length, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(
    "row", [[1e160, -2e160], [1.7e308, -1.7e308], [1e-300, 1e308], [3e154, 4e154]]
)
@pytest.mark.parametrize("scale", [1.0, 1e-200, [1.0, 1e-300], 5e-324])
def test_what_is_beyond_all_floats_lies_on_the_sphere(row: list[float], scale: object) -> None:
    found = UnitBall(scale=scale).fit_transform([row, [0.0, 0.0]])
    assert np.linalg.norm(found[0]) == pytest.approx(1)
    assert np.array_equal(found[1], [0, 0])
    assert (np.sign(found[0]) * np.sign(row) >= 0).all()


def test_a_centre_that_is_far_away_moves_no_row_off_its_line() -> None:
    found = UnitBall(centre=[-1.7e308, 0.0]).fit_transform([[1.7e308, 3.4e307 * 4]])
    assert found[0] == pytest.approx(np.array([5, 2]) / hypot(5, 2))


@given(st.lists(st.lists(st.floats(-9, 9), min_size=3, max_size=3), min_size=1, max_size=4))
def test_a_row_does_not_depend_on_rows_beside_it(rows: list[list[float]]) -> None:
    ball = UnitBall(scale=2.0)
    alone = [ball.fit_transform([row])[0] for row in rows]
    assert np.array_equal(ball.fit_transform([*rows, [1e200, 1e-200, 1.0]])[:-1], alone)
