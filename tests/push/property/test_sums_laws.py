"""Laws of sums over columns: the integers of the coded matrix, whatever way they are reached."""

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dppca.common.kernel.moments.accumulation import (
    MomentSums,
    ProductMethod,
    accumulate_moments,
    choose_method,
)
from dppca.common.kernel.moments.contingency import ContingencyCounts
from dppca.common.kernel.moments.gram import GramSum
from dppca.common.kernel.moments.moments import Moments, compute_moments
from dppca.common.kernel.schema import ColumnKind, Schema, encode, find_cells
from dppca.common.kernel.schema.attributes import Numeric
from dppca.common.kernel.schema.grid import make_grid
from tests.support.examples import examples
from tests.support.partitions import cell_of, partitions, place_of
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

METHODS = tuple(sorted(ProductMethod))
values = st.one_of(
    st.floats(-3, 3), st.floats(), st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.5])
)


@st.composite
def spikes(draw: st.DrawFn, *, lower: float, upper: float) -> list[float]:
    """Values between the bounds, if there are others; often the bounds themselves, and 0."""
    often = st.sampled_from([each for each in (0.0, lower, upper) if lower <= each <= upper])
    own = sorted(draw(st.sets(often | st.floats(lower, upper), max_size=3)))
    crowded = np.nextafter(np.nextafter(np.nextafter(lower, upper), upper), upper) >= upper
    return [] if crowded else own


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, list[np.ndarray]]:
    kinds = draw(st.lists(st.sampled_from("nbc"), min_size=2, max_size=6))
    n_rows = draw(st.integers(1, 12))
    attributes: list[dict[str, Any]] = []
    columns: list[np.ndarray] = []
    for index, kind in enumerate(kinds):
        name = f"a{index}"
        if kind == "n":
            lower = draw(st.sampled_from([-2.0, 0.0, -1e300, 1e16]))
            width = draw(st.sampled_from([1.0, 0.1, 3.7, 1e300, 1e-3 if lower == 0 else 4.0]))
            bounds = {"lower": lower, "upper": lower + width}
            if not bounds["lower"] < bounds["upper"]:
                bounds = {"lower": 0.0, "upper": 1.0}
            shape: dict[str, Any] = {}
            if draw(st.booleans()):
                shape = {"histogram": True, "bins": draw(st.integers(2, 6))}
                if abs(lower) < 1e16 and draw(st.booleans()):  # else there may be but one bin
                    shape["products"] = "bins"
                    del shape["histogram"]
                shape |= {"score": draw(st.sampled_from(["linear", "log"]))}
                if own := draw(spikes(**bounds)):
                    shape |= {"spikes": own}
                if draw(st.booleans()):
                    asked = ["level"] if "products" in shape else ["level", "indicator"]
                    shape |= {"missing": draw(st.sampled_from(asked))}
            attributes.append({"name": name, "type": "numeric", **bounds, **shape})
            listed = draw(st.lists(values, min_size=n_rows, max_size=n_rows))
            columns.append(np.array(listed))
            continue
        labels = ["p", "q", "r", "s", "t"][: 2 if kind == "b" else draw(st.integers(3, 5))]
        missing = draw(st.sampled_from([None, labels[-1]]))
        shape = (
            {"type": "binary", "values": labels}
            if kind == "b"
            else {"type": "categorical", "categories": labels}
        )
        attributes.append({"name": name, "missing": missing, **shape})
        codes = st.integers(-3, len(labels) + 1)
        listed_codes = draw(st.lists(codes, min_size=n_rows, max_size=n_rows))
        columns.append(np.array(listed_codes, np.int32))
    document = {
        "resolution_bits": draw(st.integers(1, 14)),
        "sum_weight": draw(st.sampled_from([0.5, 1, 2])),
        "histogram_weight": draw(st.sampled_from([0.5, 1, 3])),
        "targets": draw(st.sampled_from([[], ["a0"], ["a0", "a1"]])),
        "target_weight": draw(st.integers(2, 5)),
        "attributes": attributes,
    }
    document["tables_weight"] = draw(st.sampled_from([0.25, 1, 2]))
    document["tables"] = draw(partitions({**document}))
    document["only_tables"] = bool(document["tables"]) and draw(st.booleans())
    if document["only_tables"]:
        document["targets"] = []
    return Schema.from_document(document), columns


def same(one: Moments, other: Moments) -> bool:
    return one.n_rows == other.n_rows and one.packed.tolist() == other.packed.tolist()


