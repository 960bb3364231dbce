"""Tables and trees in a schema's document: what is refused, with its place, and what is written."""

import json
import re
from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.growing_trees import list_splits
from dppca.common.analysis.study_file import study_from_document, study_from_yaml
from dppca.common.kernel.errors import SettingError, StudyError
from dppca.common.kernel.schema import Schema, find_cells
from dppca.common.kernel.study import Study, study_from_mapping
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of, study_document

ATTRIBUTES: list[dict[str, Any]] = [
    {"name": "age", "type": "numeric", "lower": 17, "upper": 90, "integer": True},
    {
        "name": "hours",
        "type": "numeric",
        "lower": 0,
        "upper": 99,
        "bins": 10,
        "products": "bins",
        "missing": "level",
    },
    {"name": "stage", "type": "ordinal", "levels": ["low", "middle", "high"]},
    {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2021-01-01"},
    categorical_of("kind", ["a", "b", "c"]),
    binary_of("rich", ["no", "yes"]),
]
RICH = {"target": "rich"}


def tree(*nodes: dict[str, Any], target: str = "rich") -> dict[str, Any]:
    return {"tree": list(nodes), "target": target}


def by(name: str, rule: Any) -> dict[str, Any]:
    return {"by": name, "labels" if isinstance(rule, list) else "at_most": rule}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "tables entry 1: needs table"),
        ({"table": ["age"], **tree({})}, "tables entry 1: needs table"),
        ({"tree": [{}, {}]}, "needs table, a list of attributes, or tree and target"),
        ({"table": ["age"], "target": "rich"}, "needs table"),
        ({"table": ["age", "age"]}, "must differ"),
        ({"table": ["age", "size"]}, "entry 1: no attribute is called size"),
        ({"table": [f"a{i}" for i in range(20)]}, "entry 1.table: must have 16 entries or fewer"),
        ({"table": ["age"], "cells": {"day": 4}}, "cells names an attribute that is not in table"),
        ({"table": ["age"], "cells": {"age": 1}}, "must be 2 or more"),
        ({"table": ["kind"], "cells": {"kind": 2}}, "cells is for numbers and dates, and kind"),
        ({"table": ["age", "day", "hours", "kind"]}, "97680 cells; 2 to 65536 are possible"),
        ({"tree": "leaf", **RICH}, "entry 1.tree: must be a list"),
        ({"tree": [[{}]], **RICH}, "tree entry 1: must be a mapping"),
        (tree(*[{}] * 2048), "must have 2047 entries or fewer"),
        (tree({}, {}), "node 2 comes after the end of the tree, which is node 1"),
        (tree(by("age", 30), {}), "the tree ends with node 2, and a branch has no nodes"),
        (tree(by("rich", ["no"]), {}, {}), "node 1: the target cannot split its own tree"),
        (tree(by("age", 30), {}, {}, target="size"), "no attribute is called size"),
        (tree(by("size", 30), {}, {}), "node 1: no attribute is called size"),
        (tree(by("age", "old"), {}, {}), "node 1: age needs a number"),
        (tree(by("age", ["17"]), {}, {}), "age splits at_most a value, not by labels"),
        (tree(by("kind", 2), {}, {}), "kind splits by labels, not at_most a value"),
        (tree(by("kind", ["z"]), {}, {}), "kind has no label z"),
        (tree(by("stage", "top"), {}, {}), "stage has no level top"),
        (tree(by("day", 18262), {}, {}), "day needs a date such as 2020-01-31"),
        (tree(by("day", "2019-12-31"), {}, {}), "outside of the bounds of day"),
        (tree(by("age", 91), {}, {}), "at_most is outside of the bounds of age"),
        (tree(by("age", float("nan")), {}, {}), "must be finite"),
        (tree(by("age", True), {}, {}), "must be a number, a date such as 2020-01-31, or a level"),
        (tree({"by": "age"}, {}, {}), "a split has by, and at_most or labels"),
        (tree({"at_most": 30}, {}, {}), "a split has by, and at_most or labels"),
        (tree(by("age", 90), {}, {}), "node 1: no row can reach one of its branches"),
        (tree(by("kind", ["a", "b", "c"]), {}, {}), "no row can reach one of its branches"),
        (tree(by("stage", "high"), {}, {}), "no row can reach one of its branches"),
        (tree(by("age", 30), by("age", 40), {}, {}, {}), "node 2: no row can reach one"),
        (tree(by("kind", ["a"]), {}, by("kind", ["a"]), {}, {}), "node 3: no row can reach one"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_place(
    table: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingError, match=re.escape(said)):
        make_schema(ATTRIBUTES, tables=[table])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tables": [{"table": ["age"]}] * 129}, "tables: must have 128 entries or fewer"),
        (
            {"tables": [{"table": ["age", "day", "hours"]}] * 9},
            "the tables have 293040 cells; 262144 are possible in all",
        ),
        ({"tables": [{"table": ["age"]}], "tables_weight": 1e-9}, "tables_weight times 4"),
        ({"random_trees": {"count": 64, "leaves": 512, **RICH, "seed": 1}}, "at most 16384"),
        ({"random_trees": {"count": 1, "leaves": 4, "target": "size", "seed": 1}}, "no attribute"),
        ({"random_trees": {"count": 0, "leaves": 4, **RICH, "seed": 1}}, "random_trees.count"),
    ],
)
def test_what_is_too_much_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        make_schema(ATTRIBUTES, **settings)


