"""Releases of samples of a known population, by the real noise; what intervals cover.

A population is coded rows. Each release adds up a sample, drawn with replacement, and adds the
noise of every owner, as `dppca.common.kernel.privacy.mechanisms.add_noise` draws it. All seeds are
fixed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimates.answers import EstimateAnswer
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.analysis.estimates.noise import MomentNoise
from dppca.common.analysis.estimates.release import ReconciledMoments, expected_moments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.kernel.moments.moments import compute_moments, unpack
from dppca.common.kernel.privacy.counted_rows import count_rows
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import encode
from dppca.common.kernel.study import Study
from dppca.curator.planning.covariance_noise import JOINT_BITS, JOINT_SUM_WEIGHT
from dppca.deploy.simulation.aggregation import Aggregation
from dppca.deploy.simulation.in_memory import make_parties
from tests.support.studies import Attributes, binary_of, categorical_of, make_study, numeric_of

PEOPLE: Attributes = (
    numeric_of("age", 0, 100),
    numeric_of("years", 0, 20),
    numeric_of("score", 0, 100),
    binary_of("sex", ["f", "m"]),
    binary_of("ill", ["no", "yes"]),
    categorical_of("region", ["north", "east", "south", "west"]),
    categorical_of("job", ["a", "b", "c", "d", "e", "g"]),
)
"""Attributes of `people`."""
Question = Callable[[Estimates], EstimateAnswer]
QUESTIONS: dict[str, Question] = {
    "mean": lambda e: e.mean("score"),
    "share": lambda e: e.proportion("job"),
    "table": lambda e: e.table("sex", "region"),
    "difference of means": lambda e: e.difference("score", "sex"),
    "risk difference": lambda e: e.difference("ill", "region", ["east", "north"]),
    "group mean": lambda e: e.mean("score", by="region"),
    "group share": lambda e: e.mean("ill", by="region"),
    "odds ratio": lambda e: e.odds_ratio("sex=m", "ill=yes"),
    "relative risk": lambda e: e.relative_risk("region=south", "ill=yes"),
    "correlation": lambda e: e.correlation("age", "score", "sex"),
    "regression": lambda e: e.ols("score", ["age", "years", "sex", "region=east"]),
    "regression of a label": lambda e: e.ols("ill", ["sex", "region=east"], variance=None),
}
"""What is asked of releases of `PEOPLE`."""


@dataclass(frozen=True)
class Cell:
    """A law of noise: ``trust`` aggregate has one colluder."""

    law: str
    trust: str
    owners: int
    epsilon: str

    def study(self, attributes: Attributes, **changes: object) -> Study:
        """Make a study of some attributes, with real keys where owners share the noise."""
        names = [f"owner-{place}" for place in range(self.owners)]
        own: dict[str, object] = {"delta": "1e-9"} if self.law == "gaussian" else {}
        if self.law == "matrix-laplace":
            own = {"mechanism": self.law, "sum_weight": JOINT_SUM_WEIGHT}
            own |= {"resolution_bits": JOINT_BITS}
        study = make_study(
            attributes,
            owners=names,
            epsilon=self.epsilon,
            **{"max_rows": 1_000_000, **own, **changes},
        )
        if self.trust == "owner":
            return study
        return make_parties(study, Aggregation(1, 2), entropy=SeededEntropy(1)).study


def people(n: int = 40_000, *, seed: int = 1) -> list[NDArray[np.float64] | NDArray[np.int32]]:
    """Return n rows of `PEOPLE`: score is linear in others, with the same variance everywhere."""
    rng = np.random.default_rng(seed)
    sex, region = rng.integers(0, 2, n), rng.choice(4, n, p=[0.45, 0.3, 0.15, 0.1])
    job = rng.choice(6, n, p=[0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
    job = np.where(rng.random(n) < 0.3, region, job)
    age = 100 * rng.beta(2, 2.5, n)
    years = np.clip(14 * rng.beta(2, 2, n) + 0.06 * age, 0, 20)
    score = 20 + 0.25 * age + years + 6 * sex + 4 * (region == 1) + rng.normal(0, 7, n)
    ill = rng.random(n) < 0.1 + 0.25 * sex + 0.002 * age
    labels = [each.astype(np.int32) for each in (sex, ill, region, job)]
    return [age, years, np.clip(score, 0, 100), *labels]


def without_noise(asked: Estimates) -> Estimates:
    """Return the same numbers, as if they had no noise."""
    moments = asked.moments
    noise = MomentNoise(
        moments.noise.layout, replace(moments.noise.entry, deviation=0.0, of_rows=0.0)
    )
    return replace(asked, moments=replace(moments, noise=noise))


class Releases:
    """Releases of ``rows`` rows each from a population, coded, shape (N, p)."""

    def __init__(
        self, study: Study, population: NDArray[np.int32], *, rows: int = 15_000, seed: int = 0
    ) -> None:
        self.study, self.population, self.rows, self.seed = study, population, rows, seed
        owners = len(study.owners)
        self.calibration: Calibration = calibrate(study)
        self.base = expected_moments(study, self.calibration, [rows // owners] * owners)

    def moments(self, packed: NDArray[np.int64], *, n_rows: int) -> ReconciledMoments:
        """Return what a pooled vector of a study without cells says."""
        if self.study.table.layout.with_count:
            n_rows = count_rows(packed, self.study.table.layout)
        mean, second = unpack(packed, n_rows, self.study.table.layout)
        assert mean is not None
        matrix = np.block([[np.ones((1, 1)), mean[None]], [mean[:, None], second]])
        return replace(self.base, matrix=self.base.noise.reconcile(matrix))

    def truth(self, packed: NDArray[np.int64], *, n_rows: int) -> Estimates:
        """Estimate without noise, for these rows."""
        return without_noise(Estimates(self.moments(packed, n_rows=n_rows), EstimateScope(True)))

    @cached_property
    def of_population(self) -> Estimates:
        """The truth about the population."""
        sums = compute_moments(self.population, self.study.table.layout)
        return self.truth(sums.packed, n_rows=sums.n_rows)

    def draw(
        self, count: int, *, apart: Sequence[Sequence[int]] = ()
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield exact and noised sums of samples; columns ``apart`` are of other rows each."""
        rng, entropy = np.random.default_rng(self.seed), SeededEntropy(self.seed)
        layout, law = self.study.table.layout, self.calibration.law
        size, honest = layout.n_entries, self.calibration.n_honest_owners
        places = self.study.table.layout.halved_places
        halved = (np.arange(count)[:, None] * size + places).ravel()
        noise = np.zeros(count * size, dtype=np.int64)
        for _ in self.study.owners:
            if law.is_joint:
                drawn = [law.draw_release(layout, honest, entropy=entropy) for _ in range(count)]
                noise += np.concatenate(drawn)
            else:
                noise += law.of_entries.draw_entries(len(noise), halved, honest, entropy=entropy)
        for own in noise.reshape(count, size):
            sample = self.population[rng.integers(0, len(self.population), self.rows)]
            for columns in apart:
                others = rng.integers(0, len(self.population), self.rows)
                sample[:, columns] = self.population[np.ix_(others, columns)]
            exact = compute_moments(sample, self.study.table.layout).packed
            yield exact, exact + own


