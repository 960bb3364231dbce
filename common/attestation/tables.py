"""Synthetic tables: the receipt inside, digests of the columns, and the file's seal.

A table carries, as JSON under the key ``dppca`` of its metadata, what it claims, the countersigned
receipt of the components it was drawn from, and a SHA-256 for every column. The file is sealed by
its writer: the owner that drew the rows, or the operator that joined those of several.

Digests of a column do not depend on batches: float64 columns, SHA-256 of their little-endian
bytes; text, and dates as text such as ``2020-01-31``, SHA-256 over the SHA-256 of the lengths of
all values (int64, little-endian, in bytes of UTF-8) followed by the SHA-256 of all values.
"""

from __future__ import annotations

import base64
import hashlib
import json
import mmap
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet

from dppca.common.attestation import seal
from dppca.common.attestation.claims import describe_mechanism, require_equal
from dppca.common.attestation.components import (
    Checked,
    ReleaseShare,
    check_envelope,
    list_shares,
)
from dppca.common.attestation.documents import ProvedGuarantee, ProvedMechanism
from dppca.common.attestation.file_headers import require_plain_arrow, require_small_pages
from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.signatures import Signer
from dppca.common.documents.messages import METADATA_KEY, Form
from dppca.common.errors import (
    AlteredError,
    ArtefactError,
    DppcaError,
    ReceiptError,
    SignatureError,
)
from dppca.common.privacy.labels import Label
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.schema import Schema
from dppca.common.schema.attributes import Date, list_labels
from dppca.common.schema.document import canonical_json
from dppca.common.shell.files import open_new
from dppca.common.study import Study
from dppca.common.transport.tls import Identity, Role

KIND = "synthetic"
_VERSION = 1
_FREE = ("form", "n_rows", "shrinkage", "trace_scale", "software", "parts", "joined")
SUFFIXES = (".parquet", ".arrow")
_ARROW_SCHEMA = b"ARROW:schema"
"""Where a Parquet file holds its Arrow schema (Apache Arrow, "Reading and writing Parquet")."""


class TableSource(TypedDict):
    """The components that rows were drawn from."""

    guarantee: ProvedGuarantee
    releases: list[ReleaseShare]
    missing: list[str]
    count: int


class TableClaims(TypedDict):
    """What follows for synthetic rows from the components they were drawn from."""

    kind: str
    version: int
    label: str
    study: str
    study_digest: str
    schema_digest: str
    guarantee: ProvedGuarantee
    mechanism: ProvedMechanism
    releases: list[ReleaseShare]
    missing: list[str]
    components: int
    covariance: str
    components_receipt: object


class TableReceipt(TableClaims):
    """What is read of a table's receipt, which may have other keys; ``parts`` is by column."""

    form: str
    n_rows: int
    software: str
    parts: dict[str, str]


