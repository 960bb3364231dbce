"""C from public numbers: the smallest of a bound, and blind to the rows."""

import math
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.analysis.estimators.base.penalty import LARGEST, balanced_penalty
from dppca.common.analysis.estimators.base.weight_noise import plan_weights
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.papers import DPSVM, PCADPSVM, PrivateSVM

SEEDED = partial(SeededEntropy, 5)


@given(
    noise=st.floats(1e-3, 1e4),
    n_rows=st.integers(1, 10**7),
    radius=st.floats(0.1, 100),
    factor=st.floats(0.1, 10),
    score=st.floats(1e-3, 1e3),
)
def test_no_other_c_and_score_have_a_smaller_bound(
    noise: float, n_rows: int, radius: float, factor: float, score: float
) -> None:
    """4/B and equation (1) of `base.penalty`, at the best B for C or at any other."""

    def excess(C: float, B: float) -> float:
        return 4 / B + B**2 / (2 * n_rows * C * radius**2) + 2 * C * radius**2 * noise

    C = balanced_penalty(noise, n_rows=n_rows, radius=radius)
    assert 0 < C <= LARGEST
    best = (4 * n_rows * C * radius**2) ** (1 / 3)
    other = min(C * factor, LARGEST)
    assert excess(C, best) <= excess(other, score) * (1 + 1e-9)
    other_best = (4 * n_rows * other * radius**2) ** (1 / 3)
    assert excess(C, best) <= excess(other, other_best) * (1 + 1e-9)


@pytest.mark.parametrize("delta", [None, Decimal("1e-9")], ids=["laplace", "gaussian"])
def test_the_noise_that_it_weighs_is_the_noise_that_is_drawn(delta: Decimal | None) -> None:
    given: dict[str, Any] = {
        "n_machines": 3,
        "n_rows": 5_000,
        "radius": 2.0,
        "epsilon": Decimal("0.5"),
        "delta": delta,
        "max_rows_per_person": 2,
        "solver_tolerance": 0.01,
    }
    plan = plan_weights(9, C="auto", **given)
    if delta is None:  # L1 sensitivity K sqrt(D) (1 + 2 tau + h sqrt(D)) of s, for two rows
        change = 2 * 3 * 3 * (1.02 + 3 / 1024)
        by_hand = math.sqrt(2) * change / 0.5
    else:  # sigma of sqrt(K) (1 + 2 tau + h sqrt(D)) of s, for two rows
        by_hand = 2 * math.sqrt(3 / (2 * float(plan.calibration.charge.rho))) * (1.02 + 3 / 1024)
    assert pytest.approx(by_hand, rel=1e-4) == plan.deviation / plan.change
    assert pytest.approx(2 * (5_000 * 64 * by_hand**3) ** -0.25 / 4, rel=1e-4) == plan.C
    given_by_hand = plan_weights(9, C=plan.C, **given)
    assert given_by_hand == plan


def table(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-0.4, 0.4, size=(300, 4))
    return rows, np.where(rows[:, 0] > 0, "yes", "no")


MAKERS = [
    partial(DPSVM, max_rows_per_person=1),
    partial(PCADPSVM, max_rows_per_person=1, n_components=2),
    partial(PrivateSVM, max_rows_per_person=1, n_pairs=10),
]
NAMES = ["DPSVM", "PCADPSVM", "PrivateSVM"]


@pytest.mark.parametrize("make", MAKERS, ids=NAMES)
def test_c_is_that_given_else_grows_with_epsilon_whatever_the_rows_are(make: Any) -> None:
    def used(seed: int = 1, **settings: Any) -> float:
        return float(make(entropy=SEEDED, **settings).fit(*table(seed)).C_)

    assert used(1, epsilon="0.1") == used(2, epsilon="0.1") < 0.1
    assert used(epsilon="0.01") < used(epsilon=1) < used(epsilon=10**7) == LARGEST
    assert used(epsilon=1, C=0.25) == 0.25


@pytest.mark.parametrize("make", MAKERS[1:], ids=NAMES[1:])
def test_a_published_form_has_libsvms_c(make: Any) -> None:
    assert make(epsilon=1, variant="published", random_state=0).fit(*table(1)).C_ == 1.0
