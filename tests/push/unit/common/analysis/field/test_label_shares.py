"""Shares of labels: the release where it is known, even shares where it is not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dppca.common.analysis.field.label_shares import label_shares
from tests.support.examples import examples


def _nearest(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Projection on the simplex, by bisection: what noise is compared with."""
    low, high = shares.min() - 1, shares.max()
    for _ in range(100):
        middle = (low + high) / 2
        too_much = np.maximum(shares - middle, 0).sum() > 1
        low, high = (middle, high) if too_much else (low, middle)
    nearest: NDArray[np.float64] = np.maximum(shares - high, 0)
    return nearest


@settings(max_examples=examples(40))
@given(
    st.lists(st.floats(0.001, 1.0), min_size=2, max_size=12),
    st.floats(1e-3, 10.0),
    st.integers(0, 2**32 - 1),
)
def test_shares_are_a_law_in_the_order_of_the_release_whatever_the_labels_order(
    weights: list[float], noise: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    released = np.array(weights) / sum(weights) + noise * rng.standard_normal(len(weights))
    found = label_shares(released, np.full(len(released), noise))
    assert found.sum() == pytest.approx(1)
    assert (found > 0).all()
    order = np.argsort(released)
    assert (np.diff(found[order]) >= -1e-4).all()
    np.testing.assert_allclose(
        label_shares(released[order], np.full(len(released), noise)), found[order], atol=1e-3
    )


@pytest.mark.parametrize("n_labels", [2, 7, 41])
def test_without_noise_shares_are_the_released_ones(n_labels: int) -> None:
    shares = np.random.default_rng(n_labels).dirichlet(np.ones(n_labels))
    found = label_shares(shares, np.full(n_labels, 1e-6))
    np.testing.assert_allclose(found, shares, atol=1e-5)


@pytest.mark.parametrize("n_labels", [2, 5, 16])
def test_where_the_noise_exceeds_everything_no_label_has_all_rows(n_labels: int) -> None:
    """The nearest shares are those of one label there."""
    alone = []
    for seed in range(20):
        released = 1 / n_labels + 30 * np.random.default_rng(seed).standard_normal(n_labels)
        assert label_shares(released, np.full(n_labels, 30.0)).max() < 1 / n_labels + 0.2
        alone.append(_nearest(released).max() > 0.999)
    assert np.mean(alone) > 0.8


def test_a_share_that_is_known_stays_and_the_others_divide_what_is_left() -> None:
    released = np.array([0.7, 3.0, -5.0, 1.0])
    found = label_shares(released, np.array([1e-4, 1e3, 1e3, 1e3]))
    np.testing.assert_allclose(found, [0.7, 0.1, 0.1, 0.1], atol=2e-3)
