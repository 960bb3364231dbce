"""Average marginal effects: without noise those of statsmodels' fit; sets; what is refused."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose

from dppca.common.kernel.errors import SettingError
from tests.push.unit.common.analysis.estimates.test_logit import (
    FRAME,
    REFERENCE,
    design,
    exact,
    laws_of_the_same_pairs,
    people,
    released,
    study_of,
)

FALSE_ALARMS = 0.0  # all that is random has a seed
LABELS = ((1, (1,)), (2, (2, 3)), (3, (2, 3)))  # column of sex=m and of smoking, with its attribute


def effects(frame: pd.DataFrame, *, age: bool = True, product: bool = False) -> list[float]:
    """Effects of the fit of statsmodels: predictions of all rows with each label, and slopes."""

    def whole(x: np.ndarray) -> np.ndarray:
        return np.column_stack([x, x[:, [1]] * x[:, 2:4]]) if product else x

    x = design(frame) if age else design(frame)[:, :4]
    beta = np.asarray(sm.Logit(frame.ill, whole(x)).fit(disp=0).params)
    found = []
    for column, own in LABELS:
        without = x.copy()
        without[:, own] = 0
        with_it = without.copy()
        with_it[:, column] = 1
        high, low = (1 / (1 + np.exp(-whole(each) @ beta)) for each in (with_it, without))
        found.append(float(np.mean(high - low)))
    mu = 1 / (1 + np.exp(-whole(x) @ beta))
    return [*found, float(np.mean(mu * (1 - mu)) * beta[4])] if age else found


@pytest.mark.parametrize("outcome", [[], ["ill"]], ids=["model", "sandwich"])
def test_without_noise_they_are_those_of_the_rows(outcome: list[str]) -> None:
    asked = exact(study_of({"table": ["sex", "smoking", "age", *outcome]}), FRAME)
    found = asked.marginal_effects("ill ~ sex + smoking + age", reference=REFERENCE)
    assert found.names == ("sex=m", "smoking=past", "smoking=now", "age")
    assert_allclose(found.params, effects(FRAME), rtol=1e-6)
    same = asked.logit("ill ~ sex + smoking + age", reference=REFERENCE)
    assert_allclose(found.pvalues, same.pvalues[1:], rtol=1e-4)  # no effect is no effect


def test_their_errors_are_those_of_statsmodels_and_the_law_of_the_rows() -> None:
    """Statsmodels takes the regressors as fixed; here they vary with the sample."""
    asked = exact(study_of({"table": ["sex", "age"]}), FRAME)
    found = asked.marginal_effects("ill ~ sex + age")
    x = design(FRAME)[:, [0, 1, 4]]
    fit = sm.Logit(FRAME.ill, x).fit(disp=0)
    margins = fit.get_margeff(dummy=True)
    assert_allclose(found.params, margins.margeff, rtol=1e-6)
    one, none = (np.column_stack([x[:, 0], np.full(len(x), own), x[:, 2]]) for own in (1, 0))
    h = fit.predict(one) - fit.predict(none)
    mu = fit.predict(x)
    slope = np.asarray(mu * (1 - mu) * np.asarray(fit.params)[2])
    spread = np.array([np.var(h), np.var(slope)]) / len(x)
    assert_allclose(found.bse**2, margins.margeff_se**2 + spread, rtol=2e-3)
    low, high = found.conf_int().T
    assert_allclose(high - low, 3.92 * found.bse, rtol=0.02)


def test_an_interaction_is_in_the_effects_of_both_labels() -> None:
    asked = exact(study_of({"table": ["sex", "smoking", "age", "ill"]}), FRAME)
    found = asked.marginal_effects("ill ~ sex*smoking + age", reference=REFERENCE)
    x = design(FRAME)
    assert found.names == ("sex=m", "smoking=past", "smoking=now", "age")
    beta = sm.Logit(FRAME.ill, np.column_stack([x, x[:, [1]] * x[:, 2:4]])).fit(disp=0).params
    assert len(beta) == 7
    assert_allclose(found.params, effects(FRAME, product=True), rtol=1e-5)


def test_a_product_with_a_number_is_in_its_slope() -> None:
    asked = exact(study_of({"table": ["sex", "age", "ill"]}), FRAME)
    found = asked.marginal_effects("ill ~ sex*age")
    sex, age = FRAME.sex.to_numpy(dtype=float), FRAME.age.to_numpy()
    x = np.column_stack([np.ones(len(sex)), sex, age, sex * age])
    fit = sm.Logit(FRAME.ill, x).fit(disp=0)
    beta, mu = np.asarray(fit.params), np.asarray(fit.predict(x))
    assert found.params[1] == pytest.approx(np.mean(mu * (1 - mu) * (beta[2] + sex * beta[3])))
    one, none = (np.column_stack([x[:, 0], own, age, own * age]) for own in (sex * 0 + 1, sex * 0))
    assert found.params[0] == pytest.approx(np.mean(fit.predict(one) - fit.predict(none)))


@pytest.mark.parametrize("table", [[{"table": ["sex", "smoking"]}], []], ids=["table", "pairs"])
def test_their_sets_cover(table: list[dict[str, list[str]]]) -> None:
    frame, study = people(60_000), study_of(*table, epsilon="1")
    truth = effects(frame, age=False)
    rng, held = np.random.default_rng(3), []
    for seed in range(16):
        sample = frame.iloc[rng.integers(0, len(frame), 6_000)]
        found = released(study, sample, seed=seed).marginal_effects(
            "ill", ["sex", "smoking"], reference=REFERENCE
        )
        low, high = found.conf_int().T
        held += ((low <= truth) & (truth <= high)).tolist()
        assert 0.02 < np.median(high - low) < 0.4
    assert len(held) == 48
    assert np.mean(held) >= 0.88


def test_of_a_rare_outcome_they_hold_the_truth_or_exclude_nothing() -> None:
    """Most estimates do not exist: what is given has no end beyond -1 and 1, and covers."""
    frame, study = people(60_000, base=-4.0), study_of({"table": ["sex", "smoking"]}, epsilon="0.5")
    truth, held, without = np.array(effects(frame, age=False)), list[bool](), 0
    rng = np.random.default_rng(3)
    for seed in range(10):
        sample = frame.iloc[rng.integers(0, len(frame), 6_000)]
        found = released(study, sample, seed=seed).marginal_effects(
            "ill ~ sex + smoking", reference=REFERENCE
        )
        without += int(np.isnan(found.params).any())
        for each, own, (low, high) in zip(found.estimates, truth, found.conf_int(), strict=True):
            assert each.refused is None
            assert -1 <= low <= high <= 1
            held.append(bool(low <= own <= high))
    assert without >= 3
    assert np.mean(held) >= 0.88


def test_without_a_table_one_set_holds_two_laws_of_the_same_pairs() -> None:
    for y, x, asked in laws_of_the_same_pairs():
        found = asked.marginal_effects("y", ["a", "b", "c"])
        fit = sm.Logit(y, sm.add_constant(x.astype(float))).fit(disp=0)
        margins = fit.get_margeff(dummy=True).margeff
        low, high = found.conf_int().T
        assert np.all(low - 1e-6 <= margins)
        assert np.all(margins <= high + 1e-6)
        assert np.all(high - low > 1e-3)
        assert found.covariance is None
        assert any("pairs leave open" in each for each in found.assumptions)


def test_the_document_has_terms_covariance_and_what_they_are_against() -> None:
    asked = released(study_of({"table": ["sex", "smoking", "age"]}), FRAME)
    found = asked.marginal_effects("ill ~ sex + smoking + age", reference=REFERENCE)
    document = found.document()
    terms = [(each.attribute, each.label) for each in document.estimates]
    assert terms == [("sex", "m"), ("smoking", "past"), ("smoking", "now"), ("age", None)]
    assert not document.ratios
    assert found.covariance is not None
    assert document.covariance is not None
    assert_allclose(np.sqrt(np.diag(found.covariance)), found.bse, rtol=1e-9)
    assert "smoking: effects are against never." in document.assumptions
    assert "age: for one unit more." in document.assumptions
    assert list(found.to_frame().index) == list(found.names)
    # another reference: the difference of two effects
    other = asked.marginal_effects("ill ~ sex + smoking + age", reference={"smoking": "past"})
    between = np.array([0.0, -1.0, 1.0, 0.0])
    place = other.names.index("smoking=now")
    assert between @ found.params == pytest.approx(other.params[place], rel=1e-6)
    assert between @ found.covariance @ between == pytest.approx(other.bse[place] ** 2, rel=1e-6)


def test_what_logit_refuses_they_refuse() -> None:
    asked = released(study_of({"table": ["sex", "smoking"]}), FRAME)
    for wrong, why in (
        ("age ~ sex", "`logit` is of a label"),
        ("ill ~ visits", "no table of visits.*which is a number"),
        ("ill ~ sex:smoking", "needs a released table of .*, ill"),
    ):
        with pytest.raises(SettingError, match=why):
            asked.marginal_effects(wrong)
