"""No pair of rows moves the sums by more than the sensitivity, and some pair by nearly as much.

The oracle is `box_entries` and `ball_entries`: what one integer row adds to the packed vector,
written out from the definition of the release.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from math import isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.release import sensitivity_shape
from dppca.common.kernel.privacy.sensitivity import (
    BallShape,
    BoxShape,
    HeavySquaresShape,
    MissingBoxShape,
    Sensitivity,
    _Inside,
    real_l1,
    real_l2_squared,
    sensitivity,
)
from dppca.common.kernel.schema import Column, Schema
from tests.support.partitions import partitions
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

Row = tuple[tuple[int, ...], ...]  # one block of columns for each attribute


def box_entries(
    row: Row,
    *,
    n_numeric: int,
    bits: int,
    weight: Fraction,
    targets: frozenset[int] = frozenset(),
    target_weight: int = 1,
    square_weight: int = 1,
) -> list[int]:
    """Contribution of a row whose first ``n_numeric`` attributes are numeric, in units of 4^-g."""
    unit = weight * 2**bits
    assert unit.denominator == 1
    sums = [unit.numerator * z for block in row for z in block]
    pairs = [
        (target_weight if targets & {a, b} else 1) * y * z
        for (a, left), (b, right) in combinations(enumerate(row), 2)
        for y in left
        for z in right
    ]
    squares = [square_weight * z * z for block in row[:n_numeric] for z in block]
    return sums + pairs + squares


def cell_entries(values: Sequence[int], edges: Sequence[int], *, bits: int, h: int) -> list[int]:
    """Histograms of numerics whose last cell begins at the edge; in units of 4^-g."""
    unit = h * 4**bits
    return [
        unit * (inside == (value >= edge))
        for value, edge in zip(values, edges, strict=True)
        for inside in (False, True)
    ]


def ball_entries(row: list[int], *, with_sums: bool, bits: int, weight: Fraction) -> list[int]:
    unit = weight * 2**bits
    assert unit.denominator == 1
    triangle = [row[i] * row[j] for i in range(len(row)) for j in range(i, len(row))]
    return triangle + ([unit.numerator * z for z in row] if with_sums else [])


def assert_within(left: list[int], right: list[int], bound: Sensitivity) -> None:
    change = [y - z for y, z in zip(left, right, strict=True)]
    assert sum(map(abs, change)) <= bound.l1
    assert sum(entry**2 for entry in change) <= bound.l2_squared


def furthest(entries: NDArray[np.int64]) -> tuple[int, int]:
    """The largest L1 and squared L2 distances of any two of all contributions, (n, D)."""
    changes = [np.abs(entries - row) for row in entries]
    return (
        max(int(change.sum(axis=1).max()) for change in changes),
        max(int((change**2).sum(axis=1).max()) for change in changes),
    )


def all_rows(numeric: int, binary: int, blocks: Sequence[int], bits: int) -> list[Row]:
    """Every row of a small schema."""
    half = 2 ** (bits - 1)
    return list(
        product(
            *[[(z,) for z in range(-half, half + 1)]] * numeric,
            *[[(-half,), (half,)]] * binary,
            *[_indicators(block, bits) for block in blocks],
        )
    )


@given(st.data())
def test_no_pair_of_box_rows_exceeds_the_sensitivity(data: st.DataObject) -> None:
    bits = data.draw(st.integers(1, 6), label="resolution bits")
    numeric = data.draw(st.integers(0, 4), label="numeric")
    binary = data.draw(st.integers(0, 4), label="binary")
    blocks = data.draw(st.lists(st.integers(3, 5), max_size=3), label="categoricals")
    if numeric + binary + len(blocks) == 0:
        blocks = [3]
    weight = Fraction(data.draw(st.integers(1, 2 ** (bits + 2)), label="w 2^g"), 2**bits)
    half = 2 ** (bits - 1)
    ends = st.sampled_from([-half, half])
    row = st.tuples(
        *[(ends | st.integers(-half, half)).map(lambda z: (z,)) for _ in range(numeric)],
        *[ends.map(lambda z: (z,)) for _ in range(binary)],
        *[st.sampled_from(_indicators(block, bits)) for block in blocks],
    )
    left, right = data.draw(row), data.draw(row)
    shape = BoxShape(numeric + binary, numeric, len(blocks), sum_weight=weight)
    assert_within(
        box_entries(left, n_numeric=numeric, bits=bits, weight=weight),
        box_entries(right, n_numeric=numeric, bits=bits, weight=weight),
        sensitivity(shape, resolution_bits=bits),
    )


@given(st.data())
def test_no_pair_of_ball_rows_exceeds_the_sensitivity(data: st.DataObject) -> None:
    bits = data.draw(st.integers(1, 8), label="resolution bits")
    columns = data.draw(st.integers(1, 6), label="columns")
    with_sums = data.draw(st.booleans(), label="with sums")
    weight = Fraction(data.draw(st.integers(1, 2 ** (bits + 2)), label="w 2^g"), 2**bits)
    raw = st.lists(st.integers(-100, 100), min_size=columns, max_size=columns)
    left, right = (_into_ball(data.draw(raw), bits) for _ in range(2))
    shape = BallShape(columns, with_sums=with_sums, sum_weight=weight)
    assert_within(
        ball_entries(left, with_sums=with_sums, bits=bits, weight=weight),
        ball_entries(right, with_sums=with_sums, bits=bits, weight=weight),
        sensitivity(shape, resolution_bits=bits),
    )


# numeric, binary, sizes of categoricals, resolution bits
SMALL_SCHEMAS = [
    (1, 0, (), 6),
    (2, 0, (), 4),
    (3, 0, (), 3),
    (4, 0, (), 2),
    (1, 1, (), 6),
    (2, 1, (), 3),
    (1, 4, (), 4),
    (2, 2, (), 3),
    (3, 1, (), 2),
    (0, 5, (), 2),
    (0, 0, (3, 3, 3), 2),
    (1, 0, (3,), 4),
    (2, 1, (3,), 2),
    (3, 0, (3,), 2),
    (1, 1, (3, 3), 2),
    (0, 2, (3, 4), 2),
    (1, 1, (2, 3), 2),  # two bins of a numeric in products, and three of another
]
LARGEST = [(3, 0, (), 3), (4, 0, (), 2), (2, 2, (), 3), (3, 0, (3,), 2)]
small_schemas = pytest.mark.parametrize(("numeric", "binary", "blocks", "bits"), SMALL_SCHEMAS)


@pytest.mark.parametrize("weight", ["1/4", "1/2", "3/4", "1", "2"])
@small_schemas
def test_enumeration_of_a_small_schema_meets_the_formulas(
    numeric: int, binary: int, blocks: tuple[int, ...], bits: int, weight: str
) -> None:
    w = Fraction(weight)
    rows = all_rows(numeric, binary, blocks, bits)
    l1, l2_squared = furthest(
        np.array([box_entries(row, n_numeric=numeric, bits=bits, weight=w) for row in rows])
    )
    shape = BoxShape(numeric + binary, numeric, len(blocks), sum_weight=w)
    bound = sensitivity(shape, resolution_bits=bits)
    assert 0.97 * bound.l1 <= l1 <= bound.l1
    if (numeric, binary, blocks) == (1, 0, ()) and w < Fraction(1, 2):
        assert l2_squared <= bound.l2_squared  # the one case without a matching pair of rows
    else:
        assert l2_squared == bound.l2_squared


@pytest.mark.parametrize(("a", "weight"), [(2, "1/4"), (5, "1"), (3, "2")])
@pytest.mark.parametrize(
    ("numeric", "binary", "blocks", "bits"),
    [each for each in SMALL_SCHEMAS if each[0] and each not in LARGEST],
)
def test_enumeration_with_heavy_squares_meets_the_formulas(
    numeric: int, binary: int, blocks: tuple[int, ...], bits: int, weight: str, a: int
) -> None:
    w = Fraction(weight)
    rows = all_rows(numeric, binary, blocks, bits)
    entries = [
        box_entries(row, n_numeric=numeric, bits=bits, weight=w, square_weight=a) for row in rows
    ]
    l1, l2_squared = furthest(np.array(entries))
    shape = HeavySquaresShape(numeric + binary, numeric, len(blocks), sum_weight=w, square_weight=a)
    bound = sensitivity(shape, resolution_bits=bits)
    assert 0.94 * bound.l1 <= l1 <= bound.l1  # the best beta is between the grid's
    assert 0.5 * bound.l2_squared <= l2_squared <= bound.l2_squared


@pytest.mark.parametrize(
    ("numeric", "binary", "categoricals", "weight", "a"),
    [(1, 1, 0, "5", 18), (2, 2, 0, "2", 7), (1, 2, 1, "2", 8)],
)
def test_numbers_inside_stay_below_the_bound_of_heavy_squares(
    numeric: int, binary: int, categoricals: int, weight: str, a: int
) -> None:
    """Where the best beta is none of 0, 1/2 and 1."""
    bits, found, w = 4, 0, Fraction(weight)
    half = 2 ** (bits - 1)
    blocks = _indicators(2, bits)
    for step, inside, flipped in product(range(2**bits), range(1, numeric + 1), range(binary + 1)):
        sides = [(half, step - half)] * inside + [(half, -half)] * (numeric - inside)
        sides += [(half, -half)] * flipped + [(half, half)] * (binary - flipped)
        pair = [
            box_entries(
                (*((each[side],) for each in sides), *[blocks[side]] * categoricals),
                n_numeric=numeric, bits=bits, weight=w, square_weight=a,
            )
            for side in (0, 1)
        ]  # fmt: skip
        found = max(found, sum((x - y) ** 2 for x, y in zip(*pair, strict=True)))
    corner, shape = (
        HeavySquaresShape(
            numeric + binary, numeric, categoricals, sum_weight=w, square_weight=weight_of_squares
        )
        for weight_of_squares in (1, a)
    )
    most = sensitivity(shape, resolution_bits=bits).l2_squared
    assert sensitivity(corner, resolution_bits=bits).l2_squared < found <= most


@pytest.mark.parametrize("weight", ["1/4", "1", "3"])
def test_the_search_inside_has_the_values_of_light_squares(weight: str) -> None:
    """With a = 1, (13) is (4) without a categorical, and (11) beside one changing number."""
    w = Fraction(weight)
    for Q in range(1, 7):
        for q in range(1, Q + 1):
            C, one, half = Fraction(Q, 2) + w, Fraction(1), Fraction(1, 2)
            inside = _Inside(C, 0 * one, half, binaries=Q - q, numerics=q)
            assert inside.largest() == real_l1(BoxShape(Q, q, 0, sum_weight=w))
            changing = MissingBoxShape(Q, q, 0, sum_weight=w, indicator_counts=(1, 0))
            C = Fraction(Q - 1, 2) + w  # of the others
            inside = _Inside(C, half, half, binaries=Q - q, numerics=q - 1)
            own = w + Fraction(1, 4) + Fraction(Q - 1, 2)
            assert own + inside.largest() == real_l1(changing)


@pytest.mark.parametrize("targets", [(0, 0, 2), (1, 0, 0), (2, 1, 1)])
@pytest.mark.parametrize("indicators", [(0, 0), (1, 0), (1, 1)])
def test_more_weight_of_squares_is_never_less_sensitivity(
    targets: tuple[int, int, int], indicators: tuple[int, int]
) -> None:
    if indicators[1] > targets[1]:
        return
    for name in (real_l1, real_l2_squared):
        found = [name(MissingBoxShape(5, 3, 3, **_more(targets, indicators)))]
        for a in range(1, 12):
            more = _more(targets, indicators)
            found.append(name(HeavySquaresShape(5, 3, 3, **more, square_weight=a)))
        assert found[0] == found[1]
        assert found == sorted(found)


def _more(targets: tuple[int, int, int], indicators: tuple[int, int]) -> dict[str, Any]:
    return {"target_counts": targets, "target_weight": 3, "indicator_counts": indicators}


@pytest.mark.parametrize(("a", "norm"), [(7, 1), (6, 2)])
def test_the_free_weight_of_adult_is_free_and_one_more_is_not(a: int, norm: int) -> None:
    """Rows of six numerics, two binaries and seven categoricals, which all change."""
    real = (real_l1, real_l2_squared)[norm - 1]
    free, plain, above = (HeavySquaresShape(8, 6, 7, square_weight=n) for n in (a, 1, a + 1))
    assert real(free) == real(plain) == real(BoxShape(8, 6, 7))
    bits, found = 6, Fraction(0)
    half = 2 ** (bits - 1)
    for step, flipped, inside in product((1, 2, 4, half), range(5, 9), range(7)):
        sides = [(half, -half)] * flipped + [(half, half)] * (8 - flipped)
        for place in range(inside):  # of the numerics, which come first
            start, stop = sides[place]
            sides[place] = (start, stop + step if stop < 0 else stop - step)
        blocks = _indicators(3, bits)[:2]
        pair = [
            box_entries(
                (*((each[side],) for each in sides), *[blocks[side]] * 7),
                n_numeric=6, bits=bits, weight=Fraction(1), square_weight=a + 1,
            )
            for side in (0, 1)
        ]  # fmt: skip
        moved = sum(abs(x - y) ** norm for x, y in zip(*pair, strict=True))
        found = max(found, Fraction(moved, 4 ** (bits * norm)))
    assert real(plain) < found <= real(above)


@pytest.mark.parametrize("weight", ["1/2", "1", "2"])
@pytest.mark.parametrize("with_sums", [False, True])
def test_halved_products_cost_what_the_ball_is_charged(with_sums: bool, weight: str) -> None:
    """All rows near the circle, each product of two columns twice: it has half of the variance."""
    bits, w = 6, Fraction(weight)
    edge = 4**bits
    rows = [
        [x, y]
        for x, y in product(range(-(2**bits), 2**bits + 1), repeat=2)
        if 0.95 * edge <= x * x + y * y <= edge
    ]
    entries = np.array(
        [ball_entries(row, with_sums=with_sums, bits=bits, weight=w) for row in rows]
    )
    entries = entries.astype(np.float64)
    entries[:, 1] *= np.sqrt(2)  # after the first square
    moved = max(((entries - row) ** 2).sum(axis=1).max() for row in entries)
    bound = sensitivity(BallShape(2, with_sums=with_sums, sum_weight=w), resolution_bits=bits)
    assert 0.99 * bound.l2_squared <= moved <= bound.l2_squared * (1 + 1e-12)


@pytest.mark.parametrize("weight", ["1/2", "1"])
@pytest.mark.parametrize("omega", [2, 3])
@small_schemas
def test_enumeration_with_targets_meets_the_formulas(
    numeric: int, binary: int, blocks: tuple[int, ...], bits: int, omega: int, weight: str
) -> None:
    w, n_scalars, n = Fraction(weight), numeric + binary, numeric + binary + len(blocks)
    rows = all_rows(numeric, binary, blocks, bits)
    for targets in {frozenset({0}), frozenset({n - 1}), frozenset({0, n - 1}), frozenset({0, 1})}:
        if max(targets) >= n:
            continue
        setting = {"bits": bits, "weight": w, "targets": targets, "target_weight": omega}
        l1, l2_squared = furthest(
            np.array([box_entries(row, n_numeric=numeric, **setting) for row in rows])
        )
        shape = BoxShape(
            n_scalars,
            numeric,
            len(blocks),
            sum_weight=w,
            target_counts=(
                sum(place < n_scalars for place in targets),
                sum(place < numeric for place in targets),
                sum(place >= n_scalars for place in targets),
            ),
            target_weight=omega,
        )
        bound = sensitivity(shape, resolution_bits=bits)
        assert 0.97 * bound.l1 <= l1 <= bound.l1
        assert l2_squared == bound.l2_squared


@pytest.mark.parametrize("h", [1, 2])
@pytest.mark.parametrize("weight", ["1/2", "1"])
@pytest.mark.parametrize("edge", ["middle", "last step"])
@pytest.mark.parametrize(
    ("numeric", "binary", "blocks", "bits"), [each for each in SMALL_SCHEMAS if each[0]]
)
def test_enumeration_with_histograms_meets_the_formulas(
    numeric: int, binary: int, blocks: tuple[int, ...], bits: int, edge: str, weight: str, h: int
) -> None:
    w = Fraction(weight)
    edges = [0 if edge == "middle" else 2 ** (bits - 1)] * numeric
    l1, l2_squared = furthest(
        np.array(
            [
                box_entries(row, n_numeric=numeric, bits=bits, weight=w)
                + cell_entries([block[0] for block in row[:numeric]], edges, bits=bits, h=h)
                for row in all_rows(numeric, binary, blocks, bits)
            ]
        )
    )
    shape = BoxShape(
        numeric + binary,
        numeric,
        len(blocks),
        sum_weight=w,
        n_histograms=numeric,
        histogram_weight=Fraction(h),
    )
    bound = sensitivity(shape, resolution_bits=bits)
    assert l1 <= bound.l1
    assert l2_squared <= bound.l2_squared
    # On so coarse a grid a step across an edge is not small, so it is not attained exactly.
    step = 2.0**-bits * (numeric + binary + 2 * len(blocks) + 2 * float(w)) * numeric
    if edge == "last step":
        assert l1 >= bound.l1 - step * 4**bits
        assert l2_squared >= bound.l2_squared - 2 * step * 16**bits


BINS = {"bins": 3, "products": "bins"}
SCHEMAS_WITH_BINS: list[tuple[list[dict[str, Any]], dict[str, Any]]] = [
    ([BINS], {}),
    ([BINS, BINS], {}),
    ([{}, {"bins": 2, "products": "bins"}], {}),
    ([{}, BINS, {"bins": [0.25], "products": "bins"}], {"sum_weight": 0.5}),
    ([{**BINS, "spikes": [0, 0.5]}, {"histogram": True, "bins": 2}], {"sum_weight": 0.5}),
    ([{**BINS, "missing": "level"}, {}], {}),
    ([{**BINS, "spikes": [0, 1], "missing": "level"}, BINS], {"sum_weight": 0.5}),
    ([{"histogram": True, "bins": 2, "missing": "level"}, BINS], {"sum_weight": 0.5}),
    ([BINS, {}, BINS], {"targets": ["x0"], "sum_weight": 0.5}),
    ([BINS, {}, BINS], {"targets": ["x1", "flag"], "target_weight": 3}),
]


def _schema(numerics: list[dict[str, Any]], settings: dict[str, Any]) -> Schema:
    attributes: list[dict[str, Any]] = [
        {"name": f"x{i}", "type": "numeric", "lower": 0, "upper": 1, **fields}
        for i, fields in enumerate(numerics)
    ]
    attributes.append({"name": "flag", "type": "binary", "values": ["a", "b"]})
    return Schema.from_document({"resolution_bits": 4, "attributes": attributes, **settings})


@pytest.mark.parametrize(("numerics", "settings"), SCHEMAS_WITH_BINS)
def test_enumeration_of_a_schema_with_bins_in_products_meets_its_sensitivity(
    numerics: list[dict[str, Any]], settings: dict[str, Any]
) -> None:
    """Through coding and sums as they are released, one row at a time."""
    schema = _schema(numerics, settings)
    places = [0.0, 0.1, 0.3, 0.5, 0.7, 1.0, np.nan]
    rows = list(product(*[places] * len(numerics), (0, 1)))
    columns: list[Column] = [np.array(column) for column in zip(*rows, strict=True)]
    columns[-1] = columns[-1].astype(np.int32)
    l1, l2_squared = furthest(
        np.array(
            [
                accumulate_moments(schema, [column[n : n + 1] for column in columns]).packed
                for n in range(len(rows))
            ]
        )
    )
    bound = sensitivity(sensitivity_shape(schema), resolution_bits=4)
    assert 0.97 * bound.l1 <= l1 <= bound.l1
    assert l2_squared == bound.l2_squared


@given(st.data())
def test_no_pair_of_rows_of_a_schema_exceeds_its_sensitivity(data: st.DataObject) -> None:
    """With bins, histograms, targets, tables and trees in any mix."""
    shape = st.fixed_dictionaries(
        {},
        optional={
            "score": st.sampled_from(["linear", "log"]),
            "bins": st.integers(2, 9),
            "integer": st.just(True),
        },
    )
    numerics = data.draw(st.lists(shape, min_size=1, max_size=4), label="numerics")
    for fields in numerics:
        if "bins" in fields:
            counted = [{"products": "bins"}, {"histogram": True}]
            fields |= data.draw(st.sampled_from(counted))
            if own := data.draw(st.sets(st.sampled_from([-1, 0, 3, 5]), max_size=4)):
                fields["spikes"] = sorted(own)
            if data.draw(st.booleans()):
                asked = ["level"] if "products" in fields else ["level", "indicator"]
                fields["missing"] = data.draw(st.sampled_from(asked))
    names = [*(f"x{i}" for i in range(len(numerics))), "flag"]
    settings: dict[str, Any] = {
        "sum_weight": data.draw(st.sampled_from([0.5, 1, 2])),
        "targets": data.draw(st.lists(st.sampled_from(names), unique=True, max_size=2)),
        "target_weight": data.draw(st.integers(2, 4)),
        "tables_weight": data.draw(st.sampled_from([0.25, 1, 3])),
    }
    if not all("products" in fields for fields in numerics):
        settings["square_weight"] = data.draw(st.integers(1, 6))
    numerics = [{"lower": -1, "upper": 5, **fields} for fields in numerics]
    plain = _schema(numerics, settings).model_dump(mode="json")
    tables = data.draw(partitions(plain))
    if tables and data.draw(st.booleans(), label="tables alone"):
        settings = {"tables_weight": data.draw(st.sampled_from([0.5, 1, 3])), "only_tables": True}
    schema = _schema(numerics, {**settings, "tables": tables})
    value = st.floats(-1, 5) | st.sampled_from([-1.0, 0.0, 5.0, np.nan, np.inf, 9.0])
    row = st.tuples(*[value] * len(numerics), st.integers(-1, 2))
    left, right = (
        accumulate_moments(
            schema,
            [*(np.array([x]) for x in drawn[:-1]), np.array(drawn[-1:], np.int32)],
        ).packed.tolist()
        for drawn in (data.draw(row), data.draw(row))
    )
    assert_within(left, right, sensitivity(sensitivity_shape(schema), resolution_bits=4))


TREE = {
    "tree": [{"by": "x", "at_most": 0.5}, {"by": "f", "labels": ["a"]}, {}, {}, {}],
    "target": "k",
}
# Names of the attributes, w, tables, and L1 and squared L2: found, and by the formula.
PARTITIONS: list[tuple[str, float, list[dict[str, Any]], tuple[float, ...], tuple[float, ...]]] = [
    ("fg", 0.25, [{"table": ["f"]}, {"table": ["g"]}], (4.5, 4.125), (4.75, 4.3125)),
    ("fg", 1, [{"table": ["f"]}, {"table": ["g"]}], (6, 6), (6, 6)),
    ("fg", 1, [{"table": ["f", "g"]}], (4, 4), (4, 4)),
    ("xfk", 1, [{"table": ["x", "k"], "cells": {"x": 2}}, TREE], (10, 9), (10, 9)),
    ("xfk", 0.5, [{"table": ["k"]}, {"table": ["x", "f"]}, TREE], (10, 8), (10, 8.5)),
    ("xfk", 0.5, [{"table": ["k"]}, {"table": ["x", "f"]}, {"table": ["f"]}], (10, 8), (10, 8.5)),
    ("xf", 0.25, [{"table": ["x"]}, {"table": ["f"]}], (4.890625, 4.2421875), (4.890625, 4.3125)),
]


@pytest.mark.parametrize(("names", "weight", "tables", "found", "formula"), PARTITIONS)
def test_enumeration_of_a_schema_with_tables_never_exceeds_its_sensitivity(
    names: str,
    weight: float,
    tables: list[dict[str, Any]],
    found: tuple[float, ...],
    formula: tuple[float, ...],
) -> None:
    """The formula is met where a best pair of rows moves every partition."""
    flag = {"type": "binary", "values": ["a", "b"]}
    every = {
        "x": {"name": "x", "type": "numeric", "lower": 0, "upper": 1, "bins": 4},
        "f": {"name": "f", **flag},
        "g": {"name": "g", **flag},
        "k": {"name": "k", "type": "categorical", "categories": ["p", "q", "r"]},
    }
    schema = make_schema(
        [every[name] for name in names], resolution_bits=4, sum_weight=weight, tables=tables
    )
    values = {"x": np.linspace(0, 1, 17), "f": np.arange(2), "g": np.arange(2), "k": np.arange(3)}
    rows = list(product(*(values[name] for name in names)))
    columns: list[Column] = [np.array(column) for column in zip(*rows, strict=True)]
    entries = [
        accumulate_moments(schema, [column[n : n + 1] for column in columns]).packed
        for n in range(len(rows))
    ]
    bound = sensitivity(sensitivity_shape(schema), resolution_bits=4)
    assert (bound.l1 / 4**4, bound.l2_squared / 16**4) == formula
    l1, l2_squared = furthest(np.array(entries))
    assert (l1 / 4**4, l2_squared / 16**4) == found
    assert l1 <= bound.l1
    assert l2_squared <= bound.l2_squared


@pytest.mark.parametrize("weight", [0.5, 1, 2])
@pytest.mark.parametrize("tables", [[TREE], [{"table": ["f"]}, TREE, {"table": ["x", "k"]}]])
def test_tables_alone_change_by_two_cells_each_and_some_row_changes_all(
    tables: list[dict[str, Any]], weight: float
) -> None:
    attributes = [
        numeric_of("x", 0, 1, histogram=True),
        binary_of("f", ["a", "b"]),
        categorical_of("k", ["p", "q", "r"]),
    ]
    settings = {"tables": tables, "tables_weight": weight, "only_tables": True}
    schema = make_schema(attributes, resolution_bits=4, **settings)
    assert schema.layout.n_entries == sum(schema.layout.tables)
    rows = list(product([0.0, 1.0], [0, 1], [0, 1, 2]))
    entries = [
        accumulate_moments(schema, [np.array([value]) for value in row]).packed for row in rows
    ]
    bound, K = sensitivity(sensitivity_shape(schema), resolution_bits=4), len(tables)
    assert (bound.l1 / 4**4, bound.l2_squared / 16**4) == (2 * weight * K, 2 * weight**2 * K)
    assert furthest(np.array(entries)) == (bound.l1, bound.l2_squared)


def test_a_step_across_an_edge_beside_the_best_corner_is_counted() -> None:
    """Where four of seven scalars flip, two more numerics cross an edge at next to no cost."""
    bits, w = 10, Fraction(1, 2)
    half = 2 ** (bits - 1)
    indicators = _indicators(3, bits)
    sides = [(half, -half)] * 4 + [(half, half - 1)] * 2 + [(half, half)]
    pair = []
    for side in (0, 1):
        scalars = [each[side] for each in sides]
        row = (*((z,) for z in scalars), indicators[side])
        entries = box_entries(row, n_numeric=6, bits=bits, weight=w)
        pair.append(entries + cell_entries(scalars[:6], [half] * 6, bits=bits, h=1))
    moved = sum(abs(a - b) for a, b in zip(*pair, strict=True)) / 4**bits
    # A scalar that does not flip keeps its cell at a corner: 7 beside the categorical that changes.
    corners = max(Fraction(r * (7 - r), 2) + 7 + w * (r + 2) + 2 * min(r, 6) for r in range(8))
    bound = real_l1(BoxShape(7, 6, 1, sum_weight=w, n_histograms=6))
    assert corners < moved <= bound
    assert moved > bound - Fraction(1, 20)


@pytest.mark.parametrize("weight", ["1/4", "1", "4"])
@pytest.mark.parametrize("with_sums", [False, True])
@pytest.mark.parametrize("columns", [2, 3, 5, 8, 12, 20])
def test_search_comes_close_to_the_bounds_of_the_ball_and_never_exceeds_them(
    columns: int, with_sums: bool, weight: str
) -> None:
    w = Fraction(weight)
    shape = BallShape(columns, with_sums=with_sums, sum_weight=w)
    moved = float(w) if with_sums else 0.0
    found = _largest_ball_l1(columns, moved, np.random.default_rng(columns))
    bound = float(real_l1(shape))
    assert found <= bound * (1 + 1e-12)
    if w == 1:
        assert found >= 0.9 * bound


@pytest.mark.parametrize("weight", ["1/4", "1", "4"])
@pytest.mark.parametrize("with_sums", [False, True])
def test_two_rows_in_the_plane_meet_the_l2_bound_of_the_ball(with_sums: bool, weight: str) -> None:
    # Rows symmetric about the diagonal: the off-diagonal product, counted once, does not move.
    w = Fraction(weight)
    cosine = -min(float(w) ** 2 / 2, 1.0) if with_sums else 0.0
    half_angle = np.arccos(cosine) / 2
    x = np.array([np.cos(np.pi / 4 - half_angle), np.sin(np.pi / 4 - half_angle)])
    change = _ball_change(x, x[::-1])
    reached = (change**2).sum()
    if with_sums:
        reached += float(w) ** 2 * ((x - x[::-1]) ** 2).sum()
    bound = real_l2_squared(BallShape(2, with_sums=with_sums, sum_weight=w))
    assert reached == pytest.approx(float(bound), rel=1e-12)


def _indicators(size: int, bits: int) -> list[tuple[int, ...]]:
    return [tuple(2**bits * (i == j) for j in range(size)) for i in range(size)]


def _into_ball(raw: list[int], bits: int) -> list[int]:
    """An integer row with sum of squares at most 4^g, near its boundary."""
    norm = max(isqrt(sum(z * z for z in raw)) + 1, 1)
    return [(abs(z) * 2**bits // norm) * (1 if z >= 0 else -1) for z in raw]


def _ball_change(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Upper triangle, with diagonal, of xx' - yy'."""
    return (np.outer(x, x) - np.outer(y, y))[np.triu_indices(x.size)]


def _largest_ball_l1(columns: int, weight: float, rng: np.random.Generator) -> float:
    """Random restarts; ascent with the signs of all changes held until the next step."""
    best = 0.0
    for restart in range(24):
        x, y = rng.normal(size=(2, columns))
        if restart % 2:
            x, y = np.sign(x), np.sign(y)
        x, y = x / np.sqrt(x @ x), y / np.sqrt(y @ y)
        for _ in range(150):
            signs = np.sign(np.outer(x, x) - np.outer(y, y))
            signs += np.diag(np.diag(signs))
            pull = weight * np.sign(x - y)
            x, y = signs @ x + pull + 4 * x, -signs @ y - pull + 4 * y
            x, y = x / np.sqrt(x @ x), y / np.sqrt(y @ y)
            moved = np.abs(_ball_change(x, y)).sum() + weight * np.abs(x - y).sum()
            best = max(best, float(moved))
    return best
