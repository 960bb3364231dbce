"""Rules by which parties' components are joined, against the pooled ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.rivals.merging import (
    SiteSums,
    distributed_components,
    merged_components,
    published_deviation,
    published_sites,
    sound_sites,
)
from dppca.common.numerics.moments.accumulation import accumulate_moments
from tests.support.studies import make_schema

RNG = np.random.default_rng(132)
SHAPES = RNG.standard_normal((3, 6, 6)) * np.array([3.0, 2.0, 1.0, 0.5, 0.3, 0.1])
TABLES = [RNG.standard_normal((40 * (i + 1), 6)) @ shape for i, shape in enumerate(SHAPES)]
PARTS = [rows / np.linalg.norm(rows, axis=1).max() for rows in TABLES]
SITES = [SiteSums(len(rows), np.cov(rows, rowvar=False, bias=True)) for rows in PARTS]


def assert_same_space(left: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    assert np.allclose(left.T @ left, right.T @ right, atol=1e-9)


def leading(matrix: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :k].T


def test_sites_that_send_everything_count_the_same_in_dpdispca() -> None:
    found = distributed_components(SITES, k=3, intermediate=6, signed=True)
    assert_same_space(found, leading(sum(site.matrix for site in SITES) / 3, 3))


def test_a_negative_eigenvalue_is_sent_as_printed_and_left_out_in_the_sound_form() -> None:
    site = SiteSums(10, np.diag([1.0, 0.5, -2.0]))
    assert_same_space(
        distributed_components([site], k=1, intermediate=2, signed=False), np.eye(3)[2:]
    )
    assert_same_space(
        distributed_components([site], k=1, intermediate=2, signed=True), np.eye(3)[:1]
    )


def test_merged_subspaces_of_full_rank_count_rows() -> None:
    pooled = sum(site.n_rows * site.matrix for site in SITES)
    found = merged_components(SITES, k=6)
    assert found.shape == (6, 6)
    assert_same_space(found[:2], leading(pooled, 2))


def test_merging_keeps_no_more_than_it_is_asked_for() -> None:
    lost = merged_components(
        [SiteSums(1, np.diag([2.0, 1.9, 0.0])), SiteSums(1, np.diag([0, 1.9, 2.0]))], k=1
    )
    assert not np.allclose(np.abs(lost), [[0, 1, 0]]), "the sum's leading vector was cut off"


def test_sound_sites_without_noise_have_their_rows_covariances() -> None:
    schema = make_schema(
        [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(6)],
        resolution_bits=14,
        row_norm={},
    )
    packed = [accumulate_moments(schema, list(rows.T)).packed for rows in PARTS]
    for site, expected in zip(
        sound_sites(schema, packed, [len(rows) for rows in PARTS]), SITES, strict=True
    ):
        assert site.n_rows == expected.n_rows
        assert np.abs(site.matrix - expected.matrix).max() < 1e-3


def test_published_noise_is_symmetric_and_as_wide_as_printed() -> None:
    epsilon, delta = 0.5, 1e-5
    assert published_deviation(200, epsilon, delta) == pytest.approx(
        math.sqrt(2 * math.log(1.25 / delta)) / (200 * epsilon)
    )
    none = [np.zeros((200, 60))]
    (site,) = published_sites(none, epsilon=epsilon, delta=delta, rng=np.random.default_rng(1))
    assert (site.matrix == site.matrix.T).all()
    found = site.matrix[np.triu_indices(60)].std()
    # 1830 draws: the estimate's own deviation is 1.7 %, so five of them.
    assert found == pytest.approx(published_deviation(200, epsilon, delta), rel=0.085)
