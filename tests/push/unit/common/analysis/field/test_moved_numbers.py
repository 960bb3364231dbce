"""Numbers of drawn rows are moved by what the release knows, and by no more than they may be."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dppca.common.analysis.field.moved_numbers import MovedNumbers, _least_move, fit_moves
from dppca.common.analysis.field.rows import FieldFit, fit_released
from dppca.common.analysis.field.targets import FieldTargets
from dppca.common.analysis.field.tilt import Counted
from dppca.common.kernel.moments.moments import (
    compute_moments,
    unpack,
    unpack_histograms,
    unpack_tables,
)
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.schema import Column, Schema, encode, find_cells, row_codes
from tests.support.examples import examples
from tests.support.noise import gaussian_tail

laplace_tail = partial(LaplaceLaw.tail_probability, n=1)
FALSE_ALARMS = 0.0  # all draws have seeds
N = 16_000
LABELS = [
    {"name": "ill", "type": "binary", "values": ["no", "yes"]},
    {"name": "ward", "type": "categorical", "categories": list("abc")},
]


def _schema(x: dict[str, Any], y: dict[str, Any] | None = None, **fields: Any) -> Schema:
    usual = {"type": "numeric", "lower": 0, "upper": 100}
    numbers = [{"name": "x", **usual, **x}, {"name": "y", **usual, **(x if y is None else y)}]
    return Schema.from_document(
        {"attributes": [*numbers, *LABELS], **fields, "resolution_bits": 14}
    )


def _people(deviation: float, r: float, *, whole: bool = False) -> list[Column]:
    rng = np.random.default_rng(3)
    u, v = rng.normal(size=(2, N))
    x, y = (50 + deviation * each for each in (u, r * u + np.sqrt(1 - r * r) * v))
    ill = (rng.random(N) < 0.3 / (1 + np.exp(-u))).astype(np.int32)
    numbers = [np.clip(np.rint(each) if whole else each, 0, 100) for each in (x, y)]
    return [*numbers, ill, rng.integers(0, 3, N).astype(np.int32)]


def _fit(schema: Schema, people: list[Column], noise: float, *, laplace: bool = False) -> FieldFit:
    layout = schema.layout
    packed = compute_moments(encode(schema, people), layout, find_cells(schema, people)).packed
    rng, width = np.random.default_rng(5), noise * N * 4**layout.resolution_bits
    drawn = rng.laplace(size=len(packed)) / np.sqrt(2) if laplace else rng.normal(size=len(packed))
    packed = packed + np.rint(width * drawn).astype(np.int64)
    mean, second = unpack(packed, N, layout)
    tables = zip(schema.partitions, unpack_tables(packed, N, layout), strict=True)
    fit = fit_released(
        schema,
        mean=mean,
        second=second,
        histograms=unpack_histograms(packed, N, layout),
        entry_noise=noise,
        n_rows=N,
        rng=np.random.default_rng(1),
        tail=laplace_tail if laplace else gaussian_tail,
        tables=[(partition, Counted(shares, noise)) for partition, shares in tables],
    )
    assert fit is not None
    assert fit.converged
    return fit


def _rows(fit: FieldFit, n: int = N) -> list[Column]:
    blocks = fit.blocks(n, rng=np.random.default_rng(2))
    return [np.concatenate(column) for column in zip(*blocks, strict=True)]


def _released_r(targets: FieldTargets) -> float:
    own = targets.released
    return float(own[0, 1] / np.sqrt(own[0, 0] * own[1, 1]))


@pytest.mark.parametrize("x", [{}, {"histogram": True, "bins": 20}, {"integer": True}])
@pytest.mark.parametrize(
    ("deviation", "r", "laplace"),
    [(10, 0.93, True), (5, 0.8, False), (2, 0.93, True), (10, -0.97, False)],
)
def test_two_numbers_have_the_correlation_that_is_released(
    x: dict[str, Any], deviation: float, r: float, laplace: bool
) -> None:
    schema = _schema(x)
    fit = _fit(schema, _people(deviation, r, whole="integer" in x), 1e-6, laplace=laplace)
    rows = _rows(fit)
    found = np.cov(np.array(rows[:2]) / 100, bias=True)
    if "histogram" in x:  # of which the values stay, so it is not known better than by its cells
        assert found[0, 1] == pytest.approx(fit.targets.released[0, 1], rel=0.03)
    else:
        r = found[0, 1] / np.sqrt(found[0, 0] * found[1, 1])
        assert r == pytest.approx(_released_r(fit.targets), abs=0.015)
    assert not [each.relation for each in fit.missed if each.relation == "x and y"]
    assert all((each >= 0).all() and (each <= 100).all() for each in rows[:2])
    if "integer" in x:
        assert all((each == np.rint(each)).all() for each in rows[:2])


def test_the_difference_of_near_equal_numbers_is_kept() -> None:
    """Days of admission and of discharge: a stay has days, not years."""
    rng = np.random.default_rng(4)
    people = _people(10, 0.5)
    people[0] = rng.uniform(0, 99, N)
    people[1] = np.clip(people[0] + rng.gamma(2, 0.1, N), 0, 100)
    fit = _fit(_schema({}), people, 1e-7)
    rows = _rows(fit)
    assert np.std(rows[1] - rows[0]) < 1.5
    assert np.mean(rows[1] - rows[0]) == pytest.approx(0.2, abs=0.2)


def test_numbers_that_are_related_as_they_should_be_are_not_moved() -> None:
    people = _people(25, 0.2)
    fit = _fit(_schema({}), people, 2e-3)
    assert fit.moves is None
    assert fit_moves(fit.schema, fit.targets, people, [], np.random.default_rng(1)) is None


def test_labels_stay_and_no_label_has_values_of_its_own() -> None:
    """The map knows numbers alone: rows that differ in labels only are moved alike."""
    people = _people(5, 0.93)
    fit = _fit(_schema({}), people, 1e-6)
    assert fit.moves is not None
    drawn = _people(5, 0.1)
    other = [*drawn[:2], 1 - drawn[2], (drawn[3] + 1) % 3]
    moved, again = (
        fit.moves.move(fit.schema, each, np.random.default_rng(1)) for each in (drawn, other)
    )
    for place in (0, 1):
        np.testing.assert_array_equal(moved[place], again[place])
    for place in (2, 3):
        assert moved[place] is drawn[place]


@pytest.mark.parametrize("n_rows", [1, 2, 50, 5000])
def test_numbers_with_a_histogram_keep_their_values(n_rows: int) -> None:
    fit = _fit(_schema({"histogram": True, "bins": 20}), _people(10, 0.97), 1e-5)
    assert fit.moves is not None
    drawn = [each[:n_rows] for each in _people(10, 0.5)]
    drawn[0] = drawn[0].copy()
    drawn[0][: n_rows // 10] = 0.0  # a heap
    moved = fit.moves.move(fit.schema, drawn, np.random.default_rng(1))
    for own, made in zip(drawn[:2], moved[:2], strict=True):
        np.testing.assert_array_equal(np.sort(own), np.sort(made))
    if n_rows > 50:
        own, made = (np.corrcoef(each[0], each[1])[0, 1] for each in (drawn, moved))
        assert made > own + 0.2


TREE = {"tree": [{"by": "x", "at_most": 45}, {}, {"by": "ward", "labels": ["a"]}, {}, {}]}


@pytest.mark.parametrize(
    "tables",
    [
        [{"table": ["x", "ill"]}],
        [{"table": ["x", "ill"]}, {"table": ["y", "ward"]}],
        [{"table": ["x", "y"]}],
        [{**TREE, "target": "ill"}],
    ],
)
def test_no_count_of_a_table_or_a_tree_changes(tables: list[dict[str, Any]]) -> None:
    schema = _schema({"bins": 8}, tables=tables)
    fit = _fit(schema, _people(10, 0.97), 1e-5)
    drawn = _people(12, 0.4)
    moves = fit_moves(schema, fit.targets, drawn, schema.partitions, np.random.default_rng(1))
    assert moves is not None
    moved = moves.move(schema, drawn, np.random.default_rng(1))
    for partition in schema.partitions:
        cells = [partition.find(row_codes(schema, each)) for each in (drawn, moved)]
        np.testing.assert_array_equal(cells[0], cells[1])
    assert any(not np.array_equal(*each) for each in zip(drawn, moved, strict=True))


def test_missing_values_stay_missing() -> None:
    people = _people(10, 0.95)
    people[0] = np.where(np.arange(N) % 5 == 0, np.nan, people[0])
    schema = _schema({"histogram": True, "bins": 20, "missing": "level"}, {})
    fit = _fit(schema, people, 1e-6)
    drawn = _people(10, 0.2)
    drawn[0] = np.where(np.arange(N) % 7 == 0, np.nan, drawn[0])
    moves = fit_moves(schema, fit.targets, drawn, [], np.random.default_rng(1))
    assert isinstance(moves, MovedNumbers)
    moved = moves.move(schema, drawn, np.random.default_rng(1))
    np.testing.assert_array_equal(np.isnan(moved[0]), np.isnan(drawn[0]))
    assert np.isfinite(moved[1]).all()


def _covariance(seed: int, k: int) -> NDArray[np.float64]:
    root = np.random.default_rng(seed).normal(size=(k, k + 2))
    found: NDArray[np.float64] = root @ root.T
    return found


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(2, 6))
def test_the_map_gives_the_covariance_and_is_symmetric_as_the_nearest_one_is(
    one: int, other: int, k: int
) -> None:
    before, goal = _covariance(one, k), _covariance(other, k)
    found = _least_move(before, goal, 1e-9)
    np.testing.assert_allclose(found.T @ before @ found, goal, atol=1e-5 * np.abs(goal).max())
    # In units of the deviations, a nearest map is symmetric and has no eigenvalue below 0.
    sizes = np.sqrt(before.diagonal()), np.sqrt(goal.diagonal())
    unit = found * sizes[0][:, None] / sizes[1]
    np.testing.assert_allclose(unit, unit.T, atol=1e-6 * np.abs(unit).max())
    assert np.linalg.eigvalsh((unit + unit.T) / 2)[0] > -1e-6
