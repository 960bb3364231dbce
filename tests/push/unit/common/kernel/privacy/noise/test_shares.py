"""The law of a share, by enumeration in fractions; what is refused; how far sums are from Gaussian.

All 65,536 words that a cycle can be taken by go through the module's own code. What follows from
their counts is computed in fractions and compared with the generating functions.
"""

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.noise import shares
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy, SeededEntropy
from dppca.common.kernel.privacy.noise.sampler import discrete_gaussian, laplace_histogram
from dppca.common.kernel.privacy.noise.shares import (
    gaussian_share,
    gaussian_share_variance,
    laplace_share,
)
from tests.support.noise import ScriptedEntropy

Share = Callable[..., NDArray[np.int64]]
Row = dict[int, Fraction]

both = pytest.mark.parametrize("share", [laplace_share, gaussian_share])
honests = pytest.mark.parametrize("honest", [2, 3, 7, 49])

ALL_WORDS = np.arange(2**16, dtype=np.uint16)
LARGEST_TOTAL = 12


@both
@pytest.mark.parametrize(
    ("scale", "honest", "size", "says"),
    [
        *((scale, 3, 5, r"scale|sigma_squared") for scale in (0, -1, 1000.0, "1000", None)),
        *((scale, 3, 5, r"scale|sigma_squared") for scale in (True, 2**125)),
        *((10**9, honest, 5, "honest") for honest in (1, 0, -3, 2.0, None, True, 2**15 + 1)),
        *((10**9, 3, size, "size") for size in (-1, 1.0, None, True)),
    ],
)
def test_arguments_that_are_no_integers_in_range_are_refused(
    share: Share, scale: object, honest: object, size: object, says: str
) -> None:
    with pytest.raises(SettingError, match=says):
        share(scale, honest, size, entropy=ScriptedEntropy(b""))


@both
@pytest.mark.parametrize("size", [0, 1, 40_000])
def test_shares_are_fresh_native_int64(share: Share, size: int) -> None:
    drawn = share(42_000_000, 3, size, entropy=OperatingSystemEntropy())

    assert drawn.shape == (size,)
    assert drawn.dtype == np.dtype(np.int64)
    assert drawn.flags.writeable


@both
def test_same_seed_gives_the_same_shares_and_another_seed_others(share: Share) -> None:
    first = share(2**40, 3, 70_000, entropy=SeededEntropy(1))

    np.testing.assert_array_equal(first, share(2**40, 3, 70_000, entropy=SeededEntropy(1)))
    assert np.mean(first == share(2**40, 3, 70_000, entropy=SeededEntropy(2))) < 0.05


def test_laplace_shares_take_a_key_from_their_source_and_nothing_else() -> None:
    source = ScriptedEntropy(bytes(range(40)))

    laplace_share(42_000_000, 3, 100_000, entropy=source)

    assert source.rest == bytes(range(32, 40))


