"""The samplers' arguments, repeatability and range, and what they ask of their source."""

import os
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.noise._log_concave import LogConcaveLaw
from dppca.common.kernel.privacy.noise._rejection import build_envelope
from dppca.common.kernel.privacy.noise.entropy import (
    EntropySource,
    OperatingSystemEntropy,
    SeededEntropy,
)
from dppca.common.kernel.privacy.noise.sampler import discrete_gaussian, discrete_laplace
from tests.support.noise import ScriptedEntropy

Sampler = Callable[..., NDArray[np.int64]]

both = pytest.mark.parametrize("sampler", [discrete_laplace, discrete_gaussian])


class CountingEntropy:
    """Passes a source through and records how many bytes each call asked for."""

    def __init__(self, source: EntropySource) -> None:
        self.source = source
        self.calls: list[int] = []

    def bytes(self, count: int) -> bytes:
        self.calls.append(count)
        return self.source.bytes(count)


@both
@pytest.mark.parametrize("scale", [0, -1, 1.0, 2.5, "3", None, True, np.float64(2.0), 2**125])
def test_scale_that_is_no_integer_in_range_is_refused(sampler: Sampler, scale: object) -> None:
    with pytest.raises(SettingError, match=r"scale|sigma_squared"):
        sampler(scale, 3, entropy=ScriptedEntropy(b""))


@both
@pytest.mark.parametrize("size", [-1, 1.0, None, True])
def test_size_that_is_no_count_is_refused(sampler: Sampler, size: object) -> None:
    with pytest.raises(SettingError, match="size"):
        sampler(3, size, entropy=ScriptedEntropy(b""))


@both
def test_no_draws_need_no_entropy(sampler: Sampler) -> None:
    drawn = sampler(7, 0, entropy=ScriptedEntropy(b""))

    assert drawn.shape == (0,)
    assert drawn.dtype == np.int64


@both
@pytest.mark.parametrize("scale", [1, 5, 1000, np.int64(42_000_000), 2**40])
def test_samples_are_fresh_native_int64(sampler: Sampler, scale: int) -> None:
    drawn = sampler(scale, 1000, entropy=OperatingSystemEntropy())

    assert drawn.shape == (1000,)
    assert drawn.dtype == np.dtype(np.int64)
    assert drawn.flags.writeable
    assert len(np.unique(drawn)) > 2


@both
def test_same_seed_gives_same_samples(sampler: Sampler) -> None:
    first = sampler(1000, 100_000, entropy=SeededEntropy(1))

    np.testing.assert_array_equal(first, sampler(1000, 100_000, entropy=SeededEntropy(1)))
    assert np.mean(first == sampler(1000, 100_000, entropy=SeededEntropy(2))) < 0.01


@both
def test_one_source_never_gives_the_same_samples_twice(sampler: Sampler) -> None:
    entropy = SeededEntropy(1)

    first, second = (sampler(2**30, 1000, entropy=entropy) for _ in range(2))

    assert not np.isin(first, second).all()


@both
@pytest.mark.parametrize("scale", [3, 2**40])
def test_entropy_is_fetched_in_large_blocks(sampler: Sampler, scale: int) -> None:
    entropy = CountingEntropy(SeededEntropy(3))

    sampler(scale, 1_000_000, entropy=entropy)

    large = [count for count in entropy.calls if count >= 2**16]
    assert sum(large) > 0.99 * sum(entropy.calls)
    assert sum(entropy.calls) < 18 * 1_000_000 * (1.25 if scale == 3 else 1.0)


def test_source_that_runs_dry_is_an_error() -> None:
    class Short:
        def bytes(self, count: int) -> bytes:
            return bytes(count // 2)

    with pytest.raises(ValueError, match="buffer"):
        discrete_laplace(10, 100, entropy=Short())


def test_seeded_stream_does_not_depend_on_its_division() -> None:
    whole, parts = SeededEntropy(9), SeededEntropy(9)

    assert whole.bytes(100) == parts.bytes(1) + parts.bytes(0) + parts.bytes(66) + parts.bytes(33)


@pytest.mark.real_noise
def test_operating_system_entropy_asks_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: b"k" * count)

    assert OperatingSystemEntropy().bytes(5) == b"kkkkk"


