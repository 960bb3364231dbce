"""Logistic and Poisson regression: without noise that of statsmodels; sets; what is refused."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from dppca import estimates
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.analysis.estimates.formula import read_formula
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.study import Study
from tests.support.coverage import without_noise
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

FALSE_ALARMS = 0.0  # all that is random has a seed
ROWS = 6_000
ATTRIBUTES = (
    binary_of("ill", ["no", "yes"]),
    binary_of("sex", ["f", "m"]),
    categorical_of("smoking", ["never", "past", "now"]),
    numeric_of("age", 18, 82, integer=True),
    numeric_of("visits", 0, 16, integer=True),
)
X = ["sex", "smoking", "age"]


def people(rows: int, *, base: float = -1.0, seed: int = 2) -> pd.DataFrame:
    """Related regressors; ill is logistic in them, visits a count."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=rows)
    frame = pd.DataFrame(
        {
            "sex": (rng.random(rows) < 0.5).astype(np.int32),
            "smoking": np.digitize(u + rng.normal(size=rows), [0.0, 1.5]).astype(np.int32),
            "age": np.clip(np.rint(50 + 8 * u + 10 * rng.normal(size=rows)), 18, 82),
        }
    )
    eta = base + 0.6 * frame.sex + 0.8 * (frame.smoking == 2) + 0.03 * (frame.age - 50)
    frame["ill"] = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(np.int32)
    frame["visits"] = rng.poisson(np.exp(0.4 + 0.3 * frame.sex)).clip(0, 16).astype(float)
    return frame


def study_of(*tables: dict[str, Any], epsilon: str = "3", **schema: Any) -> Study:
    return make_study(
        ATTRIBUTES,
        owners=["a", "b", "c"],
        epsilon=epsilon,
        delta="1e-9",
        tables=list(tables),
        **schema,
    )


def sums_of(study: Study, frame: pd.DataFrame) -> Any:
    return accumulate_moments(study.table, [frame[each["name"]].to_numpy() for each in ATTRIBUTES])


def released(study: Study, frame: pd.DataFrame, *, seed: int = 1) -> Estimates:
    parts = [frame.iloc[place] for place in np.array_split(np.arange(len(frame)), 3)]
    result = pooled_result(study, [sums_of(study, part) for part in parts], seed=seed)
    return estimates(Published(study, result))


def exact(study: Study, frame: pd.DataFrame) -> Estimates:
    """The release as if it had no noise."""
    parts = [frame.iloc[place] for place in np.array_split(np.arange(len(frame)), 3)]
    result = pooled_result(study, [sums_of(study, part) for part in parts], seed=1)
    result = replace(result, pooled=sums_of(study, frame).packed, mean=None)
    found = without_noise(estimates(Published(study, result)))
    counts = tuple(
        replace(each, entry=replace(each.entry, deviation=0.0)) for each in found.moments.counts
    )
    return replace(found, moments=replace(found.moments, counts=counts))


def design(frame: pd.DataFrame) -> NDArray[np.float64]:
    past, now = (frame.smoking.to_numpy() == code for code in (1, 2))
    columns = [np.ones(len(frame)), frame.sex.to_numpy(), past, now, frame.age.to_numpy()]
    return np.column_stack([each.astype(np.float64) for each in columns])


FRAME = people(ROWS)
LABELS = ["const", "sex=m", "smoking=past", "smoking=now", "age"]
REFERENCE = {"smoking": "never"}


@pytest.mark.parametrize("outcome", [[], ["ill"]], ids=["model", "sandwich"])
def test_without_noise_it_is_that_of_statsmodels(outcome: Sequence[str]) -> None:
    asked = exact(study_of({"table": ["sex", "smoking", "age", *outcome]}), FRAME)
    found = asked.logit("ill", X, reference=REFERENCE, log=True)
    other = sm.Logit(FRAME.ill, design(FRAME)).fit(disp=0)
    errors = (
        sm.GLM(FRAME.ill, design(FRAME), family=sm.families.Binomial()).fit(cov_type="HC0").bse
        if outcome
        else other.bse
    )
    assert found.names == tuple(LABELS)
    assert_allclose(found.params, other.params, rtol=2e-6)
    assert_allclose(found.bse, errors, rtol=2e-3)
    ratio = asked.logit("ill ~ sex + smoking + age", reference=REFERENCE)
    assert_allclose(ratio.params, np.exp(other.params), rtol=1e-5)
    low, high = ratio.conf_int().T
    width = 3.92 * np.asarray(errors)
    assert_allclose(np.log(high / low), width, rtol=0.05)


