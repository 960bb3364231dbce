"""Intervals of estimates, those too that the noise takes beyond what is possible."""

from math import atanh, sqrt, tanh

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.analysis.estimates.intervals import Correlation, FiellerRatio, Interval, Normal

ALPHA = 0.05
FALSE_ALARMS = 0.0  # all noise has a seed


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


@given(
    st.floats(-0.98, 0.98),
    st.integers(10, 10**7),
    st.floats(-15, -0.5).map(lambda power: 10.0**power),
    st.floats(1e-6, 0.5),
)
def test_little_noise_takes_a_correlation_to_no_end(
    r: float, n: int, noise: float, alpha: float
) -> None:
    """``noise`` is a standard deviation beside that of sampling; the interval is Fisher's then."""
    sampling = 1 / (n - 3)
    law = Correlation(r, np.eye(2) * noise**2 * (1 - r * r) ** 2 * sampling, sampling)
    fisher = Correlation(r, np.zeros((2, 2)), sampling)
    z = Normal(0.0, 1.0).interval(alpha)[1]
    exact = [tanh(atanh(r) + side * z * sqrt(sampling)) for side in (-1, 1)]
    assert fisher.interval(alpha) == pytest.approx(exact, rel=1e-6)
    low, high = law.interval(alpha)
    assert -1 < low < r < high < 1
    assert high - low == pytest.approx(exact[1] - exact[0], rel=3 * noise + 1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.03, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("truth", [0.0, 0.5, 0.9])
def test_a_correlation_is_held_as_often_as_it_says_whatever_the_noise(
    truth: float, noise: float
) -> None:
    rng, n = np.random.default_rng(5), 2000
    sampling = 1 / (n - 3)
    sigma = noise * (1 - truth**2) * sqrt(sampling)
    rows = np.tanh(atanh(truth) + sqrt(sampling) * rng.standard_normal(1000))
    found = (rows + sigma * rng.standard_normal(1000)) / (1 + sigma * rng.standard_normal(1000))
    laws = [Correlation(float(r), np.eye(2) * sigma**2, sampling) for r in found]
    ends = np.array([law.interval(ALPHA) for law in laws])
    assert 0.93 <= ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean() <= 0.97
    outside = (ends[:, 0] > 0) | (ends[:, 1] < 0)
    assert list(outside) == [law.pvalue is not None and law.pvalue < ALPHA for law in laws]