class ColumnDigests:
    """SHA-256 of every column of a table that is fed batch by batch."""

    def __init__(self, names: Iterable[str]) -> None:
        self._hashes = {name: (hashlib.sha256(), hashlib.sha256()) for name in names}
        self._text: set[str] = set()

    def add(self, batch: Any) -> None:
        """Take a ``pyarrow.RecordBatch``; `AlteredError` where a value is missing."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.null_count:
                raise AlteredError(f"column {name}: values are missing")
            first, second = self._hashes[name]
            if pa.types.is_floating(column.type):
                first.update(np.asarray(column.to_numpy(), "<f8").tobytes())
                continue
            self._text.add(name)
            text = column.cast(pa.large_string())
            lengths = pc.binary_length(text).to_numpy().astype("<i8")
            first.update(lengths.tobytes())
            second.update(_text_bytes(text, int(lengths.sum())))

    def hexdigests(self) -> dict[str, str]:
        """By column."""
        return {
            name: hashlib.sha256(first.digest() + second.digest()).hexdigest()
            if name in self._text
            else first.hexdigest()
            for name, (first, second) in self._hashes.items()
        }


def make_claims(
    study: Study,
    calibration: Calibration,
    components: TableSource,
    *,
    covariance: str,
    envelope: object,
) -> TableClaims:
    """What follows for synthetic rows from the components they were drawn from.

    Parameters
    ----------
    envelope
        The countersigned receipt of the components; None where there is none.
    """
    return {
        "kind": KIND,
        "version": _VERSION,
        "label": Label.RELEASED.value,
        "study": study.name,
        "study_digest": study.digest,
        "schema_digest": study.table.digest,
        "guarantee": components["guarantee"],
        "mechanism": describe_mechanism(study, calibration),
        "releases": components["releases"],
        "missing": components["missing"],
        "components": components["count"],
        "covariance": covariance,
        "components_receipt": envelope,
    }


@contextmanager
def sealed_writer(
    path: Path, suffix: str, schema: Any, signer: Signer, *, mode: int
) -> Iterator[Any]:
    """Write a Parquet or Arrow file batch by batch; sealed when the block ends well.

    Parameters
    ----------
    path
        A draft that must not exist; the caller gives it its name.
    suffix
        One of `SUFFIXES`.
    schema
        ``pyarrow.Schema`` with our metadata.
    mode
        Permissions of the file, before the process's mask.

    Raises
    ------
    OSError
        It cannot be written.
    """
    block = seal.make_block(signer.certificate)
    with open_new(path, mode=mode) as file:
        if suffix == ".parquet":
            with pa.parquet.ParquetWriter(file, schema) as writer:
                yield writer
                writer.add_key_value_metadata({seal.KEY: block})
        else:
            whole = schema.with_metadata({**(schema.metadata or {}), seal.KEY: block})
            with pa.ipc.new_file(file, whole) as writer:
                yield _Relabelled(writer, whole)
    seal.seal_file(path, signer)


@contextmanager
def receipted_writer(
    path: Path, schema: Any, claims: Mapping[str, object], signer: Signer, *, mode: int
) -> Iterator[Callable[[Any], None]]:
    """Write a Parquet file piece by piece; receipt and seal follow when the block ends well.

    Digests of the columns are known once all rows are written. Readers take the receipt from the
    Arrow schema in the footer, so that is written last too.

    Parameters
    ----------
    path
        A draft that must not exist; the caller gives it its name.
    schema
        ``pyarrow.Schema`` without metadata.
    claims
        The receipt without the digests of the columns.
    mode
        Permissions of the file, before the process's mask.

    Yields
    ------
    callable
        Writes a ``pyarrow.Table`` as a row group.

    Raises
    ------
    OSError
        It cannot be written.
    """
    digests = ColumnDigests(schema.names)
    with (
        open_new(path, mode=mode) as file,
        pa.parquet.ParquetWriter(file, schema, store_schema=False) as writer,
    ):

        def write(table: Any) -> None:
            for batch in table.to_batches():
                digests.add(batch)
            writer.write_table(table)

        yield write
        receipt = canonical_json({**claims, "parts": digests.hexdigests()})
        whole = schema.with_metadata({METADATA_KEY: receipt})
        writer.add_key_value_metadata(
            {
                METADATA_KEY: receipt,
                _ARROW_SCHEMA: base64.b64encode(whole.serialize()),
                seal.KEY: seal.make_block(signer.certificate),
            }
        )
    seal.seal_file(path, signer)


def verify_table(path: Path, parties: KnownParties) -> tuple[Checked, TableReceipt, Identity]:
    """Check a synthetic table.

    Returns
    -------
    tuple
        The components' receipt, the table's own document, who sealed the file.

    Raises
    ------
    ArtefactError
        The container cannot be read.
    ReceiptError, SignatureError, AlteredError
        Names what does not hold.
    """
    fields, block, batches = _opened(path)
    document = _document(fields)
    checked = check_envelope(document.get("components_receipt"), parties)
    _check_claims(document, checked)
    _check_columns(path, fields, batches, document, checked.study.table)
    with _mapped(path) as content:
        who = seal.require_sealed_by_party(
            content,
            block,
            parties,
            what="the container or what the table says besides its claims (all columns and the "
            "receipt of the components are as signed)",
        )
    if who.role is Role.OWNER and who.name not in checked.study.owners:
        raise SignatureError(f"the file was sealed by {who.name}, who is no owner of the study")
    if who.role is Role.CURATOR:
        raise SignatureError("the file was sealed as if a curator had drawn rows")
    return checked, cast("TableReceipt", document), who


def require_claims(document: Mapping[str, Any], parties: KnownParties) -> None:
    """Check what a table claims before it is a file; raises as `verify_table` does."""
    _check_claims(document, check_envelope(document.get("components_receipt"), parties))


def _check_claims(document: Mapping[str, Any], checked: Checked) -> None:
    receipt = checked.document
    follows = make_claims(
        checked.study,
        checked.calibration,
        {
            "guarantee": checked.guarantee,
            "releases": list_shares(receipt),
            "missing": receipt["missing"],
            "count": receipt["count"],
        },
        covariance=checked.study.covariance.value,
        envelope=document["components_receipt"],
    )
    stated = {key: value for key, value in document.items() if key not in _FREE}
    require_equal(follows, stated, what="the receipt of the table")


def _check_columns(
    path: Path, fields: Any, batches: Iterable[Any], document: Mapping[str, Any], schema: Schema
) -> None:
    """Columns, their digests and the number of rows."""
    try:
        form, named = Form(document["form"]), dict(document["parts"])
    except (KeyError, ValueError, TypeError) as error:
        raise ReceiptError(
            "the receipt of the table lacks its form or the digests of its columns"
        ) from error
    if list(fields.names) != _list_columns(schema, form) or set(named) != set(fields.names):
        raise AlteredError(f"the columns are not those of {form.value} rows of the study")
    digests, n_rows = ColumnDigests(fields.names), 0
    longest = _longest_labels(schema, form)
    dates = {a.name for a in schema.attributes if isinstance(a, Date) and form is Form.DECODED}
    try:
        for batch in batches:
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                _require_kind(name, column, longest.get(name), date=name in dates)
            digests.add(batch)
            n_rows += batch.num_rows
    except DppcaError:
        raise
    except _READING as error:
        raise _unreadable(path, error) from error
    computed = digests.hexdigests()
    wrong = [name for name in fields.names if computed[name] != named[name]]
    if wrong:
        raise AlteredError(
            f"{', '.join(f'column {name}' for name in wrong)}: changed since it was signed"
        )
    if n_rows != document.get("n_rows"):
        raise AlteredError(
            f"the table has {n_rows} rows; its receipt says {document.get('n_rows')}"
        )


def _longest_labels(schema: Schema, form: Form) -> dict[str, int]:
    """Bytes of the longest label of every column that holds labels."""
    if form is Form.CODED:
        return {}
    return {
        attribute.name: max(len(label.encode()) for label in labels)
        for attribute in schema.attributes
        if (labels := list_labels(attribute)) is not None
    }


def _require_kind(name: str, column: Any, longest: int | None, *, date: bool) -> None:
    """Refuse a column of another type, or with labels that are longer than the attribute's."""
    kind = column.type
    if longest is None:
        wanted = pa.date32() if date else pa.float64()
        if kind != wanted:
            raise AlteredError(f"column {name}: {kind}, not {wanted}")
        return
    values = column.dictionary if pa.types.is_dictionary(kind) else column
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        raise AlteredError(f"column {name}: {kind}, not labels")
    n_bytes = pc.max(pc.binary_length(values)).as_py() or 0
    if n_bytes > longest:
        raise AlteredError(
            f"column {name}: a label of {n_bytes} bytes, where the study's have {longest}"
        )


