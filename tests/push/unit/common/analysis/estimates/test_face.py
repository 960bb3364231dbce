"""Estimates equal those of statsmodels and scipy where a release has no noise; examples run."""

import doctest
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from dppca import estimates
from dppca.common.analysis.estimates import answers, face
from dppca.common.analysis.estimates.answers import EstimateAnswer, NotEstimable
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.analysis.estimates.release import Counts, expected_moments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.estimates.share_sets import ShareSet
from dppca.common.analysis.estimates.tables import estimate_ratio
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.moments import compute_moments
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import encode
from tests.support.asked import asked as asked_in_examples
from tests.support.asked import counted as counted_in_examples
from tests.support.asked import followed as followed_in_examples
from tests.support.coverage import PEOPLE, Cell, Releases, coded_people, without_noise
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

FALSE_ALARMS = 0.0  # all that is random has a seed
ROWS = 2_000
STUDY = Cell("gaussian", "owner", 3, "3").study(PEOPLE)
CODED = coded_people(STUDY)[:ROWS]
HIDDEN = NotEstimable("the noise hides it", "age", 1.0, 4.0, None, None)
GRID = 2**STUDY.table.resolution_bits


@pytest.fixture(scope="module")
def asked() -> Estimates:
    """A release without noise."""
    sums = compute_moments(CODED, STUDY.table.layout)
    result = replace(
        pooled_result(STUDY, np.array_split(CODED, 3), seed=1), pooled=sums.packed, mean=None
    )
    return without_noise(estimates(Published(STUDY, result)))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """The rows, as they are coded."""
    columns = CODED / GRID
    labels = {name: columns[:, 3 + place] + 0.5 for place, name in enumerate(("sex", "ill"))}
    return pd.DataFrame(
        {
            "age": 50 + 100 * columns[:, 0],
            "years": 10 + 20 * columns[:, 1],
            "score": 50 + 100 * columns[:, 2],
            **labels,
            "region": columns[:, 5:9].argmax(1),
            "job": columns[:, 9:].argmax(1),
        }
    )


def _equal(found: object, expected: object) -> None:
    assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=1e-9, atol=1e-12)


def test_a_mean_is_that_of_statsmodels(asked: Estimates, frame: pd.DataFrame) -> None:
    found, other = asked.mean("score"), DescrStatsW(frame.score)
    _equal([found.params[0], found.bse[0]], [other.mean, other.std_mean])
    _equal(found.conf_int()[0], other.tconfint_mean())
    _equal(found.conf_int(0.01)[0], other.tconfint_mean(0.01))


def test_shares_are_those_of_statsmodels(asked: Estimates, frame: pd.DataFrame) -> None:
    found = asked.proportion("region")
    counts = np.bincount(frame.region)
    _equal(found.params, counts / ROWS)
    wilson = proportion_confint(counts, ROWS, method="wilson")
    assert_allclose(found.conf_int().T, wilson, rtol=5e-3)
    cells = asked.table("sex", "region").params.reshape(2, 4)
    _equal(cells, pd.crosstab(frame.sex, frame.region, normalize=True))


def test_a_difference_of_means_is_that_of_scipy(asked: Estimates, frame: pd.DataFrame) -> None:
    men, women = (frame.score[frame.sex == value] for value in (1, 0))
    other = stats.ttest_ind(men, women)
    found = asked.difference("score", "sex")
    _equal(found.params, men.mean() - women.mean())
    _equal(found.conf_int()[0], other.confidence_interval())
    _equal(found.pvalues[0], other.pvalue)
    means = asked.mean("score", by="sex")
    _equal(means.params, [women.mean(), men.mean()])


def test_a_risk_difference_is_that_of_statsmodels(asked: Estimates, frame: pd.DataFrame) -> None:
    groups = [frame.ill[frame.region == code] for code in (1, 0)]
    counts = [(each.sum(), len(each)) for each in groups]
    found = asked.difference("ill", "region", ["east", "north"])
    _equal(found.params, groups[0].mean() - groups[1].mean())
    wald = confint_proportions_2indep(*counts[0], *counts[1], method="wald")
    assert_allclose(found.conf_int()[0], wald, rtol=2e-3)


