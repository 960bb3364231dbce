"""``python -m benchmarks.synthesis.bins``: what rows are worth by the bins of a study's numbers.

One Gaussian noise for all owners (δ = 1e-9). Every numeric has a histogram, or products of its
bins: twenty, or what `dppca.curator.planning.proposals` proposes by the noise. The rule's constants
were chosen on the tables of `CALIBRATION`; what is shown is of other tables, with as many rows as
real ones and with four times as many. Beside them: a second study on trees, and trees at random.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_DOWN, Decimal
from functools import lru_cache
from math import hypot
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.experiment import (
    Found,
    KeyedTrial,
    group_runs,
    keep_cells,
    markdown_table,
    mean_and_error,
    page_options,
    read_runs,
    run_trials,
    shown,
)
from benchmarks.performance.machine import made_here
from benchmarks.releases import BITS, plain_attributes
from benchmarks.studies import ROOT
from benchmarks.synthesis.forms import SHAPES
from benchmarks.synthesis.judging import attribute_cells, find_reference, judge_machines
from benchmarks.synthesis.subjects import load_subject
from benchmarks.synthesis.trials import DELTA, make_study, release, row_columns, sum_parts
from dppca.common.analysis.comparison import compare_cells
from dppca.common.analysis.estimators.utility import judge_trees
from dppca.common.analysis.rows.synthesis import synthesize
from dppca.common.analysis.study_file import schema_from_document
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.accounting import epsilon_from_rho, rho_from_epsilon_delta
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.shell.console import run
from dppca.curator.planning.proposals import propose_numbers, with_bins
from dppca.deploy.simulation.aggregation import Refinement
from dppca.deploy.simulation.in_memory import Parties, continue_study

FILE = ROOT / "docs/evidence/bins.json"
HISTOGRAMS, RULE, TWENTY = "histograms", "rule", "20 bins"
ONE, RANDOM, ROUNDS = "one study", "random trees", "two rounds"
EPSILONS = ("0.2", "1", "3", "8")
CALIBRATION = ("curved-1", "curved-2", "rare-1", "rare-2")
SHOWN = ("nltcs", "adult", "curved-3", "rare-3")
REFINED = ("tiers-1", "curved-3")
FIGURES = {"trees": 1, "auc": 1, "pairs": -1, "triples": -1, "workload": -1}
"""Figures of a run, and whether more is better."""
_CALIBRATED = (HISTOGRAMS, "10 bins", "14 bins", TWENTY, "28 bins", "40 bins")
_SPLITS = 3
_CELL = ("subject", "form", "how", "epsilon", "times")
_TREES = {"count": 20, "leaves": 128, "seed": 0}


@dataclass(frozen=True, slots=True)
class BinsTrial(KeyedTrial):
    """One run; ``times`` rows are drawn for each real one."""

    subject: str
    form: str
    how: str
    epsilon: str
    times: int
    split: int


def list_trials() -> Iterator[BinsTrial]:
    """Every trial; of calibration tables, one split or two."""
    cells = [(name, form, ONE, 1) for name in SHOWN for form in (HISTOGRAMS, TWENTY, RULE)]
    cells += [(name, RULE, ONE, 4) for name in SHOWN]
    for split in range(_SPLITS):
        for epsilon in EPSILONS:
            for name, form, how, times in cells:
                if name != "nltcs" or form == RULE:  # it has no numbers: all forms are one
                    yield BinsTrial(name, form, how, epsilon, times, split)
            for name in CALIBRATION if split == 0 else CALIBRATION[::2] * (split == 1):
                for form in _CALIBRATED:
                    yield BinsTrial(name, form, ONE, epsilon, 1, split)
        for epsilon in ("1", "8"):
            for name in REFINED:
                for how in (RANDOM, ROUNDS) if name in SHOWN else (ONE, RANDOM, ROUNDS):
                    yield BinsTrial(name, HISTOGRAMS, how, epsilon, 1, split)
                if name in SHOWN:
                    yield from (
                        BinsTrial(name, TWENTY, h, epsilon, 1, split) for h in (RANDOM, ROUNDS)
                    )


def run_trial(trial: BinsTrial) -> Found:
    """Release, make rows, judge them."""
    name, split = trial.subject, trial.split
    real, subject = find_reference(name, split), load_subject(name)
    published = _publish(trial)
    rng = np.random.default_rng([split, 0, 2])
    n_rows = trial.times * len(real.training[0])
    made = synthesize(published.result, published.study, Form.DECODED, n_rows=n_rows, rng=rng)
    columns = row_columns(made, published.study.table)
    cells, _ = attribute_cells(subject.schema, columns, subject.edges)
    tables = compare_cells(np.column_stack(cells), real.cells, real.sizes)
    target = subject.targets[0].name
    trees = judge_machines(name, columns, split, judge_trees, coded=False)[target]
    return asdict(trial) | {
        "trees": trees.accuracy,
        "auc": trees.auc,
        "pairs": tables.two_way,
        "triples": tables.three_way,
        "workload": tables.workload,
    }


def schema_document(name: str, form: str, epsilon: str, how: str = ONE) -> dict[str, Any]:
    """What of a row is released."""
    subject = load_subject(name)
    attributes, shapes = plain_attributes(subject.schema), SHAPES.get(name, {})
    bins = 0 if form in (HISTOGRAMS, RULE) else int(form.split()[0])
    for each in attributes:
        if each["type"] == "numeric":
            each.update(shapes.get(each["name"], {}))
            whole = each["upper"] - each["lower"] + 1 if each.get("integer") else bins
            given = {"bins": int(min(bins, whole)), "products": "bins"}
            each.update(given if bins else {"histogram": True})
    targets = list({each.attribute: None for each in subject.targets})
    document = {"attributes": attributes, "sum_weight": 0.5, "targets": targets}
    if form == RULE:
        study = make_study(document, "gaussian", epsilon, owners=1)
        n_rows = len(find_reference(name, 0).training[0])
        found = propose_numbers(study.table, calibrate(study), owner_rows=[n_rows])
        if found is not None:
            proposed = with_bins(study.table, found.bins).model_dump(mode="json")
            document["attributes"] = proposed["attributes"]
    if how == RANDOM:
        document["random_trees"] = {**_TREES, "target": targets[0]}
    return document


def _publish(trial: BinsTrial) -> Published:
    rng = np.random.default_rng([trial.split, 0, 1])
    document = schema_document(trial.subject, trial.form, trial.epsilon, trial.how)
    epsilon = trial.epsilon
    if trial.how == ROUNDS:
        rho = rho_from_epsilon_delta(Decimal(epsilon), Decimal(DELTA)) / 2
        epsilon = str(epsilon_from_rho(rho, Decimal(DELTA)).quantize(Decimal("1e-4"), ROUND_DOWN))
    study = make_study(document, "gaussian", epsilon, owners=1)
    moments = _moments(trial.subject, trial.form, trial.epsilon, trial.how, trial.split)
    result = release(study, calibrate(study), moments, rng=rng)
    if trial.how != ROUNDS:
        return Published(study, result)
    asked = Refinement(load_subject(trial.subject).targets[0].attribute, Decimal(epsilon))
    entropy = SeededEntropy(0)
    second = continue_study(Parties(study, {}, {}), result, asked, entropy=entropy).study
    sums = sum_parts(trial.subject, second.table, trial.split, 1)
    before = Round(study, calibrate(study))
    found = release(second, calibrate(second), sums, rng=rng, first=before)
    return Published(second, replace(found, first=Published(study, result)))


@lru_cache(4)
def _moments(name: str, form: str, epsilon: str, how: str, split: int) -> tuple[Moments, ...]:
    document: Mapping[str, Any] = schema_document(name, form, epsilon, how)
    schema = schema_from_document({"resolution_bits": BITS, **document})
    return sum_parts(name, schema, split, 1)


def summarize(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Means of each cell; of the rule, what is worse than a rival by more than one standard error.

    The error is that of the difference of two means over the splits that both have.
    """
    groups = group_runs(results, _CELL)
    cells = []
    for key, runs in groups.items():
        name, form, how, epsilon, _ = key
        cell = dict(zip(_CELL, key, strict=True)) | {"runs": len(runs)}
        cell |= {figure: mean_and_error([each[figure] for each in runs]) for figure in FIGURES}
        rivals = [groups.get((name, each, ONE, epsilon, 1), ()) for each in (HISTOGRAMS, TWENTY)]
        if form == RULE and how == ONE and len(runs) > 1:
            cell["worse"] = [words for rival in rivals for words in _worse(runs, rival)]
        cells.append(cell)
    return cells


