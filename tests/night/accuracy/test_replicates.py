"""Replicates through the real field give intervals that hold the truth, where the field can.

The population is one that a field of pairs describes: two numbers that are normal within each of
two groups and each outcome, so that the outcome's odds are linear in them. Each release is of 6,000
rows of it. What is asked is a logistic and a linear regression, whose coefficients are strong and
weak, a mean and a difference. Pooled over the cells, intervals hold the truth in .92 to .99 of the
questions. What no pairs describe has no such promise (`docs/how-to/estimate.md`, where it fails).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.rows.replicates import combine, replicates
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.study import Study
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, make_study, numeric_of

FALSE_ALARMS = 0.0  # all noise has a seed
CELLS = [("gaussian", "1", 3), ("gaussian", "3", 3), ("laplace", "3", 10)]
RELEASES, COPIES, ROWS, POPULATION = 40, 5, 6000, 60_000
SCHEMA = [
    numeric_of("dose", -4, 4, histogram=True),
    numeric_of("age", -4, 4, histogram=True),
    binary_of("group", ["a", "b"]),
    binary_of("ill", ["no", "yes"]),
]
_Numbers = NDArray[np.float64]


def _people() -> _Numbers:
    """Rows of dose, age, group, ill: dose is strong for ill, age moderate, the group weak."""
    rng = np.random.default_rng(11)
    group = (rng.random(POPULATION) < 0.4).astype(float)
    ill = (rng.random(POPULATION) < 0.3 + 0.04 * group).astype(float)
    dose, age = rng.normal(0, 1, (2, POPULATION))
    dose, age = 0.8 * dose + 0.7 * ill - 0.3, age + 0.25 * ill + 0.1 * group + 0.2 * dose - 0.1
    return np.clip(np.column_stack([dose, age, group, ill]), [-4, -4, 0, 0], [4, 4, 1, 1])


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
    """Estimates and their own variances: three odds on a log scale, two slopes, a mean, a gap."""
    dose, age, group, ill = rows.T
    one, second = np.ones(len(rows)), group > 0.5
    odds, of_odds = _logistic(np.column_stack([one, dose, age, group]), ill)
    slopes, of_slopes = _least_squares(np.column_stack([one, dose, group]), age)
    gap = age[second].mean() - age[~second].mean()
    of_gap = age[second].var() / second.sum() + age[~second].var() / (~second).sum()
    found = [*odds[1:], *slopes[1:], dose.mean(), gap]
    variances = [*of_odds[1:], *of_slopes[1:], dose.var() / len(rows), of_gap]
    return np.array(found), np.array(variances)


def _numbers(table: Any) -> _Numbers:
    group, ill = (
        np.array(table[name].to_pylist()) == second
        for name, second in (("group", "b"), ("ill", "yes"))
    )
    columns = [np.asarray(table["dose"]), np.asarray(table["age"]), group, ill]
    return np.column_stack(columns).astype(np.float64)


def _held(study: Study, people: _Numbers) -> Iterator[NDArray[np.bool_]]:
    """For each release, which intervals hold the answers of population and rows."""
    truth = _answers(people)[0]
    for seed in range(RELEASES):
        rows = people[np.random.default_rng(seed).integers(0, POPULATION, ROWS)]
        parts = [
            [part[:, 0], part[:, 1], part[:, 2].astype(np.int32), part[:, 3].astype(np.int32)]
            for part in np.array_split(rows, len(study.owners))
        ]
        moments = [accumulate_moments(study.table, part) for part in parts]
        tables = replicates(Published(study, pooled_result(study, moments, seed=seed)), COPIES)
        each, variances = zip(*(_answers(_numbers(table)) for table in tables), strict=True)
        found = combine(
            each,
            variances,
            published=_answers(_numbers(tables.published)),
            rows=tables.n_rows,
            study_rows=tables.study_rows,
        )
        for these_rows, real in ((False, truth), (True, _answers(rows)[0])):
            low, high = found.conf_int(these_rows=these_rows).T
            yield (low <= real) & (real <= high)


def test_intervals_by_replicates_hold_the_truth_for_the_population_and_for_the_rows() -> None:
    held, people = [], _people()
    for mechanism, epsilon, owners in CELLS:
        delta = {"delta": "1e-9"} if mechanism == "gaussian" else {}
        names = [f"owner-{number}" for number in range(owners)]
        privacy = {"mechanism": mechanism, "epsilon": epsilon, **delta}
        study = make_study(SCHEMA, owners=names, privacy=privacy)
        held.append(np.array(list(_held(study, people))).reshape(RELEASES, 2, -1))
    for scope in np.array(held).mean(axis=(0, 1)):
        assert 0.92 <= scope.mean() <= 0.99
