"""Synthetic rows from a study's result, in two forms, each with its receipt.

Coded rows are the continuous coordinates of probabilistic PCA, the form that the papers evaluate:
latents are drawn from N(0, I), never from rows (Gu et al. 2022, step 15, projects raw rows instead,
and rows made of those are not private). Decoded rows are valid under the schema. They are drawn
from a pairwise field fitted to the released moments and the known law of their noise
(`dppca.common.analysis.field.rows`); if there is none, or its fit did not converge, they are
the coded rows brought to valid values (`dppca.common.analysis.field.discretize`).

The law of the rows is fitted once; rows are drawn from it in blocks, so memory does not grow with
their number. Only rows that are brought to valid values are drawn all at once, up to `MAX_VALUES`:
they meet the released marginals on all of them together.

Both forms are computed from the result alone, so both are `released`, free of further cost, and may
be published.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dppca.common.analysis.field.cell_values import draw_in_cells, keep_off_codes, leave_missing
from dppca.common.analysis.field.discretize import discretize
from dppca.common.analysis.field.missed import Missed, Tail
from dppca.common.analysis.field.rows import fit_released
from dppca.common.analysis.field.tilt import Counted, TiltQuality
from dppca.common.analysis.spectrum.noise_edge import entry_noise
from dppca.common.analysis.spectrum.ppca import PPCAModel, fit_ppca, sample
from dppca.common.analysis.spectrum.shrinkage import shrink
from dppca.common.kernel.attestation.claims import Replicate
from dppca.common.kernel.attestation.results import Published, Result
from dppca.common.kernel.attestation.tables import make_claims
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import SchemaMismatchError, SettingError
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.receipts import SOFTWARE
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Column, Numeric, Partition, Schema
from dppca.common.kernel.schema.arrow import decoded_array, decoded_fields
from dppca.common.kernel.schema.decoding import decode_columns
from dppca.common.kernel.study import Study

MAX_VALUES = 1 << 28
"""Limit of coded values that are brought to valid values at once, 2 GiB."""
_BLOCK_ROWS = 4096  # rows drawn at once, so that memory does not grow with their number


class DecodingMethod(StrEnum):
    """Method that made decoded rows."""

    FIELD = "field"
    """Drawn from a field that was fitted to the released moments."""
    MISSES = "a field that misses what the release knows"
    """Drawn from a field; some relation or table is missed by more than its noise."""
    THRESHOLDS = "thresholds"
    """Coded rows brought to valid values: there is no field for such a study."""
    NOT_CONVERGED = "thresholds: the field did not converge"

    @property
    def of_field(self) -> bool:
        """Return True if rows were drawn from a field."""
        return self in {DecodingMethod.FIELD, DecodingMethod.MISSES}


@dataclass(frozen=True, slots=True)
class SyntheticRows:
    """Rows of one form; they are drawn while they are read.

    Attributes
    ----------
    fields
        ``pyarrow.Schema``. Coded: one float64 column per coded column, in coded units. Decoded: one
        column per attribute, in its own unit (`dppca.common.kernel.schema.arrow`).
    claims
        The receipt of the table except for the digests of its columns.
    trace_scale
        Factor that brought variances of coded rows to the released trace; 1 if they met it already,
        as they do after shrinkage.
    method
        Method of making decoded rows; None for coded ones.
    misfit
        Misfit of the field, in standard deviations (`FittedField`); None if none was fitted.
    tables
        How well the rows meet the counts of tables; None without tables or without a field.
    missed
        What the release knows and the rows do not have, beyond the noise: the worst first.
    """

    form: Form
    n_rows: int
    fields: Any
    claims: Mapping[str, object]
    trace_scale: float
    method: DecodingMethod | None
    misfit: float | None
    tables: TiltQuality | None
    missed: tuple[Missed, ...]
    _draw: Callable[[], Iterator[list[Any]]]
    label: Label = Label.RELEASED

    def batches(self) -> Iterator[Any]:
        """Yield the rows as ``pyarrow.RecordBatch``, some thousands in each; the same each time."""
        for arrays in self._draw():
            yield pa.record_batch(arrays, schema=self.fields)


def synthesize(
    result: Result,
    study: Study,
    form: Form,
    *,
    n_rows: int,
    rng: np.random.Generator,
    shrinkage: bool = True,
    replicate: Replicate | None = None,
    progress: Callable[[float], None] | None = None,
) -> SyntheticRows:
    """Fit the law of one form of rows to a study's release, and return rows drawn from it.

    Rows of a study that continues another are decoded ones, made of both results.

    Raise `SettingError` if ``n_rows`` is below 1, or more than can be brought to valid values at
    once, or the study has no such rows.

    Parameters
    ----------
    rng
        Decides which rows are drawn and protects nothing. With generators of one state, decoded
        rows that are not drawn from a field are made of the coded rows.
    shrinkage
        Subtract from the kept eigenvalues the part that noise added to them
        (`dppca.common.analysis.spectrum.shrinkage`). Otherwise only scale all variances down to the
        released trace, which noise leaves unbiased, if dropping negative eigenvalues has raised
        them. It concerns coded rows.
    replicate
        Which replicate these rows are (`dppca.common.analysis.rows.replicates`), for the receipt.
    progress
        Called with the finished share of the field's fit, from 0 to 1; it never falls.
    """
    schema = study.table
    if result.header.study_digest != study.digest:
        raise SchemaMismatchError("the result belongs to another study")
    if n_rows < 1:
        raise SettingError(f"{n_rows} synthetic rows asked for; at least 1 can be drawn")
    if form is Form.CODED:
        study.require_components()
    calibration, published = calibrate(study), result.rounds(study)[0]
    first, base = published.study, published.result
    variances, header = base.eigenvalues, base.header
    if shrinkage:
        variances = shrink(
            variances,
            count=header.count,
            noise_edge=header.noise_edge,
            ratio=_columns_ratio(calibrate(first), len(header.shares)),
        )
    model = fit_ppca(variances, base.vectors, base.mean, trace_scaling=True)
    of_coded, of_field = rng.spawn(2)
    coded = partial(_coded_blocks, model, n_rows, of_coded)
    if form is Form.CODED:
        fields, arrays = _coded_fields(schema), _coded_arrays
        decoding = _Decoding(None, None, None, coded)
    else:
        fields, arrays = decoded_fields(schema), partial(_decoded_arrays, schema)
        decoding = _fit_decoding(
            result, study, coded, n_rows=n_rows, rng=of_field, progress=progress
        )
    claims = {
        **make_receipt(result, study, calibration, replicate),
        "n_rows": n_rows,
        "shrinkage": shrinkage,
        "trace_scale": model.trace_scale,
        "form": form.value,
    }
    return SyntheticRows(
        form=form,
        n_rows=n_rows,
        fields=fields,
        claims=claims,
        trace_scale=model.trace_scale,
        method=decoding.method,
        misfit=decoding.misfit,
        tables=decoding.tables,
        missed=decoding.missed,
        _draw=lambda: map(arrays, decoding.blocks()),
    )


def make_generator(owner: str, components_sha256: bytes, n_rows: int) -> np.random.Generator:
    """Generator that decides the rows an owner draws from components: the same rows each time."""
    text = f"{owner} {n_rows} ".encode() + components_sha256
    return np.random.default_rng(list(hashlib.sha256(text).digest()))


def make_receipt(
    result: Result, study: Study, calibration: Calibration, replicate: Replicate | None = None
) -> dict[str, object]:
    """Claims that let a holder of synthetic rows read and check the guarantee."""
    header, first = result.header, result.rounds(study)[0].study
    claims = make_claims(
        study,
        calibration,
        header.shares,
        missing=header.missing,
        count=header.count,
        envelope=result.envelope,
        first=None if first is study else Round(first, calibrate(first)),
        replicate=replicate,
    )
    return {**claims, "software": SOFTWARE}


@dataclass(frozen=True, slots=True)
class _Decoding:
    method: DecodingMethod | None
    misfit: float | None
    tables: TiltQuality | None
    blocks: Callable[[], Iterator[Any]]
    missed: tuple[Missed, ...] = ()


def _fit_decoding(
    result: Result,
    study: Study,
    coded: Callable[[], Iterator[NDArray[np.float64]]],
    *,
    n_rows: int,
    rng: np.random.Generator,
    progress: Callable[[float], None] | None,
) -> _Decoding:
    tables = list_tables(result, study)
    first = result.rounds(study)[0]
    study, result = first.study, first.result
    noise = released_noise(result, study)
    layout, second = study.table.layout, result.second_moment(study)
    with one_blas_thread():
        fit = fit_released(
            study.table,
            mean=result.mean,
            second=second,
            histograms=result.histograms(study),
            entry_noise=noise,
            n_rows=sum(result.header.owner_rows),
            rng=rng,
            tables=tables,
            tail=noise_tail(result, study),
            count_noise=released_noise(result, study, counts=True),
            joint=calibrate(study).law.is_joint,
            progress=progress,
        )
    misfit = None if fit is None else fit.fitted.misfit
    if fit is not None and fit.converged:
        draw, quality = fit.blocks, None if fit.tilted is None else fit.tilted.tilt.quality
        blocks = lambda: draw(n_rows, rng=deepcopy(rng))  # noqa: E731 - read any number of times
        method = DecodingMethod.MISSES if fit.missed else DecodingMethod.FIELD
        return _Decoding(method, misfit, quality, blocks, fit.missed)
    method = DecodingMethod.THRESHOLDS if fit is None else DecodingMethod.NOT_CONVERGED
    if n_rows > (most := MAX_VALUES // layout.n_columns):
        raise SettingError(
            f"{n_rows} synthetic rows asked for; where they are made by thresholds, which hold for "
            f"all rows together, at most {most} are possible for this schema ({method.value})"
        )
    with one_blas_thread():
        coordinates = discretize(
            np.concatenate(list(coded())),
            layout,
            mean=result.mean,
            second=second,
            entry_noise=noise,
            rng=rng,
        )
        present, missing = leave_missing(coordinates, _missing_shares(result, study), rng)
    columns = [
        column if absent is None else np.where(absent, np.nan, column)
        for column, absent in zip(decode_columns(study.table, present), missing, strict=True)
    ]
    columns = draw_in_cells(study.table, columns, rng)
    return _Decoding(
        method,
        misfit,
        None,
        lambda: (
            [column[start : start + _BLOCK_ROWS] for column in columns]
            for start in range(0, n_rows, _BLOCK_ROWS)
        ),
    )


def _columns_ratio(calibration: Calibration, n_owners: int) -> float:
    """Columns over rows of the matrices that a joint law's noise is made of, of all owners."""
    columns = calibration.law.degrees
    if columns is None:
        return inf
    return calibration.mechanisms(n_owners) * columns / (columns - 1)


