"""Quantiles: what cells allow, and that intervals hold the rows' own quantile."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dppca import estimates
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.moments import Moments, compute_moments
from dppca.common.kernel.schema import Column, encode, find_cells
from dppca.common.kernel.study import Study
from tests.support.coverage import without_noise
from tests.support.pooling import pooled_result
from tests.support.studies import categorical_of, make_study, numeric_of

FALSE_ALARMS = 0.0  # all noise has a seed
N = 3_000
STUDY = make_study(
    [
        numeric_of("age", 0, 100, bins=20, histogram=True),
        numeric_of("visits", 0, 9, integer=True, histogram=True),
        numeric_of("dose", 0, 80, bins=[20, 60], spikes=[40], histogram=True),
        numeric_of("stay", 0, 60, integer=True),
        numeric_of("score", 0, 10, histogram=True, missing="level", bins=10),
        categorical_of("arm", ["a", "b", "c"]),
    ],
    owners=["one", "two"],
    epsilon="4",
    tables=[
        {"table": ["stay", "arm"], "cells": {"stay": 12}},
        {"table": ["visits", "arm"]},
        {"table": ["score", "arm"]},
    ],
)


def _rows() -> list[Column]:
    rng = np.random.default_rng(3)
    arm = rng.choice(3, N, p=[0.6, 0.35, 0.05]).astype(np.int32)
    dose = np.where(rng.random(N) < 0.6, 40.0, rng.uniform(0, 80, N))
    score = np.where(rng.random(N) < 0.2, np.nan, rng.uniform(0, 10, N))
    stay = np.minimum(rng.poisson(8 + 12 * arm), 60).astype(float)
    visits = np.minimum(rng.poisson(2 + arm), 9).astype(float)
    return [rng.normal(52, 15, N).clip(0, 100), visits, dose, stay, score, arm]


ROWS = _rows()
ARM = np.asarray(ROWS[5])


def _moments(study: Study, rows: list[Column]) -> Moments:
    return compute_moments(
        encode(study.table, rows), study.table.layout, find_cells(study.table, rows)
    )


def _asked(seed: int) -> Estimates:
    halves = [_moments(STUDY, [column[part::2] for column in ROWS]) for part in range(2)]
    return estimates(Published(STUDY, pooled_result(STUDY, halves, seed=seed)), these_rows=True)


@pytest.fixture(scope="module")
def noised() -> Estimates:
    return _asked(1)


@pytest.fixture(scope="module")
def exact(noised: Estimates) -> Estimates:
    """The same rows without noise."""
    packed = _moments(STUDY, ROWS).packed
    published = noised.moments.published
    assert published is not None
    whole = estimates(Published(STUDY, replace(published.result, pooled=packed)), these_rows=True)
    found = without_noise(whole)
    counts = tuple(
        replace(each, entry=replace(each.entry, deviation=0.0)) for each in found.moments.counts
    )
    return replace(found, moments=replace(found.moments, counts=counts))


@pytest.mark.parametrize("level", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("name", ["age", "visits", "dose", "stay", "score"])
def test_without_noise_the_interval_is_the_cell_of_the_quantile(
    exact: Estimates, name: str, level: float
) -> None:
    place = exact.moments.names.attribute(name)
    values = np.asarray(ROWS[place], dtype=float)
    truth = np.quantile(values[np.isfinite(values)], level, method="inverted_cdf")
    answer = exact.quantile(name, level)
    low, high = answer.conf_int()[0]
    assert low <= truth <= high
    if name == "visits":
        assert low == high == answer.params[0] == truth
    elif name == "dose":
        widest = 40.0
        assert high - low <= widest
        assert level != 0.5 or low == high == 40, "a spike within an interval is told apart"
    else:
        assert high - low <= 1e-9 + {"age": 5.0, "stay": 5.0, "score": 1.0}[name]


def test_a_level_at_which_two_values_meet_gives_both() -> None:
    study = make_study(
        [numeric_of("x", 1, 9, integer=True, histogram=True), numeric_of("y", 0, 1)], epsilon="4"
    )
    rows = [np.repeat([2.0, 7.0], 60), np.zeros(120)]
    result = pooled_result(study, [_moments(study, rows)] * len(study.owners), seed=1)
    packed = _moments(study, [np.tile(each, len(study.owners)) for each in rows]).packed
    asked = without_noise(estimates(Published(study, replace(result, pooled=packed))))
    counts = tuple(
        replace(each, entry=replace(each.entry, deviation=0.0)) for each in asked.moments.counts
    )
    asked = replace(asked, moments=replace(asked.moments, counts=counts))
    these = replace(asked, scope=EstimateScope(True))
    assert these.median("x").conf_int().tolist() == [[2.0, 7.0]]
    assert asked.median("x").conf_int().tolist() == [[2.0, 7.0]]


def test_groups_read_a_table_of_parts_and_of_own_cells(exact: Estimates) -> None:
    for name in ("stay", "visits", "score"):
        values = np.asarray(ROWS[exact.moments.names.attribute(name)], dtype=float)
        answer = exact.median(name, by="arm")
        assert answer.names == tuple(f"median of {name} where arm={each}" for each in "abc")
        for code, (low, high) in enumerate(answer.conf_int()):
            own = values[(code == ARM) & np.isfinite(values)]
            assert low <= np.quantile(own, 0.5, method="inverted_cdf") <= high
            assert high - low <= 5


def test_noised_intervals_hold_the_rows_own_quantile() -> None:
    """At 95 %, of 24 releases each: fewer than 17 come once in a million draws."""
    held = np.zeros(4)
    for seed in range(24):
        asked = _asked(seed)
        found = [
            *asked.quantile("age", 0.5).conf_int(),
            *asked.quantile("visits", 0.25).conf_int(),
            *asked.median("stay", by="arm").conf_int()[2:],
            *asked.iqr("age").conf_int(),
        ]
        values = np.asarray(ROWS[0])
        quartiles = np.quantile(values, [0.25, 0.75], method="inverted_cdf")
        truths = [
            np.quantile(values, 0.5, method="inverted_cdf"),
            np.quantile(np.asarray(ROWS[1]), 0.25, method="inverted_cdf"),
            np.quantile(np.asarray(ROWS[3])[ARM == 2], 0.5, method="inverted_cdf"),
            quartiles[1] - quartiles[0],
        ]
        held += [low <= truth <= high for (low, high), truth in zip(found, truths, strict=True)]
    assert (held >= 17).all(), held


def test_more_noise_and_a_smaller_alpha_never_narrow_an_interval(noised: Estimates) -> None:
    answer = noised.quantile("age")
    for (low, high), (lower, higher) in zip(
        answer.conf_int(0.05), answer.conf_int(0.01), strict=True
    ):
        assert lower <= low <= high <= higher
    population = replace(noised, scope=EstimateScope()).quantile("age").conf_int()
    assert (population[:, 0] <= answer.conf_int()[:, 0]).all()
    assert (population[:, 1] >= answer.conf_int()[:, 1]).all()
    every = noised.quantile("age").adjusted("bonferroni").conf_int()
    assert (every[:, 0] <= answer.conf_int()[:, 0]).all()


def test_a_group_that_nobody_is_in_excludes_nothing() -> None:
    rows = [*ROWS[:5], np.zeros(N, dtype=np.int32)]
    halves = [_moments(STUDY, [column[part::2] for column in rows]) for part in range(2)]
    asked = estimates(Published(STUDY, pooled_result(STUDY, halves, seed=1)))
    assert_allclose(asked.median("stay", by="arm").conf_int()[1:], [[0, 60], [0, 60]])


def test_the_range_of_the_quartiles_is_never_below_0(noised: Estimates) -> None:
    answer = noised.iqr("visits", by="arm")
    assert (answer.conf_int()[:, 0] >= 0).all()
    assert answer.names[0] == "interquartile range of visits where arm=a"
    assert "visits: an end at 0 or 9 stands for all values beyond it, too." in answer.assumptions


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda asked: asked.median("arm"), "arm is not a number: ask for `share`"),
        (lambda asked: asked.median("age=bin 1"), "is not a number"),
        (lambda asked: asked.quantile("age", 1.0), "1 is no level of a quantile"),
        (lambda asked: asked.median("age", by="age"), "cannot be compared by its own cells"),
        (lambda asked: asked.median("age", by="arm"), "no cells of age beside arm"),
        (lambda asked: asked.median("nobody"), "no attribute or label nobody"),
    ],
)
def test_what_cannot_be_asked_is_said(noised: Estimates, ask: object, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        ask(noised)  # type: ignore[operator]


def test_a_number_that_no_cell_counts_says_what_it_needs() -> None:
    study = make_study([numeric_of("x", 0, 9), numeric_of("y", 0, 9)], epsilon="4")
    rows = [np.linspace(0, 9, 30)] * 2
    result = pooled_result(study, [_moments(study, rows)] * len(study.owners), seed=1)
    with pytest.raises(SettingError, match="that needs a histogram or a table of it"):
        estimates(Published(study, result)).median("x")
