"""Bytes of every message: a line with its kind, then parts, each after its length.

A sequence of parts has exactly one form and a form exactly one sequence, so digests and signatures
over these bytes are unambiguous. Lengths are 4 bytes, big-endian.
"""

from collections.abc import Sequence

from dppca.common.kernel.errors import LimitError, UploadError

_LENGTH = 4  # bytes of a length


def frame(kind: str, *parts: bytes) -> bytes:
    """Join parts to one sequence of bytes; ``kind`` is ASCII without a line feed."""
    return _head(kind) + frame_parts(*parts)


def frame_parts(*parts: bytes) -> bytes:
    """Return the part of `frame` after its first line; also for further parts of a message."""
    pieces: list[bytes] = []
    for part in parts:
        pieces += [len(part).to_bytes(_LENGTH, "big"), part]
    return b"".join(pieces)


def unframe(kind: str, content: bytes, limits: Sequence[int]) -> list[bytes]:
    """Return the parts of a framed message; ``limits`` has the most bytes of each part.

    Raise `LimitError` if the whole, or a part, is larger than its limit, and `UploadError` if the
    message has another kind, is incomplete, or is too long.
    """
    head = _head(kind)
    largest = len(head) + sum(limits) + _LENGTH * len(limits)
    if len(content) > largest:
        raise LimitError(f"a {kind} has {len(content):,} bytes; {largest:,} are allowed")
    parts = unframe_head(kind, content, limits)
    size = len(head) + sum(map(len, parts)) + _LENGTH * len(parts)
    if size != len(content):
        raise UploadError(f"a {kind} is {len(content) - size} bytes too long")
    return parts


def unframe_head(kind: str, content: bytes, limits: Sequence[int]) -> list[bytes]:
    """Return the first parts of a framed message, as many as limits; raise as `unframe`."""
    head = _head(kind)
    if not content.startswith(head):
        raise UploadError(f"these bytes are not a {kind} of version 1")
    parts, at = [], len(head)
    for limit in limits:
        begin = at + _LENGTH
        length = int.from_bytes(content[at:begin], "big")
        at = begin + length
        if at > len(content):
            raise UploadError(f"a {kind} is incomplete")
        if length > limit:
            raise LimitError(f"a part of a {kind} has {length:,} bytes; {limit:,} are allowed")
        parts.append(content[begin:at])
    return parts


def _head(kind: str) -> bytes:
    return f"dppca {kind} 1\n".encode("ascii")
