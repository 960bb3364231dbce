"""The audit of noise of a whole release passes honest noise, and finds each fault.

False alarms: the audit states 1e-8 for each of its two findings on drawn noise.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dppca.common.kernel.privacy import matrix_law, matrix_noise
from dppca.common.kernel.privacy.matrix_noise import simulated_matrix
from dppca.common.kernel.privacy.noise import wishart
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.noise.normals import Normals
from dppca.common.kernel.privacy.release import calibrate
from dppca.owner.selftest import joint_noise
from dppca.owner.selftest.joint_noise import (
    LEAST_RELEASES,
    audit_joint_noise,
    find_faults,
    joint_study,
)

FALSE_ALARMS = 2e-8  # of real releases, whose bits are counted; other noise has a seed
STUDY = joint_study("matrix-laplace")
NOISE = calibrate(STUDY)
LAYOUT = STUDY.table.layout
SCALE, COLUMNS = NOISE.law.parameters()["scale"], NOISE.law.degrees or 0

Fault = Callable[[np.random.Generator], np.ndarray]


def drawn(one: Fault, n: int = LEAST_RELEASES) -> np.ndarray:
    rng = np.random.default_rng(8)
    return np.rint([SCALE * one(rng) for _ in range(n)]).astype(np.int64)


def honest(rng: np.random.Generator) -> np.ndarray:
    return simulated_matrix(LAYOUT, COLUMNS, rng)


def normals(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    g, h = rng.standard_normal((2, LAYOUT.n_columns + 1, COLUMNS))
    return g, h


def of(g: np.ndarray, h: np.ndarray) -> np.ndarray:
    return matrix_noise.released_noise(LAYOUT, g @ g.T - h @ h.T)


def dependent(rng: np.random.Generator) -> np.ndarray:
    g, h = normals(rng)
    h[:, : COLUMNS // 4] = g[:, : COLUMNS // 4]
    return of(g, h)


def row_again(rng: np.random.Generator) -> np.ndarray:
    g, h = normals(rng)
    g[5], h[5] = g[4], h[4]
    return of(g, h)


def half_diagonal(rng: np.random.Generator) -> np.ndarray:
    noise = honest(rng)
    i, j = LAYOUT.product_index
    noise[LAYOUT.n_sums + np.flatnonzero(i == j)] /= np.sqrt(2)
    return noise


FAULTS: dict[str, tuple[Fault, str]] = {
    "a scale 2 % too small": (lambda rng: 0.98 * honest(rng), "too small"),
    "a column short": (lambda rng: simulated_matrix(LAYOUT, COLUMNS - 1, rng), "too small"),
    "G and H dependent": (dependent, "too small"),
    "a row of normals used again": (row_again, "correlated"),
    "squares with the variance of products": (half_diagonal, "squares"),
}


def test_honest_noise_has_no_fault() -> None:
    assert find_faults(STUDY, NOISE, drawn(honest)) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_noise_is_found(fault: str) -> None:
    one, said = FAULTS[fault]

    assert any(said in each for each in find_faults(STUDY, NOISE, drawn(one)))


def test_a_release_that_came_again_is_found() -> None:
    noise = drawn(honest, 200)
    noise[7] = noise[3]

    assert "the noise of a whole release came again" in find_faults(STUDY, NOISE, noise)


@pytest.mark.real_noise
def test_real_releases_and_shares_pass() -> None:
    findings = audit_joint_noise(n_releases=200, advance=lambda _: None)

    assert [each.says for each in findings if not each.passed] == []
    assert [each.check for each in findings] == [
        "Matrix-Laplace contribution: distribution",
        "Matrix-Laplace masked contribution: distribution",
        "Matrix-Laplace: charge",
    ]


def test_normals_on_a_grid_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def coarse(count: int, *, entropy: SeededEntropy) -> Normals:
        words = np.frombuffer(entropy.bytes(4 * count), np.uint32).astype(np.uint64)
        whole = (words >> np.uint64(30)).astype(np.int64)
        return Normals(words % 2 == 0, whole, (words << np.uint64(34))[None])

    def unrefined(drawn: Normals, words: int, *, entropy: SeededEntropy) -> Normals:
        del words, entropy
        return drawn

    monkeypatch.setattr(wishart, "exact_normals", coarse)
    monkeypatch.setattr(wishart, "refine", unrefined)

    found = audit_joint_noise(n_releases=20, advance=lambda _: None)[0]

    assert "random bits were taken" in found.says


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (lambda space: replace(space, nuclear=space.nuclear * 9 / 10), "rows replaced: epsilon"),
        # Averages of a person's rows are rounded once more, which breaks what blocks keep.
        (lambda space: replace(space, divided=0), "people replaced: epsilon"),
        (lambda space: replace(space, entries=space.entries - 1), "rows added: epsilon"),
    ],
    ids=["a smaller norm", "a division that is not paid", "a number that is not paid"],
)
def test_a_sensitivity_that_is_too_small_is_found(
    fault: Callable[[Any], Any], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = matrix_noise.matrix_space

    def smaller(*args: Any, **asked: Any) -> Any:
        return fault(true(*args, **asked))

    monkeypatch.setattr(matrix_law, "matrix_space", smaller)

    judged = joint_noise._judge_charge("matrix-laplace")
    assert not judged.passed
    assert found in judged.says
