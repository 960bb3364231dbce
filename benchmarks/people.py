"""Studies of people: what a cap keeps and costs, and what 95 % intervals cover.

``python -m benchmarks.people``, with ``--write`` for ``docs/evidence/people.json`` and the table of
`docs/how-to/plan-a-study.md`.

*Caps*: two made tables of 10,000 people, with 3 rows on average and 32 at most, or 4 and 59; sick
people have more rows. For each cap c (``rows_counted``), and for ``unit: row`` with
``max_rows_per_person`` as large as it has to be: the noise of a mean, as a share of the number's
range (one owner, Laplace, epsilon 1), the weight kept, sum min(k, c) / sum k, and the bias of the
share of the ill, against that of rows.

*Coverage*: releases of samples of people from made populations of 40,000, in which rows of a person
are correlated and k depends on the outcome: nearly all of the variance between people, half of it,
nearly none, and a world in which people of one row have wider regressors and residuals
(``one-row``). Counted is how often an interval holds the value of the population, by the weights
min(1, c/k). The number that divides is public or, with ``neighbours: added`` or c above 1, noised.

Limits: sums over a sample of people are floating-point ones of whole vectors, rounded down; the
product's are exact, less than a unit away. The noise is drawn from a fixed seed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.experiment import (
    Found,
    KeyedTrial,
    fill_tables,
    group_runs,
    keep_cells,
    markdown_table,
    page_options,
    run_trials,
)
from benchmarks.performance.machine import made_here
from benchmarks.releases import label_attribute, numeric_attribute, owner_name, state_privacy
from benchmarks.studies import ROOT
from dppca.common.analysis.estimates.answers import EstimateAnswer
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.analysis.estimates.noise import MomentNoise, border
from dppca.common.analysis.estimates.release import ReconciledMoments, expected_moments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.study_file import study_from_document
from dppca.common.kernel.errors import TooFewRowsError
from dppca.common.kernel.moments.moments import unpack, unpack_tables
from dppca.common.kernel.privacy.counted_rows import require_rows, split_rows
from dppca.common.kernel.privacy.mechanisms import Calibration, add_noise
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Column, encode, find_cells
from dppca.common.kernel.study import Study
from dppca.common.shell.console import run

JSON_FILE, PAGE = ROOT / "docs/evidence/people.json", ROOT / "docs/how-to/plan-a-study.md"
POPULATION, SAMPLE, OWNERS, RELEASES, PART = 40_000, 6_000, 3, 400, 100
WORLDS = ("one-row", "half", "between", "within")
CAPS = (1, 3, 5, 8, 12)
TABLES = {"mean 3, most 32": (3.0, 32), "mean 4, most 59": (4.0, 59)}
_TABLE = {"table": ["ill", "sex", "region"]}
KINDS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "c = 1, epsilon 50": ("50", {}),  # small noise: sampling decides
    "c = 1, secret, epsilon 2": ("2", {"neighbours": "added"}),
    "c = 3, secret, epsilon 2": ("2", {"neighbours": "added", "rows_counted": 3}),
    "c = 1, a table, epsilon 50": ("50", {"tables": [_TABLE]}),
    "c = 3, a table, secret, epsilon 50": (
        "50",
        {"tables": [_TABLE], "neighbours": "added", "rows_counted": 3},
    ),
}
ATTRIBUTES = (
    numeric_attribute("x", 0, 100),
    numeric_attribute("score", 0, 100),
    label_attribute("sex", ["f", "m"]),
    label_attribute("ill", ["no", "yes"]),
    label_attribute("region", ["north", "east", "south", "west"]),
    label_attribute("year", ["1", "2", "3", "4"]),
)
QUESTIONS: Mapping[str, Callable[[Estimates], EstimateAnswer]] = {
    "mean": lambda asked: asked.mean("score"),
    "share": lambda asked: asked.proportion("ill"),
    "share of years": lambda asked: asked.proportion("year"),
    "means of groups": lambda asked: asked.mean("score", by="region"),
    "means of years": lambda asked: asked.mean("score", by="year"),
    "difference": lambda asked: asked.difference("score", "sex"),
    "table": lambda asked: asked.table("ill", "region"),
    "odds ratio": lambda asked: asked.odds_ratio("sex=m", "ill=yes"),
    "OLS": lambda asked: asked.ols("score", ["x", "sex", "region=east"]),
    "correlation": lambda asked: asked.correlation("x", "score"),
}

OF_TABLES: Mapping[str, Callable[[Estimates], EstimateAnswer]] = {
    "OLS of a label": lambda asked: asked.ols("ill=yes", ["sex", "region"]),
    "OLS of a rare label": lambda asked: asked.ols("region=west", ["sex", "ill"]),
    "OLS of a label, bound": lambda asked: asked.ols(
        "ill=yes", ["sex", "region"], variance="bound"
    ),
    "OLS of a rare label, bound": lambda asked: asked.ols(
        "region=west", ["sex", "ill"], variance="bound"
    ),
}
"""Questions of studies with a table, from which the sandwich is computed."""


def questions_of(kind: str) -> Mapping[str, Callable[[Estimates], EstimateAnswer]]:
    """Return what is asked of a study."""
    return OF_TABLES if "a table" in kind else QUESTIONS


@dataclass(frozen=True, slots=True)
class World:
    """Rows of people: k of each, shape (N,), and the columns of their rows, people together."""

    k: NDArray[np.int64]
    columns: list[Column]


def make_world(kind: str, n: int, *, seed: int) -> World:
    """Make people whose sickness decides how many rows they have, and what is in them."""
    rng = np.random.default_rng(seed)
    sickness = rng.gamma(0.7, 1, n)
    k = 1 + np.minimum(rng.poisson(3 * sickness / 0.7), 58)
    person, rows = np.repeat(np.arange(n), k), int(k.sum())
    z = np.log(sickness + 0.05)
    z = (z - z.mean()) / z.std()
    sex, region = rng.integers(0, 2, n), rng.choice(4, n, p=[0.45, 0.3, 0.15, 0.1])
    of_x, of_score = {"between": (1.0, 0.9), "within": (0.05, 0.1)}.get(kind, (0.5, 0.5))
    own = rng.normal(size=n) * 0.8 + 0.6 * z
    x = 14 * (sqrt(of_x) * own[person] + sqrt(1 - of_x) * rng.normal(size=rows))
    error = sqrt(of_score) * rng.normal(size=n)[person] + sqrt(1 - of_score) * rng.normal(size=rows)
    if kind == "one-row":
        alone = (k == 1)[person]
        x, error = np.where(alone, 2.2 * x, x), np.where(alone, 2 * error, 0.7 * error)
    score = 45 + 0.2 * x + 5 * sex[person] + 4 * (region[person] == 1) + 3 * z[person] + 9 * error
    ill = rng.random(rows) < 1 / (1 + np.exp(1.2 - z[person] - 0.5 * sex[person]))
    year = (np.arange(rows) - np.repeat(np.cumsum(k) - k, k)) % 4
    labels = [each.astype(np.int32) for each in (sex[person], ill, region[person], year)]
    return World(k, [np.clip(50 + x, 0, 100), np.clip(score, 0, 100), *labels])


def make_people_study(epsilon: str, **schema: Any) -> Study:
    """Make a study of people under Laplace noise; ``schema`` has its unit."""
    return study_from_document(
        {
            "name": "people",
            "owners": [owner_name(number) for number in range(OWNERS)],
            "privacy": state_privacy(epsilon, None),
            "components": {"count": 1},
            "schema": {"unit": "person", "attributes": list(ATTRIBUTES), **schema},
        }
    )


def person_vectors(study: Study, world: World) -> NDArray[np.float64]:
    """Return what each person adds, shape (N, D), by the weights min(1, c/k)."""
    layout, c = study.table.layout, study.table.rows_counted
    coded = encode(study.table, world.columns).astype(np.float64)
    first, second = layout.product_index
    rows = np.hstack([coded * layout.scaled_weight, coded[:, first] * coded[:, second]])
    starts = np.cumsum(world.k) - world.k
    weights = np.minimum(1, c / world.k)
    vectors = np.add.reduceat(rows * np.repeat(weights, world.k)[:, None], starts, axis=0)
    person, of_row = np.repeat(np.arange(len(world.k)), world.k), np.repeat(weights, world.k)
    for (size, unit), cells in zip(
        layout.counts, find_cells(study.table, world.columns), strict=True
    ):
        counted = np.zeros((len(world.k), size))
        np.add.at(counted, (person, cells), of_row * float(unit))
        vectors = np.hstack([vectors, counted])
    if not layout.with_count:
        return vectors
    counts = np.minimum(world.k, c)[:, None] * float(layout.count_unit)
    return np.hstack([vectors, counts])


class PeopleReleases:
    """Releases of samples of people from one world, and the truth about all of them."""

    def __init__(self, study: Study, world: World) -> None:
        self._study = study
        self._calibration: Calibration = calibrate(study)
        self._vectors = person_vectors(study, world)
        self._weights = np.minimum(world.k, study.table.rows_counted)
        self._expected: dict[int, ReconciledMoments] = {}

    @property
    def truth(self) -> Estimates:
        """Estimates of the population, as if they had no noise."""
        moments = self._moments(self._vectors.sum(axis=0), int(self._weights.sum()))
        entry = replace(moments.noise.entry, deviation=0.0, of_rows=0.0)
        noise = MomentNoise(moments.noise.layout, entry)
        counts = (
            replace(each, entry=replace(each.entry, deviation=0.0, of_rows=0.0))
            for each in moments.counts
        )
        return Estimates(replace(moments, noise=noise, counts=tuple(counts)), EstimateScope())

    def draw(self, seed: int) -> Estimates | None:
        """Return the estimates of a sample; None where its noised number is too small."""
        rng, entropy = np.random.default_rng(seed), SeededEntropy(seed)
        times = rng.multinomial(SAMPLE, np.full(len(self._weights), 1 / len(self._weights)))
        packed = np.floor(times @ self._vectors).astype(np.int64)
        for _ in range(OWNERS):
            packed = add_noise(packed, self._calibration, entropy=entropy)
        layout, n = self._study.table.layout, int(times @ self._weights)
        if layout.with_count:
            try:
                n = require_rows(packed, layout, self._calibration, n_owners=OWNERS)
            except TooFewRowsError:
                return None
        return Estimates(self._moments(packed, n), EstimateScope(False))

    def _moments(self, packed: NDArray[Any], n: int) -> ReconciledMoments:
        if n not in self._expected:
            rows = split_rows(n, OWNERS)
            self._expected = {n: expected_moments(self._study, self._calibration, rows)}
        base = self._expected[n]
        layout, whole = self._study.table.layout, np.rint(packed).astype(np.int64)
        mean, second = unpack(whole, n, layout)
        assert mean is not None
        counts = tuple(
            replace(known, shares=np.asarray(found).reshape(known.shares.shape))
            for known, found in zip(base.counts, unpack_tables(whole, n, layout), strict=True)
        )
        return replace(base, matrix=base.noise.reconcile(border(mean, second)), counts=counts)


@dataclass(frozen=True, slots=True)
class PeopleTrial(KeyedTrial):
    """Some releases of one world, by one unit; the ``part`` decides their seeds."""

    world: str
    kind: str
    part: int


def cover(trial: PeopleTrial) -> Found:
    """Count intervals that hold the population's value, and those that were given."""
    epsilon, schema = KINDS[trial.kind]
    study = make_people_study(epsilon, **schema)
    releases = PeopleReleases(study, make_world(trial.world, POPULATION, seed=7))
    questions = questions_of(trial.kind)
    truth = {name: ask(releases.truth).params for name, ask in questions.items()}
    found = {name: [0, 0] for name in questions}
    widths, refused = dict.fromkeys(questions, 0.0), 0
    for seed in range(trial.part * PART, (trial.part + 1) * PART):
        asked = releases.draw(seed + 1)
        if asked is None:
            refused += 1
            continue
        for name, ask in questions.items():
            low, high = ask(asked).conf_int().T
            widths[name] += float(np.nanmean(high - low))
            given = ~np.isnan(low) & ~np.isnan(truth[name])
            found[name][0] += int(((low <= truth[name]) & (truth[name] <= high))[given].sum())
            found[name][1] += int(given.sum())
    told = {"world": trial.world, "kind": trial.kind, "refused": refused, "found": found}
    given = max(PART - refused, 1)
    return told | {"widths": {name: total / given for name, total in widths.items()}}


