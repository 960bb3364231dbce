"""Forecasts of two-way tables, against noise that is drawn and taken to the nearest shares."""

from itertools import pairwise
from math import hypot, pi, sqrt
from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.table_forecast import forecast_tables, noised_variation
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.schema.layout import Layout

NUMERIC = {"type": "numeric", "lower": 0, "upper": 1}
BINARY = {"type": "binary", "values": [0, 1]}
LABELS = {"type": "categorical", "categories": list("uvwx")}


def layout(*attributes: dict[str, Any], **settings: Any) -> Layout:
    named = [{"name": f"x{index}", **each} for index, each in enumerate(attributes)]
    return Schema.from_document({"attributes": named, **settings}).layout


def nearest_shares(noised: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    """The nearest point of the simplex, by sorting (Held, Wolfe and Crowder 1974)."""
    falling = np.sort(noised)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(noised) + 1)
    return np.maximum(noised - excess[falling > excess][-1], 0)


@pytest.mark.parametrize("noise", [0.05, 0.5, 2.0, 20.0])
def test_noised_shares_are_as_far_off_as_the_nearest_shares_are(noise: float) -> None:
    n_cells = 20_000
    drawn = np.random.default_rng(1).standard_normal(n_cells)
    found = np.abs(nearest_shares((1 + noise * drawn) / n_cells) - 1 / n_cells).sum() / 2
    assert noised_variation(noise) == pytest.approx(found, rel=0.03)


def test_more_noise_puts_tables_further_off_and_never_further_than_one() -> None:
    found = [noised_variation(noise) for noise in [0, *np.geomspace(1e-9, 1e9, 200)]]
    assert found[0] == 0
    assert all(0 <= a <= b <= 1 for a, b in pairwise(found))
    assert found[-1] > 0.99
    assert noised_variation(1e-3) == pytest.approx(1e-3 / sqrt(2 * pi), rel=1e-3)


def test_two_binaries_are_off_by_the_noise_of_their_product_and_of_their_sums() -> None:
    halves, ones = layout(BINARY, BINARY, sum_weight=0.5), layout(BINARY, BINARY)
    for found, weight in ((halves, 0.5), (ones, 1)):
        off = noised_variation(0.01 * hypot(4, 2 / weight, 2 / weight))
        assert forecast_tables(found, 0.01) == pytest.approx(off)


def test_the_mean_is_over_all_pairs_and_a_target_has_less_noise() -> None:
    plain = layout(LABELS, LABELS, NUMERIC, BINARY)
    parts = [
        forecast_tables(layout(a, b), 0.01)
        for a, b in (
            (LABELS, LABELS),
            *[(LABELS, NUMERIC), (LABELS, BINARY)] * 2,
            (NUMERIC, BINARY),
        )
    ]
    assert forecast_tables(plain, 0.01) == pytest.approx(np.mean([x for x in parts if x]))
    aimed = layout(LABELS, LABELS, NUMERIC, BINARY, targets=["x3"], sum_weight=1)
    known = layout(LABELS, LABELS, NUMERIC | {"histogram": True, "bins": 2}, BINARY)
    before = forecast_tables(plain, 0.01)
    assert before is not None
    for better in (aimed, known):
        after = forecast_tables(better, 0.01)
        assert after is not None
        assert after < before


def test_there_is_no_forecast_without_a_pair_or_of_rows_in_a_ball() -> None:
    ball = {"type": "numeric", "centre": 0, "scale": 1}
    assert forecast_tables(layout(LABELS), 0.1) is None
    assert forecast_tables(layout(ball, ball, row_norm={}), 0.1) is None