def test_a_table_has_as_many_labels_as_its_cells_hold() -> None:
    """Ten regressors and their outcome in one table: the fit and the sandwich of the rows."""
    names = [f"q{place}" for place in range(10)]
    columns = [binary_of(name, ["no", "yes"]) for name in ("y", *names)]
    study = make_study(columns, owners=["a"], epsilon="3", tables=[{"table": [*names, "y"]}])
    rng = np.random.default_rng(1)
    x = (0.7 * rng.normal(size=(4000, 1)) + rng.normal(size=(4000, 10)) > 0.3).astype(np.int32)
    y = (rng.random(4000) < 1 / (1 + np.exp(1 - x @ np.linspace(-1, 1, 10)))).astype(np.int32)
    sums = accumulate_moments(study.table, [y, *x.T])
    result = replace(pooled_result(study, [sums], seed=1), pooled=sums.packed, mean=None)
    asked = without_noise(estimates(Published(study, result)))
    counts = tuple(
        replace(each, entry=replace(each.entry, deviation=0.0)) for each in asked.moments.counts
    )
    asked = replace(asked, moments=replace(asked.moments, counts=counts))
    found = asked.logit("y", names, log=True)
    other = sm.GLM(y, sm.add_constant(x.astype(float)), family=sm.families.Binomial()).fit(
        cov_type="HC0"
    )
    assert_allclose(found.params, other.params, rtol=1e-5, atol=1e-6)
    assert_allclose(found.bse, other.bse, rtol=2e-3)


def test_the_score_test_is_that_of_statsmodels() -> None:
    asked = exact(study_of({"table": ["sex", "smoking", "age"]}), FRAME)
    x = design(FRAME)
    found = asked.logit("ill", X, reference=REFERENCE)
    for place in range(1, 5):
        null = sm.GLM(FRAME.ill, np.delete(x, place, axis=1), family=sm.families.Binomial()).fit()
        tested = null.score_test(exog_extra=x[:, [place]])
        assert found.pvalues[place] == pytest.approx(tested[1].item(), rel=1e-4)


def test_an_interaction_is_that_of_statsmodels_where_the_table_has_the_outcome() -> None:
    asked = exact(study_of({"table": ["sex", "smoking", "age", "ill"]}), FRAME)
    found = asked.logit("ill ~ sex*smoking + age", reference=REFERENCE, log=True)
    x = design(FRAME)
    x = np.column_stack([x[:, :4], x[:, [1]] * x[:, 2:4], x[:, 4]])
    other = sm.Logit(FRAME.ill, x).fit(disp=0)
    assert found.names[4:6] == ("sex=m x smoking=past", "sex=m x smoking=now")
    assert_allclose(found.params, other.params, rtol=1e-5)


def test_a_ratio_of_counts_is_that_of_statsmodels_with_one_dispersion() -> None:
    asked = exact(study_of({"table": ["sex", "smoking", "age"]}), FRAME)
    found = asked.poisson("visits", X, reference=REFERENCE)
    other = sm.GLM(FRAME.visits.to_numpy(), design(FRAME), family=sm.families.Poisson()).fit(
        scale="X2"
    )
    assert_allclose(found.params, np.exp(other.params), rtol=1e-5)
    assert_allclose(found.bse, np.exp(other.params) * other.bse, rtol=0.05)
    assert any("what a Poisson law says" in each for each in found.assumptions)


def test_numbers_in_ten_cells_have_the_slope_of_the_rows() -> None:
    """Midpoints of ten cells alone are off by several per cent."""
    frame = people(60_000)
    study = study_of({"table": ["sex", "smoking", "age"], "cells": {"age": 10}}, epsilon="50")
    found = released(study, frame).logit("ill", X, reference=REFERENCE, log=True)
    other = sm.Logit(frame.ill, design(frame)).fit(disp=0)
    assert found.params[4] == pytest.approx(np.asarray(other.params)[4], rel=0.03)
    assert abs(found.params - other.params).max() < 0.3


