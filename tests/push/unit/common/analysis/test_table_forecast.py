"""Forecasts of two-way tables, against noise that is drawn and taken to the nearest shares."""

from itertools import pairwise
from math import pi, sqrt
from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.table_forecast import (
    TableForecast,
    drawing_error,
    forecast_tables,
    noised_variation,
)
from dppca.common.kernel.schema import Schema

NUMERIC = {"type": "numeric", "lower": 0, "upper": 1}
BINARY = {"type": "binary", "values": [0, 1]}
LABELS = {"type": "categorical", "categories": list("uvwx")}


ROWS = 10_000


def schema(*attributes: dict[str, Any], **settings: Any) -> Schema:
    named = [{"name": f"x{index}", **each} for index, each in enumerate(attributes)]
    return Schema.from_document({"attributes": named, **settings})


def likely(*attributes: dict[str, Any], noise: float, rows: int = ROWS, **settings: Any) -> float:
    found = forecast_tables(schema(*attributes, **settings), noise, rows)
    assert found is not None
    assert 0 < found.low < found.likely < found.high <= 1
    return found.likely


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


def test_rows_that_are_drawn_into_even_cells_are_as_far_off_as_chance_says() -> None:
    drawn = np.random.default_rng(2).multinomial(ROWS, np.full(50, 0.02), size=400)
    off = np.abs(drawn / ROWS - 0.02).sum(axis=1).mean() / 2
    assert drawing_error(50, ROWS) == pytest.approx(off, rel=0.03)


def test_without_noise_labels_are_off_by_chance_alone_and_more_rows_help() -> None:
    few, many = (likely(LABELS, BINARY, noise=0, rows=rows) for rows in (ROWS, 100 * ROWS))
    assert few == pytest.approx(0.5 * drawing_error(4, ROWS), rel=0.2)
    assert many < 0.6 * few  # the fit of the rows is not exact


def test_the_mean_is_over_all_pairs() -> None:
    kinds = [LABELS, {**NUMERIC, "histogram": True}, BINARY]
    pairs = [(0, 1), (0, 2), (1, 2)]
    # A sum's noise, which products with other labels make smaller, is small beside these.
    found = [likely(kinds[a], kinds[b], noise=1e-4) for a, b in pairs]
    assert likely(*kinds, noise=1e-4) == pytest.approx(np.mean(found), rel=0.02)


@pytest.mark.parametrize("noise", [1e-3, 1e-2, 0.1])
def test_noise_puts_every_form_further_off_and_a_target_less(noise: float) -> None:
    for shape in ({}, {"histogram": True}, {"products": "bins", "bins": 20}):
        numeric = {**NUMERIC, **shape}
        before = likely(numeric, numeric, BINARY, noise=noise)
        assert likely(numeric, numeric, BINARY, noise=3 * noise) > before
        aimed = {"targets": ["x2"], "sum_weight": 1}
        assert likely(numeric, numeric, BINARY, noise=noise, **aimed) < before


def test_products_with_labels_tell_nothing_of_sums_where_the_noise_is_of_a_whole_release() -> None:
    for more, closer in ((LABELS, False), (BINARY, True)):
        table = schema(BINARY, BINARY, more, more, sum_weight=0.5)
        found = [forecast_tables(table, 0.01, ROWS, joint=joint) for joint in (False, True)]
        own, joint = (0.0 if each is None else each.likely for each in found)
        assert 0 < own < joint or (closer and own == pytest.approx(joint))


def test_what_a_form_leaves_out_decides_where_noise_is_small() -> None:
    plain, shape = [NUMERIC, NUMERIC], {**NUMERIC, "histogram": True}
    few, many = ({**NUMERIC, "products": "bins", "bins": count} for count in (8, 20))
    forms = [plain, [few, few], [shape, shape], [many, many]]
    off = [likely(*form, LABELS, noise=1e-4) for form in forms]
    assert off == sorted(off, reverse=True)
    counted = {"table": ["x0", "x1"], "cells": {"x0": 8, "x1": 8}}
    tables = {"tables": [counted]}
    assert likely(shape, shape, LABELS, noise=1e-4, **tables) < off[2]


def test_whole_numbers_in_wide_bins_are_further_off_since_they_come_in_heaps() -> None:
    wide = {**NUMERIC, "upper": 16, "products": "bins", "bins": 8}
    heaped = likely(wide | {"integer": True}, LABELS, noise=1e-4)
    assert heaped > likely(wide, LABELS, noise=1e-4)


def test_the_range_is_wider_where_nothing_tells_the_shape_of_a_numeric() -> None:
    told, vague = (
        forecast_tables(schema({**NUMERIC, **shape}, LABELS), 1e-3, ROWS)
        for shape in ({"histogram": True}, {})
    )
    assert told is not None
    assert vague is not None
    assert vague.high / vague.low > told.high / told.low


def test_forms_are_in_order_if_they_differ_and_noise_does_not_cover_them() -> None:
    near, far, further, lost = (TableForecast(x, x / 2, 2 * x) for x in (0.1, 0.105, 0.2, 0.5))
    assert further.is_above(near)
    assert not near.is_above(further)
    assert not far.is_above(near)
    assert not lost.is_above(near)


def test_there_is_no_forecast_without_a_pair_or_products_or_of_rows_in_a_ball() -> None:
    ball = {"type": "numeric", "centre": 0, "scale": 1}
    counted = {"only_tables": True, "tables": [{"table": ["x0", "x1"]}]}
    for alone in (
        schema(LABELS),
        schema(ball, ball, row_norm={}),
        schema(LABELS, BINARY, **counted),
    ):
        assert forecast_tables(alone, 0.1, ROWS) is None
