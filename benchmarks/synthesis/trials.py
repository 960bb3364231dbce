"""One release of one data set, and what the rows that are made of it are worth.

The training rows of a split (`benchmarks.synthesis.judging`) are dealt to the owners. Moments are
exact and by the product's engine, the noise's width is the product's for the study, pooling,
decomposition and synthetic rows are the product's. The noise itself is NumPy's, normal or Laplace
of that width and rounded: it is drawn in a fraction of the time, and measures the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_DOWN, Decimal
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.experiment import Found, KeyedTrial
from benchmarks.releases import BITS, pool, state_privacy, state_study
from benchmarks.synthesis.forms import (
    BINS,
    BINS_TARGETED,
    PLAIN,
    TARGETED,
    TREES,
    find_form,
    list_forms,
)
from benchmarks.synthesis.judging import CELLS, equal_cells, find_reference, judge_rows, split_rows
from benchmarks.synthesis.subjects import load_subject
from dppca.common.analysis.comparison import total_variation
from dppca.common.analysis.rows.synthesis import SyntheticRows, synthesize
from dppca.common.analysis.spectrum.noise_edge import entry_noise
from dppca.common.analysis.study_file import schema_from_document
from dppca.common.analysis.table_forecast import forecast_tables
from dppca.common.kernel.attestation.results import Published, Result
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.accounting import epsilon_from_rho, rho_from_epsilon_delta
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Column, Numeric, Schema
from dppca.common.kernel.study import Study
from dppca.deploy.simulation.aggregation import Refinement
from dppca.deploy.simulation.in_memory import Parties, continue_study

OWNERS = 3
DELTA = "1e-9"
OWN_NOISE, ONE_NOISE = "each owner's", "once"
FIELD, ROUNDS, REAL = "field", "two rounds", "real rows"
MECHANISMS = ("gaussian", "laplace")
EPSILONS = ("0.1", "0.2", "0.5", "1")
SPLITS, DRAWS = 3, 2
BINNED_EPSILONS = ("0.2", "1")
ONE_NOISE_FORMS = {
    "nltcs": (PLAIN,),
    "adult": (TARGETED, BINS_TARGETED),
    "rule": (TARGETED, BINS_TARGETED),
}
"""Data sets that are also released with one noise for all owners, and what of them: these go on
to more epsilon, where what a release leaves out costs more than its noise."""
LATER_EPSILONS = ("3", "8")
TREE_EPSILONS, ROUND_EPSILONS = ("1", "8"), ("1", "3", "8")


@dataclass(frozen=True, slots=True)
class GridTrial(KeyedTrial):
    """One cell's run.

    Attributes
    ----------
    form
        What of a row is released: `benchmarks.synthesis.forms`.
    noise
        Noise of each of three owners, or once for all of them.
    rows
        How rows are made, by `MAKERS`; `REAL` for the real ones.
    """

    subject: str
    form: str
    rows: str
    mechanism: str
    epsilon: str
    noise: str
    split: int
    draw: int


def list_trials(subject: str, *, splits: int = SPLITS, draws: int = DRAWS) -> Iterator[GridTrial]:
    """Every trial of a data set."""
    for split in range(splits):
        yield GridTrial(subject, PLAIN, REAL, "", "", "", split, 0)
    for form, rows, mechanism, epsilon, noise in _cells(subject):
        for split in range(splits):
            for draw in range(draws):
                yield GridTrial(subject, form, rows, mechanism, epsilon, noise, split, draw)


def _cells(subject: str) -> Iterator[tuple[str, str, str, str, str]]:
    forms = [] if subject == "rule" else [each for each in list_forms(subject) if each != TREES]
    for form in forms:
        binned = form in BINS and form != BINS_TARGETED
        for mechanism in MECHANISMS[:1] if binned else MECHANISMS:
            for epsilon in BINNED_EPSILONS if binned else EPSILONS:
                yield form, FIELD, mechanism, epsilon, OWN_NOISE
    for form in ONE_NOISE_FORMS.get(subject, ()):
        for mechanism in MECHANISMS:
            later = LATER_EPSILONS if mechanism == MECHANISMS[0] else ()
            for epsilon in (*EPSILONS, *later):
                yield form, FIELD, mechanism, epsilon, ONE_NOISE
    if TREES in list_forms(subject):
        yield from ((TREES, FIELD, MECHANISMS[0], each, ONE_NOISE) for each in TREE_EPSILONS)
        for form in ONE_NOISE_FORMS[subject]:
            yield from ((form, ROUNDS, MECHANISMS[0], each, ONE_NOISE) for each in ROUND_EPSILONS)


@dataclass(frozen=True, slots=True)
class MadeRows:
    """Rows of one trial.

    Attributes
    ----------
    columns
        Decoded values, and codes of labels.
    method
        How the product made them.
    forecast
        What `dppca-curator plan` says of their two-way tables.
    """

    columns: Sequence[Column]
    method: str
    forecast: float | None


def run_trial(trial: GridTrial) -> Found:
    """Release, make rows, judge them.

    ``marginals`` is the total variation of each numeric's histogram of 20 equal cells, ``seconds``
    are from the release to the rows, ``method`` is how the product made them.
    """
    name, split = trial.subject, trial.split
    if trial.rows == REAL:
        return asdict(trial) | judge(name, find_reference(name, split).training, split)
    begin = perf_counter()
    made = MAKERS[trial.rows](trial)
    facts = {"seconds": perf_counter() - begin, "method": made.method, "forecast": made.forecast}
    return asdict(trial) | judge(name, made.columns, split) | facts


def make_field_rows(trial: GridTrial) -> MadeRows:
    """Rows of one study."""
    rng = np.random.default_rng([trial.split, trial.draw, 1])
    return _draw_rows(trial, publish(trial, trial.epsilon, rng=rng))


def make_refined_rows(trial: GridTrial) -> MadeRows:
    """Rows of a study and of one that continues it, each with half of the rho of the epsilon."""
    rng = np.random.default_rng([trial.split, trial.draw, 1])
    rho = rho_from_epsilon_delta(Decimal(trial.epsilon), Decimal(DELTA)) / 2
    half = epsilon_from_rho(rho, Decimal(DELTA)).quantize(Decimal("0.0001"), ROUND_DOWN)
    first = publish(trial, str(half), rng=rng)
    target = load_subject(trial.subject).targets[0].attribute
    parties, entropy = Parties(first.study, {}, {}), SeededEntropy(trial.draw)
    study = continue_study(parties, first.result, Refinement(target, half), entropy=entropy).study
    calibration, before = calibrate(study), Round(first.study, calibrate(first.study))
    moments = sum_parts(trial.subject, study.table, trial.split, len(study.owners))
    result = release(study, calibration, moments, rng=rng, first=before)
    return _draw_rows(trial, Published(study, replace(result, first=first)))


MAKERS: Mapping[str, Callable[[GridTrial], MadeRows]] = {
    FIELD: make_field_rows,
    ROUNDS: make_refined_rows,
}


def publish(trial: GridTrial, epsilon: str, *, rng: np.random.Generator) -> Published:
    """The study of a trial at some epsilon, and its result."""
    owners = OWNERS if trial.noise == OWN_NOISE else 1  # once: as one owner with all rows
    form = find_form(load_subject(trial.subject), trial.form)
    study = make_study(form, trial.mechanism, epsilon, owners=owners)
    moments = cached_moments(trial.subject, trial.form, trial.split, owners)
    return Published(study, release(study, calibrate(study), moments, rng=rng))


def _draw_rows(trial: GridTrial, published: Published) -> MadeRows:
    study, result = published.study, published.result
    counts = [share.n_rows for share in result.header.shares]
    rng = np.random.default_rng([trial.split, trial.draw, 2])
    made = synthesize(result, study, Form.DECODED, n_rows=sum(counts), rng=rng)
    first = result.rounds(study)[0].study
    schema, deviation = first.table, calibrate(first).law.deviation
    noise = entry_noise(schema.layout, deviation=deviation, owner_rows=counts)
    forecast = forecast_tables(schema, noise, sum(counts))
    likely = None if forecast is None else forecast.likely
    return MadeRows(row_columns(made, study.table), str(made.method), likely)


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
    first: Round | None = None,
) -> Result:
    """Every owner's noise, and what the curator makes of it; ``first`` is what is continued."""
    law = calibration.law
    vectors = [
        each.packed
        + np.rint(law.width * law.of_entries.standard(len(each.packed), rng)).astype(np.int64)
        for each in moments
    ]
    return pool(study, calibration, [each.n_rows for each in moments], vectors, first)


