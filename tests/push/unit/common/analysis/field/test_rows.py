"""Rows of a field whose numerics have released histograms: two humps, spikes, heaped numbers."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.analysis.field.cell_values import draw_in_cells
from dppca.common.analysis.field.rows import FieldFit, fit_released
from dppca.common.analysis.field.tilt import Counted
from dppca.common.kernel.moments.moments import (
    compute_moments,
    unpack,
    unpack_histograms,
    unpack_tables,
)
from dppca.common.kernel.schema import Schema, encode, find_cells
from tests.support.faults import find_faults
from tests.support.noise import gaussian_tail

N = 40_000
People = tuple[NDArray[np.float64] | NDArray[np.int32], ...]
NUMERICS = {
    "humps": {"lower": -10, "upper": 10},
    "money": {"lower": 0, "upper": 1e5, "score": "log", "spikes": [0]},
    "hours": {"lower": 1, "upper": 99, "integer": True},
    "visits": {"lower": 0, "upper": 500, "integer": True, "score": "log", "spikes": [0]},
}


def _schema() -> Schema:
    numerics = [
        {"name": name, "type": "numeric", "histogram": True, **fields}
        for name, fields in NUMERICS.items()
    ]
    group = {"name": "group", "type": "binary", "values": ["a", "b"]}
    return Schema.from_document({"attributes": [*numerics, group]})


@cache
def _people() -> People:
    """Four in ten are of group b, which settles the hump nearly alone."""
    rng = np.random.default_rng(8)
    group = rng.random(N) < 0.4
    mostly = np.where(rng.random(N) < 0.9, group, ~group)
    humps = np.where(mostly, rng.normal(-4, 0.7, N), rng.normal(2, 1.2, N))
    money = np.where(rng.random(N) < 0.5, 0.0, np.exp(rng.normal(6 + group, 1.2)))
    hours = np.where(rng.random(N) < 0.5, 40.0, np.rint(rng.normal(35 + 10 * group, 9)))
    visits = np.where(rng.random(N) < 0.3, 0.0, rng.geometric(0.1, N))
    columns = zip((humps, money, hours, visits), NUMERICS.values(), strict=True)
    return (*(np.clip(x, f["lower"], f["upper"]) for x, f in columns), np.int32(group))


def _fit(schema: Schema, noise: float, seed: int = 1, *, people: People | None = None) -> FieldFit:
    people, layout = people or _people(), schema.layout
    moments = compute_moments(encode(schema, people), layout, find_cells(schema, people))
    rng = np.random.default_rng(seed)
    drawn = rng.normal(scale=noise * N * 4**layout.resolution_bits, size=len(moments.packed))
    packed = moments.packed + np.rint(drawn).astype(np.int64)
    mean, second = unpack(packed, N, layout)
    fit = fit_released(
        schema,
        mean=mean,
        second=second,
        histograms=unpack_histograms(packed, N, layout),
        entry_noise=noise,
        n_rows=N,
        rng=rng,
        tail=gaussian_tail,
        tables=[
            (partition, Counted(shares, noise))
            for partition, shares in zip(
                schema.partitions, unpack_tables(packed, N, layout), strict=True
            )
        ],
    )
    assert fit is not None
    return fit


def _rows(fit: FieldFit, n: int = 20_000) -> list[NDArray[np.float64] | NDArray[np.int32]]:
    blocks = fit.blocks(n, rng=np.random.default_rng(2))
    return [np.concatenate(column) for column in zip(*blocks, strict=True)]


def _distances(rows: list[NDArray[np.float64] | NDArray[np.int32]]) -> list[float]:
    """Total variation of 20 equal bins from the people's own, for each numeric."""
    found = []
    for made, own, fields in zip(rows, _people(), NUMERICS.values(), strict=False):
        edges = np.linspace(fields["lower"], fields["upper"], 21)
        shares = [np.histogram(each, edges)[0] / len(each) for each in (made, own)]
        found.append(float(np.abs(shares[0] - shares[1]).sum() / 2))
    return found


