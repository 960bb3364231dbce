"""Shares of few events: sets that are those of Wilson, of Fieller, and between."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from dppca.common.analysis.estimates.intervals import FiellerRatio
from dppca.common.analysis.estimates.noise import Noise
from dppca.common.analysis.estimates.release import Linear
from dppca.common.analysis.estimates.share_sets import ShareSet
from dppca.common.analysis.estimates.shares import ratio_of_shares, share_of

FALSE_ALARMS = 0.0  # nothing is drawn but examples
NONE = np.zeros((2, 2))


@given(st.integers(0, 400), st.sampled_from([0.01, 0.05, 0.2]))
def test_without_noise_it_is_wilsons_set_with_the_correction(events: int, alpha: float) -> None:
    found = ShareSet((events / 400, 1.0), NONE, 400).interval(alpha)
    known = stats.binomtest(events, 400).proportion_ci(1 - alpha, method="wilsoncc")
    assert_allclose(found, (known.low, known.high), atol=1e-9)


@given(st.floats(-0.1, 1.1), st.floats(0, 0.1), st.integers(10, 10**6))
def test_a_share_of_all_rows_is_that_of_a_group_of_all(p: float, noise: float, n: int) -> None:
    entry = Noise(np.array([[noise]]), np.ones(1), np.array([3.0]))
    both = Linear(np.array([p, 1.0]), replace(entry, contributions=np.array([[noise], [0.0]])))
    alone, group = share_of("ill", Linear(np.array([p]), entry), n), ratio_of_shares("", both, n)
    assert alone.conf_int() == group.conf_int()
    assert (alone.bse, alone.noise_share) == (group.bse, group.noise_share)


def test_without_sampling_it_is_fiellers_set() -> None:
    noise = np.array([[4e-4, 1e-4], [1e-4, 9e-4]])
    found = ShareSet((0.1, 0.4), noise, np.inf).interval(0.05)
    assert_allclose(found, FiellerRatio(np.array([0.1, 0.4]), noise).interval(0.05))
    for share in (0.0, 1.0):
        assert ShareSet((share, 1.0), NONE, np.inf).interval(0.05) == (share, share)


@given(
    st.floats(-0.2, 1.2),
    st.floats(-0.1, 1),
    st.floats(0, 0.1),
    st.floats(10, 1e5) | st.just(np.inf),
)
def test_every_set_is_an_interval_of_shares_that_grows_with_its_level(
    above: float, below: float, deviation: float, rows: float
) -> None:
    law = ShareSet((above, below), np.eye(2) * deviation**2, rows)
    before = (0.5, 0.5)
    for place, alpha in enumerate((0.5, 0.05, 0.001)):
        low, high = law.interval(alpha)
        assert 0 <= low <= high <= 1
        if place:
            assert low <= before[0] + 1e-9
            assert high >= before[1] - 1e-9
        before = (low, high)


def test_no_events_leave_what_they_leave() -> None:
    """With 0 of 2,000 events the exact upper end is 3.7 events; it was 0.2."""
    both = Linear(np.array([0.0, 0.5]), Noise(np.zeros((2, 1)), np.ones(1), np.zeros(1)))
    low, high = ratio_of_shares("ill where sex=m", both, 4000).conf_int() or (np.nan, np.nan)
    assert low == 0
    assert 3.6 < 2000 * high < 5.7


@pytest.mark.parametrize("size", [0.0, -0.01, 0.001])
def test_a_group_that_the_noise_hides_excludes_nothing(size: float) -> None:
    two = Linear(np.array([0.0, size]), Noise(0.02 * np.eye(2), np.ones(2), np.zeros(2)))
    assert ratio_of_shares("ill where sex=m", two, 500).conf_int() == (0.0, 1.0)