def test_cells_wider_than_a_deviation_are_refused() -> None:
    study = study_of({"table": ["sex", "age"], "cells": {"age": 3}})
    with pytest.raises(SettingError, match="cells of age are wider than its standard deviation"):
        released(study, FRAME).logit("ill", ["sex", "age"])


def test_sets_cover_and_count_as_given_without_an_end() -> None:
    """An outcome of 4 in 100 at epsilon .5: half of the sets have no end, and they cover."""
    frame = people(60_000, base=-4.0)
    study = study_of({"table": ["sex", "smoking"]}, epsilon="0.5")
    truth = sm.Logit(frame.ill, design(frame)[:, :4]).fit(disp=0).params
    rng, held, open_ends = np.random.default_rng(3), [], 0
    for seed in range(20):
        sample = frame.iloc[rng.integers(0, len(frame), 6_000)]
        found = released(study, sample, seed=seed).logit(
            "ill", ["sex", "smoking"], reference=REFERENCE, log=True
        )
        low, high = found.conf_int().T
        given = ~np.isnan(low)
        assert all(
            (each.refused is None) == there
            for each, there in zip(found.estimates, given, strict=True)
        )
        held += ((low <= truth) & (truth <= high))[given].tolist()
        open_ends += int(np.isinf(np.r_[low, high]).sum())
    assert len(held) >= 40
    assert open_ends >= 10
    assert np.mean(held) >= 0.85


def test_a_half_line_is_said_in_text_and_document() -> None:
    frame = people(6_000, base=-4.5)
    study = study_of({"table": ["sex", "smoking"]}, epsilon="0.5")
    for seed in range(10):
        found = released(study, frame, seed=seed).logit("ill", ["sex", "smoking"])
        if np.isinf(found.conf_int()[:, 1]).any():
            break
    document = found.document()
    unbounded = [each for each in document.estimates if each.high is None and each.refusal is None]
    assert unbounded
    assert all(each.unbounded == "above" for each in unbounded)
    assert "inf" in found.summary()
    assert found.to_frame().high.max() == inf


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda e: e.logit("age", ["sex"]), "`logit` is of a label"),
        (lambda e: e.poisson("ill", ["sex"]), "a count that is at least 0"),
        (lambda e: e.logit("ill", ["sex", "visits"]), "no table of sex, visits.*the law of visits"),
        (lambda e: e.logit("ill ~ sex:smoking"), "needs a released table of .*, ill"),
        (lambda e: e.logit("ill ~ ill"), "among its own regressors"),
        (lambda e: e.logit("ill ~ "), "is no formula"),
        (lambda e: e.logit("ill ~ a:b:c"), "is no term"),
        (lambda e: e.logit("ill", []), "name a regressor"),
    ],
)
def test_what_cannot_be_known_is_refused_in_words(ask: Any, why: str) -> None:
    asked = released(study_of({"table": ["sex", "smoking"]}), FRAME)
    with pytest.raises(SettingError, match=why):
        ask(asked)


def test_tables_of_a_study_that_continues_another_are_not_used() -> None:
    asked = released(study_of({"table": ["sex", "smoking"]}), FRAME)
    later = tuple(replace(each, continued=True) for each in asked.moments.counts)
    asked = replace(asked, moments=replace(asked.moments, counts=later))
    with pytest.raises(SettingError, match="of rows that may differ"):
        asked.logit("ill", ["sex", "smoking", "age"])


def test_two_attributes_need_no_table() -> None:
    """Pairs know their law: without noise it is the fit of statsmodels."""
    found = exact(study_of(), FRAME).logit("ill", ["sex", "smoking"], reference=REFERENCE, log=True)
    other = sm.Logit(FRAME.ill, design(FRAME)[:, :4]).fit(disp=0)
    assert_allclose(found.params, other.params, rtol=1e-4)
    assert_allclose(found.bse, other.bse, rtol=1e-3)
    assert not any("pairs leave open" in each for each in found.assumptions)


