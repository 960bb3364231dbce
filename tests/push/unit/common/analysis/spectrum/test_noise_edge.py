"""The simulated edge of the noise, against laws that hold in special cases."""

from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.spectrum.noise import NoiseSource
from dppca.common.analysis.spectrum.noise_edge import NoiseEdge, largest_eigenvalue, noise_edge
from dppca.common.kernel.moments.moments import spread_products, unpack
from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.noise_law import NoiseLaw
from dppca.common.kernel.schema import Layout, Schema
from dppca.common.kernel.study import Covariance

_NUMERIC = [{"name": f"x{i}", "type": "numeric", "lower": 0, "upper": 1} for i in range(3)]
_BINARY = [{"name": f"b{i}", "type": "binary", "values": [0, 1]} for i in range(4)]
_CATEGORICAL = [{"name": "c", "type": "categorical", "categories": list("uvwxyz")}]


def _layout(attributes: list[dict[str, object]], **settings: object) -> Layout:
    return Schema.from_document({"attributes": attributes, **settings}).layout


def _ball(p: int, include_sums: bool) -> Layout:
    attributes = [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(p)]
    return _layout(attributes, row_norm={"include_sums": include_sums})


def _edge(layout: Layout, **changes: Any) -> NoiseEdge:
    """Pooled Laplace noise of one owner with 1000 rows, about a mean of zero."""
    given: dict[str, Any] = {
        "law": LaplaceLaw(10**7),
        "owner_rows": [1000],
        "mean": np.zeros(layout.n_columns),
        "covariance": Covariance.POOLED,
        "seed": 0,
    }
    return noise_edge(layout, **{**given, **changes})


@pytest.mark.parametrize("law", [LaplaceLaw(3 * 10**7), GaussianLaw(9 * 10**14)])
def test_the_edge_is_the_one_of_the_slow_obvious_simulation(law: NoiseLaw) -> None:
    layout = _layout(_NUMERIC + _BINARY + _CATEGORICAL)
    p, rows = layout.n_columns, [300, 500, 200]
    mean = np.linspace(-0.3, 0.4, p)
    rng = np.random.default_rng(5)
    largest = []
    for _ in range(400):
        draw = getattr(rng, "laplace" if law.name == "laplace" else "normal")
        packed = sum(draw(scale=3e7, size=layout.n_entries) for _ in rows)
        nu, second = unpack(packed.astype(np.int64), sum(rows), layout)
        second[np.diag_indices(p)] -= [0.25 if k == "binary" else 0 for k in layout.kinds]
        noise = second - np.outer(nu, mean) - np.outer(mean, nu)
        largest.append(np.linalg.eigvalsh(noise)[-1])
    found = _edge(layout, law=law, owner_rows=rows, mean=mean, seed=9, draws=400)
    assert found.value == pytest.approx(np.quantile(largest, 0.95), rel=0.06)


@pytest.mark.parametrize("p", [150, 250])
def test_gaussian_noise_in_the_unit_ball_without_sums_has_the_semicircle_edge(p: int) -> None:
    layout = _ball(p, include_sums=False)
    sigma, rows = 5 * 10**6, [400, 600]
    found = _edge(layout, law=GaussianLaw(sigma**2), owner_rows=rows, mean=None, seed=3, draws=20)
    per_entry = sigma * np.sqrt(2) / (sum(rows) * 4**10)
    assert found.value == pytest.approx(2 * np.sqrt(p) * per_entry, rel=0.05)


def test_within_owners_the_squares_of_the_means_noises_lower_the_edge() -> None:
    layout = _layout(_BINARY)
    pooled, within = (
        _edge(layout, law=LaplaceLaw(4 * 10**8), owner_rows=[1000] * 20, covariance=each)
        for each in (Covariance.POOLED, Covariance.WITHIN)
    )
    # each owner's nu has variance 2 (b / (n_i 4^g))^2 per column, and 20 of them average out
    shift = 2 * (4e8 / (1000 * 4**10)) ** 2
    assert within.value == pytest.approx(pooled.value - shift, abs=0.5 * shift)


@pytest.mark.parametrize("attributes", [_NUMERIC, _BINARY, _CATEGORICAL + _NUMERIC * 60 + _BINARY])
@pytest.mark.parametrize("ball", [False, True])
def test_products_are_spread_to_the_places_that_the_layout_says(
    attributes: list[dict[str, object]], ball: bool
) -> None:
    renamed = [{**each, "name": f"a{number}"} for number, each in enumerate(attributes)]
    layout = _ball(5, include_sums=False) if ball else _layout(renamed)
    packed = np.random.default_rng(1).integers(-(10**9), 10**9, layout.n_entries)
    p = layout.n_columns
    expected = np.zeros((p, p))
    i, j = layout.product_index
    expected[i, j] = expected[j, i] = packed[layout.n_sums :]
    np.testing.assert_array_equal(spread_products(layout, packed, np.zeros((p, p))), expected)


@pytest.mark.parametrize("covariance", list(Covariance))
@pytest.mark.parametrize("cores", [1, 5])
def test_many_columns_have_the_edge_of_the_same_draws_one_by_one(
    covariance: Covariance, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 231 columns of every kind: above what is decomposed as a whole.
    monkeypatch.setattr("dppca.common.analysis.spectrum.noise_edge.count_cores", lambda: cores)
    wide = [{"name": f"y{i}", "type": "numeric", "lower": -1, "upper": 1} for i in range(218)]
    layout = _layout(_NUMERIC + _BINARY + _CATEGORICAL + wide)
    mean = np.linspace(-0.4, 0.3, layout.n_columns)
    law, rows = LaplaceLaw(4 * 10**9), [300, 500, 200]
    found = _edge(layout, law=law, owner_rows=rows, mean=mean, covariance=covariance, seed=11)
    assert found.draws == max(8, 400_000_000 // (layout.n_columns**3 + 3 * layout.n_columns))
    largest = []
    for number in range(found.draws):
        source = NoiseSource(
            np.random.default_rng((11, number)),
            layout,
            law=law,
            width=law.width,
            owner_rows=rows,
            own_means=covariance is Covariance.WITHIN,
        )
        drawn = source.draw()
        noise = drawn.linear(mean) - (0 if drawn.squares is None else drawn.squares)
        largest.append(np.linalg.eigvalsh(noise)[-1])
    expected = np.mean(largest) + 1.6449 * np.std(largest, ddof=1)
    assert found.value == pytest.approx(expected, rel=3e-3)


def test_the_largest_eigenvalue_is_found_where_lanczos_has_no_direction_to_prefer() -> None:
    assert largest_eigenvalue(np.eye(300)) == pytest.approx(1)
    assert largest_eigenvalue(-np.eye(300)) == pytest.approx(-1)
    assert largest_eigenvalue(np.zeros((300, 300))) == pytest.approx(0, abs=1e-12)
