"""Roots are SciPy's, bit for bit."""

from collections.abc import Callable
from math import exp, inf, tanh

import numpy as np
import pytest
from scipy.optimize import brentq

from dppca.common.analysis.roots import find_root

Shape = Callable[[float, float, float], float]
SHAPES: dict[str, Shape] = {
    "cubic": lambda x, a, b: a * x**3 + b * x + 0.3,
    "saturated": lambda x, a, b: tanh(a * x) + b / 10,
    "steep": lambda x, a, b: exp(min(50.0, a * x)) - abs(b) - 0.1,
    "kinked": lambda x, a, b: a * (x - b) if x < b else 3 * a * (x - b),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_root_is_that_of_scipy(shape: str) -> None:
    rng, found = np.random.default_rng(3), 0
    for _ in range(500):
        a, b = (rng.normal(size=2) * 10 ** rng.uniform(-2, 2)).tolist()
        low, high = np.sort(10 * rng.normal(size=2)).tolist()
        within = float(rng.choice([1e-14, 2e-12, 1e-3]))

        def value(x: float, a: float = a, b: float = b) -> float:
            return SHAPES[shape](x, a, b)

        if value(low) * value(high) >= 0:
            continue
        found += 1
        assert find_root(value, low, high, within=within) == brentq(value, low, high, xtol=within)
    assert found > 50


def test_a_root_at_an_end_is_found() -> None:
    assert find_root(lambda x: x - 1, 1.0, 3.0) == 1.0
    assert find_root(lambda x: x - 3, 1.0, 3.0) == 3.0


def test_a_function_without_a_root_there_is_refused() -> None:
    with pytest.raises(ValueError, match="change of sign"):
        find_root(lambda x: x * x + 1, -1.0, 1.0)
    with pytest.raises(ValueError, match="no root after"):
        find_root(lambda x: 1.0 if x > 0 else -1.0, -1e300, inf)
