"""Downloaded synthetic rows as a file of the kind its name says.

The curator is not believed about the stream: its headers are judged first
(`dppca.curator.study.row_streams`), and every batch is validated before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.signatures import Signer
from dppca.common.attestation.tables import SUFFIXES, ColumnDigests, require_claims, sealed_writer
from dppca.common.documents.messages import METADATA_KEY
from dppca.common.errors import ArtefactError, SettingError, UploadError
from dppca.common.schema.document import MAX_COLUMNS, canonical_json
from dppca.common.shell.csv_tables import CsvWriter
from dppca.common.shell.files import replacing
from dppca.common.study import MAX_OWNERS
from dppca.curator.study.row_streams import FAULTS, check_messages

FORMATS = (*SUFFIXES, ".csv")
_UNSOUND = "the download is not a sound Arrow stream: run the command again"


def require_format(path: Path) -> None:
    """`SettingError` unless the name ends in one of `FORMATS`."""
    if path.suffix not in FORMATS:
        raise SettingError(f"{path.name} must end in one of {', '.join(FORMATS)}")


def require_proved(stream: Path, *, ca: bytes) -> None:
    """Check a downloaded stream before it is rewritten and sealed: nobody signs unread claims.

    Parameters
    ----------
    ca
        PEM of the authority that certified the parties.

    Raises
    ------
    ArtefactError
        The stream is damaged, or would be more work than its size.
    ReceiptError, SignatureError, AlteredError
        What it claims does not follow from signed components.
    """
    _check_headers(stream)
    try:
        with pa.memory_map(str(stream)) as source, pa.ipc.open_stream(source) as reader:
            document = json.loads((reader.schema.metadata or {}).get(METADATA_KEY, b"{}"))
    except FAULTS as error:
        raise ArtefactError(_UNSOUND) from error
    if not isinstance(document, dict):
        raise ArtefactError(_UNSOUND)
    require_claims({**document, "parts": {}}, KnownParties(ca))


def write_table(stream: Path, output: Path, signer: Signer) -> int:
    """Rewrite an Arrow IPC stream, batch by batch, and seal it; returns the number of rows.

    The stream's receipt gets the digests of its columns. CSV has no place for either.

    Raises
    ------
    ArtefactError
        The stream is damaged.
    SettingError
        The output cannot be written, or a spreadsheet would run a cell of the CSV file.
    """
    n_rows = 0
    try:
        _check_headers(stream)
        schema = _add_digests(stream)
        with (
            replacing(output, durable=False) as draft,
            pa.memory_map(str(stream)) as source,
            pa.ipc.open_stream(source) as reader,
            _writer(draft, output.suffix, schema, signer) as writer,
        ):
            for batch in reader:
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))
                n_rows += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        # Arrow reports damaged streams as OSError too, but only a system call sets its number.
        if isinstance(error, OSError) and error.errno is not None:
            raise SettingError(f"cannot write {output}: {error.strerror}") from error
        raise ArtefactError(_UNSOUND) from error
    return n_rows


def _check_headers(stream: Path) -> None:
    """`ArtefactError` where the stream is more work than its size; owners end in small batches."""
    try:
        check_messages(stream, n_columns=MAX_COLUMNS, small_batches=MAX_OWNERS)
    except UploadError as error:
        raise ArtefactError(f"{_UNSOUND} ({error})") from error
    except FAULTS as error:
        raise ArtefactError(_UNSOUND) from error


def _add_digests(stream: Path) -> Any:
    """The stream's schema, its receipt completed by the digests of the columns."""
    with pa.memory_map(str(stream)) as source, pa.ipc.open_stream(source) as reader:
        digests = ColumnDigests(reader.schema.names)
        for batch in reader:
            batch.validate(full=True)
            digests.add(batch)
        try:
            document = json.loads((reader.schema.metadata or {})[METADATA_KEY])
            receipt = canonical_json({**document, "parts": digests.hexdigests()})
        except (KeyError, ValueError, TypeError) as error:
            raise ArtefactError("the download carries no receipt: run the command again") from error
        return reader.schema.with_metadata({METADATA_KEY: receipt})


@contextmanager
def _writer(path: Path, suffix: str, schema: pa.Schema, signer: Signer) -> Iterator[Any]:
    if suffix == ".csv":
        with CsvWriter(str(path), schema) as writer:
            yield writer
    else:
        with sealed_writer(path, suffix, schema, signer, mode=0o666) as sealed:
            yield sealed
