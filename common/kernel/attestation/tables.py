"""Synthetic tables: their claims, and the file whose SHA-256 was signed together with them.

A table's envelope holds its claims, and the envelope of the components that its rows were drawn
from. The file itself holds its label and its form, as JSON under the key ``dppca`` of its metadata.
The writer of the file signs the envelope: the owner that drew the rows, or the operator that joined
the rows of several owners.

A replicate is a table that was drawn from a release to which the law of its noise was added once
more. Its receipt says which of how many it is, and of which release; and each receipt says what its
rows are not for (`use_text`). Receipts of 0.1.0 say neither.
"""

import json
import mmap
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from dppca.common.kernel.attestation.claims import (
    Replicate,
    describe_federation,
    describe_mechanism,
    require_equal,
    use_text,
)
from dppca.common.kernel.attestation.components import VerifiedReceipt, check_components
from dppca.common.kernel.attestation.envelopes import FileStatement, embed, embedded
from dppca.common.kernel.attestation.file_headers import require_plain_arrow, require_small_pages
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import Share
from dppca.common.kernel.documents.messages import METADATA_KEY, Form
from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.errors import (
    AlteredError,
    ArtefactError,
    DppcaError,
    ReceiptError,
    SettingError,
    SignatureError,
)
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.schema import Column, Schema
from dppca.common.kernel.schema.arrow import accepts, decoded_type, may_be_null
from dppca.common.kernel.schema.attributes import Attribute, Date, list_labels
from dppca.common.kernel.schema.columns import parse_column
from dppca.common.kernel.study import Study

KIND = "synthetic"
_VERSION = 1  # of a receipt's form
_FREE = ("form", "n_rows", "shrinkage", "trace_scale", "software", "joined", "use")
_INSIDE = ("kind", "label", "form", "study", "study_digest", "replicate", "use")
SUFFIXES = (".parquet", ".arrow", ".csv")


def make_claims(
    study: Study,
    calibration: Calibration,
    shares: Iterable[Share],
    *,
    missing: Sequence[str],
    count: int,
    envelope: bytes | None,
    first: Round | None = None,
    replicate: Replicate | None = None,
) -> dict[str, Any]:
    """Return the claims of synthetic rows that follow from the result they were drawn from.

    ``shares``, ``missing``, ``count`` and ``envelope``, if there is one, are the result's;
    ``first`` is the study that its study continues.
    """
    return {
        **({} if replicate is None else {"replicate": asdict(replicate)}),
        "use": use_text(replicate),
        "kind": KIND,
        "version": _VERSION,
        "label": Label.RELEASED.value,
        "study": study.name,
        "study_digest": study.digest,
        "schema_digest": study.table.digest,
        "guarantee": to_document(describe_federation(study, calibration, first)),
        "mechanism": to_document(describe_mechanism(study, calibration)),
        "releases": [asdict(share) for share in shares],
        "missing": list(missing),
        "components": count,
        "covariance": study.covariance.value,
        "components_envelope": embed(envelope),
    }


def label_inside(claims: Mapping[str, object]) -> dict[str, object]:
    """Return the claims that stand in the file too, in case it loses its envelope."""
    return {key: claims[key] for key in _INSIDE if key in claims}


def verify_table(
    path: Path, statement: FileStatement, parties: KnownParties
) -> tuple[VerifiedReceipt, Mapping[str, Any]]:
    """Check a table whose signed bytes are unchanged; return the components' receipt, and claims.

    Raise `ArtefactError` if the container cannot be read, and `ReceiptError`, `SignatureError` or
    `AlteredError`, which names the failed check.
    """
    document, who = statement.predicate, statement.signed_by
    checked = require_claims(document, parties)
    if who.role is Role.OWNER and who.name not in checked.study.owners:
        raise SignatureError(
            f"the table was signed by {who.name}, who is not an owner of the study"
        )
    if who.role is Role.CURATOR:
        raise SignatureError("the table was signed as if a curator had drawn rows")
    _check_rows(path, document, checked.study.table)
    return checked, document


def require_claims(document: Mapping[str, Any], parties: KnownParties) -> VerifiedReceipt:
    """Check a table's claims, also before they are in a file; raise as `verify_table`."""
    if document.get("label") != Label.RELEASED.value or document.get("kind") != KIND:
        raise ReceiptError(
            "the table carries no receipt of synthetic rows: it is "
            f"{document.get('label', 'without a label')}"
        )
    envelope = embedded(document.get("components_envelope"), what="the receipt of the components")
    checked = check_components(envelope, parties)
    replicate = replicate_in(document)
    if replicate is not None and replicate.release != checked.statement.sha256:
        raise ReceiptError("the receipt of the table is of a replicate of another release")
    follows = make_claims(
        checked.study,
        checked.calibration,
        [each.share for each in checked.releases],
        missing=checked.document["missing"],
        count=checked.document["count"],
        envelope=envelope,
        first=checked.first_round,
        replicate=replicate,
    )
    use = follows.pop("use")
    stated = {key: value for key, value in document.items() if key not in _FREE}
    require_equal(follows, stated, what="the receipt of the table")
    if document.get("use", use) != use:
        raise ReceiptError("the receipt of the table states another use than its rows have")
    if "software" not in document:
        raise ReceiptError("the receipt of the table lacks the software that drew the rows")
    return checked


def replicate_in(document: Mapping[str, Any]) -> Replicate | None:
    """Return which replicate a table claims to be; None for no replicate.

    Raise `ReceiptError` if no decoded rows of one owner can be that.
    """
    stated = document.get("replicate")
    if stated is None:
        return None
    try:
        found = Replicate(**stated)
    except (TypeError, SettingError) as error:
        raise ReceiptError("the receipt of the table states no replicate") from error
    if document.get("form") != Form.DECODED.value or "joined" in document:
        raise ReceiptError("a replicate has decoded rows, which are joined with no others")
    return found


