"""Cells of two-way tables: the schema's, put together, and spikes in cells of their own."""

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.comparison import (
    PAIR_CELLS,
    TableErrors,
    assign_cells,
    choose_pairs,
    choose_triples,
    compare_cells,
    compare_rows,
    count_cells,
    list_pairs,
    total_variation,
)
from dppca.common.kernel.schema import Schema, encode

BINARY = {"name": "b", "type": "binary", "values": ["no", "yes"]}


def _schema(**numeric: Any) -> Schema:
    x = {"name": "x", "type": "numeric", "lower": 0, "upper": 10, **numeric}
    return Schema.from_document({"max_rows_per_person": 1, "attributes": [x, BINARY]})


def _cells(schema: Schema, values: list[float]) -> list[int]:
    """The cell of each value, by counting it alone against a label."""
    found = []
    for value in values:
        columns = [np.array([value]), np.zeros(1, np.int32)]
        table = count_cells(schema, columns, encode(schema, columns)).pairs[0]
        assert table.shape[0] <= PAIR_CELLS
        assert table.sum() == 1
        found.append(int(table[:, 0].argmax()))
    return found


SPIKE = {"spikes": [0], "histogram": True}


@pytest.mark.parametrize(
    ("numeric", "cells"),
    [
        ({}, {0: 0, 0.49: 0, 0.51: 1, 9.9: 19, 10: 19, 99: 19, -1: 0, np.nan: 10}),
        ({"bins": [1, 4]}, {0.5: 0, 1: 1, 5: 2}),
        ({"integer": True}, {number: number for number in range(11)}),
        (SPIKE, {0: 19, 0.01: 0, 10: 18}),
        (SPIKE | {"bins": [1, 4]}, {0: 3, 0.5: 0, 2: 1, 7: 2}),
        (SPIKE | {"bins": [1, 4], "lower": -4}, {0: 3, -0.5: 0, 2: 1, 7: 2}),
        (SPIKE | {"lower": -9, "upper": 0, "bins": [-1]}, {0: 2, -0.5: 1, -5: 0}),
        (SPIKE | {"spikes": [0, 4, 10]}, {0: 17, 4: 18, 10: 19, 4.01: 6, 9.9: 16}),
    ],
)
def test_cells_are_put_together_where_they_are_many_and_a_spike_keeps_its_own(
    numeric: dict[str, Any], cells: dict[float, int]
) -> None:
    assert _cells(_schema(**numeric), list(cells)) == list(cells.values())


def test_labels_and_unit_ball_rows_are_in_the_cells_of_their_codes() -> None:
    attributes = [{"name": n, "type": "numeric", "centre": 0, "scale": 1} for n in "xy"]
    schema = Schema.from_document({"row_norm": {}, "attributes": attributes})
    rng = np.random.default_rng(1)
    columns = list(rng.uniform(-1, 1, (2, 300)))
    rows = encode(schema, columns)
    cells, sizes = assign_cells(schema, columns, rows, numeric_cells=PAIR_CELLS)
    expected = np.zeros(sizes, np.int64)
    np.add.at(expected, (cells[:, 0], cells[:, 1]), 1)
    assert np.array_equal(count_cells(schema, columns, rows).pairs[0], expected)
    assert expected.shape == (PAIR_CELLS, PAIR_CELLS)


def test_rows_are_judged_by_every_table_of_three_attributes_and_what_is_in_it() -> None:
    rng = np.random.default_rng(2)
    sizes = (2, 3, 400, 4000, 2)  # tables of the widest are larger than an array that is kept
    ours, theirs = (rng.integers(0, sizes, (n, 5)) for n in (900, 500))

    def variation(attributes: tuple[int, ...]) -> float:
        first, second = (Counter(map(tuple, x[:, attributes].tolist())) for x in (ours, theirs))
        return sum(abs(first[k] / 900 - second[k] / 500) for k in first | second) / 2

    means = [np.mean([*map(variation, combinations(range(5), k))]) for k in (1, 2, 3)]
    found = compare_cells(ours, theirs, sizes)
    assert [found.one_way, found.two_way, found.three_way] == pytest.approx(means)
    # Ten triples are the whole workload, and hold every pair and every attribute.
    assert found.workload == pytest.approx(2 * np.average(means, weights=[5, 10, 10]))
    assert compare_cells(ours, ours, sizes) == TableErrors(0, 0, 0, 0)
    alone = compare_cells(ours[:, :1], theirs[:, :1], sizes[:1])
    assert (alone.two_way, alone.three_way, alone.workload) == (None, None, None)


def test_pairs_of_many_attributes_are_a_sample_that_is_always_the_same() -> None:
    assert choose_pairs(63) == list_pairs(63)
    pairs = choose_pairs(64)
    assert (len(pairs), pairs == sorted({*pairs} & {*list_pairs(64)})) == (2000, True)
    assert pairs == choose_pairs(64)
    assert {i for each in pairs for i in each} == set(range(64))


def test_the_sample_of_pairs_is_judged_as_all_pairs_are() -> None:
    rng = np.random.default_rng(3)
    shift = np.linspace(0, 0.5, 70)  # pairs of later attributes differ more
    ours, theirs = ((rng.random((4000, 70)) < 0.3 + s).astype(np.int64) for s in (shift, 0.0))
    every = [
        total_variation(*(np.bincount(2 * x[:, i] + x[:, j], minlength=4) for x in (ours, theirs)))
        for i, j in list_pairs(70)
    ]
    found = compare_cells(ours, theirs, [2] * 70)
    assert found.two_way == pytest.approx(np.mean(every), abs=0.01)


def test_triples_of_many_attributes_are_a_sample_that_is_always_the_same() -> None:
    assert len(choose_triples(16)[0]) == 560
    triples, workload = choose_triples(40)
    assert len(set(triples)) == 600
    assert (len(set(workload)), set(workload) <= set(triples)) == (64, True)
    assert {i for each in triples for i in each} == set(range(40))
    assert choose_triples(40) == (triples, workload)


def test_values_are_judged_in_public_cells_and_a_spike_keeps_its_own() -> None:
    schema = _schema(**SPIKE)
    ones = np.ones(100, np.int32)
    at_zero, near, far = ([np.full(100, x), ones] for x in (0.0, 0.1, 9.0))
    assert compare_rows(schema, near, [np.full(100, 0.2), ones]).one_way == 0
    for other in (near, far):
        assert compare_rows(schema, at_zero, other).one_way == 0.5  # of two attributes
