"""Random small schemas with numbers that may be missing, and what every row of theirs adds."""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.release import sensitivity_shape
from dppca.common.kernel.privacy.sensitivity import Sensitivity, sensitivity
from dppca.common.kernel.schema import Column, Schema, encode, find_cells

BITS = 4
_MOST_ROWS = 500
_FORMS: tuple[dict[str, Any], ...] = (
    {"type": "numeric", "lower": 0, "upper": 1, "missing": "indicator"},
    {"type": "numeric", "lower": 0, "upper": 1, "missing": "indicator"},
    {"type": "numeric", "lower": 0, "upper": 1},
    {"type": "numeric", "lower": 0, "upper": 1, "bins": 2, "products": "bins"},
    {"type": "binary", "values": ["a", "b"]},
    {"type": "categorical", "categories": ["p", "q", "r"]},
)


def draw_schema(rng: np.random.Generator) -> Schema | None:
    """A schema of one to four attributes with any mix of what a study may ask for.

    None for a single column, which no schema has.
    """
    names = [f"a{i}" for i in range(rng.integers(1, 5))]
    attributes = []
    for name in names:
        attribute: dict[str, Any] = {"name": name, **_FORMS[rng.integers(len(_FORMS))]}
        plain = attribute["type"] == "numeric" and "missing" not in attribute
        if "products" not in attribute and attribute["type"] == "numeric" and rng.random() < 0.3:
            attribute |= {"histogram": True, "bins": int(rng.integers(2, 4))}
        if plain and "bins" in attribute and rng.random() < 0.4:
            attribute["missing"] = "level"
        attributes.append(attribute)
    settings: dict[str, Any] = {
        "sum_weight": float(rng.choice([0.0625, 0.25, 0.5, 0.75, 1, 2, 3])),
        "histogram_weight": float(rng.choice([0.5, 1, 2])),
    }
    if settings["sum_weight"] >= 0.5 and rng.random() < 0.4:
        settings["targets"] = _some(names, 1 + int(rng.integers(2)), rng)
        settings["target_weight"] = int(rng.integers(2, 5))
    if rng.random() < 0.15:
        settings["tables"] = [{"table": _some(names, 2, rng)}]
        settings["tables_weight"] = float(rng.choice([0.25, 1, 2]))
    document = {"resolution_bits": BITS, "attributes": attributes, **settings}
    first = attributes[0]
    several = first["type"] == "categorical" or "products" in first
    if len(names) == 1 and not several and first.get("missing") != "indicator":
        return None
    return Schema.from_document(document)


def contributions(schema: Schema) -> NDArray[np.int64]:
    """What each row of a grid adds to the packed vector, by the layout's definition, (n, D)."""
    steps = 6
    size = _MOST_ROWS + 1
    while size > _MOST_ROWS and steps > 2:
        steps -= 1
        values = [_values_of(each, steps) for each in schema.attributes]
        size = int(np.prod([len(each) for each in values]))
    columns: list[Column] = [np.array(each) for each in zip(*product(*values), strict=True)]
    rows, layout = encode(schema, columns).astype(np.int64), schema.layout
    i, j = layout.product_index
    parts = [rows * layout.scaled_weight, rows[:, i] * rows[:, j] * layout.packed_product_weights]
    for cells, (n_cells, unit) in zip(find_cells(schema, columns), layout.counts, strict=True):
        parts.append(np.eye(n_cells, dtype=np.int64)[cells] * unit)
    return np.hstack(parts)


def furthest(entries: NDArray[np.int64]) -> tuple[int, int]:
    """The largest L1 and squared L2 distances of any two rows' contributions."""
    l1 = l2_squared = 0
    for place in range(1, len(entries)):
        change = np.abs(entries[place:] - entries[place - 1])
        l1 = max(l1, int(change.sum(axis=1).max()))
        l2_squared = max(l2_squared, int((change**2).sum(axis=1).max()))
    return l1, l2_squared


def one_row(schema: Schema, row: list[float]) -> NDArray[np.int64]:
    """What the product releases of a table of one row, without noise."""
    return accumulate_moments(schema, [np.array([value]) for value in row]).packed


def draw_row(schema: Schema, rng: np.random.Generator) -> list[float]:
    """A row at the ends of ranges, inside them, and with missing values."""
    return [
        float(rng.choice([*_values_of(each, 2), *_values_of(each, 7), np.nan]))
        if each.type == "numeric"
        else float(rng.choice(_values_of(each, 0)))
        for each in schema.attributes
    ]


def bound_of(schema: Schema) -> Sensitivity:
    return sensitivity(sensitivity_shape(schema), resolution_bits=schema.resolution_bits)


def _values_of(attribute: Any, steps: int) -> list[float]:
    if attribute.type != "numeric":
        return [*range(len(attribute.labels))]
    beside = [1 - 2.0**-BITS] if attribute.histogram else []  # across an edge at no cost
    missing = [np.nan] if attribute.missing else []
    return [*np.linspace(0, 1, steps), *beside, *missing]


def _some(names: list[str], most: int, rng: np.random.Generator) -> list[str]:
    return sorted(rng.choice(names, min(most, len(names)), replace=False).tolist())