@dataclass
class Tally:
    """Estimates that were given, and intervals that held the truth; of some question."""

    given: int = 0
    held: int = 0
    asked: int = 0

    @property
    def share(self) -> float:
        """Share of the intervals that hold the truth."""
        return self.held / max(self.given, 1)

    def add(self, answer: EstimateAnswer, truth: NDArray[np.float64]) -> None:
        """Count an answer's intervals."""
        low, high = answer.conf_int().T
        given = ~np.isnan(low) & ~np.isnan(truth)
        self.asked += len(low)
        self.given += int(given.sum())
        self.held += int(((low <= truth) & (truth <= high))[given].sum())


def tally(
    releases: Releases, questions: Mapping[str, Question], *, count: int, these_rows: bool
) -> dict[str, Tally]:
    """Ask questions of many releases; the truth is the population's, or that of these rows."""
    found = {name: Tally() for name in questions}
    fixed = {name: ask(releases.of_population).params for name, ask in questions.items()}
    for exact, noised in releases.draw(count):
        asked = Estimates(releases.moments(noised, n_rows=releases.rows), EstimateScope(these_rows))
        of_rows = releases.truth(exact, n_rows=releases.rows) if these_rows else None
        for name, ask in questions.items():
            truth = fixed[name] if of_rows is None else ask(of_rows).params
            found[name].add(ask(asked), truth)
    return found


def coded_people(study: Study) -> NDArray[np.int32]:
    """Return `people`, coded."""
    return encode(study.table, people())


def pooled(cells: Sequence[Tally]) -> Tally:
    """Add tallies up."""
    return Tally(
        *(sum(getattr(each, name) for each in cells) for name in ("given", "held", "asked"))
    )
