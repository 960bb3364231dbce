"""Laws of shrunk eigenvalues, and that they do what they are for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.analysis.spectrum.ppca import fit_ppca
from dppca.common.analysis.spectrum.shrinkage import shrink

FALSE_ALARMS = 0.0  # all draws have seeds
SPECTRA = st.lists(st.floats(-2, 5), min_size=3, max_size=12).map(
    lambda values: np.array(sorted(values, reverse=True))
)


@given(spectrum=SPECTRA, edge=st.floats(0, 3), data=st.data())
def test_shrunk_eigenvalues_descend_from_zero_and_up_and_keep_the_trace(
    spectrum: np.ndarray, edge: float, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(spectrum) - 1))
    before = spectrum.copy()
    shrunk = shrink(spectrum, count=count, noise_edge=edge)
    np.testing.assert_array_equal(spectrum, before)
    assert np.all(shrunk >= 0)
    assert np.all(np.diff(shrunk) <= 1e-12)
    if spectrum.sum() > 0:
        assert shrunk.sum() == pytest.approx(spectrum.sum())
        assert np.ptp(shrunk[count:]) == 0


def test_without_noise_the_model_is_that_of_tipping_and_bishop() -> None:
    spectrum = np.array([5.0, 2, 1, 0.5, 0.3])
    plain = fit_ppca(spectrum, np.eye(5)[:2], None, trace_scaling=False)
    shrunk = shrink(spectrum, count=2, noise_edge=0.0)
    ours = fit_ppca(shrunk, np.eye(5)[:2], None, trace_scaling=False)
    np.testing.assert_allclose(ours.covariance(), plain.covariance())


def test_a_component_below_the_edge_has_no_more_variance_than_the_rest() -> None:
    shrunk = shrink(np.array([3.0, 0.9, 0.4, -0.3]), count=2, noise_edge=1.0)
    assert shrunk[0] == pytest.approx(np.sqrt(8))
    np.testing.assert_allclose(shrunk[1:], (4 - np.sqrt(8)) / 3)


def test_kept_ones_above_the_whole_trace_are_scaled_to_it() -> None:
    shrunk = shrink(np.array([3.0, 2.0, -4.0]), count=2, noise_edge=0.0)
    np.testing.assert_allclose(shrunk, [0.6, 0.4, 0])


def test_a_trace_of_nothing_leaves_the_positive_ones() -> None:
    shrunk = shrink(np.array([1.0, -0.5, -2.0]), count=1, noise_edge=0.5)
    np.testing.assert_array_equal(shrunk, [1, 0, 0])


def test_noise_of_a_whole_release_is_shrunk_by_its_own_spectrum() -> None:
    """The best weight of the observed direction, at 1.5 edges; the semicircle's is 8 % below."""
    rng, p = np.random.default_rng(6), 100
    edge = 3.330191 * p  # of as many columns as rows: 2 z / (1 - z^2) + 1 / z, z^2 = sqrt(5) - 2
    best, ours, usual = np.zeros(20), np.zeros(20), np.zeros(20)
    for draw in range(20):
        g, h = rng.standard_normal((2, p, p))
        noised = g @ g.T - h @ h.T
        noised[0, 0] += 4.54 * p
        values, vectors = np.linalg.eigh(noised)
        best[draw] = 4.54 * p * vectors[0, -1] ** 2
        spectrum = np.append(values[-1], np.full(p - 1, 2.0 * p))  # a trace that leaves the first
        ours[draw], usual[draw] = (
            shrink(spectrum, count=1, noise_edge=edge, ratio=ratio)[0] for ratio in (1, np.inf)
        )
    assert ours.mean() == pytest.approx(best.mean(), rel=0.02)
    assert usual.mean() < 0.95 * best.mean()


def test_of_many_columns_the_spectrum_is_a_semicircle() -> None:
    spectrum = np.array([5.0, 2, 1.01, 0.99, 0.3])
    many = shrink(spectrum, count=4, noise_edge=1.0, ratio=1e9)
    np.testing.assert_allclose(many, shrink(spectrum, count=4, noise_edge=1.0), rtol=1e-6)
