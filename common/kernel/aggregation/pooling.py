"""The curator's steps: take uploads, show a set, take openings, add up.

The curator is trusted only to be available: an opener repeats every check. The checks here find
mistakes early and name the responsible party.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.aggregation.sum_messages import (
    Opening,
    SealedSet,
    SignedOpening,
    SignedSeal,
    Upload,
    require_same_set,
    require_signed,
    set_digest,
)
from dppca.common.kernel.aggregation.terms import GUARDS, Terms
from dppca.common.kernel.errors import ConflictError, GarbledSumError, UploadError
from dppca.common.kernel.signing import Purpose

LARGEST = 1 << 62
"""Bound on the entries of a pooled vector; a random word exceeds it with probability one half."""


def require_upload(terms: Terms, upload: Upload, payload_sha256: bytes | None = None) -> None:
    """Raise unless an upload is exactly what its owner signed under these terms.

    ``payload_sha256`` is the digest of the masked vector, 32 bytes, if the upload is in memory
    without it. Raise `PermissionDeniedError` if the terms do not name its owner, `SignatureError`
    if the owner's key did not sign it, and `UploadError` if its parts do not match its statement.
    """
    statement = upload.statement
    content = statement.to_bytes()
    require_signed(terms, statement.owner, Purpose.UPLOAD, content, upload.signature)
    sealed = tuple(hashlib.sha256(seal).digest() for seal in upload.seals)
    payload = payload_sha256 or hashlib.sha256(upload.payload).digest()
    if (
        statement.terms.hex() != terms.digest
        or statement.payload_sha256 != payload
        or statement.seals_sha256 != sealed
    ):
        raise UploadError(f"the upload of {statement.owner} is not what its statement says")


def show_set(terms: Terms, uploads: Sequence[Upload], *, opener: str) -> SealedSet:
    """Return a set of uploads for one opener; `PermissionDeniedError` if it is no opener."""
    terms.opener_key(opener)
    place = terms.openers.index(opener)
    ordered = sorted(uploads, key=lambda upload: upload.statement.owner)
    return SealedSet(
        opener,
        tuple(SignedSeal(each.statement, each.signature, each.seals[place]) for each in ordered),
    )


def require_opening(terms: Terms, chosen: str, opening: Opening | SignedOpening) -> None:
    """Raise unless an opener opened streams that it holds over the set with this digest.

    Raise `PermissionDeniedError` if the sender is no opener, `SignatureError` if the opener's key
    did not sign it, `ConflictError` if it is for another set or study, and `UploadError` if it
    names streams that the opener does not hold, or one twice.
    """
    terms.opener_key(opening.opener)
    require_same_set(terms, chosen, opening)
    require_signed(terms, opening.opener, Purpose.OPENING, opening.signed(), opening.signature)
    ascending = all(before < after for before, after in pairwise(opening.streams))
    if not ascending or not set(opening.streams) <= set(terms.held(opening.opener)):
        raise UploadError(f"the opening of {opening.opener} names streams that it does not hold")


def unmask(
    terms: Terms, uploads: Iterable[Upload], openings: Iterable[Opening]
) -> NDArray[np.int64]:
    """Return the sum over a set, ``(n_entries,)``: the owners' vectors added modulo 2^64.

    Raise `ConflictError` if an opening belongs to another set, or a stream is missing or there
    twice, and `GarbledSumError` if the result is not a sum of vectors with guards of zero, or an
    entry is 2^62 or more. ``uploads`` are exactly the set, in any order, each passed
    `require_upload`; each is read once, before the next one is taken, so the next may use the same
    memory. ``openings`` are taken likewise, each passed `require_opening`; together they have every
    stream once.
    """
    words = np.zeros(terms.n_words, np.uint64)
    statements = []
    for upload in uploads:
        statements.append(upload.statement)
        words += np.frombuffer(upload.payload, "<u8")
    chosen = set_digest(sorted(statements, key=lambda each: each.owner))
    opened: list[int] = []
    for opening in openings:
        require_same_set(terms, chosen, opening)
        opened += opening.streams
        words += np.frombuffer(opening.total, "<u8")
    if sorted(opened) != list(range(len(terms.holders))):
        raise ConflictError("the openings do not have every stream once")
    total = words.view(np.int64)
    if total[-GUARDS:].any() or (total >= LARGEST).any() or (total <= -LARGEST).any():
        raise GarbledSumError(
            "the openings do not fit the uploads: an owner or an opener did not follow the "
            "protocol; the sum says nothing"
        )
    return total[:-GUARDS]
