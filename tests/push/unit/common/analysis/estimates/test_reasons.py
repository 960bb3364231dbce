"""What can no longer be asked is listed before anything is spent: each question is really asked."""

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from dppca import estimates
from dppca.common.analysis.estimates.reasons import ruled_out, ruled_out_lines
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.moments.moments import compute_moments
from dppca.common.kernel.privacy.release import schema_sensitivity
from dppca.common.kernel.schema import encode
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, make_study, numeric_of

ROWS = 400
TABLE = {"table": ["y", "sex", "ill"], "cells": {"y": 4}}
NUMBERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": (numeric_of("y", 0, 10), {}),
    "indicator": ({**numeric_of("y", 0, 10), "missing": "indicator"}, {}),
    "level": (
        {**numeric_of("y", 0, 10), "products": "bins", "bins": 4, "missing": "level"},
        {},
    ),
    "bins": ({**numeric_of("y", 0, 10), "products": "bins", "bins": 4}, {}),
    "histogram": ({**numeric_of("y", 0, 10), "histogram": True, "bins": 4}, {}),
    "table": (numeric_of("y", 0, 10), {"tables": [TABLE]}),
    "own cells": ({**numeric_of("y", 0, 10), "bins": 4}, {"tables": [{"table": TABLE["table"]}]}),
    "log": ({**numeric_of("y", 1, 10), "score": "log"}, {}),
    "ordinal": ({"name": "y", "type": "ordinal", "levels": ["low", "mid", "high"]}, {}),
}


def _asked(attributes: list[dict[str, Any]], values: list[Any], **changes: Any) -> Any:
    study = make_study(attributes, **changes)
    moments = accumulate_moments(study.table, values)
    return study, estimates(Published(study, pooled_result(study, [moments], seed=1)))


def _refused(questions: dict[str, Callable[[], object]]) -> set[str]:
    refused = set()
    for question, ask in questions.items():
        try:
            ask()
        except SettingError:
            refused.add(question)
    return refused


@pytest.mark.parametrize("kind", sorted(NUMBERS))
def test_what_is_listed_is_what_the_estimates_refuse(kind: str) -> None:
    rng, (number, changes) = np.random.default_rng(4), NUMBERS[kind]
    values: list[Any] = [rng.uniform(1, 2.9, ROWS) for _ in range(2)]
    values[0] = rng.uniform(0, 10, ROWS)
    values[1] = np.floor(values[1]) - 1 if kind == "ordinal" else rng.uniform(1, 10, ROWS)
    labels = [rng.integers(0, 2, ROWS, np.int32) for _ in range(2)]
    schema = [
        {**numeric_of("x", 0, 10), "histogram": True, "bins": 4},
        number,
        binary_of("sex", ["f", "m"]),
        binary_of("ill", ["no", "yes"]),
    ]
    study, asked = _asked(schema, [*values, *labels], epsilon="100", **changes)
    refused = _refused(
        {
            "correlation": lambda: asked.correlation("x", "y"),
            "regression of it": lambda: asked.ols("y", ["x"]),
            "regression by it": lambda: asked.ols("x", ["y"]),
            "mean by group": lambda: asked.mean("y", by="sex"),
            "shares of its values": lambda: asked.proportion("y"),
            "median and quantiles": lambda: asked.median("y"),
            "median and SD by group": lambda: asked.sd("y", by="sex"),
            "adjusted odds ratios by it": lambda: asked.logit("ill", ["y", "sex"]),
            "survival by it": lambda: asked.survival("y", "ill"),
        }
    )
    listed = {
        question
        for found in ruled_out(study.table)
        for question in found.questions
        if "y" in found.attributes
    }
    assert listed == refused


