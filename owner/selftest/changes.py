"""The largest change of the sums by one row, found among rows of a grid and not by a formula.

Rows of a coarse grid are coded and added as a release does it, and all pairs of them compared. A
study of several copies of its attributes is searched along the rows in which all copies agree. So
what is found is attained; a larger change may exist.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base.weight_noise import STEP_BITS
from dppca.common.kernel.moments.moments import compute_moments
from dppca.common.kernel.schema import Column, Schema, encode, find_cells
from dppca.common.kernel.schema.attributes import Attribute, Numeric, Ordinal
from dppca.common.kernel.schema.units import NeighbourRelation
from dppca.common.kernel.study import Study

Row = tuple[float | int, ...]
_PLACES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of a number's range: its ends, its middle, and between


@dataclass(frozen=True, slots=True)
class Change:
    """Changes of a vector that one row can make, in steps of the sums.

    ``l1`` is the largest in L1, ``l2_squared`` the largest squared one in L2, in which products of
    halved variance count twice.
    """

    l1: int
    l2_squared: int


def grid_rows(schema: Schema, *, copies: int = 1) -> list[Row]:
    """Return rows of a coarse grid, in which all copies of the attributes have the same values."""
    first = schema.attributes[: len(schema.attributes) // copies]
    return [row * copies for row in product(*map(_places, first))]


def find_change(study: Study, *, copies: int = 1) -> Change:
    """Compare all pairs of rows of the grid or, if rows are added, each row with none.

    A person who weighs as up to c rows is a row, or c times a row.
    """
    table = study.table
    vectors = row_vectors(table, grid_rows(table, copies=copies))
    if table.rows_counted > 1:
        vectors = np.concatenate([vectors, table.rows_counted * vectors])
    counted = np.ones(vectors.shape[1], np.int64)
    counted[table.layout.halved_places] = 2  # half of the variance costs twice as much
    l1, best, pair = 0, -1.0, (0, 0)
    added = table.neighbours is NeighbourRelation.ADDED
    if added:
        vectors = np.concatenate([vectors, np.zeros_like(vectors[:1])])
    others = vectors[-1:] if added else vectors
    for number, vector in enumerate(others, len(vectors) - len(others)):
        moved = np.abs(vectors - vector)
        l1 = max(l1, int(moved.sum(axis=1).max()))
        squares = moved.astype(np.float64) ** 2 @ counted
        if squares.max() > best:
            best, pair = float(squares.max()), (number, int(squares.argmax()))
    difference = (vectors[pair[0]] - vectors[pair[1]]).astype(object)
    return Change(l1, int((counted * difference**2).sum()))


def row_vectors(schema: Schema, rows: list[Row]) -> NDArray[np.int64]:
    """Return the exact sums over each row alone, shape (rows, D)."""
    columns = make_columns(schema, rows)
    coded, cells = encode(schema, columns), find_cells(schema, columns)
    return np.stack(
        [
            compute_moments(
                coded[i : i + 1], schema.layout, [each[i : i + 1] for each in cells]
            ).packed
            for i in range(len(rows))
        ]
    )


def make_columns(schema: Schema, rows: list[Row]) -> list[Column]:
    """Return rows as the columns that coding takes."""
    return [
        np.array(column, np.float64)
        if isinstance(attribute, Numeric)
        else np.array(column, np.int32)
        for attribute, column in zip(schema.attributes, zip(*rows, strict=True), strict=True)
    ]


def change_of_weights(D: int, n_machines: int, *, tolerance: float) -> Change:
    """Return what one row can change of K machines' weights, in steps of their grid.

    It is ``s + 2 tau + h sqrt(D)`` of each machine (`weight_noise`, equation 2), rounded down.
    """
    steps = 4**STEP_BITS
    one = steps * (1 + 2 * tolerance) + D**0.5
    return Change(int(n_machines * D**0.5 * one), int(n_machines * one**2))


def _places(attribute: Attribute) -> list[float | int]:
    if not isinstance(attribute, Numeric):
        return list(range(len(attribute.labels)))
    if isinstance(attribute, Ordinal):
        return [float(place) for place in range(len(attribute.levels))]
    if attribute.lower is None or attribute.upper is None:
        low, width = attribute.middle - (attribute.scale or 0), 2 * (attribute.scale or 0)
    else:
        low, width = attribute.lower, attribute.upper - attribute.lower
    values = [low + place * width for place in _PLACES]
    if attribute.integer:
        values = [float(round(value)) for value in values]
    return values if attribute.missing is None else [*values, float("nan")]
