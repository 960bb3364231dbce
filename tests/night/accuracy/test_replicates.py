"""Replicates through the real field give intervals that hold the truth, on a census.

The population is 45,222 rows of a census; each release is of 15,000 of them, drawn with replacement
and divided among the owners. What is asked is a logistic and a linear regression with coefficients
of very different size, a mean and a difference. Pooled over the cells the intervals hold the truth
in .92 to .99 of the questions; single ones may not (`docs/how-to/estimate.md`, where it fails).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.studies import PublicData, adult, parse_rows
from dppca.common.analysis.rows.replicates import combine, replicates
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.schema import encode
from dppca.common.kernel.study import Study
from tests.support.pooling import pooled_result
from tests.support.studies import make_study

FALSE_ALARMS = 0.0  # all noise has a seed
CELLS = [("gaussian", "1", 3), ("gaussian", "3", 3), ("laplace", "3", 10)]
RELEASES, ROWS = 30, 15_000
NAMES = ("age", "education_num", "hours_per_week", "sex", "income")
WIDTHS = np.array([73, 15, 98, 1, 1])
_Numbers = NDArray[np.float64]


@pytest.fixture(scope="module")
def census(data_folder: Path) -> PublicData:
    whole = adult(data_folder)
    places = [[each["name"] for each in whole.attributes].index(name) for name in NAMES]
    return PublicData(
        "adult",
        [whole.attributes[place] for place in places],
        [[row[place] for place in places] for row in whole.rows],
        0.9,
        "income",
    )


def _least_squares(x: _Numbers, y: _Numbers) -> tuple[_Numbers, _Numbers]:
    inverse = np.linalg.inv(x.T @ x)
    beta = inverse @ (x.T @ y)
    return beta, np.diag(inverse) * ((y - x @ beta) ** 2).sum() / (len(x) - x.shape[1])


def _logistic(x: _Numbers, y: _Numbers) -> tuple[_Numbers, _Numbers]:
    beta = np.zeros(x.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-x @ beta))
        inverse = np.linalg.inv((x * (p * (1 - p))[:, None]).T @ x)
        beta = beta + inverse @ (x.T @ (y - p))
    return beta, np.diag(inverse)


def _answers(rows: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Estimates and their own variances: four odds on a log scale, three slopes, a mean, a gap."""
    age, education, hours, sex, income = rows.T / WIDTHS[:, None]
    one, women = np.ones(len(rows)), sex < 0.5
    odds, of_odds = _logistic(np.column_stack([one, age, education, hours, sex]), income)
    slopes, of_slopes = _least_squares(np.column_stack([one, age, education, sex]), hours)
    groups = hours[~women], hours[women]
    gap = groups[0].mean() - groups[1].mean()
    of_gap = sum(float(each.var()) / len(each) for each in groups)
    found = [*odds[1:], *slopes[1:], hours.mean(), gap]
    return np.array(found), np.array(
        [*of_odds[1:], *of_slopes[1:], hours.var() / len(rows), of_gap]
    )


def _numbers(table: Any) -> _Numbers:
    second = {"sex": "Male", "income": ">50K"}
    columns = [
        np.array(table[name].to_pylist()) == second[name] if name in second else table[name]
        for name in NAMES
    ]
    return np.column_stack([np.asarray(column, np.float64) for column in columns])


def _covered(census: PublicData, study: Study) -> Iterator[NDArray[np.bool_]]:
    """For each release, which intervals hold the census's own answers, and those of its rows."""
    columns = parse_rows(study.table, census.rows)
    population = np.column_stack([np.asarray(each, np.float64) for each in columns])
    coded, truth = encode(study.table, columns), _answers(population)[0]
    for seed in range(RELEASES):
        rows = np.random.default_rng(seed).integers(0, len(coded), ROWS)
        parts = np.array_split(coded[rows], len(study.owners))
        tables = replicates(Published(study, pooled_result(study, parts, seed=seed)), 10)
        each, variances = zip(*(_answers(_numbers(table)) for table in tables), strict=True)
        found = combine(
            each,
            variances,
            published=_answers(_numbers(tables.published)),
            rows=tables.n_rows,
            study_rows=tables.study_rows,
        )
        for these_rows, real in ((False, truth), (True, _answers(population[rows])[0])):
            low, high = found.conf_int(these_rows=these_rows).T
            yield (low <= real) & (real <= high)


def test_intervals_by_replicates_hold_the_truth_for_the_population_and_for_the_rows(
    census: PublicData,
) -> None:
    held = []
    for mechanism, epsilon, owners in CELLS:
        delta = {"delta": "1e-9"} if mechanism == "gaussian" else {}
        study = make_study(
            census.attributes,
            owners=[f"owner-{number}" for number in range(owners)],
            privacy={"mechanism": mechanism, "epsilon": epsilon, **delta},
        )
        held.append(np.array(list(_covered(census, study))).reshape(RELEASES, 2, -1))
    for scope in np.array(held).mean(axis=(0, 1)):
        assert 0.92 <= scope.mean() <= 0.99
