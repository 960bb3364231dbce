"""Synthetic rows on arrival and on download: Arrow IPC streams with one form each.

Owners' rows are checked before they are stored, so that they can later be joined to one table:
columns and types are exactly the study's, numbers are finite and decoded ones within their public
bounds, labels are the attribute's. The checked rows are `released`, so reading them costs nothing.

A stream is memory-mapped and read batch by batch. Its headers are checked before any decoding
(`dppca.curator.study.row_streams`), its columns are compared before any batch is read, and every
batch is validated in full, offsets included, before it is used.

Limits: the content of the rows is not judged; an owner may publish invented rows.

Source: Apache Arrow columnar format, "IPC streaming format".
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dppca.common.kernel.attestation.envelopes import unchecked_predicate
from dppca.common.kernel.attestation.tables import make_claims
from dppca.common.kernel.documents.messages import METADATA_KEY, Form
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import UploadError
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.receipts import SOFTWARE
from dppca.common.kernel.schema.arrow import (
    accepts,
    conform,
    decoded_fields,
    decoded_type,
    may_be_null,
)
from dppca.common.kernel.schema.attributes import Date, Numeric, list_labels
from dppca.common.kernel.schema.document import Schema
from dppca.curator.study.lifecycle import require_result
from dppca.curator.study.row_streams import FAULTS, check_messages
from dppca.curator.study.study_record import Publication, StudyRecord

SPARE_LABELS, DICTIONARY_BYTES = 1 << 10, 1 << 20
"""Labels that a dictionary may have besides the attribute's, and its largest size."""
_BATCH_ROWS = 1 << 13
"""Rows of a joined table that are in memory at once; readers take no batches below 4096 rows."""


def check_rows(path: Path, schema: Schema, form: Form, *, n_rows: int) -> None:
    """Check a stored upload.

    Raise `UploadError` for a file that is not an Arrow IPC stream, other columns than the study's,
    values outside the schema, or another number of rows than announced.
    """
    n_read = 0
    fields = table_schema(schema, form)
    try:
        announced = check_messages(path, n_columns=len(fields))
        if announced != n_rows:
            raise UploadError(_wrong_count_text(announced, n_rows))
        for batch in _read_batches(path, schema, form):
            batch.validate(full=True)
            n_read += batch.num_rows
            for field, column in zip(fields, batch.columns, strict=True):
                _check_column(schema, form, field.name, column)
    except FAULTS as error:
        raise UploadError("the upload is not a sound Arrow IPC stream") from error
    if n_read != n_rows:
        raise UploadError(_wrong_count_text(n_read, n_rows))


def _wrong_count_text(n_read: int, n_rows: int) -> str:
    return f"{n_read} synthetic rows have come; {n_rows} were announced"


def join_rows(
    paths: Iterable[Path], schema: Schema, form: Form, receipt: bytes = b"{}"
) -> Iterator[bytes]:
    """Yield one Arrow IPC stream of all files' rows, in pieces, one batch in memory at a time.

    ``receipt``, canonical JSON, is in the stream's metadata.
    """
    sink = _PieceSink()
    fields = table_schema(schema, form).with_metadata({METADATA_KEY: receipt})
    with pa.ipc.new_stream(sink, fields) as writer:
        for path in paths:
            for batch in _read_batches(path, schema, form):
                for start in range(0, batch.num_rows, _BATCH_ROWS):
                    writer.write_batch(_conform(batch.slice(start, _BATCH_ROWS), schema, form))
                    yield from sink.take_pieces()
    yield from sink.take_pieces()


def make_joined_receipt(
    record: StudyRecord,
    calibration: Calibration,
    parts: Sequence[Publication],
    first: Round | None = None,
) -> bytes:
    """Canonical JSON of the claims of joined rows.

    ``record`` has a result; ``parts`` are publications of one form, in the order of joining;
    ``first`` is the study that the record's continues.
    """
    study, envelope = record.study, require_result(record).envelope
    document = unchecked_predicate(envelope)
    claims = make_claims(
        study,
        calibration,
        [each.release.share for each in record.contributions],
        missing=document["missing"],
        count=document["count"],
        envelope=envelope,
        first=first,
    )
    rows = [{"owner": p.owner, "n_rows": p.n_rows, "sha256": p.sha256.hex()} for p in parts]
    return canonical_json(
        {
            **claims,
            "form": parts[0].form.value,
            "n_rows": sum(p.n_rows for p in parts),
            "joined": rows,
            "software": SOFTWARE,
        }
    )


def table_schema(schema: Schema, form: Form) -> pa.Schema:
    """Columns and types of the joined table.

    Coded: float64 columns with the names of ``schema.column_names``. Decoded: one column per
    attribute (`dppca.common.kernel.schema.arrow`).
    """
    if form is Form.CODED:
        return pa.schema([(name, pa.float64()) for name in schema.column_names])
    return decoded_fields(schema)


