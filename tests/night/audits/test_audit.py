"""Audits of the shipped release path: whether it spends more than it says.

Two tables that differ in one row, chosen so that the release's moments differ by as much as the
sensitivity allows, go through the whole path a site runs: coding, exact moments, calibration,
noise from the operating system's entropy. From many releases of each, the rates of one event are
bounded by Clopper and Pearson's intervals (1934), and

    epsilon >= ln((p_low - delta) / q_high)

holds with the stated confidence, whatever the noise is. The bound must stay below the claim, and
it must be able to exceed it: the same audit, run on releases whose noise is planted at half the
scale, must find them out.

False alarms: each one-sided bound has level 1e-7, so an honest release fails an audit with
probability below 2.4e-6 (two bounds, two directions, `THRESHOLDS`). Planted faults are sought in
noise with a seed, so none is missed by chance. The Gaussian is audited at a large delta, where its
loss is close enough to the claim for a factor of two to be seen.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

from dppca.common.numerics.moments.moments import Moments, compute_moments
from dppca.common.privacy import release
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.privacy.release import calibrate, draw
from dppca.common.schema import encode
from dppca.common.study import Study
from tests.support.noise import seed_noise
from tests.support.studies import make_study

LEVEL = 1e-7
N_RELEASES = 30_000
THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 1.2, 1.6)  # of the claimed epsilon; public, not fitted

N_AUDITS = 5
FALSE_ALARMS = N_AUDITS * 4 * len(THRESHOLDS) * LEVEL


GRID = {"resolution_bits": 6}
BINARIES: list[dict[str, object]] = [
    {"name": "a", "type": "binary", "values": [0, 1]},
    {"name": "b", "type": "binary", "values": [0, 1]},
]
NUMERICS: list[dict[str, object]] = [
    {"name": "a", "type": "numeric", "lower": 0, "upper": 1},
    {"name": "b", "type": "binary", "values": [0, 1]},
]
CATEGORICALS: list[dict[str, object]] = [
    {"name": "a", "type": "categorical", "categories": ["x", "y", "z"]},
    {"name": "b", "type": "binary", "values": [0, 1]},
]


def _moments(study: Study, rows: list[list[float]]) -> Moments:
    columns = [
        np.array(column, np.float64 if attribute.type == "numeric" else np.int32)
        for attribute, column in zip(study.table.attributes, zip(*rows, strict=True), strict=True)
    ]
    return compute_moments(encode(study.table, columns), study.table.layout)


def _worst_neighbours(study: Study) -> tuple[Moments, Moments]:
    """Tables of three rows; k of them are replaced by the row farthest from them in L1."""
    grid = [
        [0.0, 0.25, 0.5, 0.75, 1.0]
        if attribute.type == "numeric"
        else list(range(len(attribute.labels)))
        for attribute in study.table.attributes
    ]
    rows = [list(row) for row in np.stack(np.meshgrid(*grid), -1).reshape(-1, len(grid))]
    k = study.table.max_rows_per_person
    rest = [rows[0]] * (3 - k)
    candidates = [_moments(study, [*rest, *[row] * k]) for row in rows]
    pairs = [(a, b) for a in candidates for b in candidates]
    return max(pairs, key=lambda pair: int(np.abs(pair[0].packed - pair[1].packed).sum()))


def _loss(study: Study, calibration: Calibration, a: Moments, b: Moments) -> Callable[..., object]:
    """Log-likelihood ratio of each release, the most powerful statistic (Neyman, Pearson 1933)."""
    x, y = a.packed.astype(np.float64), b.packed.astype(np.float64)
    if calibration.scale is not None:
        scale = calibration.scale
        return lambda z: (np.abs(z - y) - np.abs(z - x)).sum(axis=1) / scale
    variance = calibration.sigma_squared or 1
    return lambda z: ((z - y) ** 2 - (z - x) ** 2).sum(axis=1) / (2 * variance)


def _releases(study: Study, moments: Moments) -> NDArray[np.float64]:
    entropy, claim = OperatingSystemEntropy(), calibrate(study)
    return np.stack(
        [
            draw(
                study, claim, moments, release_id=bytes(16), ledger_sequence=1, entropy=entropy
            ).packed.astype(np.float64)
            for _ in range(N_RELEASES)
        ]
    )


def audited_epsilon(study: Study) -> float:
    """Lower bound on the epsilon that the shipped path spends at the study's delta."""
    claim = calibrate(study)
    a, b = _worst_neighbours(study)
    difference = int(np.abs(a.packed - b.packed).sum())
    k = study.table.max_rows_per_person
    assert difference >= 0.95 * k * claim.sensitivity.l1, "these neighbours are not the worst"
    statistic = _loss(study, claim, a, b)
    from_a, from_b = statistic(_releases(study, a)), statistic(_releases(study, b))
    delta = float(claim.delta)
    best = 0.0
    for p, q in ((from_a, from_b), (-from_b, -from_a)):
        for threshold in THRESHOLDS:
            above_p = int((p >= threshold * float(claim.epsilon)).sum())
            above_q = int((q >= threshold * float(claim.epsilon)).sum())
            low = beta.ppf(LEVEL, above_p, N_RELEASES - above_p + 1) if above_p else 0.0
            high = beta.ppf(1 - LEVEL, above_q + 1, N_RELEASES - above_q)
            if low > delta:
                best = max(best, math.log((low - delta) / high))
    return best


STUDIES = {
    "laplace on binaries": make_study(BINARIES, **GRID),
    "laplace on numerics": make_study(NUMERICS, **GRID),
    "laplace on a categorical": make_study(CATEGORICALS, **GRID),
    "laplace, two rows a person": make_study(BINARIES, max_rows_per_person=2, **GRID),
    "gaussian": make_study(BINARIES, epsilon="2", delta="0.05", **GRID),
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_release_spends_no_more_than_it_claims(name: str) -> None:
    study = STUDIES[name]
    assert len(STUDIES) == N_AUDITS
    assert audited_epsilon(study) <= float(calibrate(study).epsilon)


@pytest.mark.parametrize("name", STUDIES)
def test_the_audit_finds_noise_of_half_the_scale(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = release.add_noise

    def halved(values: NDArray[np.int64], calibration: Calibration, **rest: object) -> object:
        planted = dataclasses.replace(
            calibration,
            scale=None if calibration.scale is None else calibration.scale // 2,
            sigma_squared=None
            if calibration.sigma_squared is None
            else calibration.sigma_squared // 4,
        )
        return honest(values, planted, **rest)

    seed_noise(monkeypatch)
    monkeypatch.setattr(release, "add_noise", halved)
    study = STUDIES[name]
    assert audited_epsilon(study) > float(calibrate(study).epsilon)