@settings(max_examples=examples(60))
@given(tables(), st.sampled_from(METHODS), st.integers(1, 4))
def test_every_method_and_number_of_workers_gives_the_integers_of_the_coded_rows(
    made: tuple[Schema, list[np.ndarray]], method: ProductMethod, workers: int
) -> None:
    schema, columns = made
    expected = moments_of_coded_rows(schema, columns)
    assert same(accumulate_moments(schema, columns, workers=workers, method=method), expected)
    assert same(accumulate_moments(schema, columns), expected)


@settings(max_examples=examples(60))
@given(tables(), st.sampled_from(METHODS), st.data())
def test_any_batching_gives_the_same_integers(
    made: tuple[Schema, list[np.ndarray]], method: ProductMethod, data: st.DataObject
) -> None:
    schema, columns = made
    n_rows = len(columns[0])
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, n_rows), max_size=3))), n_rows]
    sums = MomentSums(schema, method=method)
    for start, stop in pairwise(cuts):
        sums.add([column[start:stop] for column in columns])
        sums.total()  # may be asked at any time
    assert same(sums.total(), moments_of_coded_rows(schema, columns))


@settings(max_examples=examples(60))
@given(tables())
def test_the_packed_vector_is_what_its_definition_says(
    made: tuple[Schema, list[np.ndarray]],
) -> None:
    schema, columns = made
    layout, g = schema.layout, schema.resolution_bits
    rows = encode(schema, columns).tolist()
    targets = {schema.find_index(name) for name in schema.targets}
    expected = [int(schema.sum_weight * 2**g) * sum(each) for each in zip(*rows, strict=True)]
    for i, a in enumerate(layout.attribute_of):
        for j, b in enumerate(layout.attribute_of[i:], start=i):
            if a != b or layout.kinds[i] is ColumnKind.NUMERIC:
                weight = schema.target_weight if a != b and targets & {a, b} else 1
                expected.append(weight * sum(row[i] * row[j] for row in rows))
    for attribute, values, cells in zip(schema.attributes, columns, schema.cells, strict=True):
        if isinstance(attribute, Numeric) and attribute.histogram and cells is not None:
            counts = [0] * cells.n_cells
            for value in values.tolist():
                counts[place_of(value, attribute, cells)] += 1
            expected += [int(schema.histogram_weight * 4**g) * count for count in counts]
    if schema.only_tables:
        expected = []
    values_by_row = list(zip(*(column.tolist() for column in columns), strict=True))
    for number, partition in enumerate(schema.partitions):
        counts = [0] * partition.n_cells
        for row in values_by_row:
            counts[cell_of(schema, number, row)] += 1
        expected += [int(schema.tables_weight * 4**g) * count for count in counts]
    assert accumulate_moments(schema, columns).packed.tolist() == expected


@settings(max_examples=examples(60))
@given(tables())
def test_a_bin_in_products_has_the_sums_of_a_label(made: tuple[Schema, list[np.ndarray]]) -> None:
    """As a categorical of the same cells, whose codes are found by the definition of a cell."""
    columns = made[1]
    document = {**made[0].model_dump(mode="json"), "tables": [], "only_tables": False}
    schema = Schema.from_document(document)
    labelled = list(columns)
    for index, (attribute, cells) in enumerate(zip(schema.attributes, schema.cells, strict=True)):
        if isinstance(attribute, Numeric) and attribute.products is not None and cells is not None:
            codes = [place_of(value, attribute, cells) for value in columns[index].tolist()]
            assume(cells.n_cells > 2)  # no categorical has two labels
            labels = [f"l{number}" for number in range(cells.n_cells)]
            document["attributes"][index] = categorical_of(attribute.name, labels)
            labelled[index] = np.array(codes, np.int32)
    alike = Schema.from_document(document)
    for method in METHODS:
        found = accumulate_moments(schema, columns, method=method)
        assert same(found, accumulate_moments(alike, labelled, method=method))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("method", METHODS)
def test_a_matrix_of_numerics_of_which_some_are_in_bins(method: ProductMethod, order: Any) -> None:
    numeric = {"type": "numeric", "lower": -2, "upper": 3}
    attributes = [
        {"name": f"x{i}", **numeric, **({"bins": 5, "products": "bins"} if i % 2 else {})}
        for i in range(5)
    ]
    schema = make_schema(attributes)
    matrix = np.asarray(np.random.default_rng(2).normal(size=(3000, 5)), order=order)
    expected = moments_of_coded_rows(schema, list(matrix.T))
    assert same(accumulate_moments(schema, matrix, method=method, workers=2), expected)


