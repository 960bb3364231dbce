"""Our noise where a neighbour has one row more: the bound is what rows reach, and no more."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from benchmarks.releases import BITS
from benchmarks.rivals.neighbours import Neighbours, added_l2_squared, make_study
from dppca.common.numerics.moments.accumulation import accumulate_moments
from dppca.common.privacy.accounting import rho_from_epsilon_delta
from dppca.common.privacy.release import calibrate, sensitivity_shape
from dppca.common.privacy.sensitivity import BoxShape, real_l2_squared
from dppca.common.schema import Binary, Categorical, Schema

NUMERIC = {"type": "numeric", "lower": -1, "upper": 1}
SHAPED = NUMERIC | {"histogram": True, "bins": [-0.5, 0.25]}
BINARY = {"type": "binary", "values": ["no", "yes"]}
LABELS = {"type": "categorical", "categories": ["a", "b", "c"]}
PRIVACY = {"epsilon": "0.5", "delta": "1e-9"}


def document(*attributes: dict[str, Any], **others: Any) -> dict[str, Any]:
    named = [{"name": f"x{index}", **each} for index, each in enumerate(attributes)]
    return {"attributes": named, **others}


SCHEMAS = [
    document(NUMERIC, NUMERIC),
    document(BINARY, BINARY, BINARY),
    document(NUMERIC, BINARY, LABELS, sum_weight=0.5),
    document(SHAPED, SHAPED, LABELS, sum_weight=0.5, histogram_weight=2),
    document(NUMERIC, BINARY, LABELS, LABELS, targets=["x1"], sum_weight=0.5),
    document(SHAPED, NUMERIC, BINARY, LABELS, targets=["x0", "x3"], target_weight=3),
]


def squared_size_of_every_row(schema: Schema) -> list[Fraction]:
    """L2^2 of what each row adds to the packed sums and the count, by the product's own sums."""
    choices: list[np.ndarray[Any, Any]] = []
    for attribute in schema.attributes:
        if isinstance(attribute, Binary | Categorical):
            choices.append(np.arange(len(attribute.labels), dtype=np.int32))
        else:
            choices.append(np.array([-1.0, -0.75, -0.2, 0.0, 0.3, 1.0]))
    sizes = []
    for row in product(*choices):
        packed = accumulate_moments(schema, [np.array([value]) for value in row]).packed
        entries = [Fraction(int(entry), 4**schema.resolution_bits) for entry in packed]
        sizes.append(sum((entry**2 for entry in entries), start=Fraction(1)))
    return sizes


@pytest.mark.parametrize("given", SCHEMAS)
def test_the_bound_is_the_largest_of_all_rows(given: dict[str, Any]) -> None:
    schema = Schema.from_document({"resolution_bits": BITS, **given})
    shape = sensitivity_shape(schema)
    assert isinstance(shape, BoxShape)
    assert max(squared_size_of_every_row(schema)) == added_l2_squared(shape)


@pytest.mark.parametrize("given", SCHEMAS)
def test_the_noise_of_a_study_is_the_least_for_its_neighbours(given: dict[str, Any]) -> None:
    rho = Fraction(rho_from_epsilon_delta(*map(Decimal, PRIVACY.values())))
    for neighbours in Neighbours:
        study = make_study(given, **PRIVACY, owners=2, neighbours=neighbours)
        shape = sensitivity_shape(study.table)
        assert isinstance(shape, BoxShape)
        added = neighbours is Neighbours.ADDED
        change = (added_l2_squared(shape) if added else real_l2_squared(shape)) * 16**BITS
        variance = calibrate(study).law.parameters()["variance"]
        # At most rho is spent, and all of it but a part of 1e-9 for rounding.
        assert rho * (1 - Fraction(1, 10**9)) < change / (2 * variance) <= rho


def test_rows_of_a_ball_have_no_figure() -> None:
    given = {
        "row_norm": {},
        "attributes": [
            {"name": name, "type": "numeric", "centre": 0, "scale": 1} for name in ("x", "y")
        ],
    }
    with pytest.raises(ValueError, match="unit ball"):
        make_study(given, **PRIVACY, owners=1, neighbours=Neighbours.ADDED)
