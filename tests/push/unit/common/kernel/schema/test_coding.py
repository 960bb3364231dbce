"""Coding is total: every row has one code, by public rules, whatever it holds."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dppca.common.kernel.schema import MISSING, UNKNOWN, Schema, encode
from tests.support.faults import find_faults
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

any_float = st.floats(width=64)
special = st.sampled_from([math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1.8e308, -1.8e308, -0.0])
bits = st.integers(1, 14)


def numeric(lower: float, upper: float, g: int = 10) -> Schema:
    return make_schema(
        [numeric_of("x", lower, upper), binary_of("b", ["n", "y"])], resolution_bits=g
    )


def mixed(g: int = 10, missing: str | None = None) -> Schema:
    categories = ["a", "b", "c"]
    return make_schema(
        [
            numeric_of("x", 0, 4),
            binary_of("b", ["n", "y"]),
            categorical_of("c", categories, missing=missing),
        ],
        resolution_bits=g,
    )


def ball(d: int, g: int = 10, centre: float = 0.0, scale: float = 1.0) -> Schema:
    one = {"type": "numeric", "centre": centre, "scale": scale}
    return make_schema([{"name": f"x{i}", **one} for i in range(d)], resolution_bits=g, row_norm={})


def test_codes_of_ordinary_values() -> None:
    columns = [np.array([0.0, 1.0, 2.0, 4.0]), *(np.array([0, 1, 1, 0], np.int32),) * 2]
    assert encode(mixed(), columns).tolist() == [
        [-512, -512, 1024, 0, 0],
        [-256, 512, 0, 1024, 0],
        [0, 512, 0, 1024, 0],
        [512, -512, 1024, 0, 0],
    ]


def test_what_is_missing_or_wrong_is_coded_by_rule() -> None:
    x = np.array([math.nan, math.inf, -math.inf, 99.0, -99.0])
    labels = np.array([MISSING, UNKNOWN, 3, 2**31 - 1, -(2**31)], np.int32)
    coded = encode(mixed(missing="b"), [x, labels, labels])
    assert coded[:, 0].tolist() == [0, 0, 0, 512, -512]
    assert coded[:, 1].tolist() == [-512] * 5
    assert coded[:, 2:].tolist() == [[0, 1024, 0]] * 5
    assert encode(mixed(), [x, labels, labels])[:, 2:].tolist() == [[1024, 0, 0]] * 5


@given(
    values=st.lists(any_float | special, min_size=1, max_size=20),
    bounds=st.tuples(st.floats(-8e307, 8e307), st.floats(-8e307, 8e307)).filter(
        lambda pair: pair[0] < pair[1]
    ),
    g=bits,
)
@example([5e-324, 0.0, math.nan], (0.0, 5e-324), 14)
@example([1.0], (0.0, 2.225073858507203e-309), 1)
@example([1e300, -1e300], (-8e307, 8e307), 14)
@example([-7.999999999999999e307, -8e307], (-8e307, -7.999999999999999e307), 1)
@example([1.0, 1.0 + 1e-12], (1.0, 1.0 + 1e-12), 14)
def test_any_number_has_a_code_in_range_and_close_to_it(
    values: list[float], bounds: tuple[float, float], g: int
) -> None:
    """Close: half a step, and what one rounding of the middle between the bounds may move it by.

    That is nothing unless the bounds agree in all but their last digits. Where they are neighbours
    among the floats, their middle is one of them, and so a bound may be coded as the middle.
    """
    lower, upper = bounds
    column = np.array(values)
    coded = encode(numeric(lower, upper, g), [column, np.zeros(len(values), np.int32)])
    assert coded.dtype == np.int32
    half = 1 << (g - 1)
    assert np.all(np.abs(coded[:, 0]) <= half)
    moved = math.ulp(max(abs(lower), abs(upper))) / (upper - lower) * 2 * half
    for value, code in zip(values, coded[:, 0].tolist(), strict=True):
        if not math.isfinite(value):
            assert code == 0
        elif upper - lower <= 1e-300:
            continue  # so few floats lie between the bounds that only the range can be asked for
        elif moved < 0.49 and not lower < value < upper:
            assert code == (half if value >= upper else -half)
        else:
            inside = Fraction(min(max(value, lower), upper))
            exact = (inside - Fraction(lower)) / (Fraction(upper) - Fraction(lower))
            assert abs(code - float((exact - Fraction(1, 2)) * 2 * half)) <= 0.51 + moved


@given(labels=st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 3), max_size=20), g=bits)
def test_any_label_code_gives_exactly_one_indicator(labels: list[int], g: int) -> None:
    column = np.array(labels, np.int32)
    coded = encode(mixed(g), [np.zeros(len(labels)), column, column])
    assert set(np.unique(np.abs(coded[:, 1])).tolist()) <= {1 << (g - 1)}
    assert np.all(coded[:, 2:].sum(axis=1) == 1 << g)
    assert np.all(np.count_nonzero(coded[:, 2:], axis=1) == 1)


@given(data=st.data(), d=st.integers(2, 6), g=bits)
def test_rows_never_leave_the_unit_ball(data: st.DataObject, d: int, g: int) -> None:
    centre = data.draw(st.floats(-1e308, 1e308))
    scale = data.draw(st.floats(1e-308, 1e308))
    row = st.lists(any_float | special | st.floats(-2, 2), min_size=d, max_size=d)
    rows = np.array(data.draw(st.lists(row, min_size=1, max_size=8)))
    coded = encode(ball(d, g, centre, scale), list(rows.T))
    assert coded.dtype == np.int32
    assert np.all(np.square(coded.astype(object)).sum(axis=1) <= 4**g)


@given(rows=st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=1, max_size=8))
def test_unit_ball_codes_are_the_row_rounded_toward_zero(rows: list[list[float]]) -> None:
    coded = encode(ball(3), list(np.array(rows).T))
    for row, code in zip(rows, coded.tolist(), strict=True):
        norm = math.sqrt(sum(Fraction(x) ** 2 for x in row))
        for value, z in zip(row, code, strict=True):
            exact = value / max(1.0, norm) * 1024
            assert abs(z) <= abs(exact) + 1e-9
            assert abs(z - exact) < 2, "one for rounding, at most one to stay in the ball"


@pytest.mark.parametrize("row", [[1e308, -1e308], [1e308, 1.0], [5e-324, 5e-324], [1e200, 1e200]])
def test_extreme_rows_keep_their_direction(row: list[float]) -> None:
    coded = encode(ball(2, scale=0.5), list(np.array([row]).T))[0]
    length = math.hypot(*(x / max(abs(v) for v in row) for x in row))
    if max(row) > 1:
        expected = [x / max(abs(v) for v in row) / length * 1024 for x in row]
        assert np.allclose(coded, expected, atol=1.001)
    else:
        assert coded.tolist() == [0, 0]


def test_missing_value_of_a_unit_ball_row_is_the_centre() -> None:
    coded = encode(ball(2, centre=3.0), [np.array([math.nan, math.inf]), np.array([3.5, 4.0])])
    assert coded.tolist() == [[0, 512], [0, 1024]]


@given(data=st.data(), n_rows=st.integers(0, 12))
def test_a_row_is_coded_alike_whatever_stands_beside_it(data: st.DataObject, n_rows: int) -> None:
    numbers = np.array(data.draw(st.lists(any_float, min_size=n_rows, max_size=n_rows)))
    labels = np.array(
        data.draw(st.lists(st.integers(-2, 3), min_size=n_rows, max_size=n_rows)), np.int32
    )
    columns: list[Any] = [numbers, labels, labels]
    together = encode(mixed(), columns)
    assert together.shape == (n_rows, 5)
    for row in range(n_rows):
        alone = encode(mixed(), [column[row : row + 1] for column in columns])
        assert alone.tolist() == together[row : row + 1].tolist()


def test_faults_are_told_apart() -> None:
    x = np.array([1.0, math.nan, math.inf, -0.1, 4.1])
    labels = np.array([0, MISSING, UNKNOWN, 3, 2], np.int32)
    found = find_faults(mixed(), [x, labels, labels])
    assert list(found) == ["x", "b", "c"]
    assert found["x"].missing.tolist() == [False, True, False, False, False]
    assert found["x"].invalid.tolist() == [False, False, True, False, False]
    assert found["x"].out.tolist() == [False, False, False, True, True]
    assert found["b"].missing.tolist() == [False, True, False, False, False]
    assert found["b"].invalid.tolist() == [False, False, True, True, True]
    assert found["c"].invalid.tolist() == [False, False, True, True, False]
    assert not found["c"].out.any()
