"""Both relations side by side, at the same epsilon and the same law."""

from typing import Any

import pytest

from dppca.common.kernel.privacy.counted_rows import count_deviation
from dppca.common.kernel.privacy.release import calibrate
from dppca.curator.planning.neighbours import compare_promises
from tests.support.studies import binary_of, make_study, numeric_of

FLAGS = [binary_of(f"b{i}", ["n", "y"]) for i in range(16)]
NUMBERS = [numeric_of(f"x{i}", 0, 1) for i in range(10)]


@pytest.mark.parametrize(
    ("attributes", "changes", "factor", "weight"),
    [
        (FLAGS, {}, 40 / 40.5, 2),
        (FLAGS, {"delta": "1e-9"}, 0.5**0.5, 1),
        (NUMBERS, {}, 1.002, 0.5),  # entry by entry, numbers alone have no less noise
    ],
    ids=["labels, Laplace", "labels, Gaussian", "numbers, Laplace"],
)
def test_the_other_relation_has_the_noise_of_its_own_sensitivity(
    attributes: Any, changes: dict[str, Any], factor: float, weight: float
) -> None:
    study = make_study(attributes, owners=["a", "b"], **changes)
    written, other = compare_promises(study, calibrate(study), [500, 500])
    assert (written.asked, written.neighbours, written.count) == (True, "replaced", None)
    assert (other.asked, other.neighbours, other.count_weight) == (False, "added", weight)
    assert other.product.rows / written.product.rows == pytest.approx(factor, rel=0.01)
    changes |= {"neighbours": "added", "count_weight": weight}
    added = make_study(attributes, owners=["a", "b"], **changes)
    again, back = compare_promises(added, calibrate(added), [500, 500])
    assert again.count is not None
    assert again.product == other.product
    assert back.product == written.product
    noise = calibrate(added)
    deviation = count_deviation(added.table.layout, noise, n_owners=2)
    assert again.count.rows == pytest.approx(deviation)


def test_people_who_weigh_as_several_rows_have_a_noised_weight_under_both_relations() -> None:
    capped: dict[str, Any] = {"unit": "person", "max_rows_per_person": None, "rows_counted": 3}
    capped["count_weight"] = 2  # is of use under both, and proposed for many rows
    for neighbours, less in (("replaced", False), ("added", True)):
        study = make_study(FLAGS, neighbours=neighbours, **capped)
        found = compare_promises(study, calibrate(study), [50_000])
        own, other = found[0], next(e for e in found[1:] if e.rows_counted == 3)
        assert own.asked
        assert not other.asked
        assert own.count is not None
        assert other.count is not None
        assert (own.product.rows < other.product.rows) is less


@pytest.mark.parametrize("most", [None, 32])
def test_where_a_person_may_have_several_rows_caps_stand_side_by_side(most: int | None) -> None:
    unit = {"unit": "person" if most is None else "row", "max_rows_per_person": most}
    study = make_study(FLAGS, owners=["a", "b"], **unit)
    own, *others = compare_promises(study, calibrate(study), [50_000, 50_000])
    caps = {(each.rows_counted, each.neighbours.value) for each in (own, *others)}
    wanted = {(c, relation) for c in (1, 3, 8) for relation in ("replaced", "added")}
    assert caps == wanted | ({(None, "replaced"), (None, "added")} if most else set())
    assert len(caps) == 1 + len(others)
    noise = {(e.rows_counted, e.neighbours.value): e.product.rows for e in (own, *others)}
    weights = {(e.rows_counted, e.neighbours.value): e.count_weight for e in others}
    weights.setdefault((1, "replaced"), None)
    assert noise[1, "added"] < noise[3, "added"] < noise[8, "added"] < 10 * noise[1, "added"]
    for cap in (1, 3, 8):
        capped: dict[str, Any] = {"unit": "person", "max_rows_per_person": None}
        capped["rows_counted"] = cap
        capped["count_weight"] = weights[cap, "replaced"] or 1
        as_if = make_study(FLAGS, owners=["a", "b"], **capped)
        first = compare_promises(as_if, calibrate(as_if), [500, 500])[0]
        assert first.product.rows == pytest.approx(noise[cap, "replaced"])
        assert (first.count is None) is (cap == 1)
    if most is not None:
        assert own.product.rows == pytest.approx(32 * noise[1, "replaced"], rel=0.01)


def test_few_rows_are_likely_to_end_a_study_and_many_are_not() -> None:
    study = make_study(FLAGS, neighbours="added", epsilon="1")
    few, many = (compare_promises(study, calibrate(study), [n])[0] for n in (50, 5000))
    assert few.refusal is not None
    assert many.refusal is not None
    assert few.refusal > 0.9
    assert many.refusal < 1e-6


@pytest.mark.parametrize(
    "changes",
    [
        {"covariance": "within"},
        {"mechanism": "matrix-laplace", "row_norm": {"include_sums": False}},
    ],
)
def test_a_study_that_would_be_refused_with_the_other_relation_has_one(
    changes: dict[str, Any],
) -> None:
    scaled = {"type": "numeric", "centre": 0, "scale": 1}
    of = [{"name": f"x{i}", **scaled} for i in range(3)] if "row_norm" in changes else FLAGS
    study = make_study(of, owners=["a", "b"], **changes)
    assert len(compare_promises(study, calibrate(study), [500, 500])) == 1