def test_ratios_are_those_of_statsmodels_with_another_interval(
    asked: Estimates, frame: pd.DataFrame
) -> None:
    other = sm.stats.Table2x2(pd.crosstab(1 - frame.sex, 1 - frame.ill).to_numpy())
    found = asked.odds_ratio("sex=m", "ill=yes")
    _equal(found.params, other.oddsratio)
    _equal(found.bse, other.oddsratio * other.log_oddsratio_se)
    assert_allclose(found.conf_int()[0], other.oddsratio_confint(), rtol=0.05)
    risk = asked.relative_risk("sex=m", "ill=yes")
    _equal(risk.params, other.riskratio)
    _equal(risk.bse, other.riskratio * other.log_riskratio_se)


def test_a_correlation_is_that_of_scipy(asked: Estimates, frame: pd.DataFrame) -> None:
    other = stats.pearsonr(frame.age, frame.score)
    found = asked.correlation("age", "score")
    _equal(found.params, other.statistic)
    _equal(found.conf_int()[0], other.confidence_interval())


def _fit(y: NDArray[np.float64], x: NDArray[np.float64]) -> Any:
    return sm.OLS(y, sm.add_constant(x)).fit()


@pytest.mark.parametrize(("outcome", "variance"), [("score", None), ("ill", "constant")])
def test_a_regression_is_that_of_statsmodels(
    asked: Estimates, frame: pd.DataFrame, outcome: str, variance: None
) -> None:
    dummies = [(frame.region == code).to_numpy(float) for code in (1, 2, 3)]
    other = _fit(frame[outcome].to_numpy(), np.column_stack([frame.age, frame.sex, *dummies]))
    found = asked.ols(outcome, ["age", "sex", "region"], variance=variance)
    names = ("const", "age", "sex=m", "region=east", "region=south", "region=west")
    assert found.names == names
    assert "region: coefficients are against north." in found.assumptions
    _equal(found.params, other.params)
    _equal(found.bse, other.bse)
    _equal(found.conf_int(), other.conf_int())
    _equal(found.pvalues, other.pvalues)


def test_a_label_as_outcome_has_at_most_the_variance_of_a_quarter(asked: Estimates) -> None:
    bound, constant = (asked.ols("ill", ["age"], variance=each) for each in ("bound", "constant"))
    _equal(bound.params, constant.params)
    assert (bound.bse > constant.bse).all()
    with pytest.raises(SettingError, match="take bound or constant"):
        asked.ols("score", ["age"], variance="sandwich")


def test_a_population_that_is_the_rows_has_no_sampling(asked: Estimates) -> None:
    whole = replace(asked, scope=EstimateScope(population=ROWS))
    assert whole.mean("score").bse[0] == 0
    half = replace(asked, scope=EstimateScope(population=2 * ROWS))
    _equal(half.mean("score").bse, asked.mean("score").bse * np.sqrt(0.5))
    _equal(replace(asked, scope=EstimateScope(True)).ols("score", ["age"]).bse, [0, 0])
    with pytest.raises(SettingError, match="smaller than its sample"):
        EstimateScope(population=ROWS - 1).check(ROWS)


def test_several_rows_of_a_person_widen_sampling(asked: Estimates) -> None:
    schema = STUDY.table.model_copy(update={"max_rows_per_person": 4})
    moments = replace(asked.moments, study=STUDY.model_copy(update={"table": schema}))
    more = replace(asked, moments=moments).mean("score")
    _equal(more.bse, 2 * asked.mean("score").bse)
    assert any("4 rows" in each for each in more.assumptions)


def test_several_estimates_are_adjusted_on_request(asked: Estimates) -> None:
    found = asked.ols("score", ["age", "sex", "region"])
    _equal(found.adjusted("bonferroni").conf_int(), found.conf_int(0.05 / 6))
    holm, plain = found.adjusted("holm").pvalues, found.pvalues
    order = np.argsort(plain)
    _equal(holm[order], np.minimum(np.maximum.accumulate(plain[order] * np.arange(6, 0, -1)), 1))
    with pytest.raises(SettingError, match="no adjustment"):
        found.adjusted("scheffe")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["bonferroni", "holm"])
def test_what_has_no_test_of_its_own_gets_none_by_an_adjustment(
    asked: Estimates, method: Literal["bonferroni", "holm"]
) -> None:
    found = asked.ols("score", ["age", "sex", "region"])
    refused = replace(found.estimates[1], estimate=None, law=None, refused=HIDDEN)
    some = replace(found, estimates=(*found.estimates, refused, *found.estimates[:2]))
    without = replace(some, estimates=some.estimates[:6] + some.estimates[7:])
    adjusted = some.adjusted(method)
    _equal(np.delete(adjusted.pvalues, 6), without.adjusted(method).pvalues)
    assert np.isnan(adjusted.pvalues[6])
    assert adjusted.document().estimates[6].pvalue is None
    assert np.isnan(adjusted.to_frame()["pvalue"].iloc[6])
    cramer = asked.independence("sex", "region").adjusted(method)
    assert [np.isnan(p) for p in cramer.pvalues] == [
        each.pvalue is None for each in cramer.estimates
    ]
    assert np.isnan(cramer.pvalues).any()


