"""A small summary of how good synthetic rows are that may leave: noised counts, and no more.

Released, once, as one vector of integers computed from all rows of a data set:

* per attribute, the rows in each of its public cells (`dppca.common.numerics.comparison`; a numeric
has 10);
* per target, the rows that a linear SVM trained on the synthetic rows alone predicts rightly.

Replacing one row takes 1 from one cell of an attribute and adds 1 to another, and changes a count
of right predictions by at most 1, so for A attributes and t targets ::

    Delta_1 = 2 A + t        Delta_2^2 = 2 A + t

That holds because each count is a sum over rows of a number that is 0 or 1 and a function of the
row alone: coding is, cells are integer arithmetic on a coded row, and so is the machine's label,
whose score is an exact integer (`dppca.common.estimators.utility.LinearRule`). The machine itself
depends on the synthetic rows only. In floating point the last point would fail: a score near 0 is
rounded by the row's place in its batch, and so by the other rows of the file.

The synthetic rows must be `released` themselves: otherwise they would depend on the row, too. What
is said of them (total variation, accuracy) is computed from the noised counts and is free. Every
row takes part under the schema's public rules, so the number of rows is the public one.

Limits: noise makes total variation too large by about what `Summary.noise` says; a summary of
many attributes needs a larger epsilon.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import sqrt
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dppca.common.amounts import decimal_text
from dppca.common.attestation.documents import (
    NoisedAccuracy,
    NoisedVariation,
    SummaryFigures,
    SummaryFile,
)
from dppca.common.attestation.summaries import (
    KIND,
    SummaryClaims,
    SummaryReceipt,
    calibrate_summary,
    counts_digest,
)
from dppca.common.errors import ArtefactError, SchemaMismatchError, SettingError
from dppca.common.estimators.base.settings import parse_delta, parse_epsilon
from dppca.common.estimators.utility import extract_features, extract_labels, fit_svm
from dppca.common.numerics.comparison import MARGINAL_CELLS, assign_cells, estimate_shares
from dppca.common.privacy.labels import Label
from dppca.common.privacy.mechanisms import Calibration, add_noise
from dppca.common.privacy.noise.entropy import EntropySource
from dppca.common.privacy.receipts import NoiseSection
from dppca.common.schema import Numeric, encode
from dppca.common.study import Study
from dppca.owner.ledger.entries import SUMMARY, ReleaseKind, ReleaseRequest, Reservation
from dppca.owner.ledger.populations import Account
from dppca.owner.records import Table
from dppca.owner.release.path import (
    FileRelease,
    digest_request,
    make_file_release,
    require_reserved,
)
from dppca.owner.synthesis.report.comparison import CodedTable, code_table

SUMMARY_CELLS = 10  # of a numeric: fewer than in a report, for each brings noise
_VERSION = 1
_JOINED = MARGINAL_CELLS // SUMMARY_CELLS  # cells of a report that make one of a summary
_SEED = 1  # of the sample that a machine is trained on; nothing is protected by it


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """All that a summary is asked for with: the same request is charged, and drawn, once.

    Attributes
    ----------
    synthetic_sha256
        Digest of the file of synthetic rows, hexadecimal; it is released, so it tells nothing.
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
        return digest_request(
            KIND,
            self.study,
            self.data_set,
            synthetic_sha256=self.synthetic_sha256,
            targets=list(self.targets),
            cells=SUMMARY_CELLS,
            epsilon=decimal_text(self.epsilon),
            delta=None if self.delta is None else decimal_text(self.delta),
        )

    @property
    def calibration(self) -> Calibration:
        """The noise, and what it costs."""
        return calibrate_summary(
            n_attributes=len(self.study.table.attributes),
            n_targets=len(self.targets),
            epsilon=self.epsilon,
            delta=self.delta,
            max_rows_per_person=self.study.max_rows_per_person,
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of all rows, shape (D,), without noise: *not* private; and the synthetic rows."""

    exact: NDArray[np.int64]
    n_rows: int
    synthetic: CodedTable


@dataclass(frozen=True, slots=True)
class SummaryRelease:
    """A request together with the synthetic rows, which are public."""

    summary_request: SummaryRequest
    synthetic: Table

    def request(self, *, account: Account, command: str) -> ReleaseRequest:
        """As `dppca.owner.release.path.FilePlan.request`."""
        return ReleaseRequest.from_calibration(
            ReleaseKind.SUMMARY,
            self.summary_request.calibration,
            account=account,
            study=self.summary_request.study.name,
            request_digest=self.summary_request.digest,
            name=SUMMARY,
            command=command,
        )

    def prepare(self, table: Table, *, progress: Callable[[int], None] | None = None) -> Counts:
        """Code the synthetic rows and count those of a table; raises as `exact_counts`."""
        rng = np.random.default_rng(_SEED)
        synthetic = code_table(self.synthetic, rng, progress=progress)
        exact = exact_counts(self.summary_request, table, synthetic, progress=progress)
        return Counts(exact, table.n_rows, synthetic)

    def draw(
        self, prepared: Counts, reservation: Reservation, *, entropy: EntropySource
    ) -> FileRelease[SummaryClaims]:
        """As `dppca.owner.release.path.ReleasePlan.draw`."""
        summary_request = self.summary_request
        require_reserved(reservation, summary_request.digest)
        study, n_cells = summary_request.study, sum(cell_sizes(summary_request.study))
        if prepared.exact.shape != (n_cells + len(summary_request.targets),):
            raise SettingError(
                f"{prepared.exact.size} counts for {n_cells} cells and "
                f"{len(summary_request.targets)} targets"
            )
        noise = summary_request.calibration
        noised = add_noise(prepared.exact, noise, entropy=entropy)

        def pack(receipt: SummaryReceipt) -> bytes:
            document: SummaryFile = {
                "label": Label.RELEASED.value,
                "kind": KIND,
                "study": study.name,
                "receipt": receipt.document(),
                "noised_counts": noised.tolist(),
                **_describe_counts(summary_request, noised, prepared),
            }
            return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode()

        claims = SummaryClaims(
            synthetic_sha256=summary_request.synthetic_sha256,
            n_attributes=len(study.table.attributes),
            targets=summary_request.targets,
            counts_sha256=counts_digest(noised),
        )
        return make_file_release(
            study,
            reservation,
            digest=summary_request.digest,
            n_rows=prepared.n_rows,
            claims=claims,
            noise=NoiseSection.from_calibrations(noise),
            pack=pack,
        )


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
        epsilon=parse_epsilon(epsilon),
        delta=None if delta is None else parse_delta(delta),
    )


def exact_counts(
    request: SummaryRequest,
    table: Table,
    synthetic: CodedTable,
    *,
    progress: Callable[[int], None] | None = None,
) -> NDArray[np.int64]:
    """Counts of all rows of a table, shape (D,): *not* private, for `SummaryRelease.draw` only.

    Raises
    ------
    SchemaMismatchError
        The table was opened with another schema than the study's.
    DataError
        The file is damaged.
    """
    schema = request.study.table
    if table.schema.digest != schema.digest:
        raise SchemaMismatchError("the table is not the one that the summary was planned for")
    unit = float(1 << schema.resolution_bits)
    rules = [
        fit_svm(
            extract_features(schema, target, synthetic.sample) / unit,
            extract_labels(schema, target, synthetic.sample),
        )
        for target in request.targets
    ]
    sizes = cell_sizes(request.study)
    marginals = [np.zeros(size, np.int64) for size in sizes]
    correct = np.zeros(len(rules), np.int64)
    for columns in table.batches():
        rows = encode(schema, columns)
        cells, _ = assign_cells(schema, columns, rows, numeric_cells=SUMMARY_CELLS)
        for index, size in enumerate(sizes):
            marginals[index] += np.bincount(cells[:, index], minlength=size)
        for number, (target, rule) in enumerate(zip(request.targets, rules, strict=True)):
            predicted = rule(extract_features(schema, target, rows) / unit)
            correct[number] += int((predicted == extract_labels(schema, target, rows)).sum())
        if progress is not None:
            progress(len(rows))
    return np.concatenate([*marginals, correct])


def cell_sizes(study: Study) -> tuple[int, ...]:
    """Cells of each attribute."""
    return tuple(
        SUMMARY_CELLS if isinstance(attribute, Numeric) else len(attribute.labels)
        for attribute in study.table.attributes
    )


def read_summary(content: bytes) -> SummaryFile:
    """Read a summary's file; `ArtefactError` where it is none or its counts were changed."""
    try:
        document = json.loads(content)
        known = (document["kind"], document["receipt"]["version"]) == (KIND, _VERSION)
        digest = counts_digest(document["noised_counts"])
        sound = known and document["receipt"]["counts_sha256"] == digest
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ArtefactError(
            "the file is not a quality summary of this software, or is damaged"
        ) from error
    if not sound:
        raise ArtefactError("the quality summary is of another version, or its counts were changed")
    return cast("SummaryFile", document)


def _describe_counts(
    request: SummaryRequest, noised: NDArray[np.int64], counts: Counts
) -> SummaryFigures:
    """What the noised counts say: post-processing, free of further cost."""
    noise, n_rows, synthetic = request.calibration, counts.n_rows, counts.synthetic
    deviation = _mean_size(noise)
    marginals: list[NoisedVariation] = []
    start = 0
    for attribute, size, theirs in zip(
        request.study.table.attributes,
        cell_sizes(request.study),
        synthetic.counts.marginals,
        strict=True,
    ):
        shares = estimate_shares(noised[start : start + size], n_rows)
        if isinstance(attribute, Numeric):
            theirs = theirs.reshape(size, _JOINED).sum(axis=1)
        variation = float(np.abs(shares - theirs / synthetic.n_rows).sum() / 2)
        marginals.append(
            {
                "attribute": attribute.name,
                "total_variation": variation,
                "noise": min(1.0, size * deviation / (2 * n_rows)),
            }
        )
        start += size
    accuracies: list[NoisedAccuracy] = [
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
