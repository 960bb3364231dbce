"""Tests that judge randomness say how often they fail where nothing is wrong.

Each such module has a number ``FALSE_ALARMS``: the probability that one run of all its tests fails
though nothing is wrong, zero where all that is random has a seed. The sum of a tier is bounded.
"""

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tools.syntax import parse

MOST = 1e-4
"""Of one run of a tier: less than one in ten thousand runs."""
JUDGES = re.compile(
    r"pvalue|beta\.ppf|binomtest|\bdkw\b|audit_noise|audit_shares|false alarm"
    r"|(?:tstr|svm)_accuracy\w*\"?\] *[<>]",
    re.IGNORECASE,
)
"""Signs that a test judges what is random."""


def stated(path: Path) -> ast.expr | None:
    """What a module says its rate is, as an expression."""
    for node in parse(path).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="FALSE_ALARMS")], value=value):
                return value
    return None


@cache
def rates(tier: str) -> dict[str, float]:
    """What the modules of a tier state, by path; a module that computes its rate is imported."""
    found = {}
    for path in sorted((ROOT / "tests" / tier).rglob("test_*.py")):
        match stated(path):
            case None:
                continue
            case ast.Constant(value=float(rate)):
                pass
            case _:
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                rate = float(import_module(name).FALSE_ALARMS)
        found[str(path.relative_to(ROOT))] = rate
    return found


@pytest.mark.parametrize("tier", ["push", "merge", "night"])
def test_the_rates_of_a_tier_add_up_to_less_than_one_in_ten_thousand_runs(tier: str) -> None:
    found = rates(tier)
    assert found
    assert all(rate >= 0 for rate in found.values())
    assert sum(found.values()) < MOST, found


@pytest.mark.parametrize("tier", ["push", "merge", "night"])
def test_a_rate_that_is_not_zero_is_explained(tier: str) -> None:
    for path, rate in rates(tier).items():
        said = ast.get_docstring(parse(ROOT / path)) or ""
        assert rate == 0 or "False alarms:" in said, path


def test_every_module_that_judges_randomness_states_its_rate() -> None:
    judging = {
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__) and JUDGES.search(path.read_text())
    }
    assert len(judging) > 15
    silent = {str(path.relative_to(ROOT)) for path in judging if stated(path) is None}
    assert silent == set()
