"""Downloaded synthetic rows as a file of the kind its name says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from common.conversation import METADATA_KEY
from common.errors import ArtefactError, SettingError
from common.proof.signatures import Signer
from common.proof.tables import SUFFIXES, ColumnDigests, sealed_writer
from common.schema.document import canonical_json

FORMATS = (*SUFFIXES, ".csv")


def require_format(path: Path) -> None:
    """`SettingError` unless the name ends in one of `FORMATS`."""
    if path.suffix not in FORMATS:
        message = f"{path.name} must end in one of {', '.join(FORMATS)}"
        raise SettingError(message)


def write_table(stream: Path, output: Path, signer: Signer) -> int:
    """Rewrite an Arrow IPC stream, batch by batch, and seal it; returns the number of rows.

    The stream's receipt gets the digests of its columns. CSV has no place for either.

    Raises
    ------
    ArtefactError
        The stream is damaged.
    SettingError
        The output cannot be written.
    """
    n_rows = 0
    draft = output.with_name(f".{output.name}.part")
    try:
        draft.unlink(missing_ok=True)
        schema = _with_digests(stream)
        with (
            pa.memory_map(str(stream)) as source,
            pa.ipc.open_stream(source) as reader,
            _writer(draft, output.suffix, schema, signer) as writer,
        ):
            for batch in reader:
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))
                n_rows += batch.num_rows
        draft.replace(output)
    except (pa.ArrowException, OSError) as error:
        # Arrow reports damaged streams as OSError too, but only a system call sets its number.
        if isinstance(error, OSError) and error.errno is not None:
            message = f"cannot write {output}: {error.strerror}"
            raise SettingError(message) from error
        message = "the download is not a sound Arrow stream: run the command again"
        raise ArtefactError(message) from error
    finally:
        draft.unlink(missing_ok=True)
    return n_rows


def _with_digests(stream: Path) -> Any:
    """The stream's schema, its receipt completed by the digests of the columns."""
    with pa.memory_map(str(stream)) as source, pa.ipc.open_stream(source) as reader:
        digests = ColumnDigests(reader.schema.names)
        for batch in reader:
            digests.add(batch)
        try:
            document = json.loads((reader.schema.metadata or {})[METADATA_KEY])
            receipt = canonical_json({**document, "parts": digests.hexdigests()})
        except (KeyError, ValueError, TypeError) as error:
            message = "the download carries no receipt: run the command again"
            raise ArtefactError(message) from error
        return reader.schema.with_metadata({METADATA_KEY: receipt})


@contextmanager
def _writer(path: Path, suffix: str, schema: pa.Schema, signer: Signer) -> Iterator[Any]:
    if suffix == ".csv":
        with pa.csv.CSVWriter(str(path), schema) as writer:
            yield writer
    else:
        with sealed_writer(path, suffix, schema, signer, mode=0o666) as sealed:
            yield sealed
