"""What choices of a schema cost and gain, by its sensitivity."""

from decimal import Decimal
from math import sqrt
from typing import Any

import pytest

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.curator.planning.choices import AS_WRITTEN, Choice, compare_choices, free_square_weight
from tests.support.studies import make_schema, make_study

TREES = {"count": 20, "leaves": 64, "seed": 1}
ATTRIBUTES: list[dict[str, Any]] = [
    *({"name": f"b{i}", "type": "binary", "values": [0, 1]} for i in range(4)),
    {"name": "age", "type": "numeric", "lower": 0, "upper": 100},
    {"name": "pay", "type": "numeric", "lower": 0, "upper": 100},
    {"name": "plan", "type": "categorical", "categories": ["a", "b", "c"]},
]
GAUSSIAN = {"mechanism": "gaussian", "epsilon": "0.5", "delta": "1e-9"}


def _study(attributes: list[dict[str, Any]] = ATTRIBUTES, **changes: Any) -> Study:
    return make_study(attributes, owners=["east", "west"], **changes)


def _compared(study: Study, *targets: str) -> dict[str, Choice]:
    choices = compare_choices(study, calibrate(study), targets, owner_rows=[300, 700])
    assert choices[0].choice == AS_WRITTEN
    return {choice.choice: choice for choice in choices}


@pytest.mark.parametrize("law", sorted(LAWS))
def test_the_free_weight_of_squares_is_the_largest_that_costs_nothing(law: str) -> None:
    labels = [{**ATTRIBUTES[6], "name": f"plan{i}"} for i in range(4)]
    for attributes, settings in (
        ([*ATTRIBUTES, *labels], {}),
        ([*ATTRIBUTES, *labels], {"targets": ["pay"], "target_weight": 3}),
        ([*ATTRIBUTES, *labels], {"tables": [{"table": ["b0", "plan"]}]}),
        (ATTRIBUTES[4:6], {}),
    ):
        free = free_square_weight(make_schema(attributes, **settings), LAWS[law])
        changes = [
            LAWS[law].change(calibrate(_study(attributes, **settings, **weight)).sensitivity)
            for weight in ({}, {"square_weight": free}, {"square_weight": free + 1})
        ]
        assert changes[0] == changes[1] < changes[2]
        assert free > 1 or len(attributes) == 2
    gone = {**ATTRIBUTES[4], "missing": "indicator"}  # a missing number's square moves, too
    assert free_square_weight(make_schema([gone, *labels]), LAWS[law]) == 1
    assert free_square_weight(make_schema(ATTRIBUTES[:4]), LAWS[law]) == 1


def test_squares_of_a_joint_law_have_more_noise_than_its_products() -> None:
    joint = {"mechanism": "matrix-laplace", "epsilon": "1"}
    written = _compared(_study(privacy=joint, sum_weight=0.75, resolution_bits=14))[AS_WRITTEN]
    assert written.square is not None
    assert written.column_sum is not None
    assert written.square.rows == pytest.approx(sqrt(2) * written.product.rows, rel=1e-3)
    assert written.column_sum.rows == pytest.approx(written.product.rows / 0.75, rel=1e-3)
    targeted = _compared(
        _study(privacy=joint, targets=["plan"], target_weight=2, resolution_bits=14)
    )[AS_WRITTEN]
    assert targeted.target_product is not None
    assert targeted.target_product.rows < targeted.product.rows


def test_halved_products_are_offered_to_gaussian_noise_of_rows_in_the_ball() -> None:
    ball = [{"name": name, "type": "numeric", "centre": 0, "scale": 1} for name in "abc"]
    words = "row_norm: halved_products: true"
    halved = _compared(_study(ball, row_norm={}, privacy=GAUSSIAN))[words]
    assert halved.factor == pytest.approx(sqrt(0.5))
    assert (halved.gains, halved.costs) == (("0.71 times the noise on products",), ())
    assert halved.column_sum is not None
    assert halved.column_sum.rows == pytest.approx(sqrt(2) * halved.product.rows)
    assert words not in _compared(_study(ball, row_norm={}))
    there = {"row_norm": {"halved_products": True}, "privacy": GAUSSIAN}
    assert words not in _compared(_study(ball, **there))


@pytest.mark.parametrize("privacy", [None, GAUSSIAN], ids=["laplace", "gaussian"])
def test_figures_are_those_of_a_study_that_is_written_so(privacy: dict[str, str] | None) -> None:
    more = {} if privacy is None else {"privacy": privacy}
    shown = [{**each, "histogram": True} for each in ATTRIBUTES[4:6]]
    written_out = {
        "sum_weight: 0.5": _study(sum_weight=0.5, **more),
        "histogram: true, all numerics": _study([*ATTRIBUTES[:4], *shown, ATTRIBUTES[6]], **more),
        "targets: [plan]": _study(targets=["plan"], **more),
        "random_trees: {target: plan, count: 20, leaves: 64, seed: 1}": _study(
            random_trees={"target": "plan", **TREES}, **more
        ),
        "all of: sum_weight, histogram, targets": _study(
            [*ATTRIBUTES[:4], *shown, ATTRIBUTES[6]], targets=["plan"], sum_weight=0.5, **more
        ),
    }
    if privacy is not None:  # the largest that costs nothing, under this law
        written_out["square_weight: 3"] = _study(square_weight=3, **more)
    compared = _compared(_study(**more), "plan")
    assert compared.keys() == {AS_WRITTEN, *written_out}
    for words, study in written_out.items():
        choice, calibration = compared[words], calibrate(study)
        product = calibration.law.deviation * sqrt(2) / 4**study.table.resolution_bits
        assert choice.digest == study.table.digest
        assert choice.product.rows == pytest.approx(product, rel=1e-6)
        assert choice.product.share == pytest.approx(product / 1000, rel=1e-6)
        written = compared[AS_WRITTEN].product
        assert choice.factor == pytest.approx(product / written.rows, rel=1e-6)
        table = study.table
        for noise, weight in (
            (choice.column_sum, table.sum_weight),
            (choice.target_product, 2 if table.targets else None),
            (choice.cell, 1 if table.layout.histograms else None),
            (choice.table_cell, 1 if table.tables else None),
        ):
            expected = weight and pytest.approx(product / weight, rel=1e-6)
            assert (noise and noise.rows) == expected


