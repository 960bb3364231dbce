"""Counts of histograms, tables and trees join the moments, with the law of their noise."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from dppca import estimates
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.analysis.estimates.noise import EntryNoise, Noise
from dppca.common.analysis.estimates.release import (
    Linear,
    ReconciledMoments,
    bilinear,
    expected_moments,
    released_moments,
)
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.kernel.attestation.results import (
    Published,
    Result,
    result_from_bytes,
    result_to_bytes,
)
from dppca.common.kernel.errors import ArtefactError, SettingError, TooFewRowsError
from dppca.common.kernel.moments.moments import Moments, compute_moments
from dppca.common.kernel.privacy.counted_rows import count_deviation, count_rows
from dppca.common.kernel.privacy.laws import LaplaceLaw
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Column, encode, find_cells
from dppca.common.kernel.study import Study, study_from_mapping
from tests.support.coverage import Question, without_noise
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

FALSE_ALARMS = 0.0  # all noise has a seed
TREE = [{"by": "visits", "at_most": 2}, {}, {}]
STUDY = make_study(
    [
        numeric_of("age", 0, 100, bins=4, products="bins"),
        numeric_of("visits", 0, 5, integer=True, histogram=True),
        numeric_of("weight", 40, 120, histogram=True),
        binary_of("sex", ["f", "m"]),
        categorical_of("plan", ["a", "b", "c"]),
    ],
    owners=["one", "two"],
    epsilon="2",
    tables=[
        {"table": ["sex", "plan"]},
        {"table": ["visits", "plan"]},
        {"tree": TREE, "target": "plan"},
    ],
)
N = 4_000


def _rows() -> list[Column]:
    rng = np.random.default_rng(3)
    sex, plan = rng.integers(0, 2, N), rng.choice(3, N, p=[0.5, 0.3, 0.2])
    visits = np.minimum(rng.poisson(1 + plan), 5).astype(float)
    labels = [each.astype(np.int32) for each in (sex, plan)]
    return [100 * rng.beta(2, 3, N), visits, rng.normal(75, 10, N).clip(40, 120), *labels]


ROWS = _rows()


def _moments(study: Study, rows: list[Column]) -> Moments:
    cells = find_cells(study.table, rows)
    return compute_moments(encode(study.table, rows), study.table.layout, cells)


def _asked(seed: int) -> Estimates:
    halves = [_moments(STUDY, [column[part::2] for column in ROWS]) for part in range(2)]
    return estimates(Published(STUDY, pooled_result(STUDY, halves, seed=seed)), these_rows=True)


@pytest.fixture(scope="module")
def exact() -> Estimates:
    packed = _moments(STUDY, ROWS).packed
    noised = pooled_result(STUDY, [_moments(STUDY, ROWS), _moments(STUDY, ROWS)], seed=1)
    shares = tuple(replace(each, n_rows=N // 2) for each in noised.header.shares)
    header = replace(noised.header, shares=shares)
    result = replace(noised, header=header, pooled=packed)
    return without_noise(estimates(Published(STUDY, result), these_rows=True))


def _shares(codes: NDArray[Any], size: int) -> NDArray[np.float64]:
    return np.bincount(codes, minlength=size) / N


def test_counts_and_moments_say_the_same_without_noise(exact: Estimates) -> None:
    visits, weight, sex, plan = (np.asarray(column, np.float64) for column in ROWS[1:])
    assert_allclose(exact.proportion("plan").params, _shares(plan.astype(int), 3), atol=1e-12)
    assert_allclose(exact.proportion("visits").params, _shares(visits.astype(int), 6), atol=1e-12)
    joint = np.array([[((sex == i) & (plan == j)).mean() for j in range(3)] for i in range(2)])
    assert_allclose(exact.table("sex", "plan").params, joint.ravel(), atol=1e-12)
    counted = [((visits == i) & (plan == j)).mean() for i in range(6) for j in range(3)]
    assert_allclose(exact.table("visits", "plan").params, counted, atol=1e-12)
    assert_allclose(exact.mean("visits").params, visits.mean(), atol=3e-3)  # on the grid
    assert_allclose(exact.mean("weight").params, weight.mean(), atol=3e-2)


def test_a_mean_of_bins_lies_between_their_ends(exact: Estimates) -> None:
    answer = exact.mean("age")
    low, high = answer.conf_int()[0]
    assert low < np.asarray(ROWS[0]).mean() < high
    assert high - low == pytest.approx(25, rel=1e-6)
    assert np.isnan(answer.params[0])


def test_the_noise_of_combined_sources_is_the_one_that_is_said(exact: Estimates) -> None:
    """The spread over 80 releases, of a share, a cell, a mean of counted values, a difference."""
    questions: list[Question] = [
        lambda e: e.proportion("plan=b"),
        lambda e: e.table("sex", "plan"),
        lambda e: e.table("visits", "plan"),
        lambda e: e.mean("visits"),
        lambda e: e.difference("plan=b", "sex"),
    ]
    asked = [_asked(seed) for seed in range(80)]
    for ask in questions:
        found = np.array([ask(each).params for each in asked])
        errors = found - ask(exact).params
        said = ask(asked[0]).bse
        assert_allclose(np.sqrt((errors**2).mean(axis=0)), said, rtol=0.35)


def test_two_noised_numbers_of_rows_are_in_the_noise_of_what_both_studies_say(
    exact: Estimates,
) -> None:
    """The spread over 40 releases of a study and one that continues it."""
    document = STUDY.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["schema"] |= {"neighbours": "added"}
    del document["schema"]["tables"]
    first = study_from_mapping(document)
    del document["components"]
    continued = {"only_tables": True, "tables": [{"table": ["sex", "plan"]}]}
    origin = {"study": first.digest, "result": "0" * 64}
    later = {**document, "schema": document["schema"] | continued, "continues": origin}
    second = study_from_mapping(later | {"components": None, "name": "second"})
    questions: list[Question] = [
        lambda e: e.proportion("plan=a"),
        lambda e: e.table("sex", "plan"),
        lambda e: e.difference("plan=b", "sex"),
    ]
    rng = np.random.default_rng(1)
    made = [pooled_result(each, [_moments(each, ROWS)] * 2, seed=1) for each in (first, second)]

    def noised(study: Study, result: Result) -> Result:
        noise, exact = calibrate(study).law, _moments(study, ROWS).packed
        drawn = np.rint(noise.width * noise.standard_sum(2, len(exact), rng)).astype(np.int64)
        counted = count_rows(exact + drawn, study.table.layout)
        header = replace(result.header, estimated_rows=counted)
        return replace(result, header=header, pooled=exact + drawn)

    pairs = list(zip((first, second), made, strict=True))
    results = [[noised(*each) for each in pairs] for _ in range(40)]
    releases = [
        estimates(
            Published(second, replace(after, first=Published(first, before))), these_rows=True
        )
        for before, after in results
    ]
    for ask in questions:
        found = np.array([ask(each).params for each in releases])
        errors = found - ask(exact).params
        said = np.mean([ask(each).bse for each in releases], axis=0)
        assert_allclose(np.sqrt((errors**2).mean(axis=0)), said, rtol=0.35)
    half = [{4: np.array([1.0, 0, 0])}]
    assert releases[0].moments.shares(half).noise.shares_rows == 2
    found_again = releases[0].moments.counts[-1].find(half)
    deviation = count_deviation(second.table.layout, calibrate(second), n_owners=2)
    moved = (found_again.values[0] - 1 / 3) * deviation / results[0][1].header.n_rows
    assert_allclose(found_again.noise.contributions[0, :2], [0, -moved], rtol=1e-9)


def test_each_further_source_lessens_the_noise() -> None:
    asked = _asked(1)
    alone = replace(asked, moments=replace(asked.moments, counts=()))
    questions: list[Question] = [lambda e: e.proportion("plan"), lambda e: e.table("sex", "plan")]
    for ask in questions:
        assert (ask(asked).bse < ask(alone).bse).all()
    with pytest.raises(SettingError, match="did not count rows by visits"):
        alone.table("visits", "plan")


def test_tables_have_tests_of_independence(exact: Estimates) -> None:
    asked = _asked(2)
    assert asked.independence("visits", "plan").pvalues[0] == pytest.approx(0.001)
    assert asked.independence("sex", "plan").pvalues[0] > 0.01


def test_a_forecast_has_the_standard_errors_of_a_release() -> None:
    expected = Estimates(expected_moments(STUDY, calibrate(STUDY), [N // 2] * 2), _asked(1).scope)
    questions: list[Question] = [lambda e: e.proportion("plan"), lambda e: e.mean("weight")]
    for ask in questions:
        assert_allclose(ask(expected).bse, ask(_asked(1)).bse, rtol=1e-9)


def test_the_noise_of_a_secret_number_of_rows_enters_each_number_by_its_derivative() -> None:
    """Another number of rows moves products, means and counts of cells as their noise says."""
    document = STUDY.model_dump(mode="json", by_alias=True)
    document["schema"]["neighbours"] = "added"
    study = study_from_mapping({k: v for k, v in document.items() if v is not None})
    result = pooled_result(study, [_moments(study, ROWS)] * 2, seed=5)
    assert result.header.estimated_rows == result.header.n_rows
    assert abs(result.header.n_rows - 2 * N) < N
    assert result_from_bytes(result_to_bytes(result), study).header == result.header
    for wrong in (None, result.header.n_rows + 1):
        other = replace(result, header=replace(result.header, estimated_rows=wrong))
        with pytest.raises(ArtefactError, match=r"other numbers of rows|out of range"):
            result_from_bytes(result_to_bytes(other), study)
    few = [column[:3] for column in ROWS]
    with pytest.raises(TooFewRowsError, match="less than 5 times its deviation"):
        pooled_result(study, [_moments(study, few)] * 2, seed=5)
    step = 50

    def at(more: int) -> ReconciledMoments:
        pooled = result.pooled.copy()
        pooled[-1] += more * study.table.layout.count_unit
        header = replace(result.header, estimated_rows=result.header.n_rows + more)
        return released_moments(Published(study, replace(result, header=header, pooled=pooled)))

    here = at(0)
    entry, n = here.noise.entry, here.n_rows
    law = calibrate(study).law
    rows = law.deviation * 2**0.5 / 4**study.table.resolution_bits
    assert entry.of_rows == pytest.approx(rows / n, rel=1e-6)
    answer = Estimates(here, EstimateScope()).proportion("sex")
    document = answer.document()
    assert (document.version, document.unit, document.rows) == (1, "row", n)
    assert document.rows_deviation == pytest.approx(rows)
    assert f"about {n} rows (by noise off by" in answer.summary()

    def ask(moments: ReconciledMoments) -> Linear:
        block = moments.block([0, 1, 2, 3, 4])
        size = len(block.columns)
        left = np.random.default_rng(1).normal(size=(20, size))
        right = np.random.default_rng(2).normal(size=(20, size))
        return bilinear(block, left, right)

    def of_cells(moments: ReconciledMoments) -> Linear:
        return moments.counts[-1].find([{4: np.array([1.0, 0, 0])}, {4: np.array([0, 1.0, 1.0])}])

    for question in (ask, of_cells):
        up, down = (question(at(k)).values for k in (step, -step))
        noise = question(here).noise
        assert noise.shares_rows
        by_rows = (up - down) / (2 * step) * n * entry.of_rows  # the change by one deviation
        assert_allclose(noise.contributions[:, 0], by_rows, rtol=1e-3, atol=1e-9)
        assert np.abs(by_rows).max() > 0
    block = here.block([0, 3])
    vectors = np.random.default_rng(4).normal(size=(5, len(block.columns)))
    pairs = block.variances_between(vectors, vectors)
    apart = [bilinear(block, u, v).noise.variance[0] for u in vectors for v in vectors]
    assert_allclose(pairs.ravel(), apart, rtol=1e-9)


def test_the_number_is_of_people_where_the_study_counts_people_and_about_where_it_has_noise() -> (
    None
):
    for unit, counts in (("row", "rows"), ("person", "people")):
        most = 1 if unit == "row" else None
        for neighbours, form in (("replaced", "{}"), ("added", r"about {} \(by noise off by .*\)")):
            study = make_study("small", unit=unit, max_rows_per_person=most, neighbours=neighbours)
            found = expected_moments(study, calibrate(study), [1800, 1800])
            assert re.fullmatch(form.format(f"3600 {counts}"), found.rows_text)


def test_two_sources_of_one_number_share_the_noise_of_the_number_of_rows() -> None:
    noises = [
        Noise(np.array([[rows, own]]), np.ones(2), np.zeros(2), True)
        for rows, own in ((3.0, 1.0), (4.0, 2.0))
    ]
    plain = Noise(np.array([[5.0]]), np.ones(1), np.zeros(1))
    together = noises[0].beside(plain).beside(noises[1])
    assert together.shares_rows
    assert together.variance[0] == (3 + 4) ** 2 + 1 + 4 + 25
    # A study that continues another counted its rows again, so its number has a noise of its own.
    later = plain.with_rows(np.array([6.0]), EntryNoise(1, LaplaceLaw, 1, 1.0), continued=True)
    three = together.beside(later).beside(later)
    assert three.shares_rows == later.beside(together).shares_rows == 2
    assert three.variance[0] == (3 + 4) ** 2 + 12**2 + 1 + 4 + 3 * 25
    assert three.excess[:2].tolist() == [0, 3], "the first number is of normal noise here"
    assert plain.beside(noises[0]).variance[0] == 9 + 1 + 25
