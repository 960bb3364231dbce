"""Estimates under noise of a whole release: variances and fourth cumulants are those of draws."""

from fractions import Fraction

import numpy as np
import pytest

from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.noise import EntryNoise, MomentNoise, Noise, form
from dppca.common.kernel.moments.moments import unpack
from dppca.common.kernel.privacy.laws import MatrixLaplaceLaw
from dppca.common.kernel.privacy.matrix_noise import matrix_space
from dppca.common.kernel.schema.layout import Layout
from tests.support.matrix_rows import make_layout

FALSE_ALARMS = 0.0  # all noise has a seed
DRAWS, WIDTH, ROWS = 3000, 1e7, 1000


@pytest.fixture(scope="module")
def layout() -> Layout:
    return make_layout(["num", 3, "mis", "bin", 4], weight=Fraction(3, 4))


@pytest.fixture(scope="module")
def released(layout: Layout) -> np.ndarray:
    """Deviations of reconciled moments from those without noise, (DRAWS, p + 1, p + 1)."""
    rng, noise = np.random.default_rng(3), moment_noise(layout)

    def reconciled(packed: np.ndarray) -> np.ndarray:
        mean, second = unpack(packed.astype(np.int64), ROWS, layout)
        assert mean is not None
        return noise.reconcile(np.block([[np.ones((1, 1)), mean[None]], [mean[:, None], second]]))

    base = reconciled(np.zeros(layout.n_entries))
    drawn = (MatrixLaplaceLaw.standard_release(layout, 2, rng) for _ in range(DRAWS))
    return np.stack([reconciled(WIDTH * each) - base for each in drawn])


def moment_noise(layout: Layout) -> MomentNoise:
    m = matrix_space(layout).columns
    deviation = WIDTH * np.sqrt(2 * m * 2) / (4**layout.resolution_bits * ROWS)
    return MomentNoise(layout, EntryNoise(deviation, MatrixLaplaceLaw, 2, columns=m))


def noise_of(layout: Layout, gradients: np.ndarray) -> Noise:
    noise = moment_noise(layout)
    block = Block.of(noise, range(5), np.zeros((layout.n_columns + 1,) * 2))
    return block.noise(gradients)


def values_of(released: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    upper = np.triu(np.ones(released.shape[1:]))
    found: np.ndarray = np.einsum("nij,kij->kn", released * upper, gradients)
    return found


def test_variance_of_any_functional_is_that_of_draws(layout: Layout, released: np.ndarray) -> None:
    rng, side = np.random.default_rng(4), layout.n_columns + 1
    vectors = np.concatenate([np.eye(side), rng.normal(size=(12, side))])
    gradients = np.concatenate([form(vectors, vectors), form(vectors, vectors[::-1])])

    noise, drawn = noise_of(layout, gradients), values_of(released, gradients)

    known = noise.variance > 1e-12 * noise.variance.max()
    assert drawn[~known].var(axis=1).max() < 1e-6 * drawn.var(axis=1).max()
    np.testing.assert_allclose(drawn[known].var(axis=1), noise.variance[known], rtol=0.15)


def test_covariance_of_functionals_is_that_of_draws(layout: Layout, released: np.ndarray) -> None:
    rng, side = np.random.default_rng(5), layout.n_columns + 1
    u, v = rng.normal(size=(2, 8, side))
    gradients = form(u, v)

    noise, drawn = noise_of(layout, gradients), values_of(released, gradients)

    deviations = np.sqrt(np.diag(noise.covariance))
    difference = (np.cov(drawn) - noise.covariance) / np.outer(deviations, deviations)
    assert np.abs(difference).max() < 0.12


def test_fast_variances_are_those_of_the_parts(layout: Layout) -> None:
    rng, side = np.random.default_rng(6), layout.n_columns + 1
    left, right = rng.normal(size=(3, side)), rng.normal(size=(4, side))
    block = Block.of(moment_noise(layout), range(5), np.zeros((side, side)))
    pairs = np.stack([form(u, v) for u in left for v in right])

    fast = block.variances_between(left, right).ravel()

    np.testing.assert_allclose(fast, block.noise(pairs).variance, rtol=1e-9)


def test_fourth_cumulants_are_those_of_the_eigenvalues(layout: Layout) -> None:
    # A square has excess 6 / m, a product 3 / m, for the columns m of both owners.
    m, side = 2 * matrix_space(layout).columns, layout.n_columns + 1
    square, product = np.eye(side)[1], np.eye(side)[[1, 6]]
    gradients = np.stack([form(square, square), form(product[0], product[1])])

    assert noise_of(layout, gradients).kurtosis == pytest.approx([6 / m, 3 / m])


def test_draws_of_the_parts_have_the_law_of_a_matrix(layout: Layout) -> None:
    rng, side = np.random.default_rng(7), layout.n_columns + 1
    gradients = form(*rng.normal(size=(2, 30, side)))
    noise = noise_of(layout, gradients)

    units = noise.draw_units(3000, rng)

    drawn = noise.contributions @ units
    np.testing.assert_allclose(drawn.var(axis=1), noise.variance, rtol=0.15)
    # The sum of all squared units spreads more than that of independent normals.
    assert (units**2).sum(axis=0).std() > 1.15 * np.sqrt(2 * len(units))