def moments_of_coded_rows(schema: Schema, columns: list[np.ndarray]) -> Moments:
    return compute_moments(encode(schema, columns), schema.layout, find_cells(schema, columns))


def numeric_schema(d: int, g: int, *, ball: bool = False) -> Schema:
    bounds = {"centre": 0.1, "scale": 3.0} if ball else {"lower": -3, "upper": 3.5}
    return make_schema(
        [{"name": f"x{i}", "type": "numeric", **bounds} for i in range(d)],
        resolution_bits=g,
        row_norm={} if ball else None,
    )


@pytest.mark.parametrize("order", ["C", "F", "columns", "strided"])
@pytest.mark.parametrize(
    ("d", "g", "n_rows", "ball"),
    [
        (3, 10, 9000, False),
        (20, 6, 2500, False),
        (33, 6, 2500, False),
        (130, 6, 2500, False),
        (130, 10, 2500, False),
        (70, 14, 2500, False),
        (5, 10, 3000, True),
    ],
)
def test_a_matrix_in_any_order_gives_the_integers_of_its_columns(
    d: int, g: int, n_rows: int, ball: bool, order: str
) -> None:
    schema = numeric_schema(d, g, ball=ball)
    rows = np.random.default_rng(d).normal(size=(n_rows, d))
    rows[::97] *= 1e5
    rows[5, 1] = np.nan
    batch: Any = {
        "C": rows,
        "F": np.asfortranarray(rows),
        "columns": list(np.ascontiguousarray(rows.T)),
        "strided": np.repeat(rows, 2, axis=1)[:, ::2],
    }[order]
    before = rows.copy()
    found = accumulate_moments(schema, batch, workers=2)
    coded = encode(schema, list(rows.T)).astype(np.int64)
    i, j = schema.layout.product_index
    gram = coded.T @ coded
    expected = [*(coded.sum(axis=0) * schema.layout.scaled_weight), *gram[i, j]]
    assert found.packed.tolist() == expected
    np.testing.assert_array_equal(rows, before)


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=examples(100))
@given(
    st.tuples(finite, finite), st.lists(st.floats(), min_size=1, max_size=20), st.integers(1, 14)
)
@example((0.0, 5e-324), [0.0, 5e-324, 1e-323, -1.0], 10)
@example((1e16, 1e16 + 2), [0.0, 1e16, 1e16 + 2, 1e17], 10)
@example((-1e308, 7e307), [1e308, -1e308, 0.0], 14)
@example((0.0, 1.0), [0.5 + 2.0**-12, 0.5 - 2.0**-12, 0.5 + 3 * 2.0**-12], 10)
def test_the_grid_codes_as_the_formula_step_by_step(
    bounds: tuple[float, float], listed: list[float], g: int
) -> None:
    lower, upper = min(bounds), max(bounds)
    if not lower < upper or not np.isfinite(upper - lower):
        return
    one = Numeric(name="x", type="numeric", lower=lower, upper=upper)
    two = Numeric(name="y", type="numeric", lower=-1, upper=2)
    schema = Schema(resolution_bits=g, attributes=(one, two))
    given_values = np.array([*listed, lower, upper])
    columns = [given_values, given_values]
    expected = encode(schema, columns)
    for order in ("C", "F"):
        rows = np.asarray(np.column_stack(columns), order=order)
        out = np.empty(rows.shape, np.float32)
        make_grid((one, two), resolution_bits=g).code(rows, work=np.empty_like(rows), out=out)
        np.testing.assert_array_equal(out, expected)


@settings(max_examples=examples(40))
@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 14)), min_size=1, max_size=4),
    st.sampled_from([1 << 28, 1 << 45, 1 << 52]),
    st.integers(0, 2**32 - 1),
)
def test_products_of_blocks_of_any_height_and_size_are_exact(
    p: int, blocks: list[tuple[int, int]], largest: int, seed: int
) -> None:
    # Values up to 2^14 are far too large for float32 over hundreds of rows.
    rng = np.random.default_rng(seed)
    sums = GramSum(p, largest=largest)
    expected = np.zeros((p, p), np.int64)
    for n_rows, bits in blocks:
        rows = rng.integers(-(1 << bits), (1 << bits) + 1, (n_rows, p))
        sums.add(np.asarray(rows, np.float32, order="CF"[bits % 2]))
        expected += rows.T @ rows
    np.testing.assert_array_equal(sums.total(), expected)


