"""Estimates of a number that rows may lack are of the rows that have it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose

from dppca import estimates
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.analysis.estimates.forecast import forecast_widths
from dppca.common.analysis.estimates.release import expected_moments
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from tests.support.coverage import without_noise
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

N = 3_000
GRID = 2.0**-14


def _study(**missing: Any) -> Study:
    attributes = [
        numeric_of("dose", 0, 10, **missing),
        numeric_of("age", 0, 100),
        binary_of("sex", ["f", "m"]),
        categorical_of("ward", ["a", "b", "c"]),
    ]
    return make_study(attributes, epsilon="3", delta="1e-9", resolution_bits=12)


def _rows() -> list[Any]:
    rng = np.random.default_rng(2)
    sex, ward = rng.integers(0, 2, N, np.int32), rng.integers(0, 3, N, np.int32)
    age = np.round(100 * rng.beta(2, 3, N) * 40.96) / 40.96
    dose = np.round((2 + 3 * rng.beta(2, 2, N) + sex + 0.03 * age) * 409.6) / 409.6
    dose[rng.random(N) < 0.1 + 0.2 * sex] = np.nan
    return [dose, age, sex, ward]


ROWS = _rows()


def _asked(study: Study) -> Estimates:
    moments = accumulate_moments(study.table, ROWS)
    return estimates(Published(study, pooled_result(study, [moments], seed=3)))


def _exact(study: Study) -> Estimates:
    moments = accumulate_moments(study.table, ROWS)
    result = replace(pooled_result(study, [moments], seed=3), pooled=moments.packed, mean=None)
    return without_noise(estimates(Published(study, result)))


INDICATOR = _study(missing="indicator")
LEVEL = _study(missing="level", histogram=True)


@pytest.mark.parametrize("study", [INDICATOR, LEVEL], ids=["indicator", "level"])
def test_a_mean_is_of_the_rows_that_have_the_number(study: Study) -> None:
    found, known = _exact(study).mean("dose"), ROWS[0][~np.isnan(ROWS[0])]
    assert_allclose(found.params[0], known.mean(), rtol=1e-9)
    rounding = 1e-9 if study is INDICATOR else 1e-3  # a count's noise remains
    assert_allclose(found.bse[0], known.std() / np.sqrt(len(known)), rtol=rounding)
    assert "missing values are not in" in found.summary()
    noised = _asked(study)
    low, high = noised.mean("dose").conf_int()[0]
    assert low < known.mean() < high
    assert_allclose(noised.proportion("dose=missing").params, np.isnan(ROWS[0]).mean(), atol=0.02)


def test_groups_and_regressors_are_those_of_statsmodels() -> None:
    (dose, age, sex, ward), exact = ROWS, _exact(INDICATOR)
    lacks = np.isnan(dose)
    groups = [dose[(ward == code) & ~lacks].mean() for code in range(3)]
    assert_allclose(exact.mean("dose", by="ward").params, groups, rtol=1e-9)
    gap = [dose[(sex == code) & ~lacks] for code in (1, 0)]
    assert_allclose(exact.difference("dose", "sex").params, gap[0].mean() - gap[1].mean())
    shares = [lacks[sex == code].mean() for code in (0, 1)]
    assert_allclose(exact.mean("dose=missing", by="sex").params, shares, rtol=1e-9)
    design = np.column_stack([np.where(lacks, 5, dose), lacks, sex])
    other = sm.OLS(age, sm.add_constant(design)).fit()
    found = exact.ols("age", ["dose", "sex"])
    assert found.names == ("const", "dose", "dose=missing", "sex=m")
    assert_allclose(found.params, other.params, rtol=1e-8)
    assert_allclose(found.bse, other.bse, rtol=1e-8)
    assert "dose=missing: its coefficient is against dose of 5." in found.assumptions


@pytest.mark.parametrize(
    ("study", "ask", "why"),
    [
        (INDICATOR, lambda e: e.ols("dose", ["age"]), "dose may be missing"),
        (INDICATOR, lambda e: e.correlation("dose", "age"), "take it as a regressor"),
        (INDICATOR, lambda e: e.table("dose", "sex"), "did not count rows by dose"),
        (LEVEL, lambda e: e.mean("dose", by="sex"), "need missing: indicator"),
        (LEVEL, lambda e: e.ols("age", ["dose"]), "need missing: indicator"),
    ],
)
def test_what_the_moments_do_not_say_of_these_rows_is_refused(
    study: Study, ask: Any, why: str
) -> None:
    with pytest.raises(SettingError, match=why):
        ask(_asked(study))


@pytest.mark.parametrize("study", [INDICATOR, LEVEL], ids=["indicator", "level"])
def test_a_forecast_asks_of_numbers_that_every_row_has(study: Study) -> None:
    found = forecast_widths(expected_moments(study, calibrate(study), [N]))
    assert [each.question.split()[2] for each in found[:2]] == ["age", "age,"]
    assert all(each.reach is not None for each in found)
