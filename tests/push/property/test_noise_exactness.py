"""Laws of the samplers' decisions: what is decided fast is what exact arithmetic decides."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.privacy.noise._exact import enclose_exp
from dppca.common.kernel.privacy.noise._log_concave import LogConcaveLaw, enclose_cell_ends
from dppca.common.kernel.privacy.noise._rejection import RejectionEnvelope, build_envelope
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.noise.sampler import discrete_gaussian, discrete_laplace
from tests.support.examples import examples
from tests.support.noise import ScriptedEntropy, digits_of_cell_end, digits_of_exp

WORD = 2**32


@st.composite
def envelopes(draw: st.DrawFn) -> RejectionEnvelope:
    """Histograms of cells between 1/64 and 1/32 of the width, as the samplers ask for them."""
    if draw(st.booleans()):
        width = draw(st.integers(1, 2**62))
        decay = LogConcaveLaw(linear=1, quadratic=0, denominator=width)
    else:
        sigma_squared = draw(st.integers(1, 2**124))
        width = math.isqrt(sigma_squared)
        decay = LogConcaveLaw(linear=0, quadratic=1, denominator=2 * sigma_squared)
    return build_envelope(decay, max(0, width.bit_length() - 6))


@given(
    numerator=st.integers(0, 2**130),
    denominator=st.integers(1, 2**130),
    bits=st.integers(1, 300),
)
def test_enclosure_contains_the_exponential_and_is_tight(
    numerator: int, denominator: int, bits: int
) -> None:
    numerator = min(numerator, 200 * denominator)

    bound = enclose_exp(numerator, denominator, bits=bits)

    assert bound.lower <= digits_of_exp(numerator, denominator, bits) <= bound.upper
    assert bound.upper - bound.lower <= 2


@settings(max_examples=examples(12))
@given(histogram=envelopes(), bits=st.integers(1, 120))
def test_ends_of_cells_contain_the_cumulative_probability(
    histogram: RejectionEnvelope, bits: int
) -> None:
    ends = enclose_cell_ends(histogram.law, histogram.shift, bits)

    for cell, (lower, upper) in enumerate(zip(*ends, strict=True)):
        # The probability is irrational, so that it lies strictly between its digits and the next.
        digits = digits_of_cell_end(histogram.law, histogram.shift, cell, bits)
        assert lower <= digits < upper <= lower + 2
    for bounds in ends:
        assert list(bounds) == sorted(bounds)


@given(histogram=envelopes(), data=st.data())
def test_fast_cells_are_the_exact_cells(histogram: RejectionEnvelope, data: st.DataObject) -> None:
    near_an_end = st.builds(
        lambda end, step: min(max(0, end + step), WORD - 1),
        st.sampled_from([0, *histogram.upper.tolist()]),
        st.sampled_from([-(2**16), -2, -1, 0, 1, 2, 2**16]),
    )
    words = data.draw(st.lists(st.integers(0, WORD - 1) | near_an_end, min_size=1, max_size=20))
    # More bits are drawn only for words that leave the cell open, in the order of the words.
    bits = bytes.fromhex("6a09e667bb67ae85") * len(words)

    entropy = ScriptedEntropy(bits)
    cells = histogram.cells(np.array(words, dtype=np.uint32), entropy=entropy)

    rest = bits
    for word, cell in zip(words, cells.tolist(), strict=True):
        alone = ScriptedEntropy(rest)
        assert histogram.cells(np.array([word], dtype=np.uint32), entropy=alone).tolist() == [cell]
        uniform = int.from_bytes(rest[: len(rest) - len(alone.rest)], "big")
        drawn = 8 * (len(rest) - len(alone.rest))
        prefix = (word << drawn) + uniform
        lower, upper = enclose_cell_ends(histogram.law, histogram.shift, 192)
        assert cell == 0 or upper[cell - 1] <= prefix << (160 - drawn)
        assert (prefix + 1) << (160 - drawn) <= lower[cell]
        rest = alone.rest
    assert entropy.rest == rest


@given(histogram=envelopes().filter(lambda one: one.shift > 0), data=st.data())
def test_fast_acceptance_is_the_exact_acceptance(
    histogram: RejectionEnvelope, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, 20))
    # Cells beyond the tables take the exact path; words are where the float decision turns over.
    cells = data.draw(st.lists(st.integers(0, 4000), min_size=count, max_size=count))
    widest = (1 << histogram.shift) - 1
    offsets = data.draw(st.lists(st.integers(0, widest), min_size=count, max_size=count))
    steps = data.draw(st.lists(st.integers(-70, 70), min_size=count, max_size=count))
    increases = [
        histogram.law.increase(cell << histogram.shift, offset)
        for cell, offset in zip(cells, offsets, strict=True)
    ]
    words = [
        min(max(0, digits_of_exp(increase, histogram.law.denominator, 32) + step), WORD - 1)
        for increase, step in zip(increases, steps, strict=True)
    ]
    tail = bytes.fromhex("3c6ef372a54ff53a")

    for word, cell, offset, increase in zip(words, cells, offsets, increases, strict=True):
        accepted = histogram.accept(
            np.array([word], dtype=np.uint32),
            cells=np.array([cell]),
            offsets=np.array([offset], dtype=np.uint64),
            entropy=ScriptedEntropy(tail),
        )
        uniform = (word << 64) + int.from_bytes(tail, "big")
        bound = WORD << 64
        if increase:
            bound = digits_of_exp(increase, histogram.law.denominator, 96)
        assert accepted.tolist() == [uniform < bound]


@settings(max_examples=examples(50))
@given(histogram=envelopes(), data=st.data())
def test_cell_offset_and_acceptance_multiply_to_the_law(
    histogram: RejectionEnvelope, data: st.DataObject
) -> None:
    decay, width = histogram.law, 1 << histogram.shift
    cell = data.draw(st.integers(0, 2**12))
    offset = data.draw(st.integers(0, width - 1))

    envelope_exponent = Fraction(decay.increase(0, cell * width), decay.denominator)
    acceptance_exponent = Fraction(decay.increase(cell * width, offset), decay.denominator)

    magnitude = cell * width + offset
    law = Fraction(decay.linear * magnitude + decay.quadratic * magnitude**2, decay.denominator)
    assert envelope_exponent + acceptance_exponent == law
    assert acceptance_exponent >= 0


@settings(max_examples=examples(50))
@given(
    scale=st.integers(1, 2**62),
    size=st.integers(0, 300),
    seed=st.integers(),
    gaussian=st.booleans(),
)
def test_any_scale_and_size_is_drawn_and_repeats(
    scale: int, size: int, seed: int, gaussian: bool
) -> None:
    sampler = discrete_gaussian if gaussian else discrete_laplace

    drawn = sampler(scale, size, entropy=SeededEntropy(seed))

    assert drawn.shape == (size,)
    np.testing.assert_array_equal(drawn, sampler(scale, size, entropy=SeededEntropy(seed)))
