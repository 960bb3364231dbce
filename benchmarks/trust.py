"""The same studies with either kind of trust: ``python -m benchmarks.trust NAME``.

With ``trust: owner`` each of m owners adds the whole noise; with ``aggregate`` (one colluder, two
openers, everybody comes) each adds a share. The noise is the product's, by its exact samplers, with
a seeded source of entropy. Masks change nothing of a sum and are left out: that a masked sum is the
sum of the vectors is tested elsewhere.

`docs/evidence/trust.json` holds the means; `docs/reference/trust.md` has those that decide, and a
test compares the two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, product
from math import sqrt
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any

import click
import numpy as np

from benchmarks.experiment import (
    Found,
    KeyedTrial,
    fill_tables,
    group_runs,
    keep_cells,
    markdown_table,
    mean_and_error,
    page_options,
    run_trials,
    shown,
)
from benchmarks.performance.machine import made_here
from benchmarks.releases import pool
from benchmarks.studies import ROOT
from benchmarks.synthesis.forms import PLAIN, SHAPED, TARGETED, find_form
from benchmarks.synthesis.judging import judge_rows
from benchmarks.synthesis.subjects import load_subject
from benchmarks.synthesis.trials import (
    EPSILONS,
    MECHANISMS,
    cached_moments,
    make_study,
    row_columns,
)
from dppca.common.analysis.rows.synthesis import synthesize
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.privacy.mechanisms import Calibration, add_noise
from dppca.common.kernel.privacy.noise.entropy import EntropySource, SeededEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Trust
from dppca.common.shell.console import run
from dppca.deploy.simulation.aggregation import Aggregation
from dppca.deploy.simulation.in_memory import make_parties

OWNERS = (3, 10, 30)
SEEDS = 3
FORMS = {"nltcs": PLAIN, "demo": SHAPED, "adult": TARGETED}
NOISE_DRAWS = 40_000
MASKING = Aggregation(colluders=1, openers=2)


@dataclass(frozen=True, slots=True)
class TrustTrial(KeyedTrial):
    """One study of one data set; the seed decides the split, the noise and the rows."""

    subject: str
    mechanism: str
    epsilon: str
    owners: int
    trust: str
    seed: int


def run_trial(trial: TrustTrial) -> Found:
    """Draw the noise, pool, make rows, judge them.

    ``noise`` is the standard deviation of the pooled noise, over that of one mechanism, in
    `NOISE_DRAWS` more draws of it; ``forecast`` is what it was expected to be: sqrt(m), or
    sqrt(m / h).
    """
    name, seed = trial.subject, trial.seed
    form = find_form(load_subject(name), FORMS[name])
    study = make_study(form, trial.mechanism, trial.epsilon, owners=trial.owners)
    if trial.trust == Trust.AGGREGATE:
        study = make_parties(study, MASKING, entropy=SeededEntropy(1)).study
    calibration = calibrate(study)
    moments = cached_moments(name, FORMS[name], seed, trial.owners)
    entropy = SeededEntropy(int.from_bytes(trial.key.encode()) % (1 << 64))
    vectors = [add_noise(each.packed, calibration, entropy=entropy) for each in moments]
    counts = [each.n_rows for each in moments]
    result = pool(study, calibration, counts, vectors)
    rng = np.random.default_rng([seed, trial.owners])
    made = synthesize(result, study, Form.DECODED, n_rows=sum(counts), rng=rng)
    columns = row_columns(made, study.table)
    return {
        **asdict(trial),
        **judge_rows(name, columns, seed),
        "noise": measure_noise(calibration, trial.owners, entropy=entropy),
        "forecast": float(np.sqrt(calibration.mechanisms(trial.owners))),
    }


def measure_noise(calibration: Calibration, owners: int, *, entropy: EntropySource) -> float:
    """Standard deviation of the sum of the owners' noises, over that of one mechanism."""
    zeros = np.zeros(NOISE_DRAWS, np.int64)
    noise = np.sum([add_noise(zeros, calibration, entropy=entropy) for _ in range(owners)], axis=0)
    one = calibration.law.deviation
    return float(np.sqrt(np.mean(noise.astype(np.float64) ** 2)) / one)


JSON_FILE, PAGE = ROOT / "docs/evidence/trust.json", ROOT / "docs/reference/trust.md"
CELL = ("subject", "mechanism", "epsilon", "owners", "trust")
LEAST_EPSILON, MOST_LOST, MOST_OFF = 0.2, 0.01, 0.02
"""What was asked: at this epsilon or more, m = 30 loses at most this accuracy against m = 3; and
the pooled noise of m = 10 is off its forecast by at most this share."""
SHORT_EPSILON = "0.2"
SHOWN_EPSILONS = (SHORT_EPSILON, "1")


