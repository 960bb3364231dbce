"""The simulated edge of the noise, against laws that hold in special cases."""

from __future__ import annotations

import numpy as np
import pytest

from common.numerics.edge import noise_edge
from common.numerics.moments import unpack
from common.schema import Schema
from common.study import Covariance

_NUMERIC = [{"name": f"x{i}", "type": "numeric", "lower": 0, "upper": 1} for i in range(3)]
_BINARY = [{"name": f"b{i}", "type": "binary", "values": [0, 1]} for i in range(4)]
_CATEGORICAL = [{"name": "c", "type": "categorical", "categories": list("uvwxyz")}]


def _layout(attributes: list[dict[str, object]], **settings: object):
    return Schema.from_document({"attributes": attributes, **settings}).layout


def _ball(p: int, include_sums: bool):
    attributes = [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(p)]
    return _layout(attributes, row_norm={"include_sums": include_sums})


def test_the_same_seed_gives_the_same_edge_and_another_seed_another() -> None:
    layout = _layout(_NUMERIC + _BINARY)
    settings = {
        "mechanism": "laplace",
        "scale": 1e7,
        "owner_rows": [100, 200],
        "mean": np.full(7, 0.1),
        "covariance": Covariance.POOLED,
    }
    first = noise_edge(layout, seed=1, **settings)
    assert first == noise_edge(layout, seed=1, **settings)
    assert first != noise_edge(layout, seed=2, **settings)
    assert first.draws == 200
    assert first.quantile == 0.95


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_edge_is_the_one_of_the_slow_obvious_simulation(mechanism: str) -> None:
    layout = _layout(_NUMERIC + _BINARY + _CATEGORICAL)
    p, scale, rows = layout.n_columns, 3e7, [300, 500, 200]
    mean = np.linspace(-0.3, 0.4, p)
    rng = np.random.default_rng(5)
    largest = []
    for _ in range(400):
        draw = getattr(rng, "laplace" if mechanism == "laplace" else "normal")
        packed = sum(draw(scale=scale, size=layout.n_entries) for _ in rows)
        nu, second = unpack(packed.astype(np.int64), sum(rows), layout)
        second[np.diag_indices(p)] -= [0.25 if k == "binary" else 0 for k in layout.kinds]
        noise = second - np.outer(nu, mean) - np.outer(mean, nu)
        largest.append(np.linalg.eigvalsh(noise)[-1])
    found = noise_edge(
        layout,
        mechanism=mechanism,  # type: ignore[arg-type]
        scale=scale,
        owner_rows=rows,
        mean=mean,
        covariance=Covariance.POOLED,
        seed=9,
        draws=400,
    )
    assert found.value == pytest.approx(np.quantile(largest, 0.95), rel=0.06)


@pytest.mark.parametrize("p", [150, 250])
def test_gaussian_noise_in_the_unit_ball_without_sums_has_the_semicircle_edge(p: int) -> None:
    layout = _ball(p, include_sums=False)
    sigma, rows = 5e6, [400, 600]
    found = noise_edge(
        layout,
        mechanism="gaussian",
        scale=sigma,
        owner_rows=rows,
        mean=None,
        covariance=Covariance.POOLED,
        seed=3,
        draws=20,
    )
    per_entry = sigma * np.sqrt(2) / (sum(rows) * 4**10)
    assert found.value == pytest.approx(2 * np.sqrt(p) * per_entry, rel=0.05)


def test_a_mean_makes_the_edge_larger_than_the_semicircle_has_it() -> None:
    layout = _layout(_BINARY * 1 + _NUMERIC + _CATEGORICAL)
    settings = {
        "mechanism": "laplace",
        "scale": 1e7,
        "owner_rows": [1000],
        "covariance": Covariance.POOLED,
        "seed": 0,
    }
    centred = noise_edge(layout, mean=np.zeros(layout.n_columns), **settings)
    shifted = noise_edge(layout, mean=np.full(layout.n_columns, 0.5), **settings)
    assert shifted.value > 1.3 * centred.value


def test_within_owners_the_squares_of_the_means_noises_lower_the_edge() -> None:
    layout = _layout(_BINARY)
    settings = {
        "mechanism": "laplace",
        "scale": 4e8,
        "owner_rows": [1000] * 20,
        "mean": np.zeros(4),
        "seed": 0,
    }
    pooled = noise_edge(layout, covariance=Covariance.POOLED, **settings)
    within = noise_edge(layout, covariance=Covariance.WITHIN, **settings)
    # each owner's nu has variance 2 (b / (n_i 4^g))^2 per column, and 20 of them average out
    shift = 2 * (4e8 / (1000 * 4**10)) ** 2
    assert within.value == pytest.approx(pooled.value - shift, abs=0.5 * shift)


def test_a_hundred_columns_take_all_200_draws() -> None:
    found = noise_edge(
        _ball(104, include_sums=True),
        mechanism="laplace",
        scale=1e7,
        owner_rows=[1000] * 3,
        mean=np.zeros(104),
        covariance=Covariance.POOLED,
        seed=0,
    )
    assert found.draws == 200


@pytest.mark.parametrize(("work", "draws"), [(10**6, 200), (64 * 50, 50), (64, 8)])
def test_many_columns_take_fewer_draws_but_no_fewer_than_eight(
    work: int, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.numerics.edge._MAX_WORK", work)
    found = noise_edge(
        _layout(_BINARY),
        mechanism="gaussian",
        scale=1e7,
        owner_rows=[1000],
        mean=np.zeros(4),
        covariance=Covariance.POOLED,
        seed=0,
    )
    assert found.draws == draws
