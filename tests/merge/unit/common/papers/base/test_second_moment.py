"""Noise of a second moment: where the L2 bound counts a product twice, half of the variance."""

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pytest

from dppca.common.kernel.privacy.laws import GaussianLaw, LaplaceLaw
from dppca.common.kernel.privacy.mechanisms import Calibration, calibrate_noise, fixed_noise
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.sensitivity import Sensitivity
from dppca.common.papers import AGSVM, PCADPSVM, MODSuLQSVM
from dppca.common.papers.base.second_moment import plan_second_moment, release_second_moment

FALSE_ALARMS = 0.0  # all draws have seeds
D, BITS = 24, 8
DELTA = Decimal("1e-9")
Calibrate = Callable[[Sensitivity], Calibration]


def gaussian(sens: Sensitivity) -> Calibration:
    return calibrate_noise(
        GaussianLaw, sens, epsilon=Decimal(1), delta=DELTA, max_rows_per_person=1
    )


def by_hand(sens: Sensitivity) -> Calibration:
    return fixed_noise(
        GaussianLaw,
        sens,
        scale=Decimal("7.77"),
        delta=DELTA,
        max_rows_per_person=1,
        nominal_epsilon=None,
    )


def laplace(sens: Sensitivity) -> Calibration:
    return calibrate_noise(LaplaceLaw, sens, epsilon=Decimal(1), max_rows_per_person=1)


@pytest.mark.parametrize(
    ("calibrate", "ratio"), [(gaussian, 0.5**0.5), (by_hand, 0.5**0.5), (laplace, 1.0)]
)
def test_gaussian_products_have_half_of_the_variance_at_the_same_cost(
    calibrate: Calibrate, ratio: float
) -> None:
    found = [
        release_second_moment(
            np.zeros((1, D)),
            row_norm=1.0,
            resolution_bits=BITS,
            calibrate=calibrate,
            entropy=SeededEntropy(seed),
        )
        for seed in range(60)
    ]
    squares = np.array([np.diag(each.matrix) for each in found])
    products = np.array([each.matrix[np.triu_indices(D, 1)] for each in found])
    assert products.std() / squares.std() == pytest.approx(ratio, rel=0.08)
    noise = found[0].calibration
    assert squares.std() == pytest.approx(noise.law.deviation / 4**BITS, rel=0.08)
    given = calibrate(noise.sensitivity)
    assert noise.charge == given.charge
    assert noise.law.cost(noise.sensitivity, 1).rho <= noise.charge.rho
    assert 0 <= noise.law.width**2 - given.law.width**2 < 1.01  # an even variance


def test_one_column_has_no_products() -> None:
    noise = plan_second_moment(1, n_rows=9, resolution_bits=BITS, calibrate=gaussian)
    assert noise.law.of_products is noise.law
    alone = release_second_moment(
        np.zeros((9, 1)),
        row_norm=1.0,
        resolution_bits=BITS,
        calibrate=gaussian,
        entropy=SeededEntropy(1),
    )
    assert alone.matrix.shape == (1, 1)


@pytest.mark.parametrize(
    "machine",
    [
        AGSVM(epsilon=9, delta=1e-6, max_rows_per_person=1),
        MODSuLQSVM(epsilon=9, delta=1e-6, max_rows_per_person=1),
        PCADPSVM(epsilon=9, delta=1e-6, max_rows_per_person=1, classes=[0, 1]),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.filterwarnings("ignore::dppca.NoiseWarning")
def test_each_machine_with_a_delta_draws_them_so(
    machine: AGSVM | MODSuLQSVM | PCADPSVM,
) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 5)) / 9
    noise = machine.fit(X, (X[:, 0] > 0).astype(int)).guarantee_.noise[0]
    assert isinstance(noise.law, GaussianLaw)
    assert noise.law.product_variance is not None
    assert noise.law.variance == 2 * noise.law.product_variance
