"""Laws of matrix-laplace noise: its sensitivity, its cost, and that it is one function of R."""

from fractions import Fraction

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dppca.common.kernel.privacy.matrix_noise import (
    largest_factor,
    largest_form,
    largest_forms,
    matrix_cost,
    matrix_scales,
    matrix_space,
    released_noise,
)
from dppca.common.kernel.privacy.noise.wishart import FRACTION_BITS
from dppca.common.kernel.privacy.noise_law import Noised, entry_weight
from dppca.common.kernel.schema.layout import ColumnKind, Layout
from tests.support.examples import examples
from tests.support.matrix_rows import (
    boxes,
    coded_row,
    layouts,
    make_ball,
    make_layout,
    packed_row,
    space_row,
)

ROUNDING = 2.0**-20  # of steps: what fixed-point divisions may leave
HEAVY_SQUARES = make_layout(["num", "num"], weight=Fraction(2), square_weight=64)


@settings(max_examples=examples(100))
@given(layout=layouts(), seed=st.integers(0, 2**32 - 1))
def test_no_two_rows_are_further_apart_than_the_sensitivity(layout: Layout, seed: int) -> None:
    rng = np.random.default_rng(seed)
    space = matrix_space(layout)

    for vertex in (True, False):
        for _ in range(20):
            u, v = (space_row(layout, coded_row(layout, rng, vertex=vertex)) for _ in "ab")
            moved = np.abs(np.linalg.eigvalsh(np.outer(u, u) - np.outer(v, v))).sum()
            replaced = matrix_space(layout, replaced=True)
            assert moved <= float(replaced.nuclear) * (1 + 1e-12)
            assert not layout.with_count or u @ u <= float(space.nuclear) * (1 + 1e-12)


