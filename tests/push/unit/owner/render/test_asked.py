"""What a study asks for, in a steward's words: each number that leaves is of a kind named."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.schema import Schema
from dppca.owner.render.asked import describe_entries, entries_text
from tests.support.examples import examples
from tests.support.missing_numbers import draw_schema
from tests.support.studies import CENSUS, Attributes, make_schema, numeric_of

SHAPED = [numeric_of("pay", 0, 50, histogram=True, bins=4), *CENSUS]
BALL = [{"name": name, "type": "numeric", "centre": 0, "scale": 1} for name in "xy"]
TABLE = [{"table": ["sex", "work"]}]
SUMS, PRODUCTS = "sums of coded columns", "sums of their squares and of products of two"
CELLS, TABLES = (
    "counts of rows in cells of histograms",
    "counts of rows in cells of tables and trees",
)


@pytest.mark.parametrize(
    ("attributes", "settings", "kinds"),
    [
        (CENSUS, {}, [SUMS, PRODUCTS]),
        (SHAPED, {}, [SUMS, PRODUCTS, CELLS]),
        (CENSUS, {"tables": TABLE}, [SUMS, PRODUCTS, TABLES]),
        (SHAPED, {"tables": TABLE, "targets": ["sex"]}, [SUMS, PRODUCTS, CELLS, TABLES]),
        (CENSUS, {"tables": TABLE, "only_tables": True}, [TABLES]),
        (BALL, {"row_norm": {"include_sums": False}}, [PRODUCTS]),
    ],
)
def test_every_kind_of_number_that_leaves_is_said_with_its_count(
    attributes: Attributes, settings: dict[str, object], kinds: list[str]
) -> None:
    layout = make_schema(attributes, **settings).layout
    found = describe_entries(layout)
    assert [each.what for each in found] == kinds
    assert sum(each.count for each in found) == layout.n_entries
    assert all(f"{each.count:,} {each.what}" in entries_text(found) for each in found)


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32 - 1))
def test_the_counts_of_any_schema_add_up_to_all_that_leaves(seed: int) -> None:
    schema: Schema | None = draw_schema(np.random.default_rng(seed))
    if schema is not None:
        found = describe_entries(schema.layout)
        assert sum(each.count for each in found) == schema.layout.n_entries
        assert all(each.count > 0 for each in found)
