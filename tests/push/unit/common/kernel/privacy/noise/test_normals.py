"""Exact normal numbers: their law, their digits, and decisions that 32 bits leave open."""

import math

import numpy as np
import pytest
from scipy.stats import kstest, norm

from dppca.common.kernel.privacy.noise import normals
from dppca.common.kernel.privacy.noise._rejection import RejectionEnvelope
from dppca.common.kernel.privacy.noise.entropy import EntropySource, SeededEntropy
from dppca.common.kernel.privacy.noise.normals import _Fractions, _one_pass, exact_normals, refine
from dppca.common.kernel.privacy.noise.sampler import Magnitudes
from tests.support.noise import ScriptedEntropy, digits_of_exp

FALSE_ALARMS = 0.0  # all draws have seeds


def test_draws_have_the_normal_law_with_either_sign() -> None:
    drawn = exact_normals(400_000, entropy=SeededEntropy(11))

    magnitudes = drawn.whole + np.ldexp(drawn.digits[0].astype(float), -64)
    assert kstest(np.where(drawn.negative, -magnitudes, magnitudes), "norm").pvalue > 1e-4


@pytest.mark.parametrize("cell", range(9))
def test_each_cell_of_magnitudes_has_the_normal_law(
    monkeypatch: pytest.MonkeyPatch, cell: int
) -> None:
    proposed = 20_000

    def of_one_cell(
        histogram: RejectionEnvelope, count: int, *, entropy: EntropySource
    ) -> Magnitudes:
        del entropy
        # The histogram that is asked has P(k) ~ exp(-k^2 / 2), cell by cell.
        weights = [math.exp(-(k**2) / 2) for k in range(12)]
        end = sum(weights[: cell + 1]) / sum(weights) * 2**32
        assert histogram.shift == 0
        assert histogram.lower[cell] == pytest.approx(end, abs=2)
        assert histogram.upper[cell] == pytest.approx(end, abs=2)
        nothing = np.zeros(count, np.uint64)
        return Magnitudes(np.full(count, cell), nothing, np.ones(count, np.bool_), nothing)

    monkeypatch.setattr(normals, "propose_magnitudes", of_one_cell)
    kept = _one_pass(proposed, entropy=SeededEntropy(20 + cell))

    u = np.ldexp(kept.digits[0].astype(float), -64)
    mass = norm.sf(cell) - norm.sf(cell + 1)
    # Each is kept with probability exp(-u^2 / 2 - k u): on average the cell's mass over its P(k).
    chance = mass / (norm.pdf(cell))
    assert u.size == pytest.approx(proposed * chance, abs=4 * math.sqrt(proposed * chance))
    assert (kept.whole == cell).all()
    assert kstest(u, lambda x: (norm.sf(cell) - norm.sf(cell + x)) / mass).pvalue > 1e-4


def test_far_magnitudes_are_as_frequent_as_they_must_be_with_either_sign() -> None:
    drawn = exact_normals(400_000, entropy=SeededEntropy(12))

    for cell in (2, 3, 4):
        here = drawn.whole == cell
        expected = 400_000 * 2 * (norm.sf(cell) - norm.sf(cell + 1))
        assert here.sum() == pytest.approx(expected, abs=4 * math.sqrt(expected))
        negative = (here & drawn.negative).sum()
        assert negative == pytest.approx(expected / 2, abs=4 * math.sqrt(expected / 2))


def test_magnitude_is_kept_by_one_comparison_with_u_squared_and_one_with_u_for_each_unit() -> None:
    # u = 1/2: exp(-u^2 / 2) = 0.88 and exp(-u) = 0.61. The words for k = 3 lie below 0.99981.
    low, between, high = (_words(4, int(each * 2**32)) for each in (0.5, 0.7, 0.95))
    script = bytes(5 * 8) + 5 * _words(4, int(0.998 * 2**32)) + 5 * _words(8, 2**63)
    script += between + high + between * 3  # the second is rejected
    script += low + between + low * 2  # the third
    script += low + between + low  # the fourth
    script += low + between  # the fifth
    entropy = ScriptedEntropy(script)

    kept = _one_pass(5, entropy=entropy)

    assert kept.whole.tolist() == [3]
    assert entropy.rest == b""


def test_sign_is_a_bit_of_its_own() -> None:
    # Signs are the last bits of the first words, u is all of others: here with every pair of bits.
    signs, fractions = [0, 1, 2**64 - 2, 2**64 - 1], [2**62, 2**61 + 2, 3, 5]
    script = _words(8, *signs) + bytes(4 * 4) + _words(8, *fractions) + bytes(4 * 4)
    entropy = ScriptedEntropy(script)

    drawn = _one_pass(4, entropy=entropy)

    assert drawn.negative.tolist() == [False, True, False, True]
    assert drawn.whole.tolist() == [0, 0, 0, 0]
    assert drawn.digits.tolist() == [fractions]
    assert entropy.rest == b""


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


def _words(size: int, *values: int) -> bytes:
    return b"".join(value.to_bytes(size, "little") for value in values)
