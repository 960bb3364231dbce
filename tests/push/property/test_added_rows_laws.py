"""No row adds more to the sums than the sensitivity to an added row, and some row adds all of it.

Through the real coding: the sums of a table with the row less those of the table without it.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.moments.moments import compute_moments
from dppca.common.kernel.privacy.added_rows import AddedShape, added_l1, added_l2_squared
from dppca.common.kernel.privacy.release import released_shape, schema_sensitivity
from dppca.common.kernel.privacy.sensitivity import BallShape, Relation
from dppca.common.kernel.schema import Column, Schema, encode, find_cells
from dppca.common.kernel.schema.attributes import Numeric
from tests.support.partitions import partitions
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

FALSE_ALARMS = 0.0
BITS = st.sampled_from([1, 2, 10])
Values = tuple[float, ...]


@st.composite
def box_schemas(draw: st.DrawFn) -> Schema:
    """Schemas in a box with every kind of entry, in any mix, whose number of rows is secret."""
    attributes: list[dict[str, Any]] = []
    for i in range(draw(st.integers(0, 3))):
        more = draw(
            st.sampled_from(
                [
                    {},
                    {"score": "log"},
                    {"integer": True},
                    {"missing": "indicator"},
                    {"bins": [1.5, 3], "histogram": True},
                    {"bins": [1.5, 3], "histogram": True, "missing": "indicator"},
                    {"bins": [1.5, 3], "products": "bins", "missing": "level"},
                ]
            )
        )
        attributes.append(numeric_of(f"x{i}", 0, 4, **more))
    attributes += [binary_of(f"b{i}", ["n", "y"]) for i in range(draw(st.integers(0, 2)))]
    attributes += [categorical_of(f"c{i}", list("pqr")) for i in range(draw(st.integers(0, 2)))]
    attributes += [binary_of("last", ["n", "y"]), binary_of("least", ["n", "y"])]
    settings: dict[str, Any] = {
        "resolution_bits": draw(BITS),
        "neighbours": "added",
        "sum_weight": draw(st.sampled_from([0.5, 1, 2])),
        "histogram_weight": draw(st.sampled_from([0.25, 1, 3])),
        "tables_weight": draw(st.sampled_from([0.25, 1, 3])),
    }
    plain = make_schema(attributes, **settings)
    settings["tables"] = tables = draw(partitions(plain.model_dump(mode="json")))
    if tables and draw(st.booleans()):
        return make_schema(attributes, **settings, only_tables=True)
    names = [each["name"] for each in attributes]
    settings["targets"] = draw(st.lists(st.sampled_from(names), unique=True, max_size=2))
    settings["target_weight"] = draw(st.integers(2, 4))
    settings["count_weight"] = draw(st.sampled_from([0.25, 1, 6]))
    if plain.has_squares:
        settings["square_weight"] = draw(st.integers(1, 5))
    return make_schema(attributes, **settings)


def columns_of(schema: Schema, rows: list[Values]) -> list[Column]:
    return [
        np.array(values, np.float64 if isinstance(each, Numeric) else np.int32)
        for each, values in zip(schema.attributes, zip(*rows, strict=True), strict=True)
    ]


def added(schema: Schema, before: list[Values], row: Values) -> NDArray[Any]:
    """What a row adds to the sums of the rows before it, as exact integers."""
    with_row, without = (
        accumulate_moments(schema, columns_of(schema, rows)).packed.astype(object)
        for rows in ([*before, row], before)
    )
    change: NDArray[Any] = with_row - without
    return change


@given(st.data())
def test_no_row_adds_more_than_the_sensitivity_to_an_added_row(data: st.DataObject) -> None:
    schema = data.draw(box_schemas(), label="schema")
    ends = st.sampled_from([0.0, 1.5, 2.0, 4.0, np.nan, np.inf, -9.0])
    cells = [
        ends | st.floats(0, 4) if isinstance(each, Numeric) else st.integers(-1, len(each.labels))
        for each in schema.attributes
    ]
    rows = st.tuples(*cells)
    before, row = data.draw(st.lists(rows, min_size=1, max_size=3)), data.draw(rows)
    bound, change = schema_sensitivity(schema), added(schema, before, row)
    assert bound.relation is Relation.ADD_OR_REMOVE_ONE
    assert np.abs(change).sum() <= bound.l1
    assert (change**2).sum() <= bound.l2_squared


@given(box_schemas())
def test_a_row_with_all_numbers_at_a_bound_adds_exactly_that(schema: Schema) -> None:
    row = tuple(4.0 if isinstance(each, Numeric) else 0 for each in schema.attributes)
    bound, change = schema_sensitivity(schema), added(schema, [row], row)
    assert np.abs(change).sum() == bound.l1
    assert (change**2).sum() == bound.l2_squared


@given(st.data())
def test_no_row_in_the_ball_adds_more_and_some_add_nearly_all(data: st.DataObject) -> None:
    d, bits, with_sums = (data.draw(each) for each in (st.integers(2, 6), BITS, st.booleans()))
    schema = make_schema(
        [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(d)],
        resolution_bits=bits,
        neighbours="added",
        row_norm={"include_sums": with_sums},
        sum_weight=data.draw(st.sampled_from([0.5, 1, 2])),
        count_weight=data.draw(st.sampled_from([0.25, 1, 6])),
    )
    bound = schema_sensitivity(schema)
    drawn = data.draw(st.lists(st.floats(-3, 3), min_size=d, max_size=d))
    found = [
        added(schema, [(0.0,) * d], row)
        for row in (tuple(drawn), (9.0,) * d, (1.0,) + (0.0,) * (d - 1))
    ]
    for change in found:
        assert np.abs(change).sum() <= bound.l1
        assert (change**2).sum() <= bound.l2_squared
    if bits == 10:
        assert np.abs(found[1]).sum() >= 0.99 * bound.l1
        assert (found[2] ** 2).sum() >= 0.99 * bound.l2_squared


@given(box_schemas())
def test_the_number_of_rows_is_the_last_entry_by_both_ways_of_adding_up(schema: Schema) -> None:
    rows = [tuple(4.0 if isinstance(each, Numeric) else 1 for each in schema.attributes)] * 3
    columns, layout = columns_of(schema, rows), schema.layout
    moments = accumulate_moments(schema, columns)
    again = compute_moments(encode(schema, columns), layout, find_cells(schema, columns))
    assert np.array_equal(moments.packed, again.packed)
    assert moments.packed.shape == (layout.n_entries,)
    if layout.with_count:
        assert moments.packed[-1] == 3 * layout.count_weight * 4**schema.resolution_bits
    else:
        assert schema.only_tables


@pytest.mark.parametrize("with_sums", [True, False])
def test_halved_products_of_a_ball_stay_within_the_claim(with_sums: bool) -> None:
    """Products of two columns count twice, because their noise has half of the variance."""
    schema = make_schema(
        [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(3)],
        neighbours="added",
        row_norm={"include_sums": with_sums, "halved_products": True},
    )
    twice = np.ones(schema.layout.n_entries, np.int64)
    twice[schema.layout.halved_places] = 2
    bound = schema_sensitivity(schema)
    shares = [
        (twice * added(schema, [(0.0,) * 3], row) ** 2).sum() / bound.l2_squared
        for row in [(9.0, 9.0, 9.0), (1.0, 0.0, 0.0), (-9.0, 9.0, 3.0)]
    ]
    assert 0.99 <= max(shares) <= 1


def test_released_numbers_are_those_of_the_design() -> None:
    """Count's weight 1: 16 yes/no columns, and the attributes of Adult."""
    flags = make_schema([binary_of(f"b{i}", ["n", "y"]) for i in range(16)], neighbours="added")
    shape = released_shape(flags)
    assert isinstance(shape, AddedShape)
    assert (added_l1(shape), added_l2_squared(shape)) == (39, Fraction(25, 2))
    ball = AddedShape(BallShape(4, with_sums=True), Fraction(1))
    assert (added_l1(ball), added_l2_squared(ball)) == (Fraction(5, 2) + 2 + 1, 3)