@both
def test_zero_bits_give_zero(sampler: Sampler) -> None:
    for scale in (1, 1000, 2**60):
        assert sampler(scale, 4, entropy=ScriptedEntropy(bytes(64))).tolist() == [0, 0, 0, 0]


@both
@pytest.mark.parametrize("scale", [1, 10**9])
def test_minus_zero_is_drawn_again(sampler: Sampler, scale: int) -> None:
    # One draw: eight bytes of offset and sign, four of cell, and four of acceptance if needed.
    acceptance = b"" if scale == 1 else bytes(4)
    minus_zero = (1).to_bytes(8, "little") + bytes(4) + acceptance
    plus_zero = bytes(12) + acceptance
    entropy = ScriptedEntropy(minus_zero + plus_zero)

    assert sampler(scale, 1, entropy=entropy).tolist() == [0]
    assert entropy.rest == b""


def test_sample_beyond_int64_wraps_around() -> None:
    # Cell 2^5 * k begins at k * 2^62. Four of those are 2^64, which is 0; two are -2^63.
    scale = 2**62
    magnitudes = {2: -(2**63), 3: -(2**62), 4: 0, 5: 2**62}
    for quarter, wrapped in magnitudes.items():
        middle = _cell_middle(
            LogConcaveLaw(linear=1, quadratic=0, denominator=scale), 57, 32 * quarter
        )
        script = bytes(8) + middle.to_bytes(4, "little") + bytes(4)
        drawn = discrete_laplace(scale, 1, entropy=ScriptedEntropy(script))
        assert drawn.tolist() == [wrapped]


def _cell_middle(decay: LogConcaveLaw, shift: int, cell: int) -> int:
    """Return the 32-bit word in the middle of a cell's share of the unit interval."""
    histogram = build_envelope(decay, shift)
    return int(histogram.upper[cell - 1] + histogram.lower[cell]) // 2


@pytest.mark.parametrize("scale", [1, 2, 6])
def test_small_noise_has_the_probabilities_of_its_formula(scale: int) -> None:
    """The seeds are fixed, so nothing is left to chance; a fresh seed fails once in 10^4 runs."""
    x, n = np.arange(-60, 61), 200_000
    laws = {
        discrete_laplace: np.exp(-np.abs(x) / scale),
        discrete_gaussian: np.exp(-(x**2) / (2 * scale)),
    }
    for sampler, law in laws.items():
        expected = n * law / law.sum()
        drawn = sampler(scale, n, entropy=SeededEntropy(149))
        counts = np.bincount(np.clip(drawn, -60, 60) + 60, minlength=len(x))
        often = expected > 10
        deviations = (counts - expected)[often] / np.sqrt(expected[often])
        assert np.abs(deviations).max() < 5
        assert counts[~often].sum() < expected[~often].sum() + 60


@pytest.mark.parametrize("bits", [20, 40, 60])
def test_large_noise_has_the_size_of_its_formula_and_uses_every_bit(bits: int) -> None:
    """Bounds are five standard deviations and more; the seeds are fixed."""
    n, scale = 100_000, 1 << bits
    laplace = discrete_laplace(scale, n, entropy=SeededEntropy(149))
    gaussian = discrete_gaussian(scale**2, n, entropy=SeededEntropy(149))

    assert np.abs(laplace / scale).mean() == pytest.approx(1, abs=0.02)
    assert np.square(gaussian / scale).mean() == pytest.approx(1, abs=0.025)
    for drawn in (laplace, gaussian):
        assert (drawn / scale).mean() == pytest.approx(0, abs=0.025)
        assert (drawn & 1).mean() == pytest.approx(0.5, abs=0.01)
        assert (np.abs(drawn) >> (bits // 2) & 1).mean() == pytest.approx(0.5, abs=0.01)


def test_probabilities_fall_within_a_cell_of_the_envelope_too() -> None:
    """A cell is 1/32 of the scale; the bound is four standard deviations, the seed is fixed."""
    drawn = np.abs(discrete_laplace(1 << 20, 1_000_000, entropy=SeededEntropy(149)))

    upper_half = (drawn >> 14 & 1).mean()
    assert upper_half == pytest.approx(1 / (1 + np.exp(1 / 64)), abs=0.002)
