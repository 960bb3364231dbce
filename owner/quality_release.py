"""A small summary of how good synthetic rows are that may leave: noised counts, and no more.

Released, once, as one vector of integers computed from all rows of a data set:

* per attribute, the rows in each of its public cells (`common.numerics.quality`; a numeric has 10);
* per target, the rows that a linear SVM trained on the synthetic rows alone predicts rightly.

Replacing one row takes 1 from one cell of an attribute and adds 1 to another, and changes a count
of right predictions by at most 1, so for A attributes and t targets ::

    Delta_1 = 2 A + t        Delta_2^2 = 2 A + t

The synthetic rows must be `released` themselves: otherwise they would depend on the row, too. What
is said of them (total variation, accuracy) is computed from the noised counts and is free. Every
row takes part under the schema's public rules, so the number of rows is the public one.

Limits: noise makes total variation too large by about what `Summary.noise` says; a summary of
many attributes needs a larger epsilon.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import Decimal
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import ArtefactError, SchemaMismatchError, SettingError
from common.methods.settings import delta_of, epsilon_of
from common.methods.utility import features_of, fitted_svm, labels_of
from common.numerics.quality import MARGINAL_CELLS, cells_of, shares_from_noised
from common.privacy.accounting import Budget
from common.privacy.entropy import EntropySource
from common.privacy.labels import Label
from common.privacy.mechanisms import (
    Calibration,
    add_noise,
    calibrate_gaussian,
    calibrate_laplace,
)
from common.privacy.release import SOFTWARE, noise_claims
from common.privacy.sensitivity import Relation, Sensitivity
from common.proof.summaries import KIND as KIND
from common.schema import Numeric, encode
from common.schema.document import canonical_json
from common.study import Study, decimal_text
from owner.ledger.entries import Reservation, Wanted
from owner.quality import CodedTable
from owner.records import Table
from owner.releasing import FileRelease

TITLE = "quality summary"
SUMMARY_CELLS = 10  # of a numeric: fewer than in a report, for each brings noise
_VERSION = 1
_JOINED = MARGINAL_CELLS // SUMMARY_CELLS  # cells of a report that make one of a summary


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """All that a summary is asked for with: the same request is charged, and drawn, once.

    Attributes
    ----------
    synthetic_sha256
        Of the file of synthetic rows, hexadecimal; it is released, so its hash tells nothing.
    delta
        For Gaussian noise; None for Laplace noise and pure epsilon.
    """

    study: Study
    data_set: str
    synthetic_sha256: str
    targets: tuple[str, ...]
    epsilon: Decimal
    delta: Decimal | None

    @property
    def digest(self) -> str:
        """SHA-256, hexadecimal, of the request's one form; never that of a study or model."""
        document = {
            "kind": KIND,
            "version": _VERSION,
            "study_digest": self.study.digest,
            "data_set": self.data_set,
            "synthetic_sha256": self.synthetic_sha256,
            "targets": list(self.targets),
            "cells": SUMMARY_CELLS,
            "epsilon": decimal_text(self.epsilon),
            "delta": None if self.delta is None else decimal_text(self.delta),
        }
        return hashlib.sha256(canonical_json(document)).hexdigest()

    @property
    def calibration(self) -> Calibration:
        """The noise, and what it costs."""
        change = 2 * len(self.study.table.attributes) + len(self.targets)
        sens = Sensitivity(
            l1=change, l2_squared=change, resolution_bits=0, relation=Relation.REPLACE_ONE
        )
        k = self.study.table.max_rows_per_person
        if self.delta is None:
            return calibrate_laplace(sens, epsilon=self.epsilon, max_rows_per_person=k)
        return calibrate_gaussian(
            sens, epsilon=self.epsilon, delta=self.delta, max_rows_per_person=k
        )


