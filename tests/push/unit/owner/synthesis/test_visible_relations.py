"""What is said of a result's relations: names, counts and words that fit each other."""

from typing import Any

import numpy as np

from dppca.common.kernel.schema import Column, encode
from dppca.common.kernel.study import Study
from dppca.owner.synthesis.visible_relations import VisibleRelations, judge_result
from tests.support.pooling import pooled_result
from tests.support.studies import make_study

N_ROWS = 4_000


def _study(upper: float, epsilon: str, **changes: Any) -> Study:
    attributes: list[dict[str, Any]] = [
        {"name": "balance", "type": "numeric", "lower": 0, "upper": upper},
        *({"name": f"b{i}", "type": "binary", "values": [0, 1]} for i in range(4)),
    ]
    return make_study(attributes, owners=["east", "west"], epsilon=epsilon, **changes)


def _judge(study: Study) -> VisibleRelations:
    rng = np.random.default_rng(4)
    factor = rng.standard_normal(2 * N_ROWS)
    flags = factor + rng.standard_normal((4, 2 * N_ROWS)) > 0
    columns: list[Column] = [np.exp(factor), *flags.astype(np.int32)]
    parts = np.split(encode(study.table, columns), 2)
    found = judge_result(pooled_result(study, parts, seed=6), study)
    assert found is not None
    return found


def test_a_numeric_that_fills_little_of_its_bounds_is_named_with_what_would_help() -> None:
    found = _judge(_study(300, "2"))
    first, *others = found.attributes
    assert first.attribute == "balance"
    assert first.alone
    assert first.spread is not None
    assert first.spread < 0.1
    assert not any(each.alone for each in others)
    assert [each.spread for each in others] == [None] * 4
    assert all(each.above == 3 and each.strongest > 0.3 for each in others)
    assert (found.pairs, found.above) == (10, 6)
    assert "Relations of 6 of 10 pairs" in found.summary
    assert "they vary independently: balance." in found.summary
    assert "use little of their range: balance." in found.summary


def test_a_study_of_the_unit_ball_is_not_judged() -> None:
    attributes = [{"name": f"n{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(3)]
    study = make_study(attributes, owners=["east", "west"], row_norm={})
    rng = np.random.default_rng(1)
    rows = encode(study.table, [rng.normal(size=40) for _ in attributes])
    assert judge_result(pooled_result(study, np.split(rows, 2), seed=2), study) is None
