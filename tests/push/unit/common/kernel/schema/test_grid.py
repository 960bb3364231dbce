import numpy as np
import pytest

from dppca.common.kernel.moments.accumulation import MomentSums, ProductMethod
from dppca.common.kernel.schema import encode
from tests.support.studies import make_schema, numeric_of


@pytest.mark.parametrize("score", ["linear", "log"])
@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize(
    ("lower", "upper"), [(0, 1.9e19), (-1.9e19, 5), (0, 1e300), (-8e307, 8e307), (0.5, 2.0**63)]
)
def test_rows_are_coded_between_any_bounds(
    lower: float, upper: float, integer: bool, score: str
) -> None:
    """Also whole numbers beyond 64 bits, which NumPy does not hold as integers."""
    number = numeric_of("x", lower, upper, integer=integer, score=score)
    schema = make_schema([number, numeric_of("y", 0, 1)])
    column = np.array([lower, upper, lower / 2 + upper / 2, np.nan, 1.0])
    rows = [column, np.zeros(len(column))]
    expected = encode(schema, rows)[:, 0].astype(np.int64)
    for method in ProductMethod:
        sums = MomentSums(schema, method=method)
        sums.add(rows)
        assert sums.total().packed[0] == expected.sum() << schema.resolution_bits
