"""Randomised response: exact shares, and labels that are replaced evenly."""

import math
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.noise.entropy import EntropySource, SeededEntropy
from dppca.common.papers.base.randomized_response import keep_threshold, randomised_response

FALSE_ALARMS = 0.0  # all draws have seeds


@given(
    epsilon=st.decimals(Decimal("0.001"), Decimal(1_000), places=6),
    n_labels=st.integers(2, 50),
)
def test_a_label_is_never_kept_more_often_than_epsilon_allows(
    epsilon: Decimal, n_labels: int
) -> None:
    kept = keep_threshold(epsilon, n_labels)
    assert kept is not None
    assert 0 < kept < 2**64
    odds = kept * (n_labels - 1) / (2**64 - kept)  # rounded as one float: 1e-15 of it
    assert math.log(odds) <= float(epsilon) * (1 + 1e-12) + 1e-12
    if epsilon < 20:
        assert math.log(odds) == pytest.approx(float(epsilon), abs=1e-6)


@given(exponent=st.integers(-30, 0), digits=st.integers(1, 999), n_labels=st.integers(2, 10_000))
def test_labels_are_told_apart_by_e_to_epsilon_at_most_either_way(
    exponent: int, digits: int, n_labels: int
) -> None:
    """In decimals of 200 digits; for every epsilon, also where 64 bits are too coarse for it."""
    epsilon = Decimal(digits).scaleb(exponent)
    kept = keep_threshold(epsilon, n_labels)
    with localcontext(Context(prec=200)):
        odds = Decimal(1) if kept is None else Decimal(kept) * (n_labels - 1) / (2**64 - kept)
        assert (-epsilon).exp() <= odds <= epsilon.exp()


@pytest.mark.parametrize(
    ("epsilon", "seed", "n_labels", "kept"),
    [("1", 1, 4, math.e / (math.e + 3)), ("1e-25", 3, 3, 1 / 3)],
    ids=["spread evenly", "64 bits are too coarse"],
)
def test_a_label_is_kept_by_its_share_and_the_others_are_spread_evenly(
    epsilon: str, seed: int, n_labels: int, kept: float
) -> None:
    """Fails a right sampler with probability 1e-6."""
    n, true = 60_000, 2
    labels = np.full(n, true)
    found = randomised_response(
        labels, n_labels=n_labels, epsilon=Decimal(epsilon), entropy=SeededEntropy(seed)
    )
    assert (labels == true).all(), "nothing is changed in place"
    expected = np.full(n_labels, (1 - kept) / (n_labels - 1) * n)
    expected[true] = kept * n
    assert chisquare(np.bincount(found, minlength=n_labels), expected).pvalue > 1e-6


class Words(EntropySource):
    """Entropy of given words of 64 bits."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def bytes(self, count: int) -> bytes:
        assert count % 8 == 0
        taken, self.left = self.left[: count // 8], self.left[count // 8 :]
        return np.array(taken, dtype="<u8").tobytes()


def test_a_word_below_the_share_keeps_its_label_and_one_past_the_last_multiple_is_redrawn() -> None:
    kept = keep_threshold(Decimal(1), 4)
    assert kept is not None
    # Two words that decide, then two of 3 other labels: 2^64 - 1 is the one word beyond 3 * n.
    entropy = Words(kept - 1, kept, 2**64 - 2, 2**64 - 1, 5)
    found = randomised_response(
        np.zeros(2, dtype=np.intp), n_labels=4, epsilon=Decimal(1), entropy=entropy
    )
    assert found.tolist() == [0, 1 + 5 % 3]
    assert entropy.left == []


def test_of_two_labels_the_other_one_takes_the_place_of_one_that_is_not_kept() -> None:
    kept = keep_threshold(Decimal(1), 2)
    assert kept is not None
    entropy = Words(kept - 1, kept, kept, 5, 6, 7)
    found = randomised_response(
        np.array([0, 0, 1]), n_labels=2, epsilon=Decimal(1), entropy=entropy
    )
    assert found.tolist() == [0, 1, 0]


def test_the_largest_share_is_one_word_short_of_always() -> None:
    assert keep_threshold(Decimal(1_000), 4) == 2**64 - 1


def test_the_share_does_not_depend_on_the_decimal_context_of_the_caller() -> None:
    expected = keep_threshold(Decimal(1), 4)
    with localcontext(Context(prec=3)):
        assert keep_threshold(Decimal(1), 4) == expected


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
