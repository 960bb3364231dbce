"""One release of one data set, the rows that are made of it, and what they are worth.

A split s is ``numpy.random.default_rng(s).permutation(n)``: the first fifth is held out, the rest
dealt to the owners. Moments are exact and by the product's engine, the noise's width is the
product's for the study, pooling, decomposition and synthetic rows are the product's. The noise
itself is NumPy's, normal or Laplace of that width and rounded: it is drawn in a fraction of the
time, and measures the same.

Synthetic rows are judged as values, whatever the release coded them as: against the training rows
by total variation, and by a linear SVM on the plain coding (`dppca.common.estimators.utility`),
tested on the real rows held out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.synthesis.forms import StudyForm, find_form
from benchmarks.synthesis.subjects import Subject, Target, load_subject
from dppca.common.estimators.utility import svm_accuracy
from dppca.common.messages import Form
from dppca.common.numerics.moments.accumulation import accumulate_moments
from dppca.common.numerics.moments.moments import Moments
from dppca.common.numerics.spectrum.noise_edge import entry_noise
from dppca.common.numerics.spectrum.ppca import fit_ppca, sample
from dppca.common.numerics.spectrum.shrinkage import shrink
from dppca.common.numerics.synthesis.discretize import discretize
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.privacy.release import calibrate
from dppca.common.results import Result
from dppca.common.schema import Column, Numeric, Schema, encode
from dppca.common.schema.decoding import decode_columns
from dppca.common.study import Study
from dppca.common.study_document import study_from_mapping
from dppca.curator.study.aggregate import aggregate
from dppca.curator.study.study_record import Contribution, LedgerHead
from dppca.owner.synthesis.rows import SyntheticRows, synthesize

OWNERS = 3
DELTA = "1e-9"
HELD_OUT = 0.2
CELLS = 20
"""Equal cells of a numeric, alone and in a pair."""
OWN_NOISE, ONE_NOISE = "each owner's", "once"
FIELD, BEFORE, REAL = "field", "thresholds", "real rows"


@dataclass(frozen=True, slots=True)
class GridTrial:
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

    @property
    def key(self) -> str:
        """What it is known by."""
        return "/".join(str(getattr(self, name)) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class Worth:
    """What rows are worth.

    Attributes
    ----------
    accuracy
        On rows held out, by target.
    pairs
        Mean total variation of the two-way tables.
    marginals
        Total variation of each numeric's histogram of 20 equal cells.
    seconds
        From the result to the rows.
    method
        How the product made them.
    """

    accuracy: dict[str, float]
    pairs: float
    marginals: dict[str, float]
    seconds: float
    method: str
    misfit: float | None


def run_trial(trial: GridTrial) -> Worth:
    """Release, make rows, judge them."""
    subject = cached_subject(trial.subject)
    training, _ = split_rows(subject.n_rows, trial.split)
    if trial.decoder == REAL:
        real = [column[training] for column in subject.columns]
        return judge(subject, real, trial.split, seconds=0.0, method=REAL, misfit=None)
    form = cached_form(trial.subject, trial.form)
    owners = OWNERS if trial.noise == OWN_NOISE else 1  # once: as one owner with all rows
    study = make_study(form.document, trial.mechanism, trial.epsilon, owners=owners)
    calibration = calibrate(study)
    seed = [trial.split, trial.draw]
    moments = cached_moments(trial.subject, trial.form, trial.split, len(study.owners))
    result = release(study, calibration, moments, rng=np.random.default_rng([*seed, 1]))
    n_rows = min(len(training), subject.most_rows or len(training))
    rng, begin = np.random.default_rng([*seed, 2]), perf_counter()
    method, misfit = BEFORE, None
    if trial.decoder == FIELD:
        made = synthesize(result, study, Form.DECODED, n_rows=n_rows, rng=rng)
        columns = row_columns(made, study.table)
        method, misfit = str(made.method), made.misfit
    else:
        columns = decode_before(result, study, calibration, n_rows, rng)
    seconds = perf_counter() - begin
    return judge(subject, columns, trial.split, seconds=seconds, method=method, misfit=misfit)


def split_rows(n_rows: int, split: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training and test rows of a split."""
    order = np.random.default_rng(split).permutation(n_rows)
    held_out = round(HELD_OUT * n_rows)
    return order[held_out:], order[:held_out]


def make_study(document: Mapping[str, Any], mechanism: str, epsilon: str, *, owners: int) -> Study:
    """A study of the schema."""
    privacy = {"mechanism": mechanism, "epsilon": epsilon}
    if mechanism == "gaussian":
        privacy["delta"] = DELTA
    return study_from_mapping(
        {
            "name": "synthesis",
            "owners": [f"owner-{number}" for number in range(1, owners + 1)],
            "privacy": privacy,
            "components": {"contribution_rate": 0.9},
            "schema": {"resolution_bits": 10, "max_rows_per_person": 1, **document},
        }
    )


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
    contributions = [
        Contribution(owner, b"", each.n_rows, 0, b"", LedgerHead(0, b""), b"", 0)
        for owner, each in zip(study.owners, moments, strict=True)
    ]
    return aggregate(study, calibration, contributions, vectors)


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
    subject: Subject,
    columns: Sequence[Column],
    split: int,
    *,
    seconds: float,
    method: str,
    misfit: float | None,
) -> Worth:
    """Compare rows with the training rows, and train on them."""
    real = _reference(subject.name, split)
    pairs = [
        float(np.abs(a - b).sum() / 2)
        for a, b in zip(pair_tables(subject, columns), real.pairs, strict=True)
    ]
    histograms = _histograms(subject.schema, columns)
    marginals = {
        name: float(np.abs(shares - real.histograms[name]).sum() / 2)
        for name, shares in histograms.items()
    }
    coded = encode(subject.schema, columns) / real.unit
    accuracy = {
        target.name: svm_accuracy(
            target_features(subject.schema, target, coded),
            target_labels(subject.schema, target, columns),
            test=target_features(subject.schema, target, real.test),
            truth=real.truth[target.name],
        )
        for target in subject.targets
    }
    return Worth(accuracy, float(np.mean(pairs)), marginals, seconds, method, misfit)


