from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest

from dppca.common.kernel.errors import (
    ArtefactError,
    LabelError,
    RangeError,
    SchemaMismatchError,
    SettingError,
    StudyError,
)
from dppca.common.kernel.moments.moments import Moments, compute_moments
from dppca.common.kernel.moments.people import PeopleMoments
from dppca.common.kernel.privacy.labels import Label, require_released
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.matrix_law import MatrixLaplaceLaw
from dppca.common.kernel.privacy.mechanisms import add_noise
from dppca.common.kernel.privacy.noise.entropy import (
    EntropySource,
    OperatingSystemEntropy,
    SeededEntropy,
)
from dppca.common.kernel.privacy.noise_law import Noised
from dppca.common.kernel.privacy.people import of_people
from dppca.common.kernel.privacy.release import (
    Release,
    calibrate,
    draw,
    read_moment_receipt,
    receipt_from_bytes,
    replaced_charge,
    schema_sensitivity,
    sensitivity_shape,
)
from dppca.common.kernel.privacy.sensitivity import real_l1, sensitivity
from dppca.common.kernel.schema import encode
from dppca.common.kernel.schema.units import Person
from dppca.common.kernel.study import Study
from tests.support.studies import make_schema, make_study


def _study(**changes: Any) -> Study:
    attributes: list[dict[str, Any]] = [
        {"name": "x", "type": "numeric", "lower": 0, "upper": 2},
        {"name": "y", "type": "binary", "values": [0, 1]},
        {"name": "z", "type": "categorical", "categories": ["p", "q", "r"]},
    ]
    return make_study(attributes, **{"epsilon": "0.5", **changes})


def _moments(study: Study) -> Moments:
    rng = np.random.default_rng(0)
    columns = [rng.uniform(0, 2, 50), rng.integers(0, 2, 50), rng.integers(0, 3, 50)]
    rows = encode(study.table, [columns[0], *(c.astype(np.int32) for c in columns[1:])])
    return compute_moments(rows, study.table.layout)


def test_moments_of_rows_are_no_release_of_people_and_the_other_way_round() -> None:
    rows, people = _study(), _study(unit="person", max_rows_per_person=None)
    moments = _moments(rows)
    of_people = PeopleMoments(moments.n_rows, moments.packed)
    for study, wrong in ((people, moments), (rows, of_people), (people, of_people.merge(moments))):
        with pytest.raises(SchemaMismatchError, match=f"a study with unit: {study.table.unit}"):
            _draw(study, wrong, SeededEntropy(1))
    receipt = _draw(people, of_people, SeededEntropy(1)).receipt
    assert (receipt.noise.relation, receipt.noise.max_rows_per_person) == ("replace-person", None)
    assert receipt_from_bytes(receipt.canonical_bytes()) == receipt


def test_people_who_weigh_as_several_rows_cost_more_where_they_are_replaced() -> None:
    def replaced(**more: Any) -> Any:
        capped = {"unit": "person", "max_rows_per_person": None, "neighbours": "added", **more}
        study = _study(**capped)
        found, own = replaced_charge(study, calibrate(study)), calibrate(study).charge
        assert found is not None
        return found.epsilon / own.epsilon

    assert replaced() < 2
    assert 1 <= replaced(rows_counted=3) < 2


def test_products_of_half_the_variance_are_rounded_in_a_norm_that_counts_them_twice() -> None:
    numbers = [{"name": n, "type": "numeric", "centre": 0, "scale": 1} for n in "uvw"]
    halved = make_schema(numbers, row_norm={"halved_products": True}, unit="person")
    plain = make_schema(numbers, row_norm={}, unit="person")
    row = sensitivity(sensitivity_shape(plain), resolution_bits=10)
    twice = of_people(row, n_entries=9 + 3)
    assert schema_sensitivity(halved).l2_squared == twice.l2_squared
    assert schema_sensitivity(halved).l1 == schema_sensitivity(plain).l1 == row.l1 + 9