@pytest.mark.parametrize("total", [*range(1, 21), 255, 256, 40_000, 65_535])
def test_every_rest_is_left_by_equally_many_words(total: int) -> None:
    left, step = _taken(total, ALL_WORDS, np.zeros_like(ALL_WORDS), honest=2)

    counts = Counter(left.tolist())
    assert counts.pop(total, 0) == 2**16 % total
    assert counts == dict.fromkeys(range(total), 2**16 // total)
    np.testing.assert_array_equal(step, total - left.astype(np.int64))


@pytest.mark.parametrize("honest", [2, 3, 7, 49, 2**15 - 1, 2**15])
def test_every_owner_is_named_by_equally_many_words(honest: int) -> None:
    # Word 0 takes the whole total, as one cycle.
    left, step = _taken(5, np.zeros_like(ALL_WORDS), ALL_WORDS, honest=honest)

    assert np.count_nonzero(left == 5) == 2**16 % honest
    assert np.all((left == 5) | (left == 0))
    counts = Counter(step[left == 0].tolist())
    assert counts[5] == counts[-5] == 2**16 // honest
    assert counts[0] == (honest - 2) * (2**16 // honest)


def test_refusing_either_word_refuses_both() -> None:
    # 65,535 begins an incomplete round of 3; for the owner it is refused among 7.
    left, step = _taken(
        3,
        np.array([0, 65_535, 65_535], dtype=np.uint16),
        np.array([65_535, 0, 65_535], dtype=np.uint16),
        honest=7,
    )

    assert left.tolist() == [3, 3, 3]
    assert step.tolist() == [0, 0, 0]


@honests
def test_share_of_every_small_total_has_the_law_of_the_generating_function(honest: int) -> None:
    r = Fraction(1, honest)
    given, kept = _rising(r), _rising(1 - 2 * r)
    for total in range(LARGEST_TOTAL + 1):
        expected: Row = {}
        for plus in range(total + 1):
            for minus in range(total + 1 - plus):
                chance = given[plus] * given[minus] * kept[total - plus - minus]
                expected[plus - minus] = expected.get(plus - minus, Fraction(0)) + chance
        assert _law_of_share(total, honest) == {x: p for x, p in expected.items() if p}


def test_total_beyond_64_bits_gives_cycles_until_it_fits() -> None:
    total = 2**64 + 7
    # Of nine bytes for the length 65 bits count: too large, then 2^64 + 2; one byte for the owner.
    script = (
        (b"\xff" * 9 + (2**64 + 2).to_bytes(9, "little") + b"\x01")  # 5 for the second owner
        + (2**64).to_bytes(9, "little") + b"\x03\x02"  # owner 3 is none of 3; 2 for the third
        + (2**63).to_bytes(8, "little") + b"\x00"  # below 2^64: 2^63 for the first
    )  # fmt: skip
    entropy = ScriptedEntropy(script)

    rest, share = shares._begin_share(total, 3, entropy=entropy)

    assert (rest, share) == (2**63, 2**63 - 5)
    assert entropy.rest == b""


def test_total_that_is_not_accepted_is_drawn_again() -> None:
    # Of cells of 16, the last place in the first one is accepted with probability exp(-15 / 1000).
    refused = b"\xff" * 8 + bytes(4) + b"\xff" * 4
    entropy = ScriptedEntropy(refused + bytes(16))

    drawn = shares._draw_block(laplace_histogram(1000), 2, 1, entropy=entropy)

    assert drawn.tolist() == [0]
    assert entropy.rest == b""


def test_what_a_total_beyond_64_bits_gave_first_is_part_of_the_share() -> None:
    histogram = laplace_histogram(2**62)
    cell = 2**64 >> histogram.shift
    word = int(histogram.upper[cell - 1] + histogram.lower[cell]) // 2
    script = (
        (bytes(8) + word.to_bytes(4, "little") + bytes(4))  # a total of 2^64
        + ((5).to_bytes(8, "little") + b"\x00")  # leaves 5 and gives the rest, -5 modulo 2^64
        + (bytes(2) + b"\xff\xff")  # all 5 for the second owner
        + bytes(4)  # nothing is left
    )
    entropy = ScriptedEntropy(script)

    assert shares._draw_block(histogram, 2, 1, entropy=entropy).tolist() == [2**64 - 10]
    assert entropy.rest == b""


@pytest.mark.parametrize("honest", [2, 3, 7, 1000])
@pytest.mark.parametrize("sigma_squared", [10**6, 10**6 + 1, 2**124, 42_000_000**2 + 5])
def test_gaussian_shares_have_at_least_the_variance_of_the_mechanism(
    sigma_squared: int, honest: int
) -> None:
    variance = gaussian_share_variance(sigma_squared, honest)

    assert sigma_squared + honest <= honest * variance < sigma_squared + 2 * honest
    np.testing.assert_array_equal(
        gaussian_share(sigma_squared, honest, 100, entropy=SeededEntropy(4)),
        discrete_gaussian(variance, 100, entropy=SeededEntropy(4)),
    )


def test_share_below_variance_64_is_refused_and_64_is_not() -> None:
    assert gaussian_share_variance(62 * 3 + 1, 3) == 64
    with pytest.raises(SettingError, match="variance of 63"):
        gaussian_share(62 * 3, 3, 5, entropy=ScriptedEntropy(b""))


@pytest.mark.parametrize("variance", [1, 2])
@pytest.mark.parametrize("honest", [2, 3, 5])
def test_sum_of_gaussian_shares_is_as_far_from_gaussian_as_is_said(
    variance: int, honest: int
) -> None:
    # Far below the least variance, where the distance can be seen; equation (3).
    total = _sum_law(variance, honest)
    x = np.arange(total.size) - total.size // 2
    middle = np.abs(x) <= 6 * math.sqrt(honest * variance)
    ratio = np.log(total[middle]) + x[middle] ** 2 / (2 * honest * variance)

    found = float(ratio.max() - ratio.min())
    assert found <= _tau(variance, honest)
    if honest == 2:  # later shares smooth what the second left
        assert found > 0.3 * _tau(variance, honest)


def _taken(
    total: int, words: NDArray[np.uint16], owners: NDArray[np.uint16], *, honest: int
) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    totals = np.full(words.size, total, dtype=np.uint16)
    return shares._next_cycle(totals, words, owners, honest=honest)


@cache
def _cycle_law(total: int, honest: int) -> dict[tuple[int, int], Fraction]:
    """The law of (what is left, sign), from the counts of all words and all owners."""
    left, _ = _taken(total, ALL_WORDS, np.zeros_like(ALL_WORDS), honest=honest)
    _, step = _taken(1, np.zeros_like(ALL_WORDS), ALL_WORDS, honest=honest)
    taken, _ = _taken(1, np.zeros_like(ALL_WORDS), ALL_WORDS, honest=honest)
    rests = Counter(left[left < total].tolist())
    signs = Counter(step[taken == 0].tolist())
    return {
        (rest, sign): Fraction(rest_count, rests.total()) * Fraction(sign_count, signs.total())
        for rest, rest_count in rests.items()
        for sign, sign_count in signs.items()
    }


@cache
def _law_of_share(total: int, honest: int) -> Row:
    if total == 0:
        return {0: Fraction(1)}
    law: Row = {}
    for (rest, sign), chance in _cycle_law(total, honest).items():
        for x, further in _law_of_share(rest, honest).items():
            place = x + sign * (total - rest)
            law[place] = law.get(place, Fraction(0)) + chance * further
    return {x: p for x, p in law.items() if p}


def _rising(shape: Fraction) -> list[Fraction]:
    """The coefficients of ``(1 - u)^-shape``."""
    found = [Fraction(1)]
    for k in range(LARGEST_TOTAL):
        found.append(found[-1] * (shape + k) / (k + 1))
    return found


def _sum_law(variance: int, honest: int) -> NDArray[np.float64]:
    """The probabilities of a sum of discrete Gaussians, symmetric about the middle."""
    reach = 36 * variance
    one = np.exp(-(np.arange(-reach, reach + 1) ** 2.0) / (2 * variance))
    one /= one.sum()
    total = one
    for _ in range(honest - 1):
        total = np.convolve(total, one)
    return total


def _tau(variance: int, honest: int) -> float:
    steps = range(1, honest)
    return 10 * sum(math.exp(-2 * math.pi**2 * variance * k / (k + 1)) for k in steps)
