"""Synthetic rows as they arrive and as they leave: Arrow IPC streams with one form each.

Owners' rows are checked before they are stored, so one table can be made of them later: columns
and types are exactly those of the study, numbers are finite and decoded ones within their public
bounds, labels are the attribute's. What is checked is `released` and costs nothing to look at.

A stream is memory-mapped and read batch by batch. Columns are compared before any batch is read,
and every batch is validated in full, offsets included, before anything is computed from it.
Compressed streams are refused: a small upload could otherwise become a large one in memory.

Limits: what the rows *say* is not judged; an owner may publish rows it has made up.

Source: Apache Arrow columnar format, "IPC streaming format", and ``Message.fbs`` for the place of
``RecordBatch.compression``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.conversation import METADATA_KEY, Form
from common.errors import UploadError
from common.privacy.labels import Label
from common.privacy.release import SOFTWARE
from common.proof.components import shares_of
from common.proof.tables import claims_of
from common.results import result_from_bytes
from common.schema import Numeric
from common.schema.document import Schema, canonical_json
from common.study import Study
from curator.record import Publication

METADATA_BYTES, METADATA_BYTES_PER_COLUMN = 1 << 16, 1 << 12
"""A stream may describe itself, and each batch, in so many bytes; a million columns in a small
file are gigabytes in memory."""
SPARE_LABELS, DICTIONARY_BYTES = 1 << 10, 1 << 20
"""Labels a dictionary may have that the attribute has not, and its largest size."""
_BATCH_ROWS = 1 << 16
_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2


def check_rows(path: Path, schema: Schema, form: Form, *, n_rows: int) -> None:
    """Check a stored upload.

    Raises
    ------
    UploadError
        Not an Arrow IPC stream, other columns than the study's, values outside the schema, or
        another number of rows than announced.
    """
    found = 0
    fields = table_schema(schema, form)
    try:
        _check_messages(path, n_columns=len(fields))
        for batch in _read(path, schema, form):
            batch.validate(full=True)
            found += batch.num_rows
            for field, column in zip(fields, batch.columns, strict=True):
                if column.null_count:
                    message = f"column {field.name} has missing values"
                    raise UploadError(message)
                _check_column(schema, form, field.name, column)
    except (
        pa.ArrowException,
        OSError,
        struct.error,
        IndexError,
        ValueError,
        RecursionError,
    ) as error:
        message = "the upload is not a sound Arrow IPC stream"
        raise UploadError(message) from error
    if found != n_rows:
        message = f"{found} synthetic rows have come; {n_rows} were announced"
        raise UploadError(message)


def joined(
    paths: Iterable[Path], schema: Schema, form: Form, receipt: bytes = b"{}"
) -> Iterator[bytes]:
    """One Arrow IPC stream of the rows of all paths, in pieces, one batch in memory at a time.

    ``receipt``, canonical JSON, stands in the stream's metadata.
    """
    sink = _Pieces()
    fields = table_schema(schema, form).with_metadata({METADATA_KEY: receipt})
    with pa.ipc.new_stream(sink, fields) as writer:
        for path in paths:
            for batch in _read(path, schema, form):
                for start in range(0, batch.num_rows, _BATCH_ROWS):
                    writer.write_batch(_conform(batch.slice(start, _BATCH_ROWS), schema, form))
                    yield from sink.taken()
    yield from sink.taken()


def receipt_of_joined(study: Study, result_file: bytes, parts: Sequence[Publication]) -> bytes:
    """Canonical JSON of what joined rows claim; digests of columns are for whoever writes a file.

    Parameters
    ----------
    result_file
        Of the study; where it has no receipt (of an earlier version), the rows have none either.
    parts
        What was published in one form, in the order in which it is joined.
    """
    result = result_from_bytes(result_file, study)
    if result.receipt is None:
        return canonical_json({"label": Label.RELEASED.value})
    envelope = json.loads(result.receipt)
    document = envelope["receipt"]
    components = {
        "guarantee": document["guarantee"],
        "releases": shares_of(document),
        "missing": document["missing"],
        "count": document["count"],
    }
    claims = claims_of(study, components, covariance=study.covariance.value, envelope=envelope)
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

    Coded: float64 columns called as in ``schema.column_names``. Decoded: one column per attribute,
    float64 or a dictionary of labels.
    """
    if form is Form.CODED:
        return pa.schema([(name, pa.float64()) for name in schema.column_names])
    labels = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [(a.name, pa.float64() if isinstance(a, Numeric) else labels) for a in schema.attributes]
    )


class _Pieces:
    """A sink for Arrow's writer that hands on what was written."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, content: bytes) -> int:
        self._pieces.append(bytes(content))
        return len(content)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """The pieces stay until they are taken."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def taken(self) -> Iterator[bytes]:
        pieces, self._pieces = self._pieces, []
        yield from pieces


