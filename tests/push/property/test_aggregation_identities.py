"""The identities that the noise of a masked sum rests on, in fractions and decimals.

They are of the laws, not of a sampler: a share of Laplace noise is a difference of two Polya
variables of shape 1/h, made from a geometric one by the cycles of a random permutation; h discrete
Gaussians of variance v are, but for ``tau``, one of h v (Kairouz, Liu and Steinke 2021, theorem 1).
"""

from fractions import Fraction
from functools import cache
from itertools import product
from math import exp, pi

import pytest

SHAPES = [1, 2, 3, 7, 9, 49]
LARGEST = 20


@cache
def _rising(shape: Fraction, count: int) -> Fraction:
    """Coefficient of ``z**count`` in ``(1 - z)**-shape``."""
    if count == 0:
        return Fraction(1)
    return _rising(shape, count - 1) * (shape + count - 1) / count


def _share_of(total: int, h: int) -> list[Fraction]:
    """Law of the share of ``total``: a cycle has uniform length, and counts with chance 1/h."""
    laws = [[Fraction(1)]]
    for n in range(1, total + 1):
        law = [Fraction(0)] * (n + 1)
        for length in range(1, n + 1):
            for value, chance in enumerate(laws[n - length]):
                law[value] += chance * Fraction(h - 1, h * n)
                law[value + length] += chance * Fraction(1, h * n)
        laws.append(law)
    return laws[total]


@pytest.mark.parametrize("h", SHAPES)
def test_cycles_split_a_geometric_total_into_a_polya_share_and_the_rest(h: int) -> None:
    """Given G = g, the share and the rest are as two negative binomials that add up to g."""
    shape = Fraction(1, h)
    for total in range(LARGEST + 1):
        expected = [
            _rising(shape, value) * _rising(1 - shape, total - value) for value in range(total + 1)
        ]
        assert _share_of(total, h) == expected


@pytest.mark.parametrize("h", SHAPES)
def test_h_polya_shares_are_geometric(h: int) -> None:
    """Each power of q has coefficient 1: so for every scale."""
    total = [Fraction(1)] + [Fraction(0)] * LARGEST
    for _ in range(h):
        total = [
            sum((total[k] * _rising(Fraction(1, h), n - k) for k in range(n + 1)), Fraction(0))
            for n in range(LARGEST + 1)
        ]
    assert total == [1] * (LARGEST + 1)


def _tau(h: int, variance: int) -> float:
    return sum(10 * exp(-2 * pi**2 * variance * k / (k + 1)) for k in range(1, h))


@pytest.mark.parametrize("h", [2, 3, 9, 34, 49, 100])
def test_h_gaussians_of_variance_64_or_more_are_one_for_all_purposes(h: int) -> None:
    assert 2_000_000 * _tau(h, 64) <= 2_000_000 * 10 * h * exp(-(pi**2) * 64) < 1e-264


@pytest.mark.parametrize(("h", "sigma_squared"), list(product([2, 9, 100], [6400, 10**10, 10**37])))
def test_one_more_in_the_variance_pays_for_tau(h: int, sigma_squared: int) -> None:
    """At a sensitivity of 1, the least; at sigma^2 of 1e37 no bound such as 1e-50 is left."""
    variance = -(-sigma_squared // h) + 1
    assert h * variance >= sigma_squared + h
    saved = Fraction(1, 2 * sigma_squared) - Fraction(1, 2 * h * variance)
    assert variance >= 64
    assert Fraction(2_000_000 * _tau(h, variance)) < saved
