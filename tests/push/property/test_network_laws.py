"""Networks: what one row can do to scores and counts, by enumeration; designs; sets of parents."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import chain, combinations, product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dppca.common.papers.networks.covering import choose_design, design_cost, plane_design
from dppca.common.papers.networks.dependence import (
    dependence,
    dependence_sensitivity,
    family_scores,
)
from dppca.common.papers.networks.frontier import correlation, largest_sets
from dppca.common.papers.networks.noised_counts import count_sets, counts_sensitivity, maximal_sets

Counts = NDArray[np.int64]


def tables(n_rows: int, n_cells: int) -> Iterator[tuple[int, ...]]:
    """Every way to have so many rows in so many cells."""
    if n_cells == 1:
        yield (n_rows,)
        return
    for first in range(n_rows + 1):
        for rest in tables(n_rows - first, n_cells - 1):
            yield (first, *rest)


def neighbours(table: Counts) -> Iterator[Counts]:
    """Every table that one replaced row makes of another."""
    for left, entered in product(range(table.size), repeat=2):
        if table.flat[left] and left != entered:
            other = table.copy()
            other.flat[left] -= 1
            other.flat[entered] += 1
            yield other


def largest_move(n_rows: int, shape: tuple[int, int]) -> int:
    return max(
        abs(dependence(table) - dependence(other))
        for cells in tables(n_rows, prod(shape))
        for table in [np.array(cells, np.int64).reshape(shape)]
        for other in neighbours(table)
    )


@pytest.mark.parametrize(
    ("n_rows", "shape"),
    [(2, (2, 2)), (5, (2, 2)), (9, (2, 2)), (6, (3, 2)), (4, (4, 2))],
)
def test_a_row_moves_the_score_of_a_binary_by_four_times_n_less_four(
    n_rows: int, shape: tuple[int, int]
) -> None:
    """Every table: the bound of 4 n is never passed, and is met but for 4."""
    assert largest_move(n_rows, shape) == 4 * n_rows - 4
    assert dependence_sensitivity(n_rows, child_sizes=[2]) == 4 * n_rows


@pytest.mark.parametrize(("n_rows", "shape"), [(3, (3, 3)), (4, (3, 3)), (3, (4, 3))])
def test_a_row_moves_any_score_by_six_times_n_at_most(n_rows: int, shape: tuple[int, int]) -> None:
    assert largest_move(n_rows, shape) <= dependence_sensitivity(n_rows, child_sizes=[2, 3])


def test_large_even_tables_come_near_the_bound() -> None:
    even = np.full((40, 40), 2, np.int64)
    other = even.copy()
    other[0, 0] -= 1
    other[1, 1] += 1
    bound = dependence_sensitivity(int(even.sum()), child_sizes=[40])
    assert 0.95 * bound < abs(dependence(even) - dependence(other)) <= bound


CODES = st.integers(1, 30).flatmap(
    lambda n: st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=n, max_size=n)
)


@given(rows=CODES)
def test_more_parents_never_lower_the_score(rows: list[tuple[int, ...]]) -> None:
    codes = np.array(rows, np.int64)
    few, more = family_scores(codes, [(0, (1,)), (0, (1, 2))], [3] * 4)
    assert few <= more <= 2 * len(codes) ** 2


@given(rows=CODES)
def test_the_score_is_two_n_squared_times_the_distance_from_independence(
    rows: list[tuple[int, ...]],
) -> None:
    codes = np.array(rows, np.int64)
    joint = Counter((row[0], row[1:3]) for row in rows)
    child, parents = Counter(row[0] for row in rows), Counter(row[1:3] for row in rows)
    n = len(rows)
    distance = sum(
        abs(joint[x, p] / n - child[x] * parents[p] / n**2) for x in child for p in parents
    )
    (found,) = family_scores(codes, [(0, (1, 2))], [3] * 4)
    assert found == pytest.approx(n**2 * distance, abs=1e-6)


SETS = st.lists(
    st.sets(st.integers(0, 3), min_size=1, max_size=3).map(lambda each: tuple(sorted(each))),
    min_size=1,
    max_size=4,
)


@given(rows=CODES, other=st.tuples(*[st.integers(0, 2)] * 4), sets=SETS, data=st.data())
def test_a_row_moves_the_counts_by_two_for_each_table(
    rows: list[tuple[int, ...]], other: tuple[int, ...], sets: list[Any], data: Any
) -> None:
    replaced = rows.copy()
    replaced[data.draw(st.integers(0, len(rows) - 1))] = other
    moved = [
        count_sets(np.array(rows), each, [3] * 4) - count_sets(np.array(replaced), each, [3] * 4)
        for each in sets
    ]
    bound = counts_sensitivity(len(sets))
    assert sum(np.abs(each).sum() for each in moved) <= bound.l1
    assert sum((each**2).sum() for each in moved) <= bound.l2_squared


def test_rows_without_a_common_value_meet_the_bound_of_the_counts() -> None:
    sets = [(0, 1), (2,), (0, 2)]
    one, two = np.zeros((1, 3), np.int64), np.ones((1, 3), np.int64)
    moved = [count_sets(one, each, [2] * 3) - count_sets(two, each, [2] * 3) for each in sets]
    assert sum(np.abs(each).sum() for each in moved) == counts_sensitivity(3).l1 == 6


def pairs_covered(design: tuple[tuple[int, ...], ...]) -> Counter[tuple[int, int]]:
    return Counter(chain.from_iterable(combinations(block, 2) for block in design))


@given(sizes=st.lists(st.integers(2, 9), min_size=2, max_size=40))
def test_a_design_has_every_pair_in_exactly_one_block(sizes: list[int]) -> None:
    design = choose_design(sizes)
    every = set(combinations(range(len(sizes)), 2))
    assert pairs_covered(design) == dict.fromkeys(every, 1)
    pairs = tuple(combinations(range(len(sizes)), 2))
    assert design_cost(design, sizes) <= design_cost(pairs, sizes)


@pytest.mark.parametrize("q", [2, 3, 4, 5, 7, 8, 9, 11, 13, 16])
@pytest.mark.parametrize("whole", [True, False])
def test_lines_of_every_plane_cover_whole_and_cut_squares_once(q: int, whole: bool) -> None:
    for d in {q + 1, q * (q - 1) + 1, q * q - 1, q * q}:
        covered = pairs_covered(plane_design(d, q, whole_columns=whole))
        assert set(covered.values()) == {1}
        assert len(covered) == d * (d - 1) // 2


def test_sixteen_binaries_are_covered_by_the_twenty_lines_of_four_by_four() -> None:
    design = choose_design([2] * 16)
    assert Counter(map(len, design)) == {4: 20}
    assert design_cost(design, [2] * 16) == 20**2 * 4


@given(
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=6),
    most_cells=st.integers(0, 60),
    most_members=st.integers(0, 4),
)
def test_parents_are_the_largest_sets_that_are_allowed(
    sizes: list[int], most_cells: int, most_members: int
) -> None:
    near = list(range(len(sizes)))
    allowed = {
        each
        for size in range(min(most_members, len(near)) + 1)
        for each in combinations(near, size)
        if not each or prod(sizes[member] for member in each) <= most_cells
    }
    largest = {each for each in allowed if not any(set(each) < set(other) for other in allowed)}
    found = largest_sets(near, tuple(sizes), most_cells=most_cells, most_members=most_members)
    assert len(found) == len(set(found))
    assert set(found) == largest


@given(sets=SETS)
def test_maximal_sets_hold_all_and_none_holds_another(sets: list[tuple[int, ...]]) -> None:
    kept = maximal_sets(sets)
    assert all(any(set(each) <= set(holder) for holder in kept) for each in sets)
    assert not any(set(a) < set(b) for a in kept for b in kept)
    assert set(kept) <= set(sets)
    assert len(kept) == len(set(kept))


def test_noise_alone_has_no_correlation_in_the_mean() -> None:
    """Equation (2) of the frontier: uneven marginals, independent, noise of a known variance."""
    rng = np.random.default_rng(0)
    n, sd = 100_000, 400.0
    exact = n * np.outer([0.5, 0.3, 0.1, 0.1], [0.7, 0.2, 0.1])
    noisy = [
        np.rint(exact + rng.normal(scale=sd, size=(4, 3))).astype(np.int64) for _ in range(4_000)
    ]
    raw = np.mean([correlation(each, cell_variance=0.0) for each in noisy])
    squared = partial(correlation, cell_variance=sd**2)
    # Cut at 0, what remains in the mean is about a fifth of what noise would add.
    assert np.mean([squared(each) for each in noisy]) < 0.35 * raw
    twice = [np.array([[40_000, 10_000], [10_000, 40_000]])]
    assert correlation(twice[0], cell_variance=0.0) == pytest.approx(0.36)
