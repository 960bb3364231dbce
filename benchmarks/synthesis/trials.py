"""One release of one data set, and what the rows that are made of it are worth.

The training rows of a split (`benchmarks.synthesis.judging`) are dealt to the owners. Moments are
exact and by the product's engine, the noise's width is the product's for the study, pooling,
decomposition and synthetic rows are the product's. The noise itself is NumPy's, normal or Laplace
of that width and rounded: it is drawn in a fraction of the time, and measures the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.experiment import Found, KeyedTrial
from benchmarks.releases import BITS, pool, state_privacy, state_study
from benchmarks.synthesis.forms import (
    BINS,
    BINS_TARGETED,
    PLAIN,
    TARGETED,
    find_form,
    list_forms,
)
from benchmarks.synthesis.judging import (
    CELLS,
    Tables,
    equal_cells,
    find_reference,
    find_variation,
    judge_rows,
    split_rows,
)
from benchmarks.synthesis.subjects import load_subject
from dppca.common.attestation.results import Result
from dppca.common.documents.messages import Form
from dppca.common.numerics.moments.accumulation import accumulate_moments
from dppca.common.numerics.moments.moments import Moments
from dppca.common.numerics.spectrum.noise_edge import entry_noise
from dppca.common.numerics.spectrum.ppca import fit_ppca, sample
from dppca.common.numerics.spectrum.shrinkage import shrink
from dppca.common.numerics.synthesis.discretize import discretize
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.privacy.release import calibrate
from dppca.common.schema import Column, Numeric, Schema
from dppca.common.schema.decoding import decode_columns
from dppca.common.study import Study
from dppca.common.synthesis.rows import SyntheticRows, synthesize

OWNERS = 3
DELTA = "1e-9"
OWN_NOISE, ONE_NOISE = "each owner's", "once"
FIELD, BEFORE, REAL = "field", "thresholds", "real rows"
MECHANISMS = ("gaussian", "laplace")
EPSILONS = ("0.1", "0.2", "0.5", "1")
SPLITS, DRAWS = 3, 2
BINNED_EPSILONS = ("0.2", "1")
ONE_NOISE_FORM = {"nltcs": PLAIN, "adult": TARGETED}
"""Data sets that are also released with one noise for all owners, and what of them."""


@dataclass(frozen=True, slots=True)
class GridTrial(KeyedTrial):
    """One cell's run.

    Attributes
    ----------
    form
        What of a row is released: `benchmarks.synthesis.forms`.
    noise
        Noise of each of three owners, or once for all of them.
    decoder
        The product's rows, those of the decoder before, or no release at all.
    """

    subject: str
    form: str
    decoder: str
    mechanism: str
    epsilon: str
    noise: str
    split: int
    draw: int


def list_trials(subject: str, *, splits: int = SPLITS, draws: int = DRAWS) -> Iterator[GridTrial]:
    """Every trial of a data set."""
    for split in range(splits):
        yield GridTrial(subject, PLAIN, REAL, "", "", "", split, 0)
    for form, decoder, mechanism, epsilon, noise in _cells(subject):
        for split in range(splits):
            for draw in range(draws):
                yield GridTrial(subject, form, decoder, mechanism, epsilon, noise, split, draw)


def _cells(subject: str) -> Iterator[tuple[str, str, str, str, str]]:
    for form in list_forms(subject):
        if form in BINS and form != BINS_TARGETED:
            yield from ((form, FIELD, "gaussian", each, OWN_NOISE) for each in BINNED_EPSILONS)
            continue
        for mechanism in MECHANISMS:
            for epsilon in EPSILONS:
                yield form, FIELD, mechanism, epsilon, OWN_NOISE
                if form == PLAIN:
                    yield form, BEFORE, mechanism, epsilon, OWN_NOISE
                if ONE_NOISE_FORM.get(subject) == form:
                    yield form, FIELD, mechanism, epsilon, ONE_NOISE


def run_trial(trial: GridTrial) -> Found:
    """Release, make rows, judge them.

    ``marginals`` is the total variation of each numeric's histogram of 20 equal cells, ``seconds``
    are from the result to the rows, ``method`` is how the product made them.
    """
    name, split = trial.subject, trial.split
    if trial.decoder == REAL:
        return asdict(trial) | judge(name, find_reference(name, split).training, split, REAL)
    subject = load_subject(name)
    form = find_form(subject, trial.form)
    owners = OWNERS if trial.noise == OWN_NOISE else 1  # once: as one owner with all rows
    study = make_study(form, trial.mechanism, trial.epsilon, owners=owners)
    calibration = calibrate(study)
    moments = cached_moments(name, trial.form, split, owners)
    result = release(study, calibration, moments, rng=np.random.default_rng([split, trial.draw, 1]))
    n_rows = min(sum(each.n_rows for each in moments), subject.most_rows)
    rng, begin = np.random.default_rng([split, trial.draw, 2]), perf_counter()
    method = BEFORE
    if trial.decoder == FIELD:
        made = synthesize(result, study, Form.DECODED, n_rows=n_rows, rng=rng)
        columns = row_columns(made, study.table)
        method = str(made.method)
    else:
        columns = decode_before(result, study, calibration, n_rows, rng)
    seconds = perf_counter() - begin
    return asdict(trial) | judge(name, columns, split, method, seconds)


def make_study(form: Mapping[str, Any], mechanism: str, epsilon: str, *, owners: int) -> Study:
    """A study of the schema."""
    privacy = state_privacy(epsilon, DELTA if mechanism == "gaussian" else None)
    return state_study("synthesis", form, privacy, owners=owners)


def release(
    study: Study,
    calibration: Calibration,
    moments: Sequence[Moments],
    *,
    rng: np.random.Generator,
) -> Result:
    """Every owner's noise, and what the curator makes of it."""
    law = calibration.law
    vectors = [
        each.packed + np.rint(law.width * law.standard(len(each.packed), rng)).astype(np.int64)
        for each in moments
    ]
    return pool(study, calibration, [each.n_rows for each in moments], vectors)


