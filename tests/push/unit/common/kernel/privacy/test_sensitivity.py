"""Sensitivities: the figures the documentation prints, rounding, and what is refused."""

from fractions import Fraction
from functools import partial
from itertools import combinations, combinations_with_replacement, product
from math import comb, sqrt
from typing import Any

import numpy as np
import pytest

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.sensitivity import (
    ROOT_BITS,
    BallShape,
    BoxShape,
    Relation,
    real_l1,
    real_l2_squared,
    sensitivity,
)

NLTCS = BoxShape(n_scalars=16, n_numeric=0, n_categoricals=0)
ADULT = BoxShape(n_scalars=8, n_numeric=6, n_categoricals=7)


@pytest.mark.parametrize(
    ("shape", "l1", "l2_squared"),
    [(NLTCS, Fraction(81, 2), 25), (ADULT, Fraction(249, 2), 94)],
    ids=["sixteen binaries", "Adult"],
)
def test_the_sums_move_as_documented(shape: BoxShape, l1: Fraction, l2_squared: int) -> None:
    assert (real_l1(shape), real_l2_squared(shape)) == (l1, l2_squared)


@pytest.mark.parametrize(("columns", "printed"), [(10, 19.2), (100, 1313)])
def test_numeric_columns_alone_move_the_sums_as_documented(columns: int, printed: float) -> None:
    shape = BoxShape(n_scalars=columns, n_numeric=columns, n_categoricals=0)
    assert float(real_l1(shape)) == pytest.approx(printed, rel=5e-4)


@pytest.mark.parametrize("columns", [2, 5, 11, 12, 40, 300])
def test_the_ball_without_sums_is_the_smaller_of_two_bounds(columns: int) -> None:
    shape = BallShape(n_columns=columns, with_sums=False)
    bound = min(columns / sqrt(2) + 1, sqrt(columns * (columns + 3) / 2))
    assert float(real_l1(shape)) == pytest.approx(bound, rel=1e-14)
    assert real_l2_squared(shape) == 2


@pytest.mark.parametrize("columns", [2, 5, 40, 300])
def test_the_ball_with_sums_is_the_smallest_bound_over_the_appended_constant(columns: int) -> None:
    shape = BallShape(n_columns=columns, with_sums=True)
    bounds = (
        sqrt(2) * (1 + s) * sqrt(columns * (columns + 3) / 4 + columns / (2 * s))
        for s in (step / 10_000 for step in range(1, 20_000))
    )
    assert float(real_l1(shape)) == pytest.approx(min(bounds), rel=1e-6)
    assert real_l2_squared(shape) == Fraction(9, 2)


@pytest.mark.parametrize("weight", [Fraction(1, 8), Fraction(1, 2), Fraction(1), Fraction(5)])
def test_the_largest_corner_is_that_of_a_search_through_all(weight: Fraction) -> None:
    for scalars, categoricals in product(range(9), range(6)):
        if scalars + categoricals == 0:
            continue
        shape = BoxShape(scalars, 0, categoricals, sum_weight=weight)
        corners = [
            (
                Fraction(r * (scalars - r), 2) + t * scalars + blocks + weight * (r + 2 * t),
                Fraction(r * (scalars - r), 4)
                + Fraction(t * scalars, 2)
                + blocks
                + weight**2 * (r + 2 * t),
            )
            for r, t in product(range(scalars + 1), range(categoricals + 1))
            for blocks in [
                (categoricals - t) * r + 2 * (comb(categoricals, 2) - comb(categoricals - t, 2))
            ]
        ]
        assert real_l1(shape) == max(l1 for l1, _ in corners)
        assert real_l2_squared(shape) == max(l2 for _, l2 in corners)


def test_integers_are_exact_where_the_grid_holds_the_real_value() -> None:
    found = sensitivity(NLTCS, resolution_bits=10)
    assert found.l1 == 81 * 4**10 // 2
    assert found.l2_squared == 25 * 16**10
    assert found.resolution_bits == 10
    assert found.relation is Relation.REPLACE_ONE


