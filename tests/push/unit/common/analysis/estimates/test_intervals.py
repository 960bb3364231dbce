"""Intervals of estimates that the noise takes beyond what is possible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.analysis.estimates.intervals import FiellerRatio, Interval, Normal

ALPHA = 0.05


def _laws(estimate: float) -> list[Interval]:
    """A share, and the same number as a ratio, with a standard error of 1/10."""
    numbers, covariance = np.array([estimate, 1.0]), np.diag([0.01, 0.0])
    return [
        Normal(estimate, 0.1, lowest=0.0, highest=1.0),
        FiellerRatio(numbers, covariance, lowest=0.0, highest=1.0),
    ]


@given(st.floats(-2, 3))
def test_an_interval_is_possible_and_no_point(estimate: float) -> None:
    """It is that of the nearest possible value where the estimate is not possible."""
    inside = min(max(estimate, 0.0), 1.0)
    expected = [max(inside - 0.196, 0), min(inside + 0.196, 1)]
    for law in _laws(estimate):
        assert law.interval(ALPHA) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("truth", [0.0, 0.02, 0.1, 0.5, 1.0])
def test_it_holds_the_truth_as_often_as_it_says(truth: float) -> None:
    draws = truth + 0.1 * np.random.default_rng(4).standard_normal(4000)
    for place in range(2):
        ends = np.array([_laws(float(each))[place].interval(ALPHA) for each in draws])
        held = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        assert 0.94 <= held.mean() <= 0.98


def test_a_ratio_whose_denominator_may_be_none_has_no_ends_within_what_is_possible() -> None:
    law = FiellerRatio(np.array([0.5, 0.1]), np.diag([0.01, 0.01]), lowest=0.0, highest=9.0)
    assert law.interval(ALPHA) == (0.0, 9.0)
