"""Bins that lose a heap: of several whole numbers, counted, and without spikes."""

from typing import Any

import pytest

from dppca.common.analysis.field.heaps import find_wide_bins, wide_bins_lines
from tests.support.studies import binary_of, make_schema, numeric_of

HOURS = {"integer": True, "bins": 33, "histogram": True}
DAYS = {"type": "date", "lower": "2020-01-01", "upper": "2021-01-01"}


@pytest.mark.parametrize(
    ("fields", "wide"),
    [
        (HOURS, True),
        ({**HOURS, "histogram": False, "products": "bins"}, True),
        ({**HOURS, "bins": [30, 50]}, True),
        ({**HOURS, "bins": None, "upper": 500}, True),
        ({**HOURS, "bins": None}, False),
        ({**HOURS, "spikes": [40]}, False),
        ({**HOURS, "histogram": False}, False),
        ({"bins": 33, "histogram": True}, False),
        ({**DAYS, "bins": 5, "histogram": True}, False),
    ],
)
def test_bins_lose_a_heap_where_they_hold_several_whole_numbers(
    fields: dict[str, Any], *, wide: bool
) -> None:
    schema = make_schema([{**numeric_of("hours", 1, 99), **fields}, binary_of("b", ["n", "y"])])
    names = find_wide_bins(schema)
    assert names == (("hours",) if wide else ())
    said = "\n".join(wide_bins_lines(schema, names))
    assert ("a bin of hours holds several whole numbers" in said) == wide
    assert ("such as 50 for hours" in said) == (wide and "upper" not in fields)


@pytest.mark.parametrize(
    ("lower", "upper", "example"),
    [(1900, 2025, 2000), (1, 99, 50), (-30, -5, -20), (0, 7, 3), (1001, 1009, 1005), (5, 3e6, 2e6)],
)
def test_the_example_is_a_round_number_inside_the_bounds(
    lower: float, upper: float, example: float
) -> None:
    fields = {**numeric_of("built", lower, upper), "integer": True, "bins": 2, "histogram": True}
    schema = make_schema([fields, binary_of("b", ["n", "y"])])
    (said,) = wide_bins_lines(schema, find_wide_bins(schema))
    assert f"such as {int(example)} for built" in said
    assert said == said.replace("HEAPS", ""), "it is no error"
    spiked = make_schema([{**fields, "spikes": [int(example)]}, binary_of("b", ["n", "y"])])
    assert find_wide_bins(spiked) == ()


def test_rows_in_the_unit_ball_have_no_bins() -> None:
    attributes = [{"name": n, "type": "numeric", "centre": 0, "scale": 1} for n in "xy"]
    assert find_wide_bins(make_schema(attributes, row_norm={})) == ()
