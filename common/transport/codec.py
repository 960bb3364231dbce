"""Conversion of messages to values, and back.

Received data is not trusted: lengths, offsets and digests are checked while bytes arrive, and
limits before they are stored.
"""

import hashlib
import mmap
import typing
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from datetime import datetime
from decimal import Decimal
from types import NoneType
from typing import Any, BinaryIO, TypeVar

from google.protobuf.message import Message

from dppca.common.kernel.documents.amounts import parse_positive
from dppca.common.kernel.documents.messages import Form as Form
from dppca.common.kernel.documents.messages import StudyState as StudyState
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.durable.clock import read_unix_time
from dppca.common.kernel.errors import LimitError, PeerError, UploadError
from dppca.common.transport.channels import CHUNK_BYTES
from dppca.common.wire import federation_pb2 as pb

DIGEST_BYTES = 32  # of SHA-256
MOST_VALUES = 100_000
"""Most values of a list in one message: empty ones take two bytes there, and hundreds here."""

_Value = TypeVar("_Value")

_STATES = {
    StudyState.OPEN: pb.STUDY_STATE_OPEN,
    StudyState.SEALED: pb.STUDY_STATE_SEALED,
    StudyState.DECOMPOSED: pb.STUDY_STATE_DECOMPOSED,
    StudyState.CLOSED: pb.STUDY_STATE_CLOSED,
    StudyState.ABORTED: pb.STUDY_STATE_ABORTED,
}
_FORMS = {
    Form.CODED: pb.SYNTHETIC_FORM_CODED,
    Form.DECODED: pb.SYNTHETIC_FORM_DECODED,
}


def state_to_wire(state: StudyState) -> pb.StudyState.ValueType:
    """Return the enum value of a state."""
    return _STATES[state]


def state_from_wire(value: int) -> StudyState:
    """Return the state of an enum value; `UploadError` for one unknown to this version."""
    for state, number in _STATES.items():
        if number == value:
            return state
    raise UploadError(f"unknown state {value}: the other side speaks a newer protocol")


def form_to_wire(form: Form) -> pb.SyntheticForm.ValueType:
    """Return the enum value of a form."""
    return _FORMS[form]


def form_from_wire(value: int) -> Form:
    """Return the form of an enum value; `UploadError` for one unknown to this version."""
    for form, number in _FORMS.items():
        if number == value:
            return form
    raise UploadError(f"unknown form of synthetic rows {value}")


def read_message(kind: type[_Value], message: Message) -> _Value:
    """Read the fields of a message into a dataclass with fields of the same names.

    Text becomes one line, bytes become hexadecimal digits if the field is text, and a time is read
    from the message's ``NAME_s``, seconds since 1970 UTC. A decimal is an amount of privacy. An
    empty value becomes None if the field allows None.

    Raise `PeerError` for a time outside the calendar or an amount that no study can have,
    `UploadError` for an unknown state, and `LimitError` for a list of more than `MOST_VALUES`.
    """
    hints = typing.get_type_hints(kind)
    return kind(**{name: _read_field(hint, message, name) for name, hint in hints.items()})


def _read_field(hint: Any, message: Message, name: str) -> Any:
    kinds = [each for each in typing.get_args(hint) if each is not NoneType] or [hint]
    if typing.get_origin(hint) is tuple:
        values = getattr(message, name)
        if len(values) > MOST_VALUES:
            raise LimitError(
                f"{name} of the other side's answer has more than {MOST_VALUES} values"
            )
        return tuple(_read_value(kinds[0], each) for each in values)
    value = getattr(message, f"{name}_s" if kinds[0] is datetime else name)
    return None if kinds[0] is not hint and not value else _read_value(kinds[0], value)


def _read_value(kind: Any, value: Any) -> Any:
    if is_dataclass(kind):
        return read_message(typing.cast("type[Any]", kind), value)
    if kind is datetime:
        return read_unix_time(value)
    if kind is StudyState:
        return state_from_wire(value)
    if kind is Decimal:
        return _read_amount(value)
    if kind is str:
        return value.hex() if isinstance(value, bytes) else one_line(value)
    return kind(value)


