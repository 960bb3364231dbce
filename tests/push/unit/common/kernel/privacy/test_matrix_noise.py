"""Matrix noise: its densities in small, sensitivities that rows meet, prices and variances."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.special import kv, roots_laguerre

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.matrix_noise import (
    MatrixScales,
    MatrixSpace,
    largest_factor,
    largest_forms,
    matrix_cost,
    matrix_scales,
    matrix_space,
    released_noise,
    round_noise,
)
from dppca.common.kernel.privacy.noise.wishart import FRACTION_BITS, LARGEST_SIDE
from dppca.common.kernel.privacy.noise_law import Noised
from dppca.common.kernel.schema.layout import ColumnKind, Layout
from tests.support.matrix_rows import coded_row, make_ball, make_layout, space_row

FALSE_ALARMS = 0.0  # all that is random has a seed


def nuclear(u: np.ndarray, v: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvalsh(np.outer(u, u) - np.outer(v, v))).sum())


def log_density(z: np.ndarray, nodes: int = 60) -> float:
    """Log density of Z for d = 2, m = 3 and c = 1, up to a constant: a = 0 in the head's proof."""
    low, high = np.linalg.eigvalsh(z)
    x, weights = roots_laguerre(nodes)
    first, second = x[:, None] + max(high, 0.0), x[None, :] + max(low, 0.0)
    room = np.minimum(first * second, (first - high) * (second - low))
    integral = (weights[:, None] * weights * np.sqrt(np.maximum(room, 0))).sum()
    return float(np.log(integral) - (abs(low) + abs(high)) / 2)


def test_density_in_two_dimensions_moves_by_no_more_than_half_the_nuclear_norm() -> None:
    rng = np.random.default_rng(3)
    closest = -np.inf
    for _ in range(400):
        z, d = (_symmetric(rng) for _ in "zd")
        moved = log_density(z) - log_density(z + d) - np.abs(np.linalg.eigvalsh(d)).sum() / 2
        closest = max(closest, moved)
        assert moved < 1e-3  # of quadrature
    assert closest > -0.1


def test_bound_is_met_far_out() -> None:
    z, d = np.diag([900.0, -900.0]), np.diag([1.0, -1.0])

    assert log_density(z) - log_density(z + d) == pytest.approx(1.0, abs=1e-3)


def test_density_of_draws_is_the_one_of_the_proof() -> None:
    # Eigenvalues of both signs, or of one: their share by the density, and among draws.
    rng, n = np.random.default_rng(4), 200_000
    g, h = rng.standard_normal((2, n, 2, 3))
    drawn = np.linalg.eigvalsh(g @ g.swapaxes(1, 2) - h @ h.swapaxes(1, 2))
    share = np.mean((drawn[:, 0] < 0) & (drawn[:, 1] > 0))
    grid = (np.arange(-60, 60) + 0.5) / 2
    low, high = np.meshgrid(grid, grid, indexing="ij")
    kept = high > low
    densities = np.zeros_like(low)
    for place in zip(*np.nonzero(kept), strict=True):
        z = np.diag([low[place], high[place]])
        densities[place] = np.exp(log_density(z, 12)) * (high[place] - low[place])
    mixed = densities[(low < 0) & (high > 0)].sum() / densities.sum()

    assert share == pytest.approx(mixed, abs=0.008)


def test_one_column_less_is_not_private() -> None:
    # d = 1 and m = 1: the difference of two chi-squares of one degree has the density K_0(|z| / 2).
    moved = np.log(kv(0, 1e-9)) - np.log(kv(0, 0.5 * 0.1))

    assert moved > 10 * 0.1 / 2
    assert matrix_space(make_ball(1, None)).columns == 2


