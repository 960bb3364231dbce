"""Synthetic rows without a delta: ``python -m benchmarks.pure_rows``.

Noise of a whole release beside Laplace noise at the same epsilon. A seed is a split of
`benchmarks.synthesis.judging` and a draw of noise, exact as a release draws it; rows are decoded,
as many as were released of. NLTCS has three owners, each of whom adds all of the noise; Adult has
one, in the forms of `benchmarks.synthesis.forms`. Laws see the same splits.

``spectral`` is the spectral norm of the error of the reconciled covariance, in coded units;
``accuracy`` that of a linear machine, ``trees`` that of boosted trees, ``pairs`` the mean total
variation of two-way tables. ``gain`` is what the joint law has more, seed by seed.

`docs/evidence/pure-rows.json` holds means and standard errors.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.experiment import (
    Found,
    KeyedTrial,
    cells_text,
    group_runs,
    mean_and_error,
    page_options,
    run_trials,
)
from benchmarks.releases import pool, state_study
from benchmarks.studies import ROOT
from benchmarks.synthesis.forms import PLAIN, TARGETED, find_form
from benchmarks.synthesis.judging import split_rows
from benchmarks.synthesis.subjects import load_subject
from benchmarks.synthesis.trials import judge, row_columns, sum_parts
from dppca.common.analysis.estimates.release import released_moments
from dppca.common.analysis.rows.synthesis import synthesize
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.moments.moments import unpack
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate, noise_moments
from dppca.common.kernel.study import Study
from dppca.common.shell.console import run
from dppca.curator.planning.covariance_noise import JOINT_BITS, JOINT_SUM_WEIGHT

EVIDENCE = ROOT / "docs/evidence/pure-rows.json"
SEEDS = 10
USUAL, JOINT = LAWS = ("laplace", "matrix-laplace")
CELL = ("subject", "form", "owners", "epsilon", "law")
RELEASES = (
    ("nltcs", PLAIN, 3, "0.1"),
    ("nltcs", PLAIN, 3, "0.2"),
    ("adult", PLAIN, 1, "1"),
    ("adult", TARGETED, 1, "1"),
)
MEASURES = ("spectral", "accuracy", "trees", "pairs", "triples")


@dataclass(frozen=True, slots=True)
class PureTrial(KeyedTrial):
    """One release under one law, and rows of it."""

    subject: str
    form: str
    owners: int
    epsilon: str
    law: str
    seed: int


def list_trials(seeds: int, only: str = "") -> list[PureTrial]:
    """Every trial whose key has ``only`` in it: one seed of all, then the next."""
    found = [
        PureTrial(*release, law, seed)
        for seed, release, law in product(range(seeds), RELEASES, LAWS)
    ]
    return [each for each in found if only in each.key]


@lru_cache(16)
def study_of(subject: str, form: str, owners: int, epsilon: str, law: str) -> Study:
    """The study of a cell; a joint law has the weight and the grid that drafts give it."""
    schema = dict(find_form(load_subject(subject), form))
    if law == JOINT:
        schema |= {"sum_weight": JOINT_SUM_WEIGHT, "resolution_bits": JOINT_BITS}
    return state_study("rows", schema, {"mechanism": law, "epsilon": epsilon}, owners=owners)


def run_trial(trial: PureTrial) -> Found:
    """Release, draw rows, judge both."""
    facts = asdict(trial)
    study = study_of(*(facts[name] for name in CELL))
    calibration, entropy = calibrate(study), SeededEntropy(trial.seed)
    parts = sum_parts(trial.subject, study.table, trial.seed, trial.owners)
    counts = [each.n_rows for each in parts]
    vectors = [noise_moments(study, calibration, each, entropy=entropy) for each in parts]
    result = pool(study, calibration, counts, vectors)
    rng = np.random.default_rng([trial.seed, 2])
    made = synthesize(result, study, Form.DECODED, n_rows=sum(counts), rng=rng)
    judged = judge(trial.subject, row_columns(made, study.table), trial.seed)
    return facts | judged | {"spectral": _off(Published(study, result), trial)}


def _off(published: Published, trial: PureTrial) -> float:
    """Spectral norm of the error of the covariance."""
    subject, schema = load_subject(trial.subject), published.study.table
    training = split_rows(subject.n_rows, trial.seed)[0]
    exact = accumulate_moments(schema, [column[training] for column in subject.columns])
    mean, second = unpack(exact.packed, exact.n_rows, schema.layout)
    matrix = released_moments(published).matrix
    assert mean is not None
    assert matrix is not None
    error = matrix[1:, 1:] - np.outer(matrix[0, 1:], matrix[0, 1:])
    error -= second - np.outer(mean, mean)
    return float(np.abs(np.linalg.eigvalsh(error)).max())


def summarize(runs: Sequence[Mapping[str, Any]]) -> list[Found]:
    """A cell for each release and law; that of the joint law has its ``gain``."""
    cells = []
    for key, own in group_runs(runs, CELL).items():
        cell: Found = dict(zip(CELL, key, strict=True)) | {"runs": len(own)}
        cell |= {name: mean_and_error([each[name] for each in own]) for name in MEASURES}
        if cell["law"] == JOINT:
            usual = [
                each for each in runs if _release(each) == _release(own[0]) and each["law"] == USUAL
            ]
            cell["gain"] = {
                name: mean_and_error(
                    [_less(a[name], b[name]) for a, b in zip(own, usual, strict=True)]
                )
                for name in MEASURES
            }
        cells.append(cell)
    return cells


def _release(found: Mapping[str, Any]) -> list[Any]:
    return [found[name] for name in CELL[:-1]]


def _less(one: Any, other: Any) -> Any:
    """The difference of two figures, or of figures by name."""
    if isinstance(one, Mapping):
        return {name: one[name] - other[name] for name in one}
    return one - other


@click.command()
@click.option("--seeds", type=click.IntRange(min=2), default=SEEDS, show_default=True)
@click.option("--only", default="", help="Only trials whose key has this in it, such as 'adult'.")
@page_options("pure-rows")
def cli(seeds: int, only: str, path: Path, *, write: bool) -> None:
    """Judge synthetic rows of NLTCS and Adult under both laws of a pure epsilon."""
    cells = summarize(run_trials(list_trials(seeds, only), path, run=run_trial))
    for each in cells:
        click.echo(json.dumps(each))
    if write:
        EVIDENCE.write_text(cells_text({"seeds": seeds, "cells": cells}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(cli)
