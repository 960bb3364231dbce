"""Synthetic rows from a study's result, in two forms, each with its receipt inside.

Coded rows are the continuous coordinates of probabilistic PCA, what the papers evaluate: latents
are drawn from N(0, I), never from rows (Gu et al. 2022, step 15, projects raw rows instead, and
rows made of those are not private). Decoded rows are valid under the schema. They are drawn from a
pairwise field fitted to the released moments and what is known of their noise
(`dppca.common.numerics.synthesis.rows`); where there is none, or its fit did not converge, they are
the coded rows brought to valid values (`dppca.common.numerics.synthesis.discretize`).

Both forms are computed from the result alone, so both are `released`, free of further cost, and may
be published.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dppca.common.attestation.tables import digest_columns, make_claims
from dppca.common.errors import SchemaMismatchError, SettingError
from dppca.common.messages import Form
from dppca.common.numerics.spectrum.noise_edge import entry_noise
from dppca.common.numerics.spectrum.ppca import fit_ppca, sample
from dppca.common.numerics.spectrum.shrinkage import shrink
from dppca.common.numerics.synthesis.discretize import discretize
from dppca.common.numerics.synthesis.rows import fit_released
from dppca.common.privacy.labels import Label
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.privacy.receipts import SOFTWARE
from dppca.common.privacy.release import calibrate
from dppca.common.results import Result
from dppca.common.schema import Numeric, Schema
from dppca.common.schema.decoding import decode_columns
from dppca.common.study import Study
from dppca.owner.synthesis.tables import publishable_bytes, read_label, with_metadata, write_table

__all__ = [
    "MAX_VALUES",
    "SyntheticTables",
    "make_receipt",
    "publishable_bytes",
    "read_label",
    "synthesize",
    "write_table",
]

MAX_VALUES = 1 << 28
"""Coded values drawn at once, 2 GiB: decoding meets the released marginals on all rows together."""


class DecodingMethod(StrEnum):
    """How decoded rows were made."""

    FIELD = "field"
    """Drawn from a field that was fitted to the released moments."""
    THRESHOLDS = "thresholds"
    """Coded rows brought to valid values: there is no field for such a study."""
    NOT_CONVERGED = "thresholds: the field did not converge"


@dataclass(frozen=True, slots=True)
class SyntheticTables:
    """The same synthetic rows in two forms.

    Attributes
    ----------
    coded
        ``pyarrow.Table``: one float64 column per coded column, in coded units.
    decoded
        ``pyarrow.Table``: one column per attribute, float64 in its own unit or labels.
    trace_scale
        What variances were multiplied by to meet the released trace; 1 where they met it already,
        as they do after shrinkage.
    method
        How decoded rows were made.
    misfit
        Of the field, in standard deviations (`FittedField`); None where there is none.
    """

    coded: Any
    decoded: Any
    n_rows: int
    trace_scale: float
    method: DecodingMethod
    misfit: float | None
    label: Label = Label.RELEASED

    def table(self, form: Form) -> Any:
        """The rows in one form."""
        return self.coded if form is Form.CODED else self.decoded


def synthesize(
    result: Result,
    study: Study,
    *,
    n_rows: int,
    rng: np.random.Generator,
    shrinkage: bool = True,
    progress: Callable[[float], None] | None = None,
) -> SyntheticTables:
    """Draw rows from what a study released.

    Parameters
    ----------
    rng
        Decides which rows are drawn and protects nothing.
    shrinkage
        Take from the kept eigenvalues what the noise added to them
        (`dppca.common.numerics.spectrum.shrinkage`). Otherwise only scale all variances down to the
        released trace, which noise leaves unbiased, where dropping negative eigenvalues has raised
        them. It concerns coded rows.
    progress
        Told the share of the field's fit that is done, from 0 to 1.

    Raises
    ------
    SettingError
        ``n_rows`` is out of range.
    """
    schema = study.table
    if result.header.study_digest != study.digest:
        raise SchemaMismatchError("the result is of another study")
    most = MAX_VALUES // schema.layout.n_columns
    if not 1 <= n_rows <= most:
        raise SettingError(
            f"{n_rows} synthetic rows asked for; 1 to {most} are possible for this schema"
        )
    header, calibration = result.header, calibrate(study)
    variances = result.eigenvalues
    if shrinkage:
        variances = shrink(variances, count=header.count, noise_edge=header.noise_edge)
    model = fit_ppca(variances, result.vectors, result.mean, trace_scaling=True)
    coded = sample(model, n_rows, rng=rng)
    second = result.second_moment(study)
    noise = _entry_noise(result, study, calibration)
    # One thread: narrow matrices are multiplied, which a second thread delays on a busy machine
    # and, by another order of summing, changes in the last bit.
    with threadpool_limits(1, user_api="blas"):
        fit = fit_released(
            schema.layout,
            mean=result.mean,
            second=second,
            entry_noise=noise,
            rng=rng,
            progress=progress,
        )
        if fit is not None and fit.converged:
            method, columns = DecodingMethod.FIELD, fit.columns(n_rows, rng=rng)
        else:
            method = DecodingMethod.NOT_CONVERGED if fit else DecodingMethod.THRESHOLDS
            columns = discretize(
                coded, schema.layout, mean=result.mean, second=second, entry_noise=noise, rng=rng
            )
    receipt = make_receipt(result, study, calibration)
    extra = {"n_rows": n_rows, "shrinkage": shrinkage, "trace_scale": model.trace_scale}
    return SyntheticTables(
        coded=_coded_table(coded, schema, {**receipt, **extra, "form": Form.CODED.value}),
        decoded=_decoded_table(
            decode_columns(schema, columns),
            schema,
            {**receipt, **extra, "form": Form.DECODED.value},
        ),
        n_rows=n_rows,
        trace_scale=model.trace_scale,
        method=method,
        misfit=None if fit is None else fit.fitted.misfit,
    )


def make_receipt(result: Result, study: Study, calibration: Calibration) -> dict[str, object]:
    """What a holder of synthetic rows needs in order to know and check the guarantee."""
    header = result.header
    components = {
        "guarantee": {
            "epsilon": header.epsilon,
            "delta": header.delta,
            "relation": header.relation,
            "max_rows_per_person": header.max_rows_per_person,
            "assumptions": list(header.assumptions),
        },
        "releases": [asdict(share) for share in header.shares],
        "missing": list(header.missing),
        "count": header.count,
    }
    envelope = None if result.receipt is None else json.loads(result.receipt)
    claims = make_claims(
        study, calibration, components, covariance=header.covariance, envelope=envelope
    )
    return {**claims, "software": SOFTWARE}


def _entry_noise(result: Result, study: Study, calibration: Calibration) -> float:
    return entry_noise(
        study.table.layout,
        mechanism=calibration.mechanism.value,
        scale=calibration.width,
        owner_rows=[share.n_rows for share in result.header.shares],
    )


def _coded_table(coded: NDArray[np.float64], schema: Schema, metadata: dict[str, object]) -> Any:
    fields = pa.schema([(name, pa.float64()) for name in schema.column_names])
    columns = [np.ascontiguousarray(column) for column in coded.T]
    return _with_digests(pa.table(columns, schema=fields), metadata)


def _decoded_table(columns: Any, schema: Schema, metadata: dict[str, object]) -> Any:
    labels = pa.dictionary(pa.int32(), pa.string())
    fields = pa.schema(
        [(a.name, pa.float64() if isinstance(a, Numeric) else labels) for a in schema.attributes]
    )
    arrays = [
        pa.array(column, pa.float64())
        if isinstance(attribute, Numeric)
        else pa.DictionaryArray.from_arrays(
            pa.array(column, pa.int32()), pa.array(attribute.labels, pa.string())
        )
        for attribute, column in zip(schema.attributes, columns, strict=True)
    ]
    return _with_digests(pa.table(arrays, schema=fields), metadata)


def _with_digests(table: Any, metadata: dict[str, object]) -> Any:
    """The table with its receipt, which names every column's digest."""
    parts = digest_columns(table)
    labelled = with_metadata(table.schema, {**metadata, "parts": parts})
    return table.replace_schema_metadata(labelled.metadata)
