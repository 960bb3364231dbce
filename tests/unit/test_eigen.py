"""All eigenvalues and the vectors of the largest, against the plain decomposition."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from scipy import linalg

from common.numerics import lapack
from common.numerics.eigen import Tridiagonal
from common.numerics.pca import decompose, with_signs


@pytest.mark.parametrize(("p", "count"), [(2, 1), (3, 2), (16, 15), (60, 7), (130, 1)])
def test_values_and_vectors_are_those_of_the_whole_decomposition(p: int, count: int) -> None:
    rng = np.random.default_rng(p)
    matrix = rng.standard_normal((p, p))
    matrix = matrix @ matrix.T / p - 0.3 * np.eye(p)
    kept = matrix.copy()
    whole, found = decompose(matrix), Tridiagonal(matrix)
    np.testing.assert_array_equal(matrix, kept)
    np.testing.assert_allclose(found.eigenvalues, whole.eigenvalues, atol=1e-12)
    vectors = with_signs(found.vectors(count))
    np.testing.assert_allclose(vectors, whole.vectors[:count], atol=1e-9)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(count), atol=1e-12)
    again = Tridiagonal(matrix, overwrite=True)
    np.testing.assert_array_equal(again.eigenvalues, found.eigenvalues)
    np.testing.assert_array_equal(with_signs(again.vectors(count)), vectors)


def test_vectors_of_equal_eigenvalues_are_orthonormal_and_span_the_same() -> None:
    values = np.array([3.0, 3.0, 3.0, 1.0, 1.0, 0.0, 0.0, -2.0])
    basis, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((8, 8)))
    matrix = (basis * values) @ basis.T
    matrix = (matrix + matrix.T) / 2
    found = Tridiagonal(matrix)
    np.testing.assert_allclose(found.eigenvalues, values, atol=1e-12)
    vectors = found.vectors(3)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(matrix @ vectors.T, 3 * vectors.T, atol=1e-12)


def test_a_diagonal_matrix_and_nothing_at_all() -> None:
    found = Tridiagonal(np.diag([1.0, 5.0, 3.0]))
    assert found.eigenvalues.tolist() == [5.0, 3.0, 1.0]
    np.testing.assert_allclose(np.abs(found.vectors(1)), [[0, 1, 0]], atol=1e-15)
    assert Tridiagonal(np.zeros((4, 4))).eigenvalues.tolist() == [0.0] * 4
    np.testing.assert_allclose(
        (v := Tridiagonal(np.zeros((4, 4))).vectors(2)) @ v.T, np.eye(2), atol=1e-12
    )


def test_what_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="infs or NaNs"):
        Tridiagonal(np.array([[1.0, np.nan], [np.nan, 1.0]]))


def test_another_thread_runs_while_a_matrix_is_decomposed() -> None:
    # SciPy's own wrappers stop all others from the first to the last instruction.
    rng = np.random.default_rng(5)
    matrix = rng.standard_normal((700, 700))
    matrix += matrix.T
    steps, ended = [0], threading.Event()

    def count() -> None:
        while not ended.is_set():
            steps[0] += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=count)
    thread.start()
    most = 0
    try:
        for _ in range(50):
            p, work = len(matrix), np.empty(64 * len(matrix))
            copied = np.asfortranarray(matrix)
            three = [np.empty(p) for _ in range(3)]
            before = steps[0]
            lapack.call("dsytrd", "L", p, copied, p, *three, work, work.size)
            most = max(most, steps[0] - before)
            if most > 2:
                break
    finally:
        ended.set()
        thread.join()
    assert most > 2


def test_a_routine_takes_only_what_its_signature_says() -> None:
    values, beside = np.array([2.0, 1.0]), np.zeros(1)
    lapack.call("dsterf", 2, values, beside)
    assert values.tolist() == [1.0, 2.0]
    for wrong in (
        (2, values),
        (2, values.astype(np.float32), beside),
        (2.0, values, beside),
        ("L", values, beside),
        (2, 2, beside),
        (np.int64(2), values, beside),
    ):
        with pytest.raises(TypeError, match="dsterf"):
            lapack.call("dsterf", *wrong)  # type: ignore[arg-type]
    read_only = np.zeros(2)
    read_only.flags.writeable = False
    with pytest.raises(TypeError, match="dsterf"):
        lapack.call("dsterf", 2, read_only, beside)
    with pytest.raises(linalg.LinAlgError, match="dsterf reports -1"):
        lapack.call("dsterf", -1, values, beside)
    with pytest.raises(KeyError):
        lapack.call("dnothing")
