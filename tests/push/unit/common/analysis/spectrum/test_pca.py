"""Covariance, decomposition and the three rules, against scikit-learn and by hand."""

import numpy as np
import pytest

from dppca.common.analysis.spectrum.pca import count_components, decompose, empty_covariance
from dppca.common.kernel.study import ComponentRule


def _owners(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    spread = rng.normal(size=(5, 5))
    return [rng.normal(size=(n, 5)) @ spread + rng.normal(size=5) for n in (40, 25, 71)]


def _moments(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return rows.mean(axis=0), rows.T @ rows / len(rows)


def test_the_covariance_within_owners_is_the_mean_of_their_own_weighted_by_rows() -> None:
    owners = _owners()
    running = empty_covariance(5)
    for rows in owners:
        running = running.add(len(rows), *_moments(rows))
    expected = sum(len(rows) * np.cov(rows.T, bias=True) for rows in owners) / running.n_rows
    np.testing.assert_allclose(running.covariance, expected, atol=1e-12)


def test_the_largest_entry_of_each_vector_is_positive_and_the_first_of_equals_decides() -> None:
    # Eigenvectors (1, -1)/sqrt 2 for 3 and (1, 1)/sqrt 2 for 1: all entries equal by magnitude.
    found = decompose(np.array([[2.0, -1.0], [-1.0, 2.0]]))
    half = np.sqrt(0.5)
    np.testing.assert_allclose(found.eigenvalues, [3, 1])
    np.testing.assert_allclose(found.vectors, [[half, -half], [half, half]])


def test_a_matrix_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="infs or NaNs"):
        decompose(np.array([[np.nan, 0], [0, 1]]))


@pytest.mark.parametrize(
    ("eigenvalues", "rule", "count"),
    [
        # positive: 6 of 10 for one, 9 of 10 for two
        ([6, 3, 1, -2], ComponentRule(contribution_rate=0.6), 1),
        ([6, 3, 1, -2], ComponentRule(contribution_rate=0.61), 2),
        ([6, 3, 1, -2], ComponentRule(contribution_rate=0.9), 2),
        ([6, 3, 1, -2], ComponentRule(contribution_rate=0.95), 3),
        # signed: of T = 8
        ([6, 3, 1, -2], ComponentRule(contribution_rate=0.75, trace="signed"), 1),
        ([6, 3, 1, -2], ComponentRule(contribution_rate=0.95, trace="signed"), 2),
        # a share met exactly, but for rounding
        ([0.3, 0.2, 0.1, 0.1], ComponentRule(contribution_rate=5 / 7), 2),
        ([6, 3, 1, -2], ComponentRule(count=2), 2),
        # a count stops at the last positive eigenvalue, and at p - 1
        ([6, 3, -1, -2], ComponentRule(count=3), 2),
        ([4, 3, 2, 1], ComponentRule(count=9), 3),
        ([4, 3, 2, 1], ComponentRule(contribution_rate=0.999), 3),
        ([6, 3, 1, -2], ComponentRule(above_noise=True), 2),
        # nothing above the noise, or nothing positive at all: one is kept
        ([2, 1, 0.5, 0], ComponentRule(above_noise=True), 1),
        ([-1, -2, -3], ComponentRule(contribution_rate=0.9), 1),
        ([-1, -2, -3], ComponentRule(contribution_rate=0.9, trace="signed"), 1),
        ([0, 0, 0], ComponentRule(count=2), 1),
        # a negative trace is reached at once
        ([1, 0.5, -4], ComponentRule(contribution_rate=0.9, trace="signed"), 1),
    ],
)
def test_each_rule_keeps_as_many_components_as_it_says(
    eigenvalues: list[float], rule: ComponentRule, count: int
) -> None:
    assert count_components(np.array(eigenvalues, float), rule, noise_edge=2.5) == count