def _read_amount(text: str) -> Decimal:
    try:
        return parse_positive(text)
    except ValueError as error:
        raise PeerError(
            f"the other side named an amount that no study can have: it {error}"
        ) from error


def contribution_parts(
    *,
    payload: bytes,
    envelope: bytes,
    ledger_length: int,
    ledger_head: bytes,
    sent: Callable[[int], None] | None = None,
) -> Iterator[pb.ContributeRequest]:
    """Yield a stored release as the messages of one `Contribute` call.

    ``payload`` are the bytes in the ledger, never anything recomputed; ``envelope`` contains the
    receipt, signed by the owner; ``sent`` is called with the size of every chunk that was taken.
    """
    yield pb.ContributeRequest(
        header=pb.ContributionHeader(
            envelope=envelope,
            total_bytes=len(payload),
            ledger_length=ledger_length,
            ledger_head=ledger_head,
        )
    )
    checkpoint("send")
    for offset in range(0, len(payload), CHUNK_BYTES):
        part = pb.ContributeRequest()  # filled in place: assigning a chunk would copy it
        part.chunk.offset = offset
        part.chunk.content = content = payload[offset : offset + CHUNK_BYTES]
        yield part
        if sent is not None:
            sent(len(content))


def chunks(file: BinaryIO) -> Iterator[pb.Chunk]:
    """Cut a file into chunks of `CHUNK_BYTES`, in order; its read position does not move.

    A second call may read the same file before the first is at its end. Raise `ValueError` for an
    empty file.
    """
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for offset in range(0, len(content), CHUNK_BYTES):
            yield pb.Chunk(offset=offset, content=content[offset : offset + CHUNK_BYTES])


class ChunkVerifier:
    """Checks of the chunks of a content on arrival: size and offset, not yet their bytes.

    Pass every chunk to `take`, keep the result, and pass the digest of all of it to
    `require_whole`: only then is the content as its header announced.
    """

    def __init__(self, *, total_bytes: int, sha256: bytes, cap: int) -> None:
        if total_bytes > cap:
            raise LimitError(f"{total_bytes} bytes are announced; {cap} are allowed")
        self._total = total_bytes
        self._expected = sha256
        self._received = 0

    def take(self, chunk: pb.Chunk) -> bytes:
        """Check one chunk and return its bytes; `UploadError` if it is not the next."""
        content = chunk.content  # every access copies
        if chunk.offset != self._received:
            raise UploadError(
                f"a chunk begins at byte {chunk.offset}; {self._received} was expected"
            )
        if not 0 < len(content) <= CHUNK_BYTES:
            raise UploadError(f"a chunk has {len(content)} bytes; 1 to {CHUNK_BYTES} are allowed")
        if self._received + len(content) > self._total:
            raise UploadError(f"more than the {self._total} bytes announced have come")
        self._received += len(content)
        return content

    def require_whole(self, sha256: bytes) -> None:
        """Raise `UploadError` unless the announced content is complete and unchanged.

        ``sha256`` is the digest, 32 bytes, of everything that `take` has returned.
        """
        if self._received != self._total:
            raise UploadError(f"the content ends after {self._received} of {self._total} bytes")
        if sha256 != self._expected:
            raise UploadError("the content does not have the digest announced")


class Reassembly(ChunkVerifier):
    """Reassembly of a content from chunks, with its digest; keeps no bytes itself.

    Pass every chunk to `add`, write the result, and call `finish`: only then is the content as its
    header announced.
    """

    def __init__(self, *, total_bytes: int, sha256: bytes, cap: int) -> None:
        super().__init__(total_bytes=total_bytes, sha256=sha256, cap=cap)
        self._hash = hashlib.sha256()

    def add(self, chunk: pb.Chunk) -> bytes:
        """Check one chunk and return its bytes; `UploadError` if it is not the next."""
        content = self.take(chunk)
        self._hash.update(content)
        return content

    def finish(self) -> None:
        """Raise `UploadError` unless the announced content is complete and unchanged."""
        self.require_whole(self._hash.digest())
