"""Synthetic tables: the receipt inside, digests of the columns, and the file's seal.

A table carries, as JSON under the key ``dppca`` of its metadata, what it claims, the countersigned
receipt of the components it was drawn from, and a SHA-256 for every column. The file is sealed by
whoever wrote it: the owner that drew the rows, or the operator that joined those of several.

Digests of a column do not depend on batches: float64 columns, SHA-256 of their little-endian
bytes; text, SHA-256 over the SHA-256 of the lengths of all values (int64, little-endian, in bytes
of UTF-8) followed by the SHA-256 of all values.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet

from common.conversation import METADATA_KEY, Form
from common.errors import AlteredError, ArtefactError, DppcaError, ReceiptError, SignatureError
from common.privacy.labels import Label
from common.proof import seal
from common.proof.claims import mechanism_of, require_equal
from common.proof.components import Checked, check_envelope, shares_of
from common.proof.signatures import Signer, require_issued
from common.schema import Schema
from common.schema.document import canonical_json
from common.study import Study
from common.transport.tls import Identity, Role

KIND = "synthetic"
_VERSION = 1
_FREE = ("form", "n_rows", "shrinkage", "trace_scale", "software", "parts", "joined")
SUFFIXES = (".parquet", ".arrow")


class ColumnDigests:
    """SHA-256 of every column of a table that is fed batch by batch."""

    def __init__(self, names: Iterable[str]) -> None:
        self._hashes = {name: (hashlib.sha256(), hashlib.sha256()) for name in names}
        self._text: set[str] = set()

    def add(self, batch: Any) -> None:
        """Take a ``pyarrow.RecordBatch``; `AlteredError` where a value is missing."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.null_count:
                message = f"column {name}: values are missing"
                raise AlteredError(message)
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


def digests_of(table: Any) -> dict[str, str]:
    """SHA-256 of every column of a ``pyarrow.Table``, in hexadecimal."""
    found = ColumnDigests(table.schema.names)
    for batch in table.to_batches():
        found.add(batch)
    return found.hexdigests()


def claims_of(
    study: Study, components: Mapping[str, Any], *, covariance: str, envelope: object
) -> dict[str, Any]:
    """What follows for synthetic rows from the components they were drawn from.

    Parameters
    ----------
    components
        With ``guarantee``, ``releases`` (owner, n_rows, payload_sha256), ``missing``, ``count``.
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
        "mechanism": mechanism_of(study),
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
        A draft that must not exist; whoever calls gives it its name.
    suffix
        One of `SUFFIXES`.
    schema
        ``pyarrow.Schema`` with our metadata.
    mode
        Of the file, before the process's mask.

    Raises
    ------
    OSError
        It cannot be written.
    """
    block = seal.block_of(signer.certificate)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        if suffix == ".parquet":
            with pa.parquet.ParquetWriter(file, schema) as writer:
                yield writer
                writer.add_key_value_metadata({seal.KEY: block})
        else:
            whole = schema.with_metadata({**(schema.metadata or {}), seal.KEY: block})
            with pa.ipc.new_file(file, whole) as writer:
                yield _Relabelled(writer, whole)
    seal.seal_file(path, signer)


def verify_table(path: Path, *, ca: bytes | None) -> tuple[Checked, dict[str, Any], Identity]:
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
    checked = check_envelope(document.get("components_receipt"), ca=ca)
    _check_claims(document, checked)
    _check_columns(path, fields, batches, document, checked.study.table)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            who, certificate = seal.require_sealed(content, block)
        except AlteredError as error:
            message = (
                "the container or what the table says besides its claims (all columns and the "
                f"receipt of the components are as signed): {error}"
            )
            raise AlteredError(message) from error
    if ca is not None:
        require_issued(certificate, ca, what="the file's seal")
    if who.role is Role.OWNER and who.name not in checked.study.owners:
        message = f"the file was sealed by {who.name}, who is no owner of the study"
        raise SignatureError(message)
    if who.role is Role.CURATOR:
        message = "the file was sealed as if a curator had drawn rows"
        raise SignatureError(message)
    return checked, document, who


def _check_claims(document: dict[str, Any], checked: Checked) -> None:
    receipt = checked.document
    follows = claims_of(
        checked.study,
        {
            "guarantee": receipt["guarantee"],
            "releases": shares_of(receipt),
            "missing": receipt["missing"],
            "count": receipt["count"],
        },
        covariance=checked.study.covariance.value,
        envelope=document["components_receipt"],
    )
    said = {key: value for key, value in document.items() if key not in _FREE}
    require_equal(follows, said, what="the receipt of the table")


def _check_columns(
    path: Path, fields: Any, batches: Iterable[Any], document: dict[str, Any], schema: Schema
) -> None:
    """Columns, their digests and the number of rows."""
    try:
        form, named = Form(document["form"]), dict(document["parts"])
    except (KeyError, ValueError, TypeError) as error:
        message = "the receipt of the table lacks its form or the digests of its columns"
        raise ReceiptError(message) from error
    if list(fields.names) != _columns_of(schema, form) or set(named) != set(fields.names):
        message = f"the columns are not those of {form.value} rows of the study"
        raise AlteredError(message)
    digests, n_rows = ColumnDigests(fields.names), 0
    try:
        for batch in batches:
            digests.add(batch)
            n_rows += batch.num_rows
    except DppcaError:
        raise
    except _READING as error:
        raise _unreadable(path, error) from error
    found = digests.hexdigests()
    wrong = [name for name in fields.names if found[name] != named[name]]
    if wrong:
        message = f"{', '.join(f'column {name}' for name in wrong)}: changed since it was signed"
        raise AlteredError(message)
    if n_rows != document.get("n_rows"):
        message = f"the table has {n_rows} rows; its receipt says {document.get('n_rows')}"
        raise AlteredError(message)


_READING = (
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
            file = pa.parquet.ParquetFile(str(path), page_checksum_verification=False)
            block = (file.metadata.metadata or {}).get(seal.KEY)
            list(file.schema_arrow.names)  # decoded here, where what is no text is an error
            return file.schema_arrow, block, file.iter_batches()
        with pa.OSFile(str(path)) as source:
            reader = pa.ipc.open_file(source.read_buffer())
        list(reader.schema.names)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        return reader.schema, (reader.schema.metadata or {}).get(seal.KEY), _validated(batches)
    except _READING as error:
        raise _unreadable(path, error) from error


def _validated(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        batch.validate(full=True)
        yield batch


def _unreadable(path: Path, error: Exception) -> ArtefactError:
    return ArtefactError(
        f"the container: {path.name} is not a table of this software, or is damaged "
        f"({type(error).__name__})"
    )


def _document(fields: Any) -> dict[str, Any]:
    content = (fields.metadata or {}).get(METADATA_KEY)
    if content is None:
        message = "the table carries no receipt"
        raise ReceiptError(message)
    try:
        document = json.loads(content)
        sound = isinstance(document, dict) and canonical_json(document) == content
    except (ValueError, TypeError, RecursionError) as error:
        message = "the receipt of the table cannot be read"
        raise AlteredError(message) from error
    if not sound:
        message = "the receipt of the table is not in canonical form"
        raise AlteredError(message)
    if document.get("label") != Label.RELEASED.value or document.get("kind") != KIND:
        message = (
            "the table carries no receipt of synthetic rows: it is "
            f"{document.get('label', 'without a label')}"
        )
        raise ReceiptError(message)
    found: dict[str, Any] = document
    return found


def _columns_of(schema: Schema, form: Form) -> list[str]:
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
