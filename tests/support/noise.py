"""Chosen bits for the samplers, and their bounds in decimal arithmetic: slow, long, independent."""

import dataclasses
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, partial
from itertools import accumulate
from typing import Any

import pytest

from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise._log_concave import LogConcaveLaw
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy, SeededEntropy

_DIGITS = 150  # decimal digits: 490 bits
_LEFT_OUT = Decimal(10) ** -100

gaussian_tail = partial(GaussianLaw.tail_probability, n=1)
"""Chance that Gaussian noise is at least so many deviations from 0."""


class ScriptedEntropy:
    """Returns the bytes of its script, then fails."""

    def __init__(self, script: bytes) -> None:
        self.rest = script

    def bytes(self, count: int) -> bytes:
        assert count <= len(self.rest), "more bytes were asked for than the script has"
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken


def seed_noise(monkeypatch: pytest.MonkeyPatch, *, seed: int = 1) -> None:
    """Make this process's draws from the operating system repeatable from now on."""
    source = SeededEntropy(seed)
    monkeypatch.setattr(OperatingSystemEntropy, "bytes", lambda _, count: source.bytes(count))


def less_noise(add_noise: Callable[..., Any], divisor: int) -> Callable[..., Any]:
    """`add_noise` with a planted fault: the standard deviation is divided."""

    def too_small(values: Any, noise: Calibration, **rest: Any) -> Any:
        law = type(noise.law).of_width(Fraction(noise.law.width) / divisor)
        assert law is not None
        return add_noise(values, dataclasses.replace(noise, law=law), **rest)

    return too_small


def digits_of_exp(numerator: int, denominator: int, bits: int) -> int:
    """Return the first `bits` binary digits of ``exp(-numerator / denominator)``."""
    with localcontext(prec=_DIGITS):
        return int((Decimal(-numerator) / denominator).exp() * 2**bits)


def digits_of_cell_end(decay: LogConcaveLaw, shift: int, cell: int, bits: int) -> int:
    """Return the first `bits` binary digits of the probability of the cells up to `cell`."""
    with localcontext(prec=_DIGITS):
        ends = _sums_of_weights(decay, shift)
        return int(ends[cell] / ends[-1] * 2**bits)


@cache
def _sums_of_weights(decay: LogConcaveLaw, shift: int) -> tuple[Decimal, ...]:
    weights: list[Decimal] = []
    while not weights or weights[-1] > _LEFT_OUT:
        reach = decay.increase(0, len(weights) << shift)
        weights.append((Decimal(-reach) / decay.denominator).exp())
    return tuple(accumulate(weights))
