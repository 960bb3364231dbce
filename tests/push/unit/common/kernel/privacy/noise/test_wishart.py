"""The difference of two Wishart matrices: its law, its exact products, and what it refuses."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.noise import wishart
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.noise.normals import Normals, exact_normals, refine
from dppca.common.kernel.privacy.noise.wishart import FRACTION_BITS, wishart_difference

FALSE_ALARMS = 0.0  # all draws have seeds


def real(drawn: np.ndarray, scale: int) -> np.ndarray:
    return np.asarray(drawn / (scale * 2**FRACTION_BITS), float)


def test_one_coordinate_and_two_columns_make_laplace_noise() -> None:
    # c times the difference of two chi-squares with two degrees of freedom: Laplace of scale 2c.
    entropy = SeededEntropy(1)
    drawn = [real(wishart_difference(50, 1, 2, entropy=entropy), 50)[0, 0] for _ in range(1500)]

    assert kstest(drawn, "laplace", args=(0, 2)).pvalue > 1e-4


@pytest.mark.parametrize(("side", "columns"), [(2, 3), (3, 4), (4, 9)])
def test_draws_have_the_law_of_floating_point_ones(side: int, columns: int) -> None:
    rng, entropy, n = np.random.default_rng(5), SeededEntropy(5), 1200
    g, h = rng.standard_normal((2, n, side, columns))
    floats = g @ g.swapaxes(1, 2) - h @ h.swapaxes(1, 2)
    drawn = np.stack(
        [real(wishart_difference(9, side, columns, entropy=entropy), 9) for _ in range(n)]
    )

    statistics: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda z: z[:, 0, 0],
        lambda z: z[:, 0, -1],
        lambda z: z.sum(axis=(1, 2)),
    ]
    statistics += [lambda z: np.linalg.eigvalsh(z)[:, -1], np.linalg.det]
    for each in statistics:
        assert ks_2samp(each(drawn), each(floats)).pvalue > 1e-4


@pytest.mark.parametrize(("scale", "side", "columns"), [(2**40, 3, 5), (5 * 4**14, 40, 41)])
def test_product_is_that_of_the_digits(scale: int, side: int, columns: int) -> None:
    words = 3
    drawn = wishart_difference(scale, side, columns, entropy=SeededEntropy(7))

    normals = exact_normals(2 * side * columns, entropy=(entropy := SeededEntropy(7)))
    normals = refine(normals, 2, entropy=entropy)
    values = [_number(normals, place) for place in range(normals.whole.size)]
    g, h = np.asarray(values, dtype=object).reshape(2, side, columns)
    bits = 2 * 64 * normals.digits.shape[0]
    assert normals.digits.shape[0] < words
    expected = (scale * (g @ g.T - h @ h.T)) >> (bits - FRACTION_BITS)
    assert (drawn == expected).all()


def test_digits_that_are_not_drawn_move_a_product_by_less_than_is_promised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = wishart_difference(380, 4, 6, entropy=SeededEntropy(8))

    def longer(normals: Normals, words: int, *, entropy: SeededEntropy) -> Normals:
        return refine(refine(normals, words, entropy=entropy), words + 2, entropy=SeededEntropy(9))

    monkeypatch.setattr(wishart, "refine", longer)
    finer = wishart_difference(380, 4, 6, entropy=SeededEntropy(8))

    moved = np.abs(np.asarray(finer - drawn, dtype=object)).max()
    assert 0 < moved < 2 ** (FRACTION_BITS - wishart.KEPT_BITS)


@pytest.mark.parametrize("wrong", [(0, 2, 3), (1, 0, 3), (1, 2**11, 3), (1, 2, 0), (1.5, 2, 3)])
def test_what_cannot_be_drawn_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(SettingError):
        wishart_difference(*wrong, entropy=SeededEntropy(1))


def _number(normals: Normals, place: int) -> int:
    value = int(normals.whole[place])
    for word in normals.digits[:, place]:
        value = value << 64 | int(word)
    return -value if normals.negative[place] else value