def test_a_study_that_has_made_choices_sees_what_they_cost() -> None:
    attributes = [dict(each) for each in ATTRIBUTES]
    attributes[4].update(histogram=True, spikes=[0, 40], integer=True)
    attributes[5].update(histogram=True)
    study = _study(attributes, sum_weight=0.5, targets=["b0"], target_weight=4)
    compared = _compared(study)
    assert compared.keys() == {
        AS_WRITTEN,
        "sum_weight: 1",
        "histogram: false, all numerics",
        "targets: []",
        "random_trees: {target: b0, count: 20, leaves: 64, seed: 1}",
    }
    without = compared["histogram: false, all numerics"]
    assert without.factor < 1
    assert without.cell is None
    assert without.costs == ("the shape of age, pay",)
    assert compared["targets: []"].costs == (
        f"{4 * compared['targets: []'].factor:.2f} times the noise on products with b0",
    )


def test_tables_cost_noise_on_everything_and_show_what_pairs_do_not() -> None:
    tables = [{"table": ["b0", "plan"]}, {"table": ["age"], "cells": {"age": 4}}]
    without = _compared(_study(tables=tables, tables_weight=2))["no tables"]
    assert without.factor < 1
    assert (without.tables, without.table_cell) == (0, None)
    assert "relations that only tables and trees show" in without.costs
    trees = _compared(_study(), "plan")[
        "random_trees: {target: plan, count: 20, leaves: 64, seed: 1}"
    ]
    assert trees.factor > 1.05
    assert trees.tables == 20
    assert "relations of several attributes with a target, as far as trees divide them" in (
        trees.gains
    )


def test_a_choice_without_what_a_tree_splits_by_is_not_offered() -> None:
    attributes = [dict(each) for each in ATTRIBUTES]
    attributes[4].update(histogram=True, missing="level")
    tree = {"tree": [{"by": "age", "at_most": 100}, {}, {}], "target": "plan"}
    assert "histogram: false, all numerics" in _compared(_study(attributes))
    assert "histogram: false, all numerics" not in _compared(_study(attributes, tables=[tree]))


def test_bins_in_products_are_offered_for_numerics_that_have_bins() -> None:
    attributes = [dict(each) for each in ATTRIBUTES]
    attributes[4].update(histogram=True, bins=20, missing="indicator")
    compared = _compared(_study(attributes))
    attributes[4].update(histogram=False, products="bins", missing="level")
    written_out = _study(attributes)
    choice = compared["products: bins, age"]
    assert choice.digest == written_out.table.digest
    assert choice.factor > 1
    assert choice.gains == ("relations that do not rise or fall steadily, of age",)
    assert choice.costs == (f"{choice.factor:.2f} times the noise on products, column sums",)
    back = _compared(written_out)["histogram: true in place of products: bins, age"]
    assert back.factor == pytest.approx(1 / choice.factor)
    assert back.costs == ("relations that do not rise or fall steadily, of age",)
    others = _compared(written_out)["histogram: true, all other numerics"]
    assert (others.gains, others.products_of_bins) == (("the shape of pay",), ["age"])


def test_bins_that_no_schema_could_hold_are_not_offered() -> None:
    many = [{**ATTRIBUTES[4], "name": f"n{i}", "bins": 256} for i in range(33)]
    assert not [words for words in _compared(_study(many)) if words.startswith("products")]


def test_targets_raise_a_weight_of_sums_that_is_too_small() -> None:
    study = _study(sum_weight=0.25)
    choice = _compared(study, "b1")["targets: [b1], sum_weight: 0.5"]
    assert choice.sum_weight == 0.5
    assert calibrate(study).epsilon == Decimal(1)


def test_what_no_schema_can_have_is_a_setting_error() -> None:
    many = [{"name": f"b{i}", "type": "binary", "values": [0, 1]} for i in range(17)]
    ball = [{"name": f"n{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(3)]
    with pytest.raises(SettingError, match="no attribute absent"):
        _compared(_study(), "absent")
    with pytest.raises(SettingError, match="at most 16"):
        _compared(_study(many), *(each["name"] for each in many))
    with pytest.raises(SettingError, match="row_norm"):
        _compared(_study(ball, row_norm={}), "n0")
    assert _compared(_study(ball, row_norm={"include_sums": False})).keys() == {AS_WRITTEN}
    assert _compared(_study(ball, row_norm={})).keys() == {AS_WRITTEN, "sum_weight: 0.5"}
