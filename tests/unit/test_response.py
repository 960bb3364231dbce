"""Randomised response: exact shares, and labels that are replaced evenly."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from common.errors import SettingError
from common.privacy.entropy import SeededEntropy
from common.privacy.response import kept_of_word, randomised_response


@given(
    epsilon=st.decimals(Decimal("0.001"), Decimal(1_000), places=6),
    n_labels=st.integers(2, 50),
)
def test_a_label_is_never_kept_more_often_than_epsilon_allows(
    epsilon: Decimal, n_labels: int
) -> None:
    kept = kept_of_word(epsilon, n_labels)
    assert 0 < kept < 2**64
    odds = kept * (n_labels - 1) / (2**64 - kept)  # rounded as one float: 1e-15 of it
    assert math.log(odds) <= float(epsilon) * (1 + 1e-12) + 1e-12
    if epsilon < 20:
        assert math.log(odds) == pytest.approx(float(epsilon), abs=1e-6)


def test_replaced_labels_are_spread_evenly() -> None:
    """Fails a right sampler with probability 1e-6."""
    n, true = 60_000, 2
    labels = randomised_response(
        np.full(n, true), n_labels=4, epsilon=Decimal(1), entropy=SeededEntropy(1)
    )
    kept = math.e / (math.e + 3)
    expected = np.full(4, (1 - kept) / 3 * n)
    expected[true] = kept * n
    assert chisquare(np.bincount(labels, minlength=4), expected).pvalue > 1e-6


def test_nothing_is_changed_in_place_and_the_stream_decides() -> None:
    labels = np.zeros(100, dtype=np.intp)
    first, again = (
        randomised_response(labels, n_labels=2, epsilon=Decimal(1), entropy=SeededEntropy(5))
        for _ in range(2)
    )
    assert not labels.any()
    assert first.any()
    assert np.array_equal(first, again)


@pytest.mark.parametrize(
    ("labels", "n_labels", "epsilon"),
    [([0, 2], 2, "1"), ([-1, 0], 2, "1"), ([0], 1, "1"), ([0, 1], 2, "0")],
)
def test_labels_and_epsilons_out_of_range_are_refused(
    labels: list[int], n_labels: int, epsilon: str
) -> None:
    with pytest.raises(SettingError):
        randomised_response(
            np.array(labels),
            n_labels=n_labels,
            epsilon=Decimal(epsilon),
            entropy=SeededEntropy(1),
        )