@dataclass(frozen=True, slots=True)
class SummaryReceipt:
    """What a third party needs to check the claim; fields as in the receipt of a contribution."""

    study_digest: str
    schema_digest: str
    synthetic_sha256: str
    release_id: str
    n_rows: int
    n_attributes: int
    targets: tuple[str, ...]
    counts_sha256: str
    mechanism: str
    source: str
    relation: str
    max_rows_per_person: int
    l1: int
    l2_squared: int
    scale: int | None
    sigma_squared: int | None
    epsilon: str
    delta: str
    charged_epsilon: str
    charged_rho: str
    ledger_sequence: int
    software: str
    kind: str = KIND
    label: str = Label.RELEASED.value
    version: int = _VERSION

    def canonical_bytes(self) -> bytes:
        """Canonical JSON."""
        return canonical_json(asdict(self))


def request_summary(
    study: Study,
    *,
    data_set: str,
    synthetic_sha256: str,
    targets: tuple[str, ...],
    epsilon: object,
    delta: object,
) -> SummaryRequest:
    """Check what was asked for; `SettingError` where epsilon or delta is not one."""
    return SummaryRequest(
        study=study,
        data_set=data_set,
        synthetic_sha256=synthetic_sha256,
        targets=targets,
        epsilon=epsilon_of(epsilon),
        delta=None if delta is None else delta_of(delta),
    )


def wanted_for_summary(request: SummaryRequest, *, budget: Budget) -> Wanted:
    """The charge that a summary asks for."""
    noise = request.calibration
    return Wanted(
        data_set=request.data_set,
        study=request.study.name,
        study_digest=request.digest,
        mechanism=noise.mechanism.value,
        charge=noise.charge,
        epsilon=noise.epsilon,
        delta=noise.delta,
        budget=budget,
        model=TITLE,
    )


def exact_counts(
    request: SummaryRequest,
    table: Table,
    synthetic: CodedTable,
    *,
    progress: Callable[[int], None] | None = None,
) -> NDArray[np.int64]:
    """Counts of all rows of a table, shape (D,): *not* private, for `draw_summary` only.

    Raises
    ------
    SchemaMismatchError
        The table was opened with another schema than the study's.
    DataError
        The file is damaged.
    """
    schema = request.study.table
    if table.schema.digest != schema.digest:
        message = "the table is not the one that the summary was planned for"
        raise SchemaMismatchError(message)
    unit = float(1 << schema.resolution_bits)
    machines = [
        fitted_svm(
            features_of(schema, target, synthetic.sample) / unit,
            labels_of(schema, target, synthetic.sample),
        )
        for target in request.targets
    ]
    sizes = cell_sizes(request.study)
    marginals = [np.zeros(size, np.int64) for size in sizes]
    correct = np.zeros(len(machines), np.int64)
    for columns in table.batches():
        rows = encode(schema, columns)
        cells, _ = cells_of(rows, schema.layout, numeric_cells=SUMMARY_CELLS)
        for index, size in enumerate(sizes):
            marginals[index] += np.bincount(cells[:, index], minlength=size)
        for number, (target, predict) in enumerate(zip(request.targets, machines, strict=True)):
            found = predict(features_of(schema, target, rows) / unit)
            correct[number] += int((found == labels_of(schema, target, rows)).sum())
        if progress is not None:
            progress(len(rows))
    return np.concatenate([*marginals, correct])