def row_columns(rows: SyntheticRows, schema: Schema) -> list[Column]:
    """Columns of decoded rows as coding takes them: numbers, and codes of labels."""
    table = pa.Table.from_batches(rows.batches())
    columns: list[Column] = []
    for attribute in schema.attributes:
        cells = table[attribute.name].combine_chunks()
        numbers = cells if isinstance(attribute, Numeric) else cells.indices
        columns.append(numbers.to_numpy(zero_copy_only=False))
    return columns


def judge(name: str, columns: Sequence[Column], split: int) -> Found:
    """Compare rows with the training rows, and train on them."""
    schema, real = load_subject(name).schema, find_reference(name, split)
    made, there = (_histograms(schema, each) for each in (real.compared(columns), real.training))
    return {
        **judge_rows(name, columns, split),
        "marginals": {each: total_variation(made[each], there[each]) for each in made},
        "seconds": 0.0,
        "method": REAL,
    }


@lru_cache(16)
def cached_moments(name: str, form: str, split: int, owners: int) -> tuple[Moments, ...]:
    """Each owner's exact moments of a split."""
    document = find_form(load_subject(name), form)
    schema = schema_from_document({"resolution_bits": BITS, **document})
    return sum_parts(name, schema, split, owners)


def sum_parts(name: str, schema: Schema, split: int, owners: int) -> tuple[Moments, ...]:
    """Each owner's exact moments of a split, by any schema of the data set's attributes."""
    subject = load_subject(name)
    parts = np.array_split(split_rows(subject.n_rows, split)[0], owners)
    return tuple(accumulate_moments(schema, [c[part] for c in subject.columns]) for part in parts)


def _histograms(schema: Schema, columns: Sequence[Column]) -> dict[str, NDArray[np.int64]]:
    """Rows in each numeric's equal cells."""
    return {
        attribute.name: np.bincount(equal_cells(attribute, column, CELLS), minlength=CELLS)
        for attribute, column in zip(schema.attributes, columns, strict=True)
        if isinstance(attribute, Numeric)
    }
