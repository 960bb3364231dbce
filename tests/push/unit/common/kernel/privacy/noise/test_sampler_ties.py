"""Decisions of the samplers on uniform numbers that follow a bound for as long as one likes.

The digits of an irrational bound leave a comparison open; the digits that come then decide it. No
random bits would ever get there, so that these come from a script. The bounds are computed in
decimal arithmetic, by another method than the sampler's.
"""

import numpy as np
import pytest

from dppca.common.kernel.privacy.noise._exact import is_below_exp
from dppca.common.kernel.privacy.noise._log_concave import LogConcaveLaw
from dppca.common.kernel.privacy.noise._rejection import RejectionEnvelope, build_envelope
from tests.support.noise import ScriptedEntropy, digits_of_cell_end, digits_of_exp

HARD = [
    (LogConcaveLaw(linear=1, quadratic=0, denominator=1000), 4),
    (LogConcaveLaw(linear=1, quadratic=0, denominator=42_000_000), 20),
    (LogConcaveLaw(linear=1, quadratic=0, denominator=2**50), 45),
    (LogConcaveLaw(linear=0, quadratic=1, denominator=2 * 10**6), 4),
    (LogConcaveLaw(linear=0, quadratic=1, denominator=2 * 3**50), 34),
    (LogConcaveLaw(linear=0, quadratic=1, denominator=2**91), 40),
]
hard = pytest.mark.parametrize(("decay", "shift"), HARD)


@pytest.mark.parametrize("depth_bytes", [4, 8, 40])
@pytest.mark.parametrize(("numerator", "denominator"), [(1, 3), (1, 10**30), (7, 2), (50, 1)])
def test_uniform_that_follows_the_bound_is_settled_where_it_leaves_it(
    numerator: int, denominator: int, depth_bytes: int
) -> None:
    digits = digits_of_exp(numerator, denominator, 32 + 8 * depth_bytes)

    for step, expected in ((0, True), (1, False)):
        word, rest = _split(digits + step, depth_bytes)
        # The last digits may still be shared by the bound and the uniform: what follows is all 0.
        entropy = ScriptedEntropy(rest + bytes(8))
        assert (
            is_below_exp(
                word, bits=32, numerator=numerator, denominator=denominator, entropy=entropy
            )
            is expected
        )
        assert len(entropy.rest) <= 8


@hard
@pytest.mark.parametrize("depth_bytes", [4, 8, 40])
def test_acceptance_is_exact_at_the_bound(
    decay: LogConcaveLaw, shift: int, depth_bytes: int
) -> None:
    histogram = build_envelope(decay, shift)
    for cell in (0, 1, 17, 300, 5000):
        for offset in ((1 << shift) // 3, (1 << shift) - 1):
            increase = decay.increase(cell << shift, offset)
            digits = digits_of_exp(increase, decay.denominator, 32 + 8 * depth_bytes)
            below = _accepted(histogram, digits, depth_bytes, cell=cell, offset=offset)
            above = _accepted(histogram, digits + 1, depth_bytes, cell=cell, offset=offset)
            assert (below, above) == (True, False)


@hard
@pytest.mark.parametrize("depth_bytes", [4, 12])
def test_cell_is_exact_at_its_end(decay: LogConcaveLaw, shift: int, depth_bytes: int) -> None:
    histogram = build_envelope(decay, shift)
    for cell in (0, 1, 17, 150):
        digits = digits_of_cell_end(decay, shift, cell, 32 + 8 * depth_bytes)
        assert _cell(histogram, digits, depth_bytes) == cell
        assert _cell(histogram, digits + 1, depth_bytes) == cell + 1


@hard
def test_cell_beyond_the_tables_is_found(decay: LogConcaveLaw, shift: int) -> None:
    histogram = build_envelope(decay, shift)
    # All ones for 64 bits, then zeros: a probability of 2^-64 is left beyond this point.
    ones = ScriptedEntropy(b"\xff" * 4 + bytes(4))
    words = np.array([2**32 - 1], dtype=np.uint32)

    cell = int(histogram.cells(words, entropy=ones)[0])

    assert digits_of_cell_end(decay, shift, cell - 1, 200) < (2**64 - 1) << 136
    assert digits_of_cell_end(decay, shift, cell, 200) >= (2**64 - 1) << 136
    assert cell > 0.6 * len(histogram.upper)


def _accepted(
    histogram: RejectionEnvelope, digits: int, depth_bytes: int, *, cell: int, offset: int
) -> bool:
    word, rest = _split(digits, depth_bytes)
    accepted = histogram.accept(
        np.array([word], dtype=np.uint32),
        cells=np.array([cell]),
        offsets=np.array([offset], dtype=np.uint64),
        entropy=ScriptedEntropy(rest + bytes(8)),
    )
    return bool(accepted[0])


def _cell(histogram: RejectionEnvelope, digits: int, depth_bytes: int) -> int:
    word, rest = _split(digits, depth_bytes)
    words = np.array([word], dtype=np.uint32)
    return int(histogram.cells(words, entropy=ScriptedEntropy(rest + bytes(8)))[0])


def _split(digits: int, depth_bytes: int) -> tuple[int, bytes]:
    rest_bits = 8 * depth_bytes
    return digits >> rest_bits, (digits & ((1 << rest_bits) - 1)).to_bytes(depth_bytes, "big")
