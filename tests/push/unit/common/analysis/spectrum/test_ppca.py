"""PPCA against scikit-learn, and where noise has made eigenvalues negative."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from dppca.common.analysis.spectrum.pca import decompose
from dppca.common.analysis.spectrum.ppca import fit_ppca, sample


def test_the_model_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 7)) @ rng.normal(size=(7, 7))
    oracle = PCA(n_components=3).fit(rows)
    found = decompose(np.cov(rows.T))
    model = fit_ppca(found.eigenvalues, found.vectors[:3], rows.mean(axis=0), trace_scaling=True)
    np.testing.assert_allclose(model.covariance(), oracle.get_covariance(), rtol=1e-8)
    assert model.noise_variance == pytest.approx(oracle.noise_variance_)
    assert model.trace_scale == 1


def test_dropped_negative_eigenvalues_count_as_zero() -> None:
    model = fit_ppca(np.array([4.0, 1.5, 0.6, -3.0]), np.eye(4)[:2], None, trace_scaling=False)
    assert model.noise_variance == pytest.approx(0.3)
    np.testing.assert_allclose(model.components, np.eye(4)[:, :2] * np.sqrt([3.7, 1.2]))
    np.testing.assert_array_equal(model.mean, np.zeros(4))


def test_trace_scaling_meets_the_signed_trace_and_changes_no_correlation() -> None:
    rng = np.random.default_rng(1)
    vectors = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    eigenvalues = np.array([4.0, 1.5, 0.6, -3.0])
    scaled = fit_ppca(eigenvalues, vectors[:2], None, trace_scaling=True)
    plain = fit_ppca(eigenvalues, vectors[:2], None, trace_scaling=False)
    assert np.trace(scaled.covariance()) == pytest.approx(eigenvalues.sum())
    np.testing.assert_allclose(scaled.covariance(), plain.covariance() * scaled.trace_scale)


def test_a_trace_that_is_not_positive_is_not_scaled_to() -> None:
    model = fit_ppca(np.array([1.0, 0.5, -4.0]), np.eye(3)[:1], None, trace_scaling=True)
    assert model.trace_scale == 1


def test_where_nothing_is_left_over_there_is_no_noise_and_rows_lie_in_the_components() -> None:
    model = fit_ppca(np.array([2.0, 0.0, 0.0]), np.eye(3)[:1], np.ones(3), trace_scaling=False)
    rows = sample(model, 50, rng=np.random.default_rng(0))
    assert model.noise_variance == 0
    np.testing.assert_array_equal(rows[:, 1:], 1)
    assert rows[:, 0].std() > 0.5


def test_where_no_eigenvalue_is_positive_every_row_is_the_mean() -> None:
    model = fit_ppca(
        np.array([-1.0, -2.0]), np.eye(2)[:1], np.array([0.1, 0.2]), trace_scaling=True
    )
    rows = sample(model, 3, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(rows, np.tile([0.1, 0.2], (3, 1)))
