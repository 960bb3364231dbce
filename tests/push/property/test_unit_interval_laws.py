"""What noise on moments in [0, 1] costs, against enumeration of whole rows."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dppca.common.kernel.privacy.sensitivity import BoxShape
from dppca.common.papers.ppca.unit_interval import unit_interval_l1
from tests.support.examples import examples

N_LABELS = 3
GRID = 4  # steps between 0 and 1


def rows_of(shape: BoxShape, steps: int) -> NDArray[np.float64]:
    """Every row: numerics on a grid, binaries at both ends, indicators one in a block."""
    numerics = [np.arange(steps + 1) / steps] * shape.n_numeric
    binaries = [np.array([0.0, 1.0])] * (shape.n_scalars - shape.n_numeric)
    scalars = list(product(*numerics, *binaries))
    blocks = list(product(np.eye(N_LABELS).tolist(), repeat=shape.n_categoricals))
    return np.array([[*scalar, *np.ravel(block)] for scalar in scalars for block in blocks])


def moments_of(rows: NDArray[np.float64], *, both_triangles: bool) -> NDArray[np.float64]:
    p = rows.shape[1]
    i, j = np.indices((p, p)).reshape(2, -1) if both_triangles else np.triu_indices(p)
    return np.hstack([rows, rows[:, i] * rows[:, j]])


SHAPES = [
    BoxShape(n_scalars=Q, n_numeric=q, n_categoricals=c)
    for Q, q, c in [
        *((1, 0, 0), (1, 1, 0), (4, 0, 0), (3, 3, 0), (3, 1, 0), (0, 0, 1), (0, 0, 3)),
        *((2, 0, 1), (1, 1, 1), (1, 1, 2), (2, 2, 2), (2, 1, 2), (3, 0, 2), (1, 0, 3), (2, 1, 3)),
    ]
]


@pytest.mark.parametrize("both", [False, True], ids=["mirrored", "both"])
@pytest.mark.parametrize(
    "shape", SHAPES, ids=[f"{s.n_scalars}-{s.n_numeric}-{s.n_categoricals}" for s in SHAPES]
)
def test_no_two_rows_are_further_apart_and_some_are_as_far(shape: BoxShape, both: bool) -> None:
    moments = moments_of(rows_of(shape, GRID), both_triangles=both)
    furthest = max(float(np.abs(moments - each).sum(axis=1).max()) for each in moments)
    bound = float(unit_interval_l1(shape, both_triangles=both))
    assert furthest <= bound + 1e-9
    # The best numerics need not be on the grid: half a step off costs at most the curvature's part.
    curvature = (1 + shape.n_numeric) * max(shape.n_numeric, 1) * (2 if both else 1)
    slack = curvature / (8 * GRID**2) if shape.n_numeric else 0.0
    assert furthest >= bound - slack - 1e-9


@settings(max_examples=examples(100))
@given(
    seed=st.integers(0, 2**32 - 1), q=st.integers(0, 3), b=st.integers(0, 3), c=st.integers(0, 4)
)
def test_random_rows_are_no_further_apart(seed: int, q: int, b: int, c: int) -> None:
    shape = BoxShape(n_scalars=q + b, n_numeric=q, n_categoricals=c) if q + b + c else None
    if shape is None:
        return
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, 2, size=(2, q))
    numerics = np.where(rng.random((2, q)) < 0.5, corner, rng.random((2, q)))
    blocks = np.eye(N_LABELS)[rng.integers(0, N_LABELS, size=(2, c))].reshape(2, -1)
    rows = np.hstack([numerics, rng.integers(0, 2, size=(2, b)), blocks])
    for both in (False, True):
        x, y = moments_of(rows, both_triangles=both)
        assert np.abs(x - y).sum() <= float(unit_interval_l1(shape, both_triangles=both)) + 1e-9


@pytest.mark.parametrize("p", [1, 2, 16, 104])
@pytest.mark.parametrize("numeric", [False, True], ids=["binary", "numeric"])
def test_scalars_alone_move_every_entry(p: int, numeric: bool) -> None:
    shape = BoxShape(n_scalars=p, n_numeric=p if numeric else 0, n_categoricals=0)
    assert unit_interval_l1(shape, both_triangles=False) == Fraction(p * (p + 3), 2)
    assert unit_interval_l1(shape, both_triangles=True) == p * (p + 1)
