"""Estimates under noise of a whole release: variances and fourth cumulants are those of draws."""

from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.noise import EntryNoise, MomentNoise, Noise, border, form
from dppca.common.kernel.moments.moments import unpack
from dppca.common.kernel.privacy.counted_rows import count_rows
from dppca.common.kernel.privacy.matrix_law import MatrixLaplaceLaw
from dppca.common.kernel.privacy.matrix_noise import largest_forms, matrix_space
from dppca.common.kernel.privacy.noise_law import Noised
from dppca.common.kernel.schema.layout import Layout
from tests.support.matrix_rows import coded_row, make_layout, packed_row

FALSE_ALARMS = 0.0  # all noise has a seed
DRAWS, WIDTH, ROWS = 3000, 1e8, 10**6
ATTRIBUTES: list[str | int] = ["num", 3, "mis", "bin", 4]
TARGETS: dict[str, Any] = {"targets": (0, 1, 3), "target_weight": 2}
LAYOUTS = {
    "plain": make_layout(ATTRIBUTES),
    "targets": make_layout(ATTRIBUTES, **TARGETS),
    "rows added": make_layout(ATTRIBUTES, weight=Fraction(1), counted=True, **TARGETS),
}


@pytest.fixture(scope="module", params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> Layout:
    return LAYOUTS[request.param]


@pytest.fixture(scope="module")
def released(layout: Layout) -> np.ndarray:
    """Deviations of reconciled moments from those without noise, (DRAWS, p + 1, p + 1)."""
    rng, exact, base = np.random.default_rng(3), sums(layout), true_moments(layout)
    drawn = (MatrixLaplaceLaw.standard_release(layout, 2, rng) for _ in range(DRAWS))
    return np.stack([reconciled(layout, exact + WIDTH * each) - base for each in drawn])


def sums(layout: Layout) -> np.ndarray:
    rng = np.random.default_rng(2)
    rows = [packed_row(layout, coded_row(layout, rng, vertex=False)) for _ in range(100)]
    return np.asarray(np.sum(rows, axis=0) * (ROWS // 100))


def true_moments(layout: Layout) -> np.ndarray:
    return reconciled(layout, sums(layout))


def reconciled(layout: Layout, packed: np.ndarray) -> np.ndarray:
    released = np.rint(packed).astype(np.int64)
    n_rows = count_rows(released, layout) if layout.with_count else ROWS
    mean, second = unpack(released, n_rows, layout)
    assert mean is not None
    return moment_noise(layout).reconcile(border(mean, second))


@lru_cache(maxsize=3)
def moment_noise(layout: Layout) -> MomentNoise:
    m = matrix_space(layout).columns
    deviation = WIDTH * np.sqrt(2 * m * 2) / (4**layout.resolution_bits * ROWS)
    rows = largest_forms(layout).get(Noised.ROWS, Fraction(0))
    of_rows = deviation * sqrt(2 * rows)
    return MomentNoise(layout, EntryNoise(deviation, MatrixLaplaceLaw, 2, of_rows, m))


def block_of(layout: Layout) -> Block:
    return Block.of(moment_noise(layout), range(5), true_moments(layout))


def noise_of(layout: Layout, gradients: np.ndarray) -> Noise:
    return block_of(layout).noise(gradients)


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
    block = block_of(layout)
    pairs = np.stack([form(u, v) for u in left for v in right])

    fast = block.variances_between(left, right).ravel()

    np.testing.assert_allclose(fast, block.noise(pairs).variance, rtol=1e-9)


def test_fourth_cumulants_are_those_of_the_eigenvalues(layout: Layout) -> None:
    # A square has excess 6 / m, a product 3 / m, for the columns m of both owners.
    m, side = 2 * matrix_space(layout).columns, layout.n_columns + 1
    square, product = np.eye(side)[1], np.eye(side)[[1, 6]]
    gradients = np.stack([form(square, square), form(product[0], product[1])])

    # The noise of a secret number of rows is a little of it.
    close = pytest.approx([6 / m, 3 / m], rel=0.06 if layout.with_count else 1e-6)
    assert noise_of(layout, gradients).kurtosis == close


def test_draws_of_the_parts_have_the_law_of_a_matrix(layout: Layout) -> None:
    rng, side = np.random.default_rng(7), layout.n_columns + 1
    gradients = form(*rng.normal(size=(2, 30, side)))
    noise = noise_of(layout, gradients)

    units = noise.draw_units(3000, rng)

    drawn = noise.contributions @ units
    np.testing.assert_allclose(drawn.var(axis=1), noise.variance, rtol=0.15)
    # The sum of all squared units spreads more than that of independent normals.
    assert (units**2).sum(axis=0).std() > 1.15 * np.sqrt(2 * len(units))