def target_labels(schema: Schema, target: Target, columns: Sequence[Column]) -> NDArray[np.int64]:
    """1 where a row is of the class that is asked for."""
    index = schema.find_index(target.attribute)
    attribute = schema.attributes[index]
    assert not isinstance(attribute, Numeric)
    codes = [code for code, label in enumerate(attribute.labels) if label in target.labels]
    return np.isin(columns[index], codes).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Reference:
    """What rows of a split are compared with."""

    unit: float
    pairs: list[NDArray[np.float64]]
    histograms: dict[str, NDArray[np.float64]]
    test: NDArray[np.float64]
    truth: dict[str, NDArray[np.int64]]


@lru_cache(1)
def cached_subject(name: str) -> Subject:
    """A data set; the last one is kept."""
    return load_subject(name)


@lru_cache(8)
def cached_form(subject: str, form: str) -> StudyForm:
    """What of a data set's rows is released."""
    return find_form(cached_subject(subject), form)


@lru_cache(8)
def _reference(name: str, split: int) -> _Reference:
    subject = cached_subject(name)
    training, test = split_rows(subject.n_rows, split)
    seen = [column[training] for column in subject.columns]
    unseen = [column[test] for column in subject.columns]
    unit = float(1 << subject.schema.resolution_bits)
    return _Reference(
        unit,
        pair_tables(subject, seen),
        _histograms(subject.schema, seen),
        encode(subject.schema, unseen) / unit,
        {each.name: target_labels(subject.schema, each, unseen) for each in subject.targets},
    )


@lru_cache(16)
def cached_moments(subject: str, form: str, split: int, owners: int) -> tuple[Moments, ...]:
    """Each owner's exact moments of a split."""
    data, released = cached_subject(subject), cached_form(subject, form)
    schema = Schema.from_document({"resolution_bits": 10, **released.document})
    parts = np.array_split(split_rows(data.n_rows, split)[0], owners)
    return tuple(accumulate_moments(schema, [c[part] for c in data.columns]) for part in parts)


def target_features(
    schema: Schema, target: Target, coded: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Coded columns that a target is predicted from."""
    groups = [schema.layout.groups[schema.find_index(name)] for name in target.hidden]
    return np.delete(coded, np.concatenate([np.arange(*group) for group in groups]), axis=1)


def _histograms(schema: Schema, columns: Sequence[Column]) -> dict[str, NDArray[np.float64]]:
    histograms = {}
    for attribute, column in zip(schema.attributes, columns, strict=True):
        if isinstance(attribute, Numeric):
            cells = _equal_cells(attribute, column, CELLS)
            histograms[attribute.name] = np.bincount(cells, minlength=CELLS) / len(cells)
    return histograms


def attribute_cells(
    subject: Subject, columns: Sequence[Column]
) -> tuple[list[NDArray[np.int64]], list[int]]:
    """Each attribute's cells for the tables, shape (n_rows,) each, and how many there are."""
    cells, sizes = [], []
    for attribute, column in zip(subject.schema.attributes, columns, strict=True):
        if not isinstance(attribute, Numeric):
            cells.append(np.asarray(column, np.int64))
            sizes.append(len(attribute.labels))
        elif attribute.name in subject.edges:
            edges = subject.edges[attribute.name]
            cells.append(np.digitize(np.clip(column, attribute.lower, attribute.upper), edges))
            sizes.append(len(edges) + 1)
        else:
            cells.append(_equal_cells(attribute, column, CELLS))
            sizes.append(CELLS)
    return cells, sizes


def pair_tables(subject: Subject, columns: Sequence[Column]) -> list[NDArray[np.float64]]:
    """Shares of the rows in the cells of every pair of attributes."""
    cells, sizes = attribute_cells(subject, columns)
    n_rows = len(cells[0])
    return [
        np.bincount(cells[i] * sizes[j] + cells[j], minlength=sizes[i] * sizes[j]) / n_rows
        for i in range(len(cells))
        for j in range(i + 1, len(cells))
    ]


def _equal_cells(attribute: Numeric, column: Column, count: int) -> NDArray[np.int64]:
    assert attribute.lower is not None
    assert attribute.upper is not None
    scaled = (column - attribute.lower) / (attribute.upper - attribute.lower) * count
    return np.clip(np.floor(scaled), 0, count - 1).astype(np.int64)
