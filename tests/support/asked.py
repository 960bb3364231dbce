"""The answers that examples in docstrings call ``asked``, ``counted`` and ``followed``."""

from functools import cache

import numpy as np

from dppca import estimates
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.moments.moments import compute_moments
from dppca.common.kernel.schema import Column, encode, find_cells
from dppca.common.kernel.study import Study
from tests.support.coverage import PEOPLE, Cell, coded_people
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, make_study, numeric_of


@cache
def asked() -> Estimates:
    """Answers from 6,000 rows of three owners with seeded noise, epsilon 3."""
    study = Cell("gaussian", "owner", 3, "3").study(PEOPLE)
    parts = np.array_split(coded_people(study)[:6000], 3)
    return estimates(Published(study, pooled_result(study, parts, seed=1)))


@cache
def counted() -> Estimates:
    """Answers from 6,000 rows of three owners with seeded noise, epsilon 3: cells are counted."""
    study = make_study(
        [
            numeric_of("age", 18, 98, integer=True),
            numeric_of("visits", 0, 9, integer=True, histogram=True),
            binary_of("sex", ["f", "m"]),
        ],
        owners=["one", "two", "three"],
        epsilon="3",
        tables=[{"table": ["age", "sex"], "cells": {"age": 20}}],
    )
    rng = np.random.default_rng(4)
    sex = rng.integers(0, 2, 6000).astype(np.int32)
    age = np.rint(rng.normal(48 + 8 * sex, 15)).clip(18, 98)
    rows = [age, np.minimum(rng.poisson(2, 6000), 9).astype(float), sex]
    return _released(study, rows)


@cache
def followed() -> Estimates:
    """Answers from 6,000 rows of three owners with seeded noise, epsilon 3: a table of a time."""
    study = make_study(
        [numeric_of("month", 1, 6, integer=True), binary_of("died", ["no", "yes"])],
        owners=["one", "two", "three"],
        epsilon="3",
        tables=[{"table": ["month", "died"]}],
    )
    rng = np.random.default_rng(4)
    dies, leaves = rng.geometric(0.2, 6000), rng.integers(1, 9, 6000)
    died = (dies <= np.minimum(leaves, 6)).astype(np.int32)
    return _released(study, [np.minimum(np.minimum(dies, leaves), 6).astype(float), died])


def _released(study: Study, rows: list[Column]) -> Estimates:
    parts = []
    for owner in range(3):
        own = [each[owner::3] for each in rows]
        cells = find_cells(study.table, own)
        parts.append(compute_moments(encode(study.table, own), study.table.layout, cells))
    return estimates(Published(study, pooled_result(study, parts, seed=1)))