def test_an_option_without_effect_is_refused(asked: Estimates) -> None:
    of_rows = replace(asked, scope=EstimateScope(True))
    with pytest.raises(SettingError, match="no meaning for these rows"):
        of_rows.ols("score", ["age"], variance="constant")
    for ask in (partial(asked.ols, "score"), asked.strengths):
        for name in ("age", "nothing", "sex"):
            with pytest.raises(SettingError, match=f"'{name}' in reference"):
                ask(["age", "region"], reference={name: "x"})
        assert ask(["age", "region"], reference={"region": "south"})


def test_an_answer_is_a_frame_a_text_and_a_document() -> None:
    releases = Releases(STUDY, CODED, rows=ROWS)
    _, noised = next(releases.draw(1))
    answer = Estimates(releases.moments(noised, n_rows=ROWS), EstimateScope()).mean(
        "age", by="region"
    )
    frame, document = answer.to_frame(), answer.document()
    assert list(frame.index) == list(answer.names) == [each.name for each in document.estimates]
    given = frame["estimate"].notna()
    for known, each in zip(given, document.estimates, strict=True):
        assert (each.refusal is None) == known
        assert each.name in answer.summary()
        if each.refusal is None:
            assert each.low is not None
            assert each.noise is not None
            assert each.sampling == pytest.approx(1 - each.noise)


def test_a_summary_fits_80_characters_and_says_a_shared_refusal_once() -> None:
    long = "a label of so many words that no table of numbers has room for it beside them"
    study = make_study(
        [binary_of("sex", ["f", "m"]), categorical_of("stage", ["none", long, "late"])],
        epsilon="0.1",
        delta="1e-9",
    )
    rng = np.random.default_rng(3)
    coded = encode(study.table, [rng.integers(0, 2, ROWS, np.int32), np.zeros(ROWS, np.int32)])
    found = estimates(Published(study, pooled_result(study, [coded], seed=1)))
    shares, fit = found.proportion("stage").summary(), found.ols("sex", ["stage"]).summary()
    assert max(map(len, [*shares.splitlines(), *fit.splitlines()])) <= 80
    assert long in " ".join(shares.split())
    assert fit.count("not estimable") == 1
    assert f"const, stage={long}, stage=late: not estimable" in " ".join(fit.split())
    groups = found.mean("sex", by="stage")  # nobody is in two of them: all that is possible
    assert all(each.refused is None for each in groups.estimates)
    assert groups.conf_int().tolist()[1:] == [[0, 1], [0, 1]]
    assert max(map(len, groups.summary().splitlines())) <= 80


def test_an_empty_cell_bounds_its_ratio_as_exact_counts_do() -> None:
    """0 of 400 beside 160 of 1,600: the exact interval ends at .091; Wald's was a point."""
    p, rows = np.array([0.0, 400, 160, 1440]) / 2000, EstimateScope()
    for odds in (True, False):
        found = estimate_ratio(_four(p, 1e-6), rows, (0, 1), (1, 1), against=None, odds=odds)
        low, high = found.conf_int() or (np.nan, np.nan)
        assert low == 0
        assert 0.06 < high < 0.1


@pytest.mark.parametrize("mean", [1, 3, 5])
@pytest.mark.parametrize("noise", [1e-6, 2.0])
def test_counts_of_few_events_cover(mean: int, noise: float) -> None:
    """Of 2,000 rows: a share, its odds ratio and its relative risk; 600 releases each."""
    n, rng = 2000, np.random.default_rng(5)
    p = np.array([mean / n, 0.2 - mean / n, 0.08, 0.72])
    truth = [p[0], p[0] * p[3] / p[1] / p[2], p[0] / 0.2 / (p[2] / 0.8)]
    held = np.zeros((600, 3), dtype=bool)
    for each in held:
        found = rng.multinomial(n, p) / n + noise / n * rng.standard_normal(4)
        asked = [
            ShareSet((found[0], 1.0), np.diag([(noise / n) ** 2, 0]), n).interval(0.05),
            *(
                estimate_ratio(
                    *(_four(found, noise / n), EstimateScope(), (0, 1), (1, 1)),
                    against=None,
                    odds=odds,
                ).conf_int()
                for odds in (True, False)
            ),
        ]
        each[:] = [
            ends is not None and ends[0] <= value <= ends[1]
            for ends, value in zip(asked, truth, strict=True)
        ]
    assert held.mean(axis=0).min() >= 0.92