@pytest.mark.parametrize(
    "attributes", [["num"] * 8, ["bin"] * 15 + [3], ["mis", 5, 2, 3, "bin"] * 2]
)
def test_some_rows_come_close_to_the_sensitivity_of_a_box(attributes: list[str | int]) -> None:
    layout, rng = make_layout(attributes), np.random.default_rng(6)
    rows = [space_row(layout, coded_row(layout, rng)) for _ in range(100)]

    found = max(nuclear(u, v) for u in rows for v in rows)

    assert (
        0.998 * float(matrix_space(layout).nuclear) < found <= float(matrix_space(layout).nuclear)
    )


@pytest.mark.parametrize("weight", [None, Fraction(1, 2), Fraction(1), Fraction(3)])
def test_rows_meet_the_sensitivity_of_a_ball(weight: Fraction | None) -> None:
    space, rng = matrix_space(make_ball(3, weight)), np.random.default_rng(7)
    front = [] if weight is None else [float(weight)]
    found = 0.0
    for z in np.linspace(-1, 1, 401):
        u, v = np.array([1.0, 0, 0]), np.array([z, np.sqrt(1 - z * z), 0])
        found = max(found, nuclear(np.r_[front, u], np.r_[front, v]))
    for _ in range(2000):
        u, v = rng.normal(size=(2, 3))
        u, v = (each / max(1, np.linalg.norm(each)) for each in (u, v))
        assert nuclear(np.r_[front, u], np.r_[front, v]) <= float(space.nuclear) + 1e-9
    assert found == pytest.approx(float(space.nuclear), rel=1e-4)


def test_space_counts_what_moves() -> None:
    layout = make_layout(["num", "bin", 3, "mis"], targets=(2,), target_weight=2)

    space = matrix_space(layout)

    assert (space.side, space.rank, space.columns) == (8, 7, 8)
    assert space.nuclear == 2 * (Fraction(9, 16) + Fraction(3, 4) + 4 * Fraction(2, 3))
    assert space.counts == 0
    assert space.entries == layout.n_moments


def test_counts_of_cells_share_epsilon() -> None:
    kinds = (ColumnKind.NUMERIC,) * 2
    with_cells = Layout(
        kinds,
        (0, 1),
        10,
        2**9,
        histograms=((0, 4),),
        histogram_unit=2**20,
        tables=(3, 5),
        table_unit=2**19,
    )

    space = matrix_space(with_cells)
    scales = matrix_scales(space, epsilon=Fraction(1), rows=1, honest=1, resolution_bits=10)

    assert space.counts == 2 * (1 + 2 * Fraction(1, 2))
    # A count of weight 1 has the deviation of a product: sqrt(2) b_c = sqrt(2 m) c.
    assert scales.counts_scale == pytest.approx(scales.scale * space.columns**0.5, rel=1e-6)


def test_histograms_without_tables_and_tables_without_histograms_move_counts() -> None:
    layout = make_layout(["num", "num"])

    with_histograms = replace(layout, histograms=((0, 4), (1, 3)), histogram_unit=3 * 2**19)
    with_tables = replace(layout, tables=(6,), table_unit=2**19)

    assert matrix_space(with_histograms).counts == 2 * 2 * Fraction(3, 2)
    assert matrix_space(with_tables).counts == 2 * Fraction(1, 2)


@pytest.mark.parametrize(
    ("space", "scales", "rows", "honest", "bits", "cost"),
    [
        # k N 4^g / (2 c) + D h / b + k L 4^g / b_c = 16/160 + 9/27 + 8/56
        ((2, 1, 3), (80, 27, 56), 2, 3, 1, Fraction(1, 10) + Fraction(1, 3) + Fraction(1, 7)),
        # 2/10 + 2/16, and no cells
        ((2, 0, 2), (5, 16, 0), 1, 1, 0, Fraction(1, 5) + Fraction(1, 8)),
        # N 4^g = 4.5 and L 4^g = 1.5 steps are rounded up, before they are times k = 3
        (
            (Fraction(9, 8), Fraction(3, 8), 1),
            (30, 20, 60),
            3,
            5,
            1,
            Fraction(15, 60) + Fraction(5, 20) + Fraction(6, 60),
        ),
    ],
)
def test_cost_is_the_one_worked_out_by_hand(
    space: tuple[Fraction, Fraction, int],
    scales: tuple[int, int, int],
    rows: int,
    honest: int,
    bits: int,
    cost: Fraction,
) -> None:
    nuclear, counts, entries = space
    moved = MatrixSpace(4, 4, Fraction(nuclear), Fraction(counts), entries)

    found = matrix_cost(
        moved, MatrixScales(*scales), rows=rows, honest=honest, resolution_bits=bits
    )

    assert found == cost


