"""Where noise hides the relations between attributes, and what would be enough."""

from decimal import Decimal
from itertools import combinations
from statistics import median_low
from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.estimators.relations import (
    LOST_FROM,
    Relations,
    judge_relations,
    relations_lines,
)
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from tests.support.masked import make_masked_study
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

BINARIES = [binary_of(f"b{i}", [0, 1]) for i in range(5)]
NUMERICS = [numeric_of(f"n{i}", 0, 1) for i in range(3)]
LABELS = [categorical_of(f"c{i}", list(range(3 + 4 * i))) for i in range(3)]


def _study(attributes: list[dict[str, Any]], **changes: Any) -> Study:
    owners = changes.pop("owners", ["east", "west"])
    return make_study(attributes, owners=owners, **changes)


def _judge(study: Study, rows: int) -> Relations:
    found = judge_relations(study, calibrate(study), owner_rows=[rows] * len(study.owners))
    assert found is not None
    return found


def _epsilon(value: Decimal, **more: str) -> dict[str, str]:
    mechanism = "gaussian" if more else "laplace"
    return {"mechanism": mechanism, "epsilon": str(value), **more}


def test_the_limit_is_that_of_the_pair_in_the_middle_of_all_pairs() -> None:
    attributes = [*BINARIES, *NUMERICS, *LABELS]
    found = _judge(_study(attributes, targets=["b0", "c1"], sum_weight=0.5), 100)
    with_targets, others = found.products
    assert (with_targets.products, others.products) == ("with targets", "without targets")
    variances = {each["name"]: 1 / 4 for each in BINARIES} | {a["name"]: 1 / 12 for a in NUMERICS}
    for each in LABELS:
        n_labels = len(each["categories"])
        variances[str(each["name"])] = (1 - 1 / n_labels) / n_labels
    reaches: dict[bool, list[float]] = {True: [], False: []}
    for a, b in combinations(variances, 2):
        reaches[bool({a, b} & {"b0", "c1"})].append(np.sqrt(variances[a] * variances[b]))
    for kind, is_target in ((with_targets, True), (others, False)):
        assert kind.limit == pytest.approx(LOST_FROM * median_low(reaches[is_target]))
    assert others.noise == pytest.approx(2 * with_targets.noise)


@pytest.mark.parametrize("more", [{}, {"delta": "1e-9"}], ids=["laplace", "gaussian"])
def test_what_is_said_to_be_enough_is_enough_and_a_little_less_is_not(more: dict[str, str]) -> None:
    study = _study(BINARIES, privacy=_epsilon(Decimal("0.2"), **more))
    enough = _judge(study, 50)
    assert enough.epsilon is not None
    assert enough.rows_per_owner is not None
    assert enough.owners is not None

    def lost(rows: int = 50, owners: int = 2, epsilon: Decimal = Decimal("0.2")) -> bool:
        names = [f"owner-{i}" for i in range(owners)]
        other = _study(BINARIES, owners=names, privacy=_epsilon(epsilon, **more))
        return _judge(other, rows).epsilon is not None

    assert [lost(enough.rows_per_owner), lost(round(0.98 * enough.rows_per_owner))] == [False, True]
    assert [lost(owners=enough.owners), lost(owners=round(0.98 * enough.owners) - 1)] == [
        False,
        True,
    ]
    assert [lost(epsilon=enough.epsilon), lost(epsilon=enough.epsilon * Decimal("0.98"))] == [
        False,
        True,
    ]


@pytest.mark.parametrize("n_owners", [4, 10])
@pytest.mark.parametrize("colluders", [1, 2])
def test_owners_that_make_the_noise_together_are_enough_by_their_own_law(
    n_owners: int, colluders: int
) -> None:
    mine = make_masked_study(
        n_owners,
        3,
        colluders=colluders,
        quorum=n_owners,
        epsilon="0.1",
        attributes=BINARIES,
    ).study
    found = _judge(mine, 8)
    alone = mine.model_copy(
        update={"privacy": mine.privacy.model_copy(update={"trust": None, "colluders": None})}
    )
    noisier = _judge(alone, 8).products[-1]
    honest = n_owners - colluders
    assert found.products[-1].noise == pytest.approx(noisier.noise / np.sqrt(honest), rel=1e-4)
    assert found.owners is not None

    def lost(owners: int) -> bool:
        names = tuple(f"owner-{i}" for i in range(owners))
        larger = mine.model_copy(update={"owners": names, "quorum": None})
        return _judge(larger, 8).epsilon is not None

    assert [lost(found.owners), lost(found.owners - 1)] == [False, True]


def _lost_words(attributes: list[dict[str, Any]], rows: int, targets: list[str]) -> str:
    found = _judge(_study(attributes, targets=targets, sum_weight=0.5), rows)
    assert (found.epsilon is None) == (found.warning == ())
    assert any(each.lost for each in found.products) == (found.warning != ())
    return " ".join(found.warning)


def test_words_say_which_relations_are_lost() -> None:
    wide = categorical_of("wide", list(range(60)))
    assert _lost_words(BINARIES, 5_000, []) == ""
    assert "no relations between them" in _lost_words(BINARIES, 20, [])
    assert "no relations between them" in _lost_words(BINARIES, 20, ["b0"])
    others = _lost_words(BINARIES, 40, ["b0"])
    assert "will show relations with b0" in others
    assert "no relations between these others" in others
    assert "will show no relations with wide" in _lost_words([*BINARIES, wide], 200, ["wide"])
    assert "One of these would be enough: epsilon " in others


def test_what_is_assumed_of_numerics_is_said_with_the_part_that_they_must_fill() -> None:
    assert _judge(_study(BINARIES), 5_000).assumption is None
    warned, fine = (_judge(_study(NUMERICS), rows) for rows in (20, 50_000))
    assert relations_lines(warned)[:-1] == [*warned.warning]
    assert "at less noise" in relations_lines(warned)[-1]
    (others,) = fine.products
    assert fine.epsilon is None
    (said,) = relations_lines(fine)
    assert f"more than about {100 * others.noise / others.limit:.2g} % of their range" in said
    assert [found.assumption for found in (warned, fine)] == [relations_lines(warned)[-1], said]


def test_rows_of_the_unit_ball_and_single_attributes_are_not_judged() -> None:
    ball = [{"name": f"n{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(3)]
    for study in (_study(ball, row_norm={}), _study(LABELS[:1])):
        assert judge_relations(study, calibrate(study), owner_rows=[5, 5]) is None
    assert relations_lines(None) == []
