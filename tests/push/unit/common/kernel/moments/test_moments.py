"""Products of many columns, and of products that are weighted, at their two places."""

from typing import Any

import numpy as np
import pytest

from dppca.common.kernel.moments.moments import compute_moments, unpack
from dppca.common.kernel.schema import encode
from tests.support.studies import binary_of, make_schema


@pytest.mark.parametrize("settings", [{}, {"targets": ["a3", "a150"], "target_weight": 4}])
def test_unpacked_products_are_those_of_the_rows_whatever_their_weight(
    settings: dict[str, Any],
) -> None:
    n_columns, n_rows = 200, 50
    schema = make_schema(
        [binary_of(f"a{index}", ["n", "y"]) for index in range(n_columns)], **settings
    )
    values = np.random.default_rng(149).integers(0, 2, (n_columns, n_rows), dtype=np.int32)
    coded = encode(schema, list(values))
    moments = compute_moments(coded, schema.layout)

    mean, second = unpack(moments.packed, n_rows, schema.layout)

    rows = coded / 2**schema.resolution_bits
    np.testing.assert_allclose(second, rows.T @ rows / n_rows, rtol=0, atol=1e-12)
    assert mean is not None
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=0, atol=1e-12)
