"""Calibration never charges less than the cost, and noise is added without losing anything."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.errors import RangeError, SettingError
from dppca.common.kernel.privacy.accounting import (
    PrivacyCost,
    epsilon_from_rho,
    rho_from_epsilon_delta,
)
from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.mechanisms import (
    Calibration,
    add_noise,
    calibrate_noise,
    check_range,
    fixed_noise,
)
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.sensitivity import BoxShape, Relation, Sensitivity, sensitivity
from tests.support.examples import examples

SIXTEEN_BINARY = sensitivity(BoxShape(16, 0, 0), resolution_bits=10)
FALSE_ALARMS = 0.0  # all draws have seeds
DELTA = Decimal("1e-6")
calibrate_laplace = partial(calibrate_noise, LaplaceLaw)
calibrate_gaussian = partial(calibrate_noise, GaussianLaw)
fixed_laplace = partial(fixed_noise, LaplaceLaw)
fixed_gaussian = partial(fixed_noise, GaussianLaw)

# A conversion takes some milliseconds; a busy machine is not a failure.
CONVERSIONS = settings(max_examples=examples(60))

sensitivities = st.builds(
    Sensitivity,
    l1=st.integers(1, 10**12),
    l2_squared=st.integers(1, 10**12),
    resolution_bits=st.integers(1, 14),
    relation=st.just(Relation.REPLACE_ONE),
)
epsilons = st.decimals(min_value="0.001", max_value=100, places=6)
scales = st.decimals(min_value=1, max_value=10**6, places=6)
rows = st.integers(1, 50)


def laplace_cost(found: Calibration) -> Fraction:
    assert isinstance(found.law, LaplaceLaw)
    return Fraction(found.max_rows_per_person * found.sensitivity.l1, found.law.scale)


def gaussian_cost(found: Calibration) -> Fraction:
    assert isinstance(found.law, GaussianLaw)
    squared_change = found.max_rows_per_person**2 * found.sensitivity.l2_squared
    return Fraction(squared_change, 2 * found.law.variance)


@given(sensitivities, epsilons, rows)
def test_the_laplace_scale_is_the_least_that_keeps_epsilon(
    sens: Sensitivity, epsilon: Decimal, k: int
) -> None:
    found = calibrate_laplace(sens, epsilon=epsilon, max_rows_per_person=k)
    assert isinstance(found.law, LaplaceLaw)
    assert laplace_cost(found) <= Fraction(epsilon)
    if found.law.scale > 1:
        smaller = replace(found, law=LaplaceLaw(found.law.scale - 1))
        assert laplace_cost(smaller) > Fraction(epsilon)
    assert found.charge == PrivacyCost(epsilon=epsilon, rho=Decimal(0))
    assert (found.epsilon, found.delta) == (epsilon, Decimal(0))


@CONVERSIONS
@given(sensitivities, epsilons, rows)
def test_the_gaussian_variance_is_the_least_that_keeps_the_charged_rho(
    sens: Sensitivity, epsilon: Decimal, k: int
) -> None:
    found = calibrate_gaussian(sens, epsilon=epsilon, delta=DELTA, max_rows_per_person=k)
    assert isinstance(found.law, GaussianLaw)
    assert found.charge == PrivacyCost(Decimal(0), rho_from_epsilon_delta(epsilon, DELTA))
    assert gaussian_cost(found) <= Fraction(found.charge.rho)
    if found.law.variance > 1:
        smaller = replace(found, law=GaussianLaw(found.law.variance - 1))
        assert gaussian_cost(smaller) > Fraction(found.charge.rho)
    assert (found.epsilon, found.delta) == (epsilon, DELTA)


@given(sensitivities, scales, rows)
def test_a_laplace_scale_set_by_hand_is_rounded_down_and_charged_what_it_costs(
    sens: Sensitivity, scale: Decimal, k: int
) -> None:
    found = fixed_laplace(sens, scale=scale, max_rows_per_person=k, nominal_epsilon=Decimal("0.1"))
    assert found.law == LaplaceLaw(Fraction(scale) * 4**sens.resolution_bits // 1)
    assert 0 <= Fraction(found.charge.epsilon) - laplace_cost(found) < Fraction(1, 10**12)
    assert found.epsilon == found.charge.epsilon
    assert found.delta == found.charge.rho == 0
    assert found.nominal == Decimal("0.1")


@CONVERSIONS
@given(sensitivities, scales, rows)
def test_a_gaussian_scale_set_by_hand_is_rounded_down_and_charged_what_it_costs(
    sens: Sensitivity, scale: Decimal, k: int
) -> None:
    found = fixed_gaussian(
        sens, scale=scale, delta=DELTA, max_rows_per_person=k, nominal_epsilon=Decimal("0.1")
    )
    assert found.law == GaussianLaw((Fraction(scale) * 4**sens.resolution_bits) ** 2 // 1)
    assert 0 <= Fraction(found.charge.rho) - gaussian_cost(found) < Fraction(1, 10**12)
    assert found.epsilon == epsilon_from_rho(found.charge.rho, DELTA)
    assert found.charge.epsilon == 0
    assert found.delta == DELTA
    assert found.nominal == Decimal("0.1")


def test_a_large_charge_is_rounded_up_whatever_the_decimal_context() -> None:
    with localcontext(Context(prec=3)):
        found = fixed_laplace(
            SIXTEEN_BINARY, scale=Decimal(7), max_rows_per_person=1, nominal_epsilon=None
        )
    assert found.charge.epsilon == Decimal("5.785714285715")  # 40.5 / 7


def test_a_person_with_k_rows_costs_k_times_as_much() -> None:
    one = calibrate_laplace(SIXTEEN_BINARY, epsilon=Decimal(1), max_rows_per_person=1)
    five = calibrate_laplace(SIXTEEN_BINARY, epsilon=Decimal(1), max_rows_per_person=5)
    assert one.law == LaplaceLaw(SIXTEEN_BINARY.l1)
    assert five.law == LaplaceLaw(5 * SIXTEEN_BINARY.l1)
    for k in (1, 5):
        found = calibrate_gaussian(
            SIXTEEN_BINARY, epsilon=Decimal(1), delta=DELTA, max_rows_per_person=k
        )
        real_variance = Fraction(found.law.parameters()["variance"], 16**10)
        expected = k**2 * 25 / (2 * Fraction(found.charge.rho))
        assert float(real_variance) == pytest.approx(float(expected), rel=1e-9)


CALIBRATED: dict[str, Any] = {"epsilon": Decimal(1), "max_rows_per_person": 1}
FIXED: dict[str, Any] = {"scale": Decimal(9), "max_rows_per_person": 1, "nominal_epsilon": None}
NO_EPSILON = [Decimal(text) for text in ("0", "-1", "NaN", "Infinity")]
GAUSSIAN = {"delta": DELTA}


@pytest.mark.parametrize(
    ("calibrate", "given"),
    [
        (calibrate_laplace, CALIBRATED),
        (calibrate_gaussian, CALIBRATED | GAUSSIAN),
        (fixed_laplace, FIXED),
        (fixed_gaussian, FIXED | GAUSSIAN),
    ],
    ids=["laplace", "gaussian", "fixed laplace", "fixed gaussian"],
)
def test_a_setting_out_of_range_is_refused_by_name(
    calibrate: Callable[..., Calibration], given: dict[str, Any]
) -> None:
    wrong = {
        "epsilon": NO_EPSILON,
        "nominal_epsilon": NO_EPSILON,
        "max_rows_per_person": [0, -1],
        "delta": [Decimal(0), Decimal(1), Decimal("NaN")],
        "scale": [Decimal(0), Decimal(-2), Decimal("NaN"), Decimal("1e-9")],
    }
    calibrate(SIXTEEN_BINARY, **given)
    for name in given:
        for value in wrong[name]:
            with pytest.raises(SettingError, match=name.removeprefix("nominal_")):
                calibrate(SIXTEEN_BINARY, **{**given, name: value})


def test_a_scale_of_one_step_is_taken() -> None:
    for fixed in (fixed_laplace, partial(fixed_gaussian, delta=DELTA)):
        found = fixed(SIXTEEN_BINARY, **{**FIXED, "scale": Decimal(1) / 4**10})
        assert found.law.width == 1


def laplace_of(scale: int) -> Calibration:
    found = calibrate_laplace(SIXTEEN_BINARY, epsilon=Decimal(1), max_rows_per_person=1)
    return replace(found, law=LaplaceLaw(scale))


def gaussian_of(variance: int) -> Calibration:
    found = calibrate_gaussian(
        SIXTEEN_BINARY, epsilon=Decimal(1), delta=DELTA, max_rows_per_person=1
    )
    return replace(found, law=GaussianLaw(variance))


@pytest.mark.parametrize("found", [laplace_of(5), gaussian_of(25)])
def test_noise_wraps_around_and_leaves_its_input_alone(found: Calibration) -> None:
    zeros = np.zeros(200, dtype=np.int64)
    ends = np.resize([2**63 - 1, -(2**63)], 200).astype(np.int64)
    before = ends.copy()
    noise = add_noise(zeros, found, entropy=SeededEntropy(1))
    drawn = found.law.draw(200, entropy=SeededEntropy(1))
    assert noise.tolist() == drawn.tolist()
    noised = add_noise(ends, found, entropy=SeededEntropy(1))
    assert noised.dtype == np.int64
    assert (ends == before).all()
    exact = [(int(x) + int(z) + 2**63) % 2**64 - 2**63 for x, z in zip(ends, noise, strict=True)]
    assert noised.tolist() == exact
    assert (np.sign(noised) != np.sign(ends)).any()


@pytest.mark.parametrize(
    ("found", "part"), [(laplace_of(50), Fraction(1, 3)), (gaussian_of(900), Fraction(301, 900))]
)
def test_owners_that_make_the_noise_together_add_a_share_of_it_each(
    found: Calibration, part: Fraction
) -> None:
    """Fails a right one with probability 1e-6; of a Gaussian share, 301 is 900 / 3 and 1."""
    sums = np.full(20_000, 2**63 - 1, dtype=np.int64)
    whole, shared = found, replace(found, n_honest_owners=3)
    variances = [
        float((add_noise(sums, each, entropy=SeededEntropy(7)) - sums).astype(float).var())
        for each in (whole, shared)
    ]
    assert variances[1] / variances[0] == pytest.approx(float(part), rel=0.06)
    for owners in (1, 3, 5):
        assert whole.mechanisms(owners) == owners
        assert shared.mechanisms(owners) == pytest.approx(float(owners * part), rel=1e-15)
    assert whole.share_variance is None
    assert shared.share_variance == (301 if part * 900 == 301 else None)


def test_sums_that_are_not_a_vector_of_int64_are_refused() -> None:
    wrong = [np.zeros(3), np.zeros(3, dtype=np.int32), np.zeros((2, 2), dtype=np.int64)]
    for values in wrong:
        with pytest.raises(SettingError, match="int64"):
            add_noise(values, laplace_of(5), entropy=SeededEntropy(1))  # type: ignore[arg-type]


def in_range(found: Calibration, *, weight: Fraction = Fraction(1), **given: Any) -> None:
    fields = {"resolution_bits": 10, "n_entries": 5000, "n_owners": 1, **given}
    check_range(found, largest_weight=weight, **fields)


@pytest.mark.parametrize("laplace", [True, False])
def test_the_range_ends_at_one_integer_whatever_the_decimal_context(laplace: bool) -> None:
    found, noise = gaussian_of(10**30), 13 * 10**15 + 1
    if laplace:
        with localcontext(Context(prec=50)):
            found, noise = laplace_of(10**15), ceil(10**15 * (Decimal(5000).ln() + 42))
    with localcontext(Context(prec=3)):
        in_range(found, max_rows=1, weight=Fraction(2**62 - 1 - noise, 4**10))
        with pytest.raises(RangeError):
            in_range(found, max_rows=1, weight=Fraction(2**62 - noise, 4**10))


@pytest.mark.parametrize(
    ("scale", "fits", "exceeds"),
    [
        (1, {"max_rows": 2**41, "weight": Fraction(1, 2)}, {"max_rows": 2**41, "weight": 2}),
        (10**15, {"max_rows": 1, "n_owners": 40}, {"max_rows": 1, "n_owners": 100}),
    ],
    ids=["heavier sums", "every owner's own noise"],
)
def test_what_is_added_up_leaves_less_room(
    scale: int, fits: dict[str, Any], exceeds: dict[str, Any]
) -> None:
    in_range(laplace_of(scale), **fits)
    with pytest.raises(RangeError, match="take fewer rows, a coarser grid or a larger epsilon"):
        in_range(laplace_of(scale), **exceeds)


def test_a_range_for_another_grid_or_for_nothing_is_refused() -> None:
    in_range(laplace_of(1), max_rows=1, n_entries=1)
    with pytest.raises(SettingError, match="resolution_bits"):
        in_range(laplace_of(1), resolution_bits=9, max_rows=1)
    for nothing in ({"max_rows": 0}, {"n_entries": 0}, {"n_owners": 0}):
        with pytest.raises(SettingError, match="rows, entries and owners"):
            in_range(laplace_of(1), **{"max_rows": 1, **nothing})
