"""Writer for downloaded synthetic rows; the file's suffix sets its format.

The stream is not trusted: its headers are checked first (`dppca.curator.study.row_streams`), and
every batch is validated before it is used.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.signatures import Signer
from dppca.common.kernel.attestation.table_files import signed_writer
from dppca.common.kernel.attestation.tables import SUFFIXES, require_claims
from dppca.common.kernel.documents.messages import METADATA_KEY
from dppca.common.kernel.durable.files import SHARED
from dppca.common.kernel.errors import ArtefactError, SettingError, UploadError
from dppca.common.kernel.schema.document import MAX_COLUMNS
from dppca.common.kernel.study import MAX_OWNERS
from dppca.curator.study.row_streams import FAULTS, check_messages

_UNSOUND = "the download is not a sound Arrow stream: run the command again"


def require_format(path: Path) -> None:
    """Raise `SettingError` unless the name ends in one of `SUFFIXES`."""
    if path.suffix not in SUFFIXES:
        raise SettingError(f"{path.name} must end in one of {', '.join(SUFFIXES)}")


def require_proved(stream: Path, *, ca: bytes) -> None:
    """Verify a downloaded stream's claims before it is rewritten and signed.

    ``ca`` is the PEM of the authority that certified the parties. Raise `ArtefactError` if the
    stream is damaged, or would need more work than its size justifies, and `ReceiptError`,
    `SignatureError` or `AlteredError` if its claims do not follow from signed components.
    """
    _check_headers(stream)
    try:
        with pa.memory_map(str(stream)) as source, pa.ipc.open_stream(source) as reader:
            claims = _claims(reader.schema)
    except FAULTS as error:
        raise ArtefactError(_UNSOUND) from error
    require_claims(claims, KnownParties(ca))


def write_table(stream: Path, output: Path, signer: Signer) -> int:
    """Rewrite an Arrow IPC stream batch by batch and sign it; return the number of rows.

    Raise `ArtefactError` if the stream is damaged, and `SettingError` if the output cannot be
    written, or a spreadsheet would run a cell of the CSV file.
    """
    n_rows = 0
    try:
        _check_headers(stream)
        with (
            pa.memory_map(str(stream)) as source,
            pa.ipc.open_stream(source) as reader,
            signed_writer(
                output, reader.schema, _claims(reader.schema), signer, mode=SHARED
            ) as writer,
        ):
            for batch in reader:
                batch.validate(full=True)
                writer.write(batch)
                n_rows += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        # Arrow reports damaged streams as OSError too, but only a system call sets its errno.
        if isinstance(error, OSError) and error.errno is not None:
            raise SettingError(f"cannot write {output}: {error.strerror}") from error
        raise ArtefactError(_UNSOUND) from error
    return n_rows


def _claims(schema: Any) -> dict[str, object]:
    """Read a stream's claims about its rows; raise `ArtefactError` if they are unreadable."""
    try:
        document = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    except ValueError as error:
        raise ArtefactError(_UNSOUND) from error
    if not isinstance(document, dict):
        raise ArtefactError(_UNSOUND)
    return document


def _check_headers(stream: Path) -> None:
    """Bound the work that a stream causes; each owner's rows may end in a small batch."""
    try:
        check_messages(stream, n_columns=MAX_COLUMNS, small_batches=MAX_OWNERS)
    except UploadError as error:
        raise ArtefactError(f"{_UNSOUND} ({error})") from error
    except FAULTS as error:
        raise ArtefactError(_UNSOUND) from error
