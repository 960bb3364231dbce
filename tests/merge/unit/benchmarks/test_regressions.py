"""The committed record of adjusted odds ratios, what the page says of it, and a small cell."""

import json
from typing import Any

import numpy as np
import pytest

from benchmarks import regressions
from benchmarks.regressions import EVIDENCE, MODELS, CoverageTrial, run_trial, summarise
from benchmarks.studies import ROOT, PublicData
from tests.support.studies import binary_of

FALSE_ALARMS = 0.0  # all noise has a seed
KEPT: list[dict[str, Any]] = json.loads(EVIDENCE.read_text())["cells"]
CELLS = [each for each in KEPT if each["asks"] == "logit"]
ROWS = {
    ("nltcs", "yes"): "| NLTCS, three related disabilities",
    ("nltcs", "no"): "| the same without a table",
    ("adult", "yes"): "| Adult, sex and two numbers in 80 cells",
    ("adult, 2 %", "yes"): "| Adult, an occupation of 2 %",
    ("mushrooms", "yes"): "| mushrooms, odds ratios to 90",
}


def _pooled(cells: list[dict[str, Any]]) -> tuple[float, int]:
    weights = [len(each["bias"]) * each["releases"] * each["given"] for each in cells]
    covered = sum(w * each["coverage"] for w, each in zip(weights, cells, strict=True))
    return covered / sum(weights), round(sum(weights))


def test_the_page_has_the_records_figures() -> None:
    page = (ROOT / "docs/reference/estimates.md").read_text()
    share, count = _pooled(CELLS)
    assert 0.94 <= share <= 0.98
    assert f"All {count:,} intervals: {share:.3f}".replace(" 0.", " .") in page
    for (model, table), start in ROWS.items():
        line = next(each for each in page.splitlines() if each.startswith(start))
        for epsilon in ("0.5", "3", "50"):
            own = [
                each
                for each in CELLS
                if (each["model"], each["table"], each["epsilon"]) == (model, table, epsilon)
            ]
            if own:
                assert f"{_pooled(own)[0]:.3f}".removeprefix("0") in line, (model, epsilon)


def test_every_cell_that_is_given_whole_covers() -> None:
    """80 intervals or more: .88 is three deviations below .95 (of independent intervals)."""
    assert {each["law"] for each in CELLS} == {"gaussian", "laplace", "matrix-laplace"}
    assert min(each["coverage"] for each in CELLS if each["releases"] >= 20) >= 0.88
    strong = [each for each in CELLS if each["epsilon"] == "50" and each["table"] == "yes"]
    assert max(width for each in strong for width in each["width"]) <= 1.05


def test_marginal_effects_of_the_record_cover() -> None:
    effects = [each for each in KEPT if each["asks"] == "marginal-effects"]
    assert [each["releases"] * each["given"] for each in effects] == [400, 400]
    assert min(each["coverage"] for each in effects) >= 0.94


def test_a_cell_is_that_of_a_small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("outside", *MODELS["nltcs"].regressors)
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 2, (400, 4))
    data = PublicData(
        "small", [binary_of(name, [0, 1]) for name in names], rows.astype(str).tolist(), 0.9, ""
    )
    monkeypatch.setattr(regressions, "read_data", lambda _: data)
    found = run_trial(CoverageTrial("nltcs", "yes", "gaussian", "10", 0), 3)
    cell = summarise([found])
    assert cell["releases"] == 3
    assert cell["given"] == 1
    assert len(cell["bias"]) == len(cell["width"]) == 4
    assert all(0.9 < width < 1.3 for width in cell["width"])
    moved = {**found, "truth": [each + 5 for each in found["truth"]]}
    assert summarise([moved])["coverage"] == 0