def _check_rows(path: Path, document: Mapping[str, Any], schema: Schema) -> None:
    """Check columns and number of rows."""
    try:
        form = Form(document["form"])
    except (KeyError, ValueError) as error:
        raise ReceiptError("the receipt of the table lacks its form") from error
    n_rows = sum(batch.num_rows for batch in _checked_batches(path, schema, form))
    if n_rows != document.get("n_rows"):
        raise AlteredError(
            f"the table has {n_rows} rows; its receipt says {document.get('n_rows')}"
        )


def read_rows(path: Path, schema: Schema, *, n_rows: int) -> list[Column]:
    """Read decoded rows of a schema, from any writer, as `encode` takes them.

    Raise `ArtefactError` if the file cannot be read, and `AlteredError` if its columns are not the
    schema's or it has another number of rows.
    """
    batches, found = [], 0
    for batch in _checked_batches(path, schema, Form.DECODED):
        batches.append(batch)
        found += batch.num_rows
        if found > n_rows:
            break
    if found != n_rows:
        raise AlteredError(f"{path.name} does not have {n_rows} rows")
    return [
        np.concatenate([parse_column(each, batch.column(each.name)) for batch in batches])
        for each in schema.attributes
    ]


def _checked_batches(path: Path, schema: Schema, form: Form) -> Iterator[Any]:
    """Yield the batches of a table, each of the kinds that the schema gives its columns."""
    fields, batches = _opened(path, schema, form)
    if list(fields.names) != _list_columns(schema, form):
        raise AlteredError(f"the columns are not those of {form.value} rows of the study")
    _require_label(fields)
    attributes: Sequence[Attribute | None] = (
        schema.attributes if form is Form.DECODED else [None] * len(fields)
    )
    longest = [None if each is None else _longest_label(each) for each in attributes]
    try:
        for batch in batches:
            for name, column, each, most in zip(
                batch.schema.names, batch.columns, attributes, longest, strict=True
            ):
                _require_kind(name, column, each, most)
                if column.null_count and not (each is not None and may_be_null(each)):
                    raise AlteredError(f"column {name}: values are missing")
            yield batch
    except DppcaError:
        raise
    except _READING as error:
        raise _unreadable(path, error) from error


def _longest_label(attribute: Attribute) -> int | None:
    """Return the bytes of the longest label; None for an attribute without labels."""
    labels = list_labels(attribute)
    return None if labels is None else max(len(label.encode()) for label in labels)


def _require_kind(name: str, column: Any, attribute: Attribute | None, longest: int | None) -> None:
    """Refuse a column of another type, or with labels that are longer than the attribute's.

    ``attribute`` is None for a coded column, ``longest`` for an attribute without labels.
    """
    kind = column.type
    if attribute is None or longest is None:
        wanted = pa.float64() if attribute is None else decoded_type(attribute)
        if kind != wanted and (attribute is None or not accepts(attribute, kind)):
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
"""Errors of Arrow's readers on damaged files."""


def _opened(path: Path, schema: Schema, form: Form) -> tuple[Any, Iterator[Any]]:
    """Return the Arrow schema, and the batches still to be read."""
    try:
        if path.suffix == ".csv":
            reader = _csv_reader(path, schema, form)
            return reader.schema, iter(reader)
        if path.suffix == ".parquet":
            with _mapped(path) as content:
                require_small_pages(content)
            footer = pa.parquet.read_metadata(str(path))
            # Labels are never written out for every row, even if the file claims otherwise.
            names = [footer.schema.column(i).name for i in range(footer.num_columns)]
            file = pa.parquet.ParquetFile(
                str(path), page_checksum_verification=False, read_dictionary=names
            )
            list(file.schema_arrow.names)  # decodes them here, where a name that is no text fails
            return file.schema_arrow, file.iter_batches()
        with _mapped(path) as content:
            require_plain_arrow(content)
        with pa.OSFile(str(path)) as source:
            reader = pa.ipc.open_file(source.read_buffer())
        list(reader.schema.names)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        return reader.schema, _validated(batches)
    except _READING as error:
        raise _unreadable(path, error) from error


def _csv_reader(path: Path, schema: Schema, form: Form) -> Any:
    """Open a CSV file of our writer, with numbers, dates and labels by the study's schema."""
    kinds = dict.fromkeys(_list_columns(schema, form), pa.float64())
    for attribute in schema.attributes if form is Form.DECODED else ():
        if isinstance(attribute, Date):
            kinds[attribute.name] = pa.date32()
        elif list_labels(attribute) is not None:
            kinds[attribute.name] = pa.string()
    # Numbers are float64 here, whole ones too: rows of 0.1.0 write a missing one as `nan`.
    options = pa.csv.ConvertOptions(column_types=kinds, null_values=[""], strings_can_be_null=True)
    return pa.csv.open_csv(str(path), convert_options=options)


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


def _require_label(fields: Any) -> None:
    """Refuse a file whose own label says that it may not leave; a CSV file has none."""
    try:
        inside = json.loads((fields.metadata or {}).get(METADATA_KEY, b"{}"))
        label = inside.get("label", Label.RELEASED.value)
    except (ValueError, AttributeError, RecursionError) as error:
        raise AlteredError("the label in the table cannot be read") from error
    if label != Label.RELEASED.value:
        raise ReceiptError(f"the table says inside that it is {label}")


def _list_columns(schema: Schema, form: Form) -> list[str]:
    if form is Form.CODED:
        return list(schema.column_names)
    return [attribute.name for attribute in schema.attributes]
