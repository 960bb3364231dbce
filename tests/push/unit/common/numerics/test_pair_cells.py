"""Cells of two-way tables: the schema's, put together, and a spike at its place among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dppca.common.numerics.comparison import assign_cells, count_cells
from dppca.common.numerics.pair_cells import PAIR_CELLS, pair_axes
from dppca.common.schema import Schema, encode

BINARY = {"name": "b", "type": "binary", "values": ["no", "yes"]}


def _schema(**numeric: Any) -> Schema:
    x = {"name": "x", "type": "numeric", "lower": 0, "upper": 10, **numeric}
    return Schema.from_document({"max_rows_per_person": 1, "attributes": [x, BINARY]}, stored=False)


def _cells(schema: Schema, values: list[float]) -> list[int]:
    """The cell of each value, by counting it alone against a label."""
    found = []
    for value in values:
        columns = [np.array([value]), np.zeros(1, np.int32)]
        table = count_cells(schema, columns, encode(schema, columns)).pairs[0]
        assert table.shape == (pair_axes(schema)[0].n_cells, 2)
        found.append(int(table[:, 0].argmax()))
    return found


def test_forty_cells_are_put_together_two_by_two() -> None:
    axis = pair_axes(_schema())[0]
    assert (axis.n_cells, axis.numeric) == (PAIR_CELLS, True)
    assert axis.names[:3] == ("0", "0.5", "1")
    assert _cells(_schema(), [0, 0.49, 0.51, 9.9, 10, 99, -1, np.nan]) == [
        *(0, 0, 1, 19, 19, 19, 0),
        10,
    ]


def test_few_cells_stay_as_they_are() -> None:
    schema = _schema(bins=[1, 4])
    assert pair_axes(schema)[0].names == ("0", "1", "4")
    assert _cells(schema, [0.5, 1, 5]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("numeric", "names", "cells"),
    [
        ({"bins": [1, 4]}, ("= 0", "0", "1", "4"), [0, 1, 2, 3]),
        ({"bins": [1, 4], "lower": -4}, ("-4", "= 0", "1", "4"), [1, 0, 2, 3]),
        ({"lower": -9, "upper": 0, "bins": [-1]}, ("-9", "-1", "= 0"), [2, 2, 2, 2]),
    ],
)
def test_a_spike_keeps_its_cell_at_its_place(
    numeric: dict[str, Any], names: tuple[str, ...], cells: list[int]
) -> None:
    schema = _schema(zero="separate", histogram=True, **numeric)
    assert pair_axes(schema)[0].names == names
    assert _cells(schema, [0, 0.5, 2, 7]) == cells


def test_a_spike_is_not_put_together_with_others() -> None:
    schema = _schema(zero="separate", histogram=True)
    axis = pair_axes(schema)[0]
    assert axis.n_cells == PAIR_CELLS
    assert axis.names[0] == "= 0"
    assert _cells(schema, [0, 0.01, 10]) == [0, 1, 19]


def test_whole_numbers_are_named_by_the_least_in_the_cell() -> None:
    axis = pair_axes(_schema(integer=True))[0]
    assert axis.names == tuple(str(number) for number in range(11))


def test_labels_and_unit_ball_rows_are_in_the_cells_of_their_codes() -> None:
    attributes = [{"name": n, "type": "numeric", "centre": 0, "scale": 1} for n in "xy"]
    schema = Schema.from_document({"row_norm": {}, "attributes": attributes}, stored=False)
    rng = np.random.default_rng(1)
    columns = list(rng.uniform(-1, 1, (2, 300)))
    rows = encode(schema, columns)
    cells, sizes = assign_cells(schema, columns, rows, numeric_cells=PAIR_CELLS)
    expected = np.zeros(sizes, np.int64)
    np.add.at(expected, (cells[:, 0], cells[:, 1]), 1)
    assert np.array_equal(count_cells(schema, columns, rows).pairs[0], expected)
    assert pair_axes(schema)[0].n_cells == PAIR_CELLS
    assert pair_axes(_schema())[1].names == ("no", "yes")