@pytest.mark.parametrize("bits", [1, 6, 10, 14])
@pytest.mark.parametrize(
    "shape",
    [
        BoxShape(3, 3, 0),
        BoxShape(5, 4, 0, sum_weight=Fraction(3, 2)),
        BoxShape(1, 1, 0, sum_weight=Fraction(1, 2)),
        BallShape(3, with_sums=False),
        BallShape(17, with_sums=True),
    ],
)
def test_integers_are_rounded_up_by_less_than_one(shape: BoxShape | BallShape, bits: int) -> None:
    found = sensitivity(shape, resolution_bits=bits)
    assert 0 <= found.l1 - real_l1(shape) * 4**bits < 1
    assert 0 <= found.l2_squared - real_l2_squared(shape) * 16**bits < 1


def test_a_root_is_rounded_up_in_integers_and_by_no_more_than_one_step() -> None:
    # 5 columns: the bound is sqrt(20); 3 columns: it is 3, which needs no rounding.
    bound = real_l1(BallShape(5, with_sums=False))
    assert (bound - Fraction(1, 2**ROOT_BITS)) ** 2 < 20 < bound**2
    assert real_l1(BallShape(3, with_sums=False)) == 3


@pytest.mark.parametrize("weight", [Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(1)])
def test_one_numeric_column_with_light_sums_is_charged_as_decided(weight: Fraction) -> None:
    extra = (1 - 4 * weight**2) / 16 if weight < Fraction(1, 2) else 0
    assert real_l2_squared(BoxShape(1, 1, 0, sum_weight=weight)) == weight**2 + extra


def test_a_shape_of_thousands_of_attributes_is_computed_exactly() -> None:
    # Flipping half of 4000 binaries, each of weight 1: r (Q - r)/2 + r at r = Q/2 + 1.
    shape = BoxShape(n_scalars=4000, n_numeric=0, n_categoricals=0)
    assert real_l1(shape) == Fraction(2001 * 1999, 2) + 2001


@pytest.mark.parametrize("bits", [-1, 0, 15, 64])
def test_a_resolution_outside_1_to_14_is_refused(bits: int) -> None:
    with pytest.raises(SettingError, match="resolution_bits must be within 1 to 14"):
        sensitivity(NLTCS, resolution_bits=bits)


BOX, BALL = partial(BoxShape, 2, 0, 0), partial(BallShape, 2, with_sums=True)


@pytest.mark.parametrize("shape", [BOX, BALL], ids=["box", "ball"])
def test_sums_without_weight_or_with_one_off_the_grid_are_refused(shape: Any) -> None:
    for weight in (Fraction(0), Fraction(-1)):
        with pytest.raises(SettingError, match="above 0"):
            shape(sum_weight=weight)
    with pytest.raises(SettingError, match="must be a multiple of 2\\^-10"):
        sensitivity(shape(sum_weight=Fraction(1, 3)), resolution_bits=10)
    sensitivity(shape(sum_weight=Fraction(1, 32)), resolution_bits=5)
    with pytest.raises(SettingError, match="must be a multiple of 2\\^-4"):
        sensitivity(shape(sum_weight=Fraction(1, 32)), resolution_bits=4)


def test_a_histogram_counts_a_row_twice_with_its_weight() -> None:
    """A row leaves one cell of each histogram and enters another, equation (6)."""
    plain = BoxShape(3, 2, 1)
    for weight in (1, 3):
        counted = BoxShape(3, 2, 1, n_histograms=2, histogram_weight=Fraction(weight))
        assert real_l1(counted) - real_l1(plain) == 4 * weight
        assert real_l2_squared(counted) - real_l2_squared(plain) == 4 * weight**2
    assert real_l1(BoxShape(3, 2, 1, n_histograms=2)) - real_l1(plain) == 4


def test_impossible_counts_are_refused() -> None:
    for counts in ((0, 0, 0), (1, 2, 0), (2, -1, 0), (2, 0, -1)):
        with pytest.raises(SettingError, match="schema"):
            BoxShape(*counts)
    with pytest.raises(SettingError, match="at least one column"):
        BallShape(0, with_sums=False)
    # Of a ball with one column, (7): d (d + 3) / 2 is 2, and d / sqrt(2) + 1 is more than sqrt(2).
    assert float(real_l1(BallShape(1, with_sums=False))) == pytest.approx(sqrt(2))