@pytest.mark.parametrize("key", ["tables", "random_trees"])
def test_rows_in_the_unit_ball_have_no_tables(key: str) -> None:
    attributes = [
        {"name": name, "type": "numeric", "centre": 0, "scale": 1} for name in ("age", "rich")
    ]
    asked = {
        "tables": [{"table": ["age"]}],
        "random_trees": {"count": 1, "leaves": 2, **RICH, "seed": 1},
    }
    with pytest.raises(SettingError, match=f"{key} is for attributes with bounds or labels"):
        make_schema(attributes, row_norm={}, **{key: asked[key]})


def test_a_document_holds_the_trees_that_a_file_asks_for_and_reads_them_again() -> None:
    asked = {"count": 3, "leaves": 20, **RICH, "seed": 5}
    schema = make_schema(ATTRIBUTES, tables=[{"table": ["kind", "rich"]}], random_trees=asked)
    assert schema.layout.tables == (6, 40, 40, 40)
    assert b"random_trees" not in schema.canonical_bytes()
    again = Schema.model_validate_json(schema.canonical_bytes())
    assert again.canonical_bytes() == schema.canonical_bytes()
    assert len({repr(table) for table in schema.tables}) == 4
    other = make_schema(ATTRIBUTES, random_trees={**asked, "seed": 6})
    assert other.tables != schema.tables[1:]


def test_a_schema_that_cannot_be_divided_further_has_smaller_trees() -> None:
    schema = make_schema(
        [binary_of("rich", ["no", "yes"]), categorical_of("kind", ["a", "b", "c"])],
        random_trees={"count": 2, "leaves": 64, **RICH, "seed": 1},
    )
    assert schema.layout.tables == (6, 6)


def test_a_tree_may_split_on_both_sides_of_a_spike() -> None:
    shape = {"bins": 2, "histogram": True}
    hours = numeric_of("hours", 1, 99, integer=True, spikes=[1, 40], **shape)
    pay = numeric_of("pay", 0, 1024, spikes=[0, 40], **shape)
    public = make_schema([hours, pay, binary_of("rich", ["no", "yes"])]).public
    splits = [[each.node["at_most"] for each in list_splits(index, public)] for index in (0, 1)]
    assert splits == [[1, 39, 40, 50], [0, 39, 40, 512]]


def test_a_missing_value_is_the_middle_or_above_all_others() -> None:
    schema = make_schema(
        ATTRIBUTES,
        tables=[
            {"table": ["hours"], "cells": {"hours": 3}},
            tree(by("hours", 99), {}, {}),
            tree(by("age", 53.5), {}, {}),
            {"table": ["age"], "cells": {"age": 3}},
        ],
    )
    assert schema.layout.tables == (4, 4, 4, 3)
    nan = np.array([np.nan, 99.0, np.inf])
    codes = np.zeros(3, np.int32)
    columns = [nan, nan, np.zeros(3), np.full(3, 18300.0), codes, codes]
    hours, above, age, middle = (each.tolist() for each in find_cells(schema, columns))
    assert hours == [3, 2, 3]
    assert above == [2, 0, 2]
    assert age == [0, 2, 0]
    assert middle == [1, 2, 1]


@pytest.mark.parametrize("level", [2_000_000, "2000000"])
def test_a_level_that_is_a_number_is_found_as_a_label_is(level: Any) -> None:
    pay = {"name": "pay", "type": "ordinal", "levels": [1_000_000, 2_000_000, 3_000_000]}
    rich = binary_of("rich", ["no", "yes"])
    schema = make_schema([pay, rich], tables=[tree(by("pay", level), {}, {})])
    columns = [np.array([0.0, 1.0, 2.0]), np.zeros(3, np.int32)]
    assert find_cells(schema, columns)[0].tolist() == [0, 0, 2]


def test_tables_change_a_digest_only_where_there_are_some() -> None:
    plain, counted = make_schema(ATTRIBUTES), make_schema(ATTRIBUTES, tables_weight=3)
    assert plain.digest == counted.digest
    assert b"tables" not in plain.canonical_bytes()
    one = make_schema(ATTRIBUTES, tables=[{"table": ["kind"]}])
    two = make_schema(ATTRIBUTES, tables=[{"table": ["kind"]}], tables_weight=3)
    assert len({plain.digest, one.digest, two.digest}) == 3
    assert two.layout.largest_weight == 3
    assert two.layout.n_entries == plain.layout.n_entries + 3


def test_a_study_has_its_trees_written_out_before_it_is_one() -> None:
    asked = {"count": 1, "leaves": 2, **RICH, "seed": 1}
    with pytest.raises(SettingError, match="random_trees is for a study file"):
        Schema.from_document({"attributes": ATTRIBUTES, "random_trees": asked})
    with pytest.raises(StudyError, match="random_trees is for a study file"):
        study_from_mapping(study_document(ATTRIBUTES, random_trees=asked))
    text = json.dumps(study_document(ATTRIBUTES, random_trees=asked))
    with pytest.raises(StudyError, match=r"dppca\.study_from_yaml"):
        Study.from_yaml(text)
    drawn = study_from_yaml(text)
    written = drawn.canonical_bytes().decode()
    assert Study.from_yaml(written) == study_from_yaml(written) == drawn


def test_a_file_whose_random_trees_are_null_asks_for_none() -> None:
    document = study_document(ATTRIBUTES)
    asked = {**document, "schema": {**document["schema"], "random_trees": None}}
    assert study_from_document(asked).digest == study_from_document(document).digest
    assert make_schema(ATTRIBUTES, random_trees=None) == make_schema(ATTRIBUTES)