def draw_summary(
    request: SummaryRequest,
    exact: NDArray[np.int64],
    reservation: Reservation,
    *,
    n_rows: int,
    synthetic: CodedTable,
    entropy: EntropySource,
) -> FileRelease[SummaryReceipt]:
    """Draw the noise of a summary: once, after its charge has been reserved.

    Parameters
    ----------
    exact
        `exact_counts`; private until the noise is on them.
    n_rows
        Of the table; public.
    entropy
        `OperatingSystemEntropy`; anything else is for tests.
    """
    if reservation.wanted.study_digest != request.digest:
        message = "the reservation is of another release; nothing was drawn"
        raise SettingError(message)
    sizes = cell_sizes(request.study)
    if exact.shape != (sum(sizes) + len(request.targets),):
        message = f"{exact.size} counts for {sum(sizes)} cells and {len(request.targets)} targets"
        raise SettingError(message)
    noise = request.calibration
    noised = add_noise(exact, noise, entropy=entropy)
    receipt = SummaryReceipt(
        study_digest=request.study.digest,
        schema_digest=request.study.table.digest,
        synthetic_sha256=request.synthetic_sha256,
        release_id=reservation.release_id.hex(),
        n_rows=n_rows,
        n_attributes=len(request.study.table.attributes),
        targets=request.targets,
        counts_sha256=hashlib.sha256(noised.astype("<i8").tobytes()).hexdigest(),
        **noise_claims(noise),
        ledger_sequence=reservation.sequence,
        software=SOFTWARE,
    )
    document = {
        "label": Label.RELEASED.value,
        "kind": KIND,
        "study": request.study.name,
        "receipt": asdict(receipt),
        "noised_counts": noised.tolist(),
        **_findings(request, noised, n_rows, synthetic),
    }
    return FileRelease(
        digest=request.digest,
        release_id=reservation.release_id,
        n_rows=n_rows,
        receipt=receipt,
        content=json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode(),
    )


def cell_sizes(study: Study) -> tuple[int, ...]:
    """Cells of each attribute."""
    return tuple(
        SUMMARY_CELLS if isinstance(attribute, Numeric) else len(attribute.labels)
        for attribute in study.table.attributes
    )


def summary_from_bytes(content: bytes) -> dict[str, Any]:
    """Read a summary's file; `ArtefactError` where it is none or its counts were changed."""
    try:
        document: dict[str, Any] = json.loads(content)
        counts = np.array(document["noised_counts"], np.int64)
        known = (document["kind"], document["receipt"]["version"]) == (KIND, _VERSION)
        digest = hashlib.sha256(counts.astype("<i8").tobytes()).hexdigest()
        sound = known and document["receipt"]["counts_sha256"] == digest
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        message = "the file is not a quality summary of this software, or is damaged"
        raise ArtefactError(message) from error
    if not sound:
        message = "the quality summary is of another version, or its counts were changed"
        raise ArtefactError(message)
    return document


def _findings(
    request: SummaryRequest, noised: NDArray[np.int64], n_rows: int, synthetic: CodedTable
) -> dict[str, Any]:
    """What the noised counts say: post-processing, free of further cost."""
    noise = request.calibration
    deviation = _mean_size(noise)
    marginals, start = [], 0
    for attribute, size, theirs in zip(
        request.study.table.attributes,
        cell_sizes(request.study),
        synthetic.counts.marginals,
        strict=True,
    ):
        shares = shares_from_noised(noised[start : start + size], n_rows)
        if isinstance(attribute, Numeric):
            theirs = theirs.reshape(size, _JOINED).sum(axis=1)
        found = float(np.abs(shares - theirs / synthetic.n_rows).sum() / 2)
        marginals.append(
            {
                "attribute": attribute.name,
                "total_variation": found,
                "noise": min(1.0, size * deviation / (2 * n_rows)),
            }
        )
        start += size
    accuracies = [
        {
            "target": target,
            "trained_on_synthetic": float(np.clip(count / n_rows, 0, 1)),
            "noise": min(1.0, deviation / n_rows),
        }
        for target, count in zip(request.targets, noised[start:], strict=True)
    ]
    return {"marginals": marginals, "accuracies": accuracies}


def _mean_size(noise: Calibration) -> float:
    """Mean size of one entry's noise: b for Laplace, sigma sqrt(2/pi) for Gaussian."""
    if noise.scale is not None:
        return float(noise.scale)
    return sqrt(2 * (noise.sigma_squared or 0) / np.pi)