def coverage_cells(runs: Sequence[Found]) -> list[Found]:
    """Return the share of intervals that hold the truth, for each world and unit."""
    cells = []
    for (world, kind), group in group_runs(runs, ("world", "kind")).items():
        sums = {
            name: np.sum([each["found"][name] for each in group], axis=0)
            for name in questions_of(kind)
        }
        held, given = np.sum(list(sums.values()), axis=0)
        cells.append(
            {
                "part": "coverage",
                "name": world,
                "unit": kind,
                "releases": PART * len(group),
                "refused": sum(each["refused"] for each in group),
                "pooled": round(float(held / given), 4),
                **{name: round(float(a / b), 4) if b else None for name, (a, b) in sums.items()},
                "widths": {
                    name: round(float(np.mean([each["widths"][name] for each in group])), 4)
                    for name in sums
                },
            }
        )
    return cells


def make_counts(mean: float, most: int, n: int, *, seed: int) -> World:
    """Make people whose k has a mean and a largest value; the sick ones have more rows."""
    rng = np.random.default_rng(seed)
    sickness = rng.gamma(0.8, 1, n)
    k = np.minimum(1 + rng.poisson(sickness / sickness.mean() * (mean - 1)), most)
    k[int(sickness.argmax())] = most
    z = np.log(sickness + 0.05)
    z = np.repeat((z - z.mean()) / z.std(), k)
    ill = rng.random(len(z)) < 1 / (1 + np.exp(2 - 1.2 * z))
    return World(k, [ill.astype(np.float64)])


