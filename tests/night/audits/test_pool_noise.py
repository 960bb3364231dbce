"""The noise of a pool of shares is what forecasts, the noise edge and synthetic rows take it for.

Each case draws 100,000 entries of ten owners' shares from the operating system. The standard
deviation of their sum is within 2 % of ``sqrt(m / h)`` of one mechanism's, and the sum has the law
that `NoiseSource` draws.

False alarms: 1e-7 for each of two comparisons of deviations, whose own error is 0.35 % at most, and
1e-6 for the two-sample Kolmogorov-Smirnov test; eight cases. The planted fault is off by 2/3.
"""

from __future__ import annotations

from decimal import Decimal
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from dppca.common.numerics.spectrum.noise import NoiseSource
from dppca.common.numerics.spectrum.noise_edge import entry_noise
from dppca.common.privacy.mechanisms import Calibration, add_noise
from dppca.common.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.privacy.release import calibrate
from dppca.common.study import Study
from tests.support.masked import make_masked_study

N_OWNERS, N_ROWS, N_DRAWN = 10, 1000, 100_000

FALSE_ALARMS = 8 * (1e-6 + 2 * 1e-7)
cases = pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
trusts = pytest.mark.parametrize(
    ("quorum", "colluders"), [(10, 1), (10, 3), (8, 1), (8, 3)], ids=lambda each: str(each)
)


def _study(mechanism: str, quorum: int, colluders: int) -> Study:
    attributes = [{"name": f"x{i}", "type": "numeric", "lower": 0, "upper": 1} for i in range(30)]
    return make_masked_study(
        N_OWNERS,
        colluders + 1,
        mechanism=mechanism,
        quorum=quorum,
        colluders=colluders,
        deadline="2099-01-01T00:00:00Z",
        attributes=attributes,
        resolution_bits=10,
    ).study


def _pool(calibration: Calibration) -> np.ndarray:
    """Noise of ten owners that add nothing else, (N_DRAWN,)."""
    entropy, nothing = OperatingSystemEntropy(), np.zeros(N_DRAWN, np.int64)
    return sum(add_noise(nothing, calibration, entropy=entropy) for _ in range(N_OWNERS))


@cases
@trusts
def test_the_pool_has_the_noise_that_is_forecast(
    mechanism: str, quorum: int, colluders: int
) -> None:
    study = _study(mechanism, quorum, colluders)
    calibration, layout = calibrate(study), study.table.layout
    pool = _pool(calibration)
    one = calibration.law.deviation
    assert pool.std() == pytest.approx(one * sqrt(N_OWNERS / (quorum - colluders)), rel=0.02)
    owner_rows = [N_ROWS] * N_OWNERS
    forecast = entry_noise(
        layout,
        deviation=calibration.law.deviation,
        owner_rows=owner_rows,
        mechanisms=calibration.mechanisms(N_OWNERS),
    )
    assert pool.std() / (4**10 * N_ROWS * N_OWNERS) == pytest.approx(forecast, rel=0.02)
    source = NoiseSource(
        np.random.default_rng(0),
        layout,
        law=calibration.law,
        width=calibration.law.width,
        owner_rows=owner_rows,
        own_means=False,
        mechanisms=calibration.mechanisms(N_OWNERS),
    )
    drawn = np.concatenate([source.packed()[0] for _ in range(-(-N_DRAWN // layout.n_entries))])[
        :N_DRAWN
    ]
    assert stats.ks_2samp(pool, drawn).pvalue > 1e-6


def test_a_pool_that_is_taken_for_one_mechanism_of_each_owner_is_found() -> None:
    """The planted fault: with ``m`` in place of ``m / h`` the figures are off by a factor of 3."""
    study = _study("laplace", 10, 1)
    calibration = calibrate(study)
    wrong = calibration.law.deviation * sqrt(N_OWNERS)
    assert abs(_pool(calibration).std() / wrong - 1) > 0.5


def test_epsilon_does_not_change_how_many_mechanisms_a_pool_holds() -> None:
    """But for the one that is added to the variance of a Gaussian share."""
    study = _study("gaussian", 8, 1)
    for epsilon in ("0.01", "1", "10"):
        privacy = study.privacy.model_copy(update={"epsilon": Decimal(epsilon)})
        found = calibrate(study.model_copy(update={"privacy": privacy})).mechanisms(N_OWNERS)
        assert 0 <= found / (N_OWNERS / 7) - 1 < 1e-6
