"""Rehearsals of a study's noise on assumed components, against cases with a known answer."""

from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.forecast import (
    ForecastSimulation,
    assumed_mean_square,
    largest_total_variance,
)
from dppca.common.analysis.spectrum.noise import NoiseSource
from dppca.common.analysis.spectrum.pca import count_components, decompose
from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.noise_law import NoiseLaw
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.schema.layout import Layout
from dppca.common.kernel.study import ComponentRule, Covariance

_NUMERIC = [{"name": f"x{i}", "type": "numeric", "lower": 0, "upper": 1} for i in range(4)]
_BINARY = [{"name": f"b{i}", "type": "binary", "values": [0, 1]} for i in range(4)]
_CATEGORICAL = [{"name": "c", "type": "categorical", "categories": list("uvwx")}]
_BALL = [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(6)]
_ONE = float(4**10)  # a coded unit of products, in units of 4**-g


def _layout(attributes: list[dict[str, Any]], **settings: Any) -> Layout:
    return Schema.from_document({"attributes": attributes, **settings}).layout


def _rehearsal(layout: Layout, spectrum: list[float], **settings: Any) -> ForecastSimulation:
    eigenvalues = np.zeros(layout.n_columns)
    eigenvalues[: len(spectrum)] = spectrum
    given: dict[str, Any] = {
        "law": LaplaceLaw,
        "owner_rows": [1000, 2000],
        "covariance": Covariance.POOLED,
        "seed": 5,
        **settings,
    }
    return ForecastSimulation(layout, eigenvalues, **given)


def test_next_to_no_noise_finds_the_assumed_components() -> None:
    simulation = _rehearsal(_layout(_NUMERIC + _BINARY), [0.3, 0.2, 0.1])
    found = simulation.forecast(1e-3, ComponentRule(count=3))
    assert found.captured == pytest.approx(1, abs=1e-9)
    assert found.captured_low == pytest.approx(1, abs=1e-9)
    assert found.angle == pytest.approx(0, abs=1e-3)
    assert found.largest_angle == pytest.approx(0, abs=1e-3)
    assert found.count == 3
    assert found.above >= 3
    assert found.noise_edge < 1e-6


def test_overwhelming_noise_finds_no_more_than_chance() -> None:
    layout = _layout(_NUMERIC + _BINARY)
    found = _rehearsal(layout, [0.3, 0.2, 0.1]).forecast(_ONE * 3e7, ComponentRule(count=2))
    # Two of eight directions of a total of 0.6, of which the best two have 0.5.
    assert found.chance == pytest.approx(2 / 8 * 0.6 / 0.5)
    assert found.captured == pytest.approx(found.chance, abs=0.08)
    assert found.above == 0
    assert found.captured_low < found.captured < found.captured_high


@pytest.mark.parametrize("covariance", list(Covariance))
@pytest.mark.parametrize("law", LAWS.values())
def test_more_noise_captures_less_on_the_same_draws(
    law: type[NoiseLaw], covariance: Covariance
) -> None:
    layout = _layout(_NUMERIC + _BINARY + _CATEGORICAL)
    simulation = _rehearsal(layout, [0.5, 0.3, 0.1, 0.05], law=law, covariance=covariance)
    rule = ComponentRule(count=3)
    outlooks = [simulation.forecast(_ONE * scale, rule) for scale in (1, 10, 100, 1000)]
    captured = [found.captured for found in outlooks]
    assert captured == sorted(captured, reverse=True)
    assert captured[0] > 0.99
    assert captured[-1] < 0.9
    edges = [found.noise_edge for found in outlooks]
    assert edges == sorted(edges)


def test_the_edge_of_pooled_noise_is_in_proportion_to_its_scale() -> None:
    simulation = _rehearsal(_layout(_NUMERIC + _BINARY), [0.3])
    assert simulation.noise_edge(_ONE * 7) == pytest.approx(7 * simulation.noise_edge(_ONE))


