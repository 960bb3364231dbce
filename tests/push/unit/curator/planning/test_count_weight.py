"""The weight of a noised number of rows follows from public numbers alone."""

from typing import Any

import pytest

from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.release import calibrate
from dppca.curator.planning.count_weight import (
    RARE,
    WEIGHTS,
    CountWeights,
    propose_count_weight,
    with_count_weight,
)
from tests.support.studies import binary_of, make_schema, make_study, numeric_of

FLAGS = [binary_of(f"b{i}", ["n", "y"]) for i in range(16)]
FEW = FLAGS[:3]
NUMBERS = [numeric_of(f"x{i}", 0, 1) for i in range(60)]


def test_the_forecast_orders_weights_as_errors_of_the_covariance_were_measured() -> None:
    """Median spectral errors of 300 releases, 16 labels of share .15, Laplace: .121 .126 .135."""
    table = make_schema(FLAGS, neighbours="added")
    edges = CountWeights(table, LAWS["laplace"])
    assert edges.edge(table, 4) / edges.edge(table, 1) == pytest.approx(0.129 / 0.1214, abs=0.03)
    assert edges.edge(table, 8) / edges.edge(table, 1) == pytest.approx(0.140 / 0.1214, abs=0.03)
    assert edges.edge(table, 0.25) > 1.1 * edges.edge(table, 1)


@pytest.mark.parametrize(
    ("attributes", "changes", "weight"),
    [
        (FLAGS, {}, 2),
        (FLAGS, {"delta": "1e-9"}, 1),  # squares add up: weight costs more
        (FEW, {}, 0.25),  # the number is most of the sensitivity of few columns
        (NUMBERS, {}, 8),  # and next to nothing of that of many
        (FLAGS, {"unit": "person", "max_rows_per_person": None, "rows_counted": 3}, 2),
    ],
)
def test_few_columns_give_the_number_little_weight_and_many_much(
    attributes: Any, changes: dict[str, Any], weight: float
) -> None:
    for epsilon in ("1", "4"):
        study = make_study(attributes, neighbours="added", epsilon=epsilon, **changes)
        found = propose_count_weight(study.table, calibrate(study), [100_000])
        assert found is not None
        assert (found.weight, found.written) == (weight, 1)
        assert found.refusal < RARE


def test_few_rows_give_the_number_more_weight_so_that_it_is_refused_less_often() -> None:
    study = make_study(FLAGS, neighbours="added", epsilon="1")
    many, few = (propose_count_weight(study.table, calibrate(study), [n]) for n in (5000, 150))
    assert many is not None
    assert few is not None
    assert few.weight > many.weight
    assert few.refusal < RARE
    again = propose_count_weight(
        with_count_weight(study.table, few.weight), calibrate(study), [150]
    )
    assert again is not None
    assert (again.weight, again.edge) == (few.weight, 1)


@pytest.mark.parametrize(
    "changes", [{}, {"mechanism": "matrix-laplace", "neighbours": "added", "sum_weight": 1}]
)
def test_a_public_number_and_one_in_a_matrix_have_no_weight(changes: dict[str, Any]) -> None:
    study = make_study(FLAGS, **changes)
    assert propose_count_weight(study.table, calibrate(study), [1000]) is None


def test_every_weight_that_is_compared_is_one_that_a_study_may_have() -> None:
    for weight in WEIGHTS:
        assert make_schema(FEW, neighbours="added", count_weight=weight).count_weight == weight
