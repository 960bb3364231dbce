"""Smoothed shares: exact without noise, better than the release with it, whatever the cells."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from dppca.common.analysis.field.smoothing import smooth_marginal

EDGES = np.linspace(-10, 10, 41)
WIDTHS = np.diff(EDGES)
NORMAL = np.diff(norm(0, 2).cdf(EDGES))
HUMPS = 0.4 * np.diff(norm(-4, 0.7).cdf(EDGES)) + 0.6 * np.diff(norm(2, 1.2).cdf(EDGES))
HEAPED = np.where(np.arange(40) == 16, 0.5, np.where(np.arange(40) % 4 == 0, 0.03, 0.0069))


def _normalised(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    return shares / shares.sum()


def _distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float(np.abs(a - b).sum() / 2)


@pytest.mark.parametrize("law", [NORMAL, HUMPS, HEAPED])
def test_a_histogram_without_noise_is_the_marginal(law: NDArray[np.float64]) -> None:
    shares = _normalised(law)
    found = smooth_marginal(shares, np.full(40, 1e-6), np.eye(40), widths=WIDTHS).shares
    assert _distance(found, shares) < 2e-3
    with_spike = np.append(0.3 * shares, 0.7)
    found = smooth_marginal(with_spike, np.full(41, 1e-6), np.eye(41), widths=WIDTHS).shares
    assert _distance(found, with_spike) < 2e-3


@pytest.mark.parametrize(
    ("law", "noise", "better"),
    [(NORMAL, 0.003, 0.55), (HUMPS, 0.003, 0.75), (NORMAL, 0.01, 0.45), (HEAPED, 0.01, 0.75)],
)
def test_smoothing_takes_noise_away(law: NDArray[np.float64], noise: float, better: float) -> None:
    """Mean of eight draws; the release is made valid by clipping alone for the comparison."""
    shares, smoothed, raw = _normalised(law), [], []
    for seed in range(8):
        released = shares + np.random.default_rng(seed).normal(scale=noise, size=40)
        found = smooth_marginal(released, np.full(40, noise), np.eye(40), widths=WIDTHS).shares
        smoothed.append(_distance(found, shares))
        raw.append(_distance(_normalised(np.maximum(released, 0)), shares))
    assert np.mean(smoothed) < better * np.mean(raw)


def test_a_marginal_from_mean_and_square_has_them_and_is_smooth() -> None:
    bins = (np.arange(32) + 0.5) / 32 - 0.5
    functionals = np.stack([bins, bins**2])
    found = smooth_marginal(
        np.array([0.1, 0.05]), np.full(2, 1e-4), functionals, widths=np.ones(32)
    ).shares
    assert found @ bins == pytest.approx(0.1, abs=1e-3)
    assert found @ bins**2 == pytest.approx(0.05, abs=1e-3)
    assert np.abs(np.diff(np.log(found), 2)).max() < 0.2


@pytest.mark.parametrize("noise", [1e-4, 0.01])
def test_a_share_is_known_to_its_noise_and_a_guess_to_less(noise: float) -> None:
    bins = (np.arange(40) + 0.5) / 40 - 0.5
    moments = np.stack([bins, bins**2])
    released = smooth_marginal(NORMAL, np.full(40, noise), np.eye(40), widths=WIDTHS)
    guess = smooth_marginal(moments @ NORMAL, np.full(2, noise), moments, widths=WIDTHS)
    large = NORMAL > 0.05
    assert (released.deviation[large] < 1.5 * noise).all()
    assert (guess.deviation[large] > 3 * released.deviation[large]).all()


def test_what_is_not_known_is_spread_by_width() -> None:
    widths = np.array([1.0, 0.5, 4.0, 2.0, 0.5])
    found = smooth_marginal(np.zeros(1), np.full(1, 1e6), np.ones((1, 5)), widths=widths).shares
    np.testing.assert_allclose(found, widths / 8, atol=1e-6)
