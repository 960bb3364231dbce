"""Audits of the shipped release path: whether it spends more than it says.

The audit is the self-test's (`dppca.owner.selftest.draws.audit_epsilon`), on more studies and more
releases of each: its bound must stay below the claim, and exceed it where noise is planted at half
the scale.

False alarms: an honest release fails an audit with probability below the self-test's `LEVEL`.
Planted faults are sought in noise with a seed, so none is missed by chance. The Gaussian is audited
at a large delta, where its loss is close enough to the claim for a factor of two to be seen.
"""

import numpy as np
import pytest

from dppca.common.kernel.privacy import release
from dppca.common.kernel.privacy.release import calibrate
from dppca.owner.selftest.draws import LEVEL, Audit, audit_epsilon, find_neighbours
from dppca.owner.selftest.findings import Finding
from tests.support.noise import less_noise, seed_noise
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

N_RELEASES = 30_000
N_AUDITS = 5
FALSE_ALARMS = N_AUDITS * LEVEL
GRID = {"resolution_bits": 6}
BINARIES: list[dict[str, object]] = [binary_of("a", [0, 1]), binary_of("b", [0, 1])]
NUMERICS: list[dict[str, object]] = [numeric_of("a", 0, 1), binary_of("b", [0, 1])]
CATEGORICALS: list[dict[str, object]] = [
    categorical_of("a", ["x", "y", "z"]),
    binary_of("b", [0, 1]),
]


STUDIES = {
    "laplace on binaries": make_study(BINARIES, **GRID),
    "laplace on numerics": make_study(NUMERICS, **GRID),
    "laplace on a categorical": make_study(CATEGORICALS, **GRID),
    "laplace, two rows a person": make_study(BINARIES, max_rows_per_person=2, **GRID),
    "gaussian": make_study(BINARIES, epsilon="2", delta="0.05", **GRID),
}


def _audit(name: str) -> Finding:
    study = STUDIES[name]
    return audit_epsilon(Audit(name, study, study), n_releases=N_RELEASES, advance=lambda _: None)


@pytest.mark.parametrize("name", STUDIES)
def test_the_neighbours_are_the_worst_that_one_person_makes(name: str) -> None:
    study = STUDIES[name]
    claim, k = calibrate(study), study.max_rows_per_person
    a, b = find_neighbours(study, claim)
    moved = np.abs(a.packed - b.packed)
    if claim.law.norm == "L1":
        assert moved.sum() >= 0.95 * k * claim.sensitivity.l1
    else:
        assert np.square(moved).sum() >= 0.95 * k**2 * claim.sensitivity.l2_squared


@pytest.mark.parametrize("name", STUDIES)
def test_a_release_spends_no_more_than_it_claims(name: str) -> None:
    assert len(STUDIES) == N_AUDITS
    found = _audit(name)
    assert found.passed, found.says


@pytest.mark.parametrize("name", STUDIES)
def test_the_audit_finds_noise_of_half_the_scale(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed_noise(monkeypatch)
    monkeypatch.setattr(release, "add_noise", less_noise(release.add_noise, 2))
    assert not _audit(name).passed
