"""Tables that a site writes, each with its label inside.

Parquet and Arrow files, and the Arrow streams that are published, carry a JSON document under the
key ``dppca`` of their schema's metadata; its ``label`` states if the rows may leave. CSV has no
place for it: a CSV file without an envelope is for use at the site.

A file appears under its name only when it is complete: it is written beside it and renamed,
readable by its owner only.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from dppca.common.kernel.attestation.signatures import Signer
from dppca.common.kernel.attestation.table_files import (
    TableWriter,
    labelled_writer,
    signed_writer,
    with_metadata,
)
from dppca.common.kernel.attestation.tables import SUFFIXES
from dppca.common.kernel.documents.messages import METADATA_KEY
from dppca.common.kernel.durable.files import PRIVATE, replacing
from dppca.common.kernel.errors import ArtefactError, SettingError
from dppca.common.kernel.privacy.labels import Label, require_released

_GROUP_ROWS, _GROUP_BYTES = 1 << 16, 1 << 26
"""A row group ends once it has reached one of them."""


@contextmanager
def open_writer(path: Path, fields: Any, metadata: Mapping[str, object]) -> Iterator[TableWriter]:
    """Write a table batch by batch; the file appears under its name once all went well.

    The suffix of ``path`` decides the format. ``fields`` is an Arrow schema; ``metadata`` has at
    least ``label``. Raise `SettingError` if the suffix is of no format, the file cannot be written,
    or a spreadsheet would run a cell of the CSV file.
    """
    if path.suffix not in SUFFIXES:
        raise SettingError(f"the output {path.name} must end in one of {', '.join(SUFFIXES)}")
    schema = with_metadata(fields, metadata)
    try:
        with (
            replacing(path, durable=False) as draft,
            labelled_writer(draft, path.suffix, schema, mode=PRIVATE) as writer,
        ):
            yield writer
    except OSError as error:
        raise SettingError(
            f"the output {path} cannot be written: {error.strerror or error}"
        ) from error


def write_released(
    path: Path,
    batches: Iterable[Any],
    signer: Signer,
    *,
    fields: Any,
    claims: Mapping[str, object],
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write a table batch by batch, signed by this site.

    ``batches`` are ``pyarrow.RecordBatch`` of the columns ``fields``, an Arrow schema without
    metadata; several make a row group of the file. ``claims`` are the table's. ``progress`` is
    called with the number of rows written since its last call. Raise `LabelError`, with nothing
    written, if the table may not leave; raise `SettingError` if the file cannot be written.
    """
    require_released(_label(claims), "the table")
    try:
        with signed_writer(path, fields, claims, signer, mode=PRIVATE) as writer:
            for group in _groups(batches):
                for batch in pa.Table.from_batches(group, fields).combine_chunks().to_batches():
                    writer.write(batch)
                    if progress is not None:
                        progress(batch.num_rows)
    except OSError as error:
        raise SettingError(
            f"the output {path} cannot be written: {error.strerror or error}"
        ) from error


@contextmanager
def publishable(path: Path) -> Iterator[BufferedRandom]:
    """Open a releasable Parquet table as an uncompressed Arrow IPC stream in a file without a name.

    Raise `LabelError` if the table's own label is not `released`, `ArtefactError` if it has none,
    `SettingError` if there is no room for the stream beside the file.
    """
    document = read_metadata(path)
    require_released(_label(document), "the table")
    with TemporaryFile(dir=path.parent) as sink:
        try:
            with pa.parquet.ParquetFile(str(path)) as file:
                schema = with_metadata(file.schema_arrow, document)
                with pa.ipc.new_stream(sink, schema) as writer:
                    # One reader for each: a reader keeps all row groups that it has read.
                    for group in range(file.num_row_groups):
                        for batch in file.iter_batches(row_groups=[group]):
                            writer.write_batch(batch.replace_schema_metadata(schema.metadata))
            sink.flush()
        except OSError as error:
            raise SettingError(f"{path} cannot be published: {error.strerror or error}") from error
        yield sink


def read_metadata(path: Path) -> dict[str, object]:
    """Document inside a Parquet or Arrow file of this software; `ArtefactError` if none."""
    try:
        if path.suffix == ".parquet":
            return parse_metadata(pa.parquet.read_schema(path))
        with pa.OSFile(str(path)) as source:
            return parse_metadata(pa.ipc.open_file(source).schema)
    except (pa.ArrowException, OSError) as error:
        raise ArtefactError(
            f"{path} is not a Parquet or Arrow file of this software, or is damaged"
        ) from error


def parse_metadata(schema: Any) -> dict[str, object]:
    """Document in an Arrow schema; raise `ArtefactError` if there is none."""
    try:
        document = json.loads((schema.metadata or {})[METADATA_KEY])
    except (KeyError, ValueError) as error:
        raise ArtefactError(
            "the table has no label of this software inside, so it is not one of its own"
        ) from error
    if not isinstance(document, dict):
        raise ArtefactError("the table's label is damaged")
    return document


def _groups(batches: Iterable[Any]) -> Iterator[list[Any]]:
    group: list[Any] = []
    for batch in batches:
        group.append(batch)
        if (
            sum(each.num_rows for each in group) >= _GROUP_ROWS
            or sum(each.nbytes for each in group) >= _GROUP_BYTES
        ):
            yield group
            group = []
    if group:
        yield group


def _label(document: Mapping[str, object]) -> Label:
    try:
        return Label(str(document.get("label")))
    except ValueError as error:
        raise ArtefactError("the table's label is not one that this version knows") from error