class _PieceSink:
    """Sink for Arrow's writer; `take_pieces` yields the written bytes."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, content: bytes) -> int:
        self._pieces.append(bytes(content))
        return len(content)

    def flush(self) -> None:
        """Do nothing: no bytes are buffered."""

    def close(self) -> None:
        """Do nothing: the pieces stay until they are taken."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def take_pieces(self) -> Iterator[bytes]:
        pieces, self._pieces = self._pieces, []
        yield from pieces


def _read_batches(path: Path, schema: Schema, form: Form) -> Iterator[pa.RecordBatch]:
    expected = table_schema(schema, form)
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        _require_released(reader.schema)
        names, expected_names = reader.schema.names, expected.names
        if names != expected_names:
            raise UploadError(
                f"the rows have {len(names)} columns that are not the study's {len(expected_names)}"
            )
        attributes = schema.attributes if form is Form.DECODED else [None] * len(expected)
        for field, want, attribute in zip(reader.schema, expected, attributes, strict=True):
            if pa.types.is_dictionary(want.type):
                fits = _is_text(field.type)
            else:
                fits = field.type == want.type or (
                    attribute is not None and accepts(attribute, field.type)
                )
            if not fits:
                raise UploadError(f"column {want.name} is {field.type}, not {want.type}")
        yield from reader


def _require_released(schema: pa.Schema) -> None:
    """Refuse rows whose label forbids sending them; rows without a label are allowed."""
    document = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    label = document.get("label", Label.RELEASED) if isinstance(document, dict) else None
    if label != Label.RELEASED:
        raise UploadError("the label of the rows is not released: their owner must not send them")


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _check_column(schema: Schema, form: Form, name: str, column: pa.Array) -> None:
    attribute = None if form is Form.CODED else schema.attributes[schema.find_index(name)]
    labels = None if attribute is None else list_labels(attribute)
    if column.null_count and (attribute is None or not may_be_null(attribute)):
        raise UploadError(f"column {name} has missing values")
    if attribute is None:
        _check_numbers(name, column, -np.inf, np.inf)
    elif labels is None and isinstance(attribute, Numeric):
        lower = -np.inf if attribute.lower is None else attribute.lower
        upper = np.inf if attribute.upper is None else attribute.upper
        if isinstance(attribute, Date):
            column = column.view(pa.int32())
        whole = pa.types.is_int64(decoded_type(attribute))
        _check_numbers(name, column, lower, upper, nan=may_be_null(attribute), whole=whole)
    # Only labels that rows use are checked: a dictionary may hold more.
    elif _codes(column, labels or ()).null_count:
        raise UploadError(f"column {name} has labels that are not the attribute's")


def _check_numbers(
    name: str,
    column: pa.Array,
    lower: float,
    upper: float,
    *,
    nan: bool = False,
    whole: bool = False,
) -> None:
    values = column.drop_null().to_numpy()
    if pa.types.is_int64(column.type):  # compared as whole numbers, which are exact
        lower, upper = math.ceil(lower), math.floor(upper)
    elif nan:  # in rows of 0.1.0, NaN means a missing value
        values = values[~np.isnan(values)]
    if not np.all(np.isfinite(values)):
        raise UploadError(f"column {name} has values that are not finite")
    if whole and np.any(values != np.rint(values)):
        raise UploadError(f"column {name} has values that are not whole")
    if np.any(values < lower) or np.any(values > upper):
        raise UploadError(f"column {name} has values outside its bounds")


def _codes(column: pa.Array, labels: tuple[str, ...]) -> pa.Array:
    """Indices of a column's labels; null if a label is not in the list."""
    known = pa.array(labels, pa.string())
    if pa.types.is_dictionary(column.type):
        # Processed for every batch: a large one, with many small batches, would take very long.
        n_labels, n_bytes = len(column.dictionary), column.dictionary.nbytes
        if n_labels > len(labels) + SPARE_LABELS or n_bytes > DICTIONARY_BYTES:
            raise UploadError(
                f"a dictionary of {n_labels} labels, {n_bytes} bytes, for {len(labels)} labels"
            )
        # Never decoded: a long label that every row has would be copied for every row.
        return pc.index_in(_as_text(column.dictionary), value_set=known).take(column.indices)
    return pc.index_in(_as_text(column), value_set=known)


def _as_text(labels: pa.Array) -> pa.Array:
    return labels.cast(pa.string())


def _conform(batch: pa.RecordBatch, schema: Schema, form: Form) -> pa.RecordBatch:
    """Return the batch in the schema's types, with the same dictionaries in all batches."""
    columns, fields = list(batch.columns), table_schema(schema, form)
    for index, attribute in enumerate(schema.attributes if form is Form.DECODED else ()):
        labels = list_labels(attribute)
        columns[index] = (
            conform(attribute, columns[index])
            if labels is None
            else pa.DictionaryArray.from_arrays(
                _codes(columns[index], labels),
                pa.array(labels),
                ordered=fields[index].type.ordered,
            )
        )
    return pa.RecordBatch.from_arrays(columns, schema=fields)