def test_ratios_of_a_weak_denominator_cover_and_none_is_chosen() -> None:
    """A group whose share is 2.8 deviations of its noise: all answers, as they come."""
    rng, n, p = np.random.default_rng(7), 4000, np.array([0.006, 0.004, 0.594, 0.396])
    deviation, asked = p[:2].sum() / 2.8 / np.sqrt(2), Estimates
    held, open_ends = [], 0
    for _ in range(300):
        found = rng.multinomial(n, p) / n + deviation * rng.standard_normal(4)
        answer = asked(_four(found, deviation)).mean("y", by="x")
        low, high = answer.conf_int()[1]
        held.append(low <= 0.6 <= high)
        open_ends += (low, high) == (0, 1)
        assert answer.estimates[1].refused is None
    assert np.mean(held) >= 0.92
    assert open_ends > 10


def _four(cells: NDArray[np.float64], deviation: float) -> Any:
    """A release that knows four shares of 2,000 rows."""
    study = Cell("gaussian", "owner", 1, "3").study(
        [binary_of("x", ["no", "yes"]), binary_of("y", ["no", "yes"])]
    )
    base = expected_moments(study, calibrate(study), [2000])
    shares = np.array([[cells[3], cells[2]], [cells[1], cells[0]]])
    entry = replace(base.noise.entry, deviation=deviation)
    return replace(base, matrix=None, counts=(Counts((0, 1), shares, entry),))


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda e: e.mean("aeg"), "age may be meant"),
        (lambda e: e.mean("region"), "name one label"),
        (lambda e: e.proportion("sex=x"), "no attribute or label"),
        (lambda e: e.difference("age", "region"), "compares two labels of region: give them"),
        (lambda e: e.difference("sex", "sex"), "by its own labels"),
        (lambda e: e.table("sex", "sex"), "two different"),
        (lambda e: e.odds_ratio("sex", "ill=yes"), "name two labels"),
        (lambda e: e.ols("age", ["age"]), "among its own regressors"),
        (lambda e: e.ols("age", ["sex", "sex"]), "must differ"),
        (lambda e: e.ols("age", ["sex=f", "sex=m"]), "determine each other"),
        (lambda e: e.correlation("age"), "name two"),
    ],
)
def test_a_question_without_an_answer_says_why(asked: Estimates, ask: object, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        ask(asked)  # type: ignore[operator]


def test_what_a_study_has_not_released_is_refused_by_a_sentence() -> None:
    study = make_study(
        [
            numeric_of("x", None, None, centre=0, scale=1),
            numeric_of("y", None, None, centre=0, scale=1),
        ],
        row_norm={"include_sums": False},
    )
    rows = np.random.default_rng(0).integers(-300, 300, (500, 2)).astype(np.int32)
    asked = estimates(Published(study, pooled_result(study, [rows], seed=2)))
    with pytest.raises(SettingError, match="released no sums"):
        asked.mean("x")
    assert "eigenvalue 1" in asked.components(1).names


def test_a_name_of_a_file_is_no_result() -> None:
    with pytest.raises(SettingError, match=r"give a result: dppca\.read_result\(FILE, ca="):
        estimates("components.npz")  # type: ignore[arg-type]


METHODS = [
    getattr(kind, name)
    for kind in (Estimates, EstimateAnswer)
    for name, each in vars(kind).items()
    if not name.startswith("_") and callable(each)
]


@pytest.mark.parametrize("method", METHODS, ids=lambda each: each.__qualname__)
def test_each_public_method_has_an_example(method: Any) -> None:
    assert doctest.DocTestParser().get_examples(method.__doc__)


@pytest.mark.parametrize("module", [face, answers], ids=lambda each: each.__name__)
def test_the_examples_run(module: Any) -> None:
    known = {
        "asked": asked_in_examples(),
        "counted": counted_in_examples(),
        "followed": followed_in_examples(),
    }
    result = doctest.testmod(module, extraglobs=known)
    assert result.failed == 0 < result.attempted
