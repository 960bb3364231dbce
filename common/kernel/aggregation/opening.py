"""An opener's steps: check a set, vote for it, open it; only one set, ever.

``bound`` is the digest of the set for which this opener key has voted, or which it has opened; None
before. The caller keeps it with the key, for every study: it stores a vote's set before it sends
the vote; it stores `Sums` with their set, destroys the key, and only then answers. For the same set
an opener always gives the same bytes; it refuses any other set, from any caller.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from dppca.common.kernel.aggregation.masking import seal_info
from dppca.common.kernel.aggregation.seals import OpenerKey
from dppca.common.kernel.aggregation.streams import SEED_BYTES, add_stream
from dppca.common.kernel.aggregation.sum_messages import (
    Opening,
    SealedSet,
    SignedSeal,
    Vote,
    require_signed,
    require_vote,
)
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.errors import IdentityError, OpeningRefusedError, SealError
from dppca.common.kernel.signing import Purpose, sign


@dataclass(frozen=True, slots=True)
class Sums:
    """Each of an opener's streams, summed over one set.

    ``set_digest`` is hexadecimal; ``totals`` has, by stream, ``n_words`` little-endian words, and
    is not shown.
    """

    set_digest: str
    totals: tuple[tuple[int, bytes], ...] = field(repr=False)


def vote(
    terms: Terms,
    shown: SealedSet,
    *,
    opener: str,
    secret: OpenerKey,
    key: ec.EllipticCurvePrivateKey,
    bound: str | None,
) -> Vote:
    """Check a set and vote for it; raise as `open_set`. If ``spares`` is 0, no vote is needed."""
    _require_set(terms, shown, opener, secret, bound)
    unsigned = Vote(terms.digest, shown.digest, opener, b"")
    return replace(unsigned, signature=sign(key, Purpose.VOTE, unsigned.signed()))


def open_set(
    terms: Terms,
    shown: SealedSet,
    votes: Iterable[Vote],
    *,
    opener: str,
    secret: OpenerKey,
    bound: str | None,
) -> Sums:
    """Sum the masks of a set.

    ``votes`` has at least `Terms.votes_needed` votes of different openers for this set.

    Raises
    ------
    OpeningRefusedError
        Another set was voted for or opened, or this one is below the quorum, names an owner twice,
        is for another opener, or has too few votes.
    SealError
        A seal does not belong to its owner, this opener and these terms.
    SignatureError
        A statement or vote is not signed by the key in the terms.
    PermissionDeniedError
        The terms do not name an owner or opener.
    IdentityError
        The terms name another opener key than the given one.
    ConflictError
        A vote is for another set or study.
    """
    seeds = _require_set(terms, shown, opener, secret, bound)
    _require_votes(terms, shown.digest, votes)
    totals = []
    for place, stream in enumerate(terms.held(opener)):
        total = np.zeros(terms.n_words, np.uint64)
        for owner, each in seeds:
            seed = each[SEED_BYTES * place : SEED_BYTES * (place + 1)]
            add_stream(total, terms, seed, owner=owner, stream=stream)
        totals.append((stream, total.astype("<u8", copy=False).tobytes()))
    return Sums(shown.digest, tuple(totals))


def answer(
    terms: Terms,
    sums: Sums,
    wanted: Sequence[int],
    *,
    opener: str,
    key: ec.EllipticCurvePrivateKey,
) -> Opening:
    """Sum the wanted streams and sign the sum, which is sent.

    Any choice of streams is safe, because they belong to one set. Raise `OpeningRefusedError` if
    this opener does not hold a wanted stream or the streams do not ascend.
    """
    totals = dict(sums.totals)
    if not wanted or any(before >= after for before, after in pairwise(wanted)):
        raise OpeningRefusedError("wanted streams must be in ascending order, one at least")
    total = np.zeros(terms.n_words, np.uint64)
    for stream in wanted:
        if stream not in totals:
            raise OpeningRefusedError(f"stream {stream} is not held by {opener}")
        total += np.frombuffer(totals[stream], "<u8")
    unsigned = Opening(
        terms.digest,
        sums.set_digest,
        opener,
        tuple(wanted),
        total.astype("<u8", copy=False).tobytes(),
    )
    return replace(unsigned, signature=sign(key, Purpose.OPENING, unsigned.signed()))


def _require_set(
    terms: Terms, shown: SealedSet, opener: str, secret: OpenerKey, bound: str | None
) -> list[tuple[str, bytes]]:
    """Return owners of a set with the seeds sealed to this opener; raise as `open_set`."""
    if terms.opener_key(opener) != secret.public:
        raise IdentityError(f"the study names another opener key for {opener} than the one at hand")
    if shown.opener != opener:
        raise OpeningRefusedError(f"this set is for {shown.opener}, not for {opener}")
    if bound is not None and bound != shown.digest:
        raise OpeningRefusedError(f"the key of {opener} has voted for, or opened, another set")
    owners = [entry.statement.owner for entry in shown.entries]
    if any(before >= after for before, after in pairwise(owners)):
        raise OpeningRefusedError("owners of a set must be in ascending order, each once")
    if len(owners) < terms.quorum:
        raise OpeningRefusedError(
            f"a set of {len(owners)} owners is below the quorum of {terms.quorum}"
        )
    place = terms.openers.index(opener)
    return [
        (entry.statement.owner, _require_seal(terms, entry, opener, place, secret))
        for entry in shown.entries
    ]


def _require_seal(
    terms: Terms, entry: SignedSeal, opener: str, place: int, secret: OpenerKey
) -> bytes:
    statement = entry.statement
    require_signed(terms, statement.owner, Purpose.UPLOAD, statement.to_bytes(), entry.signature)
    if statement.terms.hex() != terms.digest:
        raise OpeningRefusedError(f"the upload of {statement.owner} is of another study")
    if hashlib.sha256(entry.seal).digest() != statement.seals_sha256[place]:
        raise SealError(f"the seal of {statement.owner} is not the one that it signed")
    try:
        seeds = secret.unseal(entry.seal, seal_info(terms, statement.owner, opener))
    except SealError as error:
        raise SealError(f"the seal of {statement.owner} does not open for {opener}") from error
    if len(seeds) != SEED_BYTES * len(terms.held(opener)):
        raise SealError(f"the seal of {statement.owner} holds {len(seeds)} bytes")
    return seeds


def _require_votes(terms: Terms, chosen: str, votes: Iterable[Vote]) -> None:
    openers = set()
    for each in votes:
        require_vote(terms, chosen, each)
        openers.add(each.opener)
    if len(openers) < terms.votes_needed:
        raise OpeningRefusedError(
            f"{len(openers)} openers have voted for this set; {terms.votes_needed} must"
        )
