"""Trees that are grown on rows: they find what decides, fit the schema, and come out the same."""

import numpy as np
import pytest

from dppca.common.analysis.field.tree_growth import grow_trees
from dppca.common.kernel.schema import Column, Schema, find_cells
from tests.support.studies import binary_of, categorical_of, make_schema

N = 20_000
ATTRIBUTES = [
    {"name": "age", "type": "numeric", "lower": 17, "upper": 90, "integer": True},
    {
        "name": "income",
        "type": "numeric",
        "lower": 0,
        "upper": 1e5,
        "score": "log",
        "bins": 8,
        "products": "bins",
        "missing": "level",
    },
    {"name": "stage", "type": "ordinal", "levels": ["low", "middle", "high"]},
    categorical_of("kind", ["a", "b", "c", "d"]),
    binary_of("answer", ["no", "yes"]),
]


def _rows(seed: int = 1) -> list[Column]:
    rng = np.random.default_rng(seed)
    age = rng.integers(17, 91, N).astype(float)
    income = np.where(rng.random(N) < 0.1, np.nan, rng.uniform(0, 1e5, N))
    stage = rng.integers(0, 3, N).astype(float)
    kind = rng.integers(0, 4, N).astype(np.int32)
    yes = np.where(age > 50, np.isin(kind, (0, 2)), np.isnan(income)).astype(int)
    answer = np.where(rng.random(N) < 0.95, yes, 1 - yes).astype(np.int32)
    return [age, income, stage, kind, answer]


SCHEMA = make_schema(ATTRIBUTES)


def _grow(rows: list[Column], **changes: int) -> list[dict[str, object]]:
    return grow_trees(SCHEMA, rows, "answer", **{"count": 6, "leaves": 32, "seed": 3, **changes})


def test_leaves_follow_a_rule_of_three_attributes() -> None:
    rows = _rows()
    trees = _grow(rows, count=12)
    schema = make_schema(ATTRIBUTES, tables=trees)
    pure = []
    fresh = _rows(seed=2)
    for cells, n_cells in zip(find_cells(schema, fresh), schema.layout.tables, strict=True):
        leaves = np.bincount(cells, minlength=n_cells).reshape(-1, 2)
        pure.append(leaves.max(axis=1).sum() / N)
    assert max(pure) > 0.85, "a tree of all three attributes"
    assert all(n_cells <= 64 for n_cells in schema.layout.tables)


def test_the_same_rows_and_seed_grow_the_same_trees_and_others_do_not() -> None:
    assert _grow(_rows()) == _grow(_rows())
    assert _grow(_rows()) != _grow(_rows(), seed=4)
    assert _grow(_rows()) != _grow(_rows(seed=2))


def test_no_leaf_is_grown_from_few_rows() -> None:
    few = [column[:150] for column in _rows()]
    assert [tree["tree"] for tree in _grow(few)] == [[{}]] * 6
    more = [column[:1000] for column in _rows()]
    schema = make_schema(ATTRIBUTES, tables=_grow(more))
    for cells in find_cells(schema, more):
        assert np.bincount(cells // 2).min() >= 100


@pytest.mark.parametrize("target", ["kind", "stage", "age"])
def test_any_attribute_is_a_target(target: str) -> None:
    trees = grow_trees(SCHEMA, _rows(), target, count=2, leaves=8, seed=1)
    schema = Schema.from_document({"attributes": ATTRIBUTES, "tables": trees})
    assert all(target not in {node.by for node in table.tree} for table in schema.tables)
