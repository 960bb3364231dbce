"""Gaussian noise of rows in a ball: products of two columns have half of the variance."""

import json
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from dppca.common.analysis.spectrum.noise import NoiseSource
from dppca.common.analysis.spectrum.noise_edge import noise_edge
from dppca.common.kernel.errors import SettingError, StudyError
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.laws import LAWS, every_law
from dppca.common.kernel.privacy.mechanisms import add_noise
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate, draw, noise_moments, read_moment_receipt
from dppca.common.kernel.schema import Layout, Schema
from dppca.common.kernel.study import PRIVACIES, Covariance, Study
from tests.support.masked import make_masked_study
from tests.support.studies import make_study

FALSE_ALARMS = 0.0  # all draws have seeds
GAUSSIAN = {"mechanism": "gaussian", "epsilon": "1", "delta": "1e-9"}
P = 40


def ball(**norm: Any) -> dict[str, Any]:
    columns = ({"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(P))
    return {"attributes": list(columns), "row_norm": norm, "max_rows_per_person": 2}


def study(privacy: dict[str, str] | None = None, **norm: Any) -> Study:
    schema = ball(**{"halved_products": True, **norm})
    return make_study(schema.pop("attributes"), privacy=privacy or GAUSSIAN, **schema)


def squares(layout: Layout) -> NDArray[np.bool_]:
    """Whether an entry is a square or a sum."""
    i, j = layout.product_index
    return np.concatenate([np.ones(layout.n_sums, np.bool_), i == j])


@pytest.mark.parametrize("with_sums", [True, False])
def test_the_claim_is_that_of_equal_noise_and_products_have_half_its_variance(
    with_sums: bool,
) -> None:
    halved = calibrate(study(include_sums=with_sums))
    plain = calibrate(study(include_sums=with_sums, halved_products=False))
    assert halved.sensitivity == plain.sensitivity
    assert halved.charge == plain.charge
    variance, products = (
        halved.law.parameters()[name] for name in ("variance", "product_variance")
    )
    assert variance == 2 * products
    assert 0 <= variance - plain.law.parameters()["variance"] <= 1
    sens = halved.sensitivity
    rho = Fraction(4 * sens.l2_squared, 2 * variance)  # two rows of a person
    assert rho <= Fraction(halved.charge.rho)
    assert LAWS["gaussian"](**halved.law.parameters()) == halved.law


def test_a_scale_by_hand_is_rounded_down_to_an_even_variance_and_charged_so() -> None:
    by_hand = {"mechanism": "gaussian", "scale": "0.00001", "delta": "1e-9"}
    noise = calibrate(study(by_hand))
    steps = Fraction("0.00001") * 4**10
    assert noise.law.parameters()["variance"] == 2 * (int(steps**2) // 2)
    assert noise.charge == noise.law.cost(noise.sensitivity, 2)
    with pytest.raises(SettingError, match="a variance of 1 cannot be halved"):
        GaussianLaw(1).halve_products(up=False)


def test_too_narrow_products_are_charged_for_their_own_width() -> None:
    sens = calibrate(study()).sensitivity
    assert GaussianLaw(100, 20).cost(sens, 1) == GaussianLaw(40).cost(sens, 1)


@pytest.mark.parametrize("honest", [None, 3])
def test_entries_have_their_variances_and_so_do_simulations(honest: int | None) -> None:
    made = study()
    noise, layout = calibrate(made), made.table.layout
    if honest is not None:
        schema = ball(halved_products=True)
        privacy = {**GAUSSIAN, "trust": "aggregate", "colluders": 1}
        made = make_masked_study(privacy=privacy, schema=schema).study
        noise = calibrate(made)
        assert noise.n_honest_owners == honest
    zeros = Moments(0, np.zeros(layout.n_entries, np.int64))
    entropy, rounds = SeededEntropy(3), 30
    drawn = np.array(
        [
            sum(noise_moments(made, noise, zeros, entropy=entropy) for _ in range(honest or 1))
            for _ in range(rounds)
        ]
    )
    source = NoiseSource(
        np.random.default_rng(1),
        layout,
        law=noise.law,
        width=noise.law.width,
        owner_rows=[1],
        own_means=False,
    )
    simulated = np.array([source.packed()[0] for _ in range(rounds)])
    alike = squares(layout)
    for found in (drawn, simulated):
        of_squares, of_products = (
            float(found[:, places].astype(np.float64).var()) / noise.law.width**2
            for places in (alike, ~alike)
        )
        assert of_squares == pytest.approx(1, abs=0.15)
        assert of_products == pytest.approx(0.5, abs=0.03)


def test_noise_of_halved_products_without_their_places_is_refused() -> None:
    made = study()
    noise, layout = calibrate(made), made.table.layout
    zeros = np.zeros(layout.n_entries, np.int64)
    with pytest.raises(SettingError, match="belong to a law that halves them"):
        add_noise(zeros, noise, entropy=SeededEntropy(0))
    plain = calibrate(study(halved_products=False))
    with pytest.raises(SettingError, match="belong to a law that halves them"):
        add_noise(zeros, plain, entropy=SeededEntropy(0), layout=layout)


def test_a_receipt_says_both_variances() -> None:
    made = study()
    moments = Moments(5, np.zeros(made.table.layout.n_entries, np.int64))
    release = draw(
        made,
        calibrate(made),
        moments,
        release_id=bytes(16),
        ledger_sequence=1,
        entropy=SeededEntropy(2),
    )
    document = json.loads(release.receipt.canonical_bytes())
    assert set(document["parameters"]) == {"variance", "product_variance"}
    assert read_moment_receipt(document) == release.receipt


def test_halved_products_are_for_laws_that_can_and_for_the_ball() -> None:
    forms = {get_args(each.model_fields["mechanism"].annotation)[0]: each for each in PRIVACIES}
    laws = every_law()
    assert forms.keys() == laws.keys()
    for name, form in forms.items():
        assert form.halves_products is laws[name].halves_products  # type: ignore[attr-defined]
    with pytest.raises(StudyError, match="halved_products: true is for mechanism: gaussian"):
        study({"mechanism": "laplace", "epsilon": "1"})
    with pytest.raises(SettingError, match="halved_products is for gaussian"):
        LaplaceLaw(4).halve_products(up=True)


def test_a_schema_without_the_field_keeps_its_digest() -> None:
    plain = Schema.from_document(ball())
    assert plain.digest == Schema.from_document(ball(halved_products=False)).digest
    assert plain.digest != Schema.from_document(ball(halved_products=True)).digest
    assert "halved_products" not in plain.canonical_bytes().decode()


def test_the_edge_is_the_semicircle_of_half_the_variance() -> None:
    columns = [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(150)]
    norm = {"include_sums": False, "halved_products": True}
    layout = Schema.from_document({"attributes": columns, "row_norm": norm}).layout
    law = GaussianLaw(2 * 10**14, 10**14)
    edge = noise_edge(
        layout,
        law=law,
        owner_rows=[1000],
        mean=None,
        covariance=Covariance.POOLED,
        seed=0,
        draws=30,
    )
    semicircle = 2 * np.sqrt(150 * 1e14) / (4**10 * 1000)  # both variances are those of GOE
    assert edge.value == pytest.approx(semicircle, rel=0.05)


@pytest.mark.parametrize(
    "schema",
    [
        {"attributes": [{"name": x, "type": "binary", "values": [0, 1]} for x in "ab"]},
        {**ball(), "square_weight": 2},
        {
            "attributes": [
                {"name": "a", "type": "numeric", "lower": 0, "upper": 1, "bins": 3}
                | {"products": "bins"},
                {"name": "b", "type": "binary", "values": [0, 1]},
            ]
        },
    ],
    ids=["no number", "the ball", "bins alone"],
)
def test_a_weight_of_squares_needs_a_square(schema: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="square_weight needs a numeric with bounds"):
        Schema.model_validate({**schema, "square_weight": 2})
    plain = Schema.model_validate({**schema, "square_weight": 1})
    assert "square_weight" not in plain.canonical_bytes().decode()
