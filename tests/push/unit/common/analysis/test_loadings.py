"""Loadings are the components' own entries, each under its attribute and label."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.loadings import (
    KeptComponent,
    Loading,
    column_labels,
    component_lines,
    largest_loadings,
)
from dppca.common.verification.components import kept_components
from tests.support.studies import make_schema, make_study, numeric_of

STUDY = make_study("latent")
SCHEMA = STUDY.table
VECTORS = np.array(
    [
        [0.1, -0.7, 0.0, 0.0, 0.6, 0.0, 0.0, -0.4],
        [0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0],
    ]
)


def test_every_column_has_its_attribute_and_the_label_of_its_larger_value() -> None:
    assert column_labels(SCHEMA) == (
        *((f"x{i}", None) for i in range(4)),
        ("ill", "yes"),
        *(("colour", label) for label in ("red", "green", "blue")),
    )


def test_loadings_come_by_size_and_zeros_are_left_out() -> None:
    first, second = largest_loadings(SCHEMA, VECTORS)
    assert first == (
        Loading("x1", None, -0.7),
        Loading("ill", "yes", 0.6),
        Loading("colour", "blue", -0.4),
        Loading("x0", None, 0.1),
    )
    assert [each.name for each in second] == ["x0", "x1", "x2", "x3"], "equal ones in their order"
    assert [each.name for each in largest_loadings(SCHEMA, VECTORS, most=2)[0]] == ["x1", "ill=yes"]


def test_lines_say_which_components_noise_could_have_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dppca.common.verification.components.find_mixtures", lambda _: [(), ()])
    result: Any = SimpleNamespace(
        vectors=VECTORS,
        eigenvalues=np.array([0.5, 0.1, 0.0]),
        header=SimpleNamespace(noise_edge=0.2),
    )
    figures = kept_components(result, STUDY)
    assert [each.above_noise for each in figures] == [True, False]
    assert [round(each.share, 3) for each in figures] == [0.833, 0.167]
    assert component_lines(figures, details=False) == [
        "component 1: eigenvalue 0.5",
        "  -0.700  x1",
        "  +0.600  ill=yes",
        "  -0.400  colour=blue",
        "  +0.100  x0",
        "and 1 that noise alone can make (--details shows them)",
    ]
    many = component_lines(figures * 6, details=True)
    assert "component 2: eigenvalue 0.1, NOT above the noise edge" in many
    assert sum(line.startswith("component") for line in many) == 10
    assert many[-1] == "and 2 more components"


@pytest.mark.parametrize(
    ("loadings", "said"),
    [
        (
            {"age": 0.7, "pay": 0.6, "work": -0.3, "x": 0.2},
            "age and pay rise together; work falls.",
        ),
        ({"age": 0.7, "a": -0.5, "b": -0.4}, "age rises; a and b fall."),
        ({"a": 0.6, "b": 0.5, "c": 0.4}, "a, b and c rise together."),
        ({"a": -0.6, "b": -0.5}, "a and b rise together."),
        ({"age": 0.9, "x": -0.2}, "age varies, and no other loading is above 0.2."),
        ({"a": 0.2, "b": -0.1}, "no loading is above 0.2; many columns have a small part in it."),
        ({}, "no loading is above 0.2; many columns have a small part in it."),
    ],
)
def test_large_loadings_are_said_in_words(loadings: dict[str, float], said: str) -> None:
    each = tuple(Loading(name, None, value) for name, value in loadings.items())
    assert KeptComponent(1.0, 0.5, above_noise=True, loadings=each).meaning == said
    noisy = KeptComponent(1.0, 0.5, above_noise=False, loadings=each)
    assert noisy.meaning == "noise alone can make it, so its loadings say nothing."


def test_each_bin_that_enters_products_has_a_loading() -> None:
    age = numeric_of("age", 0, 9, bins=2)
    other = numeric_of("x", 0, 1)
    age |= {"spikes": [0, 4.5], "products": "bins"}
    labels = column_labels(make_schema([age, other]))
    names = ("bin 1", "bin 2", "0", "4.5")
    assert labels == (*(("age", name) for name in names), ("x", None))
