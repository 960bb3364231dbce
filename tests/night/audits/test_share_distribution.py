"""Shares have their law at every scale, and h of them add up to the noise of one mechanism.

The probabilities come from incomplete beta functions and closed forms, independently of the cycles
that shares are drawn by. Every test draws with fixed seeds and rejects below p = 1e-6: a correct
sampler would fail it for one seed in a million; as the seeds are kept, it never fails by chance.
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.noise.shares import (
    gaussian_share,
    gaussian_share_variance,
    laplace_share,
)
from tests.support.laws import (
    bins_pvalue,
    fit_pvalue,
    gaussian,
    laplace,
    low_bits_pvalue,
    share_tail,
    standard_correlation,
    wrapped_pvalue,
)

LEVEL = 1e-6
FALSE_ALARMS = 0.0  # all draws have seeds
N_DRAWS = 200_000
SCALES = [1, 7, 1000, 42_000_000, 30_000_000_000, 2**50]

scales = pytest.mark.parametrize("scale", SCALES)
few_and_many = pytest.mark.parametrize("honest", [2, 9])


@scales
@pytest.mark.parametrize("honest", [2, 3, 9, 34])
def test_share_fits_its_law(scale: int, honest: int) -> None:
    drawn = laplace_share(scale, honest, N_DRAWS, entropy=SeededEntropy(1))

    assert _fit(drawn, scale=scale, shape=1 / honest) > LEVEL


@scales
@few_and_many
def test_h_shares_add_up_to_discrete_laplace_noise(scale: int, honest: int) -> None:
    total = _laplace_sum(scale, honest, n_shares=honest, seed=10)

    assert fit_pvalue(total, laplace(scale), n_bins=1000) > LEVEL


def test_many_shares_add_up_to_discrete_laplace_noise() -> None:
    total = _laplace_sum(42_000_000, 50, n_shares=50, seed=200)

    assert fit_pvalue(total, laplace(42_000_000), n_bins=1000) > LEVEL


@scales
@few_and_many
def test_one_share_more_than_h_is_more_noise(scale: int, honest: int) -> None:
    total = _laplace_sum(scale, honest, n_shares=honest + 1, seed=30)

    shape = (honest + 1) / honest
    assert _fit(total, scale=scale, shape=shape) > LEVEL
    beyond = np.count_nonzero(np.abs(total) >= 2 * scale)
    mechanism = 2 * float(laplace(scale).upper_tail(np.array([2 * scale]))[0])
    assert stats.binomtest(beyond, N_DRAWS, mechanism, alternative="greater").pvalue < LEVEL


@scales
@few_and_many
def test_shares_made_for_one_owner_too_many_would_be_found(scale: int, honest: int) -> None:
    # What a division by all owners instead of the honest ones does.
    total = _laplace_sum(scale, honest + 1, n_shares=honest, seed=50)

    assert fit_pvalue(total, laplace(scale), n_bins=1000) < LEVEL


def test_sum_of_shares_beyond_int64_wraps_around() -> None:
    # At scale 2^62 a geometric total is beyond 64 bits once in 55 times, and begins in Python.
    total = _laplace_sum(2**62, 2, n_shares=2, seed=70)
    assert wrapped_pvalue(total) > LEVEL


@pytest.mark.parametrize("scale", [1000, 42_000_000, 2**40])
@pytest.mark.parametrize("lag", [1, 2, 2**15])
def test_entries_of_a_share_are_independent(scale: int, lag: int) -> None:
    drawn = laplace_share(scale, 3, N_DRAWS, entropy=SeededEntropy(80))
    for series in (np.sign(drawn), drawn / scale, np.abs(drawn) > 0.2 * scale):
        assert standard_correlation(series, lag=lag) < stats.norm.isf(LEVEL / 2)


def test_low_bits_of_a_sum_of_shares_are_uniform() -> None:
    assert low_bits_pvalue(_laplace_sum(2**40, 3, n_shares=3, seed=90)) > LEVEL


@pytest.mark.parametrize("sigma_squared", [10_000, 10**6, 42_000_000**2, 2**90])
@pytest.mark.parametrize("honest", [2, 9, 100])
def test_h_gaussian_shares_add_up_to_gaussian_noise(sigma_squared: int, honest: int) -> None:
    total = np.zeros(N_DRAWS, dtype=np.int64)
    for owner in range(honest):
        total += gaussian_share(sigma_squared, honest, N_DRAWS, entropy=SeededEntropy(1000 + owner))

    variance = honest * gaussian_share_variance(sigma_squared, honest)
    assert fit_pvalue(total, gaussian(variance), n_bins=1000) > LEVEL


def _laplace_sum(scale: int, honest: int, *, n_shares: int, seed: int) -> NDArray[np.int64]:
    """Sum `n_shares` shares made for `honest` owners, modulo 2^64."""
    total = np.zeros(N_DRAWS, dtype=np.uint64)
    for owner in range(n_shares):
        share = laplace_share(scale, honest, N_DRAWS, entropy=SeededEntropy(seed + owner))
        total += share.view(np.uint64)
    return total.view(np.int64)


def _fit(samples: NDArray[np.int64], *, scale: int, shape: float) -> float:
    """Return the p-value of a fit to the difference of negative binomials of a shape."""
    starts = np.unique(np.geomspace(1, 8 * scale + 8, num=40).astype(np.int64))
    return bins_pvalue(samples, starts, share_tail(starts, scale=scale, shape=shape))
