"""Audits of every sound estimator: whether it spends more than its guarantee says.

As in `test_audit`: two tables that differ in one row, as far apart as the sensitivity allows, go
through the estimator with the operating system's entropy; the rates of one event bound epsilon from
below by Clopper and Pearson's intervals (1934), whatever the noise is. The bound must stay below
the claim, and the same audit must find noise that is planted too small.

The event is a threshold on the log-likelihood ratio of what is released, the most powerful one.
What an estimator releases besides is a function of that.

False alarms: each one-sided bound has level 1e-7, so an honest estimator fails with probability
below 2.8e-6 (two bounds, two directions, `THRESHOLDS`). Planted faults are sought in noise with a
seed, so none is missed by chance.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base import weight_noise
from dppca.common.analysis.estimators.base.hinge import solve_hinge
from dppca.common.kernel.privacy import mechanisms
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.papers import (
    AGSVM,
    DPPCASVM,
    DPSUBN3,
    DPSVD,
    DPSVM,
    PCADPSVM,
    PPCADPMH,
    MODSuLQSVM,
    PrivateSVM,
    PrivBayes,
)
from dppca.common.papers.base import noised_rows, second_moment
from dppca.common.papers.base.party_tables import encode_rows, group_rows
from dppca.common.papers.networks import dp_subn3, fitting, noised_counts
from dppca.common.papers.networks.noised_counts import PooledCounts, count_sets, release_counts
from dppca.common.papers.ppca import party_moments
from dppca.common.papers.ppca.forms import corrected_moments, resolve_settings
from dppca.owner.selftest.draws import bound_epsilon
from tests.support.noise import less_noise, seed_noise
from tests.support.studies import binary_of, make_schema

LEVEL = 1e-7
N_RELEASES = 4_000
THRESHOLDS = (0.0, 0.1, 0.25, 0.5, 0.7, 0.9, 1.2)  # of the claimed epsilon; public, not fitted
A_BOUND = 4 * len(THRESHOLDS) * LEVEL  # that one honest estimator fails
N_AUDITS = 10
FALSE_ALARMS = N_AUDITS * A_BOUND
pytestmark = [
    pytest.mark.filterwarnings("ignore::dppca.NoiseWarning")  # tables of one row
]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Audit:
    """An estimator, two neighbouring tables, and what distinguishes them best.

    Attributes
    ----------
    make
        The estimator.
    release
        Its release of a table: the part of ``fit`` that meets noise, or all of it.
    a, b
        The tables.
    loss
        Log-likelihood ratio of one release, a against b.
    n_releases, planted
        How many of each; what the noise's scale is divided by for the audit to find it out.
    """

    make: Callable[[], Any]
    release: Callable[[Any, Any], Any]
    a: Any
    b: Any
    loss: Callable[[Any], float]
    n_releases: int = N_RELEASES
    planted: int = 3


def laplace_ratio(z: Vector, x: Vector, y: Vector, scale: float) -> float:
    return float((np.abs(z - y) - np.abs(z - x)).sum() / scale)


def gaussian_ratio(z: Vector, x: Vector, y: Vector, variance: float) -> float:
    return float((((z - y) ** 2) - ((z - x) ** 2)).sum() / (2 * variance))


def triangle(matrix: Vector) -> Vector:
    return np.asarray(matrix[np.triu_indices(len(matrix))])


PLAIN: dict[str, Any] = {"n_components": 1, "allow_constant": True}
CLASSES = (0, 1)
C = 0.3


def fitted(model: Any, table: Any) -> Any:
    return model.fit(*table)


# The second moment of one row; the triangle of (x x' - y y') is as long as it can be.

ANGLE = math.atan(0.5) / 2
FAR_IN_L1 = [np.array([[math.cos(at), math.sin(at)]]) for at in (ANGLE, ANGLE + math.pi / 2)]
FAR_IN_L2 = [np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])]


def moment_audit(make: Callable[[], Any], a: Vector, b: Vector) -> Audit:
    def loss(released: Any) -> float:
        noise = released.calibration
        x, y = triangle(a.T @ a), triangle(b.T @ b)
        sens, unit = noise.sensitivity, 4.0**noise.sensitivity.resolution_bits
        z = triangle(released.matrix)
        if isinstance(noise.law, LaplaceLaw):
            assert np.abs(x - y).sum() >= 0.95 * sens.l1 / unit, "these are not the worst"
            return laplace_ratio(z, x, y, noise.law.scale / unit)
        assert np.square(x - y).sum() >= 0.95 * sens.l2_squared / unit**2
        return gaussian_ratio(z, x, y, noise.law.width**2 / unit**2)

    return Audit(make, lambda model, rows: model._release(rows), a, b, loss)


# The weights of a machine that has seen one row, of one class or of the other.


@cache
def weights_of(rows: tuple[tuple[float, ...], ...], sign: float) -> Vector:
    return solve_hinge(sign * np.array(rows), C=C, gap=1e-12).weights


def weight_loss(z: Vector, row: tuple[float, ...], sensitivity: float) -> float:
    x, y = weights_of((row,), 1.0), weights_of((row,), -1.0)
    assert np.linalg.norm(x - y) >= 0.95 * sensitivity, "these are not the worst"
    return laplace_ratio(z, x, y, math.sqrt(len(row)) * sensitivity)  # epsilon is 1


def dpsvm_loss(model: Any) -> float:
    z = np.append(model.coef_, model.intercept_)
    return weight_loss(z, (1.0, 1.0), model.guarantee_.sensitivity)


def private_svm() -> PrivateSVM:
    return PrivateSVM(
        epsilon=1,
        max_rows_per_person=1,
        n_pairs=1,
        C=C,
        classes=CLASSES,
        allow_constant=True,
        random_state=0,
    )


def private_svm_loss(model: Any) -> float:
    half = math.sqrt(0.5)  # cosine and sine where they are equal
    return weight_loss(model.coef_[0], (half, half), model.guarantee_.sensitivity)


def equal_pair() -> list[list[float]]:
    model = private_svm()
    model._choose_basis(1)  # as every fit does
    frequency = float(model.frequencies_[0, 0])
    return [[math.pi / 4 / frequency]]


def pcadp_loss(model: Any) -> float:
    """Both tables have one second moment: given the components, only the weights tell."""
    row = np.append(model.components_ @ [1.0, 0.0], 1.0)
    rest = np.array([[0.0, 1.0], [0.0, -1.0]])  # two rows at the origin, one of each class
    x, y = (
        solve_hinge(np.vstack([sign * row, rest]), C=C, gap=1e-9).weights for sign in (1.0, -1.0)
    )
    z = np.append(model.coef_, model.intercept_)
    return laplace_ratio(z, x, y, math.sqrt(2) * model.guarantee_.sensitivity / 0.99)


# Rows at opposite ends of the ball, of different classes.


def release_table(model: Any, table: Any) -> Any:
    rows, codes = table
    model.classes_ = np.array(CLASSES)
    _, labels, guarantee = model._release(np.array(rows), np.array(codes))
    return model.noised_rows_[0], labels[0], guarantee


def dpsvd_loss(released: Any) -> float:
    row, label, guarantee = released
    variance = 4 / (2 * float(guarantee.charge.rho))
    x = np.array([1.0, 0.0])
    return gaussian_ratio(row, x, -x, variance) + (1.0 if label == 1 else -1.0)


# Moments of one party's rows of two binaries: one row is turned from (0, 0) to (1, 1).

SCHEMA = make_schema(
    [binary_of(name, [0, 1]) for name in ("first", "second")],
    resolution_bits=6,
    max_rows_per_person=1,
)


def release_moments(model: Any, rows: Any) -> Any:
    codes = encode_rows(SCHEMA, np.array(rows, float))
    parties = group_rows(None, len(rows))
    return corrected_moments(codes, parties, SCHEMA, resolve_settings(model), entropy=model.entropy)


def sums_of(moments: Any, n_rows: int) -> Vector:
    return n_rows * np.append(moments.mean, moments.second[0, 1])


def gu_loss(released: Any) -> float:
    moments, _, guarantee = released
    x, y = np.array([0.5, -0.5, 0.25]), np.array([-0.5, -0.5, 0.25])
    assert np.abs(x - y).sum() >= 0.6
    return laplace_ratio(sums_of(moments, 1), x, y, guarantee.sensitivity)


# All noised counts of a network's fit, step after step. A single row has no dependence, so choices
# tell nothing here; `tests/merge/unit/common/papers/base/test_exponential.py` tests their law.
TRIPLES = make_schema([binary_of(name, [0, 1]) for name in "abc"], max_rows_per_person=1)
NETWORK_ROWS = np.zeros((1, 3)), np.ones((1, 3))


def fit_network(model: Any, rows: Vector) -> Any:
    return model.fit([rows] if isinstance(model, DPSUBN3) else rows)


def release_network(model: Any, rows: Vector) -> list[PooledCounts]:
    released: list[PooledCounts] = []

    def watched(*args: Any, **settings: Any) -> PooledCounts:
        released.append(release_counts(*args, **settings))
        return released[-1]

    with (
        mock.patch.object(dp_subn3, "release_counts", watched),
        mock.patch.object(fitting, "release_counts", watched),
    ):
        fit_network(model, rows)
    return released


def network_loss(released: list[PooledCounts]) -> float:
    total = 0.0
    for pooled in released:
        for attributes, table in pooled.tables.items():
            x, y = (count_sets(row.astype(int), attributes, (2, 2, 2)) for row in NETWORK_ROWS)
            total += laplace_ratio(table, x, y, pooled.calibration.law.width)
    return total


def network_audit(kind: type[Any]) -> Audit:
    make = partial(kind, epsilon=1, schema=TRIPLES)
    return Audit(make, release_network, *NETWORK_ROWS, network_loss, n_releases=1_500, planted=4)


AUDITS = {
    "DP-SUBN3": network_audit(DPSUBN3),
    "PrivBayes": network_audit(PrivBayes),
    "DPPCA-SVM": moment_audit(lambda: DPPCASVM(epsilon=1, max_rows_per_person=1), *FAR_IN_L1),
    "AG-SVM": moment_audit(lambda: AGSVM(epsilon=2, max_rows_per_person=1, delta=0.05), *FAR_IN_L2),
    "MOD-SuLQ-SVM": moment_audit(
        lambda: MODSuLQSVM(epsilon=8, max_rows_per_person=1, delta=0.05), *FAR_IN_L2
    ),
    "DP-SVM": Audit(
        lambda: DPSVM(epsilon=1, max_rows_per_person=1, C=C, classes=CLASSES, allow_constant=True),
        fitted,
        ([[1.0]], [1]),
        ([[1.0]], [0]),
        dpsvm_loss,
        n_releases=2_500,
    ),
    "PrivateSVM": Audit(
        private_svm,
        fitted,
        (equal_pair(), [1]),
        (equal_pair(), [0]),
        private_svm_loss,
        n_releases=2_500,
    ),
    "PCA-DPSVM": Audit(
        lambda: PCADPSVM(epsilon=1, max_rows_per_person=1, C=C, components_share=0.01, **PLAIN),
        fitted,
        ([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [1, 1, 0]),
        ([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [0, 1, 0]),
        pcadp_loss,
        n_releases=1_000,
        planted=4,
    ),
    "DPSVD": Audit(
        lambda: DPSVD(epsilon=1, max_rows_per_person=1, delta=0.05, label_epsilon=1),
        release_table,
        ([[1.0, 0.0]], [1]),
        ([[-1.0, 0.0]], [0]),
        dpsvd_loss,
        planted=6,
    ),
    "PPCA-DP-MH": Audit(
        lambda: PPCADPMH(epsilon=1, max_rows_per_person=1),
        release_moments,
        [[1, 0]],
        [[0, 0]],
        gu_loss,
        planted=6,
    ),
}


def audited_epsilon(audit: Audit) -> tuple[float, float]:
    """Lower bound on the epsilon that an estimator spends at its delta, and its claim."""
    guarantee = guarantee_of(audit)
    claim, delta = float(guarantee.epsilon), float(guarantee.delta)
    n = audit.n_releases
    from_a, from_b = (
        np.array([audit.loss(audit.release(audit.make(), table)) for _ in range(n)])
        for table in (audit.a, audit.b)
    )
    spent = bound_epsilon(
        from_a, from_b, claim=claim, delta=delta, level=A_BOUND, thresholds=THRESHOLDS
    )
    return spent, claim


def guarantee_of(audit: Audit) -> Any:
    """The claim, from a table that the whole of ``fit`` takes."""
    model = audit.make()
    if isinstance(model, DPSUBN3 | PrivBayes):
        return fit_network(model, audit.a).guarantee_
    model.set_params(allow_constant=True)
    if isinstance(model, PPCADPMH):
        model.set_params(schema=SCHEMA)
    # Enough rows that flipped labels leave one class with probability below 1e-20.
    rows, labels = ([[1, 0], [0, 1], [1, 1]] * 40, [0, 1, 1] * 40)
    if "n_components" in model.get_params():
        return model.set_params(n_components=1, **_wide(model)).fit(rows, labels).guarantee_
    return model.fit(*audit.a).guarantee_


def _wide(model: Any) -> dict[str, float]:
    return {"row_norm": 2.0} if "row_norm" in model.get_params() else {}


@pytest.mark.parametrize("name", AUDITS)
def test_an_estimator_spends_no_more_than_its_guarantee_says(name: str) -> None:
    assert len(AUDITS) == N_AUDITS
    spent, claim = audited_epsilon(AUDITS[name])
    assert spent <= claim


@pytest.mark.parametrize("name", AUDITS)
def test_the_audit_finds_noise_that_is_too_small(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = AUDITS[name]
    too_small = less_noise(mechanisms.add_noise, audit.planted)
    seed_noise(monkeypatch)
    for module in (party_moments, noised_counts, noised_rows, second_moment, weight_noise):
        monkeypatch.setattr(module, "add_noise", too_small)
    spent, claim = audited_epsilon(audit)
    assert spent > claim