def cap_cells() -> list[Found]:
    """Return noise, weight kept and bias for each table and cap, and for rows as they are."""
    cells = []
    for name, (mean, most) in TABLES.items():
        world = make_counts(mean, most, 10_000, seed=3)
        (ill,), k = world.columns, world.k
        for c in (*CAPS, None):
            weights = np.repeat(np.minimum(1, (c or most) / k), k)
            schema = {"unit": "row", "max_rows_per_person": most} if c is None else {}
            study = make_people_study("1", **(schema or ({"rows_counted": c} if c != 1 else {})))
            total = int(np.minimum(k, c or most).sum())
            noise = expected_moments(study, calibrate(study), [total]).noise.entry.deviation
            cells.append(
                {
                    "part": "caps",
                    "name": name,
                    "unit": "rows" if c is None else f"c = {c}",
                    "noise": round(noise, 5),
                    "kept": round(total / int(k.sum()), 4),
                    "bias": round(float((weights * ill).sum() / weights.sum() - ill.mean()), 4),
                    "average": round(float(k.mean()), 3),
                    "most": int(k.max()),
                }
            )
    return cells


def tables_of(document: Found) -> dict[str, str]:
    """Return the page's table, by its mark."""
    cells = [each for each in document["cells"] if each["part"] == "caps"]
    units = [*(f"c = {c}" for c in CAPS), "rows"]
    rows = []
    for name in TABLES:
        own = {each["unit"]: each for each in cells if each["name"] == name}
        for what, digits in (("noise", 4), ("kept", 2), ("bias", 3)):
            values = (f"{own[unit][what]:.{digits}f}" for unit in units)
            rows.append((name if what == "noise" else "", what, *values))
    return {"caps": markdown_table(("rows of a person", "", *units), rows, words=(0, 1))}


@click.command()
@page_options("people")
@click.option("--jobs", default=1, show_default=True, help="Processes.")
@click.option(
    "--world",
    "worlds",
    type=click.Choice(WORLDS),
    multiple=True,
    default=WORLDS,
    help="World of the coverage; all by default.",
)
def cli(path: Path, *, write: bool, jobs: int, worlds: Sequence[str]) -> None:
    """Measure caps and coverage, and print them; ``--write`` keeps both."""
    trials = [
        PeopleTrial(world, kind, part)
        for world in worlds
        for kind in KINDS
        for part in range(RELEASES // PART)
    ]
    runs = run_trials(trials, path, run=cover, jobs=jobs)
    cells = [*cap_cells(), *coverage_cells(runs)]
    for each in cells:
        click.echo(each)
    if write:
        document = keep_cells(
            JSON_FILE,
            [{**each, **made_here()} for each in cells],
            known_by=("part", "name", "unit"),
            order=lambda each: (each["part"], each["name"], each["unit"]),
        )
        PAGE.write_text(fill_tables(PAGE, tables_of(document)))


if __name__ == "__main__":
    run(cli)