def summarize(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Means of each cell."""
    return [
        {
            **dict(zip(CELL, key, strict=True)),
            "runs": len(runs),
            "accuracy": mean_and_error([run["accuracy"] for run in runs]),
            "pairs": mean_and_error([run["pairs"] for run in runs]),
            "noise": round(sqrt(fmean(run["noise"] ** 2 for run in runs)), 4),
            "forecast": round(runs[0]["forecast"], 4),
        }
        for key, runs in group_runs(results, CELL).items()
    ]


def keep(cells: Sequence[dict[str, Any]]) -> None:
    """Put cells into the committed file in place of older ones, and make the page again."""
    fresh = [{**cell, **made_here()} for cell in cells]
    PAGE.write_text(page(keep_cells(JSON_FILE, fresh, known_by=CELL, order=_key)))


def page(document: Mapping[str, Any]) -> str:
    """The page, with its tables made again."""
    cells = document["cells"]
    lines = (fill(e, 110, initial_indent="- ", subsequent_indent="  ") for e in asked(cells))
    return fill_tables(PAGE, {"short": _short(cells), "asked": "\n".join([*lines, ""])})


def full_tables(cells: Sequence[Mapping[str, Any]]) -> str:
    """Every figure, and whether what was asked holds."""
    parts = [*(f"- {line}" for line in asked(cells)), ""]
    for subject, group in groupby(cells, key=lambda cell: cell["subject"]):
        parts += [f"## {subject}\n", _table(list(group))]
    return "\n".join(parts)


def _short(cells: Sequence[Mapping[str, Any]]) -> str:
    """Accuracy of the first target of each data set with Laplace noise, by the number of owners."""
    shown_cells = [
        cell
        for cell in cells
        if cell["epsilon"] in SHOWN_EPSILONS and cell["mechanism"] == "laplace"
    ]
    by = ("subject", "epsilon", "trust")
    rows = []
    for (subject, *facts), group in group_runs(shown_cells, by).items():
        accuracy = {cell["owners"]: next(iter(cell["accuracy"].values()))[0] for cell in group}
        target = next(iter(group[0]["accuracy"]))
        means = (f"{accuracy[m]:.3f}" if m in accuracy else "–" for m in OWNERS)
        rows.append([f"{subject}, {target}", *facts, *means])
    header = ["data, target", "ε", "trust", *(f"{m} owners" for m in OWNERS)]
    return markdown_table(header, rows, words=(0, 2))


def asked(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Whether what was asked holds, in words."""
    sums = {_key(cell): cell for cell in cells if cell["trust"] == Trust.AGGREGATE}
    lost, off = [], []
    for key, cell in sums.items():
        subject, mechanism, epsilon, owners, trust = key
        if owners == 10:
            off.append((abs(cell["noise"] / cell["forecast"] - 1), key))
        many = sums.get((subject, mechanism, epsilon, 30, trust))
        if owners == 3 and many is not None and float(epsilon) >= LEAST_EPSILON:
            lost += [
                (cell["accuracy"][name][0] - many["accuracy"][name][0], (*key[:3], name))
                for name in cell["accuracy"]
            ]
    return [
        _worst(lost, MOST_LOST, "accuracy lost from 3 to 30 owners with aggregate, ε ≥ 0.2"),
        _worst(off, MOST_OFF, "pooled noise of 10 owners against its forecast"),
    ]


def short_table(cells: Sequence[Mapping[str, Any]]) -> str:
    """The table of the README: Gaussian noise at ``SHORT_EPSILON``, the first target of each."""
    owners = sorted({cell["owners"] for cell in cells})
    rows = []
    chosen = [
        cell
        for cell in cells
        if (cell["mechanism"], cell["epsilon"]) == ("gaussian", SHORT_EPSILON)
    ]
    for (subject, trust), group in groupby(
        sorted(chosen, key=lambda cell: (cell["subject"], cell["trust"], cell["owners"])),
        key=lambda cell: (cell["subject"], cell["trust"]),
    ):
        row = [next(iter(cell["accuracy"].items())) for cell in group]
        means = (f"{mean:.3f}" for _, (mean, _) in row)
        rows.append((f"{subject}, {row[0][0]}: `trust: {trust}`", *means))
    header = (f"accuracy at ε = {SHORT_EPSILON}", *(f"{m} owners" for m in owners))
    return markdown_table(header, rows)


def _worst(found: Sequence[tuple[float, tuple[Any, ...]]], bound: float, what: str) -> str:
    if not found:
        return f"{what}: not measured"
    worst, where = max(found)
    missed = sum(value > bound for value, _ in found)
    verdict = "reached everywhere" if not missed else f"**missed** in {missed} of {len(found)}"
    place = ", ".join(map(str, where))
    return f"{what}: at most {bound:.2f} was asked; the worst is {worst:.3f} ({place}): {verdict}"


def _table(cells: Sequence[Mapping[str, Any]]) -> str:
    targets = list(cells[0]["accuracy"])
    columns = ["noise", "ε", "m", "trust", *targets, "pairs", "pooled noise", "forecast"]
    rows = []
    for cell in cells:
        row = [cell["mechanism"], cell["epsilon"], str(cell["owners"]), cell["trust"]]
        row += [shown(cell["accuracy"][name]) for name in targets]
        rows.append([*row, shown(cell["pairs"]), f"{cell['noise']:.3f}", f"{cell['forecast']:.3f}"])
    return markdown_table(columns, rows, words=(0, 3))


def _key(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(cell[name] for name in CELL)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(list(FORMS)), metavar="NAME ...")
@page_options("trust")
def cli(names: tuple[str, ...], *, path: Path, write: bool) -> None:
    """Judge studies of each data set NAME, or of all: nltcs, demo, adult.

    \b
    Examples:
      python -m benchmarks.trust nltcs
      python -m benchmarks.trust --write
    """
    cells = []
    for name in names or FORMS:
        trials = [
            TrustTrial(name, mechanism, epsilon, owners, trust.value, seed)
            for mechanism, epsilon, owners, trust, seed in product(
                MECHANISMS, EPSILONS, OWNERS, Trust, range(SEEDS)
            )
        ]
        cells += summarize(run_trials(trials, path, run=run_trial))
        if write:
            keep(cells)
    click.echo(full_tables(cells))


if __name__ == "__main__":
    run(cli)
