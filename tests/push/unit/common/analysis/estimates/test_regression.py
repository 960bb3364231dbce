"""The sandwich of a label, from rows of the fitted field, beside the one of the real rows."""

import numpy as np
import pytest
import statsmodels.api as sm

from dppca import estimates
from dppca.common.analysis.estimates.face import Estimates, Variance
from dppca.common.analysis.estimates.release import expected_moments
from dppca.common.analysis.estimates.scope import too_weak
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import encode
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