@pytest.mark.parametrize(
    ("noise", "most"),
    [(1e-4, (0.004, 0.002, 0.004, 0.01)), (0.002, (0.02, 0.01, 0.035, 0.02))],
)
def test_numerics_have_the_shape_of_their_histograms(noise: float, most: tuple[float, ...]) -> None:
    schema = _schema()
    fit = _fit(schema, noise)
    assert fit.converged
    rows = _rows(fit)
    assert (np.array(_distances(rows)) < most).all()
    for faults in find_faults(schema, rows).values():
        assert not (faults.missing | faults.invalid | faults.out).any()
    for index, value in ((1, 0.0), (2, 40.0), (3, 0.0)):
        expected = (_people()[index] == value).mean()
        assert (rows[index] == value).mean() == pytest.approx(expected, abs=5 * noise + 1e-3)
        if index > 1:
            np.testing.assert_array_equal(rows[index], np.rint(rows[index]))
    if noise == 1e-4:
        own, made = (np.corrcoef(encode(schema, each).T) for each in (_people(), rows))
        np.testing.assert_allclose(made, own, atol=0.04)


@pytest.mark.parametrize("counted", [{"products": "bins"}, {"histogram": True}])
def test_a_heap_inside_a_wide_bin_is_lost_unless_it_is_a_spike(counted: dict[str, object]) -> None:
    hours = {"name": "hours", "type": "numeric", **NUMERICS["hours"], "bins": 14, **counted}
    group = {"name": "group", "type": "binary", "values": ["a", "b"]}
    _, _, worked, _, groups = _people()
    expected = (worked == 40).mean()
    found = {}
    for spikes in (None, [40, 80]):
        schema = Schema.from_document({"attributes": [hours | {"spikes": spikes}, group]})
        rows = _rows(_fit(schema, 0.001, people=(worked, groups)))
        found[spikes is None] = (rows[0] == 40).mean()
    assert found[True] < expected / 3
    assert found[False] == pytest.approx(expected, abs=0.01)


BINNED = {
    "age": {"lower": 0, "upper": 100, "bins": 20},
    # No whole number but 0 lies between two of the edges, and 0 has a cell of its own.
    "change": {
        "lower": -9,
        "upper": 9,
        "integer": True,
        "bins": [-4.5, -0.5, 0.5, 4.5],
        "spikes": [0],
    },
}


def _binned(*, products: bool) -> Schema:
    counted = {"products": "bins"} if products else {"histogram": True}
    numerics = [
        {"name": name, "type": "numeric", **fields, **counted} for name, fields in BINNED.items()
    ]
    works = {"name": "works", "type": "binary", "values": ["no", "yes"]}
    return Schema.from_document({"attributes": [*numerics, works]})


@cache
def _workers() -> People:
    """Most between 25 and 65 work; the change is mostly far from 0 where they do."""
    rng = np.random.default_rng(9)
    age = rng.uniform(0, 100, N)
    works = (np.abs(age - 45) < 20) == (rng.random(N) < 0.95)
    far = np.where(rng.random(N) < 0.5, -7.0, 7.0) + rng.integers(-2, 3, N)
    near = rng.integers(-4, 5, N)
    change = np.where(works == (rng.random(N) < 0.8), far, near)
    return age, np.where(rng.random(N) < 0.3, 0.0, change), np.int32(works)


