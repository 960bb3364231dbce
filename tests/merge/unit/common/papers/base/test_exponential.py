"""The exponential mechanism: its law, and what it takes."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.papers.base.exponential import choice_scale, choose

LEVEL = 1e-7
FALSE_ALARMS = 0.0  # all draws have seeds


@pytest.mark.parametrize(
    ("scale", "n", "scores"),
    [
        *((scale, 20_000, (-5, -3, -4, -3, -6)) for scale in (1, 3, 1_000, 2**40)),
        (2**62, 5_000, (0, 1)),  # a draw is beyond 2^64 with probability exp(-4)
    ],
)
def test_candidates_are_chosen_by_their_scores_in_units_of_the_scale(
    scale: int, n: int, scores: tuple[int, ...]
) -> None:
    entropy, scaled = SeededEntropy(scale % 2**32 or 2), scale * np.array(scores, np.int64)
    found = np.bincount([choose(scaled, scale=scale, entropy=entropy) for _ in range(n)])
    weights = np.exp(np.array(scores, float))
    assert chisquare(found, n * weights / weights.sum()).pvalue > LEVEL


def test_neighbours_choose_alike_to_within_epsilon() -> None:
    """Scores that all move by the sensitivity, against each other: the factor is e^epsilon."""
    scale = choice_scale(6, epsilon=Fraction(1, 2), max_rows_per_person=1)
    assert scale == 24
    scores = np.array([0, 12, 3])
    moved = scores + np.array([6, -6, -6])
    law, other = (np.exp(each / scale) / np.exp(each / scale).sum() for each in (scores, moved))
    factors = np.abs(np.log(law / other))
    assert factors.max() <= 0.5
    assert factors.max() > 0.25


def test_more_rows_per_person_widen_the_scale_and_it_is_rounded_up() -> None:
    assert choice_scale(6, epsilon=Fraction(7), max_rows_per_person=5) == 9


def test_a_gap_that_no_draw_leaps_leaves_the_best_and_one_candidate_is_chosen() -> None:
    entropy = SeededEntropy(1)
    far = np.array([0, 10**12, 5], np.int64)
    assert {choose(far, scale=7, entropy=entropy) for _ in range(50)} == {1}
    assert choose(np.array([-3], np.int64), scale=1, entropy=entropy) == 0


@pytest.mark.parametrize(
    "scores", [np.array([], np.int64), np.array([0.5, 1.0]), np.zeros((2, 2), np.int64)]
)
def test_scores_that_are_no_vector_of_integers_are_refused(scores: np.ndarray) -> None:
    with pytest.raises(SettingError, match="vector of int64 scores"):
        choose(scores, scale=1, entropy=SeededEntropy(1))
