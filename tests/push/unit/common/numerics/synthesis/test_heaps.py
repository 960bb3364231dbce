"""Bins that lose a heap: of several whole numbers, counted, and without spikes."""

from typing import Any

import pytest

from dppca.common.numerics.synthesis.heaps import find_wide_bins, wide_bins_lines
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
    said = "\n".join(wide_bins_lines(names))
    assert ("bins of hours hold several whole numbers" in said) == wide
    assert ("spikes: [40]" in said) == wide


def test_rows_in_the_unit_ball_have_no_bins() -> None:
    attributes = [{"name": n, "type": "numeric", "centre": 0, "scale": 1} for n in "xy"]
    assert find_wide_bins(make_schema(attributes, row_norm={})) == ()
