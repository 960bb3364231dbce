"""Where a paper's claim fails: attacks that no method with the printed epsilon could allow.

Each attack plays the game of the definition: two tables that differ in one row, both known to the
adversary, one of which was fitted. What the method gives out is looked at, and a table is named. If
the method were (epsilon, delta)-private, the rates of the answer "the first" would keep within

    P(first | first) <= e^epsilon P(first | second) + delta

and from bounds on the two rates (Clopper and Pearson 1934, each one-sided at 1e-7) follows a lower
bound on epsilon. Each attack exceeds the printed figure, by chance with probability below 1e-6.

The same attack is run on classifiers that are labelled `site-only` in their sound forms: it is why
they are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from dppca.common.kernel.privacy.labels import Label
from dppca.common.papers import AGSVM, DPPCASVM, DPSVD, DPSVMDVP, PCADPSVM, PPCADPMH, MODSuLQSVM
from dppca.owner.selftest.draws import bound_epsilon
from tests.support.estimators import ALL, PUBLISHED, SITE_ONLY

LEVEL = 1e-7
FALSE_ALARMS = 0.0  # the games have seeds: these rates say what an attack shows
N_GAMES = 150
N_ROWS = 60
pytestmark = [
    pytest.mark.filterwarnings("ignore::dppca.NoiseWarning")  # tables of a few rows
]

Vector = NDArray[np.float64]


def epsilon_at_least(right: int, wrong: int, n_games: int, delta: float) -> float:
    """Lower bound on epsilon from ``right`` of n and ``wrong`` of n answers "the first"."""
    answers = (np.repeat([1.0, -1.0], [said, n_games - said]) for said in (right, wrong))
    return bound_epsilon(*answers, claim=1.0, delta=delta, level=4 * LEVEL, thresholds=[0.0])


def tables() -> tuple[list[Vector], Vector]:
    """Two tables in the unit ball that differ in their first row, and the target of both."""
    rng = np.random.default_rng(5)
    first = rng.normal(size=(N_ROWS, 3)) * [1.0, 0.6, 0.4]
    first /= 1.01 * np.linalg.norm(first, axis=1).max()
    second = first.copy()
    second[0] = -first[0] * 0.9 / np.linalg.norm(first[0])
    return [first, second], (first[:, 0] + 0.2 * rng.normal(size=N_ROWS) > 0).astype(float)


def attacked_epsilon(make: Callable[[int], Any], first: Callable[[Any], bool]) -> float:
    """What `first`, asked which table a fitted estimator has seen, proves."""
    both, y = tables()
    answers = [[first(make(game).fit(X, y)) for game in range(N_GAMES)] for X in both]
    delta = float(make(0).get_params().get("delta") or 0)
    return epsilon_at_least(sum(answers[0]), sum(answers[1]), N_GAMES, delta)


def retrained(model: Any) -> bool:
    """Train the machine again on either table, in the released basis, and compare."""
    both, y = tables()
    codes = np.searchsorted(model.classes_, y)
    probe = np.eye(3) @ model.components_.T
    seen = model.machine_.decision_function(probe)
    misses = [
        np.abs(
            clone(model.machine_).fit(X @ model.components_.T, codes).decision_function(probe)
            - seen
        ).max()
        for X in both
    ]
    return bool(misses[0] < misses[1])


LEAKING = [name for name in SITE_ONLY if name != "DPSVD"]
LEAKING += [f"{name} published" for name in SITE_ONLY]


@pytest.mark.parametrize("name", LEAKING)
def test_a_classifier_of_raw_rows_in_a_private_basis_tells_which_rows(name: str) -> None:
    def make(seed: int) -> Any:
        return ALL[name](**({"random_state": seed} if name in PUBLISHED else {}))

    assert attacked_epsilon(make, retrained) > float(make(0).epsilon)
    guarantee = make(0).fit(tables()[0][0], tables()[1]).guarantee_
    assert guarantee.label is not Label.RELEASED
    assert "machine_" in guarantee.not_private


def test_components_without_noise_tell_which_rows() -> None:
    """PCA-DPSVM: the noise on the weights is of no use while V leaves bare."""
    both, _ = tables()

    def first(model: Any) -> bool:
        own = [np.linalg.eigh(X.T @ X)[1][:, ::-1].T for X in both]
        misses = [
            np.abs(np.abs(model.components_) - np.abs(V[: len(model.components_)])).max()
            for V in own
        ]
        return bool(misses[0] < misses[1])

    def make(seed: int) -> Any:
        return PCADPSVM(epsilon=1, max_rows_per_person=1, variant="published", random_state=seed)

    assert attacked_epsilon(make, first) > 1.0


def test_support_vectors_are_rows() -> None:
    """DPSVMDVP: anybody who was misclassified can be read off."""
    both, _ = tables()

    def first(model: Any) -> bool:
        return not (model.support_vectors_[0] == both[1][0]).all(axis=1).any()

    def make(seed: int) -> Any:
        return DPSVMDVP(epsilon=1, random_state=seed)

    assert attacked_epsilon(make, first) > 1.0


@pytest.mark.parametrize("latents", ["whitened", "literal"])
def test_latents_of_raw_rows_tell_which_rows(latents: str) -> None:
    """Gu's step 15: a synthetic row made from a row's own scores stays beside it."""
    rng = np.random.default_rng(2)
    along = rng.uniform(0.2, 0.8, size=(2_000, 1)) * [1, 1, -1] + [0, 0, 1]
    table = along + rng.uniform(-0.1, 0.1, size=along.shape)
    other = table.copy()
    table[0], other[0] = [0.05, 0.1, 0.95], [0.95, 0.9, 0.05]
    both = (table, other)

    def model_of(rows: Vector, seed: int) -> Any:
        return PPCADPMH(
            epsilon=1,
            max_rows_per_person=1,
            variant="published",
            latents=latents,
            bounds=(0, 1),
            n_components=2,
            random_state=seed,
        ).fit(rows)

    def first(model: Any) -> bool:
        """Where the row's own latents would put its synthetic row, before the isotropic noise."""
        offset = 0.5 if latents == "literal" else 0.0
        misses = []
        for rows in both:
            row = rows[0] - 0.5
            scores = model.components_ @ (row + offset - (0 if offset else model.mean_))
            if latents == "whitened":
                scores /= np.sqrt(model.eigenvalues_[: len(scores)])
            expected = model.model_.components @ scores + model.mean_
            misses.append(np.linalg.norm(model.synthetic_[0] - expected))
        return bool(misses[0] < misses[1])

    answers = [sum(first(model_of(rows, seed)) for seed in range(N_GAMES)) for rows in both]
    assert epsilon_at_least(answers[0], answers[1], N_GAMES, 0.0) > 1.0


def test_printed_guarantees_say_what_the_noise_spends() -> None:
    (X, _), y = tables()
    published: dict[str, Any] = {"epsilon": 1, "delta": 1e-5, "variant": "published"}
    published["max_rows_per_person"] = 1
    assert AGSVM(**published).fit(X, y).guarantee_.epsilon > 1
    assert DPSVD(**published).fit(X, y).guarantee_.epsilon > 1
    assert MODSuLQSVM(**published).fit(X, y).guarantee_.epsilon < 1
    loose = DPPCASVM(epsilon=1, max_rows_per_person=1, variant="published").fit(X, y).guarantee_
    # L1 sensitivity 3/n, noise for 6/n
    assert float(loose.epsilon) == pytest.approx(3 / 6, abs=1e-9)
