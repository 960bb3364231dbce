"""Slopes of rivals: how they are judged, and what units guests give back."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.regressions import fit_rows
from benchmarks.rivals import page, regressions_guest
from benchmarks.rivals.regressions import ADDED, EPSILONS, MODELS, REPLACED, judge_slopes

Array = NDArray[np.float64]
SHAPE = len(MODELS), 3


def test_errors_are_from_the_rows_and_coverage_is_of_the_population() -> None:
    own = np.zeros((2, *SHAPE, 3))
    found = np.full((2, *SHAPE, 3), np.nan)
    found[0, :3], found[1, :3] = [3.0, -1, 7], [4.0, 1, 5]  # linear
    found[:, 3:, :, 0] = 2.0  # logistic: no interval, but for a half-line and a short one
    found[0, 3, 0], found[0, 3, 1] = [2.0, 1, np.inf], [2.0, 1, 2]
    found[1, 5] = np.nan
    judged = judge_slopes(found, np.full(SHAPE, 0.0) + [[3.0]] * 6, own)
    assert judged["error"] == {"linear": 3.5, "logistic": 2.0}
    assert judged["made"] == pytest.approx({"linear": 1, "logistic": 15 / 18})
    assert judged["given"] == pytest.approx({"linear": 1, "logistic": 2 / 18})
    assert judged["covers"] == {"linear": 1.0, "logistic": 0.5}
    assert judged["width"] == {"linear": 6.0, "logistic": 1.0}


def test_a_maker_without_intervals_has_no_coverage() -> None:
    found = np.zeros((2, *SHAPE, 3))
    found[..., 1:] = np.nan
    judged = judge_slopes(found, np.zeros(SHAPE), np.ones((2, *SHAPE, 3)))
    assert judged["error"] == {"linear": 1.0, "logistic": 1.0}
    assert judged["covers"] == judged["width"] == {}


class ExactFit:
    """Exact fits in the clothes of both libraries, with what each asks of its columns."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def fit(self, *given: Array) -> "ExactFit":
        X, y = sorted(given, key=lambda each: -each.ndim)
        assert np.abs(X).max() <= 1
        if "data_norm" in self.settings:
            assert np.linalg.norm(X, axis=1).max() <= self.settings["data_norm"] + 1e-9
        design = np.column_stack([np.ones(len(X)), X])
        if y.dtype == bool:
            self.params = fit_rows(design, y.astype(float))[0]
        else:
            assert np.abs(y).max() <= 1
            self.params = np.linalg.lstsq(design, y, rcond=None)[0]
        self.coef_ = self.params[1:] if y.dtype != bool else self.params[None, 1:]
        return self

    def conf_int(self) -> Array:
        return np.column_stack([self.params - 0.25, self.params + 0.5])


@pytest.mark.parametrize("logistic", [False, True])
def test_guests_give_slopes_and_what_ends_they_have(
    logistic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = SimpleNamespace(
        LinearRegression=ExactFit, LogisticRegression=ExactFit, DPOLS=ExactFit, DPLogit=ExactFit
    )
    for module in ("diffprivlib.models", "dp_statsmodels.models"):
        monkeypatch.setitem(sys.modules, module, fits)
    rng = np.random.default_rng(3)
    X = rng.choice([-1.0, -0.5, 0.2, 1.0], (500, 3))
    y = np.clip(X @ [0.2, -0.1, 0.3] + rng.normal(0, 0.1, 500), -1, 1)
    target = np.where(y > rng.normal(0, 0.3, 500), 1.0, -1.0) if logistic else y
    design = np.column_stack([np.ones(500), X])
    if logistic:
        exact = fit_rows(design, target > 0)[0][1:]
    else:
        exact = np.linalg.lstsq(design, target, rcond=None)[0][1:]
    plain = np.array(regressions_guest._diffprivlib(X, target, 1.0, 1e-9, 0, logistic))
    assert plain[:, 0] == pytest.approx(exact)
    assert np.isnan(plain[:, 1:]).all()
    ends = np.array(regressions_guest._dp_statsmodels(X, target, 1.0, 1e-9, 0, logistic))
    assert ends == pytest.approx(np.column_stack([exact, exact - 0.25, exact + 0.5]))


def test_a_line_has_error_coverage_and_width_of_each_kind() -> None:
    figures = {name: {"linear": [0.0461, 0.0]} for name in ("error", "covers", "width")}
    cell = {"contestant": "x", "neighbours": ADDED, "epsilon": "1", "seconds": [0.19, 0], **figures}
    cell["error"] = {**figures["error"], "logistic": [0.1, 0.0]}
    plain = {**cell, "contestant": "none", "neighbours": "", "epsilon": ""}
    machine = dict.fromkeys(("processor", "cores", "memory", "Python", "numpy"), "?")
    cells = [{**each, "faults": {}} for each in (cell, plain)]
    failed = {"contestant": "y", "neighbours": REPLACED, "epsilon": "3", "faults": {"no R": 3}}
    section = {"command": "x", "machine": machine, "cells": [*cells, failed]}
    text = page.section_text("regressions", section)
    first = "0.046; 0.05, 0.05 | 0.100; none"
    assert f"| x (added) | {first} | – | – | – | – | 0.2 |" in text
    assert f"| none | {' | '.join([first] * len(EPSILONS))} | 0.2 |" in text
    assert "- no R: y (3)." in text