@pytest.mark.parametrize("sums", [False, True])
def test_rows_in_a_ball_answer_what_their_sums_allow(sums: bool) -> None:
    ball = [{"name": name, "type": "numeric", "centre": 0, "scale": 4} for name in "xy"]
    rows = np.random.default_rng(4).uniform(-1, 1, (2, ROWS))
    schema = {"max_rows_per_person": 1, "attributes": ball, "row_norm": {"include_sums": sums}}
    study, asked = _asked(ball, [*rows], schema=schema)
    refused = _refused(
        {
            "correlation": lambda: asked.correlation("x", "y"),
            "regression of it": lambda: asked.ols("y", ["x"]),
            "regression by it": lambda: asked.ols("x", ["y"]),
            "shares of its values": lambda: asked.proportion("y"),
            "median and quantiles": lambda: asked.median("y"),
        }
    )
    listed = {question for found in ruled_out(study.table) for question in found.questions}
    assert listed - {"mean by group"} == refused
    assert ("include_sums" in "".join(ruled_out_lines(study.table))) is not sums


def test_a_study_of_the_rows_that_have_a_number_answers_what_one_of_all_rows_cannot() -> None:
    rng = np.random.default_rng(4)
    values = [*rng.uniform(0, 10, (2, ROWS))]
    lines = []
    for missing in ({}, {"missing": "indicator"}):
        schema = [numeric_of("x", 0, 10), {**numeric_of("y", 0, 10), **missing}]
        study, asked = _asked(schema, values, epsilon="100")
        lines.append(" ".join(ruled_out_lines(study.table)))
        if not missing:
            assert asked.correlation("x", "y").params.size == 1
            assert asked.ols("y", ["x"]).params.size == 2
    assert "a study of the rows that have it" in lines[1]
    assert "correlation" not in lines[0]


def test_attributes_of_one_reason_share_a_line() -> None:
    gappy = [{**numeric_of(name, 0, 10), "missing": "indicator"} for name in ("bmi", "sbp")]
    line, cells = ruled_out_lines(make_study([*gappy, numeric_of("age", 0, 99)]).table)
    assert line.startswith(
        "CANNOT BE ASKED of bmi, sbp: correlation, regression of it; may be missing"
    )
    assert "take it as a regressor" in line
    assert cells.startswith("CANNOT BE ASKED of bmi, sbp, age: shares of its values, median and")
    assert not ruled_out_lines(make_study([binary_of(n, ["f", "m"]) for n in "ab"]).table)
    level = {**numeric_of("bmi", 0, 10), "histogram": True, "bins": 4, "missing": "level"}
    counted = {**numeric_of("age", 0, 99), "histogram": True, "bins": 4}
    (line,) = ruled_out_lines(make_study([level, counted]).table)
    assert "relations need missing: indicator" in line


@pytest.mark.parametrize(("counted", "weigh"), [(1, "as one"), (3, "as up to 3")])
def test_of_people_numbers_of_rows_cannot_be_asked(counted: int, weigh: str) -> None:
    unit = {"unit": "person", "max_rows_per_person": None, "rows_counted": counted}
    (line,) = ruled_out_lines(make_study([binary_of(n, ["f", "m"]) for n in "ab"], **unit).table)
    assert "CANNOT BE ASKED of rows of a person: counts, rates and costs per visit or year" in line
    assert f"all rows of a person weigh {weigh}: for these, give one row for each person" in line


def test_squares_of_the_rows_that_have_a_number_would_cost_what_the_page_says() -> None:
    names = ["a", "b", "c"]
    gappy = {**numeric_of("g", 0, 1), "missing": "indicator"}
    table = make_study([*(numeric_of(name, 0, 1) for name in names), gappy]).table
    ends = [*product([0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0, np.nan])]
    coded = encode(table, [np.array(column) for column in zip(*ends, strict=True)])
    unit = 4**table.resolution_bits
    vectors = []
    for row, values in zip(coded, ends, strict=True):
        packed = compute_moments(row[None], table.layout).packed
        more = [0 if np.isnan(values[3]) else unit // 4] * len(names)  # each square is 1/4 here
        vectors.append(np.r_[packed, more])
    apart = np.array([np.abs(one - other) for one, other in combinations(vectors, 2)])
    now = schema_sensitivity(table).l1
    assert apart[:, : -len(names)].sum(axis=1).max() <= now
    assert apart.sum(axis=1).max() / now == pytest.approx(1.11, abs=0.005)
