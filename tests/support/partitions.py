"""Partitions that a schema allows, and the cell of one row by the definition."""

from collections.abc import Iterator, Sequence
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dppca.common.analysis.random_trees import RandomTrees, draw_trees
from dppca.common.kernel.schema import Cells, Schema, encode
from dppca.common.kernel.schema.attributes import Date, Numeric, Ordinal, count_days
from dppca.common.kernel.schema.splits import TreeNode


@st.composite
def partitions(draw: st.DrawFn, document: dict[str, Any], *, most: int = 3) -> list[dict[str, Any]]:
    """Tables and trees for a schema's document, which has no tables."""
    schema = Schema.from_document(document)
    names = [attribute.name for attribute in schema.attributes]
    found: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(0, most))):
        if draw(st.booleans()):
            asked = RandomTrees(
                count=1,
                leaves=draw(st.integers(2, 12)),
                target=draw(st.sampled_from(names)),
                seed=draw(st.integers(0, 1000)),
            )
            trees = draw_trees(asked, schema.public)
            found += [tree for tree in trees if len(tree["tree"]) > 1]
        else:
            table = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
            numerics = [name for name in table if schema.cells[names.index(name)] is not None]
            cells = {name: draw(st.integers(2, 3)) for name in numerics if draw(st.booleans())}
            one = {"table": table, **({"cells": cells} if cells else {})}
            if any(name in cells or schema.public.n_own(names.index(name)) > 1 for name in table):
                found.append(one)
    return found


def place_of(value: float, attribute: Numeric, cells: Cells) -> int:
    """Return the cell of a value."""
    lower, upper = attribute.bounds
    if cells.missing and not np.isfinite(value):
        return cells.n_cells - 1
    known = min(max(value if np.isfinite(value) else attribute.middle, lower), upper)
    if known in cells.spikes:
        return cells.n_intervals + cells.spikes.index(known)
    return sum(known >= edge for edge in cells.edges[1:-1].tolist())


def cell_of(schema: Schema, number: int, row: Sequence[float]) -> int:
    """Return the cell of a row in a table or tree, by its number from 0."""
    table = schema.tables[number]
    parts = [_part_of(schema, name, table.cells.get(name), row) for name in table.table]
    if table.target is not None:
        leaves: list[bool] = []
        _walk(schema, iter(table.tree), row, True, leaves)
        assert sum(leaves) == 1
        target = _part_of(schema, table.target, None, row)
        parts = [(leaves.index(True), len(leaves)), target]
    cell = 0
    for part, size in parts:
        assert 0 <= part < size
        cell = cell * size + part
    return cell


def _walk(
    schema: Schema, nodes: Iterator[TreeNode], row: Sequence[float], here: bool, leaves: list[bool]
) -> None:
    """Append, for each leaf of the next node, whether the row comes to it."""
    node = next(nodes)
    if node.by is None:
        leaves.append(here)
        return
    index = schema.find_index(node.by)
    attribute = schema.attributes[index]
    if isinstance(attribute, Numeric):
        threshold: Any = node.at_most
        if isinstance(attribute, Ordinal):
            threshold = attribute.levels.index(threshold)
        elif isinstance(attribute, Date):
            threshold = count_days(date.fromisoformat(threshold))
        first = _code(schema, index, row[index]) <= _code(schema, index, threshold)
    else:
        label = attribute.labels[_part_of(schema, node.by, None, row)[0]]
        first = label in node.labels
    _walk(schema, nodes, row, here and first, leaves)
    _walk(schema, nodes, row, here and not first, leaves)


def _part_of(schema: Schema, name: str, parts: int | None, row: Sequence[float]) -> tuple[int, int]:
    """Return an attribute's part that a row is in, and the number of parts."""
    index = schema.find_index(name)
    attribute, cells, value = schema.attributes[index], schema.cells[index], row[index]
    if not isinstance(attribute, Numeric):
        known = 0 <= value < len(attribute.labels)
        return int(value) if known else attribute.missing_code, len(attribute.labels)
    assert cells is not None
    if parts is None:
        return place_of(value, attribute, cells), cells.n_cells
    half = 1 << (schema.resolution_bits - 1)
    place, n_codes = _code(schema, index, value) + half, 2 * half + 1
    inside = sum(place >= Fraction(part * n_codes, parts) for part in range(1, parts + 1))
    return inside, parts + cells.missing


def _code(schema: Schema, index: int, value: float) -> int:
    """Return a numeric's coded integer, as `encode` has it for products."""
    attribute, cells = schema.attributes[index], schema.cells[index]
    assert isinstance(attribute, Numeric)
    assert cells is not None
    if cells.missing and not np.isfinite(value):
        return (1 << (schema.resolution_bits - 1)) + 1
    plain = {"products": None, "histogram": False, "spikes": None, "missing": None}
    alone = Schema(
        resolution_bits=schema.resolution_bits,
        attributes=(
            attribute.model_copy(update=plain),
            Numeric(name="-", type="numeric", lower=0, upper=1),
        ),
    )
    return int(encode(alone, [np.array([value]), np.zeros(1)])[0, 0])