def _worse(runs: Sequence[Mapping[str, Any]], rival: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    splits = {each["split"] for each in runs}
    same = [each for each in rival if each["split"] in splits]
    for figure, sign in FIGURES.items() if same else ():
        own, other = (mean_and_error([each[figure] for each in group]) for group in (runs, same))
        if sign * (other[0] - own[0]) > hypot(own[1], other[1]):
            yield f"{figure} than {rival[0]['form']} by {abs(other[0] - own[0]):.4f}"


def shown_table(cells: Sequence[Mapping[str, Any]]) -> str:
    """Every cell, as Markdown."""
    header = [*_CELL, "runs", *FIGURES, "worse"]
    rows = [
        [
            *(str(cell[name]) for name in (*_CELL, "runs")),
            *(shown(cell[name], 4) for name in FIGURES),
            "; ".join(cell.get("worse", ())),
        ]
        for cell in cells
    ]
    return markdown_table(header, rows, words=range(4))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--only", default="", help="Only trials whose key has this in it, such as 'adult'.")
@click.option("--finished", is_flag=True, help="Take what the file of trials has, and run none.")
@page_options("bins")
def cli(*, jobs: int, only: str, finished: bool, path: Path, write: bool) -> None:
    """Judge rows by the bins of numbers, with the rule and without."""
    known = read_runs(path) if finished else None
    trials = [
        trial
        for trial in list_trials()
        if only in trial.key and (known is None or trial.key in known)
    ]
    cells = summarize(run_trials(trials, path, run=run_trial, jobs=jobs))
    if write:
        made = [{**cell, **made_here()} for cell in cells]
        keep_cells(FILE, made, known_by=_CELL, order=_order)
    click.echo(shown_table(cells))


def _order(cell: Found) -> tuple[Any, ...]:
    forms = (*_CALIBRATED, RULE)
    subjects = (*SHOWN, *REFINED[:1], *CALIBRATION)
    place = subjects.index(cell["subject"]), float(cell["epsilon"]), cell["how"]
    return (*place, forms.index(cell["form"]), cell["times"])


if __name__ == "__main__":
    run(cli)
