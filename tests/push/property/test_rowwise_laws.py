"""Products of rows are functions of one row: exact, or the same operations in one order."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dppca.common.analysis.estimators.utility import fit_svm
from dppca.common.kernel.errors import RangeError
from dppca.common.kernel.moments.rowwise import GridWeights, cos_and_sin, products, weights_on
from dppca.common.kernel.schema.coding import row_norms
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=examples(100))
@given(
    seed=SEEDS,
    n=st.integers(1, 40),
    d=st.integers(1, 60),
    k=st.integers(1, 4),
    g=st.integers(1, 14),
    size=st.sampled_from([0.0, 1e-300, 1e-6, 1.0, 1e6, 1e300]),
)
def test_products_on_a_grid_are_the_integers_that_python_finds(
    seed: int, n: int, d: int, k: int, g: int, size: float
) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(k, d)) * size
    # Rows at their bound as well, where the sums are largest.
    rows = rng.integers(-(1 << g), (1 << g) + 1, size=(n, d)).astype(np.int32)
    rows[0] = np.where(weights[0] < 0, -(1 << g), 1 << g)
    grid = weights_on(weights, largest=1 << g)
    whole = [[int(each) for each in row] for row in grid.whole]
    expected = [
        [sum(a * int(z) for a, z in zip(w, row, strict=True)) for w in whole] for row in rows
    ]
    assert max(abs(each) for row in expected for each in row) <= 1 << 53
    assert [[int(each) for each in row] for row in grid.multiply(rows)] == expected
    if size:  # and the grid is fine enough to be of no matter
        assert np.abs(grid.whole).sum(axis=1).max() * (1 << g) > 1 << 50
        np.testing.assert_array_equal(grid.whole, np.rint(np.ldexp(weights, grid.bits)))


def test_rows_and_weights_beyond_what_is_exact_are_refused() -> None:
    grid = weights_on(np.ones((1, 2)), largest=16)
    for entry in (17, -17, np.iinfo(np.int32).min):
        with pytest.raises(RangeError):
            grid.multiply(np.array([[0, entry]], np.int32))
    with pytest.raises(RangeError):
        GridWeights(np.array([[2.0**40, 2.0**40]]), 0, 1 << 13)
    assert grid.multiply(np.zeros((0, 2), np.int32)).shape == (0, 1)


@settings(max_examples=examples(60))
@given(seed=SEEDS, n=st.integers(1, 50), d=st.integers(1, 30), K=st.integers(1, 4))
def test_a_label_alone_is_the_label_in_any_batch(seed: int, n: int, d: int, K: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, size=30)
    rule = fit_svm(rng.normal(size=(30, d)) / 4, labels)
    rows = rng.integers(-512, 513, size=(n, d)) / 1024
    together = rule(rows)
    assert set(together.tolist()) <= set(labels.tolist())
    assert together.tolist() == [int(rule(row[None])[0]) for row in rows]


@pytest.mark.parametrize("entry", [0.1, 1.5, -1 - 2**-14, 2.0**-15, np.nan, np.inf, 1e300])
def test_a_row_that_was_not_coded_is_not_predicted(entry: float) -> None:
    rule = fit_svm(np.eye(2), np.array([0, 1]))
    assert len(rule(np.array([[1.0, -1.0], [2.0**-14, 0.0]]))) == 2
    with pytest.raises(RangeError, match="not coded"):
        rule(np.array([[0.5, entry]]))


def test_the_rule_is_the_machine_of_scikit_learn() -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(5)
    rows = rng.integers(-512, 513, size=(600, 6)) / 1024
    rows[:, 5] = 0.25  # a constant column
    for K in (2, 3):
        labels = np.clip(np.digitize(rows[:, 0] + rows[:, 1] * 0.5, [0, 0.2][: K - 1]), 0, K - 1)
        oracle = make_pipeline(StandardScaler(), LinearSVC(C=0.1, dual=False, max_iter=20_000))
        oracle.fit(rows, labels)
        rule = fit_svm(rows, labels.astype(np.int64))
        np.testing.assert_array_equal(rule(rows), oracle.predict(rows))


@settings(max_examples=examples(60))
@given(seed=SEEDS, n=st.integers(1, 300), d=st.integers(1, 40), k=st.integers(1, 9))
def test_products_and_norms_of_floats_are_added_from_left_to_right(
    seed: int, n: int, d: int, k: int
) -> None:
    rng = np.random.default_rng(seed)
    rows, matrix = rng.normal(size=(n, d)), rng.normal(size=(k, d))
    found, lengths = products(np.asfortranarray(rows), matrix), row_norms(rows)
    row = int(rng.integers(n))
    for j in range(k):
        assert found[row, j] == added_from_left(rows[row] * matrix[j])
    assert lengths[row] == math.sqrt(added_from_left(rows[row] * rows[row]))


def added_from_left(numbers: NDArray[np.float64]) -> float:
    """Add in float64, each sum rounded: `sum` carries what rounding loses, from Python 3.12 on."""
    total = 0.0
    for each in numbers.tolist():
        total += each
    return total


@settings(max_examples=examples(60))
@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=50))
def test_waves_are_the_cosine_and_sine_of_each_angle_alone(angles: list[float]) -> None:
    cos, sin = cos_and_sin(np.array(angles))
    for angle, c, s in zip(angles, cos.tolist(), sin.tolist(), strict=True):
        assert c == pytest.approx(math.cos(angle), abs=1e-12)
        assert s == pytest.approx(math.sin(angle), abs=1e-12)
        assert math.hypot(c, s) == pytest.approx(1.0, abs=1e-14)
        assert (c, s) == tuple(float(each[0]) for each in cos_and_sin(np.array([angle])))
