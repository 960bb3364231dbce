"""Trials of either kind of trust, their means, and whether these reach what was asked."""

import json
from typing import Any

import pytest

from benchmarks import trust
from benchmarks.studies import ROOT
from benchmarks.synthesis.trials import make_study
from benchmarks.trust import MASKING, measure_noise
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Trust
from dppca.deploy.simulation.in_memory import make_parties

BINARY = [{"name": name, "type": "binary", "values": [0, 1]} for name in "abc"]


def run(owners: int, seed: int, accuracy: float, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "subject": "demo",
        "mechanism": "gaussian",
        "epsilon": "0.5",
        "owners": owners,
        "trust": "aggregate",
        "seed": seed,
        "accuracy": {"idp": accuracy},
        "pairs": 0.1,
        "noise": 1.0,
        "forecast": 1.0,
    }
    return found | changes


@pytest.mark.parametrize(("lost", "verdict"), [(0.009, "reached"), (0.02, "**missed** in 1 of 1")])
def test_accuracy_that_is_lost_with_many_owners_is_said(lost: float, verdict: str) -> None:
    line, _ = trust.asked(trust.summarize([run(3, 0, 0.8), run(30, 0, 0.8 - lost)]))
    assert verdict in line
    own = [run(3, 0, 0.8, trust="owner"), run(30, 0, 0.5, trust="owner")]
    assert "not measured" in trust.asked(trust.summarize(own))[0]
    little = [run(3, 0, 0.8, epsilon="0.1"), run(30, 0, 0.5, epsilon="0.1")]
    assert "not measured" in trust.asked(trust.summarize(little))[0]


@pytest.mark.parametrize(("noise", "verdict"), [(1.015, "reached"), (0.97, "**missed**")])
def test_noise_off_its_forecast_is_said(noise: float, verdict: str) -> None:
    assert verdict in trust.asked(trust.summarize([run(10, 0, 0.8, noise=noise)]))[1]


def test_the_readme_has_the_short_table() -> None:
    readme = ROOT / "README.md"
    cells = json.loads(trust.JSON_FILE.read_text())["cells"]
    assert trust.short_table(cells) in readme.read_text()


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_the_pool_of_ten_has_the_noise_that_is_forecast(mechanism: str) -> None:
    own = make_study({"attributes": BINARY}, mechanism, "0.5", owners=10)
    masked = make_parties(own, MASKING, entropy=SeededEntropy(1)).study
    assert (masked.trust, masked.n_honest_owners) == (Trust.AGGREGATE, 9)
    for study, expected in ((own, 10**0.5), (masked, (10 / 9) ** 0.5)):
        calibration = calibrate(study)
        assert calibration.mechanisms(10) ** 0.5 == pytest.approx(expected, rel=1e-6)
        measured = measure_noise(calibration, 10, entropy=SeededEntropy(3))
        assert measured == pytest.approx(expected, rel=0.02)