def _draw(study: Study, moments: Moments, entropy: EntropySource) -> Release:
    return draw(
        study, calibrate(study), moments, release_id=bytes(16), ledger_sequence=7, entropy=entropy
    )


def test_a_release_is_the_exact_sums_plus_one_draw_of_the_calibrated_noise() -> None:
    study = _study()
    moments = _moments(study)
    release = _draw(study, moments, SeededEntropy(1))
    expected = add_noise(moments.packed, calibrate(study), entropy=SeededEntropy(1))
    assert np.array_equal(release.packed, expected)
    assert release.n_rows == 50
    first, second = (_draw(study, moments, OperatingSystemEntropy()) for _ in range(2))
    assert not np.array_equal(first.packed, second.packed)


def test_a_receipt_lets_a_third_party_recompute_the_claim() -> None:
    study = _study()
    release = _draw(study, _moments(study), SeededEntropy(1))
    receipt = receipt_from_bytes(release.receipt.canonical_bytes())
    assert receipt == release.receipt
    law = receipt.noise
    recomputed = sensitivity(sensitivity_shape(study.table), resolution_bits=law.resolution_bits)
    assert (law.l1, law.l2_squared) == (recomputed.l1, recomputed.l2_squared)
    assert Fraction(law.l1, law.parameters["scale"]) <= Fraction(receipt.noise.epsilon)
    assert receipt.study_digest == study.digest
    assert receipt.schema_digest == study.table.digest
    assert receipt.label == Label.RELEASED


def test_moments_of_another_schema_are_refused() -> None:
    with pytest.raises(SchemaMismatchError):
        _draw(_study(), Moments(1, np.zeros(3, np.int64)), SeededEntropy(1))


def test_the_weight_of_unit_ball_sums_is_part_of_the_sensitivity() -> None:
    def bound(weight: float) -> Fraction:
        attributes = [
            {"name": name, "type": "numeric", "centre": 0, "scale": 1} for name in ("x", "y")
        ]
        schema = {
            "max_rows_per_person": 1,
            "row_norm": {},
            "sum_weight": weight,
            "attributes": attributes,
        }
        return real_l1(sensitivity_shape(_study(schema=schema).table))

    assert bound(64) > 20 * bound(1)


def test_a_study_whose_integers_could_overflow_is_refused_when_it_is_made() -> None:
    with pytest.raises(RangeError):
        calibrate(_study(epsilon="0.0000000000001"))


def test_a_noise_scale_set_by_hand_is_charged_what_it_costs() -> None:
    study = _study(privacy={"mechanism": "laplace", "scale": "10.0001", "nominal_epsilon": "0.1"})
    found = calibrate(study)
    assert found.law == LaplaceLaw(int(Fraction("10.0001") * 4**10))
    assert Fraction(found.charge.epsilon) >= Fraction(
        found.sensitivity.l1, found.law.parameters()["scale"]
    )
    assert str(found.nominal) == "0.1"


def test_a_damaged_receipt_is_refused() -> None:
    study = _study()
    good = _draw(study, _moments(study), SeededEntropy(1)).receipt.canonical_bytes()
    for content in (
        b"",
        b"[]",
        b"{}",
        b'{"study_digest": 1}',
        b"\xff",
        good.replace(b'"ledger_sequence":7', b'"ledger_sequence":NaN'),
        good.replace(b'"software":"', b'"software":"\\ud800'),
    ):
        assert content != good
        with pytest.raises(ArtefactError):
            receipt_from_bytes(content)