def test_the_assumed_mean_is_what_the_schema_and_the_variance_leave() -> None:
    assert assumed_mean_square(_layout(_BINARY), 0.6) == pytest.approx(0.4)
    assert assumed_mean_square(_layout(_CATEGORICAL), 0.7) == pytest.approx(0.3)
    assert assumed_mean_square(_layout(_NUMERIC), 0.2) == pytest.approx(0.3)
    assert assumed_mean_square(_layout(_NUMERIC), 0.9) == 0
    ball = _layout(_BALL, row_norm={})
    assert assumed_mean_square(ball, 0.4) == pytest.approx(0.3)
    assert assumed_mean_square(_layout(_BALL, row_norm={"include_sums": False}), 0.4) == 0


def test_no_table_has_more_variance_than_the_largest() -> None:
    assert largest_total_variance(_layout(_NUMERIC + _BINARY)) == pytest.approx(2.0)
    assert largest_total_variance(_layout(_CATEGORICAL)) == pytest.approx(0.75)
    assert largest_total_variance(_layout(_BALL, row_norm={})) == 1


@pytest.mark.parametrize(("law", "scale"), [(GaussianLaw, 150.0), (LaplaceLaw, 150.0)])
def test_the_forecast_is_what_noise_does_to_a_table(law: Any, scale: float) -> None:
    """The same figure by another way: a fixed table of correlated rows, noise added to it."""
    layout = _layout(_NUMERIC + _BINARY)
    rng = np.random.default_rng(3)
    hidden = rng.standard_normal((4000, 2)) @ rng.standard_normal((2, 8))
    rows = np.clip(hidden + 0.7 * rng.standard_normal((4000, 8)), -2, 2) / 4
    rows[:, 4:] = np.where(rows[:, 4:] > 0.1, 0.5, -0.5)
    mean, covariance = rows.mean(axis=0), np.cov(rows.T, bias=True)
    eigenvalues = np.linalg.eigvalsh(covariance)[::-1]
    source = NoiseSource(
        rng, layout, law=law, width=_ONE * scale, owner_rows=[1000, 3000], own_means=False
    )
    rule = ComponentRule(count=2)
    captured = []
    for _ in range(200):
        drawn = source.draw()
        assert drawn.mean is not None
        noisy = covariance + drawn.linear(mean) - np.outer(drawn.mean, drawn.mean)
        found = decompose(noisy)
        kept = found.vectors[: count_components(found.eigenvalues, rule, noise_edge=0)]
        captured.append(np.einsum("ki,ij,kj->", kept, covariance, kept))
    measured = float(np.mean(captured)) / eigenvalues[:2].sum()
    simulation = _rehearsal(layout, list(eigenvalues), law=law, owner_rows=[1000, 3000])
    forecast = simulation.forecast(_ONE * scale, rule).captured
    assert 0.3 < measured < 0.95
    assert forecast == pytest.approx(measured, abs=0.05)


def test_a_noised_number_of_rows_widens_the_edge_by_its_weight() -> None:
    public = _rehearsal(_layout(_BINARY), [0.1, 0.1])
    noised = _rehearsal(_layout(_BINARY, neighbours="added", max_rows_per_person=1), [0.1, 0.1])
    own = _rehearsal(
        _layout(_BINARY, neighbours="added", max_rows_per_person=1, count_weight=0.25), [0.1, 0.1]
    )
    assert noised.unit_edge(1) == pytest.approx(noised.noise_edge(1))
    assert noised.unit_edge(1e9) < 0.95 * noised.unit_edge(1)
    assert noised.unit_edge(1e9) == pytest.approx(public.noise_edge(1), rel=0.2)  # other draws
    assert noised.unit_edge(0.25) == pytest.approx(own.noise_edge(1))
    assert noised.unit_edge(0.25) > 1.15 * noised.unit_edge(1)
    captured = [each.forecast(3e7, ComponentRule(count=1)).captured for each in (own, noised)]
    assert captured[0] < captured[1]
