"""The sandwich of a label, from rows of the fitted field, beside the one of the real rows."""

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

from dppca import estimates
from dppca.common.analysis.estimates.face import Estimates, Variance
from dppca.common.analysis.estimates.release import expected_moments
from dppca.common.analysis.estimates.scope import EstimateScope, too_weak
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.moments.moments import compute_moments
from dppca.common.kernel.moments.people import PeopleMoments
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import encode
from tests.support.coverage import Releases, without_noise
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

FALSE_ALARMS = 0.0  # all that is random has a seed
ROWS = 15_000
STUDY = make_study(
    [
        numeric_of("age", 0, 100),
        binary_of("sex", ["f", "m"]),
        binary_of("ill", ["no", "yes"]),
        categorical_of("stage", ["none", "early", "late"]),
    ],
    owners=["a", "b", "c"],
    epsilon="3",
    delta="1e-9",
)


def _people() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One in five is m, and much more often ill; so are the old: odds that pairs can describe."""
    rng = np.random.default_rng(4)
    age, sex = rng.uniform(0, 100, ROWS), (rng.random(ROWS) < 0.2).astype(np.int32)
    ill = (rng.random(ROWS) < 1 / (1 + np.exp(4.5 - 3.5 * sex - 0.02 * age))).astype(np.int32)
    stage = np.where(ill == 1, 1 + (rng.random(ROWS) < 0.5), 0).astype(np.int32)
    return age, sex, ill, stage


PEOPLE = _people()


@pytest.fixture(scope="module")
def asked() -> Estimates:
    parts = np.array_split(encode(STUDY.table, list(PEOPLE)), 3)
    return estimates(Published(STUDY, pooled_result(STUDY, parts, seed=2)))


@pytest.mark.parametrize("outcome", ["ill", "stage=late"])
def test_the_sandwich_is_near_that_of_the_real_rows_where_constant_variance_is_not(
    asked: Estimates, outcome: str
) -> None:
    age, sex, ill, stage = PEOPLE
    y = ill if outcome == "ill" else stage == 2
    x = sm.add_constant(np.column_stack([age, sex]))
    true = sm.OLS(y.astype(float), x).fit(cov_type="HC0").bse

    def sampling(variance: Variance) -> np.ndarray:
        """Standard errors without the noise, over those of the rows."""
        found = asked.ols(outcome, ["age", "sex"], variance=variance).estimates
        own = [each.bse * np.sqrt(1 - each.noise_share) for each in found if each.refused is None]
        return np.asarray(own / true)

    _, of_age, of_sex = sampling("sandwich")
    assert 0.86 < of_age < 1.03
    assert 0.86 < of_sex < 1.03
    assert sampling("constant")[2] < 0.7
    assert sampling("bound")[1] > 1.2


def test_the_sandwich_says_how_far_the_field_is_and_what_it_rests_on(asked: Estimates) -> None:
    reached = list[float]()
    found = asked.ols("ill", ["sex"], variance="sandwich", progress=reached.append)
    assert reached == sorted(reached)
    assert 0 < reached[0] < reached[-1] == 1
    assert "How rows vary around the line is taken from rows of the fitted field." in (
        found.assumptions
    )


def test_weak_coefficients_and_their_intercept_cover_without_a_rule() -> None:
    """300 rows at epsilon 3: the noise hides what is left of regressors, in many releases."""
    rows = [part[:300] for part in PEOPLE]
    coded = encode(STUDY.table, rows)
    x = sm.add_constant(np.column_stack([rows[0], rows[1]]))
    truth = sm.OLS(rows[2].astype(float), x).fit().params
    held, open_ends, without = [], 0, 0
    for seed in range(60):
        released = Published(STUDY, pooled_result(STUDY, np.array_split(coded, 3), seed=seed))
        found = estimates(released, these_rows=True).ols("ill", ["age", "sex"])
        refused = {each.refused is not None for each in found.estimates}
        assert len(refused) == 1  # all of a fit, or nothing of it
        if True in refused:
            without += 1
            assert "no longer independent" in found.summary().replace("\n", " ")
            continue
        low, high = found.conf_int().T
        held += ((low <= truth) & (truth <= high)).tolist()
        open_ends += int(np.isinf(low).sum())
    assert np.mean(held) >= 0.93
    assert open_ends > 5
    assert without < 40


def test_what_would_be_enough_is_said_from_two_deviations_on() -> None:
    """Below, a strength is noise, and so would be what is promised."""
    moments = expected_moments(STUDY, calibrate(STUDY), [5000] * 3)
    for size, promised in ((0.5, False), (1.9, False), (2.1, True), (3.9, True)):
        refused = too_weak(moments, "age", "hidden", size=size, noise=1.0)
        assert refused is not None
        assert ("would be enough" in refused.text) == promised
    assert too_weak(moments, "age", "hidden", size=4.1, noise=1.0) is None


@pytest.mark.parametrize("seed", range(6))
def test_of_people_intervals_are_as_wide_as_any_rows_of_the_same_moments_need(seed: int) -> None:
    """Rows far out in x vary more: against the sandwich, and the influence, of the real rows."""
    rng = np.random.default_rng(seed)
    n, far = 4000, rng.random(4000) < 0.2
    x = np.clip(np.where(far, rng.choice([0.02, 0.98], n), rng.normal(0.5, 0.08, n)), 0, 1)
    label = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    error = rng.normal(0, np.where(far | (label == 2), 0.2, 0.02))
    y = np.clip(0.4 + 0.2 * x + 0.05 * (label == 1) + error, 0, 1)
    numbers = [numeric_of("x", 0, 1), numeric_of("y", 0, 1)]
    people = {"unit": "person", "max_rows_per_person": None}
    for changes, covers in ((people, True), ({}, False)):
        study = make_study([*numbers, categorical_of("l", ["a", "b", "c"])], **changes)
        releases = Releases(study, encode(study.table, [x, y, label.astype(np.int32)]), rows=n)
        sums = compute_moments(releases.population, study.table.layout)
        moments = releases.moments(sums.packed, n_rows=n)
        asked = without_noise(Estimates(moments, EstimateScope()))
        found = asked.ols("y", ["x", "l"], reference={"l": "a"})
        said = (found.document().title, found.summary())
        assert all(("of y, by person" in each) is covers for each in said)
        design = np.column_stack([np.ones(n), x, label == 1, label == 2])
        bread = np.linalg.inv(design.T @ design / n)
        rest = y - design @ (bread @ design.T @ y / n)
        sandwich = bread @ ((design * rest[:, None] ** 2).T @ design / n) @ bread / n
        assert bool((found.bse[1:] ** 2 >= 0.99 * np.diag(sandwich)[1:]).all()) == covers
        r = np.corrcoef(x, y)[0, 1]
        u, v = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
        influence = u * v - r * (u * u + v * v) / 2
        answered = asked.correlation("x", "y").bse[0] ** 2
        assert bool(answered >= 0.99 * (influence**2).mean() / n) == covers
    assert asked.ols("y", ["x"], variance="bound").bse[1] > asked.ols("y", ["x"]).bse[1]


def _rare(
    epsilon: str, *, seed: int, tables: Any = (), **changes: Any
) -> tuple[Estimates, np.ndarray, np.ndarray]:
    """6,000 rows of which 3 % are ill, more in some groups; design and outcome."""
    columns = [binary_of("sex", ["f", "m"]), categorical_of("region", ["n", "e", "s"])]
    attributes = [*columns, binary_of("ill", ["no", "yes"])]
    study = make_study(attributes, epsilon=epsilon, tables=tables, **changes)
    rng = np.random.default_rng(seed)
    sex, region = rng.integers(0, 2, 6000), rng.choice(3, 6000, p=[0.5, 0.3, 0.2])
    ill = rng.random(6000) < 0.01 + 0.02 * sex + 0.03 * (region == 1)
    sums = accumulate_moments(study.table, [each.astype(np.int32) for each in (sex, region, ill)])
    if changes:  # people of one row
        sums = PeopleMoments(sums.n_rows, sums.packed)
    asked = estimates(Published(study, pooled_result(study, [sums], seed=seed)))
    return asked, sm.add_constant(np.column_stack([sex, region == 1, region == 2])), ill


@pytest.mark.parametrize("changes", [{}, {"unit": "person", "max_rows_per_person": None}], ids=str)
def test_of_a_label_the_default_is_the_sandwich_of_a_table_and_names_it(changes: Any) -> None:
    """By person, too: the mean of what a person's rows add varies at most as one of them."""
    tables = [{"table": ["sex", "region", "ill"]}]
    asked, x, ill = _rare("1000", seed=3, tables=tables, **changes)
    found = asked.ols("ill", ["sex", "region"], reference={"region": "n"})
    true = sm.OLS(ill.astype(float), x).fit(cov_type="HC0").bse
    np.testing.assert_allclose(found.bse, true, rtol=0.02)
    assert "taken from a released table (sandwich)." in " ".join(found.assumptions)
    wide = asked.ols("ill", ["sex", "region"], reference={"region": "n"}, variance="bound")
    assert (wide.bse > 2 * true).all()


