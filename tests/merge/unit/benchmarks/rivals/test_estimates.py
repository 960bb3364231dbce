"""Intervals of rivals: how they are judged, formulas for rows, and units that guests give back."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from benchmarks.rivals import estimates_guest, page
from benchmarks.rivals.estimates import (
    NAIVE,
    NONE,
    OURS,
    OWN,
    REPLACED,
    ROWS,
    SPREAD,
    IntervalMaker,
    classical_intervals,
    draw_places,
    judge_intervals,
    run_maker,
)

Array = NDArray[np.float64]
LOWER, UPPER = np.array([17.0, 1.0, 0.0, 1.0]), np.array([90.0, 16.0, 1.0, 99.0])


@pytest.fixture
def people() -> Array:
    """Ages, years of education, sexes and hours within the bounds, shape (400, 4)."""
    rng = np.random.default_rng(42)
    ages, years = rng.integers(17, 91, 400), rng.integers(1, 17, 400)
    male = rng.random(400) < 0.6
    hours = 20 + 0.1 * ages + 0.5 * years + 6 * male + rng.normal(0, 5, 400)
    return np.column_stack([ages, years, male, hours]).astype(float)


def test_formulas_for_rows_are_those_of_statsmodels_and_scipy(people: Array) -> None:
    sm = pytest.importorskip("statsmodels.api")
    male, hours = people.T[2:]
    found = classical_intervals(people)
    fit = sm.OLS(hours, sm.add_constant(people[:, :3])).fit(use_t=False)
    assert found[2:, 0] == pytest.approx(fit.params[1:3])
    assert found[2:, 1:] == pytest.approx(fit.conf_int()[1:3], rel=1e-6)
    welch = stats.ttest_ind(hours[male == 1], hours[male == 0], equal_var=False)
    assert found[1, 0] / (np.ptp(found[1, 1:]) / 3.919928) == pytest.approx(welch.statistic)
    assert found[0, 1:] == pytest.approx(stats.norm.interval(0.95, hours.mean(), stats.sem(hours)))


def test_coverage_width_and_error_are_of_the_intervals_that_are_given() -> None:
    none = [np.nan] * 3
    found = np.array(
        [
            [[1, 0, 2], none, [5, np.nan, np.nan], [1, 0, 1]],
            [[4, 3, 5], none, [7, np.nan, np.nan], none],
            [[2, 0, 6], [3, 3, 3], [8, np.nan, np.nan], none],
        ]
    )
    own = np.array([[2.0, 0, 0, 2], [2, 0, 0, 2], [2, 0, 0, 2]])
    judged = judge_intervals(found, np.array([1.0, 3.0, 4.0, 0.5]), own)
    assert judged["given"] == pytest.approx(
        {"mean": 1, "difference": 1 / 3, "age": 0, "education": 1 / 3}
    )
    assert judged["covers"] == pytest.approx({"mean": 2 / 3, "difference": 1, "education": 1})
    assert judged["covers_rows"] == pytest.approx({"mean": 2 / 3, "difference": 0, "education": 0})
    assert judged["width"] == {"mean": 2, "difference": 0, "education": 1}
    assert judged["needed"] == pytest.approx(
        {"mean": SPREAD, "difference": 0, "age": 3 * SPREAD, "education": SPREAD / 2}
    )


def test_the_width_that_is_needed_is_that_of_a_normal_laws_interval() -> None:
    errors = np.random.default_rng(1).normal(0, 2, (40_000, 1, 3)).repeat(4, axis=1)
    judged = judge_intervals(errors, np.zeros(4), np.zeros((40_000, 4)))
    # The median of 40,000 has a deviation of 0.8 %, so five of them.
    assert judged["needed"]["mean"] == pytest.approx(2 * 1.96 * 2, rel=0.04)


def test_releases_are_of_rows_that_depend_on_the_seed_alone() -> None:
    first = draw_places((0, 1))
    assert len(first) == ROWS
    assert (first == draw_places((0, 1))).all()
    assert not (first == draw_places((1, 0))).all()


def test_hardly_any_noise_gives_the_classical_interval() -> None:
    seeds = [(7, 0)]
    plain = run_maker(IntervalMaker(NONE, ""), "", seeds)
    for name in (OURS, NAIVE):
        found = run_maker(IntervalMaker(name, REPLACED), "1000", seeds)
        assert found["given"] == plain["given"]
        # Rows of the field differ by their own drawing.
        for question, wide in plain["width"].items():
            assert found["width"][question] == pytest.approx(wide, rel=0.1)
    own = run_maker(IntervalMaker(OWN, REPLACED), "1000", seeds)
    assert all(own["width"][each] < wide / 2 for each, wide in plain["width"].items())


class ExactFit:
    """An exact regression in the clothes of the two libraries."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def fit(self, *given: Array) -> "ExactFit":
        X, y = sorted(given, key=lambda each: -each.ndim)
        for column, low, high in zip(X.T, *self._bounds("bounds_X", X.shape[1]), strict=True):
            assert low <= column.min() <= column.max() <= high
        (low,), (high,) = self._bounds("bounds_y", 1)
        assert low <= y.min() <= y.max() <= high
        self.params = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y, rcond=None)[0]
        self.coef_ = self.params[1:]
        return self

    def conf_int(self) -> Array:
        return np.column_stack([self.params - 0.01, self.params + 0.01])

    def _bounds(self, name: str, count: int) -> Any:
        return (np.broadcast_to(each, count) for each in self.settings[name])


@pytest.mark.parametrize(
    ("module", "kind", "make"),
    [
        ("dp_statsmodels.models.ols", "DPOLS", estimates_guest._dp_statsmodels),
        ("diffprivlib.models", "LinearRegression", estimates_guest._diffprivlib),
    ],
)
def test_slopes_of_a_guest_are_in_the_units_of_the_columns(
    module: str, kind: str, make: Any, people: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{kind: ExactFit}))
    found = np.array(make(people, LOWER, UPPER, 1.0, 1e-9, 0))
    assert np.isnan(found[0]).all()
    assert found[1:, 0] == pytest.approx(classical_intervals(people)[1:, 0])
    if kind == "DPOLS":
        assert np.ptp(found[2, 1:]) == pytest.approx(0.02 * 49 / 36.5)
        assert np.ptp(found[1, 1:]) == pytest.approx(0.02 * 49 / 0.5)
    else:
        assert np.isnan(found[:, 1:]).all()


def test_a_line_shows_coverage_and_width_or_the_width_that_is_needed() -> None:
    cell = {
        "contestant": "x",
        "neighbours": REPLACED,
        "epsilon": "1",
        "covers": {"mean": [0.951, 0.01]},
        "covers_rows": {"mean": [0.5, 0.01]},
        "width": {"mean": [1.234, 0.0]},
        "needed": {"mean": [1.0, 0.0], "age": [0.5, 0.0]},
        "seconds": [0.071, 0.0],
        "faults": {},
    }
    machine = dict.fromkeys(("processor", "cores", "memory", "Python", "numpy"), "?")
    section = {"command": "x", "machine": machine, "cells": [cell, {**cell, "contestant": OWN}]}
    text = page.section_text("estimates", section)
    assert "| x | 0.95, 1.23 | – | none, 0.50 | 1 | 0.07 |" in text
    assert f"| {OWN} | 0.50, 1.23 | – |" in text