def decode_before(
    result: Result,
    study: Study,
    calibration: Calibration,
    n_rows: int,
    rng: np.random.Generator,
) -> list[Column]:
    """Rows of probabilistic PCA brought to valid values."""
    header, layout = result.header, study.table.layout
    variances = shrink(result.eigenvalues, count=header.count, noise_edge=header.noise_edge)
    model = fit_ppca(variances, result.vectors, result.mean, trace_scaling=True)
    columns = discretize(
        sample(model, n_rows, rng=rng),
        layout,
        mean=result.mean,
        second=result.second_moment(study),
        entry_noise=entry_noise(
            layout,
            deviation=calibration.law.deviation,
            owner_rows=[share.n_rows for share in header.shares],
        ),
        rng=rng,
    )
    return decode_columns(study.table, columns)


def row_columns(rows: SyntheticRows, schema: Schema) -> list[Column]:
    """Columns of decoded rows as coding takes them: numbers, and codes of labels."""
    table = pa.Table.from_batches(rows.batches())
    columns: list[Column] = []
    for attribute in schema.attributes:
        cells = table[attribute.name].combine_chunks()
        numbers = cells if isinstance(attribute, Numeric) else cells.indices
        columns.append(numbers.to_numpy(zero_copy_only=False))
    return columns


def judge(
    name: str, columns: Sequence[Column], split: int, method: str, seconds: float = 0.0
) -> Found:
    """Compare rows with the training rows, and train on them."""
    schema, real = load_subject(name).schema, find_reference(name, split)
    made, there = (_histograms(schema, each) for each in (columns, real.training))
    return {
        **judge_rows(name, columns, split),
        "marginals": {each: find_variation(made[each], there[each]) for each in made},
        "seconds": seconds,
        "method": method,
    }


@lru_cache(16)
def cached_moments(name: str, form: str, split: int, owners: int) -> tuple[Moments, ...]:
    """Each owner's exact moments of a split."""
    subject = load_subject(name)
    schema = Schema.from_document({"resolution_bits": BITS, **find_form(subject, form)})
    parts = np.array_split(split_rows(subject.n_rows, split)[0], owners)
    return tuple(accumulate_moments(schema, [c[part] for c in subject.columns]) for part in parts)


def _histograms(schema: Schema, columns: Sequence[Column]) -> dict[str, Tables]:
    """Shares of each numeric's equal cells."""
    return {
        attribute.name: [
            np.bincount(equal_cells(attribute, column, CELLS), minlength=CELLS) / len(column)
        ]
        for attribute, column in zip(schema.attributes, columns, strict=True)
        if isinstance(attribute, Numeric)
    }