def test_scale_is_above_the_one_worked_out_by_hand() -> None:
    # Two numbers of weight 1/2: N = 2 (1/4 + 1/4 + 1/4) = 3/2, D = 2 + 3, m = 4.
    space = matrix_space(make_layout(["num", "num"], weight=Fraction(1, 2)))

    scales = matrix_scales(space, epsilon=Fraction(1, 2), rows=3, honest=4, resolution_bits=10)

    # 3 (3/2) 4^10 / (2 (1/2)), and 5 times 4 over 1/2
    assert Fraction(9, 2) * 4**10 < scales.scale < Fraction(9, 2) * 4**10 * Fraction(1001, 1000)
    assert scales.blanket > 40


@pytest.mark.parametrize("bits", [2, 6, 14])
def test_no_other_share_of_the_blanket_makes_less_noise(bits: int) -> None:
    # D and h are large beside N: the blanket takes up to half of epsilon.
    space = MatrixSpace(9, 8, Fraction(5), Fraction(3), 44)

    scales = matrix_scales(space, epsilon=Fraction(1), rows=1, honest=20, resolution_bits=bits)

    def noise(share: float) -> float:
        scale = (5 * 4**bits / 2 + 3 * 4**bits / 3) / (1 - share)
        return float(9 * scale**2 + (44 * 20 / share) ** 2)

    least = min(noise(share) for share in np.geomspace(1e-4, 0.999, 20_000))
    found = 9 * scales.scale**2 + scales.blanket**2
    assert found == pytest.approx(least, rel=0.01 if bits == 2 else 1e-3)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"epsilon": Fraction(0)}, "epsilon must be"),
        ({"epsilon": Fraction(-1)}, "epsilon must be"),
        ({"epsilon": 0.5}, "epsilon must be"),
        ({"rows": 0}, "rows is 0"),
        ({"rows": 1.5}, "rows must be an integer"),
        ({"honest": 0}, "honest is 0"),
        ({"honest": 2**15 + 1}, "honest is 32769"),
        ({"honest": True}, "honest must be an integer"),
        # One after the other, each of c, b and b_c alone is too large.
        ({"nuclear": Fraction(2**50)}, "cannot be drawn"),
        ({"entries": 2**52}, "cannot be drawn"),
        ({"counts": Fraction(2**38), "side": 1, "rank": 2**20}, "cannot be drawn"),
    ],
)
def test_scales_of_wrong_arguments_or_beyond_what_is_drawn_are_refused(
    wrong: dict[str, Any], reason: str
) -> None:
    facts = {"side": 3, "rank": 3, "nuclear": Fraction(1), "counts": Fraction(0), "entries": 5}
    asked = {"epsilon": Fraction(1, 1000), "rows": 1, "honest": 2, "resolution_bits": 10}
    own = {name: wrong.get(name, value) for name, value in asked.items()}
    space = MatrixSpace(**{name: wrong.get(name, value) for name, value in facts.items()})

    with pytest.raises(SettingError, match=reason):
        matrix_scales(space, **own)


