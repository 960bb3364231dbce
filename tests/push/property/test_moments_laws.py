"""Laws of moments: exact integers, the same in any order, batching and number of threads."""

from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from dppca.common.kernel.moments.moments import Moments, compute_moments, empty_moments, unpack
from dppca.common.kernel.schema import Layout, Schema, encode
from tests.support.examples import examples
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    kinds = draw(st.lists(st.sampled_from("nbc"), min_size=2, max_size=5))
    g = draw(st.integers(1, 14))
    attributes: list[dict[str, Any]] = []
    for index, kind in enumerate(kinds):
        name = f"a{index}"
        if kind == "n":
            attributes.append(numeric_of(name, -1, 1))
        elif kind == "b":
            attributes.append(binary_of(name, ["n", "y"]))
        else:
            labels = ["p", "q", "r", "s"][: draw(st.integers(3, 4))]
            attributes.append(categorical_of(name, labels))
    weight = draw(st.sampled_from([0.5, 1, 2, 64]))
    return make_schema(attributes, resolution_bits=g, sum_weight=weight)


@st.composite
def coded(draw: st.DrawFn) -> tuple[Schema, np.ndarray]:
    schema = draw(schemas())
    n_rows = draw(st.integers(0, 14))
    columns = [
        np.array(draw(st.lists(st.floats(-1.5, 1.5), min_size=n_rows, max_size=n_rows)))
        if attribute.type == "numeric"
        else np.array(
            draw(st.lists(st.integers(-2, 4), min_size=n_rows, max_size=n_rows)), np.int32
        )
        for attribute in schema.attributes
    ]
    return schema, encode(schema, columns)


def slow_packed(rows: np.ndarray, layout: Layout) -> list[int]:
    """The obvious version, in Python's integers."""
    p = layout.n_columns
    listed = rows.tolist()
    sums = [layout.scaled_weight * sum(row[i] for row in listed) for i in range(p)]
    products = [
        sum(row[i] * row[j] for row in listed)
        for i in range(p)
        for j in range(i, p)
        if layout.attribute_of[i] != layout.attribute_of[j]
        or (i == j and layout.kinds[i] == "numeric")
    ]
    return sums + products if layout.with_sums else products


def same(one: Moments, other: Moments) -> bool:
    return one.n_rows == other.n_rows and one.packed.tolist() == other.packed.tolist()


@given(coded())
def test_moments_are_the_sums_of_products(made: tuple[Schema, np.ndarray]) -> None:
    schema, rows = made
    found = compute_moments(rows, schema.layout)
    assert found.n_rows == len(rows)
    assert found.packed.dtype == np.int64
    assert found.packed.tolist() == slow_packed(rows, schema.layout)


@given(coded(), st.data())
def test_any_order_and_batching_gives_the_same_integers(
    made: tuple[Schema, np.ndarray], data: st.DataObject
) -> None:
    schema, rows = made
    order = data.draw(st.permutations(range(len(rows))))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    parts = [compute_moments(part, schema.layout) for part in np.split(rows[order], cuts)]
    parts = data.draw(st.permutations(parts))
    total = reduce(Moments.merge, parts, empty_moments(schema.layout))
    assert same(total, compute_moments(rows, schema.layout))


wrapping = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(st.integers(0, 9), wrapping, wrapping), min_size=3, max_size=3))
def test_merge_is_associative_and_commutative_also_modulo_two_to_the_64(
    values: list[tuple[int, int, int]],
) -> None:
    a, b, c = (Moments(n, np.array([x, y], np.int64)) for n, x, y in values)
    assert same(a.merge(b).merge(c), a.merge(b.merge(c)))
    assert same(a.merge(b), b.merge(a))
    assert same(a.merge(Moments(0, np.zeros(2, np.int64))), a)


@pytest.mark.parametrize("g", [1, 10, 14])
def test_products_stay_exact_where_float64_would_round(g: int) -> None:
    # Rows at their largest: a sum over one block comes as close to 2**53 as it may.
    document = {
        "resolution_bits": g,
        "attributes": [binary_of("b", ["n", "y"]), categorical_of("c", ["p", "q", "r"])],
    }
    layout = Schema.from_document(document).layout
    unit = 1 << g
    rows = np.tile(np.array([[unit // 2, unit, 0, 0]], np.int32), (300_000, 1))
    rows[::2, 0] *= -1
    rows[0] = [unit // 2, 0, unit, 0]
    found = compute_moments(rows, layout).packed
    half = unit // 2
    assert found[:4].tolist() == [half * 2 * unit, 299_999 * unit * unit, unit * unit, 0]
    assert found[4:].tolist() == [half * unit, half * unit, 0]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_number_of_blas_threads_changes_no_integer(threads: int) -> None:
    schema = make_schema([numeric_of(f"x{i}", -1, 1) for i in range(40)], resolution_bits=14)
    rng = np.random.default_rng(5)
    rows = encode(schema, list(rng.uniform(-1, 1, (40, 5000))))
    exact = rows.astype(np.int64)
    gram = exact.T @ exact
    with threadpool_limits(threads):
        found = compute_moments(rows, schema.layout)
    i, j = schema.layout.product_index
    assert found.packed[40:].tolist() == gram[i, j].tolist()


@given(coded())
def test_products_come_row_by_row_of_the_upper_triangle(made: tuple[Schema, np.ndarray]) -> None:
    layout = made[0].layout
    i, j = np.triu_indices(layout.n_columns)
    group = np.asarray(layout.attribute_of)
    numeric = np.asarray([kind == "numeric" for kind in layout.kinds])
    kept = (group[i] != group[j]) | ((i == j) & numeric[i])
    assert [each.tolist() for each in layout.product_index] == [i[kept].tolist(), j[kept].tolist()]
    assert layout.product_places(j[kept], i[kept]).tolist() == list(range(int(kept.sum())))


@settings(max_examples=examples(50))
@given(coded().filter(lambda made: len(made[1]) > 0))
def test_unpacking_gives_the_means_of_the_coded_rows(made: tuple[Schema, np.ndarray]) -> None:
    schema, rows = made
    real = rows / 2**schema.resolution_bits
    found = compute_moments(rows, schema.layout)
    mean, second = unpack(found.packed, found.n_rows, schema.layout)
    assert mean is not None
    np.testing.assert_allclose(mean, real.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(second, real.T @ real / len(rows), atol=1e-12)
    np.testing.assert_array_equal(second, second.T)


def test_unit_ball_without_sums_has_no_mean() -> None:
    attributes = [{"name": n, "type": "numeric", "centre": 0, "scale": 1} for n in "xyz"]
    schema = make_schema(attributes, row_norm={"include_sums": False})
    rows = encode(schema, list(np.random.default_rng(1).normal(size=(3, 50))))
    found = compute_moments(rows, schema.layout)
    assert found.packed.tolist() == slow_packed(rows, schema.layout)
    mean, second = unpack(found.packed, 50, schema.layout)
    assert mean is None
    real = rows / 1024
    np.testing.assert_allclose(second, real.T @ real / 50, atol=1e-12)
