"""Trials of either kind of trust: the noise of the pool, and rows that repeat themselves."""

from __future__ import annotations

import pytest

from benchmarks.releases import make_keys, mask_study
from benchmarks.synthesis.trials import make_study
from benchmarks.trust.trials import TrustTrial, measure_noise, run_trial
from dppca.common.privacy.noise.entropy import SeededEntropy
from dppca.common.privacy.release import calibrate
from dppca.common.study import Trust

BINARY = [{"name": name, "type": "binary", "values": [0, 1]} for name in "abc"]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_the_pool_of_ten_has_the_noise_that_is_forecast(mechanism: str) -> None:
    own = make_study({"attributes": BINARY}, mechanism, "0.5", owners=10)
    masked, _ = mask_study(own, make_keys(own.owners), openers=2, entropy=SeededEntropy(1))
    assert (masked.trust, masked.n_honest_owners) == (Trust.AGGREGATE, 9)
    for study, expected in ((own, 10**0.5), (masked, (10 / 9) ** 0.5)):
        calibration = calibrate(study)
        assert calibration.mechanisms(10) ** 0.5 == pytest.approx(expected, rel=1e-6)
        measured = measure_noise(calibration, 10, entropy=SeededEntropy(3))
        assert measured == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("trust", list(Trust))
def test_a_trial_gives_figures_and_repeats_itself(trust: Trust) -> None:
    trial = TrustTrial("demo", "gaussian", "1", 3, trust.value, 0)
    first, second = run_trial(trial), run_trial(trial)
    assert first.accuracy == second.accuracy
    assert first.pairs == second.pairs
    assert first.noise == second.noise