_READING = (
    struct.error,
    pa.ArrowException,
    OSError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
    UnicodeDecodeError,
)
"""What Arrow's readers raise on damaged files."""


def _opened(path: Path) -> tuple[Any, bytes | None, Iterator[Any]]:
    """Arrow schema, the seal's block, and the batches still to be read."""
    try:
        if path.suffix == ".parquet":
            with _mapped(path) as content:
                require_small_pages(content)
            footer = pa.parquet.read_metadata(str(path))
            # Labels are never written out for every row, whatever the file says of itself.
            names = [footer.schema.column(i).name for i in range(footer.num_columns)]
            file = pa.parquet.ParquetFile(
                str(path), page_checksum_verification=False, read_dictionary=names
            )
            block = (file.metadata.metadata or {}).get(seal.KEY)
            list(file.schema_arrow.names)  # decoded here, where what is no text is an error
            return file.schema_arrow, block, file.iter_batches()
        with _mapped(path) as content:
            require_plain_arrow(content)
        with pa.OSFile(str(path)) as source:
            reader = pa.ipc.open_file(source.read_buffer())
        list(reader.schema.names)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        return reader.schema, (reader.schema.metadata or {}).get(seal.KEY), _validated(batches)
    except _READING as error:
        raise _unreadable(path, error) from error


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content


def _validated(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        batch.validate(full=True)
        yield batch


def _unreadable(path: Path, error: Exception) -> ArtefactError:
    return ArtefactError(
        f"the container: {path.name} is not a table of this software, or is damaged "
        f"({type(error).__name__})"
    )


def _document(fields: Any) -> Mapping[str, Any]:
    content = (fields.metadata or {}).get(METADATA_KEY)
    if content is None:
        raise ReceiptError("the table carries no receipt")
    try:
        document = json.loads(content)
        sound = isinstance(document, dict) and canonical_json(document) == content
    except (ValueError, TypeError, RecursionError) as error:
        raise AlteredError("the receipt of the table cannot be read") from error
    if not sound:
        raise AlteredError("the receipt of the table is not in canonical form")
    if document.get("label") != Label.RELEASED.value or document.get("kind") != KIND:
        raise ReceiptError(
            "the table carries no receipt of synthetic rows: it is "
            f"{document.get('label', 'without a label')}"
        )
    claims: Mapping[str, Any] = document
    return claims


def _list_columns(schema: Schema, form: Form) -> list[str]:
    if form is Form.CODED:
        return list(schema.column_names)
    return [attribute.name for attribute in schema.attributes]


def _text_bytes(text: Any, total: int) -> bytes:
    """All values of a ``large_string`` array after one another, as UTF-8."""
    if not len(text):
        return b""
    offsets = np.frombuffer(text.buffers()[1], "<i8")[text.offset : text.offset + len(text) + 1]
    data: bytes = text.buffers()[2].to_pybytes()[int(offsets[0]) : int(offsets[0]) + total]
    return data


class _Relabelled:
    """Gives every batch the metadata of its file before it is written."""

    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer = writer
        self._schema = schema

    def write_batch(self, batch: Any) -> None:
        """Append rows."""
        self._writer.write_batch(batch.replace_schema_metadata(self._schema.metadata))

    def write_table(self, table: Any) -> None:
        """Append rows."""
        self._writer.write_table(table.replace_schema_metadata(self._schema.metadata))