def _tables(rows: Sequence[NDArray[np.float64] | NDArray[np.int32]]) -> list[NDArray[np.float64]]:
    """Shares of the two-way tables of each numeric and what they work."""
    places = (
        (rows[0] // 5).astype(int).clip(max=19),
        (rows[1] + 9).astype(int),
    )
    return [np.bincount(2 * place + rows[2], minlength=40) / len(place) for place in places]


def _off(schema: Schema, noise: float) -> tuple[list[float], list[NDArray[np.float64]]]:
    fit = _fit(schema, noise, people=_workers())
    assert fit.converged
    rows = [np.asarray(each) for each in _rows(fit)]
    own, made = _tables(_workers()), _tables(rows)
    return [float(np.abs(a - b).sum() / 2) for a, b in zip(own, made, strict=True)], rows


def test_products_of_bins_keep_relations_that_do_not_rise_or_fall_steadily() -> None:
    binned, rows = _off(_binned(products=True), 0.001)
    straight, _ = _off(_binned(products=False), 0.001)
    assert binned[0] < 0.05 < 0.3 < straight[0]
    assert binned[1] < 0.2 < straight[1]
    for index, fields in enumerate(BINNED.values()):
        assert rows[index].min() >= fields["lower"]
        assert rows[index].max() <= fields["upper"]
    np.testing.assert_array_equal(rows[1], np.rint(rows[1]))
    expected = (_workers()[1] == 0).mean()
    assert (rows[1] == 0).mean() == pytest.approx(expected, abs=0.006)
    assert len(np.unique(rows[0])) > 19_000  # spread inside their bins


def test_targets_of_bins_are_indicators_with_smooth_shares() -> None:
    schema = _binned(products=True)
    targets = _fit(schema, 0.001, people=_workers()).targets
    assert [each.shape for each in targets.values] == [(20, 20), (5, 5), (2, 1)]
    np.testing.assert_array_equal(targets.values[1], np.eye(5))
    assert all(q.min() > 0 and q.sum() == pytest.approx(1) for q in targets.marginals)
    shares = np.bincount((_workers()[0] // 5).astype(int)) / N
    assert np.abs(targets.marginals[0] - shares).max() < 0.0015


@pytest.mark.parametrize("codes", [[0] * 50, [0, 1, 2, 3, 4] * 60])
def test_codes_of_cells_become_values_in_them(codes: list[int]) -> None:
    schema = _binned(products=True)
    cells = schema.cells[1]
    assert cells is not None
    columns = [np.int32([k % 20 for k in codes]), np.int32(codes), np.int32([0] * len(codes))]
    drawn = draw_in_cells(schema, columns, np.random.default_rng(1))
    np.testing.assert_array_equal(drawn[1], np.rint(drawn[1]))
    assert cells.index(np.asarray(drawn[1], np.float64)).tolist() == codes
    np.testing.assert_array_equal(np.asarray(drawn[0]) // 5, columns[0])
    np.testing.assert_array_equal(drawn[2], columns[2])


def _parity() -> People:
    """Three flags of which each two say nothing of the third, and money beside them."""
    rng = np.random.default_rng(9)
    first, second = (rng.random(N) < 0.5 for _ in range(2))
    third = np.where(rng.random(N) < 0.9, first ^ second, ~(first ^ second))
    money = np.where(rng.random(N) < 0.5, np.exp(rng.normal(7, 1, N)), 0.0)
    return (np.clip(money, 0, 1e5), *(np.int32(each) for each in (first, second, third)))


FLAGS = [{"name": name, "type": "binary", "values": ["a", "b"]} for name in ("p", "q", "r")]
MONEY = {"name": "money", "type": "numeric", "histogram": True, **NUMERICS["money"]}
TABLE = {"table": ["p", "q", "r"]}
TREE = {
    "tree": [
        {"by": "p", "labels": ["a"]},
        *({"by": "q", "labels": ["b"]}, {}, {}),
        *({"by": "money", "at_most": 900}, {}, {}),
    ],
    "target": "r",
}


def _cell_shares(schema: Schema, columns: Sequence[NDArray[Any]]) -> list[NDArray[np.float64]]:
    cells = find_cells(schema, columns)[len(schema.histograms) :]
    sizes = schema.layout.tables
    return [
        np.bincount(each, minlength=size) / len(each)
        for each, size in zip(cells, sizes, strict=True)
    ]


@pytest.mark.parametrize("noise", [1e-5, 0.003])
def test_rows_meet_tables_and_trees_and_keep_their_marginals(noise: float) -> None:
    people = _parity()
    plain = Schema.from_document({"attributes": [MONEY, *FLAGS]})
    schema = Schema.from_document({"attributes": [MONEY, *FLAGS], "tables": [TABLE, TREE]})
    fit = _fit(schema, noise, people=people)
    without = _rows(_fit(plain, noise, people=people), 20_000)
    rows = _rows(fit, 70_000)  # from more than one pool
    for found in find_faults(schema, rows).values():
        assert not (found.missing | found.invalid | found.out).any()
    for own, made, other in zip(
        *(_cell_shares(schema, each) for each in (people, rows, without)), strict=True
    ):
        far, near = (np.abs(own - each).sum() / 2 for each in (other, made))
        assert far > 0.1
        assert near < 0.02 + 4 * noise
    for column, marginal in zip(rows[1:], fit.fitted.marginals[1:], strict=True):
        counts = np.bincount(np.asarray(column, np.int64), minlength=2)
        assert np.abs(counts - 70_000 * marginal).max() <= 1
    assert fit.tilted is not None
    assert 0.05 < fit.tilted.tilt.quality.worth < 0.9