def test_intervals_of_a_rare_label_cover_by_default() -> None:
    """Of 400 releases .954 at epsilon 1, .948 at 10; widths .67 to .78, .26 to .39 of the bound."""
    held = []
    for seed in range(60):
        asked, *_ = _rare("10", seed=seed, tables=[{"table": ["sex", "region", "ill"]}])
        found = asked.ols("ill", ["sex", "region"], reference={"region": "n"})
        low, high = found.conf_int().T
        truth = np.array([0.01, 0.02, 0.03, 0.0])
        held += ((low <= truth) & (truth <= high)).tolist()
    assert 0.9 <= np.mean(held) <= 0.99


def test_without_a_table_the_field_is_asked_and_without_rows_the_bound() -> None:
    asked, *_ = _rare("10", seed=4)
    field = asked.ols("ill", ["sex"])
    assert "taken from rows of the fitted field." in " ".join(field.assumptions)
    forecast = Estimates(expected_moments(asked.moments.study, asked.moments.calibration, [6000]))
    assert "taken to be the most it can be, 1/4." in " ".join(
        forecast.ols("ill", ["sex"]).assumptions
    )
    with pytest.raises(SettingError, match="no field could be fitted"):
        forecast.ols("ill", ["sex"], variance="sandwich")
    with pytest.raises(SettingError, match="is no variance"):
        asked.ols("ill", ["sex"], variance="table")  # type: ignore[arg-type]
    assert asked.moments.published is not None
    rows_alone = estimates(asked.moments.published, these_rows=True)
    assert "sandwich" not in " ".join(rows_alone.ols("ill", ["sex"]).assumptions)
