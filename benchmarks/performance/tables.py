"""Schemas and rows that several benchmarks measure on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dppca.common.schema import Schema

BOUND = 4.0
"""Rows are standard normal; their public bounds are -4 and 4."""


def numeric_schema(n_columns: int, *, resolution_bits: int = 10) -> Schema:
    """Numerics x0, x1, ... between -4 and 4."""
    return Schema.from_document(
        {
            "resolution_bits": resolution_bits,
            "attributes": [
                {"name": f"x{i}", "type": "numeric", "lower": -BOUND, "upper": BOUND}
                for i in range(n_columns)
            ],
        }
    )


def normal_rows(n_rows: int, n_columns: int) -> NDArray[np.float64]:
    """Standard normal, always the same."""
    return np.random.default_rng(20).standard_normal((n_rows, n_columns))
