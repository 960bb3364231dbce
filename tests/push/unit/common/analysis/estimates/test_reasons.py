"""What can no longer be asked is listed before anything is spent, by the tests of the estimates."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dppca import estimates
from dppca.common.analysis.estimates.reasons import ruled_out, ruled_out_lines
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import encode
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, make_study, numeric_of

ROWS = 400
NUMBERS = {
    "plain": numeric_of("y", 0, 10),
    "indicator": {**numeric_of("y", 0, 10), "missing": "indicator"},
    "level": {**numeric_of("y", 0, 10), "products": "bins", "bins": 4, "missing": "level"},
    "bins": {**numeric_of("y", 0, 10), "products": "bins", "bins": 4},
    "log": {**numeric_of("y", 1, 10), "score": "log"},
    "ordinal": {"name": "y", "type": "ordinal", "levels": ["low", "mid", "high"]},
}


@pytest.mark.parametrize("kind", sorted(NUMBERS))
def test_what_is_listed_is_what_the_estimates_refuse(kind: str) -> None:
    study = make_study([numeric_of("x", 0, 10), NUMBERS[kind], binary_of("sex", ["f", "m"])])
    rng = np.random.default_rng(4)
    values: list[Any] = [rng.uniform(1, 2.9, ROWS) for _ in range(2)]
    if kind == "ordinal":
        values[1] = np.floor(values[1]) - 1
    coded = encode(study.table, [*values, rng.integers(0, 2, ROWS, np.int32)])
    asked = estimates(Published(study, pooled_result(study, [coded], seed=1)))
    questions: dict[str, Callable[[], object]] = {
        "correlation": lambda: asked.correlation("x", "y"),
        "ols of it": lambda: asked.ols("y", ["x"]),
        "ols by it": lambda: asked.ols("x", ["y"]),
        "mean by group": lambda: asked.mean("y", by="sex"),
    }
    refused = set()
    for question, ask in questions.items():
        try:
            ask()
        except SettingError:
            refused.add(question)
    listed = {each for found in ruled_out(study.table) for each in found.questions}
    assert listed == refused
    assert all(found.attributes == ("y",) for found in ruled_out(study.table))


def test_attributes_of_one_reason_share_a_line() -> None:
    gappy = [{**numeric_of(name, 0, 10), "missing": "indicator"} for name in ("bmi", "sbp")]
    (line,) = ruled_out_lines(make_study([*gappy, numeric_of("age", 0, 99)]).table)
    assert line.startswith("CANNOT BE ASKED of bmi, sbp: correlation, ols of it; may be missing")
    assert "take it as a regressor" in line
    assert not ruled_out_lines(make_study("census").table)
    level = {**numeric_of("bmi", 0, 10), "histogram": True, "bins": 4, "missing": "level"}
    (line,) = ruled_out_lines(make_study([level, numeric_of("age", 0, 99)]).table)
    assert "relations need missing: indicator" in line


@pytest.mark.parametrize(("counted", "weigh"), [(1, "as one"), (3, "as up to 3")])
def test_of_people_numbers_of_rows_cannot_be_asked(counted: int, weigh: str) -> None:
    unit = {"unit": "person", "max_rows_per_person": None, "rows_counted": counted}
    (line,) = ruled_out_lines(make_study([binary_of(n, ["f", "m"]) for n in "ab"], **unit).table)
    assert "CANNOT BE ASKED of rows of a person: counts, rates and costs per visit or year" in line
    assert f"all rows of a person weigh {weigh}: for these, give one row for each person" in line