@settings(max_examples=examples(60))
@given(layout=layouts(), counted=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_no_person_moves_more_than_the_sensitivity(layout: Layout, counted: int, seed: int) -> None:
    # A person's matrix is min(k, c) times the average of u u' over any number k of rows.
    rng, c = np.random.default_rng(seed), counted if layout.with_count else 1
    space, replaced = (
        matrix_space(layout, rows_counted=c, replaced=each) for each in (False, True)
    )

    def person() -> np.ndarray:
        k = int(rng.integers(1, 8))
        u = np.stack([space_row(layout, coded_row(layout, rng)) for _ in range(k)])
        return min(k, c) / k * (u.T @ u)

    for _ in range(20):
        first, other = person(), person()
        moved = np.abs(np.linalg.eigvalsh(first - other)).sum()
        assert moved <= float(replaced.nuclear) * (1 + 1e-12)
        assert not layout.with_count or np.trace(first) <= float(space.nuclear) * (1 + 1e-12)


@settings(max_examples=examples(60))
@given(layout=layouts(), seed=st.integers(0, 2**32 - 1))
@example(layout=make_ball(3, Fraction(3, 4)), seed=1)
@example(layout=make_ball(3, None), seed=2)
@example(layout=HEAVY_SQUARES, seed=3)
@example(layout=make_ball(3, Fraction(3, 4), counted=True), seed=4)
def test_release_is_a_function_of_the_noised_matrix(layout: Layout, seed: int) -> None:
    # A' - A in the place of Z has to move every entry from that of A to that of A': so the released
    # vector is computed from A + Z alone, whatever A is.
    rng = np.random.default_rng(seed)
    first, second = (coded_row(layout, rng, vertex=False) for _ in "ab")
    exact = [_exact_matrix(layout, each) for each in (first, second)]
    packed = [packed_row(layout, each) for each in (first, second)]
    if layout.with_count:  # three rows more of one kind, one less of the other
        exact, packed = ([each[0], 3 * each[1]] for each in (exact, packed))

    noise = released_noise(layout, exact[1] - exact[0]) / 2**FRACTION_BITS

    moved = packed[1] - packed[0]
    np.testing.assert_allclose(np.asarray(noise, float), moved, rtol=0, atol=ROUNDING)


@settings(max_examples=examples(60))
@given(layout=boxes(), seed=st.integers(0, 2**32 - 1))
def test_noise_outside_of_the_rows_space_is_not_used(layout: Layout, seed: int) -> None:
    # Adding to all columns of a block alike, or to the entry of the count, changes nothing.
    rng = np.random.default_rng(seed)
    side = layout.n_columns + 1
    drawn = rng.integers(-(2**60), 2**60, (side, side)).astype(object)
    drawn += drawn.T
    other = drawn.copy()
    if not layout.with_count:
        other[0, 0] += 2**60
    for start, stop in layout.groups:
        if layout.kinds[start] is ColumnKind.INDICATOR:
            along = np.zeros(side, dtype=object)
            along[start + 1 : stop + 1] = 1
            step = rng.integers(-(2**60), 2**60, side).astype(object)
            other += np.outer(along, step) + np.outer(step, along)

    noise = released_noise(layout, other) - released_noise(layout, drawn)

    np.testing.assert_allclose(np.asarray(noise, float) / 2**FRACTION_BITS, 0, atol=ROUNDING)


@settings(max_examples=examples(60))
@given(layout=layouts(), seed=st.integers(0, 2**32 - 1))
def test_divisions_round_by_less_than_three_units_times_the_largest_factor(
    layout: Layout, seed: int
) -> None:
    side = layout.n_columns + layout.with_sums
    drawn = np.random.default_rng(seed).integers(-(2**60), 2**60, (side, side)).astype(object)
    drawn += drawn.T

    noise = released_noise(layout, drawn)

    nearly_exact = released_noise(layout, drawn * 2**100)
    off = np.abs(noise * 2**100 - nearly_exact).max()
    assert off < 3 * largest_factor(layout) * 2**100


@settings(max_examples=examples(40))
@given(layout=layouts())
@example(layout=HEAVY_SQUARES)
def test_no_matrix_moves_an_entry_by_more_than_the_largest_factor(layout: Layout) -> None:
    # The norm of the map from Z to what is released, each entry of Z at its worst sign.
    side = layout.n_columns + layout.with_sums
    norm = np.zeros(layout.n_moments + layout.with_count)
    for i in range(side):
        for j in range(i, side):
            unit = np.zeros((side, side), dtype=object)
            unit[i, j] = unit[j, i] = 2**80
            norm += np.abs(np.asarray(released_noise(layout, unit) / 2**80, float))

    assert norm.max() <= float(largest_factor(layout)) * (1 + 1e-12)


@settings(max_examples=examples(40))
@given(layout=layouts())
@example(layout=HEAVY_SQUARES)
@example(layout=make_layout(["bin", 3, 3], counted=True))
def test_no_entry_varies_by_more_than_the_largest_form(layout: Layout) -> None:
    # <Z, Y> has the squared length of Y: diagonal entries count once, others by half of a square.
    side = layout.n_columns + layout.with_sums
    squares = np.zeros(layout.n_moments + layout.with_count)
    for i in range(side):
        for j in range(i, side):
            unit = np.zeros((side, side), dtype=object)
            unit[i, j] = unit[j, i] = 2**80
            moved = np.asarray(released_noise(layout, unit) / 2**80, float)
            squares += moved**2 / (1 + (i != j))

    largest = float(largest_form(layout))
    assert squares.max() <= largest * (1 + 1e-9)
    assert largest <= 2 * squares.max()
    for kind, form in largest_forms(layout).items():
        known = squares[kinds_of(layout) == kind] / entry_weight(kind, layout) ** 2
        assert (known <= float(form) * (1 + 1e-9)).all()
        # A pair of columns may be one that the layout lacks.
        meets = known.size and kind not in (Noised.PRODUCT, Noised.TARGET_PRODUCT)
        assert not meets or known.max() >= float(form) * (1 - 1e-9)


def kinds_of(layout: Layout) -> np.ndarray:
    """Return the kind of each sum and product, and of a secret number of rows."""
    i, j = layout.product_index
    places = np.array(layout.attribute_of)
    target = np.isin(places[i], layout.targets) | np.isin(places[j], layout.targets)
    heavy = target & (layout.target_weight > 1)
    products = np.where(
        i == j, Noised.SQUARE, np.where(heavy, Noised.TARGET_PRODUCT, Noised.PRODUCT)
    )
    return np.array([*[Noised.SUM] * layout.n_sums, *products, *[Noised.ROWS] * layout.with_count])


@settings(max_examples=examples(60))
@given(
    layout=layouts(),
    epsilon=st.fractions(Fraction(1, 1000), 20),
    rows=st.integers(1, 5),
    honest=st.integers(1, 40),
    people=st.sampled_from([None, 1, 3]),
)
def test_cost_is_below_epsilon_and_close_to_it(
    layout: Layout, epsilon: Fraction, rows: int, honest: int, people: int | None
) -> None:
    space = matrix_space(layout, rows_counted=people)
    facts = {"rows": rows, "honest": honest, "resolution_bits": layout.resolution_bits}

    scales = matrix_scales(space, epsilon=epsilon, **facts)

    cost = matrix_cost(space, scales, **facts)
    assert epsilon * Fraction(99, 100) < cost <= epsilon
    # Each part of the noise alone costs less than epsilon.
    assert 2 * epsilon * scales.scale > rows * space.nuclear * 4**layout.resolution_bits
    assert epsilon * scales.blanket > space.entries * (honest + space.divided)


def _exact_matrix(layout: Layout, row: np.ndarray) -> np.ndarray:
    """Return u u' of a row in steps, as integers in the units of a draw."""
    front = [layout.scaled_weight] if layout.with_sums else []
    u = [Fraction(int(each)) for each in [*front, *row]]
    if layout.unit_ball:
        return _units(u)
    for start, stop in layout.groups:
        scale = layout.target_weight if layout.attribute_of[start] in layout.targets else 1
        for column in range(start + 1, stop + 1):
            if layout.kinds[start] is ColumnKind.INDICATOR:
                u[column] -= Fraction(2**layout.resolution_bits, stop - start)
            u[column] *= scale
    return _units(u)


def _units(u: list[Fraction]) -> np.ndarray:
    return np.asarray([[round(a * b * 2**FRACTION_BITS) for b in u] for a in u], dtype=object)
