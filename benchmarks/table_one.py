"""What the answers of Table 1 cover, and how wide they are: ``python -m benchmarks.table_one``.

Each release is a fresh sample of a known population, with the real calibration and noise of a study
of three owners; all seeds are fixed. A cell says how many intervals of its releases held the
population's value (``held``), and how wide they are beside the interval of the rows themselves.

`docs/evidence/table-one.json` holds the cells.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from zlib import crc32

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.experiment import Found, KeyedTrial, keep_cells, run_trials
from benchmarks.releases import label_attribute, numeric_attribute, state_privacy, state_study
from benchmarks.studies import ROOT
from dppca.common.analysis.estimates.answers import EstimateAnswer
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.analysis.estimates.noise import MomentNoise
from dppca.common.analysis.estimates.questions import answer_study
from dppca.common.analysis.estimates.release import ReconciledMoments, expected_moments
from dppca.common.kernel.moments.moments import (
    compute_moments,
    unpack,
    unpack_histograms,
    unpack_tables,
)
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate, noise_moments
from dppca.common.kernel.schema import Column, encode, find_cells
from dppca.common.kernel.study import Study
from dppca.common.shell.console import run

EVIDENCE = ROOT / "docs/evidence/table-one.json"
OWNERS = 3
_PEOPLE = 200_000  # of a population
Draw = Callable[[np.random.Generator, int], list[Column]]


class Releases:
    """Releases of samples of ``rows`` rows from a population, by a study's own noise."""

    def __init__(self, study: Study, population: list[Column], *, rows: int, seed: int) -> None:
        self.study, self.rows, self.seed = study, rows, seed
        self._rows, self._cells = (
            encode(study.table, population),
            find_cells(study.table, population),
        )
        self._noise = calibrate(study)
        self._base = expected_moments(study, self._noise, _split(rows))

    def __iter__(self) -> Iterator[tuple[NDArray[np.intp], Estimates]]:
        """Yield the rows of a sample, and what its release answers, for ever."""
        rng, entropy = np.random.default_rng(self.seed), SeededEntropy(self.seed)
        while True:
            sample = rng.integers(0, len(self._rows), self.rows)
            yield sample, Estimates(self._release(sample, entropy))

    def truth(self) -> Estimates:
        """Return what the whole population answers, by a law of no noise."""
        exact = compute_moments(self._rows, self.study.table.layout, self._cells)
        found = self._moments(exact.packed, len(self._rows))
        silent = replace(found.noise.entry, deviation=0.0)
        counts = (replace(each, entry=replace(each.entry, deviation=0.0)) for each in found.counts)
        noise = MomentNoise(found.noise.layout, silent)
        return Estimates(replace(found, noise=noise, counts=tuple(counts)))

    def _release(self, sample: NDArray[np.intp], entropy: SeededEntropy) -> ReconciledMoments:
        layout = self.study.table.layout
        total: Any = 0
        for own in np.split(sample, np.cumsum(_split(self.rows))[:-1]):
            cells = [each[own] for each in self._cells]
            exact = compute_moments(self._rows[own], layout, cells)
            total = total + noise_moments(self.study, self._noise, exact, entropy=entropy)
        return self._moments(total, self.rows)

    def _moments(self, total: NDArray[np.int64], rows: int) -> ReconciledMoments:
        layout = self.study.table.layout
        mean, second = unpack(total, rows, layout)
        shares = [each for each in unpack_histograms(total, rows, layout) if each is not None]
        shares += unpack_tables(total, rows, layout)
        counts = tuple(
            replace(known, shares=np.asarray(found).reshape(known.shares.shape))
            for known, found in zip(self._base.counts, shares, strict=True)
        )
        assert mean is not None  # studies here have sums
        matrix = np.block([[np.ones((1, 1)), mean[None]], [mean[:, None], second]])
        return replace(self._base, matrix=self._base.noise.reconcile(matrix), counts=counts)