def released_noise(result: Result, study: Study, *, counts: bool = False) -> float:
    """Standard deviation of the noise of a released product, as a share of the rows.

    It is of weight 1; with ``counts``, of a count of weight 1.
    """
    calibration, owner_rows = calibrate(study), result.header.owner_rows
    if counts:
        calibration = calibration.of_counts
    return entry_noise(
        study.table.layout,
        deviation=calibration.law.deviation,
        owner_rows=owner_rows,
        mechanisms=calibration.mechanisms(len(owner_rows)),
    )


def noise_tail(result: Result, study: Study) -> Tail:
    """Return the chance that an entry's noise is at least so many standard deviations from 0."""
    calibration = calibrate(study)
    n_noises = max(1, int(calibration.mechanisms(len(result.header.shares))))
    return partial(calibration.law.tail, n=n_noises)


def list_tables(result: Result, study: Study) -> list[tuple[Partition, Counted]]:
    """Return the tables of a study, and of one that it continues, with their released counts."""
    return [counted for each in result.rounds(study) for counted in _counted_tables(each)]


def _counted_tables(published: Published) -> list[tuple[Partition, Counted]]:
    table, shares = published.study.table, published.result.tables(published.study)
    noise = released_noise(published.result, published.study, counts=True)
    of_count = noise / float(table.layout.table_weight)
    return [
        (partition, Counted(share, of_count))
        for partition, share in zip(table.partitions, shares, strict=True)
    ]


def _missing_shares(result: Result, study: Study) -> list[float | None]:
    """Share in the cell of missing values, for numerics about which the release has no more."""
    return [
        float(shares[-1])
        if shares is not None and isinstance(attribute, Numeric) and attribute.missing == "level"
        else None
        for attribute, shares in zip(study.table.attributes, result.histograms(study), strict=True)
    ]


def _coded_blocks(
    model: PPCAModel, n_rows: int, state: np.random.Generator
) -> Iterator[NDArray[np.float64]]:
    rng = deepcopy(state)
    for start in range(0, n_rows, _BLOCK_ROWS):
        with one_blas_thread():
            block = sample(model, min(_BLOCK_ROWS, n_rows - start), rng=rng)
        yield block


def _coded_fields(schema: Schema) -> Any:
    return pa.schema([(name, pa.float64()) for name in schema.column_names])


def _coded_arrays(rows: NDArray[np.float64]) -> list[Any]:
    return [pa.array(np.ascontiguousarray(column)) for column in rows.T]


def _decoded_arrays(schema: Schema, columns: list[Column]) -> list[Any]:
    return [
        decoded_array(attribute, keep_off_codes(attribute, column))
        for attribute, column in zip(schema.attributes, columns, strict=True)
    ]