def test_grid_finer_by_eight_bits_makes_the_blanket_cost_little() -> None:
    # D and N of NLTCS and Adult; at 14 bits deviations are within a thousandth of those without it.
    for space in (
        MatrixSpace(17, 17, Fraction(10), Fraction(0), 136),
        MatrixSpace(107, 98, Fraction(919, 50), Fraction(0), 4368),
    ):
        for honest in (1, 3, 10, 30):
            scales = matrix_scales(
                space, epsilon=Fraction(1), rows=1, honest=honest, resolution_bits=14
            )
            free = space.nuclear * 4**14 / 2
            variance = 2 * space.columns * scales.scale**2 + 2 * scales.blanket**2
            assert variance <= (1.001 * float(free)) ** 2 * 2 * space.columns


def test_squares_have_twice_the_variance_of_products_and_labels_gain_from_their_block() -> None:
    layout, n = make_layout(["num", "bin", 5, "num"]), 2000
    rng, side = np.random.default_rng(9), layout.n_columns + 1
    m = matrix_space(layout).columns
    g, h = rng.standard_normal((2, n, side, m))
    z = (g @ g.swapaxes(1, 2) - h @ h.swapaxes(1, 2)) * 2.0**FRACTION_BITS
    noise = (
        np.stack([np.asarray(released_noise(layout, _integers(each)), float) for each in z])
        / 2.0**FRACTION_BITS
    )

    variances, sums = noise.var(axis=0) / (2 * m), layout.n_sums
    i, j = layout.product_index
    squares = sums + np.flatnonzero(i == j)
    scalars = [0, 1, 7]
    between = sums + np.flatnonzero(np.isin(i, scalars) & np.isin(j, scalars) & (i != j))
    assert variances[squares] == pytest.approx(2, rel=0.2)
    assert variances[[*scalars, *between]] == pytest.approx(1, rel=0.2)
    # (3): 4 m |Y|^2 with |Y|^2 = w^2 (1 - 1/K) / (2 w^2 + 1 - 2/K), in units of 2 m.
    weight = 9 / 16
    assert variances[2:7] == pytest.approx(2 * weight * 0.8 / (2 * weight + 0.6), rel=0.2)
    assert np.abs(noise[:, 2:7].sum(axis=1)).max() < 1e-6
    assert (
        np.abs(noise).max() <= float(largest_factor(layout)) * np.abs(z).max() / 2.0**FRACTION_BITS
    )


def test_noise_is_rounded_to_the_nearest_step_and_halves_upwards() -> None:
    half = 2 ** (FRACTION_BITS - 1)
    noise = np.asarray([0, half, half - 1, -half, -half - 1, 3 * half, 2**80 * 2], dtype=object)

    assert round_noise(noise).tolist() == [0, 1, 0, 0, -1, 2, 2 ** (81 - FRACTION_BITS)]


def test_release_of_tables_alone_has_no_matrix() -> None:
    layout = Layout(
        (ColumnKind.BINARY,),
        (0,),
        10,
        2**10,
        with_sums=False,
        with_products=False,
        tables=(2,),
        table_unit=2**20,
    )

    with pytest.raises(SettingError, match="products"):
        matrix_space(layout)


def test_secret_number_of_rows_needs_the_sums_whose_constant_counts_them() -> None:
    layout = replace(make_ball(3, None), count_unit=4**10)

    with pytest.raises(SettingError, match="secret number of rows needs column sums"):
        matrix_space(layout)


def test_people_and_secret_numbers_move_what_is_worked_out_by_hand() -> None:
    # w = 3/4, a number, a binary and a block of 3: |u|^2 <= 9/16 + 1/4 + 1/4 + 2/3 = 83/48.
    layout = replace(
        make_layout(["num", "bin", 3], counted=True), tables=(6, 4), table_unit=2**19
    )  # each cell weighs 1/2
    open_layout = replace(layout, count_unit=0)
    one, step = Fraction(83, 48), 4**10

    def found(layout: Layout, **asked: Any) -> tuple[Any, ...]:
        space = matrix_space(layout, **asked)
        return space.nuclear, space.changes(10)[1], space.entries, space.divided

    moments = layout.n_moments
    assert found(open_layout) == (2 * one, 2 * step, moments, 0)
    assert found(open_layout, rows_counted=1) == (2 * one, 2 * step + 10, moments, 1)
    assert found(layout) == (one, step, moments + 1, 0)
    assert found(layout, replaced=True) == (2 * one, 2 * step, moments + 1, 0)
    assert found(layout, rows_counted=3) == (3 * one, 3 * step + 10, moments + 1, 1)
    assert found(layout, rows_counted=3, replaced=True) == (6 * one, 6 * step + 10, moments + 1, 1)


