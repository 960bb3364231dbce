"""Weights that meet noised counts as far as their noise says, and rows that are chosen by them."""

import numpy as np
import pytest

from dppca.common.analysis.field.tilt import Counted, KnownMean, fit_tilt, sample_by_weight

N = 40_000


def _pool(rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """Three independent signs, as a field of pairs has them, and their joint cell."""
    signs = [rng.integers(0, 2, N).astype(np.int32) for _ in range(3)]
    return signs, (4 * signs[0] + 2 * signs[1] + signs[2]).astype(np.int32)


PARITY = np.array([0.2, 0.05, 0.05, 0.2, 0.05, 0.2, 0.2, 0.05])
HALVES = np.array([0.5, 0.5])


def test_what_no_pair_shows_is_met_and_single_attributes_stay() -> None:
    signs, joint = _pool(np.random.default_rng(1))
    counted = [*(Counted.marginal(HALVES) for _ in signs), Counted(PARITY, 1e-4)]
    tilt = fit_tilt([*signs, joint], counted)
    weights = tilt.weights
    assert weights.sum() == pytest.approx(1)
    assert np.bincount(joint, weights=weights) == pytest.approx(PARITY, abs=1e-3)
    for each in signs:
        assert np.bincount(each, weights=weights) == pytest.approx(HALVES, abs=1e-3)
    assert tilt.quality.missed < 1
    assert tilt.quality.worth == pytest.approx(1 / (8 * np.square(PARITY).sum()), rel=0.05)


@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_counts_are_met_as_far_as_their_noise_says(noise: float) -> None:
    """Equation (2): what is missed has the size that the prior and the noise say."""
    rng = np.random.default_rng(2)
    _signs, joint = _pool(rng)
    shares = PARITY + rng.normal(0, noise, 8)
    tilt = fit_tilt([joint], [Counted(shares, noise)])
    first = np.bincount(joint, minlength=8) / N
    met = np.bincount(joint, weights=tilt.weights, minlength=8)
    pull = (shares - met) * first / noise**2
    ratio = tilt.theta[pull != 0] / pull[pull != 0]
    assert ratio == pytest.approx(np.full(8, ratio[0]), rel=0.1)  # one prior width
    assert 0.01**2 / 1.1 <= ratio[0] <= 3.0**2 * 1.1


def test_noise_alone_is_not_met() -> None:
    rng = np.random.default_rng(3)
    cells = rng.integers(0, 256, N).astype(np.int32)
    first = np.bincount(cells, minlength=256) / N
    tilt = fit_tilt([cells], [Counted(first + rng.normal(0, 0.005, 256), 0.005)])
    met = np.bincount(cells, weights=tilt.weights, minlength=256)
    assert met == pytest.approx(first, abs=0.002)
    assert tilt.quality.worth > 0.9


def test_cells_without_rows_change_nothing() -> None:
    _, joint = _pool(np.random.default_rng(4))
    joint = joint // 2 * 2
    counted = Counted(np.full(8, 1 / 8), 1e-3)
    tilt = fit_tilt([joint], [counted])
    met = np.bincount(joint, weights=tilt.weights, minlength=8)
    assert met[1::2].tolist() == [0.0] * 4
    assert met[::2] == pytest.approx(np.full(4, 0.25), abs=0.01)


def test_a_guess_gives_way_and_keeps_its_mean() -> None:
    """A number's shares are a guess; its mean is known, and a table counts it in halves."""
    rng = np.random.default_rng(6)
    cell = rng.integers(0, 4, N).astype(np.int32)
    values, half = cell / 4.0, (cell // 2).astype(np.int32)
    guess = Counted.marginal(np.full(4, 0.25), np.full(4, 0.2))
    table = Counted(np.array([0.3, 0.7]), 1e-4)
    tilt = fit_tilt([cell, half], [guess, table], [KnownMean(values, 0.45, 1e-4)])
    assert tilt.shares[1] == pytest.approx([0.3, 0.7], abs=2e-3)
    assert tilt.weights @ values == pytest.approx(0.45, abs=2e-3)
    known = fit_tilt([cell, half], [Counted.marginal(np.full(4, 0.25)), table])
    assert known.quality.missed > 10


def test_rows_of_one_cell_are_chosen_together_in_proportion() -> None:
    rng = np.random.default_rng(7)
    cells, weights = rng.integers(0, 30, N), rng.exponential(size=N)
    weights /= weights.sum()
    chosen = sample_by_weight(weights, 1001, rng, order=np.argsort(cells, kind="stable"))
    counts = np.bincount(cells[chosen], minlength=30)
    assert np.abs(counts - 1001 * np.bincount(cells, weights=weights)).max() < 1 + 1e-9


def test_a_row_is_chosen_in_proportion_to_its_weight() -> None:
    weights = np.array([0.5, 0.0, 0.3, 0.2])
    chosen = sample_by_weight(weights, 1001, np.random.default_rng(5), order=np.arange(4))
    counts = np.bincount(chosen, minlength=4)
    assert counts.sum() == 1001
    assert np.abs(counts - 1001 * weights).max() < 1
    assert counts[1] == 0
    assert (np.diff(chosen) < 0).any(), "rows are in a random order"