def _split(rows: int) -> list[int]:
    return [rows // OWNERS + (place < rows % OWNERS) for place in range(OWNERS)]


@dataclass(frozen=True, slots=True)
class TableOneTrial(KeyedTrial):
    """One cell: releases of a study under one noise, of the first or another series of seeds."""

    kind: str
    mechanism: str
    epsilon: str
    releases: int
    series: int = 1

    @property
    def seed(self) -> int:
        """Seed of the releases; that of the first series is of the record's first cells."""
        return crc32(self.key.removesuffix("/1").encode())

    def privacy(self) -> dict[str, str]:
        """Return the study's noise."""
        return state_privacy(self.epsilon, "1e-9" if self.mechanism == "gaussian" else None)


NUMBERS: dict[str, tuple[dict[str, Any], Callable[[np.random.Generator, int], Any]]] = {
    "normal": ({"lower": 0, "upper": 100, "bins": 50}, lambda r, n: r.normal(50, 20, n)),
    "lognormal": (
        {"lower": 0, "upper": 500000, "bins": 50},
        lambda r, n: np.exp(r.normal(10, 0.7, n)),
    ),
    "lognormal, score: log": (
        {"lower": 0, "upper": 500000, "bins": 50, "score": "log"},
        lambda r, n: np.exp(r.normal(10, 0.7, n)),
    ),
    "narrow": ({"lower": 0, "upper": 100, "bins": 50}, lambda r, n: r.normal(50.4, 2, n)),
    "heap of .45": (
        {"lower": 1, "upper": 99, "integer": True},
        lambda r, n: r.choice(
            [30.0, 35, 36, 37, 38, 39, 40, 41, 45, 50, 60],
            n,
            p=[0.05, 0.05, 0.03, 0.04, 0.05, 0.04, 0.45, 0.02, 0.12, 0.1, 0.05],
        ),
    ),
    "two values": (
        {"lower": 1, "upper": 99, "integer": True},
        lambda r, n: r.choice([10.0, 20.0], n, p=[0.5, 0.5]),
    ),
    "60 % at a bound": ({"lower": 0, "upper": 100, "bins": 50}, lambda r, n: r.normal(105, 20, n)),
}
GROUPS, SHARES = ("a", "b", "c", "d"), (0.55, 0.3, 0.1, 0.05)


def _quantiles(trial: TableOneTrial) -> list[Found]:
    """Quartiles and the tenth percentile of each number, and medians by group."""
    rng = np.random.default_rng(5)
    attributes = [
        {"name": f"x{place}", "type": "numeric", "histogram": True, **settings}
        for place, (settings, _) in enumerate(NUMBERS.values())
    ]
    attributes.append(label_attribute("arm", GROUPS))
    table = {"table": ["x0", "arm"], "cells": {"x0": 20}}
    study = state_study(
        "quantiles",
        {"attributes": attributes, "tables": [table]},
        trial.privacy(),
        owners=OWNERS,
    )
    arm = rng.choice(4, _PEOPLE, p=SHARES).astype(np.int32)
    columns = [np.asarray(draw(rng, _PEOPLE), dtype=float) for _, draw in NUMBERS.values()]
    columns[0] += 3.0 * arm
    coded = [
        np.clip(column, settings["lower"], settings["upper"])
        for column, (settings, _) in zip(columns, NUMBERS.values(), strict=True)
    ]
    releases = Releases(study, [*columns, arm], rows=5000, seed=trial.seed)
    levels = (0.1, 0.25, 0.5)
    truths = [np.quantile(each, levels, method="inverted_cdf") for each in coded]
    of_groups = [
        float(np.quantile(coded[0][arm == code], 0.5, method="inverted_cdf")) for code in range(4)
    ]
    found: dict[str, list[tuple[bool, float, float]]] = {}
    for _, (sample, asked) in zip(range(trial.releases), releases, strict=False):
        for place, name in enumerate(NUMBERS):
            ends = asked.quantile(f"x{place}", *levels).conf_int()
            own = _order_statistics(coded[place][sample], levels)
            for level, truth, interval, width in zip(levels, truths[place], ends, own, strict=True):
                found.setdefault(f"{name}, {level:g}", []).append(_judged(interval, truth, width))
        own_rows = coded[0][sample]
        for code, interval in enumerate(asked.median("x0", by="arm").conf_int()):
            width = _order_statistics(own_rows[arm[sample] == code], (0.5,))[0]
            name = f"median in a group of {SHARES[code]:g}"
            found.setdefault(name, []).append(_judged(interval, of_groups[code], width))
    return list(_cells(trial, found))


def _judged(interval: NDArray[np.float64], truth: float, own: float) -> tuple[bool, float, float]:
    low, high = interval
    return bool(low - 1e-9 <= truth <= high + 1e-9), float(high - low), own


def _cells(
    trial: TableOneTrial, found: dict[str, list[tuple[bool, float, float]]]
) -> Iterator[Found]:
    for what, each in found.items():
        held, width, own = np.array(each, dtype=float).T
        yield {
            "kind": trial.kind,
            "what": what,
            "noise": trial.mechanism,
            "epsilon": trial.epsilon,
            "series": trial.series,
            "releases": len(each),
            "held": round(float(held.mean()), 4),
            **({} if np.isnan(width).all() else {"width": _width(width)}),
            **({} if np.isnan(own).all() else {"own_width": float(f"{own.mean():.4g}")}),
        }


def _width(widths: NDArray[np.float64]) -> float | None:
    """Return the mean width; None where one is without end."""
    return float(f"{widths.mean():.4g}") if np.isfinite(widths).all() else None


def _order_statistics(values: NDArray[np.float64], levels: Sequence[float]) -> list[float]:
    """Return the width of the usual interval of quantiles, from the rows themselves."""
    ordered, n, found = np.sort(values), len(values), []
    for level in levels:
        half = 1.96 * np.sqrt(n * level * (1 - level))
        low, high = (int(np.clip(round(n * level + s * half), 0, n - 1)) for s in (-1, 1))
        found.append(float(ordered[high] - ordered[low]))
    return found


EVENTS = (1, 2, 3, 5)
"""True means of the numbers of rows with a label, in all rows and in a group of a tenth."""


def _counts(trial: TableOneTrial) -> list[Found]:
    """Shares of labels that a few rows have."""
    rng = np.random.default_rng(6)
    rows = 2000
    labels = [*(f"e{each}" for each in EVENTS), "none"]
    study = state_study(
        "counts",
        {"attributes": [label_attribute("event", labels), label_attribute("arm", ["a", "b"])]},
        trial.privacy(),
        owners=OWNERS,
    )
    arm = (rng.random(_PEOPLE) < 0.1).astype(np.int32)
    event = np.full(_PEOPLE, len(EVENTS), dtype=np.int32)
    start = 0
    order = np.concatenate([rng.permutation(np.flatnonzero(arm == 1)), np.flatnonzero(arm == 0)])
    for code, mean in enumerate(EVENTS):  # all of them in the small group
        many = round(_PEOPLE * mean / rows)
        event[order[start : start + many]] = code
        start += many
    releases = Releases(study, [event, arm], rows=rows, seed=trial.seed)
    found: dict[str, list[tuple[bool, float, float]]] = {}
    for _, (_, asked) in zip(range(trial.releases), releases, strict=False):
        alone = asked.proportion("event").conf_int()
        grouped = asked.table("event", "arm").conf_int()
        for code, mean in enumerate(EVENTS):
            truth = float((event == code).mean())
            within = asked.proportion(f"event=e{mean}", by="arm").conf_int()[1]
            in_group = float((event[arm == 1] == code).mean())
            for what, interval, value in (
                ("share", alone[code], truth),
                ("cell", grouped[2 * code + 1], truth),
                ("share in a group", within, in_group),
            ):
                name = f"{what}, mean of {mean}"
                found.setdefault(name, []).append(_judged(interval, value, np.nan))
    return list(_cells(trial, found))


def _spreads(trial: TableOneTrial) -> list[Found]:
    """Standard deviations by group, of numbers whose cells are one value, and of one in ranges."""
    rng = np.random.default_rng(8)
    whole = {"type": "numeric", "integer": True, "lower": 0}
    attributes = [
        {"name": "visits", **whole, "upper": 9},
        {"name": "days", **whole, "upper": 40},
        numeric_attribute("x", 0, 100),
        label_attribute("arm", GROUPS),
    ]
    tables: list[dict[str, Any]] = [{"table": [name, "arm"]} for name in ("visits", "days", "x")]
    tables[-1]["cells"] = {"x": 20}
    schema = {"attributes": attributes, "tables": tables}
    study = state_study("spreads", schema, trial.privacy(), owners=OWNERS)
    arm = rng.choice(4, _PEOPLE, p=SHARES).astype(np.int32)
    columns = [
        rng.poisson(1 + 0.5 * arm).clip(0, 9).astype(float),
        np.floor(rng.exponential(5 + 2 * arm)).clip(0, 40),
        rng.normal(50 + 3 * arm, 20 - 2 * arm).clip(0, 100),
    ]
    releases = Releases(study, [*columns, arm], rows=5000, seed=trial.seed)
    found: dict[str, list[tuple[bool, float, float]]] = {}
    for _, (sample, asked) in zip(range(trial.releases), releases, strict=False):
        for name, column in zip(("visits", "days", "x"), columns, strict=True):
            for code, interval in enumerate(asked.sd(name, by="arm").conf_int()):
                own = column[sample][arm[sample] == code]
                what = f"deviation of {name} in a group of {SHARES[code]:g}"
                judged = _judged(interval, float(column[arm == code].std()), _spread_width(own))
                found.setdefault(what, []).append(judged)
    return list(_cells(trial, found))


def _spread_width(values: NDArray[np.float64]) -> float:
    """Return the width of the usual interval of a standard deviation, from the rows themselves."""
    squared = np.square(values - values.mean())
    return float(1.96 * squared.std() / np.sqrt(len(values) * squared.mean()))


QUESTIONS = (
    "mean x by arm",
    "share ill=yes by arm",
    "ols y x sex",
    "correlation x y",
    "logit ill ~ sex + arm",
    "difference x by coin",
    "odds-ratio coin=b ill=yes",
    "ols y x coin",
)
"""A study's questions, of which those of ``coin`` have no effect at all."""


def _family(trial: TableOneTrial) -> list[Found]:
    """All answers to a study's questions together: intervals, and tests of what is no effect."""
    rng = np.random.default_rng(9)
    attributes = [
        numeric_attribute("x", 0, 100),
        numeric_attribute("y", 0, 100),
        label_attribute("sex", ["f", "m"]),
        label_attribute("ill", ["no", "yes"]),
        label_attribute("coin", ["a", "b"]),
        label_attribute("arm", GROUPS),
    ]
    schema = {"attributes": attributes, "tables": [{"table": ["sex", "arm"]}]}
    questions = list(QUESTIONS)
    study = state_study("family", schema, trial.privacy(), owners=OWNERS, questions=questions)
    half = _PEOPLE // 2
    sex, arm = rng.integers(0, 2, half), rng.choice(4, half, p=SHARES)
    x = rng.normal(50 + 4 * arm, 15).clip(0, 100)
    y = rng.normal(20 + 0.5 * x + 5 * sex, 12).clip(0, 100)
    ill = rng.random(half) < 1 / (1 + np.exp(1 - 0.6 * sex - 0.3 * arm))
    columns = [np.tile(each, 2) for each in (x, y, sex, ill)]
    columns += [np.repeat([0, 1], half), np.tile(arm, 2)]
    columns[2:] = [each.astype(np.int32) for each in columns[2:]]
    releases = Releases(study, columns, rows=5000, seed=trial.seed)
    truths = [each.params for each in answer_study(releases.truth())]
    assert all(np.isfinite(each).all() for each in truths), "an estimate has no truth to hold"
    null = [each.endswith(("by coin", "x coin")) or "coin=b" in each for each in QUESTIONS]
    found: dict[str, list[tuple[bool, float, float]]] = {}
    for _, (_, asked) in zip(range(trial.releases), releases, strict=False):
        answers = answer_study(asked)
        alone = [replace(each, adjustment=None) for each in answers]
        for name, own in (("adjusted for all", answers), ("each 95 %", alone)):
            held = all(map(_holds, own, truths))
            found.setdefault(f"all intervals, {name}", []).append((held, np.nan, np.nan))
        each_held = np.mean(np.concatenate([*map(_held, alone, truths)]))
        found.setdefault("an interval, each 95 %", []).append((each_held, np.nan, np.nan))
        rejected = any(
            each.pvalues[-1] <= 0.05
            for each, is_null in zip(answer_study(asked, "holm"), null, strict=True)
            if is_null
        )
        found.setdefault("a true null rejected, Holm", []).append((rejected, np.nan, np.nan))
    return list(_cells(trial, found))


def _held(answer: EstimateAnswer, truth: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which estimates' intervals hold the truth; one that is refused holds it."""
    low, high = np.nan_to_num(answer.conf_int(), nan=0.0).T
    refused = np.array([each.refused is not None for each in answer.estimates])
    held: NDArray[np.bool_] = refused | ((low <= truth) & (truth <= high))
    return held


def _holds(answer: EstimateAnswer, truth: NDArray[np.float64]) -> bool:
    return bool(_held(answer, truth).all())


INTERVALS = 10
RATIO = 1.25
"""Ratio of hazards at which the power of the log-rank test is measured."""


def _survival(trial: TableOneTrial, intervals: int = INTERVALS) -> list[Found]:
    """Log-rank tests of equal and of different hazards; survival and its median."""
    found: dict[str, list[tuple[bool, float, float]]] = {}
    for ratio, what in ((1.0, "level"), (RATIO, "power")):
        rng = np.random.default_rng(7)
        parts = {"table": ["time", "ill", "arm"], "cells": {"time": intervals}}
        attributes = [
            numeric_attribute("time", 0, 2),
            label_attribute("ill", ["no", "yes"]),
            label_attribute("arm", ["a", "b"]),
        ]
        schema = {"attributes": attributes, "tables": [parts]}
        study = state_study("survival", schema, trial.privacy(), owners=OWNERS)
        arm = (rng.random(_PEOPLE) < 0.3).astype(np.int32)
        lasts = rng.exponential(1 / np.where(arm == 1, ratio, 1.0))
        stays = rng.uniform(0, 3, _PEOPLE)
        time, ill = np.minimum(lasts, stays), ((lasts <= stays) & (lasts < 2)).astype(np.int32)
        releases = Releases(study, [time, ill, arm], rows=3000, seed=trial.seed)
        for _, (_, asked) in zip(range(trial.releases), releases, strict=False):
            answer = asked.survival("time", "ill=yes", by="arm")
            rejected = bool(answer.pvalues[-1] <= 0.05)
            found.setdefault(f"{what} of the log-rank test", []).append((rejected, np.nan, np.nan))
            if ratio != 1:
                continue
            ends = answer.conf_int()[intervals:]  # of the smaller group
            for part in (4 * intervals // 10, 8 * intervals // 10):
                truth = float(np.exp(-part * 2 / intervals))
                judged = _judged(ends[part - 1], truth, np.nan)
                found.setdefault(f"survival after {part} intervals", []).append(judged)
            judged = _judged(ends[intervals - 1], float(np.log(2)), np.nan)
            found.setdefault("median survival of a group of .3", []).append(judged)
    return list(_cells(trial, found))


KINDS: dict[str, Callable[[TableOneTrial], list[Found]]] = {
    "quantiles": _quantiles,
    "counts": _counts,
    "survival": _survival,
    "survival in 20 intervals": partial(_survival, intervals=20),
    "deviations": _spreads,
    "family": _family,
}


def measure(trial: TableOneTrial) -> Found:
    """Return the cells of a trial."""
    return {"cells": KINDS[trial.kind](trial)}


@cache
def trials(releases: int, series: int) -> list[TableOneTrial]:
    """Return all trials."""
    return [
        TableOneTrial(kind, mechanism, epsilon, releases, series)
        for kind in KINDS
        for mechanism in ("gaussian", "laplace")
        for epsilon in ("0.5", "1", "3", "8", *(("100",) if kind == "counts" else ()))
    ]


@click.command()
@click.option("--releases", default=400, show_default=True, type=click.IntRange(min=2))
@click.option("--kind", type=click.Choice(list(KINDS)), multiple=True)
@click.option("--epsilon", multiple=True, help="Trials of this budget alone; may be repeated.")
@click.option("--series", default=1, show_default=True, type=click.IntRange(min=1))
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(min=1))
@click.option("--runs", type=click.Path(path_type=Path), default=Path("results/table-one.jsonl"))
def cli(
    releases: int,
    kind: tuple[str, ...],
    epsilon: tuple[str, ...],
    series: int,
    jobs: int,
    runs: Path,
) -> None:
    """Simulate releases, and put their cells into the record."""
    chosen = [
        each
        for each in trials(releases, series)
        if (not kind or each.kind in kind) and (not epsilon or each.epsilon in epsilon)
    ]
    found = run_trials(chosen, runs, run=measure, jobs=jobs)
    cells = [each for one in found for each in one["cells"]]
    known_by = ("kind", "what", "noise", "epsilon", "series")
    keep_cells(EVIDENCE, cells, known_by=known_by, order=lambda each: [each[n] for n in known_by])
    for each in cells:
        click.echo(each)


if __name__ == "__main__":
    run(cli)