@pytest.mark.parametrize("weight", [Fraction(1, 2), Fraction(8)])
def test_replaced_rows_of_the_ball_move_no_less_than_added_ones(weight: Fraction) -> None:
    # 2 (1 + w^2) or 4 w; 1 + w^2 for an added row, which is more from w = 2 + sqrt(3) on.
    ball = make_ball(3, weight, counted=True)

    assert matrix_space(ball).nuclear == 1 + weight**2
    assert matrix_space(ball, replaced=True).nuclear == max(
        1 + weight**2, 4 * weight if weight > 1 else 2 + 2 * weight**2
    )


def test_noise_of_the_number_of_rows_is_what_all_that_counts_them_leaves() -> None:
    # w = 1: q = 1 + 2/16 + 2/9 for two binaries and a block of 3, and targets count s^4 times.
    layout = make_layout(["bin", "num", 3, "bin"], weight=Fraction(1), counted=True)
    weighted = replace(layout, targets=(2, 3), target_weight=2)

    assert largest_forms(layout)[Noised.ROWS] == 1 / (1 + Fraction(2, 16) + Fraction(2, 9))
    assert largest_forms(weighted)[Noised.ROWS] == 1 / (1 + Fraction(17, 16) + 16 * Fraction(2, 9))
    assert largest_forms(make_ball(2, Fraction(1, 2), counted=True))[Noised.ROWS] == 16


def test_sums_over_people_pay_for_one_more_rounding() -> None:
    # 16/160 + 9 (3 + 1)/72 + (8 + 5)/52: N, D and L of people, whose 5 cells move by a step more.
    space = MatrixSpace(4, 4, Fraction(4), Fraction(2), 9, cells=5, divided=1)

    found = matrix_cost(space, MatrixScales(80, 72, 52), rows=1, honest=3, resolution_bits=1)

    assert found == Fraction(1, 10) + Fraction(1, 2) + Fraction(1, 4)


def test_weights_that_leave_too_few_digits_are_refused() -> None:
    fits = make_layout(["num", "num"], weight=Fraction(1, 2**12), resolution_bits=14)
    light = replace(fits, scaled_weight=1)

    assert largest_factor(fits) < 2**30 < largest_factor(light)
    assert matrix_space(fits).entries == 5
    with pytest.raises(SettingError, match="too few digits"):
        matrix_space(light)


@pytest.mark.parametrize(
    ("layout", "most"),
    [
        (make_layout(["bin"] * LARGEST_SIDE), LARGEST_SIDE - 1),
        (make_ball(LARGEST_SIDE, Fraction(1)), LARGEST_SIDE - 1),
        (make_ball(LARGEST_SIDE + 1, None), LARGEST_SIDE),
    ],
)
def test_too_many_columns_are_refused_with_the_reason(layout: Layout, most: int) -> None:
    with pytest.raises(SettingError, match=f"{most} columns at most, not {most + 1}"):
        matrix_space(layout)


def test_ball_without_sums_may_have_one_column_more() -> None:
    assert matrix_space(make_ball(LARGEST_SIDE, None)).side == LARGEST_SIDE


def _integers(z: np.ndarray) -> np.ndarray:
    return np.asarray([[int(each) for each in row] for row in z], dtype=object)


def _symmetric(rng: np.random.Generator) -> np.ndarray:
    a, b, c = rng.normal(size=3) * np.exp(rng.uniform(-3, 1.5, 3))
    return np.array([[a, c], [c, b]])
