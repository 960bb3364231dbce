"""Forecasts of intervals are those that a release of such values then gets."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.analysis.estimates.forecast import ForecastWidth, forecast_widths
from dppca.common.analysis.estimates.release import expected_moments, released_moments
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from tests.support.examples import examples
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, make_study, numeric_of

FALSE_ALARMS = 0.0  # all draws have seeds
REGION = {"name": "region", "type": "categorical", "categories": ["east", "north", "south"]}
MIXED = [numeric_of("age", 0, 100), binary_of("ill", ["no", "yes"]), REGION]


def _study(attributes: list[dict[str, Any]], epsilon: str, **changes: Any) -> Study:
    privacy = {"mechanism": "gaussian", "epsilon": epsilon, "delta": "1e-9"}
    return make_study(attributes, owners=["a", "b"], privacy=privacy, **changes)


def _expected(study: Study, rows: int) -> tuple[ForecastWidth, ...]:
    return forecast_widths(expected_moments(study, calibrate(study), [rows, rows]))


@pytest.mark.parametrize("epsilon", ["1", "4"])
def test_values_that_are_spread_evenly_get_the_intervals_of_the_forecast(epsilon: str) -> None:
    study, rng = _study(MIXED, epsilon), np.random.default_rng(4)
    parts = [
        [rng.uniform(0, 100, 6000), *(rng.integers(0, size, 6000, np.int32) for size in (2, 3))]
        for _ in range(2)
    ]
    moments = [accumulate_moments(study.table, part) for part in parts]
    result = pooled_result(study, moments, seed=4)
    found = forecast_widths(released_moments(Published(study, result)))
    expected = _expected(study, 6000)
    assert [each.question for each in found] == [
        "mean of age",
        "difference of age, ill yes less no",
        "share of ill=yes",
        "share of ill no, region east",
        "correlation of age and ill=yes",
        "coefficient of one of 3 labels of region for age, with ill=yes",
    ]
    assert [each.question for each in expected] == [each.question for each in found]
    for one, other in zip(found, expected, strict=True):
        assert one.reach is not None
        assert one.reach == pytest.approx(other.reach, rel=0.1)


def test_intervals_get_narrower_with_epsilon_and_with_rows_until_all_have_ends() -> None:
    numbers = [*MIXED, numeric_of("dose", 0, 9)]
    settings_of_growth = [
        [_expected(_study(numbers, epsilon), 3000) for epsilon in ("0.001", "0.5", "5")],
        [_expected(_study(numbers, "0.5"), rows) for rows in (9, 3000, 30_000)],
    ]
    for growth in settings_of_growth:
        assert growth[0][-1].reach is None
        assert growth[0][-1].text == "not estimable"
        for before, after in pairwise(growth):
            for one, other in zip(before, after, strict=True):
                assert other.reach is not None
                assert one.reach is None or other.reach < one.reach


@pytest.mark.parametrize(
    ("attributes", "questions"),
    [
        (
            [numeric_of("age", 0, 100), numeric_of("dose", 0, 9)],
            ["mean", "correlation", "coefficient"],
        ),
        (
            [REGION, binary_of("ill", ["no", "yes"])],
            ["difference", "share", "share", "correlation", "coefficient"],
        ),
        (
            [numeric_of("age", 0, 100), REGION],
            ["mean", "difference", "share", "correlation", "coefficient"],
        ),
    ],
)
def test_what_the_schema_cannot_answer_is_not_asked(
    attributes: list[dict[str, Any]], questions: list[str]
) -> None:
    found = _expected(_study(attributes, "2"), 9000)
    assert [each.question.split()[0] for each in found] == questions


def test_counts_alone_and_the_unit_ball_have_no_such_intervals() -> None:
    ball = [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 4} for i in range(3)]
    schema = {"max_rows_per_person": 1, "attributes": ball, "row_norm": {"include_sums": False}}
    assert _expected(_study(ball, "1", schema=schema), 9000) == ()


@settings(max_examples=examples(60), deadline=None)
@given(reach=st.floats(1e-9, 1e9))
def test_half_a_width_is_shown_with_two_digits(reach: float) -> None:
    shown = float(ForecastWidth("mean", reach).text.removeprefix("± "))
    assert shown == pytest.approx(reach, rel=0.051)
