"""Synthetic rows from released components, in two forms, each with its receipt inside.

Coded rows are the continuous coordinates of probabilistic PCA, what the papers evaluate; decoded
rows are valid under the schema. Both are computed from the result of a study alone: latents are
drawn from N(0, I), never from rows (Gu et al. 2022, step 15, projects raw rows instead, and rows
made of those are not private). So both are `released`, free of further cost, and may be published.

Reports should show both forms: a relation inside a categorical can be lost in decoding.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from common.conversation import Form
from common.errors import SchemaMismatchError, SettingError
from common.numerics.decode import decode
from common.numerics.edge import entry_noise
from common.numerics.ppca import fit_ppca, sample
from common.numerics.shrink import shrink
from common.privacy.labels import Label
from common.privacy.release import SOFTWARE, calibrate
from common.proof.tables import claims_of, digests_of
from common.results import Result
from common.schema import Numeric, Schema
from common.schema.decoding import decode_columns
from common.study import Study
from owner.tables import publishable_bytes, read_label, with_metadata, write_table

__all__ = [
    "MAX_VALUES",
    "SyntheticTables",
    "publishable_bytes",
    "read_label",
    "receipt_of",
    "synthesize",
    "write_table",
]

MAX_VALUES = 1 << 28
"""Coded values drawn at once, 2 GiB: decoding meets the released marginals on all rows together."""


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
    """

    coded: Any
    decoded: Any
    n_rows: int
    trace_scale: float
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
) -> SyntheticTables:
    """Draw rows from the model that released components stand for.

    Parameters
    ----------
    rng
        Decides which rows are drawn and protects nothing.
    shrinkage
        Take from the kept eigenvalues what the noise added to them (`common.numerics.shrink`).
        Otherwise only scale all variances down to the released trace, which noise leaves unbiased,
        where dropping negative eigenvalues has raised them.

    Raises
    ------
    SettingError
        ``n_rows`` is out of range.
    """
    schema = study.table
    if result.header.study_digest != study.digest:
        message = "the result is of another study"
        raise SchemaMismatchError(message)
    most = MAX_VALUES // schema.layout.n_columns
    if not 1 <= n_rows <= most:
        message = f"{n_rows} synthetic rows asked for; 1 to {most} are possible for this schema"
        raise SettingError(message)
    header = result.header
    variances = result.eigenvalues
    if shrinkage:
        variances = shrink(variances, count=header.count, noise_edge=header.noise_edge)
    model = fit_ppca(variances, result.vectors, result.mean, trace_scaling=True)
    coded = sample(model, n_rows, rng=rng)
    second = result.second_moment(study)
    # One thread: decoding multiplies narrow matrices, which a second thread delays on a busy
    # machine and, by another order of summing, changes in the last bit.
    with threadpool_limits(1, user_api="blas"):
        columns = decode(
            coded,
            schema.layout,
            mean=result.mean,
            second=second,
            entry_noise=_entry_noise(result, study),
            rng=rng,
        )
    receipt = receipt_of(result, study)
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
    )


def receipt_of(result: Result, study: Study) -> dict[str, object]:
    """What whoever holds synthetic rows needs to know of the guarantee and to check it."""
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
    claims = claims_of(study, components, covariance=header.covariance, envelope=envelope)
    return {**claims, "software": SOFTWARE}


def _entry_noise(result: Result, study: Study) -> float:
    calibration = calibrate(study)
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
    parts = digests_of(table)
    labelled = with_metadata(table.schema, {**metadata, "parts": parts})
    return table.replace_schema_metadata(labelled.metadata)
