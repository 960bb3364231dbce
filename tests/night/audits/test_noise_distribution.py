"""Do the samples have the law? Goodness of fit, tails, low bits, order, and OpenDP as oracle.

The probabilities come from closed forms and from sums in floating point, independently of the
sampler's integers. Counts are compared in bins of about equal probability, fine enough to see the
edges of the sampler's cells, with at least 20 expected in each.

False alarms: a test on seeded draws rejects below p = 1e-6, so that a correct sampler would fail
it for one seed in a million; as the seeds are fixed, it never fails by chance. OpenDP cannot be
seeded: that test rejects below p = 1e-10 and runs six times, which makes 6e-10 in all.
"""

import math

import numpy as np
import opendp.prelude as dp
import pytest
from numpy.typing import NDArray
from scipy import stats

from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.noise.sampler import discrete_laplace
from tests.support.laws import (
    Law,
    fit_pvalue,
    gaussian,
    laplace,
    low_bits_pvalue,
    quantile,
    standard_correlation,
    wrapped_pvalue,
)

LEVEL = 1e-6
FALSE_ALARMS = 0.0  # all draws have seeds
N_DRAWS = 2_000_000
SCALES = [1, 2, 7, 31, 32, 100, 1000, 42_000_000, 2**40, 2**50]
SIGMAS_SQUARED = [1, 2, 7, 900, 1024, 10_000, 3_000_017, 42_000_000**2, 2**80, 2**90]


laws = pytest.mark.parametrize(
    "law",
    [laplace(scale) for scale in SCALES] + [gaussian(scale) for scale in SIGMAS_SQUARED],
    ids=lambda law: f"{law.name}-{law.scale}",
)


@laws
def test_samples_fit_the_law(law: Law) -> None:
    assert fit_pvalue(law.draw(N_DRAWS, seed=1), law, n_bins=1000) > LEVEL


@laws
def test_tails_fit_the_law(law: Law) -> None:
    magnitudes = np.abs(law.draw(4 * N_DRAWS, seed=2))
    for expected in (30, 300, 3000):
        least = quantile(law, expected / magnitudes.size)
        probability = 2 * float(law.upper_tail(np.array([least]))[0])
        beyond = int(np.count_nonzero(magnitudes >= least))
        assert stats.binomtest(beyond, magnitudes.size, probability).pvalue > LEVEL


@laws
def test_odd_moments_vanish(law: Law) -> None:
    scaled = law.draw(N_DRAWS, seed=3) / law.width
    for power in (1, 3):
        odd = scaled**power
        assert abs(odd.mean()) / (odd.std() / math.sqrt(odd.size)) < stats.norm.isf(LEVEL / 2)


@pytest.mark.parametrize("law", [laplace(2**40), laplace(42_000_000), gaussian(2**80)], ids=str)
def test_low_bits_are_uniform(law: Law) -> None:
    # The law is flat over 2^10 integers to far better than two million draws can tell.
    assert low_bits_pvalue(law.draw(N_DRAWS, seed=4)) > LEVEL


@pytest.mark.parametrize("scale", [100, 1000, 42_000_000, 2**40])
def test_place_within_a_cell_fits_the_law(scale: int) -> None:
    # |x| modulo any width is geometric again, but for the zero: that is why one is added.
    samples = laplace(scale).draw(2 * N_DRAWS, seed=5)
    width = 1 << (scale.bit_length() - 6)
    n_bins = min(width, 64)
    places = (np.abs(samples[samples != 0]) - 1) % width // (width // n_bins)

    edges = np.arange(n_bins + 1) * (width // n_bins) / scale
    probabilities = -np.diff(np.exp(-edges)) / -math.expm1(-width / scale)

    counts = np.bincount(places, minlength=n_bins)
    assert stats.chisquare(counts, probabilities * counts.sum()).pvalue > LEVEL


def test_samples_beyond_int64_wrap_around() -> None:
    # At scale 2^62, one sample in 7.4 lies beyond int64 and comes back from the other side.
    samples = discrete_laplace(2**62, N_DRAWS, entropy=SeededEntropy(6))
    assert wrapped_pvalue(samples) > LEVEL


@laws
@pytest.mark.parametrize("lag", [1, 2, 1000])
def test_positions_are_independent(law: Law, lag: int) -> None:
    samples = law.draw(N_DRAWS, seed=7)
    magnitudes = np.abs(samples)
    for series in (np.sign(samples), samples / law.width, magnitudes > 0.7 * law.width):
        assert standard_correlation(series, lag=lag) < stats.norm.isf(LEVEL / 2)


@laws
def test_sign_and_magnitude_are_independent(law: Law) -> None:
    samples = law.draw(N_DRAWS, seed=8)
    samples = samples[samples != 0]
    quartiles = np.unique(np.quantile(np.abs(samples), [0.25, 0.5, 0.75]))
    table = np.zeros((2, quartiles.size + 1), dtype=np.int64)
    np.add.at(table, ((samples > 0) * 1, np.searchsorted(quartiles, np.abs(samples))), 1)
    table = table[:, table.sum(axis=0) > 0]

    assert stats.chi2_contingency(table).pvalue > LEVEL


@pytest.mark.parametrize(
    "law",
    [laplace(1), laplace(1000), laplace(42_000_000), gaussian(1), gaussian(10**6), gaussian(2**60)],
    ids=lambda law: f"{law.name}-{law.scale}",
)
def test_samples_agree_with_opendp(law: Law) -> None:
    theirs = _opendp(law, 50_000)
    ours = law.draw(500_000, seed=9)
    edges = np.unique(np.quantile(ours, np.linspace(0, 1, 101)[1:-1]).astype(np.int64))

    table = np.array(
        [
            np.bincount(np.searchsorted(edges, drawn), minlength=edges.size + 1)
            for drawn in (ours, theirs)
        ]
    )

    assert stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > 1e-10


@pytest.mark.parametrize(
    ("law", "wrong"),
    [
        (laplace(50), laplace(51)),
        (laplace(1000), laplace(1020)),
        (laplace(2**40), laplace(2**40 // 100 * 98)),
        (gaussian(100), gaussian(104)),
        (gaussian(10**6), gaussian(1020**2)),
        (gaussian(2**80), gaussian((2**40 // 100 * 98) ** 2)),
    ],
    ids=str,
)
def test_scale_wrong_by_two_percent_is_found(law: Law, wrong: Law) -> None:
    assert fit_pvalue(wrong.draw(N_DRAWS, seed=10), law, n_bins=1000) < LEVEL


def _opendp(law: Law, size: int) -> NDArray[np.int64]:
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if law.name == "Laplace":
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=law.width)
    else:
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=law.width)
    return np.array(measurement([0] * size), dtype=np.int64)
