"""Numbers with a column that says that they are missing: sensitivity, sums, and values back."""

from fractions import Fraction
from itertools import pairwise
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.accumulation import ProductMethod, accumulate_moments
from dppca.common.kernel.moments.moments import compute_moments, unpack
from dppca.common.kernel.privacy.sensitivity import (
    BoxShape,
    MissingBoxShape,
    real_l1,
    real_l2_squared,
)
from dppca.common.kernel.schema import Schema, encode, find_cells
from dppca.common.kernel.schema.frames import decode
from tests.support.missing_numbers import (
    bound_of,
    contributions,
    draw_row,
    draw_schema,
    furthest,
    one_row,
)
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of


def _weight(name: str, **more: object) -> dict[str, object]:
    return numeric_of(name, 40, 140, missing="indicator", **more)


def _ward(**settings: object) -> Schema:
    return make_schema(
        [
            _weight("weight", integer=True, histogram=True, bins=5),
            categorical_of("ward", ["a", "b", "c"]),
            _weight("dose", score="log"),
            binary_of("ill", ["no", "yes"]),
            _weight("height"),
            numeric_of("age", 0, 100),
        ],
        **settings,
    )


@pytest.mark.parametrize("seed", range(60))
def test_no_two_rows_of_a_random_schema_are_further_apart_and_some_are_as_far(seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = draw_schema(rng)
    if schema is None:
        return
    bound, (l1, l2_squared) = bound_of(schema), furthest(contributions(schema))
    assert l1 <= bound.l1
    assert l2_squared <= bound.l2_squared
    if schema.layout.missing_columns and not schema.tables and not schema.histograms:
        assert l1 >= 0.97 * bound.l1  # the best numbers of (11) need not be on the grid
        assert l2_squared == bound.l2_squared


@given(seed=st.integers(0, 2**32 - 1))
def test_no_pair_of_rows_through_the_released_sums_exceeds_the_sensitivity(seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = draw_schema(rng)
    if schema is None:
        return
    bound = bound_of(schema)
    for one, other in pairwise(one_row(schema, draw_row(schema, rng)) for _ in range(8)):
        change = np.abs(one - other)
        assert change.sum() <= bound.l1
        assert (change**2).sum() <= bound.l2_squared


@pytest.mark.parametrize("w", ["1/4", "1/2", "3/4", "1"])
@pytest.mark.parametrize("q", [2, 3, 4, 6])
def test_numbers_beside_a_single_change_may_be_best_inside(q: int, w: str) -> None:
    """Equation (11): every number of flips and every share, counted out."""
    weight, others = Fraction(w), q - 1

    def moved(s: int, shared: int, b: Fraction) -> Fraction:
        total = s + shared * b
        inside = (total * (others - total) + shared * b * (1 - b)) / 2
        beside = (others - shared + shared * max(b, 1 - b)) / 2
        return weight * (total + 1) + Fraction(1, 4) + inside + beside

    steps = [Fraction(k, 240) for k in range(241)]
    best = max(
        moved(s, shared, b)
        for s in range(others + 1)
        for shared in range(others - s + 1)
        for b in steps
    )
    assert real_l1(MissingBoxShape(q, q, 0, sum_weight=weight, indicator_counts=(1, 0))) == best
    corners = max(moved(s, 0, Fraction(0)) for s in range(others + 1))
    summit = weight + Fraction(others, 2)  # of flips, if they were not whole
    assert (best > corners) is (summit.denominator > 1 and summit < others)


def test_the_price_is_what_the_documentation_says() -> None:
    for shape, one, six in [((8, 6, 7, 6), 1.018, 1.071), ((6, 6, 0, 6), 1.047, 1.273)]:
        scalars, numerics, categoricals, histograms = shape
        counts = (scalars, numerics, categoricals, Fraction(1, 2), histograms)
        plain = BoxShape(*counts)
        for missing, more in ((1, one), (6, six)):
            asked = MissingBoxShape(*counts, indicator_counts=(missing, 0))
            assert float(real_l1(asked) / real_l1(plain)) == pytest.approx(more, abs=5e-4)
            assert 0 <= real_l2_squared(asked) - real_l2_squared(plain) <= Fraction(1, 16)
            assert sqrt(real_l2_squared(asked) / real_l2_squared(plain)) < 1.0025


def test_columns_for_missing_values_belong_to_numerics() -> None:
    for counts, targets in [((2, 0), (0, 0, 0)), ((0, 1), (0, 0, 0)), ((1, 0), (1, 1, 0))]:
        with pytest.raises(SettingError, match="belong to numerics"):
            MissingBoxShape(
                2, 1, 1, target_counts=targets, target_weight=2, indicator_counts=counts
            )


def test_only_attributes_that_ask_pay() -> None:
    plain = make_schema([numeric_of("age", 0, 9), binary_of("ill", ["no", "yes"])])
    assert not plain.layout.missing_columns
    assert "missing" not in plain.model_dump(mode="json")["attributes"][0]


@pytest.mark.parametrize("method", list(ProductMethod))
@pytest.mark.parametrize("targets", [[], ["dose", "ward"]])
@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(1, 300))
def test_every_way_to_sum_gives_the_sums_of_the_coded_rows(
    seed: int, n_rows: int, targets: list[str], method: ProductMethod
) -> None:
    rng, schema = np.random.default_rng(seed), _ward(resolution_bits=6, targets=targets)

    def numbers() -> np.ndarray:
        drawn = rng.uniform(30, 150, n_rows)
        return np.where(rng.random(n_rows) < 0.3, rng.choice([np.nan, np.inf], n_rows), drawn)

    columns = [
        numbers(),
        rng.integers(-2, 4, n_rows).astype(np.int32),
        numbers(),
        rng.integers(-2, 3, n_rows).astype(np.int32),
        numbers(),
        numbers(),
    ]
    rows = encode(schema, columns)
    wanted = compute_moments(rows, schema.layout, find_cells(schema, columns))
    found = accumulate_moments(schema, columns, method=method)
    assert (found.packed == wanted.packed).all()
    for place, index in zip(schema.layout.missing_columns, (0, 2, 4), strict=True):
        missing = ~np.isfinite(columns[index])
        assert (rows[:, place] == 32 * missing).all()
        assert (rows[missing, place + 1] == 0).all()
    mean, second = unpack(found.packed, n_rows, schema.layout)
    real = rows / 64
    assert mean == pytest.approx(real.mean(axis=0))
    assert second == pytest.approx(real.T @ real / n_rows)


def test_coded_rows_decode_to_the_values_and_the_missing_ones() -> None:
    schema = make_schema([_weight("weight"), _weight("dose", integer=True), binary_of("b", [0, 1])])
    assert schema.column_names == ("weight is missing", "weight", "dose is missing", "dose", "b")
    columns = [
        np.array([40.0, np.nan, 115.0]),
        np.array([np.nan, 90.0, np.inf]),
        np.array([0, 1, 1]),
    ]
    back = decode(encode(schema, columns) / 2.0**schema.resolution_bits, schema).to_pydict()
    assert back["weight"] == [40.0, None, 115.0]
    assert back["dose"] == [None, 90, None]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"bins": 3, "products": "bins"}, "products: bins has a bin for missing values"),
        ({"lower": None, "upper": None, "centre": 0, "scale": 1}, "missing is for a numeric with"),
    ],
)
def test_a_combination_that_is_not_proved_is_refused(more: dict[str, object], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        make_schema([{**_weight("weight"), **more}, binary_of("ill", ["no", "yes"])])
