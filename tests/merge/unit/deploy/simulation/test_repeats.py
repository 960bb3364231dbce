"""Means and standard errors over repeats."""

from __future__ import annotations

from typing import Any

import pytest

from dppca.deploy.simulation.repeats import summarise_repeats


def report(seed: int, accuracy: float | None, captured: float) -> Any:
    figures = ("trtr_accuracy", "tstr_accuracy", "tstr_accuracy_decoded", "majority")
    return {
        "seed": seed,
        "components": {"count": 2, "above_noise": 1, "captured_variance": captured},
        "pairs": {"mean": 0.1},
        "utility": None if accuracy is None else dict.fromkeys(figures, accuracy),
        "owners": [{"name": "clinic", "dppca_svm_accuracy": accuracy}],
    }


def test_the_standard_error_is_that_of_the_mean() -> None:
    reports = [report(1, 0.7, 0.9), report(2, 0.8, 0.8), report(3, 0.9, 1.0)]
    found = summarise_repeats(reports)
    assert (found["count"], found["seeds"]) == (3, [1, 2, 3])
    figures = found["figures"]
    assert figures["utility.tstr_accuracy"]["mean"] == pytest.approx(0.8)
    assert figures["utility.tstr_accuracy"]["standard_error"] == pytest.approx(0.1 / 3**0.5)
    assert figures["clinic.dppca_svm_accuracy"]["mean"] == pytest.approx(0.8)
    assert figures["pairs.mean"]["standard_error"] == pytest.approx(0)


def test_without_a_target_there_are_no_accuracies() -> None:
    figures = summarise_repeats([report(1, None, 0.9), report(2, None, 0.7)])["figures"]
    assert set(figures) == {
        "components.count",
        "components.above_noise",
        "components.captured_variance",
        "pairs.mean",
    }
