"""Exact normal numbers: their law, their digits, and decisions that 32 bits leave open."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.noise.normals import _Fractions, exact_normals, refine
from tests.support.noise import ScriptedEntropy, digits_of_exp

FALSE_ALARMS = 0.0  # all draws have seeds


def test_draws_have_the_normal_law_with_either_sign() -> None:
    drawn = exact_normals(400_000, entropy=SeededEntropy(11))

    magnitudes = drawn.whole + np.ldexp(drawn.digits[0].astype(float), -64)
    assert kstest(np.where(drawn.negative, -magnitudes, magnitudes), "norm").pvalue > 1e-4


@pytest.mark.parametrize("count", [0, 1, 70_001])
def test_as_many_are_drawn_as_asked_for(count: int) -> None:
    drawn = exact_normals(count, entropy=SeededEntropy(2))

    assert drawn.negative.shape == drawn.whole.shape == drawn.digits.shape[1:] == (count,)


def test_more_digits_continue_the_same_numbers() -> None:
    drawn = exact_normals(100, entropy=SeededEntropy(3))

    longer = refine(drawn, 3, entropy=SeededEntropy(4))

    assert longer.digits.shape == (3, 100)
    np.testing.assert_array_equal(longer.digits[0], drawn.digits[0])
    assert len(np.unique(longer.digits[1:])) == 200
    assert refine(longer, 2, entropy=ScriptedEntropy(b"")) is longer


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("fraction", [2**60, 2**63, 3 * 2**62, 2**64 - 1])
def test_open_comparison_is_decided_by_further_digits(
    fraction: int, below: bool, squared: bool
) -> None:
    # u = fraction / 2^64 and zeros; V agrees with exp(-t) in 128 bits, then lies on one side.
    numerator, denominator = (fraction**2, 2 * 4**64) if squared else (fraction, 2**64)
    bits = 128
    wanted = digits_of_exp(numerator, denominator, bits) + (-2 if below else 2)
    first, rest = wanted >> 96, wanted & (2**96 - 1)
    later = [(rest >> 32 * place & (2**32 - 1)).to_bytes(4, "big") for place in (2, 1, 0)]
    script = fraction.to_bytes(8, "little") + first.to_bytes(4, "little")
    # 64 bits of V leave it open, so the third word comes after one more word of u.
    script += later[0] + later[1] + bytes(8) + later[2] + bytes(64)
    fractions = _Fractions(1, entropy=ScriptedEntropy(script))

    decided = fractions.is_below(np.array([0]), squared=squared)

    assert decided.tolist() == [below]
    assert fractions.digits.shape[0] > 1
    assert math.isclose(first / 2**32, math.exp(-numerator / denominator), abs_tol=1e-9)