@pytest.mark.parametrize("omega", [2, 3, 5])
@pytest.mark.parametrize("w", [Fraction(1, 2), Fraction(1), Fraction(5)])
def test_the_largest_corner_with_targets_is_that_of_a_search_through_all(
    w: Fraction, omega: int
) -> None:
    weights = ((1, omega), (omega, omega))

    def move(
        there: tuple[int, int, int, int], corner: tuple[int, ...], power: int, pair: Fraction
    ) -> Fraction:
        """By scalars and categoricals, targets last: how many there are, and how many change."""
        scalars, labels, r, t = there[:2], there[2:], corner[:2], corner[2:]
        total = w**power * (sum(r) + 2 * sum(t))
        for i, j in product(range(2), range(2)):
            v = weights[i][j] ** power
            total += 2 * pair * v * t[i] * scalars[j] + v * (labels[i] - t[i]) * r[j]
            total += pair * v * r[i] * (scalars[j] - r[j])
            if i == j:
                total += 2 * v * (comb(labels[i], 2) - comb(labels[i] - t[i], 2))
        both = labels[0] * labels[1] - (labels[0] - t[0]) * (labels[1] - t[1])
        return total + 2 * omega**power * both

    for there in product(range(4), range(3), range(3), range(4)):
        q0, q1, c0, c1 = there
        if q1 + c1 == 0:
            continue
        every = list(product(*(range(count + 1) for count in there)))
        shape = BoxShape(
            q0 + q1, 0, c0 + c1, sum_weight=w, target_counts=(q1, 0, c1), target_weight=omega
        )
        assert real_l1(shape) == max(move(there, each, 1, Fraction(1, 2)) for each in every)
        l2_squared = max(move(there, each, 2, Fraction(1, 4)) for each in every)
        assert real_l2_squared(shape) == l2_squared


@pytest.mark.parametrize(("w", "omega"), [(Fraction(1, 2), 2), (Fraction(1), 3)])
def test_scalars_alone_move_as_far_as_a_search_through_twelfths_finds(
    w: Fraction, omega: int
) -> None:
    """Exactly: where there are two numerics of a kind at most, the best move by twelfths."""
    numerics = [list(combinations_with_replacement(range(13), n)) for n in range(3)]
    binaries = [list(combinations_with_replacement((0, 12), n)) for n in range(3)]
    for q0, b0, q1, b1 in product(range(3), repeat=4):
        if q0 + q1 == 0:
            continue
        drawn = product(numerics[q0], binaries[b0], numerics[q1], binaries[b1])
        v = np.array([sum(each, ()) for each in drawn]).T
        u = 12 - v
        others = q0 + b0
        moved = 24 * float(w) * v.sum(axis=0)
        for i, j in combinations(range(len(v)), 2):
            moved += (omega if j >= others else 1) * (u[i] * v[j] + v[i] * u[j])
        for i in (*range(q0), *range(others, others + q1)):
            moved += 2 * u[i] * v[i]
        shape = BoxShape(
            q0 + b0 + q1 + b1,
            q0 + q1,
            0,
            sum_weight=w,
            target_counts=(q1 + b1, q1, 0),
            target_weight=omega,
        )
        assert real_l1(shape) * 288 == int(moved.max()), (q0, b0, q1, b1)


@pytest.mark.parametrize(
    "counts",
    [(3, 2, 0), (2, 2, 2), (1, 0, 0), (2, 0, 2), (0, 0, -1), (0, 1, 0), (-1, 0, 0), (1, 1, 2)],
)
def test_targets_that_are_not_among_the_attributes_are_refused(
    counts: tuple[int, int, int],
) -> None:
    with pytest.raises(SettingError, match="not among"):
        BoxShape(2, 2, 1, target_counts=counts, target_weight=2)


@pytest.mark.parametrize("counts", [(1, 1, 0), (0, 0, 1)])
@pytest.mark.parametrize(("omega", "weight"), [(1, Fraction(1)), (2, Fraction(7, 16))])
def test_targets_ask_for_their_weight_and_for_that_of_the_sums(
    counts: tuple[int, int, int], omega: int, weight: Fraction
) -> None:
    with pytest.raises(SettingError, match="targets need"):
        BoxShape(2, 2, 1, sum_weight=weight, target_counts=counts, target_weight=omega)
