"""Life tables and log-rank tests: as scipy's and statsmodels' where nothing is noise."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from statsmodels.duration.survfunc import survdiff

from dppca import estimates
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.estimates.share_sets import ShareSet
from dppca.common.analysis.estimates.survival import (
    SurvivalSet,
    at_risk,
    draw_null,
    follow_up,
    log_rank,
    nearest_counts,
)
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.moments import compute_moments
from dppca.common.kernel.schema import Column, encode, find_cells
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

FALSE_ALARMS = 0.0  # all noise has a seed
N = 3_000
STUDY = make_study(
    [
        numeric_of("month", 1, 6, integer=True),
        numeric_of("dose", 0, 9, histogram=True, spikes=[3], bins=2),
        binary_of("died", ["no", "yes"]),
        categorical_of("arm", ["a", "b", "c"]),
    ],
    owners=["one", "two"],
    epsilon="20",
    tables=[{"table": ["month", "died", "arm"]}, {"table": ["dose", "died", "arm"]}],
)


def _rows(ratio: float) -> list[Column]:
    rng = np.random.default_rng(8)
    arm = rng.choice(3, N, p=[0.5, 0.4, 0.1]).astype(np.int32)
    dies = rng.geometric(np.where(arm == 1, 0.15 * ratio, 0.15))
    leaves = rng.integers(1, 9, N)
    died = (dies <= np.minimum(leaves, 6)).astype(np.int32)
    month = np.minimum(np.minimum(dies, leaves), 6).astype(float)
    return [month, rng.uniform(0, 9, N), died, arm]


def _asked(ratio: float, *, exact: bool) -> Estimates:
    rows, parts = _rows(ratio), []
    for part in range(2):
        own = [column[part::2] for column in rows]
        cells = find_cells(STUDY.table, own)
        parts.append(compute_moments(encode(STUDY.table, own), STUDY.table.layout, cells))
    result = pooled_result(STUDY, parts, seed=1)
    if exact:
        result = replace(result, pooled=parts[0].packed + parts[1].packed)
    asked = estimates(Published(STUDY, result))
    if not exact:
        return asked
    counts = tuple(
        replace(each, entry=replace(each.entry, deviation=0.0)) for each in asked.moments.counts
    )
    return replace(asked, moments=replace(asked.moments, counts=counts))


def test_without_noise_the_statistic_is_that_of_statsmodels() -> None:
    month, _, died, arm = map(np.asarray, _rows(1.4))
    asked = _asked(1.4, exact=True)
    place = asked.moments.names.attribute
    found = follow_up(asked.moments, place("month"), (place("died"), 1), place("arm"))
    assert_allclose(N * found.table.sum(axis=(1, 2)), np.bincount(arm), atol=1e-6)
    statistic = log_rank(N * found.table[None], np.zeros((36, 36)))[0]
    assert_allclose(statistic, survdiff(month, died, arm)[0], rtol=1e-6)


def test_rows_at_risk_are_those_that_leave_then_or_later() -> None:
    table = np.array([[[5.0, 3, 2], [1, 2, 4]]])
    events, left, risk = at_risk(table)
    assert events.tolist() == [[1, 2, 4]]
    assert left.tolist() == [[5, 3, 2]]
    assert risk.tolist() == [[17, 11, 6]]


def test_the_nearest_counts_are_those_of_a_quadratic_programme() -> None:
    noised = np.array([[[5.0, -3, 2], [9, -0.5, 4]]])
    found = nearest_counts(noised, 12)
    assert found.sum() == pytest.approx(12)
    solved = minimize(
        lambda x: np.square(x - noised.ravel()).sum(),
        np.full(6, 2.0),
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 12},
    )
    assert_allclose(found.ravel(), solved.x, atol=1e-5)
    assert_allclose(nearest_counts(np.array([[[1.0, 2, 3]]]), 6), [[[1, 2, 3]]])


def test_tables_of_the_null_have_rows_at_risk_late_also_where_cells_are_noise() -> None:
    rng, n, size = np.random.default_rng(5), 3000, 40
    last = np.minimum(rng.geometric(0.06, n), size) - 1
    arm, died = (rng.random(n) < 0.3).astype(int), (rng.random(n) < 0.7).astype(int)
    exact = np.zeros((2, 2, size))
    np.add.at(exact, (arm, died, last), 1)
    drawn = [
        draw_null(exact + 43 * rng.standard_normal(exact.shape), n, rng).mean(axis=0)
        for _ in range(40)
    ]
    risk = at_risk(np.mean(drawn, axis=0))[2].sum(axis=0)
    assert_allclose(risk[[0, 10]], at_risk(exact)[2].sum(axis=0)[[0, 10]], rtol=0.2)
    assert 300 < risk[30] < 800, "473 of the rows themselves; hazards cut one by one leave 177"


def test_the_life_table_is_that_of_actuaries() -> None:
    month, _, died, arm = map(np.asarray, _rows(1.0))
    answer = _asked(1.0, exact=True).survival("month", "died=yes", by="arm")
    survival = 1.0
    for place, end in enumerate(range(1, 6)):
        leaves = (arm == 0) & (month == end)
        risk = ((arm == 0) & (month >= end)).sum() - (leaves & (died == 0)).sum() / 2
        survival *= 1 - (leaves & (died == 1)).sum() / risk
        assert_allclose(answer.params[place], survival)
        low, high = answer.conf_int()[place]
        assert 0 <= low <= survival <= high <= 1
        assert answer.names[place] == f"survival to {end} where arm=a"
    assert answer.names[-1] == "log-rank"


def test_the_median_is_read_from_the_survival_that_its_interval_allows() -> None:
    answer = _asked(3.0, exact=True).survival("month", "died=yes", by="arm")
    ends = dict(zip(answer.names, answer.conf_int(), strict=True))
    low, high = ends["median survival where arm=b"]  # a hazard of .45: .55 after one month
    assert low <= 2 <= high <= 3
    few = _asked(0.4, exact=True).survival("month", "died=yes", by="arm")
    unbounded = {each.name: each.unbounded for each in few.document().estimates}
    assert unbounded["median survival where arm=b"] == "above", "half of them are not seen to die"


def test_what_survives_is_about_as_narrow_as_the_variance_of_greenwood() -> None:
    month, _, died, arm = map(np.asarray, _rows(1.0))
    answer = _asked(1.0, exact=True).survival("month", "died=yes", by="arm")
    total = 0.0
    for place, end in enumerate(range(1, 6)):
        leaves = (arm == 0) & (month == end)
        risk = ((arm == 0) & (month >= end)).sum() - (leaves & (died == 0)).sum() / 2
        hazard = (leaves & (died == 1)).sum() / risk
        total += hazard / (1 - hazard) / risk
        low, high = answer.conf_int()[place]
        assert high - low == pytest.approx(2 * 1.96 * answer.params[place] * total**0.5, rel=0.1)


def test_a_hazard_that_the_noise_hides_leaves_an_end_open_and_no_estimate_is_needed() -> None:
    clear = ShareSet((0.02, 0.2), np.diag([1e-6, 1e-6]), 3000)
    hidden = ShareSet((0.02, -0.01), np.diag([1e-2, 1e-2]), 3000)
    assert SurvivalSet((clear, hidden), np.eye(2)).interval(0.05)[0] == 0
    assert SurvivalSet((clear, hidden), np.eye(2)).interval(0.05)[1] < 1, "the clear one is known"
    weak = ShareSet((0.02, 0.1), np.diag([1e-2, 1e-2]), 3000)
    assert SurvivalSet((clear, weak), np.eye(2)).interval(0.05) == (0, 1)


def test_a_test_finds_a_difference_and_says_its_least_p_value() -> None:
    same, other = (_asked(ratio, exact=False) for ratio in (1.0, 2.0))
    assert other.survival("month", "died", by="arm").pvalues[-1] == 0.002
    assert same.survival("month", "died", by="arm").pvalues[-1] > 0.01
    assert "0.002 is the least" in " ".join(other.survival("month", "died", by="arm").assumptions)
    assert len(other.survival("month", "died").names) == 6, "five ends of intervals, and the median"
    these = replace(other, scope=EstimateScope(True)).survival("month", "died", by="arm")
    assert "log-rank" not in these.names


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (("month", "arm"), "arm is not a number: name one label"),
        (("dose", "died"), "a life table needs two intervals or more, without spikes"),
        (("month", "month"), "month is not a label"),
        (("arm", "died"), "arm is not a number with bounds"),
        (("month", "died", "died"), "time, event and group are three attributes"),
    ],
)
def test_what_has_no_life_table_is_refused_in_words(asked: tuple[str, ...], why: str) -> None:
    with pytest.raises(SettingError, match=why):
        _asked(1.0, exact=True).survival(*asked)


def test_people_with_several_rows_are_told_what_to_do() -> None:
    attributes = [numeric_of("t", 0, 3), binary_of("died", ["no", "yes"])]
    study = make_study(attributes, unit="person", max_rows_per_person=None)
    moments = replace(_asked(1.0, exact=True).moments, study=study)
    with pytest.raises(SettingError, match="take a row per person, with unit: row"):
        follow_up(moments, 0, (1, 1), None)