@pytest.mark.parametrize(
    "changes",
    [
        {"ledger_sequence": -1},
        {"ledger_sequence": "1"},
        {"ledger_sequence": True},
        {"n_rows": 1 << 63},
        {"n_rows": 5.0},
        {"n_entries": None},
        {"software": 7},
        {"software": "x" * 129},
        {"release_id": "a" * 31},
        {"release_id": "A" * 32},
        {"payload_sha256": ["a" * 64]},
        {"study_digest": "é" * 64},
    ],
)
def test_what_a_study_does_not_decide_has_its_form(changes: dict[str, object]) -> None:
    study = _study()
    document = _draw(study, _moments(study), SeededEntropy(1)).receipt.document()
    assert read_moment_receipt(document).document() == document
    with pytest.raises(ArtefactError):
        read_moment_receipt(document | changes)


def test_only_a_release_may_leave() -> None:
    require_released(Label.RELEASED, "a table")
    with pytest.raises(LabelError, match="raw rows"):
        require_released(Label.SITE_ONLY, "a model")
    with pytest.raises(LabelError, match="does not hold"):
        require_released(Label.PUBLISHED_METHOD, "a model")


def _joint(**changes: Any) -> Study:
    return _study(**{"mechanism": "matrix-laplace", "resolution_bits": 14, **changes})


def test_a_joint_release_is_the_exact_sums_plus_one_matrix_and_its_blanket() -> None:
    study = _joint(tables=[{"table": ["y", "z"]}])
    noise = calibrate(study)
    moments = Moments(50, np.arange(study.table.layout.n_entries, dtype=np.int64))
    release = _draw(study, moments, SeededEntropy(1))
    own = noise.law.draw_release(study.table.layout, None, entropy=SeededEntropy(1))
    assert np.array_equal(release.packed, moments.packed + own)
    parameters = release.receipt.noise.parameters
    assert release.receipt.noise.mechanism == "matrix-laplace"
    assert noise.law == MatrixLaplaceLaw(**{name: int(each) for name, each in parameters.items()})
    assert noise.law.cost(noise.sensitivity, 1).epsilon <= noise.charge.epsilon == Decimal("0.5")
    assert noise.law.degrees == 1 + 2 + (1 + 1 + 3 - 1) - 1  # d + 1, a block has one less


def test_without_its_matrix_a_joint_release_has_the_blanket_and_counts_their_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = _joint(tables=[{"table": ["y", "z"]}])
    layout, law = study.table.layout, calibrate(study).law
    size, n = layout.n_moments, 400
    monkeypatch.setattr(
        "dppca.common.kernel.privacy.matrix_law.draw_matrix",
        lambda *_, **__: np.zeros(size, np.int64),
    )
    entropy = SeededEntropy(3)
    drawn = np.abs(
        np.stack([law.draw_release(layout, None, entropy=entropy) for _ in range(n)]).astype(float)
    )
    scales = law.parameters()
    assert drawn[:, :size].mean() == pytest.approx(scales["blanket"], rel=0.05)
    assert drawn[:, size:].mean() == pytest.approx(scales["counts_scale"], rel=0.08)