def laws_of_the_same_pairs() -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], Estimates]]:
    """Rows of y, and of a, b and c, of two laws with the same pairs, and what they release."""
    study = make_study(
        [binary_of(name, ["no", "yes"]) for name in ("y", "a", "b", "c")],
        owners=["x"],
        epsilon="3",
        delta="1e-9",
    )
    cells = np.array(list(np.ndindex(2, 2, 2)))
    for strength in (-0.9, 0.9):
        rows = np.rint(4000 * (1 + strength * np.prod(2 * cells - 1, axis=1))).astype(int)
        x = np.repeat(cells, rows, axis=0).astype(np.int32)
        eta = -1.0 + 2.0 * x @ np.array([1.0, 1.0, -1.0])
        place = np.r_[tuple(np.arange(n) for n in rows)] / np.repeat(rows, rows)
        y = (place < 1 / (1 + np.exp(-eta))).astype(np.int32)
        sums = accumulate_moments(study.table, [y, *x.T])
        result = replace(pooled_result(study, [sums], seed=1), pooled=sums.packed, mean=None)
        yield y, x, without_noise(estimates(Published(study, result), these_rows=True))


def test_three_attributes_have_what_pairs_leave_open() -> None:
    """Two laws of the same pairs, with and without a relation of all three: one set holds both."""
    fits, sets = [], []
    for y, x, asked in laws_of_the_same_pairs():
        found = asked.logit("y", ["a", "b", "c"], log=True)
        fits.append(sm.Logit(y, sm.add_constant(x.astype(float))).fit(disp=0).params)
        sets.append(found.conf_int())
        assert any("pairs leave open" in each for each in found.assumptions)
    for fit, (low, high) in zip(fits, (each.T for each in sets), strict=True):
        assert np.all(low - 1e-6 <= fit)
        assert np.all(fit <= high + 1e-6)
        assert np.all(high - low > 0.01)


def test_without_a_table_the_cells_are_counted() -> None:
    names = [f"q{place}" for place in range(12)]
    study = make_study(
        [binary_of(name, ["no", "yes"]) for name in ["y", *names]], owners=["x"], epsilon="3"
    )
    rows = np.random.default_rng(1).integers(0, 2, (13, 200)).astype(np.int32)
    result = pooled_result(study, [accumulate_moments(study.table, list(rows))], seed=1)
    with pytest.raises(SettingError, match="of 4096 cells pairs are not searched"):
        estimates(Published(study, result)).logit("y", names)


def test_a_formula_has_names_products_and_both() -> None:
    assert read_formula("ill ~ a + b*c", None) == ("ill", (("a",), ("b",), ("c",), ("b", "c")))
    assert read_formula("ill", ["a", ("b", "c")]) == ("ill", (("a",), ("b", "c")))


@pytest.mark.parametrize("epsilon", ["3", "50"])
def test_the_covariance_says_what_another_reference_would(epsilon: str) -> None:
    asked = released(study_of({"table": ["sex", "smoking"]}, epsilon=epsilon), FRAME)
    labels = asked.moments.names.labels[asked.moments.names.attribute("smoking")] or ()
    one, other = (
        asked.logit("ill", ["sex", "smoking"], reference={"smoking": each}, log=True)
        for each in labels[:2]
    )
    assert one.covariance is not None
    assert other.covariance is not None
    np.testing.assert_allclose(np.sqrt(np.diag(one.covariance)), one.bse, rtol=1e-9)
    np.testing.assert_allclose(one.covariance, one.covariance.T, rtol=1e-9)
    between = np.array([name == f"smoking={labels[2]}" for name in one.names], dtype=float)
    between -= [name == f"smoking={labels[1]}" for name in one.names]
    place = other.names.index(f"smoking={labels[2]}")
    assert between @ one.params == pytest.approx(other.params[place], rel=1e-6)
    assert between @ one.covariance @ between == pytest.approx(other.bse[place] ** 2, rel=1e-6)
    ratios = asked.logit("ill", ["sex", "smoking"], reference={"smoking": labels[0]})
    assert ratios.covariance is not None
    np.testing.assert_allclose(np.sqrt(np.diag(ratios.covariance)), ratios.bse, rtol=1e-9)
    assert (ratios.document().ratios, one.document().ratios) == (True, False)


def test_what_pairs_leave_open_has_no_covariance() -> None:
    assert released(study_of(), FRAME).logit("ill", ["sex", "smoking"]).covariance is None
