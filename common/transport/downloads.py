"""Reception of a result file and its envelope from a curator, which is not trusted."""

from collections.abc import Callable, Iterable

from dppca.common.kernel.attestation.envelopes import SignedFile
from dppca.common.kernel.attestation.results import largest_envelope, largest_result
from dppca.common.kernel.errors import LimitError, UploadError
from dppca.common.kernel.study import Study
from dppca.common.transport.codec import Reassembly
from dppca.common.wire import federation_pb2 as pb


def receive_result(
    parts: Iterable[pb.DownloadComponentsResponse],
    study: Study,
    *,
    total_bytes: int,
    sha256: bytes,
    received: Callable[[int], None] | None = None,
) -> SignedFile:
    """Return the result file, checked for the announced size and digest, and its envelope.

    ``sha256`` is the file's digest, 32 bytes; ``received`` is called with the size of each piece.
    Raise `LimitError` if the announced or received size is larger than any result of this study,
    and `UploadError` if the received content differs from the announced one.
    """
    whole = Reassembly(total_bytes=total_bytes, sha256=sha256, cap=largest_result(study))
    # No lists: a piece may have one byte.
    envelope, content, most = bytearray(), bytearray(), largest_envelope(study)
    for part in parts:
        if part.envelope:
            envelope += part.envelope
            if len(envelope) > most:
                raise LimitError(f"an envelope of this study has at most {most} bytes")
        elif part.WhichOneof("part") == "chunk":
            piece = whole.add(part.chunk)
            content += piece
            if received is not None:
                received(len(piece))
        else:
            raise UploadError("a message of the download is empty")
    whole.finish()
    return SignedFile(bytes(content), bytes(envelope))