def test_shares_of_a_joint_release_have_its_columns_and_no_promise_is_left_of_fewer() -> None:
    study = _joint()
    layout = study.table.layout
    law, charge = MatrixLaplaceLaw.calibrate_release(
        calibrate(study).sensitivity,
        1,
        layout,
        honest=3,
        rows_counted=None,
        epsilon=Decimal(1),
        delta=None,
    )
    m = law.degrees
    assert law.share_weight(3) == Fraction(-(-m // 3), m)
    assert MatrixLaplaceLaw.pooled(layout, 6, 3) == pytest.approx(6 * -(-m // 3) / m)
    assert law.cost_of_fewer(charge, 3, 2) is None
    entropy, n = SeededEntropy(2), 200
    shares = [[law.draw_release(layout, 3, entropy=entropy) for _ in range(3)] for _ in range(n)]
    products = np.array(shares).sum(axis=1)[:, -1] / law.deviation  # an entry of y and a label
    assert 0.5 < products.var() / float(3 * law.share_weight(3)) < 1.5
    with pytest.raises(SettingError, match="another release"):
        law.draw_release(layout, None, entropy=entropy)


@pytest.mark.parametrize(
    "changes",
    [
        {"targets": ["y"], "target_weight": 3},
        {"covariance": "within"},
        {"unit": "person", "max_rows_per_person": None},
        {"neighbours": "added", "max_rows_per_person": 3},
        {"neighbours": "added", "unit": "person", "rows_counted": 4, "max_rows_per_person": None},
        {"unit": "person", "rows_counted": 4, "max_rows_per_person": None},
    ],
    ids=["targets", "within", "people", "rows added", "people added", "people weighed"],
)
def test_a_joint_release_of_any_promise_costs_what_it_claims(changes: dict[str, Any]) -> None:
    study = _joint(tables=[{"table": ["y", "z"]}], **changes)
    noise, layout = calibrate(study), study.table.layout
    own = noise.law.cost(noise.sensitivity, noise.factor)
    assert noise.charge.covers(own)
    assert own.epsilon > Decimal("0.499") * noise.charge.epsilon / Decimal("0.5")
    people = int(isinstance(study.unit, Person))
    moments = (PeopleMoments if people else Moments)(50, np.arange(layout.n_entries))
    release = _draw(study, moments, SeededEntropy(1))
    drawn = noise.law.draw_release(layout, None, entropy=SeededEntropy(1))
    assert np.array_equal(release.packed, moments.packed + drawn)
    facts = noise.law.parameters()
    assert (facts["entries"], facts["divided"]) == (layout.n_moments + layout.with_count, people)
    assert facts["counts_l1"] % 4**14 == 6 * people  # the cells of a table of 2 by 3
    # If people are replaced, where their number is secret: twice what one that is added moves.
    if (replaced := replaced_charge(study, noise)) is not None:
        matrix = Decimal(noise.factor * facts["nuclear"]) / (2 * facts["scale"])
        cells = Decimal(noise.factor * (facts["counts_l1"] - 6 * people)) / facts["counts_scale"]
        assert replaced.epsilon == pytest.approx(own.epsilon + matrix + cells, rel=Decimal("1e-9"))


@pytest.mark.parametrize("bits", [10, 14])
def test_a_secret_number_has_the_noise_that_is_said_after_the_cells(bits: int) -> None:
    study = _joint(tables=[{"table": ["y", "z"]}], neighbours="added", resolution_bits=bits)
    layout, law, n = study.table.layout, calibrate(study).law, 600
    entropy = SeededEntropy(4)
    drawn = np.stack([law.draw_release(layout, None, entropy=entropy) for _ in range(n)])
    deviation = law.deviation_of(Noised.ROWS, layout)
    assert drawn[:, -1].std() == pytest.approx(deviation, rel=0.12)
    assert deviation < 1.05 * sqrt(2) * law.deviation  # that of a square, or less
    assert drawn[:, layout.n_moments : -1].std() == pytest.approx(law.of_counts.deviation, rel=0.12)
    widest = np.abs(drawn).max() / law.largest(drawn.size)
    assert 0.05 < widest < 0.6  # a bound for 1e-18 is some times what 600 draws reach
    labels = drawn[:, : layout.n_sums][:, -3:].sum(axis=1) - drawn[:, -1]
    parts = np.abs(labels / law.parameters()["blanket"])
    assert parts.mean() < 4  # labels add up to the number but for their blankets


def test_a_joint_study_with_too_many_columns_is_refused_with_the_reason() -> None:
    study = make_study(
        [{"name": f"b{i}", "type": "binary", "values": [0, 1]} for i in range(1024)],
        mechanism="matrix-laplace",
    )
    with pytest.raises(StudyError, match="1023 columns at most, not 1024"):
        calibrate(study)


def test_a_joint_study_whose_noise_leaves_the_integers_is_refused() -> None:
    with pytest.raises(RangeError):
        calibrate(_joint(epsilon="1e-9"))
