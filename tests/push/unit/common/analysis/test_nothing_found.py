"""A result in which nothing stands above the noise says so first, and what would have helped."""

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.analysis.nothing_found import nothing_found
from tests.support.examples import examples

EDGES = st.floats(1e-6, 1e6)


def test_one_component_above_the_edge_is_something() -> None:
    assert nothing_found([0.3, 0.1, -0.1], 0.2, "1") is None
    assert nothing_found([], 0.2, "1") is None  # a study of counts has no components


def test_what_was_spent_and_what_is_missing_is_said() -> None:
    said = nothing_found([0.19, 0.01, 0.0], 0.2, "0.25")
    assert said == (
        "Nothing was found: all 3 components may be noise. ε 0.25 is spent. A component with 1/2 "
        "of the variance would have needed some 2.0 times as many rows, or as much ε, or fewer "
        "attributes, or `trust: aggregate`: `dppca-curator plan` says how many."
    )
    assert "ε" not in str(nothing_found([0.1], 0.2, None)).split("A component")[0]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), EDGES)
@settings(max_examples=examples(200))
def test_with_as_many_rows_more_the_component_would_stand_at_the_edge(
    shares: list[float], edge: float
) -> None:
    values = [share * edge for share in shares]
    said = nothing_found(values, edge, "1")
    assert said is not None
    found = re.search(r"1/(\d+) of the variance would have needed some ([\d.]+) times", said)
    if found is None:
        variance = sum(values)
        assert variance <= 0 or edge * 100 / variance <= 1 or edge * 2 / variance == math.inf
    else:
        part, times = int(found[1]), float(found[2])
        assert times >= 1
        assert sum(values) / part == pytest.approx(edge / times, rel=0.06)
