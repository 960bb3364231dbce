"""Check of an Arrow IPC stream's message headers before any decoding.

A reader of Arrow works for every message, for every column of a batch, and again for the
dictionaries to which a batch refers. A stream can cause far more work than its bytes suggest:
batches without rows, many batches of a row each, a large dictionary beside small batches, buffers
that all lie in the same place, compressed ones. So the headers are read first, which takes some
microseconds for each, and reading ends at the first that passes a limit:

- a stream is one schema, then record batches and whole dictionaries, neither compressed;
- a header is small (`HEADER_BYTES`);
- every batch has rows, and all but `SMALL_BATCHES` have `BATCH_ROWS` on average;
- the buffers of a batch lie side by side: together they are not longer than its body;
- no more dictionaries come than the batches so far can have used, and the dictionaries that
  batches refer to are, each counted for every batch, not many times the bytes so far
  (`DICTIONARY_WORK`).

So the work for a stream grows with its bytes. Writers put all rows of a table into one batch, or
65,536 and more, and are far from every limit.

Source: Apache Arrow columnar format, "IPC streaming format" and ``Message.fbs``.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dppca.common.kernel.attestation.file_headers import field, follow, is_compressed
from dppca.common.kernel.errors import UploadError

HEADER_BYTES, HEADER_BYTES_PER_COLUMN = 1 << 16, 1 << 12
"""Largest header of a stream and of each batch; a million columns in a small file would take
gigabytes of memory.
"""
BATCH_ROWS, SMALL_BATCHES = 4096, 64  # on average, but for some batches
DICTIONARY_WORK, DICTIONARY_WORK_FREE = 4, 64 << 20
"""Limit on processed bytes of dictionaries: per byte of the stream, plus an allowance."""
_SCHEMA, _DICTIONARY_BATCH, _RECORD_BATCH = 1, 2, 3  # kinds of Arrow's messages
_BUFFER = struct.Struct("<qq")

FAULTS = (pa.ArrowException, OSError, struct.error, IndexError, ValueError, RecursionError)
"""Exceptions from reading a manipulated stream."""


@dataclass(frozen=True, slots=True)
class MessageHeader:
    """Header of one message.

    ``kind`` is as in ``Message.fbs``; ``n_rows`` counts the rows of a record batch, or the values
    of a dictionary; ``n_bytes`` is the size of the body, and ``buffer_bytes`` of all buffers that
    the header declares; ``dictionary`` is the identifier of a dictionary, None for a record batch;
    ``delta`` means that its values are added to those so far.
    """

    kind: int
    n_rows: int = 0
    n_bytes: int = 0
    buffer_bytes: int = 0
    dictionary: int | None = None
    delta: bool = False
    compressed: bool = False


def check_messages(path: Path, *, n_columns: int, small_batches: int = SMALL_BATCHES) -> int:
    """Return the rows of all batches according to their headers.

    ``small_batches`` is the number of batches that may have fewer than `BATCH_ROWS` rows. Raise
    `UploadError` for a stream that would need more work or memory than its size justifies, and one
    of `FAULTS` if the file is no such stream.
    """
    n_rows = n_batches = n_dictionaries = work = 0
    dictionaries: dict[int, int] = {}
    for number, (header, position) in enumerate(_headers(path, n_columns=n_columns)):
        _require_plain(header, first=number == 0)
        if header.dictionary is not None:
            n_dictionaries += 1
            dictionaries[header.dictionary] = header.n_bytes
            if n_dictionaries > n_columns * (n_batches + 1):
                raise UploadError(f"{n_dictionaries} dictionaries for {n_batches} batches")
        elif header.kind == _RECORD_BATCH:
            n_batches += 1
            n_rows += header.n_rows
            work += sum(dictionaries.values())
            if header.n_rows < 1 or n_batches > small_batches + n_rows // BATCH_ROWS:
                raise UploadError(
                    f"{n_batches} batches for {n_rows} rows: write at least {BATCH_ROWS} to a batch"
                )
            if work > DICTIONARY_WORK_FREE + DICTIONARY_WORK * position:
                raise UploadError(
                    f"{n_batches} small batches with {work // n_batches} bytes of labels"
                )
    return n_rows


def _require_plain(header: MessageHeader, *, first: bool) -> None:
    if (header.kind == _SCHEMA) is not first or (
        header.kind not in {_SCHEMA, _DICTIONARY_BATCH, _RECORD_BATCH}
    ):
        raise UploadError("the Arrow stream is not one schema and its batches")
    if header.compressed:
        raise UploadError("the Arrow stream is compressed: write it without compression")
    if header.delta:
        raise UploadError("the Arrow stream adds to its dictionaries: write each of them whole")
    if header.buffer_bytes > header.n_bytes:
        raise UploadError(
            f"buffers of {header.buffer_bytes} bytes in a message of {header.n_bytes}"
        )


def _headers(path: Path, *, n_columns: int) -> Iterator[tuple[MessageHeader, int]]:
    cap = HEADER_BYTES + HEADER_BYTES_PER_COLUMN * n_columns
    with pa.memory_map(str(path)) as source:
        while True:
            try:
                message = pa.ipc.read_message(source)
            except EOFError:
                return
            if message.metadata.size > cap:
                raise UploadError(
                    f"the Arrow stream describes itself in {message.metadata.size} bytes, of {cap}"
                )
            yield read_header(message.metadata.to_pybytes()), source.tell()


def read_header(metadata: bytes) -> MessageHeader:
    """Parse a message's header; raise one of `FAULTS` if the bytes are none."""

    def number(table: int, index: int, form: str) -> int:
        place = field(metadata, table, index)
        return 0 if place is None else int(struct.unpack_from(form, metadata, place)[0])

    def child(table: int, index: int) -> int:
        place = field(metadata, table, index)
        if place is None:
            raise ValueError("a table is missing")
        return follow(metadata, place)

    message = follow(metadata, 0)
    kind, n_bytes = number(message, 1, "<B"), number(message, 3, "<q")
    if kind not in {_DICTIONARY_BATCH, _RECORD_BATCH}:
        return MessageHeader(kind, n_bytes=n_bytes)
    outer = batch = child(message, 2)
    values = kind == _DICTIONARY_BATCH
    if values:
        batch = child(outer, 1)
    buffers = child(batch, 2)
    (count,) = struct.unpack_from("<I", metadata, buffers)
    pairs = _BUFFER.iter_unpack(metadata[buffers + 4 : buffers + 4 + _BUFFER.size * count])
    return MessageHeader(
        kind,
        n_rows=number(batch, 0, "<q"),
        n_bytes=n_bytes,
        buffer_bytes=sum(max(0, length) for _, length in pairs),
        dictionary=number(outer, 0, "<q") if values else None,
        delta=values and bool(number(outer, 2, "<B")),
        compressed=is_compressed(metadata),
    )
