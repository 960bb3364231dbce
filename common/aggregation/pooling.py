"""What the curator does: take uploads, show a set, take openings, add up.

The curator is not trusted with more than to be there: an opener checks again whatever it is shown.
These checks find mistakes early and say whose they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dppca.common.aggregation.messages import (
    Opening,
    SealedSet,
    SignedSeal,
    Upload,
    require_same_set,
    require_signed,
    set_digest,
)
from dppca.common.aggregation.terms import GUARDS, Terms
from dppca.common.errors import (
    ConflictError,
    GarbledSumError,
    NotReadyError,
    UploadError,
)
from dppca.common.signing import Purpose

LARGEST = 1 << 62
"""No entry of a pooled vector is as large; random words are, one in two."""


def require_upload(terms: Terms, upload: Upload) -> None:
    """Raise unless an upload is what its owner signed under these terms.

    Raises
    ------
    PermissionDeniedError, SignatureError
        It is of nobody in the terms, or not signed by the owner's key.
    UploadError
        Its parts are not what its statement says.
    """
    said = upload.statement
    content = said.to_bytes()
    require_signed(terms, said.owner, Purpose.UPLOAD, content, upload.signature)
    sealed = tuple(hashlib.sha256(seal).digest() for seal in upload.seals)
    if (
        said.terms.hex() != terms.digest
        or said.payload_sha256 != hashlib.sha256(upload.payload).digest()
        or said.seals_sha256 != sealed
    ):
        raise UploadError(f"the upload of {said.owner} is not what its statement says")


def show_set(terms: Terms, uploads: Sequence[Upload], *, opener: str) -> SealedSet:
    """A set of uploads as one opener is shown it; `PermissionDeniedError` if it is none."""
    terms.opener_key(opener)
    place = terms.openers.index(opener)
    ordered = sorted(uploads, key=lambda upload: upload.statement.owner)
    return SealedSet(
        opener,
        tuple(SignedSeal(each.statement, each.signature, each.seals[place]) for each in ordered),
    )


def require_opening(terms: Terms, chosen: str, opening: Opening) -> None:
    """Raise unless an opener opened streams that it holds over the set with this digest.

    Raises
    ------
    PermissionDeniedError, SignatureError
        It is of no opener, or not signed by the opener's key.
    ConflictError
        It is for another set or study.
    UploadError
        It names streams that the opener does not hold, or one twice.
    """
    terms.opener_key(opening.opener)
    require_same_set(terms, chosen, opening)
    require_signed(terms, opening.opener, Purpose.OPENING, opening.signed(), opening.signature)
    ascending = all(before < after for before, after in pairwise(opening.streams))
    if not ascending or not set(opening.streams) <= set(terms.held(opening.opener)):
        raise UploadError(f"the opening of {opening.opener} names streams that it does not hold")


def share_out(terms: Terms, present: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Which of the present openers is asked for which streams: each stream of one of its holders.

    Raises
    ------
    NotReadyError
        More openers are missing than the spares.
    """
    missing = [opener for opener in terms.openers if opener not in present]
    if len(missing) > terms.spares:
        raise NotReadyError(
            f"openers that have not come: {', '.join(missing)}; {terms.spares} may be missing"
        )
    shares: dict[str, list[int]] = {opener: [] for opener in terms.openers if opener in present}
    for stream, holders in enumerate(terms.holders):
        least = min(
            (opener for opener in holders if opener in shares),
            key=lambda opener: len(shares[opener]),
        )
        shares[least].append(stream)
    return {opener: tuple(streams) for opener, streams in shares.items() if streams}


def unmask(
    terms: Terms, uploads: Sequence[Upload], openings: Sequence[Opening]
) -> NDArray[np.int64]:
    """The sum over a set; ``(n_entries,)``, the owners' vectors added modulo 2^64.

    Parameters
    ----------
    uploads
        Exactly the set, in any order; each passed `require_upload`.
    openings
        Each passed `require_opening`; together they have every stream once.

    Raises
    ------
    ConflictError
        An opening is of another set, or a stream is missing or there twice.
    GarbledSumError
        What comes out is not a sum of vectors with guards of zero, or an entry is 2^62 or more.
    """
    ordered = sorted((upload.statement for upload in uploads), key=lambda each: each.owner)
    chosen = set_digest(ordered)
    for opening in openings:
        require_same_set(terms, chosen, opening)
    opened = sorted(stream for opening in openings for stream in opening.streams)
    if opened != list(range(len(terms.holders))):
        raise ConflictError("the openings do not have every stream once")
    words = np.zeros(terms.n_words, np.uint64)
    for part in (*(each.payload for each in uploads), *(each.total for each in openings)):
        words += np.frombuffer(part, "<u8")
    total = words.view(np.int64)
    if total[-GUARDS:].any() or (total >= LARGEST).any() or (total <= -LARGEST).any():
        raise GarbledSumError(
            "the openings do not fit the uploads: an owner or an opener did not follow the "
            "protocol; the sum says nothing"
        )
    return total[:-GUARDS]