@pytest.mark.parametrize("over", [-1, 0, 1])
@pytest.mark.parametrize("n_columns", [2, 20, 150])
def test_products_at_the_limit_of_float32_are_exact(n_columns: int, over: int) -> None:
    # The first column's squares sum to 2^24 + over: one more than float32 counts in ones.
    rows = np.ones((4096, n_columns), np.float32)
    rows[:, 0] = 64
    rows[-1, 0] = [63, 64, 65][over + 1]
    rows[::2, 1:] *= -1
    exact = rows.astype(np.int64)
    sums = GramSum(n_columns, largest=65**2)
    sums.add(rows)
    sums.add(rows)
    np.testing.assert_array_equal(sums.total(), 2 * exact.T @ exact)


@pytest.mark.parametrize("n_columns", [20, 32, 140])
def test_rows_too_large_for_float32_do_not_stop_later_ones(n_columns: int) -> None:
    rng = np.random.default_rng(3)
    parts = [rng.integers(-(1 << b), 1 << b, (3001, n_columns)) for b in (3, 9, 11, 2, 14, 2, 9)]
    sums = GramSum(n_columns, largest=1 << 28)
    for part in parts:
        sums.add(part.astype(np.float32))
    np.testing.assert_array_equal(sums.total(), sum(part.T @ part for part in parts))
    np.testing.assert_array_equal(sums.sums(), sum(part.sum(axis=0) for part in parts))


@pytest.mark.parametrize("sizes", [(3,), (2, 3, 2), (40, 30, 20, 2), (700, 400, 3), (2,) * 40])
@pytest.mark.parametrize(("q", "largest"), [(0, 1), (2, 512), (2, 1 << 20)])
def test_counts_are_those_of_indicator_columns(
    sizes: tuple[int, ...], q: int, largest: int
) -> None:
    rng = np.random.default_rng(sum(sizes))
    tally = ContingencyCounts(sizes, n_numerics=q, largest=largest)
    codes = [rng.integers(0, size, 500, np.int32) for size in sizes]
    numerics = rng.integers(-largest, largest + 1, (500, q)).astype(np.float32)
    for part in (slice(0, 200), slice(200, 500)):
        tally.add([code[part] for code in codes], numerics[part])
    dense = [
        (code[:, None] == np.arange(n)).astype(int) for code, n in zip(codes, sizes, strict=True)
    ]
    for a, first in enumerate(dense):
        np.testing.assert_array_equal(tally.counts(a), first.sum(axis=0))
        np.testing.assert_array_equal(tally.sums(a), first.T @ numerics.astype(np.int64))
        for b, second in enumerate(dense):
            np.testing.assert_array_equal(tally.pair(a, b), first.T @ second)


def test_an_attribute_of_five_thousand_categories_is_counted() -> None:
    labels = [f"c{i}" for i in range(5000)]
    document = {
        "attributes": [
            numeric_of("x", 0, 1),
            categorical_of("c", labels),
            binary_of("b", ["n", "y"]),
        ]
    }
    schema = Schema.from_document(document)
    assert choose_method(schema) is ProductMethod.COUNTS
    rng = np.random.default_rng(1)
    x, c, b = rng.random(3000), rng.integers(0, 5000, 3000), rng.integers(0, 2, 3000)
    found = accumulate_moments(schema, [x, c.astype(np.int32), b.astype(np.int32)])
    z = np.rint((x - 0.5) * 1024).astype(int)
    by_label = [int(z[c == k].sum()) * 1024 for k in range(5000)]
    sign = (2 * b - 1) * 512
    expected = [
        *(int(z.sum()) * 1024, *(int((c == k).sum()) << 20 for k in range(5000))),
        *(int(sign.sum()) * 1024, int((z * z).sum()), *by_label, int((z * sign).sum())),
        *(int(sign[c == k].sum()) * 1024 for k in range(5000)),
    ]
    assert found.packed.tolist() == expected


def test_merging_workers_is_merging_moments() -> None:
    schema = numeric_schema(4, 10)
    rows = np.random.default_rng(2).normal(size=(1000, 4))
    parts = [accumulate_moments(schema, part) for part in np.array_split(rows, 3)]
    assert same(reduce(Moments.merge, parts), accumulate_moments(schema, rows, workers=3))