def _read(path: Path, schema: Schema, form: Form) -> Iterator[pa.RecordBatch]:
    expected = table_schema(schema, form)
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        _require_released(reader.schema)
        names, wanted = reader.schema.names, expected.names
        if names != wanted:
            message = f"the rows have {len(names)} columns that are not the study's {len(wanted)}"
            raise UploadError(message)
        for field, want in zip(reader.schema, expected, strict=True):
            if field.type != want.type and not (
                pa.types.is_dictionary(want.type) and _is_text(field.type)
            ):
                message = f"column {want.name} is {field.type}, not {want.type}"
                raise UploadError(message)
        yield from reader


def _require_released(schema: pa.Schema) -> None:
    """Refuse rows that say of themselves that they may not leave; saying nothing is allowed."""
    document = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    label = document.get("label", Label.RELEASED) if isinstance(document, dict) else None
    if label != Label.RELEASED:
        message = "the rows carry another label than released: their owner must not send them"
        raise UploadError(message)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _check_column(schema: Schema, form: Form, name: str, column: pa.Array) -> None:
    if form is Form.CODED:
        _check_numbers(name, column, -np.inf, np.inf)
        return
    attribute = schema.attributes[schema.index_of(name)]
    if isinstance(attribute, Numeric):
        lower = -np.inf if attribute.lower is None else attribute.lower
        upper = np.inf if attribute.upper is None else attribute.upper
        _check_numbers(name, column, lower, upper)
        return
    # Only labels that rows have are looked at: a dictionary may hold more.
    if _codes(column, attribute.labels).null_count:
        message = f"column {name} has labels that are not the attribute's"
        raise UploadError(message)


def _check_numbers(name: str, column: pa.Array, lower: float, upper: float) -> None:
    values = column.to_numpy()
    if not np.all(np.isfinite(values)):
        message = f"column {name} has values that are not finite"
        raise UploadError(message)
    if np.any(values < lower) or np.any(values > upper):
        message = f"column {name} has values outside its bounds"
        raise UploadError(message)


def _codes(column: pa.Array, labels: tuple[str, ...]) -> pa.Array:
    """Indices of a column's labels; null where a label is not in the list."""
    known = pa.array(labels, pa.string())
    if pa.types.is_dictionary(column.type):
        # Looked at for every batch: a large one, for many small batches, would take for ever.
        n_labels, n_bytes = len(column.dictionary), column.dictionary.nbytes
        if n_labels > len(labels) + SPARE_LABELS or n_bytes > DICTIONARY_BYTES:
            message = (
                f"a dictionary of {n_labels} labels, {n_bytes} bytes, for {len(labels)} labels"
            )
            raise UploadError(message)
        # Never decoded: a long label that every row has would be copied for every row.
        return pc.index_in(_plain(column.dictionary), value_set=known).take(column.indices)
    return pc.index_in(_plain(column), value_set=known)


def _plain(labels: pa.Array) -> pa.Array:
    return labels.cast(pa.string())


def _conform(batch: pa.RecordBatch, schema: Schema, form: Form) -> pa.RecordBatch:
    """The batch with one dictionary per column, the same in all batches: the schema's labels."""
    columns = list(batch.columns)
    if form is Form.DECODED:
        for index, attribute in enumerate(schema.attributes):
            if not isinstance(attribute, Numeric):
                columns[index] = pa.DictionaryArray.from_arrays(
                    _codes(columns[index], attribute.labels), pa.array(attribute.labels)
                )
    return pa.RecordBatch.from_arrays(columns, schema=table_schema(schema, form))


def _check_messages(path: Path, *, n_columns: int) -> None:
    """Refuse what would become much larger in memory than it is: before anything is decoded."""
    cap = METADATA_BYTES + METADATA_BYTES_PER_COLUMN * n_columns
    with pa.memory_map(str(path)) as source:
        while True:
            try:
                message = pa.ipc.read_message(source)
            except EOFError:
                return
            if message.metadata.size > cap:
                text = (
                    f"the Arrow stream describes itself in {message.metadata.size} bytes, of {cap}"
                )
                raise UploadError(text)
            if _is_compressed(message.metadata.to_pybytes()):
                text = "the Arrow stream is compressed: write it without compression"
                raise UploadError(text)


def _is_compressed(metadata: bytes) -> bool:
    """Whether a message's record batch has the table ``compression`` (FlatBuffers, by hand)."""

    def field(table: int, index: int) -> int | None:
        """Absolute position of a table's field, None where it is not there."""
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        (size,) = struct.unpack_from("<H", metadata, vtable)
        slot = 4 + 2 * index
        if slot + 2 > size:
            return None
        (offset,) = struct.unpack_from("<H", metadata, vtable + slot)
        return table + offset if offset else None

    def follow(position: int) -> int:
        return int(position + struct.unpack_from("<I", metadata, position)[0])

    root = follow(0)
    kind, header = field(root, 1), field(root, 2)
    if kind is None or header is None or metadata[kind] not in {_RECORD_BATCH, _DICTIONARY_BATCH}:
        return False
    batch = follow(header)
    if metadata[kind] == _DICTIONARY_BATCH:
        data = field(batch, 1)
        if data is None:
            return False
        batch = follow(data)
    return field(batch, 3) is not None
